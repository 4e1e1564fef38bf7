//! The client's half: encodes the tokens of texts as encrypted codes, and decrypts the scores of the head.

use std::borrow::Borrow;
use std::sync::Arc;

use unspoken_embedding::{TextReader, TokenCodes};
use unspoken_encrypt::{Needs, Plan};
use unspoken_protocol::{CkksClientHalf, CkksDescription, ClientHalf, Keyring, ProtocolError, SharingNoise};
use unspoken_scores::EncodedText;
use zeroize::Zeroizing;

use crate::description::Description;
use crate::error::LayerError;

/// The client's part of the model, and its options.
#[derive(Clone, Debug)]
pub struct LayerModel {
    /// The tokens of the table and their codes.
    pub codes: Arc<TokenCodes>,
    /// Whether texts with too many tokens are cut. Otherwise an empty text is asked about in place of such a text, and
    /// its answer is an error.
    pub cut: bool,
}

/// A client of a layer: the tokens and their codes, a secret key, and the server's description.
pub struct LayerClient {
    description: Description,
    model: LayerModel,
    keyring: Keyring,
}

/// The codes of a text, and how many tokens it has. Wiped when dropped.
pub struct EncodedTokens {
    codes: EncodedText,
    count: Zeroizing<usize>,
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
pub struct ScoredText {
    /// The class of the largest score.
    pub label: String,
    /// One score per class, in the order of [`Description::classes`]. They contain the noise of the encryption: share
    /// them only as returned by [`LayerClient::share`].
    pub scores: Vec<f64>,
    /// Number of tokens.
    count: usize,
}

impl ScoredText {
    /// Bound of the error of a score, for this bound of the error of a sum over tokens: it, divided by the number of
    /// tokens rounded down to a power of two, which tells no more of the length of the text than a factor of two.
    pub fn error(&self, sum: f64) -> f64 {
        sum / (1u64 << self.count.max(1).ilog2()) as f64
    }
}

impl ClientHalf for LayerClient {
    type Error = LayerError;
    type Description = Description;
    type Model = LayerModel;
    type Question = str;
    type Encoded = EncodedTokens;
    type Answer = ScoredText;

    const VERB: &'static str = "classifying";

    fn open(description: Description, model: LayerModel, stored: Option<&[u8]>) -> Result<Self, LayerError> {
        if description.own.table_id != model.codes.id().to_bytes() {
            return Err(LayerError::mismatch(
                "table",
                "a server with another compressed table than these codes'",
                "the client half that was made with the server's",
            ));
        }
        let (shape, theirs) = (model.codes.shape(), &description.scores);
        if shape.subtables != theirs.subtables() || !theirs.has_columns(shape.columns) {
            return Err(LayerError::mismatch("table shape", theirs.shape_text(), format!("{shape:?}")));
        }
        let keyring = Keyring::new(description.header().clone(), stored)?;
        Ok(LayerClient { description, model, keyring })
    }

    fn description(&self) -> &Description {
        &self.description
    }

    /// Refuses a description that reads fewer tokens of a text than an earlier one.
    fn check_change(earlier: &Description, now: &Description) -> Result<(), LayerError> {
        let (before, after) = (earlier.max_tokens(), now.max_tokens());
        if after >= before {
            return Ok(());
        }
        Err(ProtocolError::lowered(format!("{after} tokens of a text"), format!("{before} at least")).into())
    }

    fn batch(&self) -> usize {
        self.description.batch()
    }

    fn query_bytes(&self, questions: usize) -> usize {
        self.description.scores.index().query_bytes(questions)
    }

    fn answer_bytes(&self, questions: usize) -> usize {
        self.description.scores.index().answer_bytes(questions)
    }

    fn expected_answer_bytes(&self, questions: usize) -> usize {
        self.description.scores.index().expected_answer_bytes(questions)
    }

    /// In place of a text that is too long, an empty one is sent, and [`ClientHalf::read`] returns the error: how many
    /// tokens are too many is the service's word, and it would learn from a missing query that a text has more.
    fn encode<Q: Borrow<str>>(&self, texts: &[Q]) -> Result<Vec<EncodedTokens>, LayerError> {
        let (codes, most) = (&self.model.codes, self.description.max_tokens());
        let reader = TextReader::new(codes.tokens());
        let encode = |(position, text): (usize, &Q)| {
            let mut ids = Zeroizing::new(reader.read(text.borrow()).ids);
            let too_long = ids.len() > most && !self.model.cut;
            let refused = too_long.then_some(TooLong { position: position + 1, found: ids.len() });
            ids.truncate(if too_long { 0 } else { most });
            let tokens = ids.iter().map(|&id| codes.code(id as usize)).collect::<Result<Vec<_>, _>>()?;
            let count = Zeroizing::new(tokens.len());
            Ok(EncodedTokens { count, codes: self.description.scores.encode(tokens.into_iter()), refused })
        };
        texts.iter().enumerate().map(encode).collect()
    }

