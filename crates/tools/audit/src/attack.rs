//! Two attacks on encryption that reuses encryptions. Neither knows a key, a cache or an error.

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

/// Which attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Procedure {
    /// Subtract two ciphertexts: see [`Difference`].
    Difference,
    /// Solve linear equations between ciphertexts: see [`Span`].
    Span,
}

impl Procedure {
    /// Both.
    pub const ALL: [Procedure; 2] = [Procedure::Difference, Procedure::Span];

    /// Known messages it learns from. `Span` needs as many as there are cached encryptions; these do for 16,
    /// with some to spare.
    pub fn known_messages(self) -> usize {
        match self {
            Procedure::Difference => 1,
            Procedure::Span => 32,
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

/// What an attacker has learned, ready to read other ciphertexts.
pub enum Learned {
    /// From one known message.
    Difference(Difference),
    /// From several.
    Span(Span),
}

impl Learned {
    /// The message of a ciphertext, if the encryption is one that the attack breaks; otherwise some values.
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

/// Breaks encryption as one cached encryption of zero plus message plus small errors (Zinc).
///
/// The first components of two ciphertexts, `Z_0 + m + e` and `Z_0 + m' + e'`, differ by `m' - m` and a small error.
/// Add the known `m`, decode, and `m'` is there.
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

/// Breaks encryption as small integer combinations of cached encryptions (Rache).
///
/// All ciphertexts lie in the span of the cache, which has as many dimensions as the cache has entries, where a ring
/// has thousands; and on that span the message is a linear function. Known messages that span it determine the
/// function: write a ciphertext as a combination of known ones, modulo one prime, and the same combination of their
/// messages is its message. No decryption and no error is involved: the result is exact, in CKKS too.
pub struct Span {
    modulus: Modulus,
    /// In echelon form: the place of the first entry, which is 1, the coordinates, the message.
    rows: Vec<(usize, Vec<u32>, u32)>,
}

/// Coordinates of the second component that are looked at.
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

    /// Dimensions the known ciphertexts span: for a cache at most its entries, for sound encryption as many as there
    /// are.
    pub fn dimensions(&self) -> usize {
        self.rows.len()
    }

    fn recover(&self, space: &MessageSpace, challenge: &Ciphertext) -> Result<f64, AuditError> {
        let mut row = coordinates(space, challenge)?;
        Ok(self.modulus.centred(self.reduce(&mut row)) as f64)
    }

    /// Subtracts multiples of the rows until their places are zero; returns the same multiples of their messages.
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
