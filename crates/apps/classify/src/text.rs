//! Texts as the client encrypts them, and their scores.

use unspoken_protocol::Keyring;
use zeroize::Zeroizing;

use crate::description::{Kind, ScoreDescription};
use crate::error::ClassifyError;

/// The codes of a text: for each subtable one index per token, `None` where the text has no more tokens. Wiped when
/// dropped.
pub(crate) struct PaddedCodes(Zeroizing<Vec<Option<usize>>>);

impl<K: Kind> ScoreDescription<K> {
    /// A text of these tokens, each with its column of each subtable. Tokens beyond
    /// [`ScoreDescription::max_tokens`] are ignored.
    pub(crate) fn pad(&self, codes: &[u16]) -> PaddedCodes {
        let max_tokens = self.max_tokens();
        let mut indices = Zeroizing::new(vec![None; self.subtables() * max_tokens]);
        for (i, token) in codes.chunks_exact(self.subtables()).take(max_tokens).enumerate() {
            for (stream, &code) in indices.chunks_mut(max_tokens).zip(token) {
                stream[i] = Some(usize::from(code));
            }
        }
        PaddedCodes(indices)
    }

    /// Encrypts one to [`ScoreDescription::batch`] texts. The length in bytes depends only on the number of texts: it
    /// is always the same, or the length of the shortest short query that holds the texts.
    ///
    /// # Errors
    /// If their number is out of range, or the system has no randomness.
    pub(crate) fn encrypt(&self, keyring: &Keyring, texts: &[&PaddedCodes]) -> Result<Vec<u8>, ClassifyError> {
        let index = self.index();
        let indices = self.indices(texts, index.query_slots(texts.len())?);
        Ok(index.encrypt(keyring, texts.len(), &indices)?)
    }

    /// Decrypts the answer to a query of `texts` texts: one score per class of each text.
    ///
    /// # Errors
    /// If the answer is malformed, of another model or computed with other keys.
    pub(crate) fn decrypt(
        &self,
        keyring: &Keyring,
        answer: &[u8],
        texts: usize,
    ) -> Result<Vec<Vec<f64>>, ClassifyError> {
        let vectors = self.index().decrypt(keyring, answer, texts)?;
        let scores = |e: usize| {
            let mut scores: Vec<f64> = vectors.iter().flat_map(|slots| [slots[e].re, slots[e].im]).collect();
            scores.truncate(self.classes());
            scores
        };
        let scores: Vec<Vec<f64>> = (0..texts).map(scores).collect();
        keyring.check_bound(scores.iter().flatten().copied())?;
        Ok(scores)
    }

    /// The indices of texts in vectors of `slots` slots. Padded slots stay empty: the tables are centred, so these
    /// slots add nothing.
    fn indices(&self, texts: &[&PaddedCodes], slots: usize) -> Zeroizing<Vec<Vec<Option<usize>>>> {
        let batch = slots / self.max_tokens();
        let mut indices = Zeroizing::new(vec![vec![None; slots]; self.subtables()]);
        for (e, PaddedCodes(text)) in texts.iter().enumerate() {
            for (indices, stream) in indices.iter_mut().zip(text.chunks(self.max_tokens())) {
                stream.iter().enumerate().for_each(|(i, &index)| indices[i * batch + e] = index);
            }
        }
        indices
    }
}
