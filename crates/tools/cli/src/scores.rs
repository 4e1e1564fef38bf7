//! How decrypted numbers are printed. Their last digits carry the error of the encryption, which depends on the secret
//! key.

use unspoken_protocol::CkksHeader;

/// How far the last printed digit lies above the bound of the error.
const MARGIN: f64 = 128.0;

/// The error, relative to the bound of the numbers, that is assumed of a service that does not know it.
const UNKNOWN_ERROR: f64 = 1.0 / (1 << 16) as f64;

/// The bound that is assumed of a service that states 0: numbers up to this pass its check.
const LEAST_BOUND: f64 = 1e-6;

/// How decrypted numbers are printed.
#[derive(clap::Args)]
pub struct ScoreOptions {
    /// Print numbers with all their digits: with the error of the encryption, from which the secret key can be computed
    /// if many are shared
    #[arg(long)]
    raw: bool,
}

impl ScoreOptions {
    /// The numbers of an answer of a service with this header, as they are printed: rounded to a power of ten that the
    /// error of the encryption hardly reaches. That is for reading: it hides an error only as long as no number is near
    /// the middle of two steps.
    pub fn printed(&self, header: &CkksHeader, numbers: impl IntoIterator<Item = f64>) -> Vec<f64> {
        let exponent = last_digit(header.error_bound(), header.bound());
        numbers.into_iter().map(|number| if self.raw { number } else { rounded(number, exponent) }).collect()
    }
}

/// The power of ten of the last printed digit.
fn last_digit(error: Option<f64>, bound: f64) -> i32 {
    let error = error.unwrap_or(bound.max(LEAST_BOUND) * UNKNOWN_ERROR);
    (MARGIN * error).log10().ceil() as i32
}

/// The multiple of `10^exponent` that is nearest.
fn rounded(number: f64, exponent: i32) -> f64 {
    // A quotient of whole numbers is the double that prints shortest.
    let result = if exponent < 0 {
        let places = 10f64.powi(-exponent);
        (number * places).round() / places
    } else {
        let step = 10f64.powi(exponent);
        (number / step).round() * step
    };
    // No negative zero, nor what a service without a bound would make of it.
    if result.is_finite() { result + 0.0 } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_digit_follows_from_the_error_or_the_bound() {
        assert_eq!(last_digit(Some(1e-6), 10.0), -3);
        assert_eq!(last_digit(None, 1.0), -2);
        assert_eq!(last_digit(None, 0.0), -8);
        assert_eq!(rounded(1.23e-7, last_digit(None, 0.0)), 1.2e-7);
    }

    #[test]
    fn numbers_are_rounded_to_powers_of_ten() {
        assert_eq!(rounded(-2.7155, -2), -2.72);
        assert_eq!(rounded(0.299_999_99, -3).to_string(), "0.3");
        assert_eq!(rounded(1234.5, 2), 1200.0);
        assert_eq!(rounded(-0.001, -2).to_string(), "0");
    }
}
