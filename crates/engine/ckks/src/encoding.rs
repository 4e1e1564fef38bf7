//! Encoding of vectors into polynomials, and decoding.
//!
//! Slot `j` of a polynomial `m` is its value at `zeta^(5^j)`, `zeta = exp(2 pi i / M)`, with `M = 2n` in the standard
//! ring (`n/2` complex slots; the conjugates are the other roots) and `M = 4n` in the conjugate-invariant one (`n` real
//! slots). With `c_k = m_k + i m_(k+n/2)`, respectively `c_k = m_k - i m_(n-k)`, and `5^j = 4 f + 1`, the slot is
//! `sum_k c_k zeta^k exp(2 pi i f k / slots)`: one complex Fourier transform over the slots after a twist.

use std::f64::consts::PI;
use std::fmt;
use std::hint::black_box;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, OnceLock};

use num_complex::Complex64;
use rustfft::{Fft, FftPlanner};
use unspoken_ring::{Basis, Domain, Poly, RingKind, SubringPoly, nearest_integer};
use zeroize::{Zeroizing, optimization_barrier};

use crate::error::CkksError;
use crate::parameters::CkksParameters;
use crate::scale::check_scale;

/// An encoded vector: a polynomial in the evaluation domain, with its level and scale.
#[derive(Clone, Debug)]
pub struct Plaintext {
    pub(crate) poly: Poly,
    pub(crate) level: usize,
    pub(crate) scale: f64,
}

impl Plaintext {
    /// The polynomial.
    pub fn poly(&self) -> &Poly {
        &self.poly
    }

    /// Its level.
    pub fn level(&self) -> usize {
        self.level
    }

    /// Its scale.
    pub fn scale(&self) -> f64 {
        self.scale
    }
}

/// Slot values, which may be a client's message. They are wiped when dropped and not printed.
#[derive(Clone)]
pub struct Slots(Vec<Complex64>);

impl Slots {
    fn zeros(len: usize) -> Self {
        Slots(vec![Complex64::default(); len])
    }

    /// Keeps the first `len` values and wipes the others.
    pub fn truncate(&mut self, len: usize) {
        let kept = len.min(self.0.len());
        self.0[kept..].fill(Complex64::default());
        optimization_barrier::<[Complex64]>(&self.0);
        self.0.truncate(kept);
    }

    /// Transforms the first `fft.len()` numbers in place; the rest of the buffer is scratch space.
    fn transform(&mut self, fft: &dyn Fft<f64>) {
        let (numbers, scratch) = self.0.split_at_mut(fft.len());
        fft.process_with_scratch(numbers, scratch);
    }
}

impl Deref for Slots {
    type Target = [Complex64];
    fn deref(&self) -> &[Complex64] {
        &self.0
    }
}

impl DerefMut for Slots {
    fn deref_mut(&mut self) -> &mut [Complex64] {
        &mut self.0
    }
}

impl From<Vec<Complex64>> for Slots {
    /// Takes ownership of the values. There must be no copies elsewhere, because those would not be wiped.
    fn from(values: Vec<Complex64>) -> Self {
        Slots(values)
    }
}

impl AsRef<[Complex64]> for Slots {
    fn as_ref(&self) -> &[Complex64] {
        &self.0
    }
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slots").field("len", &self.0.len()).finish_non_exhaustive()
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        self.0.fill(Complex64::default());
        optimization_barrier::<[Complex64]>(&self.0);
    }
}

/// Encoder and decoder of one parameter set. Cheap to clone.
#[derive(Clone)]
pub struct Encoder {
    parameters: CkksParameters,
    tables: Arc<Tables>,
}

struct Tables {
    forward: Arc<dyn Fft<f64>>,
    inverse: Arc<dyn Fft<f64>>,
    /// `zeta^k`.
    twist: Vec<Complex64>,
    /// `(5^j - 1) / 4`: where the transform holds slot `j`.
    position: Vec<usize>,
    /// Forward transforms of shorter periods, by the binary logarithm, made at their first use.
    shorter: Vec<OnceLock<Arc<dyn Fft<f64>>>>,
}

