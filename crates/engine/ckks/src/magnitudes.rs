//! Bounds of the values of a circuit.

use std::sync::{Arc, Mutex, PoisonError};

use num_complex::Complex64;
use unspoken_ring::RingKind;
use unspoken_rlwe::{KeyPlan, RlweError};

use crate::arithmetic::Arithmetic;
use crate::error::CkksError;
use crate::linear::LinearTransform;
use crate::matrix::PreparedMatrix;
use crate::parameters::CkksParameters;
use crate::prepared::{PreparedVector, RotationProducts};
use crate::scale::check_scales;
use crate::simulator::Overflow;

/// Arithmetic on bounds of absolute values, one for each slot.
///
/// If the bounds of the inputs hold, the bounds of every result hold: differences add up, and plaintext values count
/// with their absolute values. Noise is left out. A vector overflows if the mean of its bounds times its scale exceeds
/// half of the modulus of its level: no coefficient exceeds the mean absolute value of the slots. So a circuit without
/// an overflow decrypts correctly for all inputs within their bounds, up to its noise.
pub struct Magnitudes {
    parameters: CkksParameters,
    /// The overflow with the largest excess since the last [`Magnitudes::take_overflow`].
    overflow: Mutex<Option<Overflow>>,
}

/// A bound of the absolute value of each slot of a vector.
#[derive(Clone, Debug)]
pub struct SlotBounds {
    slots: Arc<Vec<f64>>,
    level: usize,
    scale: f64,
    components: usize,
}

impl SlotBounds {
    /// The bounds.
    pub fn slots(&self) -> &[f64] {
        &self.slots
    }
}

/// Bits below the modulus that are left to the noise, which takes much less.
const MARGIN_BITS: f64 = 0.01;

impl Magnitudes {
    /// Bounds for circuits of these parameters.
    pub fn new(parameters: &CkksParameters) -> Self {
        Magnitudes { parameters: parameters.clone(), overflow: Mutex::default() }
    }

    /// An input with a bound for each slot; fewer are repeated.
    pub fn input(&self, bounds: &[f64], level: usize, scale: f64) -> SlotBounds {
        let slots = bounds.iter().cycle().take(self.parameters.slots()).map(|bound| bound.abs()).collect();
        self.finish("encrypt", slots, level, scale, 2)
    }

    /// The overflow with the largest excess since the last call, if there was one.
    pub fn take_overflow(&self) -> Option<Overflow> {
        // The record stays consistent even if a thread panicked.
        self.overflow.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// A result; records whether it overflows.
    fn finish(
        &self,
        operation: &'static str,
        slots: Vec<f64>,
        level: usize,
        scale: f64,
        components: usize,
    ) -> SlotBounds {
        let log2_modulus = self.parameters.log2_modulus(level);
        let mean = slots.iter().sum::<f64>() / slots.len().max(1) as f64;
        // With the sign.
        let log2_coefficient = (mean * scale).log2() + 1.0;
        let excess = log2_coefficient - log2_modulus;
        if excess.is_nan() || excess > -MARGIN_BITS {
            let mut worst = self.overflow.lock().unwrap_or_else(PoisonError::into_inner);
            let larger = |other: &Overflow| excess > other.log2_coefficient - other.log2_modulus;
            if worst.as_ref().is_none_or(larger) {
                *worst = Some(Overflow { operation, level, log2_coefficient, log2_modulus });
            }
        }
        SlotBounds { slots: Arc::new(slots), level, scale, components }
    }

    fn sum(&self, operation: &'static str, a: &SlotBounds, b: &SlotBounds) -> Result<SlotBounds, CkksError> {
        check_scales(operation, a.scale, b.scale)?;
        let slots = a.slots.iter().zip(b.slots.iter()).map(|(x, y)| x + y).collect();
        let components = a.components.max(b.components);
        Ok(self.finish(operation, slots, a.level.min(b.level), a.scale, components))
    }

    /// The same bounds one level below.
    fn divided(&self, operation: &'static str, a: &SlotBounds, components: usize) -> Result<SlotBounds, CkksError> {
        check_level(operation, a, 1)?;
        let scale = a.scale / self.parameters.level_modulus(a.level);
        Ok(self.finish(operation, a.slots.to_vec(), a.level - 1, scale, components))
    }

    fn mapped(&self, operation: &'static str, a: &SlotBounds, scale: f64, change: impl Fn(f64) -> f64) -> SlotBounds {
        self.finish(operation, a.slots.iter().map(|&x| change(x)).collect(), a.level, scale, a.components)
    }

    fn check_complex(&self, operation: &'static str) -> Result<(), CkksError> {
        match self.parameters.ring().kind() {
            RingKind::ConjugateInvariant => Err(CkksError::RealRing { operation }),
            RingKind::Standard => Ok(()),
        }
    }
}

fn check_level(operation: &'static str, a: &SlotBounds, needed: usize) -> Result<(), CkksError> {
    if a.level >= needed { Ok(()) } else { Err(CkksError::Level { operation, found: a.level, needed }) }
}

/// The slots rotated to the left.
fn rotated(slots: &[f64], steps: i64) -> Vec<f64> {
    let (head, tail) = slots.split_at(steps.rem_euclid(slots.len().max(1) as i64) as usize);
    [tail, head].concat()
}

impl Arithmetic for Magnitudes {
    type Vector = SlotBounds;

