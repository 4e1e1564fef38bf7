//! The client's half: images in, encrypted pixels out; encrypted scores in, digits out.

use unspoken_digits_model::{CLASSES, Image, digit};
use unspoken_encrypt::{Needs, Plan};
use unspoken_protocol::{CkksClientHalf, CkksDescribed, ClientHalf, Keyring, ProtocolError};

use crate::description::Description;
use crate::error::DigitsError;

/// A client of a recogniser: its secret key, and what the server said of itself. It needs no part of the network.
pub struct ImageAsker {
    description: Description,
    keyring: Keyring,
}

/// The answer for one image.
#[derive(Clone, Debug, PartialEq)]
pub struct Recognised {
    /// The digit of the largest score.
    pub digit: u8,
    /// One score per digit. They carry the noise of the encryption: do not publish them as they are.
    pub scores: [f64; CLASSES],
}

impl ClientHalf for ImageAsker {
    type Error = DigitsError;
    type Description = Description;
    type Model = ();

    fn open(description: Description, (): (), stored: Option<&[u8]>) -> Result<Self, DigitsError> {
        let keyring = Keyring::new(description.terms().clone(), stored)?;
        Ok(ImageAsker { description, keyring })
    }

    fn description(&self) -> &Description {
        &self.description
    }
}

impl CkksClientHalf for ImageAsker {
    fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    fn prepare(&mut self, needs: Needs) -> Result<Plan, ProtocolError> {
        let burst = needs.burst.saturating_mul(self.description.layout().vectors());
        self.keyring.prepare(self.description.query_level(), Needs { burst, ..needs })
    }
}

impl ImageAsker {
    /// Encrypts up to [`Description::batch`] images. Always the same number of bytes, however many and whichever they are.
    ///
    /// # Errors
    /// If there are none or too many.
    pub fn query(&self, images: &[Image]) -> Result<Vec<u8>, DigitsError> {
        let level = self.description.query_level();
        let scale = self.description.parameters().scale();
        let arranged = self.description.layout().arrange(images)?;
        let encrypt = |slots: &Vec<_>| self.keyring.encrypt(slots, level, scale);
        let vectors = arranged.iter().map(encrypt).collect::<Result<_, _>>()?;
        Ok(self.description.terms().pack(vectors))
    }

    /// Decrypts the answer to a query of `count` images.
    ///
    /// # Errors
    /// If the answer is malformed, of another network, or computed with other keys.
    pub fn read(&self, answer: &[u8], count: usize) -> Result<Vec<Recognised>, DigitsError> {
        let vectors = self.description.terms().unpack("answer", answer, usize::MAX)?;
        let [vector] = vectors.as_slice() else {
            return Err(ProtocolError::mismatch("answer", format!("{} vectors", vectors.len()), "1").into());
        };
        let scores = self.description.layout().scores(&self.keyring.open(vector)?, count)?;
        self.keyring.check_bound(scores.iter().flatten().copied())?;
        Ok(scores.into_iter().map(|scores| Recognised { digit: digit(&scores), scores }).collect())
    }
}
