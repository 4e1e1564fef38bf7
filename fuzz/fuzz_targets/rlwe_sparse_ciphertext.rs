#![no_main]

unspoken_fuzz::fuzz!(unspoken_fuzz::rlwe::SPARSE_CIPHERTEXT);
