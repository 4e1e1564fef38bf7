#![no_main]

unspoken_fuzz::fuzz!(unspoken_fuzz::rlwe::PUBLIC_KEY);
