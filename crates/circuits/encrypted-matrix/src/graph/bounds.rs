//! Bounds of the values of a run, and the step that does not fit its modulus.

use ndarray::Array2;
use unspoken_ckks::{CkksParameters, Complex64, Magnitudes, SlotBounds};

use super::program::MatrixProgram;
use crate::encrypted::{EncryptedMatrix, decode_tiles, encode_tiles};
use crate::error::EncryptedMatrixError;

/// Bounds of the values of a run, for inputs with entries up to a given size.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueBounds {
    /// Bound of the absolute value of the result's entries.
    pub output: f64,
    /// The first step whose values may exceed their modulus, if there is one: its result would be meaningless.
    pub overflow: Option<StepOverflow>,
    /// The largest excess of all steps as a number of bits; 0 without an overflow.
    pub excess_bits: f64,
}

/// A step whose values may exceed their modulus.
#[derive(Clone, Debug, PartialEq)]
pub struct StepOverflow {
    /// Its line of [`MatrixProgram::explain`].
    pub step: String,
    /// Bound of the absolute value of its result's slots.
    pub largest: f64,
    /// The factor by which a value may exceed what fits, as a number of bits.
    pub excess_bits: f64,
    /// The level at which that happens.
    pub level: usize,
}

impl MatrixProgram {
    /// Bounds of the values of a run of `batch` matrices whose entries have absolute values up to `largest`. They hold
    /// for every step and every slot, without noise.
    ///
    /// # Errors
    /// If there are more matrices than the layout holds.
    pub fn bounds(
        &self,
        parameters: &CkksParameters,
        largest: f64,
        batch: usize,
    ) -> Result<ValueBounds, EncryptedMatrixError> {
        let magnitudes = Magnitudes::new(parameters);
        let input = |shape: &Option<(usize, usize)>| {
            let matrices = vec![Array2::from_elem(shape.unwrap_or((1, 1)), largest); batch];
            encode_tiles(self.layout(), &matrices)?.try_map(|slots| {
                let bounds: Vec<f64> = slots.iter().map(|slot: &Complex64| slot.re).collect();
                Ok::<_, EncryptedMatrixError>(magnitudes.input(&bounds, self.level(), parameters.scale()))
            })
        };
        let inputs = self.inputs.iter().map(input).collect::<Result<Vec<_>, _>>()?;
        let (mut first, mut most) = (None, 0.0);
        let output = self.run_observed(&magnitudes, &inputs, |step, result| {
            let Some(overflow) = magnitudes.take_overflow() else { return };
            let excess_bits = overflow.log2_coefficient - overflow.log2_modulus;
            // Not a number: values beyond the range of this arithmetic.
            most = if excess_bits.is_nan() { f64::INFINITY } else { excess_bits.max(most) };
            first.get_or_insert_with(|| {
                let (step, largest) = (self.lines[step].clone(), largest_slot(result));
                StepOverflow { step, largest, excess_bits, level: overflow.level }
            });
        })?;
        let slots = output.try_map(|tile| {
            Ok::<_, EncryptedMatrixError>(tile.slots().iter().map(|&bound| Complex64::from(bound)).collect::<Vec<_>>())
        })?;
        let entries = decode_tiles(&slots);
        let output = entries.iter().flatten().copied().fold(0.0, f64::max);
        Ok(ValueBounds { output, overflow: first, excess_bits: most })
    }
}

fn largest_slot(result: &EncryptedMatrix<SlotBounds>) -> f64 {
    result.tiles().iter().flat_map(|tile| tile.slots()).copied().fold(0.0, f64::max)
}
