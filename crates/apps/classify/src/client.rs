//! The client's half: encodes the tokens of texts as encrypted codes, and decrypts scores to labels.

use std::borrow::Borrow;

use unspoken_encrypt::{EncryptionPlan, Needs};
use unspoken_protocol::{CkksClientHalf, CkksDescription, ClientHalf, Keyring, ProtocolError, SharingNoise};
use zeroize::Zeroizing;

use crate::description::{Kind, ScoreDescription, TextTokens};
use crate::error::ClassifyError;
use crate::text::PaddedCodes;

/// A client of a text classifier: its half of the model, its secret key, and the server's description.
pub struct ScoreClient<K: Kind> {
    description: ScoreDescription<K>,
    model: K::Model,
    keyring: Keyring,
}

/// The codes of a text. Wiped when dropped.
pub struct EncodedText {
    codes: PaddedCodes,
    /// Number of tokens by which the sums are divided.
    number: Zeroizing<usize>,
    /// The text, if it is too long. Zeros are sent in its place.
    refused: Option<TooLong>,
}

/// A text with more tokens than the service reads.
#[derive(Clone, Copy)]
struct TooLong {
    /// Its position among all texts, from 1.
    position: usize,
    /// Number of its tokens.
    found: usize,
}

/// The answer for one text.
#[derive(Clone, Debug, PartialEq)]
pub struct Classified {
    /// The class of the largest score; of equal ones, the first.
    pub label: String,
    /// One score per class, in the order of [`ScoreClient::labels`]. They contain the noise of the encryption: share
    /// them only as returned by [`ScoreClient::share`].
    pub scores: Vec<f64>,
    /// Number of tokens by which the sums were divided.
    number: usize,
}

impl Classified {
    /// Bound of the error of a score, for this bound of the error of a sum over tokens. Where scores are means over the
    /// tokens, the number of tokens is rounded down to a power of two, which tells no more of the length of the text
    /// than a factor of two.
    pub fn error(&self, sum: f64) -> f64 {
        sum / (1u64 << self.number.max(1).ilog2()) as f64
    }
}

impl<K: Kind> ClientHalf for ScoreClient<K> {
    type Error = ClassifyError;
    type Description = ScoreDescription<K>;
    type Model = K::Model;
    type Question = str;
    type Encoded = EncodedText;
    type Answer = Classified;

    const VERB: &'static str = "classifying";

    fn open(description: ScoreDescription<K>, model: K::Model, stored: Option<&[u8]>) -> Result<Self, ClassifyError> {
        K::check_model(&model, &description)?;
        let keyring = Keyring::new(description.header().clone(), stored)?;
        Ok(ScoreClient { description, model, keyring })
    }

    fn description(&self) -> &ScoreDescription<K> {
        &self.description
    }

    /// Refuses a description that reads fewer tokens of a text than an earlier one, if clients refuse longer texts.
    fn check_change(earlier: &ScoreDescription<K>, now: &ScoreDescription<K>) -> Result<(), ClassifyError> {
        let (before, after) = (earlier.max_tokens(), now.max_tokens());
        if !K::REFUSES_LONG_TEXTS || after >= before {
            return Ok(());
        }
        Err(ProtocolError::lowered(format!("{after} tokens of a text"), format!("{before} at least")).into())
    }

    fn batch(&self) -> usize {
        self.description.batch()
    }

    fn query_bytes(&self, questions: usize) -> usize {
        self.description.index().query_bytes(questions)
    }

    fn answer_bytes(&self, questions: usize) -> usize {
        self.description.index().answer_bytes(questions)
    }

    fn expected_answer_bytes(&self, questions: usize) -> usize {
        self.description.index().expected_answer_bytes(questions)
    }

    /// In place of a text that is too long, an empty one is sent, and [`ClientHalf::read`] returns the error.
    fn encode<Q: Borrow<str>>(&self, texts: &[Q]) -> Result<Vec<EncodedText>, ClassifyError> {
        let texts = K::read_texts(&self.model, texts, self.description.max_tokens())?;
        let encode = |(TextTokens { codes, number, too_many }, position): (TextTokens, usize)| {
            let refused = too_many.map(|found| TooLong { position, found });
            EncodedText { codes: self.description.pad(&codes), number, refused }
        };
        Ok(texts.into_iter().zip(1..).map(encode).collect())
    }

