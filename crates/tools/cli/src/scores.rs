//! Formatting of decrypted numbers. Their last digits contain the encryption error, which depends on the secret key.

use unspoken_protocol::CkksHeader;

/// Factor between the last printed digit and the bound of the error.
const MARGIN: f64 = 128.0;

/// Assumed error, relative to the bound of the numbers, for a service that does not know its error.
const UNKNOWN_ERROR: f64 = 1.0 / (1 << 16) as f64;

/// Options for printing decrypted numbers.
#[derive(clap::Args)]
pub struct ScoreOptions {
    /// Print all digits. They include the encryption error; from many shared answers, the secret key can be computed
    #[arg(long)]
    raw: bool,
}

impl ScoreOptions {
    /// The numbers of an answer as printed, for a service with this header: rounded to a power of ten that the
    /// encryption error rarely reaches. Rounding is for readability. It hides the error only if no number is close to
    /// the middle between two steps.
    pub fn printed(&self, header: &CkksHeader, numbers: impl IntoIterator<Item = f64>) -> Vec<f64> {
        let error = header.error_bound().unwrap_or(header.bound() * UNKNOWN_ERROR);
        let exponent = (MARGIN * error).log10().ceil() as i32;
        numbers.into_iter().map(|number| if self.raw { number } else { rounded(number, exponent) }).collect()
    }
}

/// The nearest multiple of `10^exponent`.
fn rounded(number: f64, exponent: i32) -> f64 {
    // A quotient of integers is the double with the shortest decimal form.
    let result = if exponent < 0 {
        let places = 10f64.powi(-exponent);
        (number * places).round() / places
    } else {
        let step = 10f64.powi(exponent);
        (number / step).round() * step
    };
    // Avoid negative zero, and non-finite results for a service without a bound.
    if result.is_finite() { result + 0.0 } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_to_powers_of_ten() {
        assert_eq!(rounded(-2.7155, -2), -2.72);
        assert_eq!(rounded(0.299_999_99, -3).to_string(), "0.3");
        assert_eq!(rounded(1234.5, 2), 1200.0);
        assert_eq!(rounded(-0.001, -2).to_string(), "0");
    }
}
