#![no_main]

unspoken_fuzz::fuzz!(unspoken_fuzz::rlwe::SMALL_RING_KEYS);
