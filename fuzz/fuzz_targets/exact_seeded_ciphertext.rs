#![no_main]

unspoken_fuzz::fuzz!(unspoken_fuzz::exact::SEEDED_CIPHERTEXT);
