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

mod arithmetic;
mod product;

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use num_complex::Complex64;
use unspoken_ring::{Basis, RingKind};
use unspoken_rlwe::{EncapsulationLiteral, KeyKind, KeyPlan, RlweError, SubringQueryParameters, galois};

use crate::arithmetic::Arithmetic;
use crate::cost::Cost;
use crate::encoding::{Encoder, log2_largest};
use crate::error::CkksError;
use crate::linear::LinearPlan;
use crate::memory::{self, Held, Meter, with_idle_buffers};
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
}

#[derive(Default)]
struct Record {
    encryptions: u64,
    plan: KeyPlan,
    cost: Cost,
    overflows: Vec<Overflow>,
}

/// A simulated vector: the exact slots and the noisy slots.
#[derive(Clone, Debug)]
pub struct Simulated {
    /// Hash of the operations that produced this vector. It selects the stream of further noise.
    id: u64,
    exact: Arc<Vec<Complex64>>,
    noisy: Arc<Vec<Complex64>>,
    level: usize,
    scale: f64,
    components: usize,
    held: Held,
}

/// The difference between a noisy vector and the exact one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ErrorStatistics {
    /// Root mean square over the slots.
    pub rms: f64,
    /// The median over the slots: half of the slots have a smaller error.
    pub median: f64,
    /// The largest error of a slot.
    pub worst: f64,
}

/// A result whose coefficients do not fit the modulus of its level, so that the encrypted run would decrypt to garbage;
/// or an input of a bootstrap outside the range in which the bootstrap is precise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overflow {
    /// The operation that produced the result.
    pub operation: &'static str,
    /// The level of the result.
    pub level: usize,
    /// Bits of its largest coefficient, including the sign.
    pub log2_coefficient: f64,
    /// Bits of the modulus, or of the range of a bootstrap.
    pub log2_modulus: f64,
}

impl ErrorStatistics {
    /// Compares two vectors of slots, of equal length.
    pub fn between(found: &[Complex64], exact: &[Complex64]) -> Self {
        let mut errors: Vec<f64> = found.iter().zip(exact).map(|(a, b)| (a - b).norm()).collect();
        errors.sort_by(f64::total_cmp);
        let count = errors.len().max(1) as f64;
        ErrorStatistics {
            rms: (errors.iter().map(|e| e * e).sum::<f64>() / count).sqrt(),
            median: errors.get(errors.len() / 2).copied().unwrap_or(0.0),
            worst: errors.last().copied().unwrap_or(0.0),
        }
    }
}

impl Simulated {
    /// The exact slots.
    pub fn exact(&self) -> &[Complex64] {
        &self.exact
    }

    /// The slots that a decryption would return.
    pub fn noisy(&self) -> &[Complex64] {
        &self.noisy
    }

    /// The difference between the noisy and the exact slots.
    pub fn error(&self) -> ErrorStatistics {
        ErrorStatistics::between(&self.noisy, &self.exact)
    }

