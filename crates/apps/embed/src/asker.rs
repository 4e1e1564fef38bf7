//! The client's half: tokens in, encrypted codes out; encrypted embeddings in, embeddings out.

use unspoken_ckks::Complex64;
use unspoken_embedding::TokenCodes;
use unspoken_encrypt::{Needs, Plan};
use unspoken_lookup::{OutputForm, padded_columns};
use unspoken_protocol::{CkksClientHalf, CkksDescribed, ClientHalf, Keyring, ProtocolError};

use crate::description::Description;
use crate::error::EmbedError;

/// A client of an embedding lookup: its tokens and their codes, its secret key, and what the server said of itself.
pub struct TokenAsker {
    description: Description,
    codes: TokenCodes,
    keyring: Keyring,
}

impl ClientHalf for TokenAsker {
    type Error = EmbedError;
    type Description = Description;
    type Model = TokenCodes;

    fn open(description: Description, codes: TokenCodes, stored: Option<&[u8]>) -> Result<Self, EmbedError> {
        if description.terms().model_id() != codes.id().to_bytes() {
            return Err(EmbedError::mismatch(
                "table",
                "a server with another compressed table than these codes'",
                "the client half that was made with the server's",
            ));
        }
        let shape = codes.shape();
        let theirs = &description.own;
        let pairs = [
            (shape.subtables, theirs.subtables),
            (padded_columns(shape.columns), theirs.columns),
            (shape.width, theirs.width),
        ];
        if pairs.iter().any(|&(ours, theirs)| ours != theirs as usize) {
            return Err(EmbedError::mismatch("table shape", format!("{theirs:?}"), format!("{shape:?}")));
        }
        let keyring = Keyring::new(description.terms().clone(), stored)?;
        Ok(TokenAsker { description, codes, keyring })
    }

    fn description(&self) -> &Description {
        &self.description
    }
}

impl CkksClientHalf for TokenAsker {
    fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    fn prepare(&mut self, needs: Needs) -> Result<Plan, ProtocolError> {
        let query = &self.description.query;
        let burst = needs.burst.saturating_mul(query.slot_vectors());
        self.keyring.prepare(query.shape().level, Needs { burst, ..needs })
    }
}

impl TokenAsker {
    /// The tokens and their codes.
    pub fn codes(&self) -> &TokenCodes {
        &self.codes
    }

    /// Encrypts up to [`Description::batch`] token ids. Always the same number of bytes, however many and whichever they
    /// are.
    ///
    /// # Errors
    /// If there are none or too many, or an id lies outside the vocabulary.
    pub fn query(&self, ids: &[usize]) -> Result<Vec<u8>, EmbedError> {
        let batch = self.description.batch();
        if ids.is_empty() || ids.len() > batch {
            return Err(EmbedError::mismatch("query", format!("{} tokens", ids.len()), format!("1 to {batch}")));
        }
        let codes = ids.iter().map(|&id| self.codes.code(id)).collect::<Result<Vec<_>, _>>()?;
        let stream = |t: usize| codes.iter().map(|code| Some(usize::from(code[t]))).collect();
        let subtables = self.description.own.subtables as usize;
        let indices: Vec<Vec<Option<usize>>> = (0..subtables).map(stream).collect();
        let vectors = self.description.query.encrypt(self.keyring.encryptor(), &indices)?;
        Ok(self.description.terms().pack(vectors))
    }

    /// Decrypts the answer to a query of `count` tokens: one embedding each.
    ///
    /// # Errors
    /// If the answer is malformed, of another table, or computed with other keys.
    pub fn read(&self, answer: &[u8], count: usize) -> Result<Vec<Vec<f64>>, EmbedError> {
        let vectors = self.read_vectors(answer, count)?;
        let needed = self.description.vectors();
        if vectors.len() != needed {
            return Err(EmbedError::mismatch("answer", format!("{} vectors", vectors.len()), needed));
        }
        let width = self.description.width();
        let embedding = |e: usize| {
            let numbers: Vec<f64> = match self.description.form() {
                OutputForm::Rows => vectors.iter().map(|vector| vector[e].re).collect(),
                OutputForm::Pairs => {
                    vectors.iter().flat_map(|vector| [vector[e].re, vector[e].im]).take(width).collect()
                }
            };
            self.keyring.check_bound(numbers.iter().copied())?;
            Ok(numbers)
        };
        (0..count).map(embedding).collect()
    }

    /// Decrypts an answer of any number of vectors, as [`Embedder::answer_of`](crate::Embedder::answer_of) makes it from
    /// what a following layer computed: the first `count` slots of each.
    ///
    /// # Errors
    /// If the answer is malformed or of another table.
    pub fn read_vectors(&self, answer: &[u8], count: usize) -> Result<Vec<Vec<Complex64>>, EmbedError> {
        let vectors = self.description.terms().unpack("answer", answer, usize::MAX)?;
        if count > self.description.batch() {
            let needed = format!("at most {}", self.description.batch());
            return Err(EmbedError::mismatch("answer", format!("{count} tokens asked for"), needed));
        }
        let open = |vector: &Vec<u8>| {
            let slots = self.keyring.open(vector)?;
            Ok(slots[..slots.len().min(count)].to_vec())
        };
        vectors.iter().map(open).collect()
    }
}
