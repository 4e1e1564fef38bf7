//! Rows of a table that a client asks about.

use std::fmt;
use std::hint::black_box;

use zeroize::Zeroizing;

use crate::description::Input;
use crate::error::ModelError;
use crate::interface::names;

/// A row as it is encrypted. One that cannot be asked has slots of 0, and no answer: the service sees the same queries.
/// No branch and no address depends on the numbers of rows before their answer is read.
pub struct EncodedRow {
    /// Indices are numbers of which one is 1.
    pub(crate) numbers: Row,
    asked: Row,
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

    /// The numbers that are encrypted: those of the row, or the middles of all ranges if one is outside its calibrated
    /// range or missing. [`EncodedRow::problem`] says so afterwards.
    ///
    /// # Errors
    /// If the row has other inputs, or other numbers of elements: whatever its numbers are.
    pub(crate) fn encoded(&self, number: usize, inputs: &[Input]) -> Result<EncodedRow, ModelError> {
        if self.0.len() != inputs.len() {
            let needed = format!("{}: {}", inputs.len(), names(inputs.iter().map(|input| &input.shape)));
            return Err(ModelError::Row(format!("row {number}: found {} inputs, needed {needed}", self.0.len())));
        }
        for (input, values) in inputs.iter().zip(&self.0) {
            let of_row = |problem| ModelError::Row(format!("row {number}, {}", place(input, problem)));
            input.shape.check_count(values).map_err(of_row)?;
        }
        let (mut numbers, mut outside) = (Row::middle(inputs), 0);
        let own = inputs.iter().zip(&self.0).map(|(input, values)| {
            let (own, wrong) = encode(input, values);
            outside |= wrong;
            own
        });
        let own: Vec<Zeroizing<Vec<f64>>> = own.collect();
        // The compiler must not see that this is all zeros or all ones.
        let outside = black_box(outside);
        for (chosen, own) in
            numbers.0.iter_mut().flat_map(|numbers| numbers.iter_mut()).zip(own.iter().flat_map(|own| &**own))
        {
            *chosen = f64::from_bits(chosen.to_bits() & outside | own.to_bits() & !outside);
        }
        Ok(EncodedRow { numbers, asked: self.clone() })
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
    /// Why the row has no answer, if it has none: names input and element, and neither the row nor a number. It takes a
    /// time that depends on the numbers, so it is asked after the exchange.
    pub(crate) fn problem(&self, inputs: &[Input]) -> Option<String> {
        let wrong = |(input, values): (&Input, &Zeroizing<Vec<f64>>)| {
            check(input, values).err().map(|problem| place(input, problem))
        };
        inputs.iter().zip(&self.asked.0).find_map(wrong)
    }

    /// The numbers of one input of rows, row by row. Wiped, as rows are.
    pub(crate) fn numbers(rows: &[EncodedRow], input: usize) -> Zeroizing<Vec<f64>> {
        Zeroizing::new(rows.iter().map(|row| &**row.numbers.0[input]).collect::<Vec<_>>().concat())
    }
}

/// What is wrong in an input of a row, for people.
fn place(input: &Input, problem: String) -> String {
    format!("input {:?}: {problem}", input.shape.name)
}

/// The encrypted numbers of an input, and all ones if one of the row cannot be asked, or else zeros.
fn encode(input: &Input, values: &[f64]) -> (Zeroizing<Vec<f64>>, u64) {
    let ones = |is_set: bool| u64::from(is_set).wrapping_neg();
    let mut wrong = 0;
    let Some(rows) = input.shape.table_rows else {
        for (element, value) in values.iter().enumerate() {
            let [low, high] = input.range(element).unwrap_or([f64::NEG_INFINITY, f64::INFINITY]);
            // A number that is missing is neither.
            wrong |= !(ones(*value >= low) & ones(*value <= high));
        }
        return (Zeroizing::new(values.to_vec()), wrong);
    };
    let mut encoded = Zeroizing::new(Vec::with_capacity(values.len() * rows));
    for value in values {
        let mut found = 0;
        for row in 0..rows {
            let is_it = ones(*value == row as f64);
            encoded.push(f64::from_bits(1f64.to_bits() & is_it));
            found |= is_it;
        }
        wrong |= !found;
    }
    (encoded, wrong)
}

/// Why a row cannot be asked.
fn check(input: &Input, values: &[f64]) -> Result<(), String> {
    input.shape.encode(values)?;
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
    Ok(())
}
