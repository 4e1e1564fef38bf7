#![no_main]

unspoken_fuzz::fuzz!(unspoken_fuzz::embedding::LINEAR_HEAD);
