//! How the next token is chosen from logits.
//!
//! The time of a choice depends on the size of the vocabulary and on the options, not on logits and tokens. Thresholds
//! are found by bisection over the whole vocabulary in place of sorting it.

use std::collections::BTreeMap;
use std::fmt;

use subtle::{Choice, ConditionallySelectable, ConstantTimeEq, ConstantTimeGreater, ConstantTimeLess};
use zeroize::{Zeroize, Zeroizing};

use crate::constant_time::{exp, first, largest, ln, maximum, ordered, selected};
use crate::error::InputError;

/// Most alternatives of a token whose log-probabilities are told.
pub const MAX_ALTERNATIVES: usize = 20;

/// How the next token is chosen from logits. Applied in this order: bias, penalties, temperature, min-p, top-k, top-p.
/// Tokens of equal probability are kept or dropped together.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// Logits are divided by it. 0, or none, gives the most likely token. `top_k`, `top_p`, `min_p`, `seed` need one.
    pub temperature: Option<f64>,
    /// Only so many of the most likely tokens; 0 for all.
    pub top_k: usize,
    /// Only the fewest most likely tokens that have this probability together.
    pub top_p: f64,
    /// Only tokens of at least this part of the largest probability.
    pub min_p: f64,
    /// Seed of the random numbers.
    pub seed: Option<u64>,
    /// Divides positive logits of tokens that prompt and text have, and multiplies negative ones.
    pub repetition_penalty: f64,
    /// Subtracted from logits of tokens that were generated.
    pub presence_penalty: f64,
    /// Subtracted from logits of tokens as often as they were generated.
    pub frequency_penalty: f64,
    /// Added to the logits of single tokens.
    pub logit_bias: BTreeMap<u32, f64>,
    /// Whether log-probabilities are told: of each token, and of so many of the most likely tokens in its place, at
    /// most [`MAX_ALTERNATIVES`].
    pub log_probabilities: Option<usize>,
}

impl Default for Sampling {
    /// The most likely token.
    fn default() -> Self {
        Sampling {
            temperature: None,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            seed: None,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            logit_bias: BTreeMap::new(),
            log_probabilities: None,
        }
    }
}

impl Sampling {
    /// # Errors
    /// [`InputError::Sampling`] if an option is out of range, or a bias is of a token outside the vocabulary.
    pub fn check(&self, vocabulary: usize) -> Result<(), InputError> {
        let refuse =
            |option, found: f64, needed| Err(InputError::Sampling { option, found: found.to_string(), needed });
        let within = |value: f64, least: f64, most: f64| (least..=most).contains(&value);
        let temperature = self.temperature.unwrap_or(0.0);
        if !within(temperature, 0.0, 100.0) {
            return refuse("temperature", temperature, "0 to 100; 0 gives the most likely token");
        }
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            return refuse("top_p", self.top_p, "above 0, at most 1; 1 keeps all tokens");
        }
        if !within(self.min_p, 0.0, 1.0) {
            return refuse("min_p", self.min_p, "0 to 1; 0 keeps all tokens");
        }
        if !within(self.repetition_penalty, 1e-3, 1e3) {
            return refuse("repetition_penalty", self.repetition_penalty, "0.001 to 1000; 1 changes nothing");
        }
        let penalties = [("presence_penalty", self.presence_penalty), ("frequency_penalty", self.frequency_penalty)];
        if let Some((option, found)) = penalties.into_iter().find(|&(_, penalty)| !within(penalty, -100.0, 100.0)) {
            return refuse(option, found, "-100 to 100; 0 changes nothing");
        }
        if let Some((&token, _)) = self.logit_bias.iter().find(|&(&token, _)| token as usize >= vocabulary) {
            return refuse("logit_bias", f64::from(token), "ids of this model's vocabulary");
        }
        if let Some((_, &bias)) = self.logit_bias.iter().find(|&(_, &bias)| !within(bias, -1e3, 1e3)) {
            return refuse("logit_bias", bias, "-1000 to 1000");
        }
        let alternatives = self.log_probabilities.unwrap_or(0);
        if alternatives > MAX_ALTERNATIVES {
            return refuse("log-probabilities of alternatives", alternatives as f64, "at most 20");
        }
        let need_temperature = [
            ("top_k", self.top_k as f64, self.top_k != 0),
            ("top_p", self.top_p, self.top_p != 1.0),
            ("min_p", self.min_p, self.min_p != 0.0),
            ("seed", self.seed.unwrap_or(0) as f64, self.seed.is_some()),
        ];
        match need_temperature.into_iter().find(|(.., given)| *given && self.temperature.is_none()) {
            Some((option, found, _)) => {
                refuse(option, found, "a temperature, too: without one the most likely token is chosen")
            }
            None => Ok(()),
        }
    }

    /// Whether random numbers choose: they need a seed.
    pub fn is_random(&self) -> bool {
        self.temperature.is_some_and(|temperature| temperature != 0.0)
    }

    /// Whether penalties depend on the text so far.
    fn has_penalties(&self) -> bool {
        (self.repetition_penalty, self.presence_penalty, self.frequency_penalty) != (1.0, 0.0, 0.0)
    }
}

