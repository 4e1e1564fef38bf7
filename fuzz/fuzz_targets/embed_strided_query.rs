#![no_main]

unspoken_fuzz::fuzz!(unspoken_fuzz::embed::STRIDED_QUERY);
