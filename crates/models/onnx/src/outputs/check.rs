//! Whether a client can compute outputs that it does not trust: shapes are computed again from the results.

use std::collections::HashSet;

use crate::activation::Activation;
use crate::error::{OnnxError, Refusal, quoted};
use crate::finish::{Finish, FinishStep, Labels, Output, Source};
use crate::graph::{Operation, Tensor};
use crate::limits::{
    MAX_FINISH_NUMBERS, MAX_FINISH_ROW, MAX_FINISH_STEPS, MAX_NAME_BYTES, MAX_OUTPUTS, MAX_RANK, product,
};
use crate::lower::{Kind, broadcast, joined, kind_name, reduced};
use crate::read::finite;

/// What is known of a value.
#[derive(Clone)]
struct Value {
    shape: Vec<usize>,
    kind: Kind,
    /// The size of an element at most, in numbers of 32 bits.
    width: usize,
}

impl Value {
    fn numbers(shape: &[usize]) -> Value {
        Value { shape: shape.to_vec(), kind: Kind::Number, width: 1 }
    }
}

/// Outputs while they are checked.
struct Checker {
    results: Vec<Value>,
    /// Numbers that may still be read and written.
    left: usize,
}

/// Checks outputs of a network whose results have rows of these shapes.
///
/// # Errors
/// Names the first output and step that does not fit.
pub(super) fn check(outputs: &[Output], result_shapes: &[Vec<usize>]) -> Result<(), OnnxError> {
    check_counts(outputs).map_err(|refusal| refusal.of_outputs("the list of outputs"))?;
    let mut checker = Checker { results: Vec::new(), left: MAX_FINISH_NUMBERS };
    for (place, shape) in result_shapes.iter().enumerate() {
        let checked = check_shape(shape).and_then(|()| checker.count(&Value::numbers(shape)));
        checked.map_err(|refusal| refusal.of_outputs(format!("result {place}")))?;
        checker.results.push(Value::numbers(shape));
    }
    outputs.iter().try_for_each(|output| checker.check_output(output))
}

fn check_counts(outputs: &[Output]) -> Result<(), Refusal> {
    if !(1..=MAX_OUTPUTS).contains(&outputs.len()) {
        return Err(Refusal::broken(format!("{} outputs", outputs.len()), format!("1 to {MAX_OUTPUTS}")));
    }
    let steps: usize = outputs.iter().map(|output| output.steps.len()).sum();
    if steps > MAX_FINISH_STEPS {
        return Err(Refusal::broken(format!("{steps} steps"), format!("at most {MAX_FINISH_STEPS}")));
    }
    for (place, Output { name, .. }) in outputs.iter().enumerate() {
        check_text("a name", name)?;
        if outputs[..place].iter().any(|other| other.name == *name) {
            return Err(Refusal::broken(format!("two outputs {}", quoted(name)), "distinct names"));
        }
    }
    Ok(())
}

impl Checker {
    fn check_output(&mut self, output: &Output) -> Result<(), OnnxError> {
        let place = format!("output {}", quoted(&output.name));
        let mut values = Vec::new();
        for (number, step) in output.steps.iter().enumerate() {
            let value = self.check_step(step, &values);
            values.push(value.map_err(|refusal| refusal.of_outputs(format!("{place}, step {number}")))?);
        }
        let value = self.find(output.source, &values).and_then(|value| {
            self.count(&value)?;
            same_shape(&output.shape, &value.shape)
        });
        value.map_err(|refusal| refusal.of_outputs(place))
    }

    /// The value of a step, for the values of the steps before it.
    fn check_step(&mut self, step: &FinishStep, values: &[Value]) -> Result<Value, Refusal> {
        check_shape(&step.shape)?;
        let find = |&source: &Source| self.find(source, values);
        let operands = step.inputs.iter().map(find).collect::<Result<Vec<_>, _>>()?;
        check_operands(&step.finish, &operands)?;
        let value = value_of(step, &operands)?;
        same_shape(&step.shape, &value.shape)?;
        operands.iter().chain([&value]).try_for_each(|value| self.count(value))?;
        Ok(value)
    }

    fn find(&self, source: Source, values: &[Value]) -> Result<Value, Refusal> {
        let (value, found, count) = match source {
            Source::Result(place) => (self.results.get(place), format!("result {place}"), self.results.len()),
            Source::Step(place) => (values.get(place), format!("the value of step {place}"), values.len()),
        };
        value.cloned().ok_or_else(|| Refusal::broken(found, format!("one of the {count} before")))
    }

    /// Counts a value that is read or written.
    fn count(&mut self, value: &Value) -> Result<(), Refusal> {
        let size = numbers_of(&value.shape).saturating_mul(value.width);
        self.left = self.left.checked_sub(size).ok_or_else(|| {
            let needed = format!("at most {MAX_FINISH_NUMBERS} in results and steps together");
            Refusal::broken("too many numbers", needed)
        })?;
        Ok(())
    }
}

