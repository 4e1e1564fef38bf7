#![no_main]

unspoken_fuzz::fuzz!(unspoken_fuzz::arrays_service::QUERY);
