//! Rows of a table that a client asks about.

use std::fmt;

use zeroize::Zeroizing;

use crate::description::Input;
use crate::error::ModelError;
use crate::interface::names;

/// A row as it is encrypted. One that cannot be asked has slots of 0, and no answer: the service sees the same queries.
pub struct EncodedRow {
    /// Indices are numbers of which one is 1.
    pub(crate) numbers: Row,
    /// Why the row has no answer. It does not say which row it is.
    pub(crate) problem: Option<String>,
}

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

    /// The numbers that are encrypted. A number outside its calibrated range, or none, is the problem of the row, which
    /// names input and element, and no number.
    ///
    /// # Errors
    /// If the row has other inputs, or other numbers of elements: whatever its numbers are.
    pub(crate) fn encoded(&self, number: usize, inputs: &[Input]) -> Result<EncodedRow, ModelError> {
        if self.0.len() != inputs.len() {
            let needed = format!("{}: {}", inputs.len(), names(inputs.iter().map(|input| &input.shape)));
            return Err(ModelError::Row(format!("row {number}: found {} inputs, needed {needed}", self.0.len())));
        }
        let place = |input: &Input, problem| format!("input {:?}: {problem}", input.shape.name);
        for (input, values) in inputs.iter().zip(&self.0) {
            let of_row = |problem| ModelError::Row(format!("row {number}, {}", place(input, problem)));
            input.shape.check_count(values).map_err(of_row)?;
        }
        let encoded = inputs.iter().zip(&self.0);
        let encoded = encoded.map(|(input, values)| encode(input, values).map_err(|problem| place(input, problem)));
        Ok(match encoded.collect() {
            Ok(numbers) => EncodedRow { numbers: Row(numbers), problem: None },
            Err(problem) => EncodedRow { numbers: Row::middle(inputs), problem: Some(problem) },
        })
    }

    /// The encrypted numbers whose slots are 0.
    fn middle(inputs: &[Input]) -> Self {
        Row::new(inputs.iter().map(|input| input.port.encoding().middle().to_vec()).collect())
    }

    /// The numbers of each input.
    pub fn inputs(&self) -> impl Iterator<Item = &[f64]> {
        self.0.iter().map(|numbers| numbers.as_slice())
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

impl EncodedRow {
    /// The numbers of one input of rows, row by row. Wiped, as rows are.
    pub(crate) fn numbers(rows: &[EncodedRow], input: usize) -> Zeroizing<Vec<f64>> {
        Zeroizing::new(rows.iter().map(|row| &**row.numbers.0[input]).collect::<Vec<_>>().concat())
    }
}

fn encode(input: &Input, values: &[f64]) -> Result<Zeroizing<Vec<f64>>, String> {
    let encoded = input.shape.encode(values)?;
    for (element, value) in values.iter().enumerate() {
        if value.is_nan() {
            return Err(format!("found no number in {}, needed one", input.shape.element(element)));
        }
        if let Some([low, high]) = input.range(element).filter(|[low, high]| !(low..=high).contains(&value)) {
            return Err(format!(
                "found a number outside in {}, needed {low:.6} to {high:.6}, the calibrated range",
                input.shape.element(element)
            ));
        }
    }
    Ok(encoded)
}