impl Tables {
    /// The forward transform of a period that is a power of two below the number of slots.
    fn of_period(&self, period: usize) -> Arc<dyn Fft<f64>> {
        let plan = || FftPlanner::new().plan_fft_forward(period);
        self.shorter.get(period.trailing_zeros() as usize).map_or_else(plan, |made| Arc::clone(made.get_or_init(plan)))
    }
}

impl Encoder {
    /// Computes the tables: `3 * slots` words of 16 bytes.
    pub fn new(parameters: &CkksParameters) -> Self {
        let slots = parameters.slots();
        let order = 4 * slots;
        let mut planner = FftPlanner::new();
        let powers = std::iter::successors(Some(1usize), |&g| Some(g * 5 % order));
        let tables = Tables {
            forward: planner.plan_fft_forward(slots),
            inverse: planner.plan_fft_inverse(slots),
            twist: (0..slots).map(|k| Complex64::cis(2.0 * PI * k as f64 / order as f64)).collect(),
            position: powers.take(slots).map(|g| (g - 1) / 4).collect(),
            shorter: (0..slots.trailing_zeros()).map(|_| OnceLock::new()).collect(),
        };
        Encoder { parameters: parameters.clone(), tables: Arc::new(tables) }
    }

    /// The parameters it encodes for.
    pub fn parameters(&self) -> &CkksParameters {
        &self.parameters
    }

    /// Encodes complex values into the slots, rounded at `scale`. If there are fewer values than slots, they are
    /// repeated to fill the slots (sparse packing); their number must divide the number of slots.
    ///
    /// # Errors
    /// If the number of values does not fit, one is not finite (or not real, in the conjugate-invariant ring), or the
    /// scaled values exceed the modulus of the level.
    pub fn encode(&self, values: &[Complex64], level: usize, scale: f64) -> Result<Plaintext, CkksError> {
        const OPERATION: &str = "encode";
        if let &[value] = values {
            return self.encode_constant(OPERATION, value, level, scale);
        }
        let coefficients = self.coefficients(OPERATION, values, scale)?;
        Ok(Plaintext { poly: self.round(OPERATION, &coefficients, level, self.parameters.basis(level))?, level, scale })
    }

    /// Encodes the same value in all slots. `a + b X^(n/2)` has the value `a + i b` in each slot, so no transform is
    /// needed. The running time does not depend on the value.
    fn encode_constant(
        &self,
        operation: &'static str,
        value: Complex64,
        level: usize,
        scale: f64,
    ) -> Result<Plaintext, CkksError> {
        self.check_values(operation, &[value], scale)?;
        let scaled = Zeroizing::new([value.re * scale, value.im * scale]);
        self.check_fits(operation, scaled.as_slice(), level)?;
        let ring = self.parameters.ring();
        let basis = self.parameters.basis(level);
        let mut poly = match ring.kind() {
            RingKind::Standard => ring.complex_constant(scaled.map(nearest_integer), basis)?,
            RingKind::ConjugateInvariant => {
                let mut poly = ring.zero(basis, Domain::Evaluation);
                ring.add_constant_assign(&mut poly, nearest_integer(scaled[0]))?;
                poly
            }
        };
        // The encoded value may be a client's message.
        poly.mark_secret();
        Ok(Plaintext { poly, level, scale })
    }

    /// Encodes real values as [`Encoder::encode`] does.
    ///
    /// # Errors
    /// As for [`Encoder::encode`].
    pub fn encode_real(&self, values: &[f64], level: usize, scale: f64) -> Result<Plaintext, CkksError> {
        let complex = Slots(values.iter().map(|&x| Complex64::new(x, 0.0)).collect());
        self.encode(&complex.0, level, scale)
    }