    fn parameters(&self) -> &CkksParameters {
        &self.parameters
    }

    fn level(&self, a: &SlotBounds) -> usize {
        a.level
    }

    fn scale(&self, a: &SlotBounds) -> f64 {
        a.scale
    }

    /// There are no keys: all exist.
    fn require_keys(&self, _operation: &'static str, _plan: &KeyPlan) -> Result<(), CkksError> {
        Ok(())
    }

    fn add(&self, a: &SlotBounds, b: &SlotBounds) -> Result<SlotBounds, CkksError> {
        self.sum("add", a, b)
    }

    fn sub(&self, a: &SlotBounds, b: &SlotBounds) -> Result<SlotBounds, CkksError> {
        self.sum("subtract", a, b)
    }

    fn tensor(&self, a: &SlotBounds, b: &SlotBounds) -> Result<SlotBounds, CkksError> {
        const OPERATION: &str = "multiply";
        let found = a.components.max(b.components);
        if found != 2 {
            return Err(RlweError::Components { operation: OPERATION, found, needed: 2 }.into());
        }
        let slots = a.slots.iter().zip(b.slots.iter()).map(|(x, y)| x * y).collect();
        Ok(self.finish(OPERATION, slots, a.level.min(b.level), a.scale * b.scale, 3))
    }

    fn relinearise_rescale(&self, a: &SlotBounds) -> Result<SlotBounds, CkksError> {
        self.divided("relinearise and rescale", a, 2)
    }

    fn relinearise(&self, a: &SlotBounds) -> Result<SlotBounds, CkksError> {
        Ok(SlotBounds { components: 2, ..a.clone() })
    }

    fn rescale(&self, a: &SlotBounds) -> Result<SlotBounds, CkksError> {
        self.divided("rescale", a, a.components)
    }

    fn drop_to(&self, a: &SlotBounds, level: usize) -> Result<SlotBounds, CkksError> {
        check_level("drop to a level", a, level)?;
        Ok(self.finish("drop to a level", a.slots.to_vec(), level, a.scale, a.components))
    }

    fn rotate(&self, a: &SlotBounds, steps: i64) -> Result<SlotBounds, CkksError> {
        Ok(SlotBounds { slots: Arc::new(rotated(&a.slots, steps)), ..a.clone() })
    }

    fn rotate_hoisted(&self, a: &SlotBounds, steps: &[i64]) -> Result<Vec<SlotBounds>, CkksError> {
        steps.iter().map(|&steps| self.rotate(a, steps)).collect()
    }

    fn sum_rotations(&self, a: &SlotBounds, steps: &[i64]) -> Result<SlotBounds, CkksError> {
        const OPERATION: &str = "sum rotations";
        if steps.is_empty() {
            return Err(CkksError::Shape { operation: OPERATION, found: 0, needed: "at least one rotation".into() });
        }
        let mut sum = vec![0.0; a.slots.len()];
        for &steps in steps {
            sum.iter_mut().zip(rotated(&a.slots, steps)).for_each(|(sum, x)| *sum += x);
        }
        Ok(self.finish(OPERATION, sum, a.level, a.scale, a.components))
    }

