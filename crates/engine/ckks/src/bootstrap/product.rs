//! Matrix products between the two halves of a bootstrap, on coefficients, at no level.
//!
//! After the map from slots to coefficients a vector at level 0 has slot `token + tokens * dimension` in one
//! coefficient, and bit reversal makes the coefficients of a dimension a row of [`SmallRing`]. So a matrix of weights
//! multiplies the dimensions, every token alike, as an integer matrix product (private Llama paper, section 5.2 and
//! appendix A). The weights are rounded to integers; the coefficients before the product leave room for them in the
//! modulus of level 0.

use std::borrow::Cow;

use unspoken_ring::RingMatrix;
use unspoken_rlwe::{RowPlaces, SmallRing, SmallRingKeys};

use super::bootstrapper::Bootstrapper;
use super::plan::Bootstrap;
use super::run::Refresh;
use super::works::Work;
use crate::arithmetic::Arithmetic;
use crate::ciphertext::Ciphertext;
use crate::error::CkksError;
use crate::evaluator::Evaluator;
use crate::group::each;
use crate::scale::check_scales;
use crate::simulator::{Simulated, Simulator};

const OPERATION: &str = "multiply coefficients by a matrix";

/// A matrix of weights for [`Bootstrapper::refresh_product`].
pub struct CoefficientMatrix {
    small: SmallRing,
    /// The weights; none of a matrix that is only counted.
    values: Option<Values>,
    shape: (usize, usize),
    /// The row of the inputs for each column.
    inputs: Vec<usize>,
    /// The row of the matrix for each row of the outputs.
    outputs: Vec<Option<usize>>,
    /// Vectors with all inputs, and with all outputs.
    vectors: (usize, usize),
    weight_bits: u32,
}

/// The weights of a matrix.
struct Values {
    matrix: RingMatrix,
    /// The rounded weights, row by row.
    rounded: Vec<i32>,
}

/// Where the dimensions of a matrix product lie: dimension `d` is dimension `d mod m` of vector `d / m`, if a vector
/// has `m` of them.
#[derive(Clone, Copy, Debug)]
pub struct DimensionPlaces<'a> {
    /// The dimension of the inputs for each column of the matrix.
    pub inputs: &'a [usize],
    /// The row of the matrix that each dimension of the outputs has; `None` for zero. A row may occur several times.
    pub outputs: &'a [Option<usize>],
}

impl std::fmt::Debug for CoefficientMatrix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CoefficientMatrix").field("shape", &self.shape).finish_non_exhaustive()
    }
}

impl CoefficientMatrix {
    /// Packs the weights `entry(row, column)` of `rows` rows and a column for each input, each rounded to a multiple of
    /// `2^-bits` with the bits that `plan` leaves for weights. `small` is the ring for twice the tokens to a row,
    /// because slots are complex.
    ///
    /// # Errors
    /// If the plan is not for all slots or leaves no bits for weights, there are no inputs, outputs or rows, an output
    /// has a row that the matrix has not, or a weight is not finite or larger than `2^31` times the smallest one.
    pub fn new(
        plan: &Bootstrap,
        small: &SmallRing,
        places: &DimensionPlaces<'_>,
        rows: usize,
        entry: impl Fn(usize, usize) -> f64,
    ) -> Result<Self, CkksError> {
        let counted = Self::counted(plan, small, places, rows)?;
        let columns = places.inputs.len();
        let scale = f64::from(plan.weight_bits).exp2();
        let mut rounded = Vec::with_capacity(rows * columns);
        for index in 0..rows * columns {
            let weight = (entry(index / columns, index % columns) * scale).round();
            if !weight.is_finite() || weight.abs() > f64::from(i32::MAX) {
                return Err(CkksError::Value { operation: OPERATION, index, needed: "a finite weight below 2^31" });
            }
            rounded.push(weight as i32);
        }
        let matrix = small.matrix(rows, columns, |row, column| i128::from(rounded[row * columns + column]));
        Ok(CoefficientMatrix { values: Some(Values { matrix, rounded }), ..counted })
    }