    /// Encodes real values into the coefficients, rounded at `scale`.
    ///
    /// # Errors
    /// If there are not exactly `n` values, or as for [`Encoder::encode`].
    pub fn encode_coefficients(&self, values: &[f64], level: usize, scale: f64) -> Result<Plaintext, CkksError> {
        const OPERATION: &str = "encode coefficients";
        check_scale(OPERATION, scale)?;
        let degree = self.parameters.ring().degree();
        if values.len() != degree {
            let needed = format!("the ring degree, {degree}");
            return Err(CkksError::Shape { operation: OPERATION, found: values.len(), needed });
        }
        check_each(OPERATION, values, |x| !x.is_finite(), "a finite real number")?;
        let scaled: Zeroizing<Vec<f64>> = Zeroizing::new(values.iter().map(|x| x * scale).collect());
        Ok(Plaintext { poly: self.round(OPERATION, &scaled, level, self.parameters.basis(level))?, level, scale })
    }

    /// The slots of a polynomial in the coefficient domain, divided by `scale`. Wiped when dropped.
    ///
    /// # Errors
    /// If the polynomial is in the evaluation domain.
    pub fn decode(&self, poly: &Poly, scale: f64) -> Result<Slots, CkksError> {
        Ok(Slots(self.slots_of(&self.parameters.ring().to_f64(poly)?, scale)))
    }

    /// The coefficients of a polynomial in the coefficient domain, divided by `scale`. Wiped when dropped.
    ///
    /// # Errors
    /// If the polynomial is in the evaluation domain.
    pub fn decode_coefficients(&self, poly: &Poly, scale: f64) -> Result<Zeroizing<Vec<f64>>, CkksError> {
        let mut coefficients = self.parameters.ring().to_f64(poly)?;
        coefficients.iter_mut().for_each(|c| *c /= scale);
        Ok(coefficients)
    }

    /// Encodes the constants of a circuit at `level`. They belong to the party that computes, so the polynomial and the
    /// ciphertexts it multiplies are public.
    pub(crate) fn encode_public(&self, values: &[Complex64], level: usize, scale: f64) -> Result<Poly, CkksError> {
        let mut poly = self.encode(values, level, scale)?.poly;
        poly.declare_public();
        Ok(poly)
    }

    /// As [`Encoder::encode_public`], over an extended basis of the level, for products with key-switched ciphertexts
    /// that are not yet divided by `P`.
    pub(crate) fn encode_extended(
        &self,
        values: &[Complex64],
        (level, basis): (usize, Basis),
        scale: f64,
    ) -> Result<Poly, CkksError> {
        const OPERATION: &str = "encode over the extended basis";
        let coefficients = self.coefficients(OPERATION, values, scale)?;
        let mut poly = self.round(OPERATION, &coefficients, level, basis)?;
        poly.declare_public();
        Ok(poly)
    }

    /// As [`Encoder::encode_extended`], with one of each `run` equal values. The values repeat after `slots / run`
    /// slots, and all work is that of a ring that is smaller by `run`.
    pub(crate) fn encode_subring(
        &self,
        values: &[Complex64],
        (level, basis): (usize, Basis),
        scale: f64,
        run: usize,
    ) -> Result<SubringPoly, CkksError> {
        const OPERATION: &str = "encode over the extended basis";
        let ring = self.parameters.ring();
        if run == 1 {
            return Ok(ring.into_subring(self.encode_extended(values, (level, basis), scale)?, run)?);
        }
        let coefficients = self.subring_coefficients(OPERATION, values, scale, run)?;
        self.check_fits(OPERATION, &coefficients, level)?;
        Ok(ring.evaluate_subring_f64(&coefficients, self.log2_limit(level).ceil() as u32, basis, run)?)
    }

