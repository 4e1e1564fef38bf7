//! The client's half: encodes words as encrypted codes, and decrypts scores to labels.

use std::borrow::Borrow;
use std::sync::Arc;

use unspoken_encrypt::{Needs, Plan};
use unspoken_fasttext as fasttext;
use unspoken_protocol::{CkksClientHalf, CkksDescription, ClientHalf, Keyring, ProtocolError};
use zeroize::Zeroizing;

use crate::description::Description;
use crate::error::ClassifyError;

/// A client of a text classifier: its vocabulary, its secret key, and the server's description.
pub struct ClassifyClient {
    description: Description,
    words: Arc<fasttext::Encoder>,
    keyring: Keyring,
}

/// The codes of a message: for each subtable one index per token, `None` where the message has no more tokens. Wiped
/// when dropped.
pub struct EncodedMessage(Zeroizing<Vec<Option<usize>>>);

/// The answer for one message.
#[derive(Clone, Debug, PartialEq)]
pub struct Classified {
    /// The label of the largest score.
    pub label: String,
    /// One score per class, in the order of [`ClassifyClient::labels`]. They contain the noise of the encryption: share
    /// them only as returned by [`ClassifyClient::share`].
    pub scores: Vec<f64>,
}

impl ClientHalf for ClassifyClient {
    type Error = ClassifyError;
    type Description = Description;
    type Model = Arc<fasttext::Encoder>;
    type Question = str;
    type Encoded = EncodedMessage;
    type Answer = Classified;

    const VERB: &'static str = "classifying";

    fn open(
        description: Description,
        words: Arc<fasttext::Encoder>,
        stored: Option<&[u8]>,
    ) -> Result<Self, ClassifyError> {
        if description.header().model_id() != words.id().to_bytes() {
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
        let keyring = Keyring::new(description.header().clone(), stored)?;
        Ok(ClassifyClient { description, words, keyring })
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

    fn encode<Q: Borrow<str>>(&self, messages: &[Q]) -> Result<Vec<EncodedMessage>, ClassifyError> {
        let shape = self.words.shape();
        let encode = |message: &Q| {
            let codes = self.words.encode(message.borrow());
            let mut indices = Zeroizing::new(vec![None; shape.subtables * shape.max_tokens]);
            for (t, stream) in indices.chunks_mut(shape.max_tokens).enumerate() {
                stream.iter_mut().zip(codes.stream(t)).for_each(|(index, code)| *index = Some(usize::from(code)));
            }
            EncodedMessage(indices)
        };
        Ok(messages.iter().map(encode).collect())
    }

    /// The length in bytes depends only on the number of messages: it is always the same, or that of the shortest small
    /// query that holds them.
    fn query(&mut self, messages: &[EncodedMessage]) -> Result<Vec<u8>, ClassifyError> {
        let index = &self.description.index;
        let indices = self.indices(messages, index.query_slots(messages.len())?);
        Ok(index.encrypt(&self.keyring, messages.len(), &indices)?)
    }

    fn read(&self, answer: &[u8], messages: &[EncodedMessage]) -> Result<Vec<Classified>, ClassifyError> {
        let vectors = self.description.index.decrypt(&self.keyring, answer, messages.len())?;
        let classes = self.description.classes();
        let classify = |e: usize| {
            let mut scores: Vec<f64> = vectors.iter().flat_map(|slots| [slots[e].re, slots[e].im]).collect();
            scores.truncate(classes);
            self.keyring.check_bound(scores.iter().copied())?;
            Ok(Classified { label: self.words.label(&scores)?.to_owned(), scores })
        };
        (0..messages.len()).map(classify).collect()
    }
}

impl CkksClientHalf for ClassifyClient {
    fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    fn keyring_mut(&mut self) -> &mut Keyring {
        &mut self.keyring
    }

    fn prepare(&mut self, needs: Needs) -> Result<Plan, ProtocolError> {
        self.description.index.prepare(&mut self.keyring, needs)
    }
}

impl ClassifyClient {
    /// The indices of messages in vectors of that many slots. Padded slots stay empty: the tables are centred, so these
    /// slots add nothing.
    fn indices(&self, messages: &[EncodedMessage], slots: usize) -> Zeroizing<Vec<Vec<Option<usize>>>> {
        let shape = self.words.shape();
        let batch = slots / shape.max_tokens;
        let mut indices = Zeroizing::new(vec![vec![None; slots]; shape.subtables]);
        for (e, EncodedMessage(message)) in messages.iter().enumerate() {
            for (indices, stream) in indices.iter_mut().zip(message.chunks(shape.max_tokens)) {
                stream.iter().enumerate().for_each(|(i, &index)| indices[i * batch + e] = index);
            }
        }
        indices
    }

    /// Answers that may be shared: with fresh noise that exceeds the error by `bits` bits, and the labels that follow
    /// from the noisy scores. See [`SharingNoise`](unspoken_protocol::SharingNoise) for its guarantee.
    ///
    /// # Errors
    /// Those of [`CkksClientHalf::sharing_noise`], or if the system has no randomness.
    pub fn share(&self, answers: &[Classified], bits: u32) -> Result<Vec<Classified>, ClassifyError> {
        let noise = self.sharing_noise(bits)?;
        let share = |answer: &Classified| {
            let mut scores = answer.scores.clone();
            noise.add(&mut scores)?;
            Ok(Classified { label: self.words.label(&scores)?.to_owned(), scores })
        };
        answers.iter().map(share).collect()
    }

    /// The label names; class `c` is `labels()[c]`.
    pub fn labels(&self) -> &[String] {
        self.words.labels()
    }
}
