//! Matrix products between the two halves of a bootstrap, on coefficients, at no level.
//!
//! After the map from slots to coefficients a vector at level 0 has slot `token + tokens * dimension` in one
//! coefficient, and bit reversal makes the coefficients of a dimension a row of [`SmallRing`]. So a matrix of weights
//! multiplies the dimensions, every token alike, as an integer matrix product (private Llama paper, section 5.2 and
//! appendix A). The weights are rounded to integers; the coefficients before the product leave room for them in the
//! modulus of level 0.

use unspoken_ring::RingMatrix;
use unspoken_rlwe::{SmallRing, SmallRingKeys};

use super::run::Refresh;
use super::{Bootstrap, Bootstrapper};
use crate::arithmetic::{Arithmetic, check_scales};
use crate::ciphertext::Ciphertext;
use crate::error::CkksError;
use crate::evaluator::Evaluator;
use crate::group::each;
use crate::simulator::{Simulated, Simulator};

const OPERATION: &str = "multiply coefficients by a matrix";

/// A matrix of weights for [`Bootstrapper::refresh_product`].
pub struct CoefficientMatrix {
    small: SmallRing,
    matrix: RingMatrix,
    /// The rounded weights in natural order, row by row.
    weights: Vec<i32>,
    outputs: usize,
    inputs: usize,
    /// Dimensions of one vector.
    dimensions: usize,
    weight_bits: u32,
}

impl std::fmt::Debug for CoefficientMatrix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut f = f.debug_struct("CoefficientMatrix");
        f.field("outputs", &self.outputs).field("inputs", &self.inputs).finish_non_exhaustive()
    }
}

impl CoefficientMatrix {
    /// Packs the weights `entry(output, input)`, each rounded to a multiple of `2^-bits` with the bits that `plan`
    /// leaves for weights. The dimensions of the inputs are those of the first vector, then those of the next, and so
    /// are those of the outputs; `small` is the ring for twice the tokens to a row, because slots are complex.
    ///
    /// # Errors
    /// If the plan is not for all slots or leaves no bits for weights, the dimensions are not positive, or a weight is
    /// not finite or larger than `2^31` times the smallest one.
    pub fn new(
        plan: &Bootstrap,
        small: &SmallRing,
        (outputs, inputs): (usize, usize),
        entry: impl Fn(usize, usize) -> f64,
    ) -> Result<Self, CkksError> {
        let slots = plan.parameters.slots();
        if plan.slots != slots || plan.weight_bits == 0 {
            let needed = format!("a bootstrap of all {slots} slots, made by Bootstrap::for_products");
            return Err(CkksError::Shape { operation: OPERATION, found: plan.slots, needed });
        }
        if outputs == 0 || inputs == 0 {
            let (found, needed) = (outputs.min(inputs), "one or more rows and columns".into());
            return Err(CkksError::Shape { operation: OPERATION, found, needed });
        }
        let scale = f64::from(plan.weight_bits).exp2();
        let mut weights = Vec::with_capacity(outputs * inputs);
        for output in 0..outputs {
            for input in 0..inputs {
                let rounded = (entry(output, input) * scale).round();
                if !rounded.is_finite() || rounded.abs() > f64::from(i32::MAX) {
                    let index = output * inputs + input;
                    return Err(CkksError::Value { operation: OPERATION, index, needed: "a finite weight below 2^31" });
                }
                weights.push(rounded as i32);
            }
        }
        let dimensions = small.rows();
        let natural = |row: usize| row / dimensions * dimensions + reversed(row % dimensions, dimensions);
        let padded = |count: usize| count.div_ceil(dimensions) * dimensions;
        let matrix = small.matrix(padded(outputs), padded(inputs), |row, column| {
            let (output, input) = (natural(row), natural(column));
            if output < outputs && input < inputs { i128::from(weights[output * inputs + input]) } else { 0 }
        });
        let (small, weight_bits) = (small.clone(), plan.weight_bits);
        Ok(CoefficientMatrix { small, matrix, weights, outputs, inputs, dimensions, weight_bits })
    }

    /// Outputs and inputs: rows and columns.
    pub fn shape(&self) -> (usize, usize) {
        (self.outputs, self.inputs)
    }

    /// Number of tokens of a vector: slot `token + tokens * dimension`.
    pub fn tokens(&self) -> usize {
        self.small.row_len() / 2
    }

    /// Number of vectors with all inputs.
    pub fn input_vectors(&self) -> usize {
        self.inputs.div_ceil(self.dimensions)
    }

