//! Functions of each number.

use super::elementwise::{affine, constant_for, uniform};
use super::{Call, Data};
use crate::activation::Activation;
use crate::constant::Constant;
use crate::error::Refusal;
use crate::graph::Operation;

/// An activation without options.
pub(super) fn plain(call: &mut Call, activation: Activation) -> Result<Data, Refusal> {
    call.check_operands(1, 1)?;
    let data = call.number(0)?;
    call.compute(Operation::Activation(activation), &[&data], data.shape.clone())
}

/// `Neg`.
pub(super) fn negative(call: &mut Call) -> Result<Data, Refusal> {
    call.check_operands(1, 1)?;
    let data = call.number(0)?;
    affine(call, &data, uniform(-1.0, &data.shape), uniform(0.0, &data.shape))
}

/// An activation with options as attributes.
pub(super) fn with_options(call: &mut Call, op: &str) -> Result<Data, Refusal> {
    let option = |name: &str, default: f32| Ok(call.attributes.float(name)?.unwrap_or(default));
    let activation = match op {
        "LeakyRelu" => Activation::LeakyRelu { slope: option("alpha", 0.01)? },
        "Elu" => Activation::Elu { alpha: option("alpha", 1.0)? },
        "HardSigmoid" => Activation::HardSigmoid { alpha: option("alpha", 0.2)?, beta: option("beta", 0.5)? },
        _ => gelu(call)?,
    };
    plain(call, activation)
}

fn gelu(call: &Call) -> Result<Activation, Refusal> {
    match call.attributes.text("approximate")? {
        None | Some("none") => Ok(Activation::Gelu),
        Some("tanh") => Ok(Activation::GeluTanh),
        Some(other) => Err(Refusal::broken(format!("`approximate` of {other:?}"), "`none` or `tanh`")),
    }
}

/// `PRelu`, with a constant slope.
pub(super) fn prelu(call: &mut Call) -> Result<Data, Refusal> {
    call.check_operands(2, 2)?;
    let data = call.number(0)?;
    let slope = constant_for(call.constant(1)?, &data.shape)?;
    if super::broadcast(&data.shape, slope.shape())? != data.shape {
        let found = format!("slopes of shape {:?} for rows of shape {:?}", slope.shape(), data.shape);
        return Err(Refusal::broken(found, "slopes that broadcast to the rows"));
    }
    call.compute(Operation::Activation(Activation::PRelu { slope }), &[&data], data.shape.clone())
}

/// `Clip`, with its limits as attributes or operands.
pub(super) fn clip(call: &mut Call) -> Result<Data, Refusal> {
    call.check_operands(1, 3)?;
    let low = limit(call, "min", 1)?.unwrap_or(f32::NEG_INFINITY);
    let high = limit(call, "max", 2)?.unwrap_or(f32::INFINITY);
    between(call, low, high)
}

/// `Max` or `Min` of data and one number.
pub(super) fn extremum(call: &mut Call, greatest: bool) -> Result<Data, Refusal> {
    call.check_operands(2, 2)?;
    if matches!(call.operand(0), Some(super::Value::Constant(_))) {
        call.inputs.swap(0, 1);
    }
    let bound = call.constant(1)?.float()?;
    if greatest { between(call, bound, f32::INFINITY) } else { between(call, f32::NEG_INFINITY, bound) }
}

fn between(call: &mut Call, low: f32, high: f32) -> Result<Data, Refusal> {
    if low > high {
        let found = format!("limits {low} and {high}");
        return Err(Refusal::new(found, "a lower limit below the upper one", "swap the limits"));
    }
    let data = call.number(0)?;
    call.compute(Operation::Activation(Activation::Clip { low, high }), &[&data], data.shape.clone())
}

fn limit(call: &Call, name: &str, place: usize) -> Result<Option<f32>, Refusal> {
    match (call.attributes.float(name)?, call.optional_constant(place)?) {
        (Some(_), Some(_)) => Err(Refusal::broken(format!("`{name}` as an attribute and an operand"), "one of both")),
        (Some(limit), None) => Ok(Some(limit)),
        (None, limit) => limit.map(Constant::float).transpose(),
    }
}
