#![no_main]

unspoken_fuzz::fuzz!(unspoken_fuzz::texts::ENRON_SPAM_MAILS);