    /// A matrix without weights, for simulators without values: they count the products with it.
    ///
    /// # Errors
    /// As for [`CoefficientMatrix::new`].
    pub fn counted(
        plan: &Bootstrap,
        small: &SmallRing,
        places: &DimensionPlaces<'_>,
        rows: usize,
    ) -> Result<Self, CkksError> {
        let slots = plan.parameters.slots();
        let refuse = |found: usize, needed: String| Err(CkksError::Shape { operation: OPERATION, found, needed });
        if plan.slots != slots || plan.weight_bits == 0 {
            return refuse(plan.slots, format!("a bootstrap of all {slots} slots, made by Bootstrap::for_products"));
        }
        let columns = places.inputs.len();
        if rows == 0 || columns == 0 || places.outputs.is_empty() {
            return refuse(0, "one or more rows, columns and outputs".into());
        }
        if let Some(&found) = places.outputs.iter().flatten().find(|row| **row >= rows) {
            return refuse(found, format!("the number of one of the {rows} rows for each output"));
        }
        let dimensions = small.rows();
        let row_of =
            |dimension: usize| dimension / dimensions * dimensions + reversed(dimension % dimensions, dimensions);
        let inputs: Vec<usize> = places.inputs.iter().map(|&input| row_of(input)).collect();
        let vectors = |dimensions_used: usize| dimensions_used.div_ceil(dimensions);
        let last = places.inputs.iter().max().copied().unwrap_or(0);
        let vectors = (vectors(last + 1), vectors(places.outputs.len()));
        // Reversal of bits is its own inverse.
        let source = |row: usize| places.outputs.get(row_of(row)).copied().flatten();
        let outputs = (0..vectors.1 * dimensions).map(source).collect();
        let (small, weight_bits) = (small.clone(), plan.weight_bits);
        Ok(CoefficientMatrix { small, values: None, shape: (rows, columns), inputs, outputs, vectors, weight_bits })
    }

    /// Rows and columns.
    pub fn shape(&self) -> (usize, usize) {
        self.shape
    }

    /// Number of tokens of a vector: slot `token + tokens * dimension`.
    pub fn tokens(&self) -> usize {
        self.small.row_len() / 2
    }

    /// Number of vectors with all inputs.
    pub fn input_vectors(&self) -> usize {
        self.vectors.0
    }

    /// Number of vectors with all outputs.
    pub fn output_vectors(&self) -> usize {
        self.vectors.1
    }

    /// Bytes of memory, with the weights of a matrix that has none.
    pub fn bytes(&self) -> u64 {
        let (rows, columns) = self.shape;
        let places = size_of_val(self.inputs.as_slice()) + size_of_val(self.outputs.as_slice());
        (self.small.matrix_bytes(rows, columns) + rows * columns * size_of::<i32>() + places) as u64
    }

    /// The weights.
    fn values(&self) -> Result<&Values, CkksError> {
        let missing = || {
            let needed = "a matrix with weights; one without is for simulators without values".into();
            CkksError::Shape { operation: OPERATION, found: 0, needed }
        };
        self.values.as_ref().ok_or_else(missing)
    }

    /// Bytes of memory of the rows of inputs and outputs during a product. The halves of a bootstrap need more:
    /// [`Bootstrapper::working_bytes`].
    pub fn working_bytes(&self) -> u64 {
        let ring = self.small.parameters().ring();
        let row = (ring.degree() + self.small.row_len()) * self.small.basis().chain * size_of::<u32>();
        // The rows of the inputs exist twice while they are put together.
        let rows = 2 * self.input_vectors() * self.small.rows() + self.shape.0 + self.shape.1;
        (rows * row) as u64
    }