    /// Every `run`-th coefficient of a vector that repeats, times `scale`, not rounded. The others are 0.
    fn subring_coefficients(
        &self,
        operation: &'static str,
        values: &[Complex64],
        scale: f64,
        run: usize,
    ) -> Result<Vec<f64>, CkksError> {
        self.check_values(operation, values, scale)?;
        let period = self.parameters.slots() / run;
        if period == 0 || !period.is_multiple_of(values.len()) {
            let needed = format!("a divisor of the period, {period}");
            return Err(CkksError::Shape { operation, found: values.len(), needed });
        }
        let fft = self.tables.of_period(period);
        let mut work = self.work(&*fft);
        for (position, &value) in self.tables.position[..period].iter().zip(values.iter().cycle()) {
            work.0[position % period] = value;
        }
        work.transform(&*fft);
        let factor = scale / period as f64;
        let twist = self.tables.twist.iter().step_by(run);
        work.0.iter_mut().zip(twist).for_each(|(c, t)| *c = *c * t.conj() * factor);
        Ok(self.untwist(&work.0[..period]))
    }

    /// The coefficients of the vector's polynomial times `scale`, not rounded.
    pub(crate) fn coefficients(
        &self,
        operation: &'static str,
        values: &[Complex64],
        scale: f64,
    ) -> Result<Zeroizing<Vec<f64>>, CkksError> {
        self.check_values(operation, values, scale)?;
        let slots = self.parameters.slots();
        let mut work = self.work(&*self.tables.forward);
        for positions in self.tables.position.chunks_exact(values.len()) {
            for (&position, &value) in positions.iter().zip(values) {
                work.0[position] = value;
            }
        }
        // The transform of rustfft with exponent -1 inverts the one with +1, up to the factor `slots`.
        work.transform(&*self.tables.forward);
        let factor = scale / slots as f64;
        work.0.iter_mut().zip(&self.tables.twist).for_each(|(c, t)| *c = *c * t.conj() * factor);
        let mut coefficients = Zeroizing::new(self.untwist(&work.0[..slots]));
        // Slots that repeat have a polynomial in a power of X. Its other coefficients are rounding errors.
        let repetitions = slots / values.len();
        let between = coefficients.iter_mut().enumerate().filter(|(k, _)| k % repetitions != 0);
        between.for_each(|(_, coefficient)| *coefficient = 0.0);
        Ok(coefficients)
    }

    /// A zeroed buffer for a transform and its scratch space.
    fn work(&self, fft: &dyn Fft<f64>) -> Slots {
        Slots::zeros(fft.len() + fft.get_inplace_scratch_len())
    }

    /// Checks that the scale is valid, the number of values divides the slots, and each value is valid in this ring.
    fn check_values(&self, operation: &'static str, values: &[Complex64], scale: f64) -> Result<(), CkksError> {
        check_scale(operation, scale)?;
        let slots = self.parameters.slots();
        if values.is_empty() || !slots.is_multiple_of(values.len()) {
            let needed = format!("a divisor of the {slots} slots");
            return Err(CkksError::Shape { operation, found: values.len(), needed });
        }
        let real = self.parameters.ring().kind() == RingKind::ConjugateInvariant;
        let needed = if real { "a finite real number" } else { "a finite complex number" };
        check_each(operation, values, |z| !z.re.is_finite() | !z.im.is_finite() | (real & (z.im != 0.0)), needed)
    }

    /// The slots of the polynomial with these coefficients, divided by `scale`.
    pub(crate) fn slots_of(&self, coefficients: &[f64], scale: f64) -> Vec<Complex64> {
        let mut work = self.work(&*self.tables.inverse);
        self.twist(coefficients, &mut work.0);
        work.0.iter_mut().zip(&self.tables.twist).for_each(|(c, t)| *c = *c * t / scale);
        work.transform(&*self.tables.inverse);
        self.tables.position.iter().map(|&p| work.0[p]).collect()
    }

