//! Implementation of [`Arithmetic`] for the simulator.

use std::sync::Arc;

use num_complex::Complex64;
use rayon::prelude::*;
use unspoken_rlwe::{KeyPlan, RlweError, galois};

use super::{Simulated, Simulator, Step, check_components, check_level, constant_bits, derive, map, plus};
use crate::arithmetic::Arithmetic;
use crate::cost::Cost;
use crate::error::CkksError;
use crate::linear::{LinearSums, LinearTransform};
use crate::matrix::PreparedMatrix;
use crate::memory::{self, Allocation};
use crate::noise::mix;
use crate::parameters::{CkksParameters, Drop};
use crate::prepared::{PreparedVector, RotationProducts};
use crate::scale::{check_scales, round_constant};

impl Arithmetic for Simulator {
    type Vector = Simulated;

    fn parameters(&self) -> &CkksParameters {
        self.encoder.parameters()
    }

    fn level(&self, a: &Simulated) -> usize {
        a.level
    }

    fn scale(&self, a: &Simulated) -> f64 {
        a.scale
    }

    fn require_keys(&self, operation: &'static str, plan: &KeyPlan) -> Result<(), CkksError> {
        let missing: Vec<_> = plan.iter().filter(|&(kind, chain)| !self.has_key(kind, chain)).collect();
        if missing.is_empty() { Ok(()) } else { Err(RlweError::MissingKeys { operation, missing }.into()) }
    }

    fn add(&self, a: &Simulated, b: &Simulated) -> Result<Simulated, CkksError> {
        self.combine(("add", Step::Add), a, b, |x, y| x + y)
    }

    fn sub(&self, a: &Simulated, b: &Simulated) -> Result<Simulated, CkksError> {
        self.combine(("subtract", Step::Sub), a, b, |x, y| x - y)
    }

    fn tensor(&self, a: &Simulated, b: &Simulated) -> Result<Simulated, CkksError> {
        const OPERATION: &str = "multiply";
        let found = a.components.max(b.components);
        if found != 2 {
            return Err(RlweError::Components { operation: OPERATION, found, needed: 2 }.into());
        }
        let level = a.level.min(b.level);
        let (a, b) = (self.aligned(a, level)?, self.aligned(b, level)?);
        let basis = self.parameters().basis(level);
        self.charge(Cost::tensor(self.parameters().ring(), basis), 3 * self.parameters().limbs(level));
        let zip = |x: &[Complex64], y: &[Complex64]| Arc::new(x.iter().zip(y).map(|(x, y)| x * y).collect());
        let result = Simulated {
            id: derive(Step::Tensor, &[a.id.min(b.id), a.id.max(b.id)]),
            exact: zip(&a.exact, &b.exact),
            noisy: zip(&a.noisy, &b.noisy),
            level,
            scale: a.scale * b.scale,
            components: 3,
            held: Allocation::default(),
        };
        Ok(self.finish(OPERATION, result))
    }

    fn relinearise_rescale(&self, a: &Simulated) -> Result<Simulated, CkksError> {
        if a.components == 2 {
            return self.rescale(a);
        }
        check_level("relinearise and rescale", a, 1)?;
        let result = self.switch_product(a, 1)?;
        self.record().cost.rescales += 1;
        Ok(self.finish("relinearise and rescale", result))
    }

    fn relinearise(&self, a: &Simulated) -> Result<Simulated, CkksError> {
        if a.components == 2 { Ok(a.clone()) } else { Ok(self.stored(self.switch_product(a, 0)?)) }
    }

    fn rescale(&self, a: &Simulated) -> Result<Simulated, CkksError> {
        check_level("rescale", a, 1)?;
        let parameters = self.parameters();
        let (from, to) = (parameters.basis(a.level), parameters.basis(a.level - 1));
        let limbs = a.components * parameters.limbs(a.level - 1) + memory::division(parameters.limbs(a.level));
        self.charge(Cost::rescale(parameters.ring(), from, to, a.components), limbs);
        let id = derive(Step::Rescale, &[a.id, a.level as u64]);
        let scale = a.scale / parameters.level_modulus(a.level);
        let noisy = Arc::new(plus(&a.noisy, self.noise.rounding(id, a.components), scale));
        Ok(self.finish("rescale", Simulated { id, noisy, level: a.level - 1, scale, ..a.draft() }))
    }

