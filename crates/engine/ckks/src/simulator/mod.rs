//! Simulation of circuits in the clear, with the noise, keys and cost of the encrypted run.
//!
//! The simulator draws its own secret and keys from a seed. It propagates errors through the circuit, so they add up
//! and cancel as in the encrypted run; the tests compare both runs, for each operation and for random circuits. It runs
//! a linear transformation without hoisting (`LinearPlan::evaluate`), which is slightly noisier than the encrypted one;
//! it counts the cost and the memory of the hoisted form.
//!
//! The simulator counts work (`cost`) and memory (`working_bytes`) during a run; `Simulator::counting` does so without
//! values, in a fraction of the time. `working_bytes` is the peak memory of the vectors, of temporary values of
//! operations, and of freed buffers that the ring keeps (`with_idle_buffers`); tests compare it to a counting
//! allocator.
//!
//! # Precision
//!
//! `Simulated::error()` compares the noisy slots with the exact ones. Its fields are:
//!
//! - `median`: the error of a typical slot. `-log2(median / largest value)` is the number of correct bits in most
//!   slots.
//! - `worst`: the largest error of a slot. Use this for guarantees.
//! - `rms`: between the two. If it is far above the median, a few slots have most of the error.
//!
//! `overflows()` lists results that do not fit the modulus of their level: an encrypted run would decrypt to garbage.

mod arithmetic;
mod bootstrap;
mod charges;
mod product;
mod simulated;

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use num_complex::Complex64;
use unspoken_ring::{Basis, RingKind};
use unspoken_rlwe::{KeyKind, KeyPlan, RlweError, galois};

pub use self::simulated::{ErrorStatistics, Overflow, Simulated};
use crate::arithmetic::Arithmetic;
use crate::cost::Cost;
use crate::encoding::{Encoder, log2_largest};
use crate::error::CkksError;
use crate::memory::{self, Allocation, Meter, with_idle_buffers};
use crate::noise::{NoiseSource, mix};
use crate::parameters::Drop;
use crate::scale::check_scales;

/// Simulator that runs circuits in the clear.
///
/// It stores every vector twice: exactly, and with the noise that the evaluator would have added so far. Levels, scales
/// and errors are the same as with an [`Evaluator`](crate::Evaluator). The simulator records the keys that the circuit
/// used, the cost, the memory of the encrypted run, and each value that exceeded its modulus. The same operation on the
/// same vector has the same noise, as in the encrypted run. Two runs with the same seed agree, on any number of
/// threads.
pub struct Simulator {
    encoder: Encoder,
    noise: Arc<NoiseSource>,
    keys: Option<KeyPlan>,
    /// Whether encodings get a sampled rounding error in addition to their own.
    samples_encodings: bool,
    record: Mutex<Record>,
    /// Memory that the vectors and operations of an encrypted run hold.
    meter: Arc<Meter>,
    /// Whether work ends, if it can be ended.
    cancel: Option<Arc<AtomicBool>>,
}

#[derive(Default)]
struct Record {
    encryptions: u64,
    plan: KeyPlan,
    cost: Cost,
    overflows: Vec<Overflow>,
}

/// Bits by which a mean of absolute values may be above its bound by rounding.
const ROUNDING: f64 = 1e-6;

/// Relative excess over the range of a bootstrap up to which a coefficient is not reported.
const RANGE_TOLERANCE: f64 = 1e-3;

/// Operations, as part of a vector's id.
#[derive(Clone, Copy)]
enum Step {
    Encrypt,
    Add,
    Sub,
    Tensor,
    Relinearise,
    Rescale,
    Automorphism,
    Imaginary,
    Constant,
    Plaintext,
    Matrix,
    Scale,
    Raise,
    Rotations,
    Products,
    Drop,
    Module,
    Monomial,
}

fn derive(step: Step, parts: &[u64]) -> u64 {
    mix(step as u64, parts)
}

impl Simulator {
    /// A simulator that has every key. `seed` determines the noise.
    pub fn new(encoder: &Encoder, seed: u64) -> Self {
        Self::with_noise(encoder, NoiseSource::new(encoder, seed))
    }

    /// A simulator that has every key and no values. It computes only levels, scales, keys, cost, memory and errors, in
    /// a fraction of the time. Its vectors have no slots; it records no overflows and rejects no values.
    pub fn counting(encoder: &Encoder) -> Self {
        Self::with_noise(encoder, NoiseSource::silent(encoder))
    }