    /// Checks a product of `found` vectors at level 0, each of which holds `parts` vectors of real slots.
    fn check(&self, plan: &Bootstrap, parts: usize, found: usize) -> Result<(), CkksError> {
        self.check_plan(plan)?;
        check_parts(parts)?;
        let vectors = self.input_vectors();
        if found != vectors {
            let needed = format!("{vectors} vectors of coefficients, which have the {} inputs", self.shape.1);
            return Err(CkksError::Shape { operation: OPERATION, found, needed });
        }
        Ok(())
    }

    fn check_plan(&self, plan: &Bootstrap) -> Result<(), CkksError> {
        if plan.weight_bits != self.weight_bits {
            let (found, needed) =
                (plan.weight_bits as usize, format!("a plan with {} bits for weights", self.weight_bits));
            return Err(CkksError::Shape { operation: OPERATION, found, needed });
        }
        Ok(())
    }

    /// Checks the vectors of real slots of a product, `parts` for each vector of the matrix, and returns their scale.
    fn check_inputs(
        &self,
        plan: &Bootstrap,
        parts: usize,
        scales: impl ExactSizeIterator<Item = f64>,
    ) -> Result<f64, CkksError> {
        self.check_plan(plan)?;
        check_parts(parts)?;
        let (found, vectors) = (scales.len(), self.input_vectors());
        if found != parts * vectors {
            let needed = format!("{} vectors, which have the {} inputs", parts * vectors, self.shape.1);
            return Err(CkksError::Shape { operation: OPERATION, found, needed });
        }
        one_scale(scales)
    }

    /// The products of rows of coefficients in the clear, times `2^bits`.
    fn multiply(&self, weights: &[i32], vectors: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let (rows, row_len) = (self.small.rows(), self.small.row_len());
        let input = |row: usize, c: usize| vectors[row / rows][row % rows + c * rows];
        let product = |weights: &[i32]| -> Vec<f64> {
            let mut sums = vec![0.0; row_len];
            for (&weight, &row) in weights.iter().zip(&self.inputs).filter(|(weight, _)| **weight != 0) {
                let terms = sums.iter_mut().enumerate();
                terms.for_each(|(c, sum)| *sum += f64::from(weight) * input(row, c));
            }
            sums
        };
        let products: Vec<Vec<f64>> = weights.chunks_exact(self.shape.1).map(product).collect();
        let vector = |sources: &[Option<usize>]| -> Vec<f64> {
            let value = |i: usize| sources[i % rows].map_or(0.0, |row| products[row][i / rows]);
            (0..rows * row_len).map(value).collect()
        };
        self.outputs.chunks_exact(rows).map(vector).collect()
    }
}

/// Number of products with `parts` parts that go through the second half of a bootstrap as one.
fn shared_by(parts: usize) -> usize {
    if parts == 1 { 2 } else { 1 }
}

/// The product of a group, or its two products as parts of one; and the number of its parts. The other half of the
/// coefficients of each of two is zero up to noise.
fn joined<'a, A: Refresh>(
    a: &A,
    group: &'a [A::Vector],
    parts: usize,
) -> Result<(Cow<'a, A::Vector>, usize), CkksError> {
    match group {
        [first, second] => Ok((Cow::Owned(a.add(first, &a.mul_imaginary(second)?)?), 2)),
        _ => Ok((Cow::Borrowed(&group[0]), parts)),
    }
}

fn check_parts(found: usize) -> Result<(), CkksError> {
    match found {
        1 | 2 => Ok(()),
        _ => {
            let needed = "one or two real vectors for each vector".into();
            Err(CkksError::Shape { operation: OPERATION, found, needed })
        }
    }
}

