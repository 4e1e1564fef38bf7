//! Products of plaintext matrices with vectors of ciphertexts (PCMM). Matrix entries are rounded to Gaussian integers.

use num_complex::Complex64;
use unspoken_ring::{Poly, RingKind, RingMatrix};

use crate::error::CkksError;
use crate::parameters::CkksParameters;

/// A complex matrix rounded for inputs of known scales, so that each output has the requested scale.
///
/// Entry `(r, c)` is multiplied by `output_scale_r / input_scale_c` before rounding, so inputs of different scales add
/// no cost. The product is not rescaled.
pub struct PreparedMatrix {
    level: usize,
    input_scales: Vec<f64>,
    output_scales: Vec<f64>,
    /// The entries before rounding.
    entries: Vec<Complex64>,
    packed: RingMatrix,
}

impl PreparedMatrix {
    /// Rounds `entry(row, column)` for inputs of the given scales at `level`. There is one column per input scale and
    /// one row per output scale.
    ///
    /// # Errors
    /// If an entry is not finite or does not fit 120 bits after scaling, or is complex in the conjugate-invariant ring.
    pub fn new(
        parameters: &CkksParameters,
        level: usize,
        input_scales: &[f64],
        output_scales: &[f64],
        entry: impl Fn(usize, usize) -> Complex64,
    ) -> Result<Self, CkksError> {
        const OPERATION: &str = "prepare a matrix";
        let (rows, columns) = (output_scales.len(), input_scales.len());
        let real = parameters.ring().kind() == RingKind::ConjugateInvariant;
        let (mut entries, mut integers) = (Vec::with_capacity(rows * columns), Vec::with_capacity(rows * columns));
        for (row, output_scale) in output_scales.iter().enumerate() {
            for (column, scale) in input_scales.iter().enumerate() {
                let value = entry(row, column);
                let scaled = value * (output_scale / scale);
                let fits = |x: f64| x.is_finite() && x.abs() < 2f64.powi(120);
                if !fits(scaled.re) || !fits(scaled.im) || (real && value.im != 0.0) {
                    let index = row * columns + column;
                    let needed = "a finite number below 2^120 after scaling, real in the conjugate-invariant ring";
                    return Err(CkksError::Value { operation: OPERATION, index, needed });
                }
                entries.push(value);
                integers.push((scaled.re.round() as i128, scaled.im.round() as i128));
            }
        }
        let (ring, basis) = (parameters.ring(), parameters.basis(level));
        let at = |r: usize, c: usize| integers[r * columns + c];
        let packed = if integers.iter().all(|&(_, im)| im == 0) {
            ring.real_matrix(basis, rows, columns, |r, c| at(r, c).0)
        } else {
            ring.complex_matrix(basis, rows, columns, at)?
        };
        let (input_scales, output_scales) = (input_scales.to_vec(), output_scales.to_vec());
        Ok(PreparedMatrix { level, input_scales, output_scales, entries, packed })
    }

    /// The matrix of the absolute values.
    pub(crate) fn absolute(&self, parameters: &CkksParameters) -> Result<Self, CkksError> {
        let entry = |row, column| Complex64::from(self.entry(row, column).norm());
        PreparedMatrix::new(parameters, self.level, &self.input_scales, &self.output_scales, entry)
    }

    /// Numbers of rows and columns.
    pub fn shape(&self) -> (usize, usize) {
        (self.output_scales.len(), self.input_scales.len())
    }

    /// The level of its outputs. Inputs may be at a higher level.
    pub fn level(&self) -> usize {
        self.level
    }

    /// The scales of its outputs.
    pub fn output_scales(&self) -> &[f64] {
        &self.output_scales
    }

    /// Bytes it takes in memory.
    pub fn bytes(&self) -> usize {
        let scales = size_of_val(self.input_scales.as_slice()) + size_of_val(self.output_scales.as_slice());
        self.packed.bytes() + size_of_val(self.entries.as_slice()) + scales
    }

    /// The entry before rounding.
    pub(crate) fn entry(&self, row: usize, column: usize) -> Complex64 {
        self.entries[row * self.input_scales.len() + column]
    }

    /// The rounded entry divided by its scale factor: the factor that values are multiplied by.
    pub(crate) fn factor(&self, row: usize, column: usize) -> Complex64 {
        let factor = self.output_scales[row] / self.input_scales[column];
        let scaled = self.entry(row, column) * factor;
        Complex64::new(scaled.re.round(), scaled.im.round()) / factor
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
            crate::scale::check_scales(OPERATION, needed, scale)?;
        }
        Ok(())
    }

    pub(crate) fn multiply(&self, parameters: &CkksParameters, inputs: &[&Poly]) -> Result<Vec<Poly>, CkksError> {
        Ok(parameters.ring().matrix_product(&self.packed, inputs)?)
    }
}
