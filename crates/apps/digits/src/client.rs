//! The client's half: encrypts pixels of images, and decrypts scores to digits.

use std::borrow::Borrow;

use unspoken_ckks::Slots;
use unspoken_digits_model::{CLASSES, Image, digit};
use unspoken_encrypt::{EncryptionPlan, Needs};
use unspoken_protocol::{CkksClientHalf, CkksDescription, ClientHalf, Keyring, ProtocolError};

use crate::description::Description;
use crate::error::DigitsError;

/// A client of a recogniser: its secret key and the server's description. It needs no part of the network.
pub struct DigitsClient {
    description: Description,
    keyring: Keyring,
}

/// The answer for one image.
#[derive(Clone, Debug, PartialEq)]
pub struct Recognised {
    /// The digit of the largest score.
    pub digit: u8,
    /// One score per digit. They contain the noise of the encryption: share them only as returned by
    /// [`DigitsClient::share`].
    pub scores: [f64; CLASSES],
}

impl ClientHalf for DigitsClient {
    type Error = DigitsError;
    type Description = Description;
    type Model = ();
    type Question = Image;
    type Encoded = Image;
    type Answer = Recognised;

    const VERB: &'static str = "recognising";

    fn open(description: Description, (): (), stored: Option<&[u8]>) -> Result<Self, DigitsError> {
        let keyring = Keyring::new(description.header().clone(), stored)?;
        Ok(DigitsClient { description, keyring })
    }

    fn description(&self) -> &Description {
        &self.description
    }

    fn batch(&self) -> usize {
        self.description.batch()
    }

    fn query_bytes(&self, _questions: usize) -> usize {
        self.description.query_bytes()
    }

    fn answer_bytes(&self, _questions: usize) -> usize {
        self.description.answer_bytes()
    }

    fn expected_answer_bytes(&self, questions: usize) -> usize {
        self.description.header().expected_answer_bytes(self.answer_bytes(questions))
    }

    /// Accepts every image; all have the same size.
    fn encode<Q: Borrow<Image>>(&self, images: &[Q]) -> Result<Vec<Image>, DigitsError> {
        Ok(images.iter().map(|image| image.borrow().clone()).collect())
    }

    /// The length in bytes is always the same, whatever the images and their number.
    fn query(&mut self, images: &[Image]) -> Result<Vec<u8>, DigitsError> {
        let level = self.description.query_level();
        let scale = self.description.parameters().scale();
        let arranged = self.description.layout().arrange(images)?.into_iter().map(Slots::from);
        let vectors: Vec<Slots> = arranged.collect();
        let encrypt = |slots: &Slots| self.keyring.encrypt(slots, level, scale);
        Ok(self.description.header().pack(vectors.iter().map(encrypt).collect::<Result<_, _>>()?))
    }

    fn read(&self, answer: &[u8], images: &[Image]) -> Result<Vec<Recognised>, DigitsError> {
        let vectors = self.description.header().unpack("answer", answer, self.description.answer_bytes(), 1)?;
        let [vector] = vectors.as_slice() else {
            return Err(ProtocolError::mismatch("answer", format!("{} vectors", vectors.len()), "1").into());
        };
        let scores = self.description.layout().scores(&self.keyring.open(vector)?, images.len())?;
        self.keyring.check_bound(scores.iter().flatten().copied())?;
        Ok(scores.into_iter().map(|scores| Recognised { digit: digit(&scores), scores }).collect())
    }
}

impl DigitsClient {
    /// Answers that may be shared: with fresh noise that exceeds the error by `bits` bits, and the digits that follow
    /// from the noisy scores. See [`SharingNoise`](unspoken_protocol::SharingNoise) for its guarantee.
    ///
    /// # Errors
    /// The errors of [`CkksClientHalf::sharing_noise`], or if the system has no randomness.
    pub fn share(&self, answers: &[Recognised], bits: u32) -> Result<Vec<Recognised>, DigitsError> {
        let noise = self.sharing_noise(bits)?;
        let share = |answer: &Recognised| {
            let mut scores = answer.scores;
            noise.add(&mut scores)?;
            Ok(Recognised { digit: digit(&scores), scores })
        };
        answers.iter().map(share).collect()
    }

    /// A lower bound of the probability that an answer of [`DigitsClient::share`] has the digit of the exact scores, if
    /// nothing else is known about the scores: see [`certainty`](unspoken_protocol::SharingNoise::certainty). The bound
    /// may be shared with the answer.
    ///
    /// # Errors
    /// The errors of [`CkksClientHalf::sharing_noise`].
    pub fn certainty(&self, shared: &Recognised, bits: u32) -> Result<f64, DigitsError> {
        Ok(self.sharing_noise(bits)?.certainty(&shared.scores, self.keyring.header().bound()))
    }
}

impl CkksClientHalf for DigitsClient {
    fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    fn keyring_mut(&mut self) -> &mut Keyring {
        &mut self.keyring
    }

    fn prepare(&mut self, needs: Needs) -> Result<EncryptionPlan, ProtocolError> {
        let burst = needs.burst.saturating_mul(self.description.layout().vectors());
        self.keyring.prepare(self.description.query_level(), Needs { burst, ..needs })
    }
}
