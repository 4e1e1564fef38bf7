#![no_main]

unspoken_fuzz::fuzz!(unspoken_fuzz::llama_service::PART);