    /// A copy without counted memory, from which results are built.
    fn draft(&self) -> Self {
        let (exact, noisy) = (Arc::clone(&self.exact), Arc::clone(&self.noisy));
        let Simulated { id, level, scale, components, .. } = *self;
        Simulated { id, exact, noisy, level, scale, components, held: Held::default() }
    }
}

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
        Simulator { encoder, noise, keys: None, samples_encodings: false, record, meter }
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

    /// As [`Simulator::encrypt`], but encodes real values into the coefficients of the polynomial.
    ///
    /// # Errors
    /// If there are not `n` values, or as for [`Encoder::encode_coefficients`].
    pub fn encrypt_coefficients(&self, values: &[f64], level: usize, scale: f64) -> Result<Simulated, CkksError> {
        let degree = self.parameters().ring().degree();
        if values.len() != degree {
            let needed = format!("the ring degree, {degree}");
            return Err(CkksError::Shape { operation: "encode coefficients", found: values.len(), needed });
        }
        self.encrypt(&self.encoder.slots_of(values, 1.0), level, scale)
    }

    /// The same polynomial, interpreted at another scale.
    pub(crate) fn reinterpret(&self, a: &Simulated, scale: f64) -> Simulated {
        let factor = a.scale / scale;
        let id = derive(Step::Scale, &[a.id, scale.to_bits()]);
        let (exact, noisy) = (map(&a.exact, |z| z * factor), map(&a.noisy, |z| z * factor));
        self.stored(Simulated { id, exact, noisy, scale, ..a.draft() })
    }

    /// Raises from level 0 to `level`: multiples of `modulus` are added to the coefficients, the scale
    /// becomes `modulus`, and the switches to the sparse secret and back add their noise. Records coefficients beyond
    /// `range`.
    pub(crate) fn raise_modulus(
        &self,
        a: &Simulated,
        level: usize,
        modulus: f64,
        range: f64,
    ) -> Result<Simulated, CkksError> {
        const OPERATION: &str = "raise the modulus";
        check_components(OPERATION, a, 2)?;
        let parameters = self.parameters().clone();
        let ring = parameters.ring();
        let EncapsulationLiteral { base, primes } = parameters.rlwe().encapsulation()?;
        self.use_key(OPERATION, KeyKind::Encapsulation, Basis::chain(primes))?;
        self.use_key(OPERATION, KeyKind::Decapsulation, parameters.basis(level))?;
        let basis = parameters.basis(level);
        let mut cost = Cost::division(ring, Basis::chain(primes), Basis::chain(base)).times(3);
        cost += Cost::key_switch(ring, basis, basis);
        cost += Cost::division(ring, basis, Basis::chain(base)).times(2);
        // Both components are extended to all primes before the switch.
        self.charge(cost, memory::key_switch(ring, basis) + 2 * ring.limb_count(basis));
        let id = derive(Step::Raise, &[a.id]);
        let integers = if self.noise.is_silent() { Vec::new() } else { self.noise.raised(id) };
        let raise = |slots: &[Complex64]| -> Result<(f64, Vec<Complex64>), CkksError> {
            if slots.is_empty() {
                return Ok((0.0, Vec::new()));
            }
            let mut coefficients = self.encoder.coefficients(OPERATION, slots, a.scale)?;
            let largest = coefficients.iter().fold(0.0f64, |max, c| max.max(c.abs()));
            coefficients.iter_mut().zip(&integers).for_each(|(c, i)| *c += modulus * i);
            Ok((largest, self.encoder.slots_of(&coefficients, modulus)))
        };
        let (largest, exact) = raise(&a.exact)?;
        let rounded = plus(&a.noisy, self.noise.rounding(id, 2), a.scale);
        let (_, noisy) = raise(&rounded)?;
        if largest > range * (1.0 + RANGE_TOLERANCE) {
            let (log2_coefficient, log2_modulus) = (largest.log2(), range.log2());
            let overflow = Overflow { operation: "bootstrap out of range", level: 0, log2_coefficient, log2_modulus };
            self.record().overflows.push(overflow);
        }
        let switched = plus(&noisy, self.noise.key_switch(id, KeyKind::Decapsulation, basis), modulus);
        let noisy = plus(&switched, self.noise.rounding(derive(Step::Raise, &[id]), 2), modulus);
        Ok(self.stored(self.pair(id, exact, noisy, (level, modulus))))
    }

    /// The raise of a fresh subring query of these torus elements to `level`, at scale `scale`: integers are added to
    /// the coefficients of the subring, other values to its coefficients without elements, and the switch to the main
    /// secret adds its noise. An unused coefficient that no trace removes adds to the imaginary part of a slot alone.
    pub(crate) fn raise_query(
        &self,
        queries: &SubringQueryParameters,
        torus: &[f64],
        (level, scale): (usize, f64),
    ) -> Result<Simulated, CkksError> {
        const OPERATION: &str = "raise a subring query";
        let parameters = self.parameters().clone();
        let (ring, basis) = (parameters.ring(), parameters.basis(level));
        self.use_key(OPERATION, KeyKind::SubringQuery, basis)?;
        let limbs = ring.limb_count(basis);
        let mut cost = Cost::key_switch(ring, basis, basis);
        // Both components are lifted to all primes.
        cost.limb_transforms += 2 * limbs as u64;
        self.charge(cost, memory::key_switch(ring, basis) + 2 * limbs);
        let count = {
            let mut record = self.record();
            record.encryptions += 1;
            record.encryptions
        };
        let id = derive(Step::Raise, &[derive(Step::Encrypt, &[count])]);
        if self.noise.is_silent() {
            return Ok(self.stored(self.pair(id, Vec::new(), Vec::new(), (level, scale))));
        }
        if torus.len() != queries.len() {
            let needed = format!("the {} elements of a query", queries.len());
            return Err(CkksError::Shape { operation: OPERATION, found: torus.len(), needed });
        }
        let own = queries.parameters().ring();
        let step = ring.degree() / own.degree();
        let mut exact = vec![0.0; ring.degree()];
        for (coefficient, integer) in exact.iter_mut().step_by(step).zip(self.noise.raised(id)) {
            *coefficient = integer * scale;
        }
        let places = step * (own.degree() / 2 / queries.len());
        for (coefficient, element) in exact.iter_mut().step_by(places).zip(torus) {
            *coefficient += element * scale;
        }
        let mut noisy = exact.clone();
        let errors = self.noise.query_errors(id, torus.len(), f64::from(own.chain()[0]));
        noisy.iter_mut().step_by(places).zip(errors).for_each(|(coefficient, error)| *coefficient += error * scale);
        let [exact, noisy] = [exact, noisy].map(|coefficients| self.encoder.slots_of(&coefficients, scale));
        let switched = plus(&noisy, self.noise.key_switch(id, KeyKind::SubringQuery, basis), scale);
        let noisy = plus(&switched, self.noise.rounding(id, 2), scale);
        Ok(self.stored(self.pair(id, exact, noisy, (level, scale))))
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the cost of an operation, and the limbs that it held at its peak: with the result, without the operands.
    fn charge(&self, cost: Cost, limbs: usize) {
        self.record().cost += cost;
        self.meter.pass(memory::bytes(self.parameters().ring(), limbs));
    }

    /// Runs `work` on a simulator with the same noise and keys and a separate record, and records its keys and
    /// overflows. Returns its result, cost and peak memory. If `work` fails, nothing is recorded.
    fn apart<T>(&self, work: impl FnOnce(&Self) -> Result<T, CkksError>) -> Result<(T, Cost, u64), CkksError> {
        let (noise, keys) = (Arc::clone(&self.noise), self.keys.clone());
        let encoder = self.encoder.clone();
        let (record, meter) = (Mutex::default(), Arc::default());
        let inner = Simulator { encoder, noise, keys, samples_encodings: self.samples_encodings, record, meter };
        let before = inner.meter.begin();
        let result = work(&inner)?;
        let bytes = inner.meter.live(&before);
        let Record { plan, overflows, cost, .. } = inner.record.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut record = self.record();
        record.plan.extend(&plan);
        record.overflows.extend(overflows);
        Ok((result, cost, bytes))
    }

    /// As [`Simulator::apart`]; charges `cost` and `bytes` instead of what `work` charged.
    fn charge_instead<T>(
        &self,
        (cost, bytes): (Cost, u64),
        work: impl FnOnce(&Self) -> Result<T, CkksError>,
    ) -> Result<T, CkksError> {
        let (result, ..) = self.apart(work)?;
        self.record().cost += cost;
        self.meter.pass(bytes);
        Ok(result)
    }

    /// Runs what an evaluator runs on two threads at once: the memory of both counts at the same time.
    pub(crate) fn both(
        &self,
        first: impl FnOnce(&Self) -> Result<Simulated, CkksError>,
        second: impl FnOnce(&Self) -> Result<Simulated, CkksError>,
    ) -> Result<[Simulated; 2], CkksError> {
        let (second, cost, bytes) = self.apart(second)?;
        self.record().cost += cost;
        let held = self.meter.hold(1, bytes);
        let first = first(self)?;
        drop(held);
        Ok([first, self.stored(second.draft())])
    }

    /// Simulates a linear transformation by plain rotations, which are slightly noisier than the hoisted rotations of
    /// the encrypted run. Counts the cost and the memory of the hoisted form. Without values, nothing is rotated.
    pub(crate) fn transform(&self, plan: &LinearPlan, a: &Simulated) -> Result<Simulated, CkksError> {
        let charged = (plan.cost(), plan.live_bytes());
        let a = a.draft();
        let result = self.charge_instead(charged, |inner| {
            if !inner.noise.is_silent() {
                return plan.evaluate(inner, &a);
            }
            let (level, scale) = plan.output(a.level, a.scale)?;
            check_components("linear transformation", &a, 2)?;
            let keys = plan.key_plan();
            inner.require_keys("linear transformation", &keys)?;
            inner.record().plan.extend(&keys);
            let id = derive(Step::Rescale, &[a.id, a.level as u64]);
            Ok(Simulated { id, level, scale, ..a.draft() })
        });
        Ok(self.stored(result?.draft()))
    }

    /// Charges element-wise passes over `limbs` limbs that hold `held` limbs of memory.
    fn charge_elementwise(&self, limbs: usize, held: usize) {
        self.charge(Cost::elementwise(self.parameters().ring(), limbs), held);
    }

    /// Records an operation that also encodes a vector.
    fn charge_encoding(&self, cost: Cost, limbs: usize) {
        let parameters = self.parameters();
        self.record().cost += cost;
        self.meter.pass(memory::bytes(parameters.ring(), limbs) + memory::encoding(parameters));
    }

    /// A vector of two components, without counted memory.
    fn pair(&self, id: u64, exact: Vec<Complex64>, noisy: Vec<Complex64>, (level, scale): (usize, f64)) -> Simulated {
        let (exact, noisy) = (Arc::new(exact), Arc::new(noisy));
        Simulated { id, exact, noisy, level, scale, components: 2, held: Held::default() }
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
        let log2_modulus = self.parameters().log2_modulus(result.level);
        // No coefficient exceeds the mean absolute value of the slots. Compute the coefficients only where that is too
        // large.
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
            held: Held::default(),
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

    /// Cost of a drop to a lower level.
    fn drop_cost(&self, a: &Simulated, level: usize) -> Cost {
        let (parameters, ring) = (self.parameters(), self.parameters().ring());
        let copied = Cost::elementwise(ring, a.components * parameters.limbs(level));
        match parameters.drop(a.level, level) {
            Drop::Nested => copied,
            Drop::Rescaled { by, reached, .. } => {
                let (from, to) = (parameters.basis(by), parameters.basis(reached));
                let mut cost = Cost::elementwise(ring, 2 * a.components * parameters.limbs(by));
                cost += Cost::division(ring, from, to).times(a.components as u64);
                cost
            }
        }
    }

    /// Limbs that a drop to a lower level holds at its peak, its result included.
    fn drop_limbs(&self, a: &Simulated, level: usize) -> usize {
        let parameters = self.parameters();
        let result = a.components * parameters.limbs(level);
        match parameters.drop(a.level, level) {
            Drop::Nested => result,
            Drop::Rescaled { by, reached, .. } => {
                let (copy, reached) = (a.components * parameters.limbs(by), parameters.limbs(reached));
                a.components * reached + copy + memory::division(parameters.limbs(by) + reached)
            }
        }
    }

    /// Cost and limbs of an automorphism at the level of `a`: a key switch and the permutation of both components.
    fn automorphism_cost(&self, a: &Simulated) -> (Cost, usize) {
        let (ring, basis) = (self.parameters().ring(), self.parameters().basis(a.level));
        (Cost::key_switch(ring, basis, basis), memory::key_switch(ring, basis))
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
