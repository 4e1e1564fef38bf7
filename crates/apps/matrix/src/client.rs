//! The client's half: encrypts arrays, and decrypts results.

use std::borrow::Borrow;

use ndarray::Array3;
use unspoken_ckks::{Ciphertext, Slots};
use unspoken_encrypt::{EncryptionPlan, Needs};
use unspoken_protocol::{CkksClientHalf, CkksDescription, ClientHalf, Keyring, ProtocolError, read_every};

use crate::description::Description;
use crate::error::MatrixError;
use crate::noise::add_noise;
use crate::signature::ENCRYPT;

/// Arrays by name, one for each input, of shape (batch, rows, columns). The batch is 1 for inputs without that axis.
pub type NamedArrays = Vec<(String, Array3<f64>)>;

/// A client of a served program: its secret key, and the server's description.
pub struct MatrixClient {
    description: Description,
    keyring: Keyring,
}

/// All inputs of a program, encoded for encryption. Wiped when dropped.
pub struct EncodedInputs {
    /// In the order of a query. Zeros for an input that is refused.
    vectors: Vec<Slots>,
    /// Why the first refused input is.
    refused: Option<Refusal>,
}

/// Entries that are larger than the service describes.
struct Refusal {
    found: String,
    needed: String,
}

impl MatrixClient {
    /// A result that may be shown to others: with noise of standard deviation `2^bits` times the error bound of the
    /// description, and rounded. See [`SharingNoise`](unspoken_protocol::SharingNoise) for its guarantee and limits.
    /// Each call draws new noise: share a result once.
    ///
    /// # Errors
    /// If an input has entries larger than those for which the error bound holds, or `bits` is out of range.
    pub fn share(
        &self,
        inputs: &[(String, Array3<f64>)],
        result: &Array3<f64>,
        bits: u32,
    ) -> Result<Array3<f64>, MatrixError> {
        let most = self.description.largest_input();
        for (name, values) in inputs {
            if values.iter().any(|value| value.abs() > most) {
                let found = format!("input '{name}' with entries beyond {most}");
                let needed = "smaller ones: the error bound of the service holds for no others";
                return Err(MatrixError::mismatch("share a result", found, needed));
            }
        }
        add_noise(result, &self.sharing_noise(bits)?)
    }
}

impl ClientHalf for MatrixClient {
    type Error = MatrixError;
    type Description = Description;
    type Model = ();
    type Question = NamedArrays;
    type Encoded = EncodedInputs;
    type Answer = Array3<f64>;

    const VERB: &'static str = "computing";

    fn open(description: Description, (): (), stored: Option<&[u8]>) -> Result<Self, MatrixError> {
        let keyring = Keyring::new(description.header().clone(), stored)?;
        Ok(MatrixClient { description, keyring })
    }

    fn description(&self) -> &Description {
        &self.description
    }

    /// Refuses a description that allows smaller entries than an earlier one.
    fn check_change(earlier: &Description, now: &Description) -> Result<(), MatrixError> {
        let (before, after) = (earlier.largest_input(), now.largest_input());
        if after >= before {
            return Ok(());
        }
        Err(ProtocolError::lowered(format!("entries of inputs up to {after}"), format!("{before} at least")).into())
    }

    /// One: all inputs of a run are one question.
    fn batch(&self) -> usize {
        1
    }

    fn query_bytes(&self, _questions: usize) -> usize {
        self.description.query_bytes()
    }

    fn answer_bytes(&self, _questions: usize) -> usize {
        self.description.answer_bytes()
    }

    /// In place of an input with entries beyond [`Description::largest_input`], zeros are sent, and
    /// [`read`](Self::read) returns the error: a service that describes any size it likes would learn the largest entry
    /// from missing queries.
    fn encode<Q: Borrow<NamedArrays>>(&self, questions: &[Q]) -> Result<Vec<EncodedInputs>, MatrixError> {
        let signature = self.description.signature();
        let (encoder, scale) = (self.keyring.encoder(), self.description.parameters().scale());
        let encode = |question: &Q| {
            let mut encoded = EncodedInputs { vectors: Vec::with_capacity(signature.input_vectors()), refused: None };
            for (input, values) in signature.in_order(question.borrow())? {
                let groups = match signature.encode(input, values) {
                    Err(MatrixError::Magnitude { found, needed, .. }) => {
                        encoded.refused.get_or_insert(Refusal { found, needed });
                        signature.encode(input, &Array3::zeros(values.dim()))?
                    }
                    other => other?,
                };
                encoded.vectors.extend(groups.into_iter().flatten());
            }
            // Encodes once, so that a query cannot fail. Entries that are not refused fit: the description was checked.
            encoded.vectors.iter().try_for_each(|slots| encoder.encode(slots, signature.level(), scale).map(drop))?;
            Ok(encoded)
        };
        questions.iter().map(encode).collect()
    }

    fn query(&mut self, questions: &[EncodedInputs]) -> Result<Vec<u8>, MatrixError> {
        let [inputs] = questions else { return Err(one_question(questions)) };
        let (level, scale) = (self.description.signature().level(), self.description.parameters().scale());
        let encrypt = |slots: &Slots| self.keyring.encrypt(slots, level, scale);
        let vectors = inputs.vectors.iter().map(encrypt).collect::<Result<_, _>>()?;
        Ok(self.description.header().pack(vectors))
    }

    fn check_answer(&self, answer: &[u8], _questions: usize) -> Result<(), MatrixError> {
        for vector in self.unpack(answer)? {
            Ciphertext::from_bytes(self.description.parameters(), &vector)?;
        }
        Ok(())
    }

    fn read(&self, answer: &[u8], questions: &[EncodedInputs]) -> Result<Vec<Array3<f64>>, MatrixError> {
        let [question] = questions else { return Err(one_question(questions)) };
        let slots = read_every(self.unpack(answer)?.iter().map(|vector| self.keyring.open(vector)))?;
        let values = self.description.signature().decode(slots)?;
        // All of it is decrypted and checked, also where zeros were sent: the service sees when this ends.
        let checked = self.keyring.check_bound(values.iter().copied());
        if let Some(Refusal { found, needed }) = &question.refused {
            return Err(MatrixError::Magnitude { operation: ENCRYPT, found: found.clone(), needed: needed.clone() });
        }
        checked?;
        Ok(vec![values])
    }
}

impl MatrixClient {
    /// The vectors of an answer. Checks that there is one for each vector of the result.
    fn unpack(&self, answer: &[u8]) -> Result<Vec<Vec<u8>>, MatrixError> {
        let needed = self.description.signature().output_vectors();
        let vectors = self.description.header().unpack("answer", answer, self.description.answer_bytes(), needed)?;
        if vectors.len() == needed {
            return Ok(vectors);
        }
        Err(ProtocolError::mismatch("answer", format!("{} vectors", vectors.len()), needed).into())
    }
}

impl CkksClientHalf for MatrixClient {
    fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    fn keyring_mut(&mut self) -> &mut Keyring {
        &mut self.keyring
    }

    fn prepare(&mut self, needs: Needs) -> Result<EncryptionPlan, ProtocolError> {
        let signature = self.description.signature();
        let burst = needs.burst.saturating_mul(signature.input_vectors());
        self.keyring.prepare(signature.level(), Needs { burst, ..needs })
    }
}

fn one_question(questions: &[EncodedInputs]) -> MatrixError {
    MatrixError::mismatch("ask", format!("{} questions in one query", questions.len()), "one")
}
