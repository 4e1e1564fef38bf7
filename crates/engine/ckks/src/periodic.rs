//! Vectors that repeat with a short period: several in one ciphertext, of which few coefficients are sent.
//!
//! A vector that repeats after `p` slots is a polynomial in `X^(n/2p)`: it has `2p` coefficients. A sender encrypts the
//! sum of several such polynomials, each times another power of `X`, and sends the coefficients of the body that are in
//! use. The receiver sets the others to zero. Its ciphertext is then of a message with garbage at the other
//! coefficients, which a trace (a sum of automorphisms) takes away exactly. The trace multiplies the rest by the number
//! of automorphisms, so the receiver first divides by that number modulo the primes. The vectors are then separated by
//! one rotation for each pair. The results of a circuit, which repeat as well, are joined without rotations.

use std::collections::BTreeSet;

use num_complex::Complex64;
use unspoken_ring::RingKind;
use unspoken_rlwe::{self as rlwe, KeyKind, KeyPlan, RlweError, galois};
use zeroize::Zeroizing;

use crate::arithmetic::Arithmetic;
use crate::ciphertext::Ciphertext;
use crate::encoding::{Encoder, Plaintext, Slots};
use crate::error::CkksError;
use crate::inner_sum::InnerSum;
use crate::parameters::CkksParameters;

/// The places of vectors that repeat, in one polynomial. Standard ring.
#[derive(Clone, Debug)]
pub struct PeriodicPacking {
    parameters: CkksParameters,
    /// Period of all vectors together: the polynomial is one in `Y = X^(n / 2 whole)`.
    whole: usize,
    /// Period of each vector.
    period: usize,
    /// Number of vectors.
    count: usize,
    sum: InnerSum,
}

impl PeriodicPacking {
    /// Packs `count` vectors that repeat after `period` slots.
    ///
    /// # Errors
    /// If the period is not a power of two, there are no vectors, they do not fit in the slots, or the slots are real.
    pub fn new(parameters: &CkksParameters, period: usize, count: usize) -> Result<Self, CkksError> {
        const OPERATION: &str = "pack vectors that repeat";
        if parameters.ring().kind() != RingKind::Standard {
            return Err(CkksError::RealRing { operation: OPERATION });
        }
        let slots = parameters.slots();
        let whole = count.checked_next_power_of_two().and_then(|count| count.checked_mul(period));
        let Some(whole) = whole.filter(|&whole| period.is_power_of_two() && count > 0 && whole <= slots) else {
            let needed = format!("a period that is a power of two, for {count} vectors in {slots} slots");
            return Err(CkksError::Shape { operation: OPERATION, found: period, needed });
        };
        // With doublings alone, packings of longer periods need no other keys.
        let sum = InnerSum::with_radix(whole as i64, slots / whole, 0, 2)?;
        Ok(PeriodicPacking { parameters: parameters.clone(), whole, period, count, sum })
    }

    /// Number of vectors.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Number of slots after which the vectors repeat.
    pub fn period(&self) -> usize {
        self.period
    }

    /// The coefficients of the polynomial that are in use: `2 period` for each vector, vector after vector.
    pub fn places(&self) -> Vec<usize> {
        let step = self.parameters.slots() / self.period;
        (0..self.count).flat_map(|v| (0..2 * self.period).map(move |t| self.shift(v) + step * t)).collect()
    }

    /// At most `most` of the even coefficients of the polynomial that are not in use: zero in a message.
    pub fn unused_places(&self, most: usize) -> Vec<usize> {
        let (step, used) = (self.parameters.slots() / self.period, (0..self.count).map(|v| self.shift(v)));
        let used: BTreeSet<usize> = used.collect();
        let free = (0..step).step_by(2).filter(|shift| !used.contains(shift));
        free.flat_map(|shift| (0..2 * self.period).map(move |t| shift + step * t)).take(most).collect()
    }

    /// The exponent of `X` by which vector `v` is multiplied. Vectors are separated by halves, so the lowest bit of the
    /// exponent of `Y` is the highest bit of the number.
    fn shift(&self, v: usize) -> usize {
        let splits = (self.whole / self.period).trailing_zeros();
        let reversed = if splits == 0 { 0 } else { v.reverse_bits() >> (usize::BITS - splits) };
        reversed * (self.parameters.slots() / self.whole)
    }

    /// The factor by which [`PeriodicPacking::unpack`] multiplies.
    pub fn factor(&self) -> u32 {
        (self.parameters.slots() / self.period) as u32
    }

    /// Encodes vectors of one period each.
    ///
    /// # Errors
    /// If there are not [`PeriodicPacking::count`] vectors of one period, or as for [`Encoder::encode`].
    pub fn encode(
        &self,
        encoder: &Encoder,
        vectors: &[&[Complex64]],
        level: usize,
        scale: f64,
    ) -> Result<Plaintext, CkksError> {
        if vectors.len() != self.count || vectors.iter().any(|vector| vector.len() != self.period) {
            let needed = format!("{} vectors of {} slots", self.count, self.period);
            return Err(CkksError::Shape { operation: "encode vectors that repeat", found: vectors.len(), needed });
        }
        let mut whole = Zeroizing::new(vec![0.0; self.parameters.ring().degree()]);
        let step = self.parameters.slots() / self.period;
        for (v, values) in vectors.iter().enumerate() {
            let coefficients = encoder.coefficients("encode vectors that repeat", values, 1.0)?;
            for t in 0..2 * self.period {
                whole[self.shift(v) + step * t] = coefficients[step * t];
            }
        }
        encoder.encode_coefficients(&whole, level, scale)
    }

