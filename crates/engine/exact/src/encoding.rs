//! Encoding of vectors of integers to polynomials modulo `t`, and decoding.
//!
//! Slots: `t` is 1 modulo `2n`, so a polynomial modulo `t` is determined by its values at the `n` roots of `X^n + 1`
//! (Smart and Vercauteren, "Fully homomorphic SIMD operations", 2014). Slot `j < n/2` is the value at `psi^(5^j)`, slot
//! `n/2 + j` is the value at `psi^-(5^j)`. Sums and products of polynomials are sums and products of slots.
//! Coefficients: coefficient `i` is value `i`; products are negacyclic convolutions, which [`Encoder::encode_weights`]
//! uses for inner products.

use std::hint::black_box;
use std::sync::Arc;

use unspoken_ring::modular::Modulus;
use unspoken_ring::{Basis, Poly};
use zeroize::Zeroizing;

use crate::error::ExactError;
use crate::parameters::{ExactParameters, Scheme};

/// An encoded vector: a polynomial with coefficients from `-t/2` to `t/2`. Wiped when dropped.
#[derive(Clone)]
pub struct Plaintext {
    parameters: ExactParameters,
    coefficients: Zeroizing<Vec<i32>>,
}

impl Plaintext {
    /// The parameters it was encoded for.
    pub fn parameters(&self) -> &ExactParameters {
        &self.parameters
    }

    /// Bits of the sum of the magnitudes of its coefficients, by which a product multiplies noise; at least 0.
    pub(crate) fn log2_norm(&self) -> f64 {
        let sum: u64 = self.coefficients.iter().map(|c| u64::from(c.unsigned_abs())).sum();
        (sum.max(1) as f64).log2()
    }

    /// The polynomial over the modulus of ciphertexts, in the evaluation domain.
    pub(crate) fn lift(&self) -> Result<Poly, ExactError> {
        let mut poly = self.parameters.ring().from_i32(&self.coefficients, self.parameters.basis())?;
        poly.mark_secret();
        self.parameters.ring().to_evaluation(&mut poly)?;
        Ok(poly)
    }

    /// The polynomial that adds this plaintext to a ciphertext: the plaintext polynomial in BGV, `round(Q m / t)` in
    /// BFV. Evaluation domain.
    ///
    /// `round(Q m / t) = (Q m - r) / t` with the centred remainder `r` of `Q m` modulo `t`, which is `-r / t` modulo
    /// `Q`.
    pub(crate) fn summand(&self) -> Result<Poly, ExactError> {
        match self.parameters.scheme() {
            Scheme::Bgv => self.lift(),
            Scheme::Bfv => {
                let modulus = Modulus::new(self.parameters.plain_modulus());
                let ring = self.parameters.ring();
                let product = ring.chain().iter().fold(1, |product, q| modulus.mul(product, q % modulus.q));
                let factor = modulus.shoup(modulus.neg(product));
                let remainder = |&m: &i32| modulus.centred(modulus.mul_shoup(modulus.from_i32(m), factor)) as i32;
                let remainders = Zeroizing::new(self.coefficients.iter().map(remainder).collect::<Vec<i32>>());
                self.divided_by_t(&remainders)
            }
        }
    }

    /// The message of a fresh encryption: `round(Q m / t)` in BFV, and `m / t` in BGV, where the encryption is then
    /// multiplied by `t`. Evaluation domain.
    pub(crate) fn message(&self) -> Result<Poly, ExactError> {
        match self.parameters.scheme() {
            Scheme::Bfv => self.summand(),
            Scheme::Bgv => self.divided_by_t(&self.coefficients),
        }
    }

    fn divided_by_t(&self, coefficients: &[i32]) -> Result<Poly, ExactError> {
        let ring = self.parameters.ring();
        let mut poly = ring.from_i32(coefficients, self.parameters.basis())?;
        poly.mark_secret();
        ring.unscale_assign(&mut poly, self.parameters.plain_modulus())?;
        ring.to_evaluation(&mut poly)?;
        Ok(poly)
    }
}

impl std::fmt::Debug for Plaintext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plaintext").field("parameters", &self.parameters.describe()).finish_non_exhaustive()
    }
}

/// Encodes, encrypts, decrypts and decodes for one parameter set. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Encoder {
    pub(crate) parameters: ExactParameters,
    /// Position of slot `j` in the transform modulo `t`.
    positions: Arc<Vec<usize>>,
}

impl Encoder {
    /// An encoder. Computes a table of slots of one word each.
    pub fn new(parameters: &ExactParameters) -> Self {
        let slots = parameters.slots();
        let order = 2 * slots;
        let bits = slots.ilog2();
        // Position i has the value at psi^(2 rev(i) + 1).
        let position = |exponent: usize| ((exponent - 1) / 2).reverse_bits() >> (usize::BITS - bits);
        let powers: Vec<usize> = std::iter::successors(Some(1), |&g| Some(g * 5 % order)).take(slots / 2).collect();
        let rows = powers.iter().copied().chain(powers.iter().map(|g| order - g));
        Encoder { parameters: parameters.clone(), positions: Arc::new(rows.map(position).collect()) }
    }

    /// The parameters it encodes for.
    pub fn parameters(&self) -> &ExactParameters {
        &self.parameters
    }