/// A token with its log-probability, of the model's own distribution: temperature, penalties and the other options do
/// not count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scored {
    /// The token.
    pub token: u32,
    /// The natural logarithm of its probability.
    pub log_probability: f64,
}

/// Log-probabilities of a token and of the most likely tokens in its place, the first one first. Wiped when dropped.
#[derive(Clone)]
pub struct Probabilities {
    /// The token that was chosen.
    pub token: Scored,
    /// The most likely tokens, as many as [`Sampling::log_probabilities`] says.
    pub alternatives: Vec<Scored>,
}

impl Drop for Probabilities {
    fn drop(&mut self) {
        for scored in self.alternatives.iter_mut().chain([&mut self.token]) {
            scored.token.zeroize();
            scored.log_probability.zeroize();
        }
    }
}

/// A chosen token.
pub struct Chosen {
    /// The token.
    pub token: u32,
    /// Its log-probability and others, if they are told.
    pub probabilities: Option<Probabilities>,
}

/// Chooses the tokens of one text, one after the other. The same seed, options and logits give the same text, also
/// where several tokens are chosen from one pass.
///
/// Each choice has a random number of its own, from the seed and the number of the choice. So a draft that is sent
/// ahead changes nothing: it is right if it is the token that is chosen, which happens with that token's probability.
#[derive(Clone)]
pub struct Sampler {
    sampling: Sampling,
    seed: Zeroizing<[u8; 32]>,
    /// For each token of the vocabulary, whether the text has it, and how often it was generated. Empty without
    /// penalties.
    text: Zeroizing<Vec<u32>>,
    generated: Zeroizing<Vec<u32>>,
    choices: u64,
}

/// Does not print the text.
impl fmt::Debug for Sampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sampler({:?}, {} choices)", self.sampling, self.choices)
    }
}

impl Sampler {
    /// A sampler for the text after a prompt.
    ///
    /// # Errors
    /// The errors of [`Sampling::check`], and if random choices have no seed.
    pub fn new(sampling: Sampling, vocabulary: usize, prompt: &[u32]) -> Result<Self, InputError> {
        sampling.check(vocabulary)?;
        if sampling.is_random() && sampling.seed.is_none() {
            return Err(InputError::Sampling {
                option: "seed",
                found: "none".into(),
                needed: "one: choices are random",
            });
        }
        let counted = if sampling.has_penalties() { vocabulary } else { 0 };
        let mut text = Zeroizing::new(vec![0; counted]);
        prompt.iter().for_each(|token| count(&mut text, *token));
        let generated = Zeroizing::new(vec![0; counted]);
        let number = sampling.seed.unwrap_or(0).to_le_bytes();
        let seed = Zeroizing::new(blake3::derive_key("unspoken 2026 seed of sampled tokens", &number));
        Ok(Sampler { sampling, seed, text, generated, choices: 0 })
    }

    /// A sampler that always gives the most likely token.
    pub fn greedy() -> Self {
        let none = || Zeroizing::new(Vec::new());
        let seed = Zeroizing::new([0; 32]);
        Sampler { sampling: Sampling::default(), seed, text: none(), generated: none(), choices: 0 }
    }

    /// Its options.
    pub fn sampling(&self) -> &Sampling {
        &self.sampling
    }

    /// Chooses the token after the last one. None of the logits is NaN, and there is one for each token of the
    /// vocabulary.
    pub fn choose(&mut self, logits: &[f32]) -> Chosen {
        let logits: Zeroizing<Vec<f64>> = Zeroizing::new(logits.iter().map(|&logit| f64::from(logit)).collect());
        let token = self.sample(&logits);
        self.choices += 1;
        count(&mut self.text, token);
        count(&mut self.generated, token);
        let probabilities = self.sampling.log_probabilities.map(|number| {
            let sum = log_sum(&logits);
            let others = alternatives(&logits, number);
            let alternatives = others.iter().map(|token| scored(&logits, sum, *token)).collect();
            Probabilities { token: scored(&logits, sum, token), alternatives }
        });
        Chosen { token, probabilities }
    }

