//! One node with its operands.

use super::{Data, Kind, State, Step, Value, Work};
use crate::constant::Constant;
use crate::error::Refusal;
use crate::finish::Finish;
use crate::graph::{Operation, Tensor};
use crate::limits::{MAX_FOLDED_BYTES, MAX_ROW, product};
use crate::proto::NodeProto;
use crate::read::Attributes;

/// A node that is being read.
pub(crate) struct Call<'a> {
    pub node: &'a NodeProto,
    pub attributes: Attributes<'a>,
    /// The operands; none where one is left out.
    pub inputs: Vec<Option<Value>>,
    /// The place of the output that is being computed.
    pub output: usize,
    pub state: &'a mut State,
}

impl Call<'_> {
    /// Checks the number of operands, of which the first `least` must not be left out.
    ///
    /// # Errors
    /// If there are fewer or more operands.
    pub fn check_operands(&self, least: usize, most: usize) -> Result<(), Refusal> {
        let given = self.inputs.iter().take(least).flatten().count();
        if given == least && self.inputs.len() <= most {
            return Ok(());
        }
        let found = format!("{} operands", self.inputs.len());
        Err(Refusal::broken(found, format!("{least} to {most}")))
    }

    /// An operand, if it is not left out.
    pub fn operand(&self, place: usize) -> Option<&Value> {
        self.inputs.get(place)?.as_ref()
    }

    /// An operand that depends on the inputs.
    ///
    /// # Errors
    /// If it is a constant.
    pub fn data(&self, place: usize) -> Result<Data, Refusal> {
        match self.operand(place) {
            Some(Value::Data(data)) => Ok(data.clone()),
            Some(Value::Constant(constant)) => {
                let found = format!("{} as operand {place}", constant.name());
                let needed = "a value that depends on the inputs";
                Err(Refusal::new(found, needed, "compute it before the export, or swap the operands"))
            }
            None => Err(Refusal::broken(format!("no operand {place}"), "this operand")),
        }
    }

    /// An operand that depends on the inputs and holds numbers.
    ///
    /// # Errors
    /// If it is a constant or holds something else.
    pub fn number(&self, place: usize) -> Result<Data, Refusal> {
        let data = self.data(place)?;
        if data.kind == Kind::Number {
            return Ok(data);
        }
        let found = format!("{} as operand {place}", kind_name(data.kind));
        Err(Refusal::new(found, "numbers", "export with inputs of float32, and labels only at the end"))
    }

    /// A constant operand, if it is not left out.
    ///
    /// # Errors
    /// If it depends on the inputs.
    pub fn optional_constant(&self, place: usize) -> Result<Option<Constant>, Refusal> {
        match self.operand(place) {
            Some(Value::Constant(constant)) => Ok(Some(constant.clone())),
            Some(Value::Data(_)) => {
                let found = format!("operand {place} that depends on the inputs");
                let remedy = "use weights, shapes and options that are known before, and export for inference";
                Err(Refusal::new(found, "a constant", remedy))
            }
            None => Ok(None),
        }
    }

    /// A constant operand.
    ///
    /// # Errors
    /// If it depends on the inputs, or is left out.
    pub fn constant(&self, place: usize) -> Result<Constant, Refusal> {
        let missing = || Refusal::broken(format!("no operand {place}"), "this operand");
        self.optional_constant(place)?.ok_or_else(missing)
    }

    /// A constant operand of numbers with this shape.
    ///
    /// # Errors
    /// If it is something else.
    pub fn weights(&self, place: usize, shape: &[usize]) -> Result<Tensor, Refusal> {
        let weights = self.constant(place)?.floats()?;
        if weights.shape() == shape {
            return Ok(weights);
        }
        Err(Refusal::broken(format!("operand {place} of shape {:?}", weights.shape()), format!("shape {shape:?}")))
    }

    /// Integers that older operator sets have as an attribute and newer ones as an operand.
    ///
    /// # Errors
    /// If both are there, or they are no constant integers.
    pub fn ints(&self, attribute: &str, place: usize) -> Result<Option<Vec<i64>>, Refusal> {
        match (self.attributes.ints(attribute)?, self.optional_constant(place)?) {
            (Some(_), Some(_)) => {
                let found = format!("`{attribute}` as an attribute and as an operand");
                Err(Refusal::broken(found, "one of both"))
            }
            (Some(ints), None) => Ok(Some(ints.to_vec())),
            (None, Some(constant)) => constant.ints().map(Some),
            (None, None) => Ok(None),
        }
    }

    /// An attribute that is 0 or 1.
    ///
    /// # Errors
    /// If it is something else.
    pub fn flag(&self, name: &str, default: bool) -> Result<bool, Refusal> {
        match self.attributes.int(name)? {
            None => Ok(default),
            Some(value @ 0..=1) => Ok(value == 1),
            Some(value) => Err(Refusal::broken(format!("`{name}` of {value}"), "0 or 1")),
        }
    }

    /// Checks that an attribute is left out or has its usual value.
    ///
    /// # Errors
    /// If it has another one.
    pub fn require(&self, name: &str, value: i64) -> Result<(), Refusal> {
        match self.attributes.int(name)?.filter(|&found| found != value) {
            None => Ok(()),
            Some(found) => {
                let needed = format!("`{name}` of {value}");
                Err(Refusal::new(format!("`{name}` of {found}"), needed, "export without this option"))
            }
        }
    }

    /// Adds an operation and returns its value.
    ///
    /// # Errors
    /// If a row of the value would be too large.
    pub fn compute(&mut self, operation: Operation, inputs: &[&Data], shape: Vec<usize>) -> Result<Data, Refusal> {
        self.push(Work::Compute(Box::new(operation)), inputs, shape, Kind::Number)
    }

    /// Adds a step that only a client computes, and returns its value.
    ///
    /// # Errors
    /// If a row of the value would be too large.
    pub fn finish(&mut self, finish: Finish, of: &[&Data], shape: Vec<usize>, kind: Kind) -> Result<Data, Refusal> {
        self.push(Work::Finish(finish), of, shape, kind)
    }

    /// The same elements in another shape.
    ///
    /// # Errors
    /// As for [`Call::compute`].
    pub fn reshaped(&mut self, data: Data, shape: Vec<usize>) -> Result<Data, Refusal> {
        if data.shape == shape {
            return Ok(data);
        }
        if data.kind == Kind::Index || data.kind == Kind::Scores {
            let found = format!("another shape of {}", kind_name(data.kind));
            return Err(Refusal::new(found, "another shape of numbers or labels", "reshape the inputs before"));
        }
        self.push(Work::Compute(Box::new(Operation::Reshape)), &[&data], shape, data.kind)
    }

    fn push(&mut self, work: Work, inputs: &[&Data], shape: Vec<usize>, kind: Kind) -> Result<Data, Refusal> {
        product(&shape, MAX_ROW)?;
        let id = self.state.inputs.len() + self.state.steps.len();
        self.state.steps.push(Step {
            name: self.node.name.clone(),
            op: self.node.op_type.clone(),
            output: self.node.output.get(self.output).cloned().unwrap_or_default(),
            work,
            inputs: inputs.iter().map(|data| data.id).collect(),
            shape: shape.clone(),
        });
        Ok(Data { id, shape, kind })
    }

    /// Counts the bytes of a constant that is about to be computed, of elements with this many bytes.
    ///
    /// # Errors
    /// If it is too large, or all together are.
    pub fn count_folded(&mut self, shape: &[usize], width: usize) -> Result<(), Refusal> {
        let bytes = product(shape, MAX_FOLDED_BYTES / width)? * width;
        self.state.folded += bytes;
        if self.state.folded <= MAX_FOLDED_BYTES {
            return Ok(());
        }
        let found = format!("{} bytes of constants that are computed from constants", self.state.folded);
        Err(Refusal::new(found, format!("at most {MAX_FOLDED_BYTES}"), "export with `do_constant_folding=True`"))
    }
}

