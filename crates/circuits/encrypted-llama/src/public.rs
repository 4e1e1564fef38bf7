//! The public tokens of a session.

use unspoken_llama_model::KvCache;

/// Keys and values of the prefix and the public tokens. Where a pass is only counted, their number is enough.
#[derive(Clone, Copy, Debug)]
pub struct Public<'a>(Tokens<'a>);

#[derive(Clone, Copy, Debug)]
enum Tokens<'a> {
    Known(&'a KvCache),
    Counted(usize),
}

impl<'a> From<&'a KvCache> for Public<'a> {
    fn from(cache: &'a KvCache) -> Self {
        Public(Tokens::Known(cache))
    }
}

impl Public<'_> {
    /// So many tokens, for an evaluator without values.
    pub(crate) fn counted(tokens: usize) -> Self {
        Public(Tokens::Counted(tokens))
    }

    /// Whether there are no keys and values.
    pub(crate) fn is_counted(&self) -> bool {
        matches!(self.0, Tokens::Counted(_))
    }

    /// Number of tokens.
    pub(crate) fn len(&self) -> usize {
        match self.0 {
            Tokens::Known(cache) => cache.len(),
            Tokens::Counted(tokens) => tokens,
        }
    }

    /// A coordinate of the key of a token; 1 if it is not known.
    pub(crate) fn key(&self, (layer, head): (usize, usize), token: usize, coordinate: usize) -> f64 {
        match self.0 {
            Tokens::Known(cache) => f64::from(cache.keys(layer, head)[(token, coordinate)]),
            Tokens::Counted(_) => 1.0,
        }
    }

    /// A coordinate of the value of a token; 1 if it is not known.
    pub(crate) fn value(&self, (layer, head): (usize, usize), token: usize, coordinate: usize) -> f64 {
        match self.0 {
            Tokens::Known(cache) => f64::from(cache.values(layer, head)[(token, coordinate)]),
            Tokens::Counted(_) => 1.0,
        }
    }
}
