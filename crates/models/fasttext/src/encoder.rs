//! The client's half of a model: text to codes, scores to a label.

use unspoken_store::ModelId;

use crate::error::FastTextError;
use crate::shape::Shape;
use crate::tokenise::Tokeniser;
use crate::vocabulary::Vocabulary;

/// The codes of one message: what the client encrypts.
///
/// For each token, in text order, `l` column indices `(j_1, ..., j_l)`, each below
/// `p`. There is at least one token and at most [`Shape::max_tokens`]. The number
/// of tokens is private: the client pads with zero slots up to `max_tokens`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Codes {
    subtables: usize,
    flat: Vec<u16>,
}

impl Codes {
    /// The number of tokens.
    #[expect(clippy::len_without_is_empty, reason = "there is at least one token")]
    pub fn len(&self) -> usize {
        self.flat.len() / self.subtables
    }

    /// The code of each token: `l` column indices.
    pub fn tokens(&self) -> impl ExactSizeIterator<Item = &[u16]> {
        self.flat.chunks_exact(self.subtables)
    }

    /// The codes of all tokens, one after the other.
    pub fn into_flat(self) -> Vec<u16> {
        self.flat
    }

    /// The column index of each token in subtable `t`, which must be below `l`:
    /// the stream that fills the slots of one ciphertext. Empty when it is not.
    pub fn stream(&self, t: usize) -> impl Iterator<Item = u16> {
        let first = if t < self.subtables { t } else { self.flat.len() };
        self.flat.iter().skip(first).step_by(self.subtables).copied()
    }
}

/// The client's half of a model: vocabulary, codes and label names. It contains no scores, so it does not reveal the
/// contributions of words.
#[derive(Clone, Debug, PartialEq)]
pub struct Encoder {
    id: ModelId,
    shape: Shape,
    tokeniser: Tokeniser,
    labels: Vec<String>,
    vocabulary: Vocabulary,
    /// vocabulary x subtables
    codes: Vec<u16>,
}

impl Encoder {
    /// Checks and joins the parts. `codes` is `vocabulary.len()` rows of
    /// `shape.subtables` entries.
    pub(crate) fn new(
        id: ModelId,
        shape: Shape,
        tokeniser: Tokeniser,
        labels: Vec<String>,
        vocabulary: Vocabulary,
        codes: Vec<u16>,
    ) -> Result<Self, FastTextError> {
        shape.check()?;
        check_labels(&labels, shape.classes)?;
        if tokeniser.max_tokens != shape.max_tokens {
            return Err(FastTextError::field(
                "tokeniser.max_tokens",
                tokeniser.max_tokens,
                format!("{}, as the shape says", shape.max_tokens),
            ));
        }
        if codes.len() != vocabulary.len() * shape.subtables {
            return Err(FastTextError::field(
                "codes",
                format!("{} entries", codes.len()),
                format!("{} x {}", vocabulary.len(), shape.subtables),
            ));
        }
        if let Some(code) = codes.iter().find(|&&code| usize::from(code) >= shape.columns) {
            return Err(FastTextError::field("code", code, format!("below {} columns", shape.columns)));
        }
        Ok(Self { id, shape, tokeniser, labels, vocabulary, codes })
    }

    /// The training run this half comes from: equal to its server half's.
    pub fn id(&self) -> ModelId {
        self.id
    }

    /// The numbers both halves agree on.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The tokeniser.
    pub fn tokeniser(&self) -> Tokeniser {
        self.tokeniser
    }

    /// The vocabulary.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// The label names; class `c` is `labels()[c]`.
    pub fn labels(&self) -> &[String] {
        &self.labels
    }

    /// All codes, vocabulary rows x subtables, row-major.
    pub(crate) fn codes(&self) -> &[u16] {
        &self.codes
    }

    /// The codes of a message. Tokens not in the vocabulary, and a message without tokens, get the code of
    /// [`UNKNOWN`](crate::UNKNOWN).
    pub fn encode(&self, text: &str) -> Codes {
        let subtables = self.shape.subtables;
        let rows = self.vocabulary.rows_of(&self.tokeniser.tokens(text));
        let flat = rows.iter().flat_map(|&row| &self.codes[row as usize * subtables..][..subtables]).copied().collect();
        Codes { subtables, flat }
    }

    /// The label of the largest score; of equal ones, the first.
    ///
    /// # Errors
    /// [`FastTextError::Field`] unless there is one finite score for each class.
    pub fn label(&self, scores: &[f64]) -> Result<&str, FastTextError> {
        // Reports a position and no score: decrypted scores contain errors that depend on the secret key.
        let wrong = match scores.iter().position(|score| !score.is_finite()) {
            _ if scores.len() != self.labels.len() => Some(format!("{} numbers", scores.len())),
            position => position.map(|position| format!("one that is not finite at position {position}")),
        };
        if let Some(found) = wrong {
            return Err(FastTextError::field("scores", found, format!("{} finite numbers", self.labels.len())));
        }
        Ok(&self.labels[argmax(scores)])
    }
}

/// Index of the largest entry; of equal ones, the first; 0 for an empty slice.
pub(crate) fn argmax<T: PartialOrd>(values: &[T]) -> usize {
    let mut best = 0;
    for (index, value) in values.iter().enumerate().skip(1) {
        if *value > values[best] {
            best = index;
        }
    }
    best
}

fn check_labels(labels: &[String], classes: usize) -> Result<(), FastTextError> {
    let mut sorted: Vec<&String> = labels.iter().collect();
    sorted.sort_unstable();
    sorted.dedup();
    if sorted.len() != classes || labels.len() != classes {
        return Err(FastTextError::field(
            "labels",
            format!("{} labels, {} of them distinct", labels.len(), sorted.len()),
            format!("{classes} distinct labels"),
        ));
    }
    Ok(())
}
