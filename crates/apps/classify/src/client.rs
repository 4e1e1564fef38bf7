//! The client's half: encodes words as encrypted codes, and decrypts scores to labels.

use std::borrow::Borrow;
use std::sync::Arc;

use unspoken_encrypt::{Needs, Plan};
use unspoken_fasttext as fasttext;
use unspoken_protocol::{CkksClientHalf, CkksDescription, ClientHalf, Keyring, ProtocolError};
use unspoken_scores::EncodedText;

use crate::description::Description;
use crate::error::ClassifyError;

/// A client of a text classifier: its vocabulary, its secret key, and the server's description.
pub struct ClassifyClient {
    description: Description,
    words: Arc<fasttext::Encoder>,
    keyring: Keyring,
}

/// The codes of a message. Wiped when dropped.
pub struct EncodedMessage(EncodedText);

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
        let (shape, theirs) = (words.shape(), &description.0);
        let same = (shape.subtables, shape.classes, shape.max_tokens)
            == (theirs.subtables(), theirs.classes(), theirs.max_tokens())
            && theirs.has_columns(shape.columns);
        if !same {
            return Err(ClassifyError::mismatch("model shape", theirs.shape_text(), format!("{shape:?}")));
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
        self.description.0.index().query_bytes(questions)
    }

    fn answer_bytes(&self, questions: usize) -> usize {
        self.description.0.index().answer_bytes(questions)
    }

    fn expected_answer_bytes(&self, questions: usize) -> usize {
        self.description.0.index().expected_answer_bytes(questions)
    }

    fn encode<Q: Borrow<str>>(&self, messages: &[Q]) -> Result<Vec<EncodedMessage>, ClassifyError> {
        let encode =
            |message: &Q| EncodedMessage(self.description.0.encode(self.words.encode(message.borrow()).tokens()));
        Ok(messages.iter().map(encode).collect())
    }

    /// The length in bytes depends only on the number of messages: it is always the same, or the length of the shortest
    /// short query that holds them.
    fn query(&mut self, messages: &[EncodedMessage]) -> Result<Vec<u8>, ClassifyError> {
        let texts: Vec<&EncodedText> = messages.iter().map(|EncodedMessage(text)| text).collect();
        Ok(self.description.0.encrypt(&self.keyring, &texts)?)
    }

    fn read(&self, answer: &[u8], messages: &[EncodedMessage]) -> Result<Vec<Classified>, ClassifyError> {
        let scores = self.description.0.decrypt(&self.keyring, answer, messages.len())?;
        scores
            .into_iter()
            .map(|scores| Ok(Classified { label: self.words.label(&scores)?.to_owned(), scores }))
            .collect()
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
        self.description.0.index().prepare(&mut self.keyring, needs)
    }
}

impl ClassifyClient {
    /// Answers that may be shared: with fresh noise that exceeds the error by `bits` bits, and the labels that follow
    /// from the noisy scores. See [`SharingNoise`](unspoken_protocol::SharingNoise) for its guarantee.
    ///
    /// # Errors
    /// The errors of [`CkksClientHalf::sharing_noise`], or if the system has no randomness.
    pub fn share(&self, answers: &[Classified], bits: u32) -> Result<Vec<Classified>, ClassifyError> {
        let noise = self.sharing_noise(bits)?;
        let share = |answer: &Classified| {
            let mut scores = answer.scores.clone();
            noise.add(&mut scores)?;
            Ok(Classified { label: self.words.label(&scores)?.to_owned(), scores })
        };
        answers.iter().map(share).collect()
    }

    /// A lower bound of the probability that an answer of [`ClassifyClient::share`] has the label of the exact scores,
    /// if nothing else is known about the scores: see [`certainty`](unspoken_protocol::SharingNoise::certainty). The
    /// bound may be shared with the answer.
    ///
    /// # Errors
    /// The errors of [`CkksClientHalf::sharing_noise`].
    pub fn certainty(&self, shared: &Classified, bits: u32) -> Result<f64, ClassifyError> {
        Ok(self.sharing_noise(bits)?.certainty(&shared.scores, self.keyring.header().bound()))
    }

    /// The label names; class `c` is `labels()[c]`.
    pub fn labels(&self) -> &[String] {
        self.words.labels()
    }
}
