//! The server's half of the published decomposition: Algorithms 13 and 15 to 20.
//!
//! A ciphertext modulo `Q' = 2^w` is stored as fractions of the modulus in words of 32 bits, in multiples of
//! `2^(32 - w)`. So a switch to a smaller modulus is a rounding, and a reduction modulo `q` is a shift.

use std::time::{Duration, Instant};

use unspoken_gsw::{LweCiphertext, Rgsw, RlweCiphertext, rounded_to_even};
use unspoken_ring::Poly;

use super::keys::{Keys, fraction};
use super::parameters::Decomposition;

/// RGSW ciphertexts of all bits, the lowest first, with the time of each phase and the number of blind rotations.
pub(super) struct Expansion {
    pub(super) bits: Vec<Rgsw>,
    pub(super) digits_time: Duration,
    pub(super) bits_time: Duration,
    pub(super) conversion_time: Duration,
    pub(super) rotations: Rotations,
}

/// Number of blind rotations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rotations {
    pub(super) digits: u32,
    pub(super) bits: u32,
    pub(super) conversion: u32,
}

impl Rotations {
    pub(super) fn all(self) -> u32 {
        self.digits + self.bits + self.conversion
    }
}

/// The first steps of Algorithm 22: digits, bits of digits, RGSW ciphertexts of the bits.
pub(super) fn expand(keys: &Keys, query: &LweCiphertext) -> anyhow::Result<Expansion> {
    let mut rotations = Rotations::default();
    let started = Instant::now();
    let digits = digits(keys, query, &mut rotations.digits)?;
    let digits_time = started.elapsed();
    let tables = BitTables::new(&keys.parameters)?;
    let mut ciphertexts = Vec::new();
    for digit in &digits {
        ciphertexts.extend(tables.bits(keys, digit)?);
        rotations.bits += 1;
    }
    ciphertexts.truncate(keys.parameters.index_bits as usize);
    let bits_time = started.elapsed() - digits_time;
    let (mut bits, output) = (Vec::with_capacity(ciphertexts.len()), keys.parameters.pir.bootstrap().output());
    for ciphertext in &ciphertexts {
        bits.push(keys.bootstrap.bootstrap(ciphertext, output)?);
        rotations.conversion += 1;
    }
    let conversion_time = started.elapsed() - digits_time - bits_time;
    Ok(Expansion { bits, digits_time, bits_time, conversion_time, rotations })
}

/// Digits modulo `q = 2N`, the lowest first (Algorithm 18). Each has half of `alpha` added, so that its noise is not
/// negative. Counts blind rotations.
///
/// The algorithm as printed ends before it returns the last digit. That is the ciphertext that is left: it has the
/// modulus `q` and needs no floor.
pub(super) fn digits(keys: &Keys, query: &LweCiphertext, rotations: &mut u32) -> anyhow::Result<Vec<LweCiphertext>> {
    let parameters = &keys.parameters;
    let mut rest = switched(query, parameters.width(0));
    let mut digits = Vec::with_capacity(parameters.digits as usize);
    for step in 0..parameters.digits - 1 {
        let (floor, digit) = Floor::new(parameters, step)?.apply(keys, &rest, rotations)?;
        digits.push(digit);
        rest = switched(&floor, parameters.width(step + 1));
    }
    rest.body = rest.body.wrapping_add(half_alpha(parameters, parameters.digits - 1));
    digits.push(rest);
    Ok(digits)
}

/// Rounds a ciphertext to a modulus of `width` bits (Algorithm 16). Ties go to even numbers: many words are ties, and a
/// binary secret would add up their errors if all were rounded up.
fn switched(ciphertext: &LweCiphertext, width: u32) -> LweCiphertext {
    let round = |word: u32| rounded_to_even(word, u32::BITS - width);
    LweCiphertext { mask: ciphertext.mask.iter().map(|&word| round(word)).collect(), body: round(ciphertext.body) }
}

/// `beta`, the bound on noise, at a step: half of `alpha`.
fn half_alpha(parameters: &Decomposition, step: u32) -> u32 {
    1 << (parameters.log2_alpha() - 1 + u32::BITS - parameters.width(step))
}

/// The homomorphic floor at one step (Algorithm 17): removes the lowest digit.
struct Floor<'a> {
    parameters: &'a Decomposition,
    step: u32,
    /// `-q/4`, over `Q'`, for numbers below `q/2`. The algorithm as printed has the opposite sign, which would set the
    /// highest bit instead of clearing it.
    highest: Poly,
    /// The identity, over `Q'`.
    identity: Poly,
}