/// Checks the number of operands and what they hold.
fn check_operands(finish: &Finish, operands: &[Value]) -> Result<(), Refusal> {
    let (least, most) = match finish {
        Finish::Where => (3, 3),
        Finish::Compute(operation) => match **operation {
            Operation::Add | Operation::Sub | Operation::Mul => (2, 2),
            Operation::Concat { .. } => (1, usize::MAX),
            _ => (1, 1),
        },
        _ => (1, 1),
    };
    if !(least..=most).contains(&operands.len()) {
        return Err(Refusal::broken(format!("{} operands", operands.len()), format!("{least}")));
    }
    let (fits, needed): (fn(Kind) -> bool, _) = match finish {
        Finish::Compute(operation) if matches!(**operation, Operation::Reshape) => {
            (|kind| kind != Kind::Scores, "numbers or labels")
        }
        Finish::Number | Finish::Label(_) => (|kind| kind == Kind::Integer, "integers"),
        _ => (|kind| kind == Kind::Number, "numbers"),
    };
    match operands.iter().find(|operand| !fits(operand.kind)) {
        Some(operand) => Err(Refusal::broken(kind_name(operand.kind), needed)),
        None => Ok(()),
    }
}

/// The value of a step with at least one operand.
fn value_of(step: &FinishStep, operands: &[Value]) -> Result<Value, Refusal> {
    let x = &operands[0];
    let shape = match &step.finish {
        Finish::Compute(operation) => shape_of(operation, operands, &step.shape)?,
        Finish::Softmax { axis } | Finish::LogSoftmax { axis } => same_axes(x, *axis)?,
        Finish::Normalize(_) => same_axes(x, 0)?,
        Finish::ArgMax { axis, keep, .. } => reduced(&same_axes(x, *axis)?, &[*axis], *keep),
        Finish::Where => alike(operands)?,
        Finish::Votes { classes } => check_votes(x, *classes)?,
        Finish::Compare { threshold, .. } => {
            check_finite(&[*threshold])?;
            x.shape.clone()
        }
        Finish::Label(labels) | Finish::Scores(labels) => check_labels(&step.finish, labels, x)?,
        Finish::Not | Finish::Truth | Finish::Integer | Finish::Number => x.shape.clone(),
    };
    let (kind, width) = match &step.finish {
        Finish::Compute(operation) if matches!(**operation, Operation::Reshape) => (x.kind, x.width),
        Finish::ArgMax { .. } | Finish::Votes { .. } | Finish::Integer | Finish::Label(Labels::Integers(_)) => {
            (Kind::Integer, size_of::<i64>() / size_of::<f32>())
        }
        Finish::Label(Labels::Texts(texts)) => {
            let longest = texts.iter().map(String::len).max().unwrap_or_default();
            (Kind::Text, (size_of::<String>() + longest).div_ceil(size_of::<f32>()))
        }
        Finish::Scores(_) => (Kind::Scores, 1),
        _ => (Kind::Number, 1),
    };
    Ok(Value { shape, kind, width })
}

/// The shape of what an operation computes.
fn shape_of(operation: &Operation, operands: &[Value], target: &[usize]) -> Result<Vec<usize>, Refusal> {
    let shapes: Vec<&[usize]> = operands.iter().map(|operand| &operand.shape[..]).collect();
    match (operation, &shapes[..]) {
        (Operation::Affine { scale, shift }, &[x]) => {
            check_constant(scale)?;
            check_constant(shift)?;
            broadcast(&broadcast(x, scale.shape())?, shift.shape())
        }
        (Operation::Add | Operation::Sub | Operation::Mul, &[x, y]) => broadcast(x, y),
        (Operation::Activation(activation), &[x]) => {
            check_activation(activation, x)?;
            Ok(x.to_vec())
        }
        (Operation::Concat { axis }, shapes) => joined(shapes, *axis),
        (Operation::Reshape, &[x]) if numbers_of(x) == numbers_of(target) => Ok(target.to_vec()),
        (Operation::Select { axis, places }, &[x]) => selected(x, *axis, places),
        (Operation::Reduce { axes, keep, .. }, &[x]) if ascend(axes, x.len()) => Ok(reduced(x, axes, *keep)),
        _ => {
            let needed = "axes, sizes and operations that clients compute with";
            Err(Refusal::broken(format!("rows of shapes {:?}", &shapes[..shapes.len().min(MAX_RANK)]), needed))
        }
    }
}

fn numbers_of(shape: &[usize]) -> usize {
    shape.iter().product()
}

/// Whether these are axes of rows of this rank, each once, in order.
fn ascend(axes: &[usize], rank: usize) -> bool {
    !axes.is_empty() && axes.is_sorted_by(|left, right| left < right) && axes.iter().all(|&axis| axis < rank)
}

