//! Tokens in front of every text that take the outliers of attention sinks.

use ndarray::ArrayView2;

use crate::error::InputError;
use crate::forward::Model;
use crate::observe::Step;

/// What a search may try.
#[derive(Clone, Debug)]
pub struct PrefixSearch {
    /// Tokens that every prefix begins with: the token for the begin of a text if the model wants one.
    pub start: Vec<u32>,
    /// Tokens to try, for example the control tokens; tokens with outliers are added.
    pub candidates: Vec<u32>,
    /// Number of tokens with the largest residuals that are tried as well, in each round.
    pub outliers: usize,
    /// Maximum length of a prefix, its start included.
    pub length: usize,
    /// A longer prefix must reduce the largest residual at least by this factor.
    pub gain: f32,
}

/// A prefix, and what it does.
#[derive(Clone, Debug, PartialEq)]
pub struct Prefix {
    /// The tokens.
    pub tokens: Vec<u32>,
    /// Largest absolute value of the residual stream over texts and layers, tokens of the prefix excluded.
    pub largest_residual: f32,
}

/// Searches a prefix that makes the largest absolute value of the residual stream small over texts: begins with
/// `search.start`, and appends the best candidate as long as that pays. The texts are without `search.start`. Calls
/// `tried` with each prefix that it has tried.
///
/// # Errors
/// [`InputError`] if a text or candidate does not fit the model.
pub fn find_prefix(
    model: &Model,
    texts: &[Vec<u32>],
    search: &PrefixSearch,
    mut tried: impl FnMut(&Prefix),
) -> Result<Prefix, InputError> {
    let mut attempt = |tokens: &[u32]| attempt(model, texts, tokens).inspect(|(prefix, _)| tried(prefix));
    let (mut best, mut outliers) = attempt(&search.start)?;
    while best.tokens.len() < search.length {
        let mut candidates = search.candidates.clone();
        candidates.extend(outliers.iter().take(search.outliers));
        candidates.sort_unstable();
        candidates.dedup();
        let mut round = None;
        for candidate in candidates {
            let tokens: Vec<u32> = best.tokens.iter().copied().chain([candidate]).collect();
            let found = attempt(&tokens)?;
            if round.as_ref().is_none_or(|(prefix, _): &(Prefix, _)| found.0.largest_residual < prefix.largest_residual)
            {
                round = Some(found);
            }
        }
        match round {
            Some((prefix, found)) if prefix.largest_residual * search.gain <= best.largest_residual => {
                (best, outliers) = (prefix, found);
            }
            _ => break,
        }
    }
    Ok(best)
}

/// Runs the texts after a prefix. Returns the largest residual, and the tokens of the texts, ordered from the largest
/// residual down.
fn attempt(model: &Model, texts: &[Vec<u32>], prefix: &[u32]) -> Result<(Prefix, Vec<u32>), InputError> {
    let start = model.prefix_cache(prefix)?;
    let mut found: Vec<(f32, u32)> = vec![];
    for text in texts {
        let mut largest = vec![0.0f32; text.len()];
        let mut observer = |_: usize, step: Step, values: ArrayView2<f32>| {
            if matches!(step, Step::Residual | Step::MiddleResidual) {
                for (largest, row) in largest.iter_mut().zip(values.rows()) {
                    *largest = row.iter().fold(*largest, |most, value| most.max(value.abs()));
                }
            }
        };
        model.forward(text, &mut start.clone(), &mut observer)?;
        found.extend(largest.into_iter().zip(text.iter().copied()));
    }
    found.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let largest_residual = found.first().map_or(0.0, |(largest, _)| *largest);
    let mut tokens = vec![];
    for (_, token) in found {
        if !tokens.contains(&token) {
            tokens.push(token);
        }
        if tokens.len() == MAX_OUTLIERS {
            break;
        }
    }
    Ok((Prefix { tokens: prefix.to_vec(), largest_residual }, tokens))
}

/// Number of tokens with the largest residuals that are kept.
const MAX_OUTLIERS: usize = 64;
