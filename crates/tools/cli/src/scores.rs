//! Formatting of decrypted numbers. Their last digits contain the encryption error, which depends on the secret key.

use std::io::{self, BufRead};

use serde_json::{Map, Value, json};
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
    /// The numbers of an answer as printed, for this bound of the encryption error: rounded to a power of ten that the
    /// error rarely reaches. Rounding is for readability. It hides the error only if no number is close to the middle
    /// between two steps.
    pub fn printed(&self, error: f64, numbers: impl IntoIterator<Item = f64>) -> Vec<f64> {
        let exponent = (MARGIN * error).log10().ceil() as i32;
        numbers.into_iter().map(|number| if self.raw { number } else { rounded(number, exponent) }).collect()
    }
}

/// Bound of the error of the numbers of a service with this header.
pub fn error_of(header: &CkksHeader) -> f64 {
    header.error_bound().unwrap_or((header.bound() * UNKNOWN_ERROR).max(header.least_error()))
}

/// Options of commands that classify messages.
#[derive(clap::Args)]
pub struct LabelOptions {
    /// Print one JSON object per message instead of label and text; scores are rounded so that the encryption error
    /// rarely changes a digit
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    scores: ScoreOptions,
    /// Add noise to the scores that exceeds the encryption error by this many bits, so that they can be shared
    #[arg(long, value_name = "BITS")]
    pub share: Option<u32>,
    /// Messages; standard input if none are given
    messages: Vec<String>,
}

impl LabelOptions {
    /// The messages: the arguments, or the lines of standard input.
    pub fn messages(&self) -> io::Result<Vec<String>> {
        match self.messages.as_slice() {
            [] => io::stdin().lock().lines().collect(),
            given => Ok(given.to_vec()),
        }
    }

    /// Prints the label of a message, or label and scores as JSON, for scores with this bound of the error and these
    /// labels.
    pub fn print(&self, error: f64, labels: &[String], message: &str, label: &str, scores: &[f64]) {
        if !self.json {
            println!("{label}\t{message}");
            return;
        }
        let scores = self.scores.printed(error, scores.iter().copied());
        let scores: Map<String, Value> = labels.iter().cloned().zip(scores.into_iter().map(Into::into)).collect();
        println!("{}", json!({ "label": label, "scores": scores }));
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
    use unspoken_ckks::Preset;
    use unspoken_protocol::Protocol;
    use unspoken_rlwe::KeyPlan;

    use super::*;

    #[test]
    fn no_digit_below_the_clients_own_bound_is_printed() {
        let parameters = Preset::find("insecure_n11_linear_depth4_scale30").unwrap().build().unwrap();
        let protocol = Protocol { kind: "test", version: 1 };
        let header = |bound| CkksHeader::new(protocol, &parameters, &[0; 16], KeyPlan::new(), "plan".into(), bound);
        // A service that claims no error, and one that claims no error bound and tiny numbers.
        for header in [header(2.0).with_error_bound(1e-300), header(1e-300)] {
            assert!((1e-7..1e-6).contains(&header.least_error()), "{:e}", header.least_error());
            let printed = ScoreOptions { raw: false }.printed(error_of(&header), [0.123_456_789]);
            assert_eq!(printed, [0.1235]);
        }
    }

    #[test]
    fn small_and_large_scores_keep_their_digits() {
        let parameters = Preset::find("insecure_n11_depth9_scale50").unwrap().build().unwrap();
        let printed = |exponent: i32, error, score| {
            let protocol = Protocol { kind: "test", version: 1 };
            let header = CkksHeader::new(protocol, &parameters, &[0; 16], KeyPlan::new(), "plan".into(), 10.0 * score);
            let header = header.with_unit(f64::from(exponent).exp2()).with_error_bound(error);
            ScoreOptions { raw: false }.printed(error_of(&header), [score])[0]
        };
        assert_eq!(printed(-30, 1e-14, 1.234_567_89e-8), 1.235e-8);
        assert_eq!(printed(20, 1.0, 1_234_567.0), 1_235_000.0);
        // A service that does not know its error.
        assert_eq!(printed(-30, 0.0, 1.234_567_89e-8), 1.2e-8);
    }

    #[test]
    fn numbers_are_rounded_to_powers_of_ten() {
        assert_eq!(rounded(-2.7155, -2), -2.72);
        assert_eq!(rounded(0.299_999_99, -3).to_string(), "0.3");
        assert_eq!(rounded(1234.5, 2), 1200.0);
        assert_eq!(rounded(-0.001, -2).to_string(), "0");
    }
}