/// The scale of inputs, which all have the same.
fn one_scale(mut scales: impl Iterator<Item = f64>) -> Result<f64, CkksError> {
    let first = scales.next().unwrap_or(1.0);
    scales.try_for_each(|scale| check_scales(OPERATION, first, scale))?;
    Ok(first)
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
        parts: usize,
        inputs: &[&Simulated],
    ) -> Result<Vec<Simulated>, CkksError> {
        let scale = matrix.check_inputs(self, parts, inputs.iter().map(|input| simulator.scale(input)))?;
        let lowest = inputs.chunks(parts).map(|group| self.simulate_coefficients(simulator, group));
        let lowest = lowest.collect::<Result<Vec<_>, _>>()?;
        self.simulate_product(simulator, matrix, (parts, scale), &lowest)
    }

    /// [`Bootstrapper::coefficients`] in the clear, with its noise.
    ///
    /// # Errors
    /// As for [`Bootstrapper::coefficients`].
    pub fn simulate_coefficients(&self, simulator: &Simulator, parts: &[&Simulated]) -> Result<Simulated, CkksError> {
        check_parts(parts.len())?;
        one_scale(parts.iter().map(|part| simulator.scale(part)))?;
        self.slots_to_coeffs_of_parts(simulator, &self.slots_to_coeffs, parts)
    }

    /// [`Bootstrapper::product_of_coefficients`] in the clear, with its noise.
    ///
    /// # Errors
    /// As for [`Bootstrapper::product_of_coefficients`].
    pub fn simulate_product(
        &self,
        simulator: &Simulator,
        matrix: &CoefficientMatrix,
        (parts, input_scale): (usize, f64),
        lowest: &[Simulated],
    ) -> Result<Vec<Simulated>, CkksError> {
        matrix.check(self, parts, lowest.len())?;
        let rounded = match lowest.iter().all(|vector| vector.exact().is_empty()) {
            true => &[],
            false => matrix.values()?.rounded.as_slice(),
        };
        let multiply = |vectors: &[Vec<f64>]| matrix.multiply(rounded, vectors);
        let shape = (matrix.output_vectors(), matrix.shape);
        let products = simulator.module_product(lowest, &matrix.small, shape, self.message_scale(), multiply)?;
        let scale = self.parameters.scale();
        let outputs = products.chunks(shared_by(parts)).map(|group| {
            let (product, parts) = joined(simulator, group, parts)?;
            let slots = self.raised_slots(simulator, self.plans().1, &product)?;
            let outputs = self.eval_mod_of_parts(simulator, &slots, (parts, scale / input_scale))?;
            Ok(outputs.into_iter().map(|output| simulator.at_scale(output, scale)).collect::<Vec<_>>())
        });
        Ok(outputs.collect::<Result<Vec<_>, CkksError>>()?.into_iter().flatten().collect())
    }
}

impl Bootstrapper {
    /// Multiplies the dimensions of bootstrapped vectors of real slots by a matrix, between the halves of their
    /// bootstraps. There are `parts` vectors (one or two, with other tokens each) for each vector of the matrix, next
    /// to each other; two go through the bootstrap as one. The first half of a bootstrap runs once for each input
    /// vector of the matrix. The second half runs once for each output vector, or once for two if there is one part.
    /// The product takes no level. The inputs are as for [`Bootstrapper::refresh`], with slot `token + tokens *
    /// dimension`. Outputs have values of at most 1, at the scale of the parameters and [`Bootstrap::output_level`];
    /// inputs may be as large as the precision allows.
    ///
    /// # Errors
    /// If the plan was not made by [`Bootstrap::for_products`] with the same bits, the number of inputs is not that of
    /// the matrix, or levels, scales or keys are not as for [`Bootstrapper::refresh`].
    pub fn refresh_product(
        &self,
        evaluator: &Evaluator<'_>,
        keys: &SmallRingKeys,
        matrix: &CoefficientMatrix,
        parts: usize,
        inputs: &[&Ciphertext],
    ) -> Result<Vec<Ciphertext>, CkksError> {
        let scale = matrix.check_inputs(&self.plan, parts, inputs.iter().map(|input| input.scale()))?;
        let groups: Vec<&[&Ciphertext]> = inputs.chunks(parts).collect();
        let lowest = each(evaluator.parameters().ring(), &groups, |group| self.coefficients(evaluator, group))?;
        self.product_of_coefficients(evaluator, keys, matrix, (parts, scale), &lowest)
    }

