#![no_main]

unspoken_fuzz::fuzz!(unspoken_fuzz::texts::DRUG_REVIEWS);
