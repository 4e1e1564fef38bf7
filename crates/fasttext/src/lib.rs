//! A fastText-style text classifier over compressed subtables, and its trainer. Knows nothing of encryption.