fn selected(row: &[usize], axis: usize, places: &[usize]) -> Result<Vec<usize>, Refusal> {
    let fits = |&&size: &&usize| !places.is_empty() && places.iter().all(|&place| place < size);
    if row.get(axis).filter(fits).is_none() {
        let needed = format!("one place or more of an axis of rows of shape {row:?}");
        return Err(Refusal::broken(format!("{} places of axis {axis}", places.len()), needed));
    }
    let mut shape = row.to_vec();
    shape[axis] = places.len();
    Ok(shape)
}

/// The shape of a value, which has this axis.
fn same_axes(x: &Value, axis: usize) -> Result<Vec<usize>, Refusal> {
    if axis < x.shape.len() {
        return Ok(x.shape.clone());
    }
    Err(Refusal::broken(format!("axis {axis}"), format!("an axis of rows of shape {:?}", x.shape)))
}

/// The shape that all operands have.
fn alike(operands: &[Value]) -> Result<Vec<usize>, Refusal> {
    let first = &operands[0].shape;
    operands.iter().try_for_each(|operand| same_shape(&operand.shape, first))?;
    Ok(first.clone())
}

fn check_votes(x: &Value, classes: usize) -> Result<Vec<usize>, Refusal> {
    let pairs = classes.checked_sub(1).and_then(|others| Some(classes.checked_mul(others)? / 2));
    match (&x.shape[..], pairs) {
        (&[size], Some(pairs)) if size == pairs => Ok(Vec::new()),
        _ => {
            let found = format!("rows of shape {:?}", x.shape);
            Err(Refusal::broken(found, format!("a number for each pair of {classes} classes")))
        }
    }
}

/// The shape of integers with labels, or of a score for each label.
fn check_labels(finish: &Finish, labels: &Labels, x: &Value) -> Result<Vec<usize>, Refusal> {
    if let Labels::Texts(texts) = labels {
        texts.iter().try_for_each(|text| check_text("a label", text))?;
    }
    if matches!(finish, Finish::Scores(_)) {
        let different = match labels {
            Labels::Texts(texts) => texts.iter().collect::<HashSet<_>>().len(),
            Labels::Integers(numbers) => numbers.iter().collect::<HashSet<_>>().len(),
        };
        if different != labels.len() {
            let found = format!("{different} different labels of {}", labels.len());
            return Err(Refusal::broken(found, "a label of its own for each score"));
        }
    }
    let fits = match finish {
        Finish::Scores(_) => x.shape == [labels.len()],
        _ => !labels.is_empty(),
    };
    if fits {
        return Ok(x.shape.clone());
    }
    let found = format!("{} labels for rows of shape {:?}", labels.len(), x.shape);
    Err(Refusal::broken(found, "labels, and one for each score"))
}

fn check_activation(activation: &Activation, row: &[usize]) -> Result<(), Refusal> {
    match activation {
        Activation::LeakyRelu { slope: number }
        | Activation::Elu { alpha: number }
        | Activation::Power { exponent: number } => check_finite(&[*number]),
        Activation::HardSigmoid { alpha, beta } => check_finite(&[*alpha, *beta]),
        Activation::Clip { low, high } if low > high => {
            Err(Refusal::broken(format!("limits {low} and {high}"), "a lower limit below the upper one"))
        }
        Activation::PRelu { slope } => {
            check_constant(slope)?;
            same_shape(&broadcast(row, slope.shape())?, row)
        }
        _ => Ok(()),
    }
}

/// Checks that a constant has few axes and finite numbers, at least one.
fn check_constant(constant: &Tensor) -> Result<(), Refusal> {
    check_shape(constant.shape())?;
    finite(constant.clone()).map(|_| ())
}

fn check_finite(numbers: &[f32]) -> Result<(), Refusal> {
    match numbers.iter().find(|number| !number.is_finite()) {
        Some(number) => Err(Refusal::broken(format!("{number}"), "finite numbers")),
        None => Ok(()),
    }
}

/// Checks that a shape has few axes, and neither no elements nor too many.
fn check_shape(shape: &[usize]) -> Result<(), Refusal> {
    match product(shape, MAX_FINISH_ROW)? {
        0 => Err(Refusal::broken(format!("the shape {shape:?}"), "axes of one element or more")),
        _ => Ok(()),
    }
}

fn same_shape(found: &[usize], needed: &[usize]) -> Result<(), Refusal> {
    if found == needed {
        return Ok(());
    }
    let found = &found[..found.len().min(MAX_RANK + 1)];
    Err(Refusal::broken(format!("the shape {found:?}"), format!("{needed:?}, which the operands give")))
}

/// Checks a name or a label, which commands print.
fn check_text(what: &str, text: &str) -> Result<(), Refusal> {
    if text.chars().any(char::is_control) {
        return Err(Refusal::broken(format!("{what} with a control character"), "printable text"));
    }
    if text.len() <= MAX_NAME_BYTES {
        return Ok(());
    }
    Err(Refusal::broken(format!("{what} of {} bytes", text.len()), format!("at most {MAX_NAME_BYTES}")))
}