    fn sum_rotations_rescale(&self, a: &SlotBounds, steps: &[i64]) -> Result<SlotBounds, CkksError> {
        self.rescale(&self.sum_rotations(a, steps)?)
    }

    fn linear(&self, transform: &LinearTransform, a: &SlotBounds) -> Result<SlotBounds, CkksError> {
        transform.plan().evaluate(self, a)
    }

    fn conjugate(&self, a: &SlotBounds) -> Result<SlotBounds, CkksError> {
        self.check_complex("conjugate")?;
        Ok(a.clone())
    }

    fn mul_imaginary(&self, a: &SlotBounds) -> Result<SlotBounds, CkksError> {
        self.check_complex("multiply by i")?;
        Ok(a.clone())
    }

    fn mul_monomial(&self, a: &SlotBounds, _: usize) -> Result<SlotBounds, CkksError> {
        self.check_complex("multiply by a monomial")?;
        Ok(a.clone())
    }

    fn mul_constant(&self, a: &SlotBounds, constant: Complex64, scale: f64) -> Result<SlotBounds, CkksError> {
        let size = constant.norm();
        Ok(self.mapped("multiply by a constant", a, scale, |x| x * size))
    }

    fn add_constant(&self, a: &SlotBounds, constant: Complex64) -> Result<SlotBounds, CkksError> {
        let size = constant.norm();
        Ok(self.mapped("add a constant", a, a.scale, |x| x + size))
    }

    fn mul_values(&self, a: &SlotBounds, values: &[Complex64], scale: f64) -> Result<SlotBounds, CkksError> {
        let slots = a.slots.iter().zip(values.iter().cycle()).map(|(x, value)| x * value.norm()).collect();
        Ok(self.finish("multiply by values", slots, a.level, a.scale * scale, a.components))
    }

    fn sum_products(&self, products: &[(&SlotBounds, &PreparedVector)]) -> Result<SlotBounds, CkksError> {
        const OPERATION: &str = "sum products";
        let level = PreparedVector::common_level(products.iter().map(|(a, prepared)| (a.level, *prepared)))?;
        let scale = products.first().map_or(1.0, |(a, prepared)| a.scale * prepared.scale());
        let mut sum = vec![0.0; self.parameters.slots()];
        for (a, prepared) in products {
            check_scales(OPERATION, scale, a.scale * prepared.scale())?;
            let factors = prepared.values().iter().cycle();
            sum.iter_mut().zip(a.slots.iter().zip(factors)).for_each(|(sum, (x, factor))| *sum += x * factor.norm());
        }
        Ok(self.finish(OPERATION, sum, level, scale, 2))
    }

    fn rotation_products(
        &self,
        a: &SlotBounds,
        steps: &[i64],
        rows: &[Vec<(usize, &PreparedVector)>],
    ) -> Result<Vec<SlotBounds>, CkksError> {
        let shape = RotationProducts::new(steps, rows)?;
        let rotated = self.rotate_hoisted(self.lowered(a, shape.level)?.as_ref(), steps)?;
        let row = |row: &Vec<(usize, &PreparedVector)>| {
            let pairs: Vec<_> = row.iter().map(|&(index, factor)| (&rotated[index], factor)).collect();
            self.rescale(&self.sum_products(&pairs)?)
        };
        rows.iter().map(row).collect()
    }

    fn add_values(&self, a: &SlotBounds, values: &[Complex64]) -> Result<SlotBounds, CkksError> {
        let slots = a.slots.iter().zip(values.iter().cycle()).map(|(x, value)| x + value.norm()).collect();
        Ok(self.finish("add values", slots, a.level, a.scale, a.components))
    }