    fn with_noise(encoder: &Encoder, noise: NoiseSource) -> Self {
        let (encoder, noise) = (encoder.clone(), Arc::new(noise));
        let (record, meter) = (Mutex::default(), Arc::default());
        Simulator { encoder, noise, keys: None, samples_encodings: false, record, meter, cancel: None }
    }

    /// Adds a rounding error of typical size to every plaintext that is encoded. Some plaintexts, of equal values for
    /// example, have almost no rounding error of their own. So a run on other values than the encrypted run, such as
    /// [`WorstCase`](crate::WorstCase), would find errors that are too small.
    pub fn with_sampled_encodings(self) -> Self {
        Simulator { samples_encodings: true, ..self }
    }

    /// Restricts the simulator to the keys of this plan: operations that need another key are errors.
    pub fn with_keys(self, plan: KeyPlan) -> Self {
        Simulator { keys: Some(plan), ..self }
    }

    /// Ends operations with [`RlweError::Interrupted`] once the flag is set, as the evaluator does.
    pub fn with_cancel(self, cancel: Arc<AtomicBool>) -> Self {
        Simulator { cancel: Some(cancel), ..self }
    }

    fn check_cancel(&self) -> Result<(), CkksError> {
        let is_set = self.cancel.as_ref().is_some_and(|cancel| cancel.load(Ordering::Relaxed));
        if is_set { Err(RlweError::Interrupted.into()) } else { Ok(()) }
    }

    /// Encodes and encrypts, as [`Encoder::encode`] and [`Encoder::encrypt`] do.
    ///
    /// # Errors
    /// As for [`Encoder::encode`].
    pub fn encrypt(&self, values: &[Complex64], level: usize, scale: f64) -> Result<Simulated, CkksError> {
        const OPERATION: &str = "encode";
        let encoded = self.encoded(OPERATION, values, level, scale)?;
        let count = {
            let mut record = self.record();
            record.encryptions += 1;
            record.encryptions
        };
        let id = derive(Step::Encrypt, &[count]);
        let noisy = plus(&encoded, self.noise.encryption(id), scale);
        let exact = (0..encoded.len()).map(|j| values[j % values.len()]).collect();
        Ok(self.finish(OPERATION, self.pair(id, exact, noisy, (level, scale))))
    }

    /// The keys used so far, each with the largest number of chain primes it was used over: exactly the keys that the
    /// circuit needs.
    pub fn key_plan(&self) -> KeyPlan {
        self.record().plan.clone()
    }

    /// The cost so far.
    pub fn cost(&self) -> Cost {
        self.record().cost.clone()
    }

    /// Peak bytes of memory of an encrypted run of `work`: its vectors, including its result, temporary values of
    /// operations, and buffers that the ring keeps for reuse. Keys, prepared data and vectors that exist before are not
    /// counted.
    ///
    /// # Errors
    /// Returns the error of `work`.
    pub fn working_bytes<T, E>(&self, work: impl FnOnce(&Self) -> Result<T, E>) -> Result<u64, E> {
        let before = self.meter.begin();
        work(self)?;
        let live = self.meter.live(&before);
        Ok(with_idle_buffers(self.parameters(), live, self.meter.touched(&before).saturating_sub(live)))
    }