/// How messages call a value.
pub(crate) fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Number => "numbers",
        Kind::Index => "integers of an input",
        Kind::Truth => "truth values",
        Kind::Integer => "integers",
        Kind::Text => "texts",
        Kind::Scores => "numbers with labels",
    }
}

/// An axis counted from the front, batch axis included.
///
/// # Errors
/// If there is no such axis.
pub(crate) fn axis_of(axis: i64, rank: usize) -> Result<usize, Refusal> {
    let from_front = if axis < 0 { axis.checked_add(rank as i64) } else { Some(axis) };
    let found = from_front.and_then(|axis| usize::try_from(axis).ok()).filter(|&axis| axis < rank);
    found.ok_or_else(|| Refusal::broken(format!("axis {axis}"), format!("an axis of a tensor with {rank} axes")))
}

/// An axis of a row, for data with this shape of a row.
///
/// # Errors
/// If there is no such axis, or it is the batch axis.
pub(crate) fn row_axis(axis: i64, row: &[usize]) -> Result<usize, Refusal> {
    axis_of(axis, row.len() + 1)?.checked_sub(1).ok_or_else(mixes_rows)
}

/// The refusal of what mixes the rows of a batch.
pub(crate) fn mixes_rows() -> Refusal {
    let remedy = "compute each row of the batch alone, and keep the batch axis in front";
    Refusal::new("an operation on the batch axis", "operations that do not mix the rows of a batch", remedy)
}
