#![no_main]

unspoken_fuzz::fuzz!(unspoken_fuzz::digits_network::IDX);