    /// The length in bytes depends only on the number of texts: it is always the same, or the length of the shortest
    /// short query that holds them.
    fn query(&mut self, texts: &[EncodedTokens]) -> Result<Vec<u8>, LayerError> {
        let texts: Vec<&EncodedText> = texts.iter().map(|text| &text.codes).collect();
        Ok(self.description.scores.encrypt(&self.keyring, &texts)?)
    }

    fn read(&self, answer: &[u8], texts: &[EncodedTokens]) -> Result<Vec<ScoredText>, LayerError> {
        let sums = self.description.scores.decrypt(&self.keyring, answer, texts.len());
        if let Some(TooLong { position, found }) = texts.iter().find_map(|text| text.refused) {
            return Err(LayerError::TooLong { position, found, most: self.description.max_tokens() });
        }
        Ok(sums?.into_iter().zip(texts).map(|(sums, text)| self.scored(&sums, *text.count)).collect())
    }
}

impl CkksClientHalf for LayerClient {
    fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    fn keyring_mut(&mut self) -> &mut Keyring {
        &mut self.keyring
    }

    fn prepare(&mut self, needs: Needs) -> Result<Plan, ProtocolError> {
        self.description.scores.index().prepare(&mut self.keyring, needs)
    }
}

impl LayerClient {
    /// Answers that may be shared: with fresh noise that exceeds the error of each score by `bits` bits, and the labels
    /// that follow from the noisy scores. See [`SharingNoise`] for its guarantee.
    ///
    /// The error of a score is the error of a sum, divided by the number of tokens. For the noise this number is
    /// rounded down to a power of two, so that neither the size of the noise nor its rounding shows more of the length
    /// of a text.
    ///
    /// # Errors
    /// The errors of [`CkksClientHalf::sharing_noise`], or if the system has no randomness.
    pub fn share(&self, answers: &[ScoredText], bits: u32) -> Result<Vec<ScoredText>, LayerError> {
        let share = |answer: &ScoredText| {
            let mut scores = answer.scores.clone();
            self.noise_of(answer, bits)?.add(&mut scores)?;
            Ok(self.labelled(scores, answer.count))
        };
        answers.iter().map(share).collect()
    }

    /// A lower bound of the probability that an answer of [`LayerClient::share`] has the label of the exact scores, if
    /// nothing else is known about the scores: see [`SharingNoise::certainty`]. The bound may be shared with the
    /// answer.
    ///
    /// # Errors
    /// The errors of [`CkksClientHalf::sharing_noise`].
    pub fn certainty(&self, shared: &ScoredText, bits: u32) -> Result<f64, LayerError> {
        let own = &self.description.own;
        // Scores are sums within the header's bound, divided by the number of tokens, and constants of the head.
        let constants = own.bias.iter().zip(&own.token_mean).map(|(bias, mean)| (bias + mean).abs());
        let most = shared.error(self.keyring.header().bound()) + constants.fold(0.0, f64::max);
        Ok(self.noise_of(shared, bits)?.certainty(&shared.scores, most))
    }

    /// The noise for the scores of an answer.
    fn noise_of(&self, answer: &ScoredText, bits: u32) -> Result<SharingNoise, LayerError> {
        let bound = self.sharing_noise(bits)?.deviation() / f64::from(bits).exp2();
        Ok(SharingNoise::new(answer.error(bound), bits)?)
    }

    /// The tokens of the table and their codes.
    pub fn codes(&self) -> &TokenCodes {
        &self.model.codes
    }

    /// The mean over the tokens of a text, then the bias: the part of the layer that needs the number of tokens, which
    /// the server must not know.
    fn scored(&self, sums: &[f64], count: usize) -> ScoredText {
        let own = &self.description.own;
        let mean = |(sum, token_mean): (&f64, &f64)| if count == 0 { 0.0 } else { sum / count as f64 + token_mean };
        let scores: Vec<f64> =
            sums.iter().zip(&own.token_mean).map(mean).zip(&own.bias).map(|(mean, bias)| mean + bias).collect();
        self.labelled(scores, count)
    }

    fn labelled(&self, scores: Vec<f64>, count: usize) -> ScoredText {
        let best = (1..scores.len()).fold(0, |best, c| if scores[c] > scores[best] { c } else { best });
        ScoredText { label: self.description.own.classes[best].clone(), scores, count }
    }
}