    /// Maps real coefficients to the `c_k` of the formula in the module documentation.
    fn twist(&self, m: &[f64], c: &mut [Complex64]) {
        let slots = self.parameters.slots();
        let imaginary = |k: usize| match self.parameters.ring().kind() {
            RingKind::Standard => m[k + slots],
            RingKind::ConjugateInvariant if k == 0 => 0.0,
            RingKind::ConjugateInvariant => -m[slots - k],
        };
        c[..slots].iter_mut().enumerate().for_each(|(k, c)| *c = Complex64::new(m[k], imaginary(k)));
    }

    /// The inverse of [`Encoder::twist`].
    fn untwist(&self, c: &[Complex64]) -> Vec<f64> {
        match self.parameters.ring().kind() {
            RingKind::Standard => c.iter().map(|z| z.re).chain(c.iter().map(|z| z.im)).collect(),
            // For a vector of real slots both c_k and c_(n-k) contain m_k: average them.
            RingKind::ConjugateInvariant => {
                let n = c.len();
                (0..n).map(|k| if k == 0 { c[0].re } else { (c[k].re - c[n - k].im) / 2.0 }).collect()
            }
        }
    }

    /// Checks that scaled coefficients fit the modulus of a level.
    pub(crate) fn check_fits(&self, operation: &'static str, scaled: &[f64], level: usize) -> Result<(), CkksError> {
        let max_level = self.parameters.max_level();
        if level > max_level {
            return Err(CkksError::Level { operation, found: max_level, needed: level });
        }
        let log2_limit = self.log2_limit(level);
        check_largest(operation, largest(scaled), log2_limit)
    }

    /// Maximum bits of a coefficient at a level: half the modulus, and at most 126 bits, the limit of integers in the
    /// ring.
    pub fn log2_limit(&self, level: usize) -> f64 {
        (self.parameters.log2_modulus(level) - 1.0).min(126.0)
    }

    /// The polynomial with coefficients rounded to the nearest integers. The running time depends on the level, not on
    /// the coefficients. The polynomial is marked secret, because it may encode a client's message.
    fn round(&self, operation: &'static str, scaled: &[f64], level: usize, basis: Basis) -> Result<Poly, CkksError> {
        self.check_fits(operation, scaled, level)?;
        Ok(self.parameters.ring().evaluate_f64(scaled, self.log2_limit(level).ceil() as u32, basis)?)
    }
}

/// Refuses a list in which a value is bad. All values are examined, and the branch on the result, whether the caller
/// gets an error, is the only one that depends on them. Not inlined, so that tools can name this function when they
/// find the branch.
#[inline(never)]
fn check_each<T>(
    operation: &'static str,
    values: &[T],
    bad: impl Fn(&T) -> bool,
    needed: &'static str,
) -> Result<(), CkksError> {
    if !any(values, &bad) {
        return Ok(());
    }
    let index = values.iter().position(bad).unwrap_or(0);
    Err(CkksError::Value { operation, index, needed })
}

/// Whether a value is bad, without a branch on one.
#[inline(never)]
fn any<T>(values: &[T], bad: impl Fn(&T) -> bool) -> bool {
    values.iter().fold(0, |seen, value| seen | black_box(u8::from(bad(value)))) != 0
}

/// The largest magnitude, at least 1; NaN if a coefficient is. No branch depends on the coefficients.
fn largest(scaled: &[f64]) -> f64 {
    // The bit patterns of magnitudes are ordered like the numbers, and NaN is above infinity.
    let magnitude = |x: &f64| x.to_bits() & (u64::MAX >> 1);
    f64::from_bits(scaled.iter().map(magnitude).fold(1.0f64.to_bits(), u64::max))
}

/// Refuses a magnitude that does not fit. Compares it with the limit, because a logarithm looks up tables. As for
/// [`check_each`], the branch is the only one that depends on the coefficients.
#[inline(never)]
fn check_largest(operation: &'static str, largest: f64, log2_limit: f64) -> Result<(), CkksError> {
    if largest < log2_limit.exp2() { Ok(()) } else { Err(CkksError::Overflow { operation, log2_limit }) }
}

