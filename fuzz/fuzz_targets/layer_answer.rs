#![no_main]

unspoken_fuzz::fuzz!(unspoken_fuzz::layer::ANSWER);