impl<'a> Floor<'a> {
    fn new(parameters: &'a Decomposition, step: u32) -> anyhow::Result<Self> {
        let ring = parameters.pir.ring();
        let unit = (-f64::from(parameters.width(step))).exp2();
        let quarter = (ring.degree() / 2) as f64;
        let highest = vec![fraction(ring, -quarter * unit); ring.degree()];
        let identity: Vec<i64> = (0..ring.degree()).map(|x| fraction(ring, x as f64 * unit)).collect();
        let [highest, identity] = [ring.from_i64(&highest, ring.basis())?, ring.from_i64(&identity, ring.basis())?];
        Ok(Floor { parameters, step, highest, identity })
    }

    /// The ciphertext without its lowest digit, and the digit modulo `q`.
    fn apply(
        &self,
        keys: &Keys,
        ciphertext: &LweCiphertext,
        rotations: &mut u32,
    ) -> anyhow::Result<(LweCiphertext, LweCiphertext)> {
        let (width, order) = (self.parameters.width(self.step), self.parameters.log2_order());
        let mut rest = ciphertext.clone();
        rest.body = rest.body.wrapping_add(half_alpha(self.parameters, self.step));
        let digit = rest.shifted(width - order);
        rest.sub_assign(&self.evaluated(keys, &self.highest, &digit, rotations)?)?;
        rest.body = rest.body.wrapping_sub(1 << (order - 2 + u32::BITS - width));
        // The highest bit of the digit is 0 now, so the table needs not be negacyclic.
        let low = rest.shifted(width - order);
        rest.sub_assign(&self.evaluated(keys, &self.identity, &low, rotations)?)?;
        Ok((rest, digit))
    }

    /// A table at a phase modulo `q` (Algorithm 13), switched to the modulus of the step. No key switch is needed: the
    /// coefficients of the ring's secret are the LWE secret.
    fn evaluated(
        &self,
        keys: &Keys,
        table: &Poly,
        phase: &LweCiphertext,
        rotations: &mut u32,
    ) -> anyhow::Result<LweCiphertext> {
        *rotations += 1;
        let rotated = keys.floor.rotate(table, &phase.switched(self.parameters.log2_order()))?;
        Ok(switched(&rotated.coefficient(self.parameters.pir.ring(), 0)?, self.parameters.width(self.step)))
    }
}

/// The table and the factors of a bit decomposition with one blind rotation (Algorithm 19).
pub(super) struct BitTables {
    /// `-Q/4` in the first `alpha` coefficients.
    block: Poly,
    /// The factor of each bit, the lowest first, in the evaluation domain. The factor of bit `i` has a 2 at `alpha j`
    /// for the numbers `j` with bit `i`; the factor of the highest bit has a 1 at all `alpha j`. Line 9 of the
    /// algorithm as printed gives other numbers than its proof needs.
    factors: Vec<Poly>,
}

impl BitTables {
    pub(super) fn new(parameters: &Decomposition) -> anyhow::Result<Self> {
        let (ring, alpha) = (parameters.pir.ring(), 1usize << parameters.log2_alpha());
        let mut block = vec![0; ring.degree()];
        block[..alpha].fill(-fraction(ring, 0.25));
        let highest = parameters.digit_bits - 1;
        let factor = |bit: u32| {
            let mut factor = vec![0; ring.degree()];
            for (j, first) in factor.iter_mut().step_by(alpha).enumerate() {
                *first = if bit == highest { 1 } else { 2 * (j >> bit & 1) as i64 };
            }
            ring.evaluate_i64(&factor, ring.basis())
        };
        Ok(BitTables {
            block: ring.from_i64(&block, ring.basis())?,
            factors: (0..parameters.digit_bits).map(factor).collect::<Result<_, _>>()?,
        })
    }

    /// LWE ciphertexts of the bits of a digit under the small secret, the lowest first: their phases are `2^31 bit`
    /// plus noise. One blind rotation.
    pub(super) fn bits(&self, keys: &Keys, digit: &LweCiphertext) -> anyhow::Result<Vec<LweCiphertext>> {
        let rotated = keys.bits.rotate(&self.block, &digit.switched(keys.parameters.log2_order()))?;
        let bit = |(number, factor): (usize, &Poly)| self.bit(keys, &rotated, number, factor);
        self.factors.iter().enumerate().map(bit).collect()
    }

    fn bit(
        &self,
        keys: &Keys,
        rotated: &RlweCiphertext,
        number: usize,
        factor: &Poly,
    ) -> anyhow::Result<LweCiphertext> {
        let ring = keys.parameters.pir.ring();
        let mut product = rotated.clone();
        product.mul_assign(ring, factor)?;
        let mut bit = product.coefficient(ring, 0)?;
        if number + 1 == self.factors.len() {
            bit.body = bit.body.wrapping_add(1 << 30);
        }
        Ok(keys.switch.switch(&bit)?)
    }
}