/// Bits of the largest coefficient, at least 0; infinite if one is NaN. Takes time that depends on it.
pub(crate) fn log2_largest(scaled: &[f64]) -> f64 {
    let largest = largest(scaled);
    if largest.is_nan() { f64::INFINITY } else { largest.log2() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Preset;

    #[test]
    fn one_value_is_encoded_as_a_vector_of_it() {
        let cases = [
            ("insecure_n11_depth9_scale50", &[(0.0, 0.0), (1.25, 0.0), (-3.5, 0.75), (0.0, -2.0)][..]),
            ("insecure_n11_real_depth9_scale50", &[(0.0, 0.0), (-1.25, 0.0)][..]),
        ];
        for (name, values) in cases {
            let encoder = Encoder::new(&Preset::find(name).unwrap().build().unwrap());
            let (ring, slots) = (encoder.parameters().ring(), encoder.parameters().slots());
            let residues = |values: &[Complex64]| {
                let mut bytes = Vec::new();
                ring.write_residues(encoder.encode(values, 3, (1u64 << 40) as f64).unwrap().poly(), &mut bytes);
                bytes
            };
            for &(re, im) in values {
                let value = Complex64::new(re, im);
                assert_eq!(residues(&[value]), residues(&vec![value; slots]), "{name}: {value}");
            }
            let refused = |value: Complex64, scale: f64| encoder.encode(&[value], 0, scale).unwrap_err();
            assert!(matches!(refused(f64::NAN.into(), 1.0), CkksError::Value { index: 0, .. }));
            let overflow = refused(12_345.678e30.into(), 1e9).to_string();
            assert!(!overflow.contains("12345") && !overflow.contains("143"), "the value or its bits: {overflow}");
            assert!(matches!(refused(1e30.into(), 1e9), CkksError::Overflow { .. }));
            assert!(matches!(encoder.encode(&[Complex64::from(1.0)], 99, 1.0), Err(CkksError::Level { .. })));
        }
    }

    #[test]
    fn vectors_that_repeat_are_encoded_in_a_subring() {
        for name in ["insecure_n11_depth9_scale50", "insecure_n11_real_depth9_scale50"] {
            let encoder = Encoder::new(&Preset::find(name).unwrap().build().unwrap());
            let (ring, slots) = (encoder.parameters().ring(), encoder.parameters().slots());
            let real = ring.kind() == RingKind::ConjugateInvariant;
            let basis = ring.switching_basis(encoder.parameters().basis(4));
            for (run, length) in
                [(16, slots / 16), (16, 4), (64, slots / 64), (slots / 2, 2), (slots / 4, 1), (slots, 1)]
            {
                let value = |k: usize| Complex64::new((k as f64).sin(), if real { 0.0 } else { (k as f64).cos() });
                let values: Vec<Complex64> = (1..=length).map(value).collect();
                let scale = 2f64.powi(30);
                let whole = encoder.coefficients("test", &values, scale).unwrap();
                let short = encoder.subring_coefficients("test", &values, scale, run).unwrap();
                assert_eq!(short.len(), ring.degree() / run);
                let largest = |errors: &mut dyn Iterator<Item = f64>| errors.fold(0.0, f64::max);
                let error = largest(&mut short.iter().zip(whole.iter().step_by(run)).map(|(a, b)| (a - b).abs()));
                assert!(error < 1e-12 * scale, "{name}, runs of {run}, {length} values: {error}");
                assert!(!encoder.encode_subring(&values, (4, basis), scale, run).unwrap().is_secret());
            }
            let values = vec![Complex64::from(1.0); slots / 8];
            assert!(encoder.encode_subring(&values, (4, basis), 1.0, 16).is_err(), "a longer period");
            let large = [Complex64::from(1e30); 2];
            assert!(matches!(encoder.encode_subring(&large, (0, basis), 1e9, 64), Err(CkksError::Overflow { .. })));
        }
    }
}