    /// All results so far that do not fit their modulus.
    pub fn overflows(&self) -> Vec<Overflow> {
        self.record().overflows.clone()
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A vector of two components, without counted memory.
    fn pair(&self, id: u64, exact: Vec<Complex64>, noisy: Vec<Complex64>, (level, scale): (usize, f64)) -> Simulated {
        let (exact, noisy) = (Arc::new(exact), Arc::new(noisy));
        Simulated { id, exact, noisy, level, scale, components: 2, held: Allocation::default() }
    }

    /// The result, with its memory counted until it is dropped.
    fn stored(&self, mut result: Simulated) -> Simulated {
        let (ring, limbs) = (self.parameters().ring(), self.parameters().limbs(result.level));
        result.held = self.meter.hold(result.components as u64, memory::bytes(ring, limbs));
        result
    }

    fn is_real(&self) -> bool {
        self.parameters().ring().kind() == RingKind::ConjugateInvariant
    }

    fn limbs(&self, a: &Simulated) -> usize {
        a.components * self.parameters().limbs(a.level)
    }

    /// The slots of the encoding after rounding.
    fn encoded(
        &self,
        operation: &'static str,
        values: &[Complex64],
        level: usize,
        scale: f64,
    ) -> Result<Vec<Complex64>, CkksError> {
        self.check_cancel()?;
        if self.noise.is_silent() {
            return Ok(Vec::new());
        }
        let mut coefficients = self.encoder.coefficients(operation, values, scale)?;
        self.encoder.check_fits(operation, &coefficients, level)?;
        coefficients.iter_mut().for_each(|c| *c = c.round());
        let slots = self.encoder.slots_of(&coefficients, scale);
        if !self.samples_encodings {
            return Ok(slots);
        }
        let stream = mix(self.values_bits(values), &[level as u64, scale.to_bits()]);
        Ok(plus(&slots, self.noise.encoding(stream), scale))
    }

    /// Hash of values, as part of a vector's id.
    fn values_bits(&self, values: &[Complex64]) -> u64 {
        let named = if self.noise.is_silent() { &[] } else { values };
        named.iter().fold(0, |state, &z| mix(state, &constant_bits(z)))
    }

    /// Finishes a result: counts its memory, and records an overflow if it does not fit its modulus.
    fn finish(&self, operation: &'static str, result: Simulated) -> Simulated {
        if self.noise.is_silent() {
            return self.stored(result);
        }
        let log2_modulus = self.parameters().log2_modulus(result.level);
        // No coefficient exceeds the mean absolute value of the slots, which is at most the mean of the sums of parts.
        // Compute absolute values and coefficients only where that is too large.
        let sums = result.noisy.iter().map(|z| z.re.abs() + z.im.abs()).sum::<f64>() / result.noisy.len() as f64;
        if (sums * result.scale).log2() + 1.0 < log2_modulus - ROUNDING {
            return self.stored(result);
        }
        let mean = result.noisy.iter().map(|z| z.norm()).sum::<f64>() / result.noisy.len() as f64;
        let log2_mean = (mean * result.scale).log2() + 1.0;
        // NaN counts as an overflow.
        if log2_mean.is_nan() || log2_mean >= log2_modulus {
            let real = self.parameters().ring().kind() == RingKind::ConjugateInvariant;
            // Rounding errors leave imaginary parts, which the real ring does not have.
            let slots: Vec<Complex64> = result.noisy.iter().map(|z| if real { z.re.into() } else { *z }).collect();
            let coefficients = self.encoder.coefficients(operation, &slots, result.scale);
            let log2_coefficient = coefficients.map_or(f64::INFINITY, |scaled| log2_largest(&scaled) + 1.0);
            if log2_coefficient >= log2_modulus {
                let overflow = Overflow { operation, level: result.level, log2_coefficient, log2_modulus };
                self.record().overflows.push(overflow);
            }
        }
        self.stored(result)
    }

    fn has_key(&self, kind: KeyKind, chain: usize) -> bool {
        let there = |keys: &KeyPlan| keys.iter().any(|(k, covered)| k == kind && covered >= chain);
        self.keys.as_ref().is_none_or(there)
    }

    /// Records the use of a key, or returns an error if it is missing.
    fn use_key(&self, operation: &'static str, kind: KeyKind, basis: Basis) -> Result<(), CkksError> {
        if !self.has_key(kind, basis.chain) {
            return Err(RlweError::MissingKeys { operation, missing: vec![(kind, basis.chain)] }.into());
        }
        self.record().plan.require_over(kind, basis);
        Ok(())
    }

    fn combine(
        &self,
        (operation, step): (&'static str, Step),
        a: &Simulated,
        b: &Simulated,
        combine: impl Fn(&Complex64, &Complex64) -> Complex64,
    ) -> Result<Simulated, CkksError> {
        let level = a.level.min(b.level);
        let copied = if a.level > level { a.components * self.parameters().limbs(level) } else { 0 };
        let (a, b) = (self.aligned(a, level)?, self.aligned(b, level)?);
        check_scales(operation, a.scale, b.scale)?;
        let zip = |x: &[Complex64], y: &[Complex64]| Arc::new(x.iter().zip(y).map(|(x, y)| combine(x, y)).collect());
        let (components, basis) = (a.components.max(b.components), self.parameters().basis(level));
        let limbs = self.parameters().limbs(level);
        self.charge(Cost::addition(self.parameters().ring(), basis, components), components * limbs + copied);
        let result = Simulated {
            id: derive(step, &[a.id, b.id]),
            exact: zip(&a.exact, &b.exact),
            noisy: zip(&a.noisy, &b.noisy),
            level,
            scale: a.scale,
            components,
            held: Allocation::default(),
        };
        Ok(self.finish(operation, result))
    }

    /// Relinearises a product to two components and goes `drop` levels down. The caller finishes the result.
    fn switch_product(&self, a: &Simulated, drop: usize) -> Result<Simulated, CkksError> {
        check_components("relinearise", a, 3)?;
        let parameters = self.parameters();
        let (basis, to) = (parameters.basis(a.level), parameters.basis(a.level - drop));
        self.use_key("relinearise", KeyKind::Relinearisation, parameters.basis(a.level))?;
        let cost = Cost::key_switch(parameters.ring(), basis, to);
        self.charge(cost, memory::key_switch(parameters.ring(), basis));
        let divisor = if drop > 0 { parameters.level_modulus(a.level) } else { 1.0 };
        let id = derive(Step::Relinearise, &[a.id, a.level as u64, drop as u64]);
        let scale = a.scale / divisor;
        let switched = plus(&a.noisy, self.noise.key_switch(id, KeyKind::Relinearisation, basis), a.scale);
        let noisy = Arc::new(plus(&switched, self.noise.rounding(id, 2), scale));
        Ok(Simulated { id, noisy, level: a.level - drop, scale, components: 2, ..a.draft() })
    }

    /// Applies the automorphism `element`: adds the noise of its key switch and maps the slots by `image`.
    fn automorphism(
        &self,
        operation: &'static str,
        a: &Simulated,
        element: u64,
        (cost, limbs): (Cost, usize),
        image: impl Fn(&[Complex64]) -> Vec<Complex64>,
    ) -> Result<Simulated, CkksError> {
        check_components(operation, a, 2)?;
        if element == 1 {
            return Ok(a.clone());
        }
        let kind = KeyKind::Galois { element };
        let basis = self.parameters().basis(a.level);
        self.use_key(operation, kind, self.parameters().basis(a.level))?;
        self.charge(cost, limbs);
        // The digits depend only on the vector and its level, so the noise is the same with and without hoisting.
        let id = derive(Step::Automorphism, &[a.id, a.level as u64, element]);
        let switched = plus(&a.noisy, self.noise.key_switch(id, kind, basis), a.scale);
        let noisy = Arc::new(plus(&image(&switched), self.noise.rounding(id, 2), a.scale));
        Ok(self.stored(Simulated { id, exact: Arc::new(image(&a.exact)), noisy, ..a.draft() }))
    }

    fn rotation(
        &self,
        operation: &'static str,
        a: &Simulated,
        steps: i64,
        charged: (Cost, usize),
    ) -> Result<Simulated, CkksError> {
        let left = steps.rem_euclid(self.parameters().slots() as i64) as usize;
        let element = galois::rotation(self.parameters().ring(), steps);
        self.automorphism(operation, a, element, charged, |slots| rotated(slots, left))
    }

    /// The sum of rotations with one division, which also goes `drop` levels down.
    fn sum_of_rotations(&self, a: &Simulated, steps: &[i64], drop: usize) -> Result<Simulated, CkksError> {
        const OPERATION: &str = "sum rotations";
        check_components(OPERATION, a, 2)?;
        let parameters = self.parameters();
        let (ring, basis, slots) = (parameters.ring(), parameters.basis(a.level), parameters.slots());
        let (own, extended) = (ring.limb_count(basis), ring.limb_count(ring.switching_basis(basis)));
        let zero = vec![Complex64::default(); a.exact.len()];
        let (mut exact, mut noisy) = (zero.clone(), zero);
        let mut rotations = 0;
        let mut id = derive(Step::Rotations, &[a.id, a.level as u64, drop as u64]);
        for &steps in steps {
            let left = steps.rem_euclid(slots as i64) as usize;
            let element = galois::rotation(ring, steps);
            let mut switched = a.noisy.as_ref().clone();
            if element != 1 {
                let kind = KeyKind::Galois { element };
                self.use_key(OPERATION, kind, parameters.basis(a.level))?;
                // The digits are the digits of the vector itself, so the noise is the same as in a single automorphism.
                let stream = derive(Step::Automorphism, &[a.id, a.level as u64, element]);
                switched = plus(&switched, self.noise.key_switch(stream, kind, basis), a.scale);
                rotations += 1;
            }
            exact.iter_mut().zip(rotated(&a.exact, left)).for_each(|(sum, z)| *sum += z);
            noisy.iter_mut().zip(rotated(&switched, left)).for_each(|(sum, z)| *sum += z);
            id = mix(id, &[element]);
        }
        if steps.is_empty() {
            let needed = "at least one rotation".into();
            return Err(CkksError::Shape { operation: OPERATION, found: 0, needed });
        }
        let to = parameters.basis(a.level - drop);
        let copies = steps.len() as u64 - rotations;
        // The raised digits, the sums of both components over the chain, the sums of their rotations over the extended
        // basis, and the division of these last sums.
        let limbs = memory::raised_digits(ring, basis) + 4 * own + 2 * extended + memory::division(extended);
        self.charge(Cost::sum_of_rotations(ring, basis, rotations, copies, to), limbs);
        let divisor = if drop > 0 { parameters.level_modulus(a.level) } else { 1.0 };
        let scale = a.scale / divisor;
        let noisy = plus(&noisy, self.noise.rounding(id, 2), scale);
        Ok(self.finish(OPERATION, self.pair(id, exact, noisy, (a.level - drop, scale))))
    }

    /// The vector as an operand of an operation at a lower level: itself, unless its primes lack some of that level.
    fn aligned<'v>(&self, a: &'v Simulated, level: usize) -> Result<Cow<'v, Simulated>, CkksError> {
        match self.parameters().drop(a.level, level) {
            Drop::Nested => Ok(Cow::Borrowed(a)),
            Drop::Rescaled { .. } => self.drop_to(a, level).map(Cow::Owned),
        }
    }
}

