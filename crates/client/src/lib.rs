//! The asking side: makes keys, uploads them, asks, reads answers.
