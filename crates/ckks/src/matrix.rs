//! Plaintext matrices on the left of vectors of ciphertexts (PCMM), rounded to Gaussian integers.

use num_complex::Complex64;
use unspoken_ring::{Poly, RingKind, RingMatrix};

use crate::error::CkksError;
use crate::parameters::CkksParameters;

/// A complex matrix rounded for inputs of known scales, so that every output has one scale.
///
/// Column `c` is multiplied by `output_scale / input_scale_c` before rounding: differences between the scales of the
/// inputs cost nothing. The product is not rescaled.
pub struct PreparedMatrix {
    rows: usize,
    level: usize,
    input_scales: Vec<f64>,
    output_scale: f64,
    integers: Vec<(i64, i64)>,
    packed: RingMatrix,
}

impl PreparedMatrix {
    /// Rounds `entry(row, column)` for inputs of the given scales at `level`, one column per scale.
    ///
    /// # Errors
    /// If an entry is not finite or does not fit 62 bits after scaling, or is complex in the conjugate-invariant ring.
    pub fn new(
        parameters: &CkksParameters,
        level: usize,
        input_scales: &[f64],
        output_scale: f64,
        rows: usize,
        entry: impl Fn(usize, usize) -> Complex64,
    ) -> Result<Self, CkksError> {
        const OPERATION: &str = "prepare a matrix";
        let columns = input_scales.len();
        let real = parameters.ring().kind() == RingKind::ConjugateInvariant;
        let mut integers = Vec::with_capacity(rows * columns);
        for row in 0..rows {
            for (column, scale) in input_scales.iter().enumerate() {
                let value = entry(row, column);
                let scaled = value * (output_scale / scale);
                let fits = |x: f64| x.is_finite() && x.abs() < 2f64.powi(62);
                if !fits(scaled.re) || !fits(scaled.im) || (real && value.im != 0.0) {
                    let index = row * columns + column;
                    let needed = "a finite number below 2^62 after scaling, real in the conjugate-invariant ring";
                    return Err(CkksError::Value { operation: OPERATION, index, found: value.to_string(), needed });
                }
                integers.push((scaled.re.round() as i64, scaled.im.round() as i64));
            }
        }
        let (ring, chain) = (parameters.ring(), parameters.chain(level));
        let at = |r: usize, c: usize| integers[r * columns + c];
        let packed = if integers.iter().all(|&(_, im)| im == 0) {
            ring.real_matrix(chain, rows, columns, |r, c| at(r, c).0)
        } else {
            ring.complex_matrix(chain, rows, columns, at)?
        };
        Ok(PreparedMatrix { rows, level, input_scales: input_scales.to_vec(), output_scale, integers, packed })
    }

    /// Rows and columns.
    pub fn shape(&self) -> (usize, usize) {
        (self.rows, self.input_scales.len())
    }

    /// The level of its outputs; inputs may be at a higher one.
    pub fn level(&self) -> usize {
        self.level
    }

    /// The scale of its outputs.
    pub fn output_scale(&self) -> f64 {
        self.output_scale
    }

    /// Bytes it takes in memory.
    pub fn bytes(&self) -> usize {
        self.packed.bytes() + self.integers.len() * size_of::<(i64, i64)>()
    }

    /// The rounded entry, as what it multiplies values by.
    pub(crate) fn factor(&self, row: usize, column: usize) -> Complex64 {
        let (re, im) = self.integers[row * self.input_scales.len() + column];
        Complex64::new(re as f64, im as f64) * (self.input_scales[column] / self.output_scale)
    }

    /// Checks the inputs of a product.
    pub(crate) fn check(&self, inputs: impl ExactSizeIterator<Item = (usize, f64)>) -> Result<(), CkksError> {
        const OPERATION: &str = "matrix product";
        if inputs.len() != self.input_scales.len() {
            let needed = format!("one per column, {}", self.input_scales.len());
            return Err(CkksError::Shape { operation: OPERATION, found: inputs.len(), needed });
        }
        for ((level, scale), &needed) in inputs.zip(&self.input_scales) {
            if level < self.level {
                return Err(CkksError::Level { operation: OPERATION, found: level, needed: self.level });
            }
            crate::arithmetic::check_scales(OPERATION, needed, scale)?;
        }
        Ok(())
    }

    pub(crate) fn multiply(&self, parameters: &CkksParameters, inputs: &[&Poly]) -> Result<Vec<Poly>, CkksError> {
        Ok(parameters.ring().matrix_product(&self.packed, inputs)?)
    }
}