    /// The first half of [`Bootstrapper::refresh_product`] for one vector of the matrix's inputs: the coefficients of
    /// its one or two parts, at level 0.
    ///
    /// # Errors
    /// As for [`Bootstrapper::refresh`], or if there are not one or two parts of one scale.
    pub fn coefficients(&self, evaluator: &Evaluator<'_>, parts: &[&Ciphertext]) -> Result<Ciphertext, CkksError> {
        check_parts(parts.len())?;
        one_scale(parts.iter().map(|part| part.scale()))?;
        let (slots_to_coeffs, _) = self.maps(evaluator)?;
        let lowest = parts.iter().map(|part| self.plan.lowest_input(evaluator, part));
        let lowest = lowest.collect::<Result<Vec<_>, _>>()?;
        let work = if parts.len() == 1 { Work::Coefficients } else { Work::CoefficientsOfPair };
        let mut outputs = self.repeat(evaluator, (work, 1.0), &lowest.iter().collect::<Vec<_>>(), |parts| {
            Ok(vec![self.plan.slots_to_coeffs_of_parts(evaluator, slots_to_coeffs, parts)?])
        })?;
        Ok(outputs.swap_remove(0))
    }

    /// The rest of [`Bootstrapper::refresh_product`]: the product with a matrix, and the second halves. `lowest` are
    /// the coefficients of all its inputs, `input_scale` is the scale that their slots had. A matrix of some of the
    /// outputs gives these outputs alone.
    ///
    /// # Errors
    /// As for [`Bootstrapper::refresh_product`].
    pub fn product_of_coefficients(
        &self,
        evaluator: &Evaluator<'_>,
        keys: &SmallRingKeys,
        matrix: &CoefficientMatrix,
        (parts, input_scale): (usize, f64),
        lowest: &[Ciphertext],
    ) -> Result<Vec<Ciphertext>, CkksError> {
        matrix.check(&self.plan, parts, lowest.len())?;
        let (_, (raised, coeffs_to_slots)) = self.maps(evaluator)?;
        let vectors: Vec<_> = lowest.iter().map(Ciphertext::inner).collect();
        let places = RowPlaces { inputs: &matrix.inputs, outputs: &matrix.outputs };
        let products = matrix.small.product(keys, &matrix.values()?.matrix, &places, &vectors)?;
        let message_scale = self.plan.message_scale();
        let products: Vec<Ciphertext> =
            products.into_iter().map(|inner| Ciphertext { inner, level: 0, scale: message_scale }).collect();
        let scale = self.plan.parameters.scale();
        // The bootstrap takes inputs as if they had the parameters' scale.
        let factor = scale / input_scale;
        let groups: Vec<&[Ciphertext]> = products.chunks(shared_by(parts)).collect();
        let outputs = each(evaluator.parameters().ring(), &groups, |group| {
            let (product, parts) = joined(evaluator, group, parts)?;
            let work = if parts == 1 { Work::Part } else { Work::Parts };
            self.repeat(evaluator, (work, factor), &[product.as_ref()], |inputs| {
                let raised = raised.apply(evaluator, &inputs[0].inner)?;
                let slots = self.plan.coeffs_to_slots(evaluator, coeffs_to_slots, raised)?;
                let outputs = self.plan.eval_mod_of_parts(evaluator, &slots, (parts, factor))?;
                Ok(outputs.into_iter().map(|output| evaluator.at_scale(output, scale)).collect())
            })
        })?;
        Ok(outputs.into_iter().flatten().collect())
    }
}
