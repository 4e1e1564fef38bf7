//! The client's half: encodes tokens as encrypted codes, and decrypts embeddings.

use std::borrow::Borrow;
use std::sync::Arc;

use unspoken_ckks::Slots;
use unspoken_embedding::TokenCodes;
use unspoken_encrypt::{EncryptionPlan, Needs};
use unspoken_lookup::{OutputForm, padded_columns};
use unspoken_protocol::{CkksClientHalf, CkksDescription, ClientHalf, Keyring, ProtocolError};
use zeroize::Zeroizing;

use crate::description::Description;
use crate::error::EmbedError;

/// A client of an embedding lookup: the tokens and their codes, a secret key, and the server's description.
pub struct EmbedClient {
    description: Description,
    codes: Arc<TokenCodes>,
    keyring: Keyring,
}

/// The code of a token: one index per subtable. Wiped when dropped.
pub struct EncodedToken(Zeroizing<Vec<usize>>);

impl ClientHalf for EmbedClient {
    type Error = EmbedError;
    type Description = Description;
    type Model = Arc<TokenCodes>;
    /// The id of a token.
    type Question = usize;
    type Encoded = EncodedToken;
    type Answer = Vec<f64>;

    const VERB: &'static str = "embedding";

    fn open(description: Description, codes: Arc<TokenCodes>, stored: Option<&[u8]>) -> Result<Self, EmbedError> {
        if description.header().model_id() != codes.id().to_bytes() {
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
        let keyring = Keyring::new(description.header().clone(), stored)?;
        Ok(EmbedClient { description, codes, keyring })
    }

    fn description(&self) -> &Description {
        &self.description
    }

    fn batch(&self) -> usize {
        self.description.batch()
    }

    fn query_bytes(&self, questions: usize) -> usize {
        self.description.index.query_bytes(questions)
    }

    fn answer_bytes(&self, questions: usize) -> usize {
        self.description.index.answer_bytes(questions)
    }

    fn expected_answer_bytes(&self, questions: usize) -> usize {
        self.description.index.expected_answer_bytes(questions)
    }

    fn encode<Q: Borrow<usize>>(&self, ids: &[Q]) -> Result<Vec<EncodedToken>, EmbedError> {
        let tokens = self.codes.tokens().as_slice().len();
        let encode = |(position, id): (usize, &Q)| {
            let code = self.codes.code(*id.borrow()).map_err(|_| {
                // Reports the position and not the value, which is secret.
                let found = format!("a larger one at position {position}");
                EmbedError::mismatch("a token id", found, format!("below the {tokens} tokens"))
            })?;
            Ok(EncodedToken(Zeroizing::new(code.iter().map(|&index| usize::from(index)).collect())))
        };
        ids.iter().enumerate().map(encode).collect()
    }

    /// The length in bytes depends only on the number of tokens: it is always the same, or the length of the shortest
    /// short query that holds them.
    fn query(&mut self, tokens: &[EncodedToken]) -> Result<Vec<u8>, EmbedError> {
        let stream = |t: usize| tokens.iter().map(|EncodedToken(code)| code.get(t).copied()).collect();
        let subtables = self.codes.shape().subtables;
        let indices: Zeroizing<Vec<Vec<Option<usize>>>> = Zeroizing::new((0..subtables).map(stream).collect());
        Ok(self.description.index.encrypt(&self.keyring, tokens.len(), &indices)?)
    }

    fn read(&self, answer: &[u8], tokens: &[EncodedToken]) -> Result<Vec<Vec<f64>>, EmbedError> {
        if let Some(query) = self.description.index.strided_holding(tokens.len()) {
            return self.read_strided(answer, tokens.len(), query.period());
        }
        let vectors = self.description.index.decrypt(&self.keyring, answer, tokens.len())?;
        let width = self.description.width();
        let embedding = |e: usize| match self.description.form() {
            OutputForm::Rows => vectors.iter().map(|vector| vector[e].re).collect(),
            OutputForm::Pairs => vectors.iter().flat_map(|vector| [vector[e].re, vector[e].im]).take(width).collect(),
        };
        self.checked((0..tokens.len()).map(embedding).collect())
    }
}

impl CkksClientHalf for EmbedClient {
    fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    fn keyring_mut(&mut self) -> &mut Keyring {
        &mut self.keyring
    }

    fn prepare(&mut self, needs: Needs) -> Result<EncryptionPlan, ProtocolError> {
        self.description.index.prepare(&mut self.keyring, needs)
    }
}

impl EmbedClient {
    /// The embeddings in the one vector of an answer of a strided lookup: number `r` of token `e` is in slot
    /// `period r + e`.
    fn read_strided(&self, answer: &[u8], tokens: usize, period: usize) -> Result<Vec<Vec<f64>>, EmbedError> {
        let width = self.description.width();
        let vectors = self.description.index.decrypt_full(&self.keyring, answer, 1, period * width)?;
        let embedding = |e: usize| {
            let slots = vectors.iter().flat_map(|vector| vector.iter().skip(e).step_by(period));
            slots.take(width).map(|slot| slot.re).collect()
        };
        self.checked((0..tokens).map(embedding).collect())
    }

    /// Decrypted embeddings, if all of their numbers are within the bound.
    fn checked(&self, embeddings: Vec<Vec<f64>>) -> Result<Vec<Vec<f64>>, EmbedError> {
        self.keyring.check_bound(embeddings.iter().flatten().copied())?;
        Ok(embeddings)
    }

    /// The tokens and their codes.
    pub fn codes(&self) -> &TokenCodes {
        &self.codes
    }

    /// Decrypts an answer with `vectors` vectors, made by [`EmbedServer::answer_of`](crate::EmbedServer::answer_of)
    /// from the result of a following layer. Returns the first `tokens` slots of each vector, times the header's unit.
    ///
    /// # Errors
    /// If the answer is malformed, of another table, or has another number of vectors.
    pub fn read_vectors(&self, answer: &[u8], vectors: usize, tokens: usize) -> Result<Vec<Slots>, EmbedError> {
        Ok(self.description.index.decrypt_full(&self.keyring, answer, vectors, tokens)?)
    }
}
