//! The steps of bootstraps that no other circuit has.

use std::sync::Arc;

use num_complex::Complex64;
use unspoken_ring::{Basis, ERROR_SIGMA};
use unspoken_rlwe::{EncapsulationLiteral, KeyKind, SubringQueryParameters};

use super::simulated::{Overflow, Simulated};
use super::{RANGE_TOLERANCE, Simulator, Step, check_components, derive, map, plus, rotated};
use crate::arithmetic::Arithmetic;
use crate::bootstrap::{Bootstrapper, RefreshArithmetic};
use crate::cost::Cost;
use crate::error::CkksError;
use crate::linear::{LinearSums, RaisedPlan};
use crate::memory;

impl RefreshArithmetic for Simulator {
    fn refresh_many(&self, bootstrapper: &Bootstrapper, inputs: &[&Simulated]) -> Result<Vec<Simulated>, CkksError> {
        let results = bootstrapper.plan().simulate_refresh_many(self, inputs)?.into_iter().zip(inputs);
        Ok(results.map(|(result, input)| Simulated { exact: Arc::clone(&input.exact), ..result }).collect())
    }
}

impl Simulator {
    /// As [`Simulator::encrypt`], but encodes real values into the coefficients of the polynomial.
    ///
    /// # Errors
    /// If there are not `n` values, or as for [`Encoder::encode_coefficients`](crate::Encoder::encode_coefficients).
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

    /// Raises from level 0 and applies a map: multiples of `modulus` are added to the coefficients, the scale becomes
    /// that of the map's result, and the switches to the sparse secret and back add their noise. Records coefficients
    /// beyond `range`.
    pub(crate) fn raise_modulus(
        &self,
        a: &Simulated,
        plan: &RaisedPlan,
        modulus: f64,
        range: f64,
    ) -> Result<Simulated, CkksError> {
        const OPERATION: &str = "raise the modulus";
        check_components(OPERATION, a, 2)?;
        let parameters = self.parameters().clone();
        let ring = parameters.ring();
        let EncapsulationLiteral { base, primes } = parameters.rlwe().encapsulation()?;
        self.use_key(OPERATION, KeyKind::Encapsulation, Basis::chain(primes))?;
        let keys = plan.key_plan();
        self.require_keys(OPERATION, &keys)?;
        self.record().plan.extend(&keys);
        let mut cost = Cost::division(ring, Basis::chain(primes), Basis::chain(base)).times(3);
        cost += plan.cost();
        self.charge(cost, plan.live_limbs());
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
        let (level, (_, scale)) = (plan.level(), plan.scales());
        let exact = self.mapped(plan, &exact, |diagonal| Ok(diagonal.to_vec()))?;
        let encode = |diagonal: &[Complex64]| self.encoded(OPERATION, diagonal, level, plan.plaintext_scale());
        let noisy = self.mapped(plan, &noisy, encode)?;
        let switched = plus(&noisy, self.noise.of_variance(id, self.decapsulation_variance(plan, modulus)), scale);
        let noisy = plus(&switched, self.noise.rounding(derive(Step::Raise, &[id]), 2), scale);
        Ok(self.stored(self.pair(id, exact, noisy, (level, scale))))
    }

    /// The slots after a map whose diagonals are changed. Vectors without slots stay empty.
    fn mapped(
        &self,
        plan: &RaisedPlan,
        slots: &[Complex64],
        change: impl Fn(&[Complex64]) -> Result<Vec<Complex64>, CkksError>,
    ) -> Result<Vec<Complex64>, CkksError> {
        let mut sum = vec![Complex64::default(); slots.len()];
        if !slots.is_empty() {
            for (&steps, diagonal) in plan.diagonals() {
                let factors = change(diagonal)?;
                let factors = factors.iter().cycle();
                sum.iter_mut().zip(factors).zip(rotated(slots, steps)).for_each(|((sum, d), z)| *sum += d * z);
            }
        }
        Ok(sum)
    }

    /// Variance of the coefficients of the errors of decapsulation keys after the division by `P`: each error is
    /// multiplied by a uniform polynomial modulo the modulus of level 0 and by an encoded diagonal.
    fn decapsulation_variance(&self, plan: &RaisedPlan, modulus: f64) -> f64 {
        let ring = self.parameters().ring();
        let special: f64 = ring.special_primes(plan.basis()).iter().map(|&q| f64::from(q).log2()).sum();
        let factor = (modulus.log2() + plan.plaintext_scale().log2() - special).exp2();
        ring.degree() as f64 * ERROR_SIGMA * ERROR_SIGMA * factor * factor / 12.0 * plan.energy()
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

    /// Simulates sums of linear transformations by plain rotations, which are slightly noisier than the hoisted
    /// rotations of the encrypted run. Counts the cost and the memory of the hoisted form. Without values, nothing is
    /// rotated.
    pub(crate) fn transform(&self, sums: &LinearSums<'_>, inputs: &[&Simulated]) -> Result<Vec<Simulated>, CkksError> {
        let inputs: Vec<Simulated> = inputs.iter().map(|input| input.draft()).collect();
        let results = self.charge_instead((sums.cost(), sums.live_bytes()), |inner| {
            if !inner.noise.is_silent() {
                return sums.evaluate_on_threads(inner, &inputs.iter().collect::<Vec<_>>());
            }
            let levels: Vec<_> = inputs.iter().map(|input| (input.level, input.scale)).collect();
            let (level, scale) = sums.output(&levels)?;
            inputs.iter().try_for_each(|input| check_components("linear transformation", input, 2))?;
            let keys = sums.key_plan();
            inner.require_keys("linear transformation", &keys)?;
            inner.record().plan.extend(&keys);
            let result = |(number, of_inputs): (usize, Vec<usize>)| {
                let ids = of_inputs.iter().flat_map(|input| [inputs[*input].id, inputs[*input].level as u64]);
                let id = derive(Step::Rescale, &ids.chain([number as u64]).collect::<Vec<_>>());
                Simulated { id, level, scale, ..inputs[of_inputs[0]].draft() }
            };
            Ok(sums.inputs().enumerate().map(result).collect())
        })?;
        Ok(results.into_iter().map(|result| self.stored(result.draft())).collect())
    }
}
