//! The client's half: tokens in, encrypted codes out; encrypted embeddings in, embeddings out.

use std::io::Write;
use std::sync::atomic::AtomicBool;

use prost::Message;
use unspoken_ckks::{Complex64, Encoder};
use unspoken_embedding::TokenCodes;
use unspoken_lookup::transfer::{checksum, read_output};
use unspoken_lookup::{OutputForm, padded_columns};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{KeyBundle, RlweError, SecretKey};

use crate::description::Description;
use crate::error::EmbedError;
use crate::proto;

/// A client of an embedding lookup: its tokens and their codes, its secret key, and what the server said of itself.
pub struct TokenAsker {
    description: Description,
    codes: TokenCodes,
    encoder: Encoder,
    secret: SecretKey,
}

/// Keyed anew for every use: a copy of the process (a fork, a restored snapshot) never draws what this one drew.
fn fresh_randomness() -> Result<SecretRng, EmbedError> {
    Ok(SecretRng::from_os().map_err(RlweError::from)?)
}

impl TokenAsker {
    /// A client with a new secret key.
    ///
    /// # Errors
    /// If the codes belong to another table than the server's, or the operating system has no randomness.
    pub fn new(description: Description, codes: TokenCodes) -> Result<Self, EmbedError> {
        let mut rng = fresh_randomness()?;
        let secret = SecretKey::generate(description.parameters().rlwe(), &mut rng)?;
        Self::assemble(description, codes, secret)
    }

    /// A client with a stored secret key, whose switching keys the server may have already.
    ///
    /// # Errors
    /// As for [`TokenAsker::new`], or if the key does not belong to the server's preset.
    pub fn with_secret(description: Description, codes: TokenCodes, secret: &[u8]) -> Result<Self, EmbedError> {
        let secret = SecretKey::from_bytes(description.parameters().rlwe(), secret)?;
        Self::assemble(description, codes, secret)
    }

    fn assemble(description: Description, codes: TokenCodes, secret: SecretKey) -> Result<Self, EmbedError> {
        let theirs = &description.message;
        if theirs.model_id != codes.id().to_bytes() {
            return Err(EmbedError::mismatch(
                "table",
                "a server with another compressed table than these codes'",
                "the client half that was made with the server's",
            ));
        }
        let shape = codes.shape();
        let pairs = [
            (shape.subtables, theirs.subtables),
            (padded_columns(shape.columns), theirs.columns),
            (shape.width, theirs.width),
        ];
        if pairs.iter().any(|&(ours, theirs)| ours != theirs as usize) {
            return Err(EmbedError::mismatch("table shape", format!("{theirs:?}"), format!("{shape:?}")));
        }
        let encoder = Encoder::new(description.parameters());
        Ok(TokenAsker { description, codes, encoder, secret })
    }

    /// What the server said of itself.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// The tokens and their codes.
    pub fn codes(&self) -> &TokenCodes {
        &self.codes
    }

    /// The secret key's bytes, to store: whoever has them reads every query.
    ///
    /// # Errors
    /// Only if the key's parameters refuse, which their own check rules out.
    pub fn secret_bytes(&self) -> Result<impl std::ops::Deref<Target = Vec<u8>> + use<>, EmbedError> {
        Ok(self.secret.to_bytes()?)
    }

    /// Bytes of the key bundle [`TokenAsker::write_keys`] writes.
    pub fn key_bytes(&self) -> u64 {
        KeyBundle::byte_len(self.description.parameters().rlwe(), self.description.key_plan())
    }

    /// Makes the switching keys and writes them as a bundle, one at a time; `progress` is told how many of how many are
    /// done. Every call makes new keys for the same secret.
    ///
    /// # Errors
    /// If writing fails, or when `cancel` is set.
    pub fn write_keys(
        &self,
        out: &mut impl Write,
        progress: impl FnMut(usize, usize),
        cancel: &AtomicBool,
    ) -> Result<(), EmbedError> {
        let plan = self.description.key_plan();
        Ok(KeyBundle::write(&self.secret, plan, &mut fresh_randomness()?, out, progress, cancel)?)
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
        let subtables = self.description.message.subtables as usize;
        let indices: Vec<Vec<Option<usize>>> = (0..subtables).map(stream).collect();
        let vectors =
            self.description.query.encrypt(&self.encoder, &self.secret, &indices, &mut fresh_randomness()?)?;
        let model_id = self.description.message.model_id.clone();
        let checksum = checksum(&model_id, &vectors);
        Ok(proto::Query { model_id, vectors, checksum }.encode_to_vec())
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
        let bound = self.description.message.bound * (1.0 + 1e-6) + 1e-6;
        let embedding = |e: usize| {
            let numbers: Vec<f64> = match self.description.form() {
                OutputForm::Rows => vectors.iter().map(|vector| vector[e].re).collect(),
                OutputForm::Pairs => {
                    vectors.iter().flat_map(|vector| [vector[e].re, vector[e].im]).take(width).collect()
                }
            };
            if !numbers.iter().all(|number| number.abs() <= bound) {
                let needed = format!("numbers up to {bound:.3e}; make new keys");
                return Err(EmbedError::mismatch("answer", "one that this secret key does not open", needed));
            }
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
        let answer =
            proto::Answer::decode(answer).map_err(|e| EmbedError::mismatch("answer", e, "a protobuf message"))?;
        if checksum(&answer.model_id, &answer.vectors) != answer.checksum {
            return Err(EmbedError::mismatch("answer", "a wrong checksum", "undamaged bytes; send it again"));
        }
        if answer.model_id != self.description.message.model_id {
            let needed = "this table's; read the description again";
            return Err(EmbedError::mismatch("answer", "one of another table", needed));
        }
        if count > self.description.batch() {
            let needed = format!("at most {}", self.description.batch());
            return Err(EmbedError::mismatch("answer", format!("{count} tokens asked for"), needed));
        }
        let open = |vector: &Vec<u8>| {
            let (ciphertext, scale) = read_output(self.description.parameters(), vector)?;
            let mut slots = self.encoder.decode(&self.secret.decrypt(&ciphertext)?, scale)?;
            slots.truncate(count);
            Ok(slots)
        };
        answer.vectors.iter().map(open).collect()
    }
}