fn check_components(operation: &'static str, a: &Simulated, needed: usize) -> Result<(), CkksError> {
    if a.components == needed {
        Ok(())
    } else {
        Err(RlweError::Components { operation, found: a.components, needed }.into())
    }
}

fn check_level(operation: &'static str, a: &Simulated, needed: usize) -> Result<(), CkksError> {
    if a.level >= needed { Ok(()) } else { Err(CkksError::Level { operation, found: a.level, needed }) }
}

/// `slots + noise / scale`.
fn plus(slots: &[Complex64], noise: Vec<Complex64>, scale: f64) -> Vec<Complex64> {
    slots.iter().zip(noise).map(|(z, e)| z + e / scale).collect()
}

/// The slots rotated to the left. A vector without slots stays empty.
fn rotated(slots: &[Complex64], left: usize) -> Vec<Complex64> {
    let (head, tail) = slots.split_at(left.min(slots.len()));
    [tail, head].concat()
}

/// Applies `change` to every slot.
fn map(slots: &[Complex64], change: impl Fn(Complex64) -> Complex64) -> Arc<Vec<Complex64>> {
    Arc::new(slots.iter().map(|&z| change(z)).collect())
}

fn constant_bits(constant: Complex64) -> [u64; 2] {
    [constant.re.to_bits(), constant.im.to_bits()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets::Preset;

    #[test]
    fn work_at_another_price_leaves_its_keys_and_overflows_and_takes_no_charge_of_others() {
        let parameters = Preset::find("insecure_n11_depth9_scale50").unwrap().build().unwrap();
        let simulator = Simulator::new(&Encoder::new(&parameters), 1);
        let scale = parameters.scale();
        let x = simulator.encrypt(&[Complex64::from(1.0)], 0, scale).unwrap();
        let begin = simulator.meter.begin();
        let [before, price, beside] = [1, 10, 100].map(|rescales| Cost { rescales, ..Cost::default() });
        simulator.charge(before, 0);
        let work = |inner: &Simulator| {
            // Another thread could charge this at the same time.
            simulator.charge(beside, 0);
            inner.mul_constant(&inner.rotate(&x, 1)?, Complex64::from(1e20), scale)
        };
        let result = simulator.charge_instead((price, 1 << 40), work).unwrap();
        assert_eq!(simulator.cost(), Cost { rescales: 111, ..Cost::default() });
        assert_eq!(simulator.key_plan().len(), 1);
        assert_eq!(simulator.overflows().len(), 1);
        assert_eq!(simulator.meter.live(&begin), 1 << 40);
        // The noise equals that of the same operations without `charge_instead`.
        let direct = simulator.mul_constant(&simulator.rotate(&x, 1).unwrap(), Complex64::from(1e20), scale).unwrap();
        assert_eq!(result.noisy(), direct.noisy());
    }
}
