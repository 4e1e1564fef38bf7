#![no_main]

unspoken_fuzz::fuzz!(unspoken_fuzz::rlwe::ROUNDED_CIPHERTEXT);
