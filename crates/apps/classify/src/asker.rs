//! The client's half: words in, encrypted codes out; encrypted scores in, labels out.

use unspoken_encrypt::{Needs, Plan};
use unspoken_fasttext as fasttext;
use unspoken_protocol::{CkksClientHalf, CkksDescribed, ClientHalf, Keyring, ProtocolError};

use crate::description::Description;
use crate::error::ClassifyError;

/// A client of a text classifier: its vocabulary, its secret key, and what the server said of itself.
pub struct Asker {
    description: Description,
    words: fasttext::Encoder,
    keyring: Keyring,
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

impl ClientHalf for Asker {
    type Error = ClassifyError;
    type Description = Description;
    type Model = fasttext::Encoder;

    fn open(description: Description, words: fasttext::Encoder, stored: Option<&[u8]>) -> Result<Self, ClassifyError> {
        if description.terms().model_id() != words.id().to_bytes() {
            return Err(ClassifyError::mismatch(
                "model",
                "a server with another model than this vocabulary's",
                "the vocabulary that was trained with the server's model",
            ));
        }
        let shape = words.shape();
        let theirs = &description.own;
        let pairs = [
            (shape.subtables, theirs.subtables),
            (description.query_form().padded_columns(shape.columns), theirs.columns),
            (shape.classes, theirs.classes),
            (shape.max_tokens, theirs.max_tokens),
        ];
        if pairs.iter().any(|&(ours, theirs)| ours != theirs as usize) {
            return Err(ClassifyError::mismatch("model shape", format!("{theirs:?}"), format!("{shape:?}")));
        }
        let keyring = Keyring::new(description.terms().clone(), stored)?;
        Ok(Asker { description, words, keyring })
    }

    fn description(&self) -> &Description {
        &self.description
    }
}

impl CkksClientHalf for Asker {
    fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    fn prepare(&mut self, needs: Needs) -> Result<Plan, ProtocolError> {
        let query = &self.description.query;
        let burst = needs.burst.saturating_mul(query.slot_vectors());
        self.keyring.prepare(query.shape().level, Needs { burst, ..needs })
    }
}

impl Asker {
    /// The label names; class `c` is `labels()[c]`.
    pub fn labels(&self) -> &[String] {
        self.words.labels()
    }

    /// Encrypts up to [`Description::batch`] messages. Always the same number of bytes, whatever the messages.
    ///
    /// # Errors
    /// If there are too many messages.
    pub fn query<S: AsRef<str>>(&self, messages: &[S]) -> Result<Vec<u8>, ClassifyError> {
        let batch = self.description.batch();
        if messages.is_empty() || messages.len() > batch {
            let (found, needed) = (format!("{} messages", messages.len()), format!("1 to {batch}"));
            return Err(ClassifyError::mismatch("query", found, needed));
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
        let vectors = self.description.query.encrypt(self.keyring.encryptor(), &indices)?;
        Ok(self.description.terms().pack(vectors))
    }

    /// Decrypts the answer to a query of `count` messages.
    ///
    /// # Errors
    /// If the answer is malformed, of another model, or computed with other keys.
    pub fn read(&self, answer: &[u8], count: usize) -> Result<Vec<Classified>, ClassifyError> {
        let vectors = self.description.terms().unpack("answer", answer, usize::MAX)?;
        let classes = self.description.classes();
        if vectors.len() != classes.div_ceil(2) || count > self.description.batch() {
            let needed = format!("{} for {classes} classes", classes.div_ceil(2));
            return Err(ClassifyError::mismatch("answer", format!("{} vectors", vectors.len()), needed));
        }
        let mut scores = vec![Vec::with_capacity(classes); count];
        for vector in &vectors {
            let slots = self.keyring.open(vector)?;
            scores.iter_mut().zip(slots.iter()).for_each(|(scores, z)| scores.extend([z.re, z.im]));
        }
        let classify = |mut scores: Vec<f64>| {
            scores.truncate(classes);
            self.keyring.check_bound(scores.iter().copied())?;
            Ok(Classified { label: self.words.label(&scores)?.to_owned(), scores })
        };
        scores.into_iter().map(classify).collect()
    }
}
