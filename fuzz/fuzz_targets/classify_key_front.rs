#![no_main]

unspoken_fuzz::fuzz!(unspoken_fuzz::classify::KEY_FRONT);