    fn matrix(&self, matrix: &PreparedMatrix, inputs: &[&SlotBounds]) -> Result<Vec<SlotBounds>, CkksError> {
        matrix.check(inputs.iter().map(|a| (a.level, a.scale)))?;
        let components = inputs.iter().map(|a| a.components).max().unwrap_or(2);
        let row = |row: usize| {
            let mut sum = vec![0.0; self.parameters.slots()];
            for (column, input) in inputs.iter().enumerate() {
                let size = matrix.entry(row, column).norm();
                sum.iter_mut().zip(input.slots.iter()).for_each(|(sum, x)| *sum += size * x);
            }
            self.finish("matrix product", sum, matrix.level(), matrix.output_scales()[row], components)
        };
        Ok((0..matrix.shape().0).map(row).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::Encoder;
    use crate::presets::Preset;
    use crate::simulator::Simulator;

    /// `(x - y) * x`, summed over 8 slots, times a plaintext.
    fn circuit<A: Arithmetic>(arithmetic: &A, x: &A::Vector, y: &A::Vector) -> A::Vector {
        let product = arithmetic.multiply(&arithmetic.sub(x, y).unwrap(), x).unwrap();
        let sum = arithmetic.sum_slots(&product, 1, 8).unwrap();
        let scale = arithmetic.parameters().level_modulus(arithmetic.level(&sum));
        let values = [Complex64::from(-2.0), Complex64::from(0.5)];
        arithmetic.rescale(&arithmetic.mul_values(&sum, &values, scale).unwrap()).unwrap()
    }

    #[test]
    fn bounds_hold_for_all_signs_and_are_met_by_some() {
        let parameters = Preset::find("insecure_n11_real_depth9_scale50").unwrap().build().unwrap();
        let (magnitudes, encoder) = (Magnitudes::new(&parameters), Encoder::new(&parameters));
        let simulator = Simulator::new(&encoder, 1);
        let scale = parameters.scale();
        let bound = circuit(&magnitudes, &magnitudes.input(&[3.0], 4, scale), &magnitudes.input(&[1.0], 4, scale));
        assert!(magnitudes.take_overflow().is_none());
        for (x, y) in [(3.0, -1.0), (3.0, 1.0), (-3.0, 1.0), (-2.0, -1.0)] {
            let vector = |value: f64| simulator.encrypt(&[Complex64::from(value)], 4, scale).unwrap();
            let found = circuit(&simulator, &vector(x), &vector(y));
            let pairs = || found.exact().iter().zip(bound.slots());
            assert!(pairs().all(|(value, bound)| value.norm() <= bound * (1.0 + 1e-12)));
            assert_eq!(
                pairs().all(|(value, bound)| value.norm() >= bound * (1.0 - 1e-12)),
                x * y < 0.0 && x.abs() == 3.0
            );
        }
        assert_eq!((bound.level, bound.slots()[0], bound.slots()[1]), (2, 2.0 * 8.0 * 12.0, 0.5 * 8.0 * 12.0));
    }

    #[test]
    fn an_overflow_is_the_simulators() {
        let parameters = Preset::find("insecure_n11_real_depth9_scale50").unwrap().build().unwrap();
        let (magnitudes, encoder) = (Magnitudes::new(&parameters), Encoder::new(&parameters));
        let (scale, room) = (parameters.scale(), (parameters.log2_modulus(0) - parameters.scale().log2()).exp2() / 2.0);
        for (factor, overflows) in [(0.5, false), (2.0, true)] {
            let simulator = Simulator::new(&encoder, 1);
            let size = (factor * room).sqrt();
            let square = magnitudes.input(&[size], 1, scale);
            magnitudes.multiply(&square, &square).unwrap();
            let square = simulator.encrypt(&[Complex64::from(size)], 1, scale).unwrap();
            simulator.multiply(&square, &square).unwrap();
            let found = magnitudes.take_overflow();
            assert_eq!((found.is_some(), !simulator.overflows().is_empty()), (overflows, overflows), "{factor}");
            // The product overflows before it is rescaled.
            assert!(
                found.is_none_or(|overflow| overflow.level == 1 && overflow.log2_coefficient > overflow.log2_modulus)
            );
            assert!(magnitudes.take_overflow().is_none());
        }
    }
}
