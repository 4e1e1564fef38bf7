//! How well decrypted logits agree with the logits of the model in the clear.

use crate::error::larger_error;

/// Logits of several tokens beside the logits of the model in the clear.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Agreement {
    /// Tokens that were compared.
    pub(super) tokens: usize,
    /// Those whose most likely next token is the same.
    pub(super) same: usize,
    /// Largest error of a logit.
    pub(super) logit_error: f64,
    /// Sum of the Kullback-Leibler divergences from the model in the clear, in nats.
    divergence: f64,
    /// Smallest distance in the clear between the two most likely tokens.
    pub(super) least_margin: Option<f64>,
    /// Largest such distance where the most likely token differs; 0 if it never does.
    pub(super) largest_lost_margin: f64,
}

impl Agreement {
    /// Adds the logits of a token.
    pub(super) fn add(&mut self, found: &[f32], clear: &[f32]) {
        let (own, reference) = (log_softmax(found), log_softmax(clear));
        let best = largest(&reference);
        let rest = reference.iter().enumerate().filter(|(place, _)| *place != best);
        let margin = reference[best] - rest.fold(f64::NEG_INFINITY, |most, (_, value)| most.max(*value));
        self.tokens += 1;
        if largest(&own) == best {
            self.same += 1;
        } else {
            self.largest_lost_margin = self.largest_lost_margin.max(margin);
        }
        self.least_margin = Some(self.least_margin.map_or(margin, |least| least.min(margin)));
        self.divergence += reference.iter().zip(&own).map(|(p, q)| p.exp() * (p - q)).sum::<f64>();
        let errors = found.iter().zip(clear).map(|(a, b)| f64::from((a - b).abs()));
        self.logit_error = errors.fold(self.logit_error, larger_error);
    }

    /// Mean divergence in nats.
    pub(super) fn mean_divergence(&self) -> f64 {
        self.divergence / self.tokens as f64
    }

    /// Share of the tokens whose most likely next token is the same.
    pub(super) fn share(&self) -> f64 {
        self.same as f64 / self.tokens as f64
    }
}

fn log_softmax(logits: &[f32]) -> Vec<f64> {
    let most = logits.iter().fold(f32::NEG_INFINITY, |most, value| most.max(*value));
    let sum: f64 = logits.iter().map(|value| f64::from(value - most).exp()).sum();
    logits.iter().map(|value| f64::from(value - most) - sum.ln()).collect()
}

fn largest(values: &[f64]) -> usize {
    (0..values.len()).fold(0, |best, place| if values[place] > values[best] { place } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agreement_counts_tokens_margins_and_errors() {
        let mut agreement = Agreement::default();
        agreement.add(&[1.0, 3.0, 0.0], &[1.0, 3.0, 0.0]);
        assert_eq!((agreement.tokens, agreement.same, agreement.logit_error), (1, 1, 0.0));
        assert_eq!(agreement.mean_divergence(), 0.0);
        agreement.add(&[1.0, 0.5, 0.0], &[1.0, 1.25, 0.0]);
        assert_eq!((agreement.share(), agreement.logit_error), (0.5, 0.75));
        assert!((agreement.largest_lost_margin - 0.25).abs() < 1e-9 && agreement.mean_divergence() > 0.0);
        assert_eq!(agreement.least_margin, Some(agreement.largest_lost_margin));
        agreement.add(&[f32::NAN, 0.5, 0.0], &[1.0, 1.25, 0.0]);
        assert!(agreement.logit_error.is_nan());
    }
}
