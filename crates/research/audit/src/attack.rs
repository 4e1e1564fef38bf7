//! Two attacks on encryption that reuses encryptions. Neither needs a key, the cache or the errors.

use std::fmt;

use unspoken_ring::modular::Modulus;
use unspoken_ring::{Basis, Poly};
use unspoken_rlwe::Ciphertext;

use crate::error::AuditError;
use crate::space::{MessageSpace, integer};

/// A ciphertext whose message the attacker knows.
#[derive(Clone, Debug)]
pub struct Known {
    /// The message.
    pub values: Vec<f64>,
    /// Its encryption.
    pub ciphertext: Ciphertext,
}

/// The attacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Procedure {
    /// Subtract two ciphertexts: see [`Difference`].
    Difference,
    /// Solve linear equations between ciphertexts: see [`Span`].
    Span,
}

impl Procedure {
    /// Both attacks.
    pub const ALL: [Procedure; 2] = [Procedure::Difference, Procedure::Span];

    /// Number of known messages from which the attack learns, against a cache of `cached` encryptions. `Span` needs one
    /// for each encryption, and 24 more: with one message less, the probability that the messages do not span doubles;
    /// it is about 2^-24.
    pub fn known_messages(self, cached: usize) -> usize {
        match self {
            Procedure::Difference => 1,
            Procedure::Span => cached + 24,
        }
    }

    /// Learns from known messages.
    ///
    /// # Errors
    /// If there is no known message, or one does not belong to the message space.
    pub fn learn(self, space: &MessageSpace, known: &[Known]) -> Result<Learned, AuditError> {
        Ok(match self {
            Procedure::Difference => Learned::Difference(Difference::learn(space, known)?),
            Procedure::Span => Learned::Span(Span::learn(space, known)?),
        })
    }
}

impl fmt::Display for Procedure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Procedure::Difference => "difference",
            Procedure::Span => "span",
        })
    }
}

/// What an attacker has learned: it recovers the messages of other ciphertexts.
pub enum Learned {
    /// Learned from one known message.
    Difference(Difference),
    /// Learned from several known messages.
    Span(Span),
}

impl Learned {
    /// The message of a ciphertext, if the attack breaks the encryption method; otherwise meaningless values.
    ///
    /// # Errors
    /// If the ciphertext does not belong to the message space.
    pub fn recover(&self, space: &MessageSpace, challenge: &Ciphertext) -> Result<Vec<f64>, AuditError> {
        match self {
            Learned::Difference(attack) => attack.recover(space, challenge),
            Learned::Span(attack) => Ok(vec![attack.recover(space, challenge)?]),
        }
    }
}

/// Breaks encryption that adds a message and small errors to one cached encryption of zero (Zinc).
///
/// The first components of two ciphertexts, `Z_0 + m + e` and `Z_0 + m' + e'`, differ by `m' - m` and a small error.
/// Adding the known `m` and decoding gives `m'`.
pub struct Difference {
    /// `m - c_0` of the known message.
    offset: Poly,
    values: usize,
}

impl Difference {
    fn learn(space: &MessageSpace, known: &[Known]) -> Result<Self, AuditError> {
        let [Known { values, ciphertext }, ..] = known else {
            let (found, needed) = ("none".into(), "a known message".into());
            return Err(AuditError::Range { operation: "learn from known messages", found, needed });
        };
        let mut offset = space.encode(values)?;
        space.ring().sub_assign(&mut offset, &ciphertext.components()[0])?;
        Ok(Difference { offset, values: values.len() })
    }

    fn recover(&self, space: &MessageSpace, challenge: &Ciphertext) -> Result<Vec<f64>, AuditError> {
        let phase = space.ring().add(&challenge.components()[0], &self.offset)?;
        space.decode(&phase, self.values)
    }
}

/// Breaks encryption by small integer combinations of cached encryptions (Rache).
///
/// All ciphertexts are in the span of the cache. Its dimension is at most the number of cache entries, while a ring
/// has thousands of dimensions. On this span, the message is a linear function of the ciphertext. Known messages
/// whose ciphertexts generate the span determine this function: write a ciphertext as a combination of known
/// ciphertexts, modulo one prime; the same combination of their messages is its message. This involves neither
/// decryption nor errors, so the result is exact, in CKKS too.
pub struct Span {
    modulus: Modulus,
    /// Rows in echelon form: position of the leading entry, which is 1; coordinates; message.
    rows: Vec<(usize, Vec<u32>, u32)>,
}

/// Number of coordinates of the second component that the attack uses.
const COORDINATES: usize = 256;

impl Span {
    fn learn(space: &MessageSpace, known: &[Known]) -> Result<Self, AuditError> {
        const OPERATION: &str = "learn from known messages";
        let modulus = Modulus::new(space.ring().chain()[0]);
        let mut span = Span { modulus, rows: Vec::new() };
        for Known { values, ciphertext } in known {
            let [value] = values.as_slice() else {
                let (found, needed) = (format!("{} values", values.len()), "messages of one value".into());
                return Err(AuditError::Range { operation: OPERATION, found, needed });
            };
            let mut row = coordinates(space, ciphertext)?;
            let explained = span.reduce(&mut row);
            let message = modulus.sub(modulus.from_i64(integer(OPERATION, *value)?), explained);
            if let Some(place) = row.iter().position(|&x| x != 0) {
                let inverse = modulus.inv(row[place]);
                row.iter_mut().for_each(|x| *x = modulus.mul(*x, inverse));
                span.rows.push((place, row, modulus.mul(message, inverse)));
            }
        }
        Ok(span)
    }

    /// Dimension of the span of the known ciphertexts: for a cache at most its number of entries, for sound
    /// encryption the number of known ciphertexts.
    pub fn dimensions(&self) -> usize {
        self.rows.len()
    }

    fn recover(&self, space: &MessageSpace, challenge: &Ciphertext) -> Result<f64, AuditError> {
        let mut row = coordinates(space, challenge)?;
        Ok(self.modulus.centred(self.reduce(&mut row)) as f64)
    }

    /// Subtracts multiples of the rows until the leading positions are zero; returns the same combination of their
    /// messages.
    fn reduce(&self, row: &mut [u32]) -> u32 {
        let modulus = &self.modulus;
        self.rows.iter().fold(0, |sum, (place, known, message)| {
            let factor = row[*place];
            row.iter_mut().zip(known).for_each(|(x, &k)| *x = modulus.sub(*x, modulus.mul(factor, k)));
            modulus.add(sum, modulus.mul(factor, *message))
        })
    }
}

/// The first values of the second component, modulo the first prime.
fn coordinates(space: &MessageSpace, ciphertext: &Ciphertext) -> Result<Vec<u32>, AuditError> {
    let second = space.ring().restricted(&ciphertext.components()[1], Basis::chain(1))?;
    Ok(space.ring().to_values(&second)?[..COORDINATES].to_vec())
}
