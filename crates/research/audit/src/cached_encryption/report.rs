//! Findings of an audit.

use serde::Serialize;

use crate::attack::Procedure;
use crate::cached_encryption::modes::Mode;
use crate::space::MessageSpace;

/// A mode counts as broken if a fair coin guesses as well, or as badly, with a probability of at most `2^-30`. This
/// is also the probability, per attack, that the guesses wrongly mark a sound mode as broken. Recovered messages can
/// do so too ([`Finding::is_as_claimed`]).
pub const SIGNIFICANCE_BITS: f64 = 30.0;

/// All findings of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Number of games per finding.
    pub trials: usize,
    /// One finding per scheme, mode and attack.
    pub findings: Vec<Finding>,
}

/// Result of one attack on one mode of one scheme.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// CKKS, BFV or BGV.
    pub scheme: String,
    /// The encryption mode.
    pub mode: String,
    /// Whether that mode is claimed to be sound.
    pub claimed_sound: bool,
    /// The attack: difference or span.
    pub attack: String,
    /// The parameter set.
    pub params: String,
    /// Ring degree.
    pub n: usize,
    /// Bits of the modulus.
    pub log2_q: f64,
    /// Number of messages known to the attacker.
    pub known_messages: usize,
    /// Number of games.
    pub trials: usize,
    /// Number of games in which the attacker named the right one of two messages.
    pub right: usize,
    /// `|2 right / trials - 1|`.
    pub advantage: f64,
    /// `log2` of the probability that a fair coin does as well, or as badly.
    pub log2_chance: f64,
    /// Number of games in which the attacker recovered every number of the message to within one half.
    pub recovered: usize,
    /// Largest error of a recovered number, over all games.
    pub worst_error: f64,
    /// Whether the guesses are statistically significant: [`SIGNIFICANCE_BITS`].
    pub broken: bool,
    /// Example: the first game.
    pub example: Option<Example>,
}

/// An example: the attacker's knowledge, the encrypted message, and the recovered message.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Example {
    /// The first known message.
    pub known: Vec<f64>,
    /// The secret message.
    pub secret: Vec<f64>,
    /// The message that the attacker recovered from its ciphertext.
    pub read: Vec<f64>,
}

impl Finding {
    pub(super) fn new(
        space: &MessageSpace,
        (mode, procedure, known_messages): (Mode, Procedure, usize),
        [right, recovered, trials]: [usize; 3],
        worst_error: f64,
        example: Option<Example>,
    ) -> Self {
        let log2_chance = log2_chance(right, trials);
        Finding {
            scheme: space.scheme().to_string(),
            mode: mode.to_string(),
            claimed_sound: mode.is_sound(),
            attack: procedure.to_string(),
            params: space.rlwe().name().into(),
            n: space.ring().degree(),
            log2_q: space.rlwe().log2_modulus(space.basis()),
            known_messages,
            trials,
            right,
            advantage: (2.0 * right as f64 / trials as f64 - 1.0).abs(),
            log2_chance,
            recovered,
            worst_error,
            broken: log2_chance <= -SIGNIFICANCE_BITS,
            example,
        }
    }

    /// Whether the finding matches the claim about the mode. For a broken mode, the advantage is 1 and every message
    /// is recovered; for a sound mode, there is no significant advantage and no message is recovered.
    ///
    /// For a sound mode, [`Span`](crate::attack::Span) returns a number that is uniform modulo the first prime: in each
    /// game it equals the message with a probability of about `2^-30`. This is the probability of a wrong accusation,
    /// in addition to the probability of [`SIGNIFICANCE_BITS`].
    pub fn is_as_claimed(&self) -> bool {
        if self.claimed_sound {
            !self.broken && self.recovered == 0
        } else {
            self.broken && self.right == self.trials && self.recovered == self.trials
        }
    }
}

impl Report {
    /// Whether every finding matches the claim about its mode.
    pub fn is_as_claimed(&self) -> bool {
        self.findings.iter().all(Finding::is_as_claimed)
    }
}

/// `log2 Pr[|X - trials/2| >= |right - trials/2|]` for the number `X` of heads of `trials` fair coins; at most 0.
fn log2_chance(right: usize, trials: usize) -> f64 {
    let extreme = right.max(trials - right);
    // Pr[X = k] relative to Pr[X = trials], summed in order of increasing terms.
    let mut binomial = 0.0;
    let mut sum = f64::NEG_INFINITY;
    for k in (extreme..=trials).rev() {
        sum = log2_add(sum, binomial);
        binomial += (k as f64 / (trials - k + 1) as f64).log2();
    }
    (sum + 1.0 - trials as f64).min(0.0)
}

fn log2_add(a: f64, b: f64) -> f64 {
    let (small, large) = if a < b { (a, b) } else { (b, a) };
    large + (small - large).exp2().ln_1p() / std::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances_are_those_of_fair_coins() {
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} and {b}");
        near(log2_chance(10, 10), -9.0);
        near(log2_chance(0, 10), -9.0);
        near(log2_chance(9, 10), (22.0f64 / 1024.0).log2());
        near(log2_chance(5, 10), 0.0);
        near(log2_chance(4096, 4096), -4095.0);
        // A known tail: Pr[X >= 60] of 100 is 0.0284439668.
        near((log2_chance(60, 100).exp2() / 2.0 * 1e10).round() / 1e10, 0.028_443_966_8);
    }
}
