#![no_main]

unspoken_fuzz::fuzz!(unspoken_fuzz::embed::SHORT_QUERY);