    fn drop_to(&self, a: &Simulated, level: usize) -> Result<Simulated, CkksError> {
        check_level("drop to a level", a, level)?;
        if level == a.level {
            return Ok(a.clone());
        }
        self.charge(self.drop_cost(a, level), self.drop_limbs(a, level));
        match self.parameters().drop(a.level, level) {
            Drop::Nested => Ok(self.finish("drop to a level", Simulated { level, ..a.draft() })),
            Drop::Rescaled { reached, factor, ratio, .. } => {
                let id = derive(Step::Drop, &[a.id, a.level as u64, level as u64]);
                let multiplied = map(&a.noisy, |z| z * (factor as f64 / ratio));
                let noisy = Arc::new(plus(&multiplied, self.noise.rounding(id, a.components), a.scale));
                let lower = self.finish("drop to a level", Simulated { id, noisy, level: reached, ..a.draft() });
                self.drop_to(&lower, level)
            }
        }
    }

    fn rotate(&self, a: &Simulated, steps: i64) -> Result<Simulated, CkksError> {
        self.rotation("automorphism", a, steps, self.automorphism_cost(a))
    }

    fn rotate_hoisted(&self, a: &Simulated, steps: &[i64]) -> Result<Vec<Simulated>, CkksError> {
        const OPERATION: &str = "hoisted automorphism";
        check_components("hoist", a, 2)?;
        let ring = self.parameters().ring();
        let basis = self.parameters().basis(a.level);
        let turns = steps.iter().filter(|&&steps| galois::rotation(ring, steps) != 1).count() as u64;
        // The raised digits stay in memory until the last rotation.
        let limbs = memory::raised_digits(ring, basis) + memory::key_switch(ring, basis);
        self.charge(Cost::hoisted_rotations(ring, basis, turns), limbs);
        steps.iter().map(|&steps| self.rotation(OPERATION, a, steps, (Cost::default(), limbs))).collect()
    }

    fn sum_rotations(&self, a: &Simulated, steps: &[i64]) -> Result<Simulated, CkksError> {
        self.sum_of_rotations(a, steps, 0)
    }

    fn sum_rotations_rescale(&self, a: &Simulated, steps: &[i64]) -> Result<Simulated, CkksError> {
        check_level("sum rotations and rescale", a, 1)?;
        self.sum_of_rotations(a, steps, 1)
    }

    fn linear(&self, transform: &LinearTransform, a: &Simulated) -> Result<Simulated, CkksError> {
        Ok(self.transform(&LinearSums::of_one(transform.plan()), &[a])?.swap_remove(0))
    }

    fn linear_sums(
        &self,
        rows: &[Vec<(usize, &LinearTransform)>],
        inputs: &[&Simulated],
    ) -> Result<Vec<Simulated>, CkksError> {
        self.transform(&LinearSums::new(rows)?, inputs)
    }

    /// Uses divided rotations, which are slightly noisier than the rotations of the encrypted run. Counts the cost of
    /// the encrypted run.
    fn rotation_products(
        &self,
        a: &Simulated,
        steps: &[i64],
        rows: &[Vec<(usize, &PreparedVector)>],
    ) -> Result<Vec<Simulated>, CkksError> {
        const OPERATION: &str = "products of rotations";
        check_level(OPERATION, a, 1)?;
        let shape = RotationProducts::new(steps, rows)?;
        let (parameters, ring) = (self.parameters(), self.parameters().ring());
        let cost = Cost::rotation_products(parameters, shape.level, steps, shape.products, rows.len());
        let basis = parameters.basis(shape.level);
        let (own, extended) = (ring.limb_count(basis), ring.limb_count(ring.switching_basis(basis)));
        // A copy of the input, the sums, and the larger of its digits with parts of its rotations, and of a division. A
        // sum is freed before the next one is divided, and is larger than its result.
        let images = memory::held_images(ring, ring.switching_basis(basis), steps.len());
        let adding = memory::raised_digits(ring, basis) + 2 * extended + images;
        let dividing = memory::division(extended) + 2 * parameters.limbs(shape.level - 1);
        let limbs = 2 * own + 2 * extended * rows.len() + adding.max(dividing);
        let bytes = memory::bytes(ring, limbs) + memory::encoding(parameters);
        let a = a.draft();
        let results = self.charge_instead((cost, bytes), |inner| {
            let rotated = inner.rotate_hoisted(inner.lowered(&a, shape.level)?.as_ref(), steps)?;
            let row = |row: &Vec<(usize, &PreparedVector)>| {
                let pairs: Vec<_> = row.iter().map(|&(i, factor)| (&rotated[i], factor)).collect();
                inner.rescale(&inner.sum_products(&pairs)?)
            };
            rows.iter().map(row).collect::<Result<Vec<_>, _>>()
        });
        Ok(results?.iter().map(|result| self.stored(result.draft())).collect())
    }

    fn conjugate(&self, a: &Simulated) -> Result<Simulated, CkksError> {
        if self.is_real() {
            return Err(CkksError::RealRing { operation: "conjugate" });
        }
        let element = galois::conjugation(self.parameters().ring());
        let image = |slots: &[Complex64]| slots.iter().map(|z| z.conj()).collect();
        self.automorphism("automorphism", a, element, self.automorphism_cost(a), image)
    }

