//! Rows of a table that a client asks about.

use std::fmt;

use zeroize::Zeroizing;

use crate::description::Input;
use crate::error::ModelError;
use crate::interface::names;

/// A row: for each input its numbers, flattened in row-major order. An index is a whole number. Wiped when dropped.
#[derive(Clone)]
pub struct Row(pub(crate) Vec<Zeroizing<Vec<f64>>>);

/// Does not print numbers.
impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Row({} inputs)", self.0.len())
    }
}

impl Row {
    /// A row with these numbers for each input, in the order of [`Description::inputs`](crate::Description::inputs).
    pub fn new(inputs: Vec<Vec<f64>>) -> Self {
        Row(inputs.into_iter().map(Zeroizing::new).collect())
    }

    /// The numbers that are encrypted: indices as numbers of which one is 1.
    ///
    /// # Errors
    /// If the row has other inputs, or a number is outside the calibrated range. The message names row, input and
    /// element, and no number of the row.
    pub(crate) fn encoded(&self, number: usize, inputs: &[Input]) -> Result<Self, ModelError> {
        if self.0.len() != inputs.len() {
            let needed = format!("{}: {}", inputs.len(), names(inputs.iter().map(|input| &input.shape)));
            return Err(ModelError::Row(format!("row {number}: found {} inputs, needed {needed}", self.0.len())));
        }
        let encoded = inputs.iter().zip(&self.0).map(|(input, values)| {
            let encoded = encode(input, values);
            encoded.map_err(|problem| ModelError::Row(format!("row {number}, input {:?}: {problem}", input.shape.name)))
        });
        Ok(Row(encoded.collect::<Result<_, _>>()?))
    }

    /// The numbers of one input of rows, row by row. Wiped, as rows are.
    pub(crate) fn numbers(rows: &[Row], input: usize) -> Zeroizing<Vec<f64>> {
        Zeroizing::new(rows.iter().map(|row| &**row.0[input]).collect::<Vec<_>>().concat())
    }

    /// The row with numbers moved into the calibrated ranges, and how many were moved.
    pub fn clipped(mut self, inputs: &[Input]) -> (Self, usize) {
        let mut moved = 0;
        for (input, values) in inputs.iter().zip(&mut self.0) {
            for (element, value) in values.iter_mut().enumerate() {
                if let Some([low, high]) = input.range(element) {
                    let inside = value.clamp(low, high);
                    moved += usize::from(inside != *value && !value.is_nan());
                    *value = inside;
                }
            }
        }
        (self, moved)
    }
}

fn encode(input: &Input, values: &[f64]) -> Result<Zeroizing<Vec<f64>>, String> {
    let encoded = input.shape.encode(values)?;
    for (element, value) in values.iter().enumerate() {
        if let Some([low, high]) = input.range(element).filter(|[low, high]| !(low..=high).contains(&value)) {
            return Err(format!(
                "found a number outside in {}, needed {low:.6} to {high:.6}, the calibrated range; clip rows into it, \
                 or let the owner calibrate with more rows",
                input.shape.element(element)
            ));
        }
    }
    Ok(encoded)
}