    /// The ciphertext of the vectors, of which the coefficients at [`PeriodicPacking::places`] were sent, divided by
    /// [`PeriodicPacking::factor`] modulo its primes.
    ///
    /// # Errors
    /// If no level has the primes of the ciphertext.
    pub fn expand(&self, sparse: &rlwe::SeededCiphertext, scale: f64) -> Result<Ciphertext, CkksError> {
        let ring = self.parameters.ring();
        let level = self.parameters.level_of(sparse.basis()).ok_or_else(|| RlweError::Decode {
            what: "vectors that repeat",
            found: sparse.basis().to_string(),
            needed: "the primes of a level".into(),
        })?;
        let mut inner = sparse.expand(ring);
        for component in inner.components_mut() {
            ring.unscale_assign(component, self.factor())?;
        }
        Ok(Ciphertext { inner, level, scale })
    }

    /// The keys that [`PeriodicPacking::unpack`] needs at `level`.
    pub fn key_plan(&self, level: usize) -> KeyPlan {
        let mut plan = self.sum.key_plan(&self.parameters, level);
        let mut period = self.whole;
        while period > self.period {
            period /= 2;
            let element = galois::rotation(self.parameters.ring(), period as i64);
            plan.require_over(KeyKind::Galois { element }, self.parameters.basis(level));
        }
        plan
    }

    /// The vectors, at the level of `packed`, times [`PeriodicPacking::factor`].
    ///
    /// # Errors
    /// If keys are missing.
    pub fn unpack<A: Arithmetic>(&self, arithmetic: &A, packed: &A::Vector) -> Result<Vec<A::Vector>, CkksError> {
        let mut nodes = vec![self.sum.apply(arithmetic, packed)?];
        let mut period = self.whole;
        while period > self.period {
            // `Y` times a polynomial in `Y^2` changes its sign in the rotation.
            let shift = self.parameters.slots() / period;
            period /= 2;
            let inverse = 2 * self.parameters.ring().degree() - shift;
            // Vectors below a node are the next ones in the order of numbers.
            let needed = self.count.div_ceil(period / self.period);
            let mut halves = Vec::with_capacity(needed);
            for node in &nodes {
                let rotated = arithmetic.rotate(node, period as i64)?;
                halves.push(arithmetic.add(node, &rotated)?);
                if halves.len() < needed {
                    halves.push(arithmetic.mul_monomial(&arithmetic.sub(node, &rotated)?, inverse)?);
                }
            }
            nodes = halves;
        }
        Ok(nodes)
    }

    /// Joins vectors that repeat, as a circuit made them, to one ciphertext: their values are again at
    /// [`PeriodicPacking::places`]. The noise of each is spread over all coefficients, so it adds up.
    ///
    /// # Errors
    /// If there are not [`PeriodicPacking::count`] vectors of one level and scale.
    pub fn join<A: Arithmetic>(&self, arithmetic: &A, vectors: &[A::Vector]) -> Result<A::Vector, CkksError> {
        let Some((first, rest)) = vectors.split_first().filter(|_| vectors.len() == self.count) else {
            let needed = format!("{} vectors", self.count);
            return Err(CkksError::Shape { operation: "join vectors that repeat", found: vectors.len(), needed });
        };
        rest.iter().enumerate().try_fold(first.clone(), |sum, (v, vector)| {
            arithmetic.add(&sum, &arithmetic.mul_monomial(vector, self.shift(v + 1))?)
        })
    }

    /// Decodes the coefficients at [`PeriodicPacking::places`]: one period of each vector, divided by `scale`. Wiped
    /// when dropped.
    ///
    /// # Errors
    /// If the number of coefficients is not the number of places.
    pub fn decode(&self, encoder: &Encoder, coefficients: &[f64], scale: f64) -> Result<Vec<Slots>, CkksError> {
        if coefficients.len() != 2 * self.period * self.count {
            let needed = format!("{} coefficients", 2 * self.period * self.count);
            return Err(CkksError::Shape {
                operation: "decode vectors that repeat",
                found: coefficients.len(),
                needed,
            });
        }
        let step = self.parameters.slots() / self.period;
        let mut whole = Zeroizing::new(vec![0.0; self.parameters.ring().degree()]);
        let decode = |own: &[f64]| {
            own.iter().enumerate().for_each(|(t, &c)| whole[step * t] = c);
            let mut slots = Slots::from(encoder.slots_of(&whole, scale));
            slots.truncate(self.period);
            slots
        };
        Ok(coefficients.chunks_exact(2 * self.period).map(decode).collect())
    }
}