    fn mul_imaginary(&self, a: &Simulated) -> Result<Simulated, CkksError> {
        if self.is_real() {
            return Err(CkksError::RealRing { operation: "multiply by i" });
        }
        self.charge_elementwise(2 * self.limbs(a), self.limbs(a));
        let turn = |z: Complex64| Complex64::new(-z.im, z.re);
        let id = derive(Step::Imaginary, &[a.id]);
        let (exact, noisy) = (map(&a.exact, turn), map(&a.noisy, turn));
        Ok(self.stored(Simulated { id, exact, noisy, ..a.draft() }))
    }

    fn mul_monomial(&self, a: &Simulated, exponent: usize) -> Result<Simulated, CkksError> {
        if self.is_real() {
            return Err(CkksError::RealRing { operation: "multiply by a monomial" });
        }
        // A transform of the monomial and a product for each component.
        self.charge_elementwise(4 * self.limbs(a), self.limbs(a));
        let order = 2 * self.parameters().ring().degree();
        let roots = std::iter::successors(Some(1), |power| Some(power * 5 % order)).map(|power| {
            let angle = (power * (exponent % order) % order) as f64 / order as f64 * std::f64::consts::TAU;
            Complex64::from_polar(1.0, angle)
        });
        let roots: Vec<Complex64> = roots.take(a.exact.len()).collect();
        let turn = |slots: &[Complex64]| Arc::new(slots.iter().zip(&roots).map(|(z, root)| z * root).collect());
        let id = derive(Step::Monomial, &[a.id, exponent as u64]);
        let (exact, noisy) = (turn(&a.exact), turn(&a.noisy));
        Ok(self.stored(Simulated { id, exact, noisy, ..a.draft() }))
    }

    fn mul_constant(&self, a: &Simulated, constant: Complex64, scale: f64) -> Result<Simulated, CkksError> {
        const OPERATION: &str = "multiply by a constant";
        let factor = scale / a.scale;
        let (re, im) = round_constant(OPERATION, constant, factor, self.is_real())?;
        let limbs = self.parameters().limbs(a.level);
        self.charge_elementwise(self.limbs(a) * if im == 0 { 2 } else { 6 }, self.limbs(a) + limbs);
        let rounded = Complex64::new(re as f64, im as f64) / factor;
        let [c0, c1] = constant_bits(constant);
        let result = Simulated {
            id: derive(Step::Constant, &[a.id, c0, c1, scale.to_bits()]),
            exact: map(&a.exact, |z| z * constant),
            noisy: map(&a.noisy, |z| z * rounded),
            scale,
            ..a.draft()
        };
        Ok(self.finish(OPERATION, result))
    }

    fn add_constant(&self, a: &Simulated, constant: Complex64) -> Result<Simulated, CkksError> {
        const OPERATION: &str = "add a constant";
        let (re, im) = round_constant(OPERATION, constant, a.scale, self.is_real())?;
        let passes = self.limbs(a) + self.parameters().limbs(a.level) * if im == 0 { 1 } else { 6 };
        self.charge_elementwise(passes, self.limbs(a));
        let rounded = Complex64::new(re as f64, im as f64) / a.scale;
        // Only the first component changes. The digits and therefore the noise of later operations stay the same, so
        // the id does too.
        let result =
            Simulated { exact: map(&a.exact, |z| z + constant), noisy: map(&a.noisy, |z| z + rounded), ..a.draft() };
        Ok(self.finish(OPERATION, result))
    }

    fn mul_values(&self, a: &Simulated, values: &[Complex64], scale: f64) -> Result<Simulated, CkksError> {
        const OPERATION: &str = "encode";
        let encoded = self.encoded(OPERATION, values, a.level, scale)?;
        let mut cost = Cost::encoding(self.parameters().ring(), self.parameters().limbs(a.level));
        cost += Cost::elementwise(self.parameters().ring(), 2 * self.limbs(a));
        cost.plaintext_products = 1;
        self.charge_encoding(cost, self.limbs(a) + self.parameters().limbs(a.level));
        let result = Simulated {
            id: derive(Step::Plaintext, &[a.id, self.values_bits(values), scale.to_bits()]),
            exact: Arc::new(a.exact.iter().zip(values.iter().cycle()).map(|(x, y)| x * y).collect()),
            noisy: Arc::new(a.noisy.iter().zip(&encoded).map(|(x, y)| x * y).collect()),
            scale: a.scale * scale,
            ..a.draft()
        };
        Ok(self.finish("multiply by values", result))
    }