    fn sample(&self, logits: &[f64]) -> u32 {
        let adjusted = self.adjusted(logits);
        let Some(temperature) = self.sampling.temperature.filter(|temperature| *temperature != 0.0) else {
            return largest(&keys(&adjusted));
        };
        let best = maximum(&adjusted);
        // In units of the largest probability.
        let weight = |value: &f64| exp((value - best) / temperature);
        let mut weights: Zeroizing<Vec<f64>> = Zeroizing::new(adjusted.iter().map(weight).collect());
        // The sum makes -0 and 0 the same.
        keep_from(&mut weights, (self.sampling.min_p + 0.0).to_bits());
        if self.sampling.top_k > 0 {
            let most = self.sampling.top_k as u64;
            let enough = |least: u64| {
                let kept = weights.iter().map(|weight| u64::from((!weight.to_bits().ct_lt(&least)).unwrap_u8()));
                !kept.sum::<u64>().ct_lt(&most)
            };
            let least = largest_threshold(enough);
            keep_from(&mut weights, least);
        }
        if self.sampling.top_p < 1.0 {
            let needed = self.sampling.top_p * weights.iter().sum::<f64>();
            let enough = |least: u64| {
                let kept = weights.iter().map(|weight| at_least(*weight, least));
                !kept.sum::<f64>().to_bits().ct_lt(&needed.to_bits())
            };
            let least = largest_threshold(enough);
            keep_from(&mut weights, least);
        }
        let target = self.random() * weights.iter().sum::<f64>();
        let mut sum = 0.0;
        let reached = weights.iter().map(|weight| {
            sum += weight;
            sum.to_bits().ct_gt(&target.to_bits())
        });
        first(reached)
    }

    /// The logits with penalties and bias.
    fn adjusted(&self, logits: &[f64]) -> Zeroizing<Vec<f64>> {
        let mut adjusted = Zeroizing::new(logits.to_vec());
        for (&token, bias) in &self.sampling.logit_bias {
            adjusted[token as usize] += bias;
        }
        let Sampling { repetition_penalty, presence_penalty, frequency_penalty, .. } = self.sampling;
        for ((logit, text), generated) in adjusted.iter_mut().zip(&*self.text).zip(&*self.generated) {
            let is_negative = Choice::from((logit.to_bits() >> 63) as u8);
            let repeated = selected(*logit / repetition_penalty, *logit * repetition_penalty, is_negative);
            *logit = selected(*logit, repeated, !text.ct_eq(&0));
            *logit = selected(*logit, *logit - presence_penalty, !generated.ct_eq(&0));
            *logit -= frequency_penalty * f64::from(*generated);
        }
        adjusted
    }

