//! Formatting of decrypted numbers. Their last digits contain the encryption error, which depends on the secret key.

use serde_json::{Map, Value, json};
use unspoken_protocol::CkksHeader;

use crate::input;

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
    #[command(flatten)]
    share: ShareOptions,
    /// Messages; standard input if none are given
    messages: Vec<String>,
}

/// Probability below which a label counts as decided by noise.
const MIN_CERTAINTY: f64 = 0.95;

/// Options of commands whose answers can be shared.
#[derive(clap::Args)]
pub struct ShareOptions {
    /// Add noise to the scores that exceeds the encryption error by this many bits, so that they can be shared. Labels
    /// then follow from the noisy scores. Each label is printed with a lower bound of the probability that the exact
    /// scores give the same label. If the bound is below 0.95, no label is printed, and the command ends with an error
    #[arg(long, value_name = "BITS")]
    share: Option<u32>,
    /// With --share, print labels that the noise may have decided
    #[arg(long, requires = "share")]
    uncertain: bool,
}

impl ShareOptions {
    /// Answers with noise, if they are to be shared, and a lower bound of the probability that each label is right.
    /// Without noise the answers are as they are.
    pub fn shared<A, E: std::error::Error + Send + Sync + 'static>(
        &self,
        answers: Vec<A>,
        share: impl FnOnce(&[A], u32) -> Result<Vec<A>, E>,
        certainty: impl Fn(&A, u32) -> Result<f64, E>,
    ) -> anyhow::Result<Vec<(A, Option<f64>)>> {
        let Some(bits) = self.share else { return Ok(answers.into_iter().map(|answer| (answer, None)).collect()) };
        let noisy = share(&answers, bits)?.into_iter().map(|answer| {
            let certainty = certainty(&answer, bits)?;
            Ok((answer, Some(certainty)))
        });
        Ok(noisy.collect::<Result<Vec<_>, E>>()?)
    }

    /// Whether a label is not printed, because noise may have decided it.
    pub fn withholds(&self, certainty: Option<f64>) -> bool {
        !self.uncertain && certainty.is_some_and(|certainty| certainty < MIN_CERTAINTY)
    }

    /// The error of a command that has printed some answers without their labels. Whether it comes depends on the
    /// answers, so it must not make anybody ask again.
    pub fn check(&self, certainties: impl ExactSizeIterator<Item = Option<f64>>) -> anyhow::Result<()> {
        let count = certainties.len();
        let withheld = certainties.filter(|certainty| self.withholds(*certainty)).count();
        anyhow::ensure!(
            withheld == 0,
            "found labels that noise of {} bits may have decided, {withheld} of {count}, and printed '?' for them; \
             needed a probability of at least {MIN_CERTAINTY} that each is right. Do not ask a service again because \
             of this; later share with fewer bits, or allow such labels with --uncertain",
            self.share.unwrap_or(0)
        );
        Ok(())
    }
}

impl LabelOptions {
    /// The messages: the arguments, or the lines of standard input.
    pub fn messages(&self) -> anyhow::Result<Vec<String>> {
        match self.messages.as_slice() {
            [] => input::lines("messages"),
            given => Ok(given.to_vec()),
        }
    }

    /// How answers are shared.
    pub fn share(&self) -> &ShareOptions {
        &self.share
    }

    /// Prints the label of a message, or label and scores as JSON, for scores with this bound of the error and these
    /// labels; with the certainty of the label if the scores have noise.
    pub fn print(&self, error: f64, labels: &[String], message: &str, found: &Labelled<'_>) {
        let Labelled { label, scores, certainty } = *found;
        let label = if self.share.withholds(certainty) { None } else { Some(label) };
        if !self.json {
            let label = label.unwrap_or("?");
            match certainty {
                Some(certainty) => println!("{label}\t{certainty:.2}\t{message}"),
                None => println!("{label}\t{message}"),
            }
            return;
        }
        let scores = self.scores.printed(error, scores.iter().copied());
        let scores: Map<String, Value> = labels.iter().cloned().zip(scores.into_iter().map(Into::into)).collect();
        let mut line = json!({ "label": label, "scores": scores });
        if let Some(certainty) = certainty {
            line["certainty"] = rounded(certainty, -3).into();
        }
        println!("{line}");
    }
}

/// A label, the scores from which it follows, and how certain it is under the noise.
pub struct Labelled<'a> {
    /// The label.
    pub label: &'a str,
    /// One score for each label.
    pub scores: &'a [f64],
    /// A lower bound of the probability that the label is right, if the scores have noise.
    pub certainty: Option<f64>,
}

/// The nearest multiple of `10^exponent`.
pub fn rounded(number: f64, exponent: i32) -> f64 {
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
    fn labels_that_noise_decided_are_withheld_unless_asked_for() {
        let share = |bits, uncertain, answers: &[f64]| {
            let options = ShareOptions { share: bits, uncertain };
            let certainty = |answer: &f64, _| Ok::<_, std::io::Error>(*answer);
            let shared = options.shared(answers.to_vec(), |answers, _| Ok(answers.to_vec()), certainty).unwrap();
            let certainties: Vec<Option<f64>> = shared.into_iter().map(|(_, certainty)| certainty).collect();
            let withheld: Vec<bool> = certainties.iter().map(|certainty| options.withholds(*certainty)).collect();
            (withheld, options.check(certainties.into_iter()).map_err(|error| error.to_string()))
        };
        assert_eq!(share(None, false, &[0.1]), (vec![false], Ok(())));
        assert_eq!(share(Some(9), false, &[0.96, 1.0]), (vec![false; 2], Ok(())));
        assert_eq!(share(Some(9), true, &[0.2]), (vec![false], Ok(())));
        let (withheld, error) = share(Some(9), false, &[0.96, 0.2]);
        assert_eq!(withheld, [false, true]);
        let error = error.unwrap_err();
        assert!(error.contains("noise of 9 bits may have decided, 1 of 2") && error.contains("--uncertain"), "{error}");
    }

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
