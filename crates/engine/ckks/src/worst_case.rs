//! The run of a circuit on the largest values it can have.

use num_complex::Complex64;
use unspoken_rlwe::KeyPlan;

use crate::arithmetic::Arithmetic;
use crate::error::CkksError;
use crate::linear::LinearTransform;
use crate::matrix::PreparedMatrix;
use crate::parameters::CkksParameters;
use crate::prepared::PreparedVector;

/// Arithmetic in which differences are sums and plaintext values are their absolute values.
///
/// On inputs that bound the absolute values of the real inputs, every vector bounds the absolute values of the real
/// circuit's vector. The errors of products grow with their factors. So with a [`Simulator`](crate::Simulator) inside,
/// such a run has the errors of the worst inputs, and not of typical ones. Absolute values can have smaller rounding
/// errors than the values themselves: let the simulator sample them
/// ([`Simulator::with_sampled_encodings`](crate::Simulator::with_sampled_encodings)).
pub struct WorstCase<'a, A>(&'a A);

impl<'a, A: Arithmetic> WorstCase<'a, A> {
    /// The worst case of runs with this arithmetic.
    pub fn new(arithmetic: &'a A) -> Self {
        WorstCase(arithmetic)
    }
}

fn absolute(values: &[Complex64]) -> Vec<Complex64> {
    values.iter().map(|value| value.norm().into()).collect()
}

/// The vector with its absolute values, or `None` if it has them already.
fn absolute_prepared(vector: &PreparedVector) -> Result<Option<PreparedVector>, CkksError> {
    if vector.values().iter().all(|value| value.re >= 0.0 && value.im == 0.0) {
        return Ok(None);
    }
    PreparedVector::new(absolute(vector.values()), vector.level(), vector.scale()).map(Some)
}

