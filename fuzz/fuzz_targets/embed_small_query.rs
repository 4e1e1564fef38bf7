#![no_main]

unspoken_fuzz::fuzz!(unspoken_fuzz::embed::SMALL_QUERY);
