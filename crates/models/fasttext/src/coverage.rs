//! What of a set of texts a model reads.

use crate::encoder::Encoder;

/// What of a set of texts a model reads: how many are cut, and how many of their tokens it knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextCoverage {
    /// Number of texts.
    pub texts: usize,
    /// Texts with more than `max_tokens` tokens, whose rest is ignored.
    pub cut: usize,
    /// Maximum number of tokens of a text that the model reads.
    pub max_tokens: usize,
    /// Tokens that the model reads. A text without tokens counts as one unknown token.
    pub tokens: usize,
    /// The tokens among them that are in the vocabulary.
    pub known: usize,
}

impl TextCoverage {
    /// The share of the tokens that are in the vocabulary; 1 for no texts.
    pub fn known_share(&self) -> f64 {
        if self.tokens == 0 { 1.0 } else { self.known as f64 / self.tokens as f64 }
    }

    /// The share of the texts that are cut; 0 for no texts.
    pub fn cut_share(&self) -> f64 {
        self.cut as f64 / self.texts.max(1) as f64
    }

    /// A warning if texts are cut.
    pub fn cut_warning(&self) -> Option<String> {
        let TextCoverage { texts, cut, max_tokens, .. } = *self;
        (cut > 0).then(|| {
            format!(
                "{cut} of {texts} texts ({:.1} %) have more than {max_tokens} tokens, and the rest of them is ignored; \
                 train with a larger max_tokens (unspoken train --max-tokens) to read more",
                100.0 * self.cut_share()
            )
        })
    }

    /// A warning if most tokens are not in the vocabulary.
    pub fn unknown_warning(&self) -> Option<String> {
        let unknown = self.tokens - self.known;
        (2 * unknown > self.tokens).then(|| {
            format!(
                "{unknown} of {} tokens ({:.1} %) are not in the model's vocabulary, so that it cannot tell these \
                 texts apart; use a model that was trained on such texts",
                self.tokens,
                100.0 * (1.0 - self.known_share())
            )
        })
    }

    /// All warnings.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        self.cut_warning().into_iter().chain(self.unknown_warning())
    }
}

impl Encoder {
    /// Counts what of these texts the model reads. The time depends on the texts: clients of a service count before
    /// the first request or after the last.
    pub fn coverage<S: AsRef<str>>(&self, texts: &[S]) -> TextCoverage {
        let max_tokens = self.shape().max_tokens;
        let mut coverage = TextCoverage { texts: texts.len(), max_tokens, ..TextCoverage::default() };
        for text in texts {
            let split = self.tokeniser().split(text.as_ref());
            coverage.cut += usize::from(split.is_cut);
            coverage.tokens += split.tokens.len().max(1);
            coverage.known += split.tokens.iter().filter(|token| self.vocabulary().row(token) != 0).count();
        }
        coverage
    }
}
