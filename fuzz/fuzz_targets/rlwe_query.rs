#![no_main]

unspoken_fuzz::fuzz!(unspoken_fuzz::rlwe::COMPACT_QUERY);
