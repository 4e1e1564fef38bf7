//! Generation, and perplexity.

use ndarray::{ArrayView1, s};

use crate::cache::KvCache;
use crate::error::InputError;
use crate::forward::Model;
use crate::observe::Observer;
use crate::sampling::Sampler;

/// Tokens that a model generates, one after the other, as a [`Sampler`] chooses them. It ends before a token of `ends`,
/// or after the token that a full context gives. The first call of `next` runs no token through the model; each further
/// call runs one.
pub struct Generation<'a> {
    model: &'a Model,
    cache: KvCache,
    ends: Vec<u32>,
    sampler: Sampler,
    state: State,
}

/// What [`Generation`] does next.
enum State {
    /// Gives the token that the prompt has made most likely.
    First(u32),
    /// Runs the token that it gave last.
    Run(u32),
    Done,
}

impl<'a> Generation<'a> {
    /// Runs a prompt. Each token is the most likely one.
    ///
    /// # Errors
    /// [`InputError`] if the prompt is empty, does not fit the context, or has a token outside the vocabulary.
    pub fn new(model: &'a Model, prompt: &[u32], ends: &[u32]) -> Result<Self, InputError> {
        Self::sampled(model, prompt, ends, Sampler::greedy())
    }

    /// Runs a prompt. The sampler chooses each token.
    ///
    /// # Errors
    /// The errors of [`Generation::new`].
    pub fn sampled(model: &'a Model, prompt: &[u32], ends: &[u32], mut sampler: Sampler) -> Result<Self, InputError> {
        let mut cache = KvCache::new(&model.config);
        let first = next_token(model, prompt, &mut cache, &mut sampler)?;
        Ok(Generation { model, cache, ends: ends.to_vec(), sampler, state: State::First(first) })
    }

    /// Whether the context is full, so that no further token can be run.
    pub fn is_full(&self) -> bool {
        self.cache.len() >= self.model.config.context
    }
}

impl Iterator for Generation<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let token = match std::mem::replace(&mut self.state, State::Done) {
            State::First(token) => token,
            State::Run(last) if !self.is_full() => {
                let next = next_token(self.model, &[last], &mut self.cache, &mut self.sampler);
                next.expect("a token of the vocabulary, and room for it")
            }
            State::Run(_) | State::Done => return None,
        };
        if self.ends.contains(&token) {
            return None;
        }
        self.state = State::Run(token);
        Some(token)
    }
}

/// Runs tokens and chooses the next one.
fn next_token(model: &Model, tokens: &[u32], cache: &mut KvCache, sampler: &mut Sampler) -> Result<u32, InputError> {
    let normed = model.forward(tokens, cache, &mut ())?;
    let logits = model.logits(normed.slice(s![normed.nrows() - 1.., ..]));
    Ok(sampler.choose(&logits.row(0).to_vec()).token)
}

/// Perplexity of tokens: `exp` of the mean negative log likelihood of each token but the first, given those before it.
/// Runs `window` tokens at a time after the first token of the text, each window with an empty cache.
///
/// # Errors
/// [`InputError`] as for [`Model::forward`]; fewer than two tokens are [`InputError::Empty`].
pub fn perplexity(model: &Model, tokens: &[u32], window: usize) -> Result<f64, InputError> {
    let Some((start, rest)) = tokens.split_first().filter(|(_, rest)| !rest.is_empty()) else {
        return Err(InputError::Empty);
    };
    let mut total = 0.0;
    for part in rest.chunks(window.max(1)) {
        let mut input = vec![*start];
        input.extend(&part[..part.len() - 1]);
        let normed = model.forward(&input, &mut KvCache::new(&model.config), &mut ())?;
        let logits = model.logits(normed.view());
        total += logits.rows().into_iter().zip(part).map(|(row, token)| surprise(row, *token)).sum::<f64>();
    }
    Ok((total / rest.len() as f64).exp())
}

/// Perplexity of several texts, each after the same prefix: `exp` of the mean negative log likelihood of each token of
/// a text but its first, given the prefix and the tokens before it. The observer sees the passes of the texts, not the
/// pass of the prefix.
///
/// # Errors
/// [`InputError`] as for [`Model::forward`]; [`InputError::Empty`] if no text has two tokens.
pub fn perplexity_after(
    model: &Model,
    prefix: &[u32],
    texts: &[Vec<u32>],
    observer: &mut impl Observer,
) -> Result<f64, InputError> {
    let start = model.prefix_cache(prefix)?;
    let (mut total, mut count) = (0.0, 0);
    for text in texts {
        let normed = model.forward(text, &mut start.clone(), observer)?;
        let logits = model.logits(normed.view());
        total += logits.rows().into_iter().zip(&text[1..]).map(|(row, token)| surprise(row, *token)).sum::<f64>();
        count += text.len() - 1;
    }
    if count == 0 { Err(InputError::Empty) } else { Ok((total / count as f64).exp()) }
}

/// Negative log likelihood of a token.
fn surprise(logits: ArrayView1<f32>, token: u32) -> f64 {
    let most = logits.fold(f32::NEG_INFINITY, |most, value| most.max(*value));
    let sum: f64 = logits.iter().map(|value| f64::from(value - most).exp()).sum();
    sum.ln() - f64::from(logits[token as usize] - most)
}
