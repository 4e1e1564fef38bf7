//! Simulation of matrix products on coefficients.

use num_complex::Complex64;
use unspoken_ring::{Basis, ERROR_SIGMA, Ring};
use unspoken_rlwe::SmallRing;

use super::{Simulated, Simulator, Step, derive, plus};
use crate::arithmetic::Arithmetic;
use crate::cost::Cost;
use crate::error::CkksError;
use crate::noise::mix;

const OPERATION: &str = "multiply coefficients by a matrix";

/// Variance of the rounding error of an integer.
const ROUNDING: f64 = 1.0 / 12.0;

impl Simulator {
    /// The products at `scale` that `multiply` computes from the scaled coefficients of the inputs, with the noise and
    /// the cost of the switches to the small ring and back. `shape` is the number of outputs, and rows and columns of
    /// the matrix.
    pub(crate) fn module_product(
        &self,
        inputs: &[Simulated],
        small: &SmallRing,
        (outputs, matrix): (usize, (usize, usize)),
        scale: f64,
        multiply: impl Fn(&[Vec<f64>]) -> Vec<Vec<f64>>,
    ) -> Result<Vec<Simulated>, CkksError> {
        let ring = self.parameters().ring().clone();
        let small_ring = small.parameters().ring();
        let shape = (outputs, inputs.len(), matrix);
        self.charge(product_cost(&ring, small, shape), product_limbs(&ring, small, shape));
        let id = inputs.iter().fold(derive(Step::Module, &[outputs as u64]), |id, input| mix(id, &[input.id]));
        let products = |slots: &[&[Complex64]]| -> Result<Vec<Vec<Complex64>>, CkksError> {
            if slots.first().is_none_or(|slots| slots.is_empty()) {
                return Ok(vec![Vec::new(); outputs]);
            }
            let coefficients = inputs.iter().zip(slots);
            let coefficients =
                coefficients.map(|(a, slots)| Ok(self.encoder.coefficients(OPERATION, slots, a.scale)?.to_vec()));
            let products = multiply(&coefficients.collect::<Result<Vec<_>, CkksError>>()?);
            Ok(products.iter().map(|product| self.encoder.slots_of(product, scale)).collect())
        };
        let exact = products(&inputs.iter().map(|a| a.exact.as_slice()).collect::<Vec<_>>())?;
        let (digits, rank) = (small_ring.chain().len() as f64, small.rank() as f64);
        // Digits and the special prime have about the same size.
        let switch = |degree: usize| digits * degree as f64 * ERROR_SIGMA * ERROR_SIGMA * ROUNDING;
        let division = ROUNDING * (1.0 + 2.0 / 3.0 * small_ring.degree() as f64);
        let switched = inputs.iter().enumerate().map(|(index, a)| {
            let stream = mix(id, &[0, index as u64]);
            plus(&a.noisy, self.noise.of_variance(stream, switch(ring.degree()) + division), a.scale)
        });
        let switched: Vec<Vec<Complex64>> = switched.collect();
        let noisy = products(&switched.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
        let results = exact.into_iter().zip(noisy).enumerate().map(|(index, (exact, noisy))| {
            let stream = mix(id, &[1, index as u64]);
            let noise = self.noise.of_variance(stream, rank * switch(small_ring.degree()) + division);
            let noisy = plus(&noisy, noise, scale);
            self.finish(OPERATION, self.pair(stream, exact, noisy, (0, scale)))
        });
        Ok(results.collect())
    }
}

/// Outputs, inputs, and rows and columns of the matrix.
type Shape = (usize, usize, (usize, usize));

/// The switches of inputs to the small ring, the integer products, and the switches of outputs.
fn product_cost(ring: &Ring, small: &SmallRing, (outputs, inputs, (rows, columns)): Shape) -> Cost {
    let (small_ring, basis) = (small.parameters().ring(), small.basis());
    let ratio = (ring.degree() / small_ring.degree()) as u64;
    let mut part = Cost::decomposition(small_ring, basis);
    part += Cost::hoisted_product(small_ring, basis);
    part.limb_transforms += basis.chain as u64;
    // A key switch of the small ring for each row of an output. Transforms are counted in transforms of the large ring.
    let mut output = part.times((small.rows()) as u64);
    output.limb_transforms /= ratio;
    output += Cost::division(ring, extended(basis), basis).times(2);
    output.limb_transforms += 2 * basis.chain as u64;
    // The switch of a whole ciphertext with the primes of the small ring.
    let squares = (ring.degree() * basis.chain * basis.chain) as u64;
    let mut input = Cost { conversion_macs: squares, key_macs: 2 * squares, ..Cost::default() };
    input.limb_transforms = (basis.chain * (basis.chain + 1) + 4 * basis.chain + 2) as u64;
    let macs = rows * columns * (small_ring.degree() + small.row_len()) * basis.chain;
    let mut cost = output.times(outputs as u64);
    cost += input.times(inputs as u64);
    cost.matrix_macs += macs as u64;
    cost
}

/// Limbs of the rows of all inputs and outputs.
fn product_limbs(ring: &Ring, small: &SmallRing, (outputs, inputs, (rows, columns)): Shape) -> usize {
    let row = (small.parameters().ring().degree() + small.row_len()) * small.basis().chain;
    let held = inputs * small.rows() + columns + rows;
    (held * row).div_ceil(ring.degree()) + 4 * small.basis().chain * (outputs + inputs)
}

/// The basis of the special prime and the primes of the small ring, in the number of primes.
fn extended(basis: Basis) -> Basis {
    Basis::chain(basis.chain + 1)
}