    /// Number of vectors with all outputs.
    pub fn output_vectors(&self) -> usize {
        self.outputs.div_ceil(self.dimensions)
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> u64 {
        (self.matrix.bytes() + size_of_val(self.weights.as_slice())) as u64
    }

    /// Bytes of memory of the rows of inputs and outputs during a product, beside those of the halves of a bootstrap
    /// ([`Bootstrapper::working_bytes`]).
    pub fn working_bytes(&self) -> u64 {
        let ring = self.small.parameters().ring();
        let row = (ring.degree() + self.small.row_len()) * self.small.basis().chain * size_of::<u32>();
        // The rows of the inputs exist twice while they are put together.
        let rows = (2 * self.input_vectors() + self.output_vectors()) * self.dimensions;
        (rows * row) as u64
    }

    fn check(&self, plan: &Bootstrap, found: usize) -> Result<(), CkksError> {
        if plan.weight_bits != self.weight_bits {
            let (found, needed) =
                (plan.weight_bits as usize, format!("a plan with {} bits for weights", self.weight_bits));
            return Err(CkksError::Shape { operation: OPERATION, found, needed });
        }
        if found == self.input_vectors() {
            return Ok(());
        }
        let needed = format!("{} vectors, which have the {} inputs", self.input_vectors(), self.inputs);
        Err(CkksError::Shape { operation: OPERATION, found, needed })
    }

    /// The products of rows of coefficients in the clear, times `2^bits`.
    fn multiply(&self, vectors: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let (dimensions, row_len) = (self.dimensions, self.small.row_len());
        let position = |dimension: usize, c: usize| {
            (dimension / dimensions, reversed(dimension % dimensions, dimensions) + c * dimensions)
        };
        let mut results = vec![vec![0.0; dimensions * row_len]; self.output_vectors()];
        for (output, weights) in self.weights.chunks_exact(self.inputs).enumerate() {
            for (input, &weight) in weights.iter().enumerate().filter(|(_, weight)| **weight != 0) {
                for c in 0..row_len {
                    let ((to, i), (from, j)) = (position(output, c), position(input, c));
                    results[to][i] += f64::from(weight) * vectors[from][j];
                }
            }
        }
        results
    }
}

/// Checks that all inputs have one scale.
fn check_inputs(mut scales: impl Iterator<Item = f64>) -> Result<(), CkksError> {
    let Some(first) = scales.next() else { return Ok(()) };
    scales.try_for_each(|scale| check_scales(OPERATION, first, scale))
}

/// The reversal of the bits of a number below `count`, a power of two.
fn reversed(number: usize, count: usize) -> usize {
    if count == 1 { 0 } else { number.reverse_bits() >> (usize::BITS - count.trailing_zeros()) }
}

impl Bootstrap {
    /// The ring for products of vectors with `tokens` tokens, with a small ring of degree `small_degree`.
    ///
    /// # Errors
    /// As for [`SmallRing::new`].
    pub fn small_ring(&self, small_degree: usize, tokens: usize) -> Result<SmallRing, CkksError> {
        Ok(SmallRing::new(self.parameters.rlwe(), small_degree, 2 * tokens)?)
    }

    /// [`Bootstrapper::refresh_product`] in the clear, with its noise.
    ///
    /// # Errors
    /// As for [`Bootstrapper::refresh_product`].
    pub fn simulate_refresh_product(
        &self,
        simulator: &Simulator,
        matrix: &CoefficientMatrix,
        inputs: &[&Simulated],
    ) -> Result<Vec<Simulated>, CkksError> {
        matrix.check(self, inputs.len())?;
        check_inputs(inputs.iter().map(|input| simulator.scale(input)))?;
        let lowest = inputs.iter().map(|input| self.coefficients_on(simulator, &self.down, input));
        let lowest = lowest.collect::<Result<Vec<_>, _>>()?;
        let multiply = |vectors: &[Vec<f64>]| matrix.multiply(vectors);
        let (small, shape) = (&matrix.small, (matrix.output_vectors(), self.message_scale()));
        let products = simulator.module_product(&lowest, small, shape, multiply)?;
        let scale = simulator.scale(inputs[0]);
        let outputs = products.iter().map(|product| {
            let output = self.refresh_coefficients_on(simulator, &self.up, product)?;
            Ok(simulator.at_scale(output, scale))
        });
        outputs.collect()
    }
}

impl Bootstrapper {
    /// Multiplies the dimensions of bootstrapped vectors by a matrix, between the halves of their bootstraps: as many
    /// first halves as inputs, as many second halves as outputs, and no level for the product. The inputs are as for
    /// [`Bootstrapper::refresh`], with slot `token + tokens * dimension`. Outputs have values of at most 1 in each
    /// part, at the scale of the inputs and [`Bootstrap::output_level`]; inputs may be as large as the precision
    /// allows.
    ///
    /// # Errors
    /// If the plan was not made by [`Bootstrap::for_products`] with the same bits, the number of inputs is not that of
    /// the matrix, or levels, scales or keys are not as for [`Bootstrapper::refresh`].
    pub fn refresh_product(
        &self,
        evaluator: &Evaluator<'_>,
        keys: &SmallRingKeys,
        matrix: &CoefficientMatrix,
        inputs: &[&Ciphertext],
    ) -> Result<Vec<Ciphertext>, CkksError> {
        matrix.check(&self.plan, inputs.len())?;
        check_inputs(inputs.iter().map(|input| input.scale()))?;
        let (down, up) = self.maps_of_slots(evaluator)?;
        let lowest = each(inputs, |input| self.plan.coefficients_on(evaluator, down, input))?;
        let vectors: Vec<_> = lowest.iter().map(Ciphertext::inner).collect();
        let products = matrix.small.product(keys, &matrix.matrix, &vectors)?;
        let (rlwe, level, modulus) = (self.plan.parameters.rlwe(), self.plan.raised_level(), self.plan.modulus());
        each(&products, |product| {
            let inner = product.raise(rlwe, self.plan.parameters.basis(level), evaluator.keys())?;
            let raised = Ciphertext { inner, level, scale: modulus };
            let output = self.plan.slots_from_raised(evaluator, up, raised)?;
            Ok(evaluator.at_scale(output, inputs[0].scale()))
        })
    }
}