    fn sum_products(&self, products: &[(&Simulated, &PreparedVector)]) -> Result<Simulated, CkksError> {
        const OPERATION: &str = "sum products";
        let level = PreparedVector::common_level(products.iter().map(|(a, prepared)| (a.level, *prepared)))?;
        let scale = products.first().map_or(1.0, |(a, prepared)| a.scale * prepared.scale());
        let zero = vec![Complex64::default(); products.first().map_or(0, |(a, _)| a.exact.len())];
        let (mut exact, mut noisy) = (zero.clone(), zero);
        let mut id = derive(Step::Products, &[level as u64]);
        for (a, prepared) in products {
            let a = self.aligned(a, level)?;
            check_scales(OPERATION, scale, a.scale * prepared.scale())?;
            check_components(OPERATION, &a, 2)?;
            let values = prepared.values();
            let encoded = self.encoded(OPERATION, values, level, prepared.scale())?;
            let factors = values.iter().cycle();
            exact.iter_mut().zip(a.exact.iter().zip(factors)).for_each(|(sum, (x, y))| *sum += x * y);
            noisy.iter_mut().zip(a.noisy.iter().zip(&encoded)).for_each(|(sum, (x, y))| *sum += x * y);
            id = mix(id, &[a.id, self.values_bits(values)]);
        }
        let (basis, limbs) = (self.parameters().basis(level), self.parameters().limbs(level));
        // The result, and copies of inputs of higher levels.
        let copied = products.iter().filter(|(a, _)| a.level > level).count();
        let cost = Cost::sum_of_products(self.parameters().ring(), basis, products.len() as u64);
        self.charge_encoding(cost, 2 * limbs * (1 + copied));
        Ok(self.finish(OPERATION, self.pair(id, exact, noisy, (level, scale))))
    }

    fn add_values(&self, a: &Simulated, values: &[Complex64]) -> Result<Simulated, CkksError> {
        let encoded = self.encoded("encode", values, a.level, a.scale)?;
        let limbs = self.parameters().limbs(a.level);
        let mut cost = Cost::encoding(self.parameters().ring(), limbs);
        cost += Cost::elementwise(self.parameters().ring(), self.limbs(a) + limbs);
        self.charge_encoding(cost, self.limbs(a) + limbs);
        let result = Simulated {
            exact: Arc::new(a.exact.iter().zip(values.iter().cycle()).map(|(x, y)| x + y).collect()),
            noisy: Arc::new(a.noisy.iter().zip(&encoded).map(|(x, y)| x + y).collect()),
            ..a.draft()
        };
        Ok(self.finish("add values", result))
    }

    fn matrix(&self, matrix: &PreparedMatrix, inputs: &[&Simulated]) -> Result<Vec<Simulated>, CkksError> {
        const OPERATION: &str = "matrix product";
        matrix.check(inputs.iter().map(|a| (a.level, a.scale)))?;
        let components = inputs.first().map_or(2, |a| a.components);
        inputs.iter().try_for_each(|a| check_components(OPERATION, a, components))?;
        let (rows, columns) = matrix.shape();
        let (basis, limbs) = (self.parameters().basis(matrix.level()), self.parameters().limbs(matrix.level()));
        // The results, and copies of inputs of higher levels.
        let copied = inputs.iter().filter(|a| a.level > matrix.level()).count();
        let cost = Cost::matrix(self.parameters().ring(), basis, components, (rows, columns));
        self.charge(cost, components * limbs * (rows + copied));
        let inputs = inputs.iter().map(|a| self.aligned(a, matrix.level())).collect::<Result<Vec<_>, _>>()?;
        let name = inputs.iter().fold(columns as u64, |state, a| mix(state, &[a.id]));
        let row = |row: usize| {
            let zero = vec![Complex64::default(); inputs.first().map_or(0, |a| a.exact.len())];
            let (mut exact, mut noisy, mut id) = (zero.clone(), zero, derive(Step::Matrix, &[name]));
            for (column, input) in inputs.iter().enumerate() {
                let (entry, factor) = (matrix.entry(row, column), matrix.factor(row, column));
                exact.iter_mut().zip(input.exact.iter()).for_each(|(sum, x)| *sum += entry * x);
                noisy.iter_mut().zip(input.noisy.iter()).for_each(|(sum, x)| *sum += factor * x);
                id = mix(id, &constant_bits(entry));
            }
            let (exact, noisy) = (Arc::new(exact), Arc::new(noisy));
            let (level, scale) = (matrix.level(), matrix.output_scales()[row]);
            self.finish(
                OPERATION,
                Simulated { id, exact, noisy, level, scale, components, held: Allocation::default() },
            )
        };
        Ok((0..rows).into_par_iter().map(row).collect())
    }
}