    /// The length in bytes depends only on the number of texts: it is always the same, or the length of the shortest
    /// short query that holds them.
    fn query(&mut self, texts: &[EncodedText]) -> Result<Vec<u8>, ClassifyError> {
        let texts: Vec<&PaddedCodes> = texts.iter().map(|text| &text.codes).collect();
        self.description.encrypt(&self.keyring, &texts)
    }

    fn read(&self, answer: &[u8], texts: &[EncodedText]) -> Result<Vec<Classified>, ClassifyError> {
        let sums = self.description.decrypt(&self.keyring, answer, texts.len());
        if let Some(TooLong { position, found }) = texts.iter().find_map(|text| text.refused) {
            return Err(ClassifyError::TooLong { position, found, most: self.description.max_tokens() });
        }
        let scored = |(sums, text): (Vec<f64>, &EncodedText)| {
            self.labelled(K::scores(&self.description.own, sums, *text.number), *text.number)
        };
        Ok(sums?.into_iter().zip(texts).map(scored).collect())
    }
}

impl<K: Kind> CkksClientHalf for ScoreClient<K> {
    fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    fn keyring_mut(&mut self) -> &mut Keyring {
        &mut self.keyring
    }

    fn prepare(&mut self, needs: Needs) -> Result<EncryptionPlan, ProtocolError> {
        self.description.index().prepare(&mut self.keyring, needs)
    }
}

impl<K: Kind> ScoreClient<K> {
    /// Answers that may be shared: with fresh noise that exceeds the error of each score by `bits` bits, and the labels
    /// that follow from the noisy scores. See [`SharingNoise`] for its guarantee.
    ///
    /// Where scores are means over the tokens, the error of a score is the error of a sum, divided by the number of
    /// tokens. For the noise this number is rounded down to a power of two, so that neither the size of the noise nor
    /// its rounding shows more of the length of a text.
    ///
    /// # Errors
    /// The errors of [`CkksClientHalf::sharing_noise`], or if the system has no randomness.
    pub fn share(&self, answers: &[Classified], bits: u32) -> Result<Vec<Classified>, ClassifyError> {
        let share = |answer: &Classified| {
            let mut scores = answer.scores.clone();
            self.noise_of(answer, bits)?.add(&mut scores)?;
            Ok(self.labelled(scores, answer.number))
        };
        answers.iter().map(share).collect()
    }

    /// A lower bound of the probability that an answer of [`ScoreClient::share`] has the label of the exact scores, if
    /// nothing else is known about the scores: see [`SharingNoise::certainty`]. The bound may be shared with the
    /// answer.
    ///
    /// # Errors
    /// The errors of [`CkksClientHalf::sharing_noise`].
    pub fn certainty(&self, shared: &Classified, bits: u32) -> Result<f64, ClassifyError> {
        // Scores are sums within the header's bound, divided by the number of tokens, and constants.
        let most = shared.error(self.keyring.header().bound()) + K::largest_constant(&self.description.own);
        Ok(self.noise_of(shared, bits)?.certainty(&shared.scores, most))
    }

    /// The noise for the scores of an answer.
    fn noise_of(&self, answer: &Classified, bits: u32) -> Result<SharingNoise, ClassifyError> {
        let bound = self.sharing_noise(bits)?.deviation() / f64::from(bits).exp2();
        Ok(SharingNoise::new(answer.error(bound), bits)?)
    }

    /// The client's half of the model.
    pub fn model(&self) -> &K::Model {
        &self.model
    }

    /// Label of each class, in the order of the scores.
    pub fn labels(&self) -> &[String] {
        K::labels(&self.model, &self.description.own)
    }

    fn labelled(&self, scores: Vec<f64>, number: usize) -> Classified {
        let best = (1..scores.len()).fold(0, |best, c| if scores[c] > scores[best] { c } else { best });
        Classified { label: self.labels()[best].clone(), scores, number }
    }
}
