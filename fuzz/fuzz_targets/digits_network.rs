#![no_main]

unspoken_fuzz::fuzz!(unspoken_fuzz::digits_network::FILES_OF_NETWORK);
