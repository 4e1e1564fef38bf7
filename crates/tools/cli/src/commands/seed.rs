//! Seeds of training.

/// A seed, for clap: with an error that says what a seed is, also for negative numbers.
pub fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("needed a whole number from 0 to {}", u64::MAX))
}