    /// The random number of this choice, from 0 on and below 1.
    fn random(&self) -> f64 {
        let hash = blake3::keyed_hash(&self.seed, &self.choices.to_le_bytes());
        let (first, _) = hash.as_bytes().split_first_chunk::<8>().expect("a hash has 32 bytes");
        (u64::from_le_bytes(*first) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Counts a token of a secret text.
fn count(counts: &mut [u32], token: u32) {
    for (number, count) in (0u32..).zip(counts) {
        *count += u32::from(number.ct_eq(&token).unwrap_u8());
    }
}

/// A weight if it is at least a threshold, which is given by its bits; else 0. Bits of numbers that are not negative
/// have the order of the numbers.
fn at_least(weight: f64, least: u64) -> f64 {
    selected(weight, 0.0, weight.to_bits().ct_lt(&least))
}

fn keep_from(weights: &mut [f64], least: u64) {
    weights.iter_mut().for_each(|weight| *weight = at_least(*weight, least));
}

/// The largest bits of a weight for which a condition holds that holds for 0.
fn largest_threshold(holds: impl Fn(u64) -> Choice) -> u64 {
    let mut least = 0u64;
    // No weight is above 1, whose highest bits are 0.
    for bit in (0..62).rev() {
        let larger = least | 1 << bit;
        least.conditional_assign(&larger, holds(larger));
    }
    least
}

/// The logarithm of the sum of the exponentials of logits.
fn log_sum(logits: &[f64]) -> f64 {
    let best = maximum(logits);
    let sum: f64 = logits.iter().map(|logit| exp(logit - best)).sum();
    best + ln(sum)
}

/// A token with its log-probability.
fn scored(logits: &[f64], log_sum: f64, token: u32) -> Scored {
    let logit = (0u32..).zip(logits).fold(0.0, |found, (number, logit)| selected(found, *logit, number.ct_eq(&token)));
    Scored { token, log_probability: logit - log_sum }
}

/// Numbers in the order of logits.
fn keys(logits: &[f64]) -> Zeroizing<Vec<u64>> {
    Zeroizing::new(logits.iter().map(|logit| ordered(*logit)).collect())
}

/// The places of the largest numbers, the first of equal ones first.
fn alternatives(logits: &[f64], number: usize) -> Zeroizing<Vec<u32>> {
    let mut keys = keys(logits);
    let next = |_| {
        let token = largest(&keys);
        for (place, key) in (0u32..).zip(keys.iter_mut()) {
            key.conditional_assign(&0, place.ct_eq(&token));
        }
        token
    };
    Zeroizing::new((0..number.min(logits.len())).map(next).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGITS: [f32; 6] = [1.0, 3.0, -2.0, 2.5, 0.0, 3.0];

    /// A random choice has the seed 7.
    fn sampler(sampling: Sampling, prompt: &[u32]) -> Sampler {
        let seed = sampling.is_random().then_some(7);
        Sampler::new(Sampling { seed, ..sampling }, LOGITS.len(), prompt).unwrap()
    }

    /// How often each token is chosen, of 4000 choices.
    fn counts(sampling: &Sampling) -> [usize; 6] {
        let mut sampler = sampler(sampling.clone(), &[]);
        let mut counts = [0; 6];
        (0..4000).for_each(|_| counts[sampler.choose(&LOGITS).token as usize] += 1);
        counts
    }

    /// Compares counts with the probabilities of these tokens, whose logits are divided by a temperature; others are
    /// never chosen.
    fn check(counts: [usize; 6], kept: &[usize], temperature: f64) {
        let weight = |token: usize| (f64::from(LOGITS[token]) / temperature).exp();
        let sum: f64 = kept.iter().map(|&token| weight(token)).sum();
        for (token, &count) in counts.iter().enumerate() {
            let expected = if kept.contains(&token) { 4000.0 * weight(token) / sum } else { 0.0 };
            // Five standard deviations.
            assert!((count as f64 - expected).abs() <= 5.0 * expected.sqrt(), "{counts:?}: {token}, {expected}");
        }
    }

    #[test]
    fn tokens_come_with_their_probabilities() {
        let warm = Sampling { temperature: Some(1.5), ..Sampling::default() };
        check(counts(&warm), &[0, 1, 2, 3, 4, 5], 1.5);
        let hot = Sampling { temperature: Some(1.0), ..Sampling::default() };
        check(counts(&Sampling { top_k: 3, ..hot.clone() }), &[1, 3, 5], 1.0);
        // Tokens of equal probability are kept together.
        check(counts(&Sampling { top_k: 1, ..hot.clone() }), &[1, 5], 1.0);
        check(counts(&Sampling { top_k: 99, ..hot.clone() }), &[0, 1, 2, 3, 4, 5], 1.0);
        // The probabilities are 0.05, 0.36, 0.002, 0.22, 0.02 and 0.36.
        check(counts(&Sampling { top_p: 0.5, ..hot.clone() }), &[1, 5], 1.0);
        check(counts(&Sampling { top_p: 0.8, ..hot.clone() }), &[1, 3, 5], 1.0);
        check(counts(&Sampling { top_p: 0.96, ..hot.clone() }), &[0, 1, 3, 5], 1.0);
        check(counts(&Sampling { min_p: 0.13, ..hot.clone() }), &[0, 1, 3, 5], 1.0);
        check(counts(&Sampling { min_p: 1.0, ..hot.clone() }), &[1, 5], 1.0);
        check(counts(&Sampling { min_p: -0.0, ..hot.clone() }), &[0, 1, 2, 3, 4, 5], 1.0);
        check(counts(&Sampling { top_k: 4, top_p: 0.8, ..hot }), &[1, 3, 5], 1.0);
        assert_eq!(counts(&Sampling { temperature: Some(1e-9), ..warm })[..1], [0]);
    }

    #[test]
    fn the_seed_decides() {
        let warm = Sampling { temperature: Some(1.0), ..Sampling::default() };
        let text = |seed| {
            let mut sampler = Sampler::new(Sampling { seed: Some(seed), ..warm.clone() }, LOGITS.len(), &[]).unwrap();
            (0..40).map(|_| sampler.choose(&LOGITS).token).collect::<Vec<_>>()
        };
        assert_eq!(text(1), text(1));
        assert_ne!(text(1), text(2));
    }

    #[test]
    fn penalties_and_biases_change_logits() {
        let chosen = |sampling: Sampling, prompt: &[u32]| {
            let mut sampler = sampler(sampling, prompt);
            [(); 3].map(|()| sampler.choose(&LOGITS).token)
        };
        let none = Sampling::default();
        assert_eq!(chosen(none.clone(), &[]), [1, 1, 1]);
        // The prompt counts for repetition alone.
        assert_eq!(chosen(Sampling { repetition_penalty: 1.3, ..none.clone() }, &[]), [1, 5, 3]);
        assert_eq!(chosen(Sampling { repetition_penalty: 1.3, ..none.clone() }, &[1]), [5, 3, 1]);
        assert_eq!(chosen(Sampling { repetition_penalty: 0.5, ..none.clone() }, &[3]), [3, 3, 3]);
        assert_eq!(chosen(Sampling { presence_penalty: 0.4, ..none.clone() }, &[1, 5]), [1, 5, 1]);
        assert_eq!(chosen(Sampling { frequency_penalty: 0.4, ..none.clone() }, &[1, 5]), [1, 5, 1]);
        assert_eq!(chosen(Sampling { presence_penalty: 0.6, ..none.clone() }, &[]), [1, 5, 3]);
        // Frequencies add up: 3 - 0.3, 3 - 0.3, then 2.7 for both.
        assert_eq!(chosen(Sampling { frequency_penalty: 0.3, ..none.clone() }, &[]), [1, 5, 1]);
        // The bias first: 2.5 + 1, divided by 1.25.
        let both = Sampling { repetition_penalty: 1.25, logit_bias: [(3, 1.0)].into(), ..none.clone() };
        assert_eq!(chosen(both, &[1, 3, 5]), [3, 3, 3]);
        assert_eq!(chosen(Sampling { logit_bias: [(4, 3.5), (1, -9.0)].into(), ..none }, &[]), [4, 4, 4]);
    }

    #[test]
    fn log_probabilities_are_those_of_the_model() {
        let sum: f64 = LOGITS.iter().map(|logit| f64::from(*logit).exp()).sum();
        let expected = |token: u32| f64::from(LOGITS[token as usize]) - sum.ln();
        let sampling = Sampling { temperature: Some(3.0), top_k: 2, log_probabilities: Some(4), ..Sampling::default() };
        let chosen = sampler(sampling, &[]).choose(&LOGITS).probabilities.unwrap();
        let tokens: Vec<u32> = chosen.alternatives.iter().map(|scored| scored.token).collect();
        assert_eq!(tokens, [1, 5, 3, 0]);
        for scored in chosen.alternatives.iter().chain([&chosen.token]) {
            assert!((scored.log_probability - expected(scored.token)).abs() < 1e-9, "{scored:?}");
        }
    }

    #[test]
    fn options_out_of_range_are_named() {
        let none = Sampling::default;
        for (sampling, option) in [
            (Sampling { temperature: Some(-0.1), ..none() }, "temperature"),
            (Sampling { temperature: Some(f64::NAN), ..none() }, "temperature"),
            (Sampling { top_p: 0.0, ..none() }, "top_p"),
            (Sampling { min_p: 1.5, ..none() }, "min_p"),
            (Sampling { repetition_penalty: 0.0, ..none() }, "repetition_penalty"),
            (Sampling { presence_penalty: f64::INFINITY, ..none() }, "presence_penalty"),
            (Sampling { frequency_penalty: -101.0, ..none() }, "frequency_penalty"),
            (Sampling { logit_bias: [(6, 1.0)].into(), ..none() }, "logit_bias"),
            (Sampling { logit_bias: [(5, f64::NAN)].into(), ..none() }, "logit_bias"),
            (Sampling { log_probabilities: Some(21), ..none() }, "log-probabilities"),
            (Sampling { top_k: 3, ..none() }, "top_k"),
            (Sampling { top_p: 0.9, ..none() }, "top_p"),
            (Sampling { min_p: 0.1, ..none() }, "min_p"),
            (Sampling { seed: Some(1), ..none() }, "seed"),
            (Sampling { temperature: Some(1.0), ..none() }, "seed"),
        ] {
            let error = Sampler::new(sampling, 6, &[]).unwrap_err().to_string();
            assert!(error.starts_with(option) && error.contains("needed"), "{error}");
        }
    }
}
