//! The client's half: words in, encrypted codes out; encrypted scores in, labels out.

use std::io::Write;
use std::sync::atomic::AtomicBool;

use prost::Message;
use unspoken_ckks::Encoder;
use unspoken_fasttext as fasttext;
use unspoken_lookup::transfer::{checksum, read_output};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{KeyBundle, RlweError, SecretKey};

use crate::description::Description;
use crate::error::ClassifyError;
use crate::proto;

/// A client of a text classifier: its vocabulary, its secret key, and what the server said of itself.
pub struct Asker {
    description: Description,
    words: fasttext::Encoder,
    encoder: Encoder,
    secret: SecretKey,
}

/// The answer for one message.
#[derive(Clone, Debug, PartialEq)]
pub struct Classified {
    /// The label of the largest score.
    pub label: String,
    /// One score per class, in the order of [`Asker::labels`]. They carry the noise of the encryption: do not publish them
    /// as they are.
    pub scores: Vec<f64>,
}

/// Keyed anew for every use: a copy of the process (a fork, a restored snapshot) never draws what this one drew.
fn fresh_randomness() -> Result<SecretRng, ClassifyError> {
    Ok(SecretRng::from_os().map_err(RlweError::from)?)
}

impl Asker {
    /// A client with a new secret key.
    ///
    /// # Errors
    /// If the vocabulary belongs to another model than the server's, or the operating system has no randomness.
    pub fn new(description: Description, words: fasttext::Encoder) -> Result<Self, ClassifyError> {
        let mut rng = fresh_randomness()?;
        let secret = SecretKey::generate(description.parameters().rlwe(), &mut rng)?;
        Self::assemble(description, words, secret)
    }

    /// A client with a stored secret key, whose switching keys the server may have already.
    ///
    /// # Errors
    /// As for [`Asker::new`], or if the key does not belong to the server's preset.
    pub fn with_secret(
        description: Description,
        words: fasttext::Encoder,
        secret: &[u8],
    ) -> Result<Self, ClassifyError> {
        let secret = SecretKey::from_bytes(description.parameters().rlwe(), secret)?;
        Self::assemble(description, words, secret)
    }

    fn assemble(description: Description, words: fasttext::Encoder, secret: SecretKey) -> Result<Self, ClassifyError> {
        let ours = words.id().to_bytes();
        if description.message.model_id != ours {
            return Err(ClassifyError::mismatch(
                "model",
                "a server with another model than this vocabulary's",
                "the vocabulary that was trained with the server's model",
            ));
        }
        let shape = words.shape();
        let theirs = &description.message;
        let pairs = [
            (shape.subtables, theirs.subtables),
            (description.query_form().padded_columns(shape.columns), theirs.columns),
            (shape.classes, theirs.classes),
            (shape.max_tokens, theirs.max_tokens),
        ];
        if pairs.iter().any(|&(ours, theirs)| ours != theirs as usize) {
            return Err(ClassifyError::mismatch("model shape", format!("{theirs:?}"), format!("{shape:?}")));
        }
        let encoder = Encoder::new(description.parameters());
        Ok(Asker { description, words, encoder, secret })
    }

    /// What the server said of itself.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// The label names; class `c` is `labels()[c]`.
    pub fn labels(&self) -> &[String] {
        self.words.labels()
    }

    /// The secret key's bytes, to store: whoever has them reads every query.
    ///
    /// # Errors
    /// Only if the key's parameters refuse, which their own check rules out.
    pub fn secret_bytes(&self) -> Result<impl std::ops::Deref<Target = Vec<u8>> + use<>, ClassifyError> {
        Ok(self.secret.to_bytes()?)
    }

    /// Bytes of the key bundle [`Asker::write_keys`] writes.
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
    ) -> Result<(), ClassifyError> {
        let plan = self.description.key_plan();
        Ok(KeyBundle::write(&self.secret, plan, &mut fresh_randomness()?, out, progress, cancel)?)
    }

    /// Encrypts up to [`Description::batch`] messages. Always the same number of bytes, whatever the messages.
    ///
    /// # Errors
    /// If there are too many messages.
    pub fn query<S: AsRef<str>>(&self, messages: &[S]) -> Result<Vec<u8>, ClassifyError> {
        let batch = self.description.batch();
        if messages.is_empty() || messages.len() > batch {
            return Err(ClassifyError::mismatch(
                "query",
                format!("{} messages", messages.len()),
                format!("1 to {batch}"),
            ));
        }
        let codes: Vec<fasttext::Codes> = messages.iter().map(|message| self.words.encode(message.as_ref())).collect();
        let shape = self.words.shape();
        let slots = self.description.parameters().slots();
        let stream = |t: usize| {
            // Padded slots stay empty: centred tables give them no weight.
            let mut indices = vec![None; slots];
            for (e, codes) in codes.iter().enumerate() {
                for (i, code) in codes.stream(t).take(shape.max_tokens).enumerate() {
                    indices[i * batch + e] = Some(usize::from(code));
                }
            }
            indices
        };
        let indices: Vec<Vec<Option<usize>>> = (0..shape.subtables).map(stream).collect();
        let vectors =
            self.description.query.encrypt(&self.encoder, &self.secret, &indices, &mut fresh_randomness()?)?;
        let model_id = self.description.message.model_id.clone();
        let checksum = checksum(&model_id, &vectors);
        Ok(proto::Query { model_id, vectors, checksum }.encode_to_vec())
    }

    /// Decrypts the answer to a query of `count` messages.
    ///
    /// # Errors
    /// If the answer is malformed or of another model.
    pub fn read(&self, answer: &[u8], count: usize) -> Result<Vec<Classified>, ClassifyError> {
        let answer =
            proto::Answer::decode(answer).map_err(|e| ClassifyError::mismatch("answer", e, "a protobuf message"))?;
        if checksum(&answer.model_id, &answer.vectors) != answer.checksum {
            return Err(ClassifyError::mismatch("answer", "a wrong checksum", "undamaged bytes; send it again"));
        }
        if answer.model_id != self.description.message.model_id {
            return Err(ClassifyError::mismatch(
                "answer",
                "one of another model",
                "this model's; read the description again",
            ));
        }
        let classes = self.description.classes();
        if answer.vectors.len() != classes.div_ceil(2) || count > self.description.batch() {
            let needed = format!("{} for {classes} classes", classes.div_ceil(2));
            return Err(ClassifyError::mismatch("answer", format!("{} vectors", answer.vectors.len()), needed));
        }
        let mut scores = vec![Vec::with_capacity(classes); count];
        for vector in &answer.vectors {
            let (ciphertext, scale) = read_output(self.description.parameters(), vector)?;
            let slots = self.encoder.decode(&self.secret.decrypt(&ciphertext)?, scale)?;
            scores.iter_mut().zip(slots).for_each(|(scores, z)| scores.extend([z.re, z.im]));
        }
        let bound = self.description.message.score_bound * (1.0 + 1e-6);
        let classify = |mut scores: Vec<f64>| {
            scores.truncate(classes);
            if scores.iter().any(|score| score.abs() > bound) {
                let needed = format!("scores up to {bound:.3e}; make new keys");
                return Err(ClassifyError::mismatch("answer", "one that this secret key does not open", needed));
            }
            Ok(Classified { label: self.words.label(&scores)?.to_owned(), scores })
        };
        scores.into_iter().map(classify).collect()
    }
}