impl<A: Arithmetic> Arithmetic for WorstCase<'_, A> {
    type Vector = A::Vector;

    fn parameters(&self) -> &CkksParameters {
        self.0.parameters()
    }

    fn level(&self, a: &A::Vector) -> usize {
        self.0.level(a)
    }

    fn scale(&self, a: &A::Vector) -> f64 {
        self.0.scale(a)
    }

    fn require_keys(&self, operation: &'static str, plan: &KeyPlan) -> Result<(), CkksError> {
        self.0.require_keys(operation, plan)
    }

    fn add(&self, a: &A::Vector, b: &A::Vector) -> Result<A::Vector, CkksError> {
        self.0.add(a, b)
    }

    fn sub(&self, a: &A::Vector, b: &A::Vector) -> Result<A::Vector, CkksError> {
        self.0.add(a, b)
    }

    fn tensor(&self, a: &A::Vector, b: &A::Vector) -> Result<A::Vector, CkksError> {
        self.0.tensor(a, b)
    }

    fn relinearise_rescale(&self, a: &A::Vector) -> Result<A::Vector, CkksError> {
        self.0.relinearise_rescale(a)
    }

    fn relinearise(&self, a: &A::Vector) -> Result<A::Vector, CkksError> {
        self.0.relinearise(a)
    }

    fn rescale(&self, a: &A::Vector) -> Result<A::Vector, CkksError> {
        self.0.rescale(a)
    }

    fn drop_to(&self, a: &A::Vector, level: usize) -> Result<A::Vector, CkksError> {
        self.0.drop_to(a, level)
    }

    fn rotate(&self, a: &A::Vector, steps: i64) -> Result<A::Vector, CkksError> {
        self.0.rotate(a, steps)
    }

    fn rotate_hoisted(&self, a: &A::Vector, steps: &[i64]) -> Result<Vec<A::Vector>, CkksError> {
        self.0.rotate_hoisted(a, steps)
    }

    fn sum_rotations(&self, a: &A::Vector, steps: &[i64]) -> Result<A::Vector, CkksError> {
        self.0.sum_rotations(a, steps)
    }

    fn sum_rotations_rescale(&self, a: &A::Vector, steps: &[i64]) -> Result<A::Vector, CkksError> {
        self.0.sum_rotations_rescale(a, steps)
    }

    /// By plain rotations, so that the diagonals count with their absolute values.
    fn linear(&self, transform: &LinearTransform, a: &A::Vector) -> Result<A::Vector, CkksError> {
        transform.plan().evaluate(self, a)
    }

    fn conjugate(&self, a: &A::Vector) -> Result<A::Vector, CkksError> {
        self.0.conjugate(a)
    }

    /// The vector itself, which has the same absolute values.
    fn mul_imaginary(&self, a: &A::Vector) -> Result<A::Vector, CkksError> {
        self.0.mul_imaginary(a).map(|_| a.clone())
    }

    /// The vector itself, which has the same absolute values.
    fn mul_monomial(&self, a: &A::Vector, exponent: usize) -> Result<A::Vector, CkksError> {
        self.0.mul_monomial(a, exponent).map(|_| a.clone())
    }

    fn mul_constant(&self, a: &A::Vector, constant: Complex64, scale: f64) -> Result<A::Vector, CkksError> {
        self.0.mul_constant(a, constant.norm().into(), scale)
    }

    fn add_constant(&self, a: &A::Vector, constant: Complex64) -> Result<A::Vector, CkksError> {
        self.0.add_constant(a, constant.norm().into())
    }

    fn mul_values(&self, a: &A::Vector, values: &[Complex64], scale: f64) -> Result<A::Vector, CkksError> {
        self.0.mul_values(a, &absolute(values), scale)
    }

    fn sum_products(&self, products: &[(&A::Vector, &PreparedVector)]) -> Result<A::Vector, CkksError> {
        let factors = products.iter().map(|(_, factor)| absolute_prepared(factor)).collect::<Result<Vec<_>, _>>()?;
        let pairs =
            products.iter().zip(&factors).map(|(&(a, factor), absolute)| (a, absolute.as_ref().unwrap_or(factor)));
        self.0.sum_products(&pairs.collect::<Vec<_>>())
    }

    fn rotation_products(
        &self,
        a: &A::Vector,
        steps: &[i64],
        rows: &[Vec<(usize, &PreparedVector)>],
    ) -> Result<Vec<A::Vector>, CkksError> {
        let absolute_row = |row: &Vec<(usize, &PreparedVector)>| {
            row.iter().map(|(_, factor)| absolute_prepared(factor)).collect::<Result<Vec<_>, _>>()
        };
        let factors = rows.iter().map(absolute_row).collect::<Result<Vec<_>, _>>()?;
        let pairs = rows.iter().zip(&factors).map(|(row, factors)| {
            let pairs = row.iter().zip(factors);
            pairs.map(|(&(index, factor), absolute)| (index, absolute.as_ref().unwrap_or(factor))).collect()
        });
        self.0.rotation_products(a, steps, &pairs.collect::<Vec<Vec<_>>>())
    }

    fn add_values(&self, a: &A::Vector, values: &[Complex64]) -> Result<A::Vector, CkksError> {
        self.0.add_values(a, &absolute(values))
    }

    fn matrix(&self, matrix: &PreparedMatrix, inputs: &[&A::Vector]) -> Result<Vec<A::Vector>, CkksError> {
        self.0.matrix(&matrix.absolute(self.parameters())?, inputs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::Encoder;
    use crate::presets::Preset;
    use crate::simulator::Simulator;

    #[test]
    fn values_are_those_of_the_worst_signs() {
        let parameters = Preset::find("insecure_n11_real_depth9_scale50").unwrap().build().unwrap();
        let simulator = Simulator::new(&Encoder::new(&parameters), 1);
        let worst = WorstCase::new(&simulator);
        let scale = parameters.scale();
        let x = simulator.encrypt(&[Complex64::from(2.0)], 3, scale).unwrap();
        let difference = worst.sub(&x, &x).unwrap();
        let factor = PreparedVector::new(vec![Complex64::from(-0.5)], 3, parameters.level_modulus(3)).unwrap();
        let product = worst.rescale(&worst.mul_prepared(&difference, &factor).unwrap()).unwrap();
        let rows = worst.rotation_products(&difference, &[1], &[vec![(0, &factor)]]).unwrap();
        let matrix =
            PreparedMatrix::new(&parameters, 2, &[scale], &[scale * 1e9], |_, _| Complex64::from(-3.0)).unwrap();
        let sum = worst.add_constant(&product, Complex64::from(-1.0)).unwrap();
        let output = worst.matrix(&matrix, &[&sum]).unwrap();
        for (vector, expected) in [(&product, 2.0), (&rows[0], 2.0), (&sum, 3.0), (&output[0], 9.0)] {
            assert!(vector.exact().iter().all(|value| (value.re - expected).abs() < 1e-9), "{expected}");
        }
    }
}