    /// Encodes integers from `-t/2` to `t/2` into the slots; the remaining slots are 0.
    ///
    /// # Errors
    /// If there are more values than slots or one is out of range.
    pub fn encode_slots(&self, values: &[i64]) -> Result<Plaintext, ExactError> {
        let values = self.check_range("encode slots", values)?;
        let ring = self.parameters.plain_ring();
        let modulus = Modulus::new(self.parameters.plain_modulus());
        let mut residues = Zeroizing::new(vec![0; self.parameters.slots()]);
        for (&position, &value) in self.positions.iter().zip(values.iter()) {
            residues[position] = modulus.from_i32(value);
        }
        let mut poly = ring.from_values(&residues)?;
        poly.mark_secret();
        ring.to_coefficients(&mut poly)?;
        Ok(self.plaintext(&ring.remainders(&poly, modulus.q)?))
    }

    /// Encodes integers from `-t/2` to `t/2` into the coefficients, lowest first; the remaining coefficients are 0.
    ///
    /// # Errors
    /// As for [`Encoder::encode_slots`].
    pub fn encode_coefficients(&self, values: &[i64]) -> Result<Plaintext, ExactError> {
        let mut coefficients = self.check_range("encode coefficients", values)?;
        coefficients.resize(self.parameters.slots(), 0);
        Ok(Plaintext { parameters: self.parameters.clone(), coefficients })
    }

    /// Encodes weights `w` so that the product with a vector `v` of [`Encoder::encode_coefficients`] has the inner
    /// product `sum_i v_i w_i` in coefficient 0: the polynomial `w_0 - sum_i w_i X^(n - i)`. The other coefficients are
    /// shifted inner products.
    ///
    /// # Errors
    /// As for [`Encoder::encode_slots`].
    pub fn encode_weights(&self, weights: &[i64]) -> Result<Plaintext, ExactError> {
        let checked = self.check_range("encode weights", weights)?;
        let degree = self.parameters.slots();
        let mut coefficients = Zeroizing::new(vec![0; degree]);
        for (i, &weight) in checked.iter().enumerate() {
            match i {
                0 => coefficients[0] = weight,
                _ => coefficients[degree - i] = -weight,
            }
        }
        Ok(Plaintext { parameters: self.parameters.clone(), coefficients })
    }

    /// The slots of a plaintext, from `-t/2` to `t/2`. Wiped when dropped, like plaintexts.
    ///
    /// # Errors
    /// If the plaintext belongs to other parameters.
    pub fn decode_slots(&self, plaintext: &Plaintext) -> Result<Zeroizing<Vec<i64>>, ExactError> {
        self.parameters.check_same("decode slots", &plaintext.parameters)?;
        let ring = self.parameters.plain_ring();
        let modulus = Modulus::new(self.parameters.plain_modulus());
        let mut poly = ring.from_i32(&plaintext.coefficients, Basis::chain(1))?;
        poly.mark_secret();
        ring.to_evaluation(&mut poly)?;
        let values = ring.to_values(&poly)?;
        let slots = self.positions.iter().map(|&position| modulus.centred(values[position]));
        Ok(Zeroizing::new(slots.collect()))
    }

    /// The coefficients of a plaintext, from `-t/2` to `t/2`, lowest first. Wiped when dropped, like plaintexts.
    ///
    /// # Errors
    /// If the plaintext belongs to other parameters.
    pub fn decode_coefficients(&self, plaintext: &Plaintext) -> Result<Zeroizing<Vec<i64>>, ExactError> {
        self.parameters.check_same("decode coefficients", &plaintext.parameters)?;
        Ok(Zeroizing::new(plaintext.coefficients.iter().map(|&c| i64::from(c)).collect()))
    }

    /// The plaintext with these coefficients modulo `t`.
    pub(crate) fn plaintext(&self, residues: &[u32]) -> Plaintext {
        let modulus = Modulus::new(self.parameters.plain_modulus());
        let coefficients = Zeroizing::new(residues.iter().map(|&x| modulus.centred(x) as i32).collect());
        Plaintext { parameters: self.parameters.clone(), coefficients }
    }

    /// Converts the values to words. Checks the number of values and their range. The branch on the range is the only
    /// branch that depends on the values. Not inlined, so that tools can name this function when they find the branch.
    #[inline(never)]
    fn check_range(&self, operation: &'static str, values: &[i64]) -> Result<Zeroizing<Vec<i32>>, ExactError> {
        let (found, needed) = (values.len(), self.parameters.slots());
        if found > needed {
            return Err(ExactError::Shape { operation, found, needed });
        }
        let modulus = self.parameters.plain_modulus();
        let limit = u64::from(modulus / 2);
        if any_above(values, limit) {
            let index = values.iter().position(|value| value.unsigned_abs() > limit).unwrap_or(0);
            return Err(ExactError::Value { operation, index, modulus });
        }
        // Room for a whole polynomial from the start, because a growing vector would leave copies in memory.
        let mut words = Vec::with_capacity(needed);
        words.extend(values.iter().map(|&value| value as i32));
        Ok(Zeroizing::new(words))
    }
}

/// Whether a value is above a limit in magnitude, without a branch on one.
#[inline(never)]
fn any_above(values: &[i64], limit: u64) -> bool {
    values.iter().fold(0, |seen, value| seen | black_box(u8::from(value.unsigned_abs() > limit))) != 0
}
