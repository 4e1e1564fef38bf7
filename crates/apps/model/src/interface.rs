//! What a model takes and gives, as its clients see it.

use std::collections::HashSet;

use ndarray::{Array2, ArrayView2};
use serde::{Deserialize, Serialize};
use unspoken_onnx::{InputKind, Outputs};
use unspoken_protocol::ProtocolError;
use zeroize::Zeroizing;

use crate::error::ModelError;

/// Bytes of the name of an input or of an element, at most.
pub(crate) const MAX_NAME: usize = 256;

/// Bytes of the names of all elements of an input, at most.
const MAX_NAMES: usize = 1 << 20;

/// The inputs of a model, its encrypted results, and what clients compute from them.
#[derive(Clone, Debug)]
pub struct Interface {
    /// The inputs.
    pub inputs: Vec<InputShape>,
    /// What clients compute from the results, with the shapes of these.
    pub outputs: Outputs,
}

/// An input of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputShape {
    /// Its name.
    pub name: String,
    /// The shape of a row.
    pub shape: Vec<usize>,
    /// Rows of the table that it points into, if it has indices.
    pub table_rows: Option<usize>,
    /// A name for each number of a row, such as those of the columns of a table; or none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub elements: Vec<String>,
}

impl Interface {
    /// The interface of an ONNX model.
    ///
    /// # Errors
    /// If a client could not read it: a name is too long, a table has too many rows, or there are too many outputs.
    pub fn of(model: &unspoken_onnx::Network) -> Result<Self, ModelError> {
        let input = |(place, input): (usize, &unspoken_onnx::Input)| {
            let rows = || unspoken_network::table_rows(model, place);
            let table_rows = (input.kind == InputKind::Index).then(rows).transpose()?;
            let (name, shape) = (input.name.clone(), input.shape.clone());
            if name.len() > MAX_NAME {
                let found = format!("an input with a name of {} bytes", name.len());
                let needed = format!("at most {MAX_NAME} bytes; rename it");
                return Err(ProtocolError::mismatch("compile", found, needed).into());
            }
            Ok(InputShape { name, shape, table_rows, elements: Vec::new() })
        };
        let inputs = model.inputs().iter().enumerate().map(input).collect::<Result<_, ModelError>>()?;
        let outputs = Outputs::of(model);
        // As clients will read them.
        let outputs = Outputs::from_bytes(&outputs.to_bytes(), outputs.result_shapes())?;
        Ok(Interface { inputs, outputs })
    }

    /// Tables with a number for each encrypted one: an index becomes numbers of which one is 1.
    ///
    /// # Errors
    /// If the tables do not fit, or an index is not below the rows of its table.
    pub fn encoded(&self, tables: &[ArrayView2<'_, f64>]) -> Result<Vec<Array2<f64>>, ModelError> {
        if tables.len() != self.inputs.len() {
            let needed = format!("{}: {}", self.inputs.len(), names(self.inputs.iter()));
            return Err(ModelError::Row(format!("found {} tables, needed {needed}", tables.len())));
        }
        self.inputs.iter().zip(tables).map(|(input, table)| input.encoded(table)).collect()
    }
}

/// Names and shapes of inputs, for messages.
pub(crate) fn names<'a>(inputs: impl Iterator<Item = &'a InputShape>) -> String {
    inputs.map(|input| format!("{:?} {:?}", input.name, input.shape)).collect::<Vec<_>>().join(", ")
}

impl InputShape {
    /// Numbers of a row.
    pub fn size(&self) -> usize {
        self.shape.iter().product()
    }

    /// Numbers that are encrypted for a row.
    pub fn encoded_size(&self) -> usize {
        self.size() * self.table_rows.unwrap_or(1)
    }

    /// An element of a row, for messages: its number, and its name if it has one.
    pub(crate) fn element(&self, number: usize) -> String {
        let name = self.elements.get(number).map(|name| format!(" ({name:?})")).unwrap_or_default();
        format!("element {number}{name}")
    }

    /// Checks names of elements, which come from columns of a table or from a service: none, or one for each element,
    /// all different, short, and without control characters.
    ///
    /// # Errors
    /// Says which of these does not hold.
    pub fn check_elements(&self) -> Result<(), ModelError> {
        let (names, count) = (&self.elements, self.size());
        let is_name =
            |name: &String| name.len() <= MAX_NAME && !name.trim().is_empty() && !name.chars().any(char::is_control);
        let different: HashSet<&str> = names.iter().map(String::as_str).collect();
        let found = if names.is_empty() {
            return Ok(());
        } else if names.len() != count {
            format!("{} names", names.len())
        } else if names.iter().map(String::len).sum::<usize>() > MAX_NAMES {
            format!("names of more than {MAX_NAMES} bytes")
        } else if let Some(place) = names.iter().position(|name| !is_name(name)) {
            format!("no such name for element {place}")
        } else if different.len() < names.len() {
            "the same name twice".to_owned()
        } else {
            return Ok(());
        };
        let needed = format!(
            "none, or {count} different names of 1 to {MAX_NAME} bytes without control characters, of {MAX_NAMES} \
             bytes together"
        );
        Err(ModelError::Row(format!("input {:?}: names of elements: found {found}, needed {needed}", self.name)))
    }

    /// A table with a number for each encrypted one.
    fn encoded(&self, table: &ArrayView2<'_, f64>) -> Result<Array2<f64>, ModelError> {
        let mut numbers = Vec::with_capacity(table.nrows() * self.encoded_size());
        for (number, row) in table.rows().into_iter().enumerate() {
            let row = row.to_vec();
            let encoded = self.check_count(&row).and_then(|()| self.encode(&row));
            let wrong = |problem| ModelError::Row(format!("row {number}, input {:?}: {problem}", self.name));
            numbers.extend_from_slice(&encoded.map_err(wrong)?);
        }
        let shape = (table.nrows(), self.encoded_size());
        Array2::from_shape_vec(shape, numbers).map_err(|error| ModelError::Row(error.to_string()))
    }

    /// The error says how many numbers of a row there are, and how many are needed.
    pub(crate) fn check_count(&self, row: &[f64]) -> Result<(), String> {
        let (found, needed, shape) = (row.len(), self.size(), &self.shape);
        if found != needed {
            return Err(format!("found {found} numbers, needed {needed} for the shape {shape:?}"));
        }
        Ok(())
    }

    /// The encrypted numbers of a row: indices become numbers of which one is 1. The error is what is wrong with it.
    pub(crate) fn encode(&self, row: &[f64]) -> Result<Zeroizing<Vec<f64>>, String> {
        let Some(rows) = self.table_rows else { return Ok(Zeroizing::new(row.to_vec())) };
        let mut encoded = Zeroizing::new(vec![0.0; self.encoded_size()]);
        for (element, value) in row.iter().enumerate() {
            if value.fract() != 0.0 || !(0.0..rows as f64).contains(value) {
                let last = rows.saturating_sub(1);
                let element = self.element(element);
                return Err(format!("found another number in {element}, needed a whole number from 0 to {last}"));
            }
            encoded[element * rows + *value as usize] = 1.0;
        }
        Ok(encoded)
    }
}
