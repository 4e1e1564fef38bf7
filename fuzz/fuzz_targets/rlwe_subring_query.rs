#![no_main]

unspoken_fuzz::fuzz!(unspoken_fuzz::rlwe::SUBRING_QUERY);
