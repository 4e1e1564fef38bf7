#![no_main]

unspoken_fuzz::fuzz!(unspoken_fuzz::sums::REQUEST);
