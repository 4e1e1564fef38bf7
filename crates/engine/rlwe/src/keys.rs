//! Secret keys.

use std::fmt;
use std::hint::black_box;

use unspoken_ring::{Basis, Poly, Ring, SecretRng};
use zeroize::Zeroizing;

use crate::error::RlweError;
use crate::parameters::Parameters;
use crate::security::SecretDistribution;

/// A secret key. Never printed; wiped when dropped.
pub struct SecretKey {
    parameters: Parameters,
    /// Over the whole extended basis, evaluation domain.
    poly: Poly,
}

impl SecretKey {
    /// Draws a secret from the parameters' distribution.
    ///
    /// # Errors
    /// Only if an operation of the ring fails, which cannot happen with checked parameters.
    pub fn generate(parameters: &Parameters, rng: &mut SecretRng) -> Result<Self, RlweError> {
        let ring = parameters.ring();
        let coefficients = match parameters.literal().secret {
            SecretDistribution::UniformTernary => rng.ternary(ring.degree()),
            SecretDistribution::SparseTernary { weight } => rng.sparse_ternary(ring.degree(), weight),
        };
        Self::from_coefficients(parameters, &coefficients)
    }

    pub(crate) fn from_coefficients(parameters: &Parameters, coefficients: &[i32]) -> Result<Self, RlweError> {
        let ring = parameters.ring();
        let all = ring.gadget_key_basis(ring.chain().len());
        let basis = if ring.special().is_empty() { all.without_special() } else { all };
        Ok(SecretKey { parameters: parameters.clone(), poly: secret_poly(ring, coefficients, basis)? })
    }

    /// Another secret over the same primes, in the evaluation domain.
    pub(crate) fn lift_secret(&self, coefficients: &[i32]) -> Result<Poly, RlweError> {
        secret_poly(self.parameters.ring(), coefficients, self.poly.basis())
    }

    /// The parameters it belongs to.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    pub(crate) fn poly(&self) -> &Poly {
        &self.poly
    }

    /// The ternary coefficients, two bits each, for storage by the owner. The bytes are secret.
    pub fn to_bytes(&self) -> Result<Zeroizing<Vec<u8>>, RlweError> {
        let ring = self.parameters.ring();
        let mut poly = ring.restricted(&self.poly, Basis::chain(1))?;
        ring.to_coefficients(&mut poly)?;
        let digits = ring.ternary_digits(&poly)?;
        let pack = |quad: &[u8]| quad.iter().rev().fold(0u8, |byte, digit| (byte << 2) | digit);
        Ok(Zeroizing::new(digits.chunks(4).map(pack).collect()))
    }

    /// The coefficients.
    pub(crate) fn coefficients(&self) -> Result<Zeroizing<Vec<i32>>, RlweError> {
        Ok(unpacked(&self.to_bytes()?))
    }

    /// Reads the output of [`SecretKey::to_bytes`].
    ///
    /// # Errors
    /// If the length does not fit the parameters or a coefficient is not ternary. Only that branch depends on them.
    #[inline(never)]
    pub fn from_bytes(parameters: &Parameters, bytes: &[u8]) -> Result<Self, RlweError> {
        let degree = parameters.ring().degree();
        let bad =
            |found: String, needed: &str| RlweError::Decode { what: "a secret key", found, needed: needed.into() };
        if bytes.len() != degree / 4 {
            return Err(bad(format!("{} bytes", bytes.len()), &format!("{} bytes", degree / 4)));
        }
        let coefficients = unpacked(bytes);
        if any_above_one(&coefficients) {
            return Err(bad("a coefficient above 1".into(), "coefficients -1, 0 and 1"));
        }
        Self::from_coefficients(parameters, &coefficients)
    }
}

/// The coefficients of a secret, four in each byte.
fn unpacked(bytes: &[u8]) -> Zeroizing<Vec<i32>> {
    let unpack = |byte: &u8| [0, 2, 4, 6].map(|shift| i32::from(byte >> shift & 3) - 1);
    let mut coefficients = Zeroizing::new(Vec::with_capacity(4 * bytes.len()));
    coefficients.extend(bytes.iter().flat_map(unpack));
    coefficients
}

/// Whether a coefficient is above 1, without a branch on one.
#[inline(never)]
fn any_above_one(coefficients: &[i32]) -> bool {
    coefficients.iter().fold(0, |seen, &c| seen | black_box(u8::from(c > 1))) != 0
}

pub(crate) fn secret_poly(ring: &Ring, coefficients: &[i32], basis: Basis) -> Result<Poly, RlweError> {
    Ok(ring.evaluate_secret_i32(coefficients, basis)?)
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretKey").field("parameters", &self.parameters.name()).finish_non_exhaustive()
    }
}
