//! Activations and normalisations that exporters write as several nodes.

use ndarray::{ArcArray, IxDyn};

use super::{Change, Fusion};
use crate::activation::{Activation, GELU_CUBIC, SQRT_2_OVER_PI};
use crate::finish::{Comparison, Finish};
use crate::graph::{LayerNorm, Operation};
use crate::lower::Work;

/// How far constants of exporters are from the exact ones, relative.
const TOLERANCE: f64 = 1e-6;

/// The change of a step, if it is the last of a composition.
pub(super) fn change(fusion: &mut Fusion, place: usize) -> Option<Change> {
    let fusion = &*fusion;
    if let Work::Finish(Finish::Where) = &fusion.steps[place].work {
        return softplus(fusion, &fusion.steps[place].inputs);
    }
    let value = fusion.inputs + place;
    let (operation, inputs) = fusion.operation(value)?;
    match (operation, inputs) {
        (Operation::Mul, &[left, right]) if left == right => Some(activation(power(2.0), left)),
        (Operation::Mul, &[left, right]) => product(fusion, left, right).or_else(|| product(fusion, right, left)),
        (Operation::Affine { .. }, &[inner]) => {
            let (scale, shift) = uniform(fusion, value)?;
            let (x, gelu, factor) = gelu_product(fusion, inner)?;
            (shift == 0.0 && near(factor * scale, 1.0)).then(|| activation(gelu, x))
        }
        (Operation::Activation(Activation::Reciprocal), &[inner]) => sigmoid(fusion, inner),
        _ => None,
    }
}

/// A product of two values, in this order.
fn product(fusion: &Fusion, left: usize, right: usize) -> Option<Change> {
    if let Some((x, gelu, factor)) = gelu_of(fusion, left, right) {
        return near(factor, 1.0).then(|| activation(gelu, x));
    }
    if let Some(change) = layer_norm(fusion, left, right) {
        return Some(change);
    }
    let (inner, operand) = function(fusion, right)?;
    let fused = match inner {
        Activation::Sigmoid if operand == left => Activation::Silu,
        Activation::HardSigmoid { alpha, beta }
            if operand == left && near((*alpha).into(), 1.0 / 6.0) && *beta == 0.5 =>
        {
            Activation::HardSwish
        }
        Activation::Power { exponent: 2.0 } if operand == left => power(3.0),
        Activation::Tanh => match function(fusion, operand)? {
            (Activation::Softplus, x) if x == left => Activation::Mish,
            _ => return None,
        },
        _ => return None,
    };
    Some(activation(fused, left))
}

/// `1 / (1 + exp(-x))`.
fn sigmoid(fusion: &Fusion, sum: usize) -> Option<Change> {
    if uniform(fusion, sum)? != (1.0, 1.0) {
        return None;
    }
    let (Activation::Exp, negative) = function(fusion, operand(fusion, sum)?)? else { return None };
    (uniform(fusion, negative)? == (-1.0, 0.0)).then_some(())?;
    Some(activation(Activation::Sigmoid, operand(fusion, negative)?))
}

/// `x` above a threshold, where both agree, else the softplus.
fn softplus(fusion: &Fusion, inputs: &[usize]) -> Option<Change> {
    let &[condition, x, other] = inputs else { return None };
    let step = fusion.step(condition)?;
    let Work::Finish(Finish::Compare { comparison: Comparison::Greater, threshold }) = step.work else { return None };
    let (Activation::Softplus, operand) = function(fusion, other)? else { return None };
    (step.inputs == [x] && operand == x && threshold >= 15.0).then(|| activation(Activation::Softplus, x))
}

/// A value that is a product as in [`gelu_of`].
fn gelu_product(fusion: &Fusion, value: usize) -> Option<(usize, Activation, f64)> {
    let (Operation::Mul, &[left, right]) = fusion.operation(value)? else { return None };
    gelu_of(fusion, left, right).or_else(|| gelu_of(fusion, right, left))
}

/// `t * x` times `s * (1 + erf(x / sqrt(2)))`, or with the approximation by a hyperbolic tangent: `x`, which GELU it
/// is, and the factor of the GELU.
fn gelu_of(fusion: &Fusion, left: usize, right: usize) -> Option<(usize, Activation, f64)> {
    let (scale, shift) = uniform(fusion, right)?;
    if scale != shift {
        return None;
    }
    let (gelu, x) = match function(fusion, operand(fusion, right)?)? {
        (Activation::Erf, scaled) => {
            let (factor, shift) = uniform(fusion, scaled)?;
            let exact = shift == 0.0 && near(factor, std::f64::consts::FRAC_1_SQRT_2);
            exact.then_some((Activation::Gelu, operand(fusion, scaled)?))?
        }
        (Activation::Tanh, scaled) => (Activation::GeluTanh, tanh_operand(fusion, scaled)?),
        _ => return None,
    };
    let factor = match uniform(fusion, left) {
        _ if left == x => 1.0,
        Some((factor, 0.0)) if operand(fusion, left) == Some(x) => factor,
        _ => return None,
    };
    Some((x, gelu, 2.0 * scale * factor))
}

/// `x` of `sqrt(2 / pi) * (x + 0.044715 * x^3)`.
fn tanh_operand(fusion: &Fusion, scaled: usize) -> Option<usize> {
    let (factor, shift) = uniform(fusion, scaled)?;
    if shift != 0.0 || !near(factor, SQRT_2_OVER_PI) {
        return None;
    }
    let (Operation::Add, &[left, right]) = fusion.operation(operand(fusion, scaled)?)? else { return None };
    let is_cubic = |x: usize, cubic: usize| {
        let (factor, shift) = uniform(fusion, cubic)?;
        let cube = function(fusion, operand(fusion, cubic)?)?;
        let found = matches!(cube, (Activation::Power { exponent: 3.0 }, base) if base == x);
        (found && shift == 0.0 && near(factor, GELU_CUBIC)).then_some(x)
    };
    is_cubic(left, right).or_else(|| is_cubic(right, left))
}

/// `d` times `1 / sqrt(mean(d^2) + epsilon)`, where `d` is `x - mean(x)`.
fn layer_norm(fusion: &Fusion, difference: usize, reciprocal: usize) -> Option<Change> {
    let (Activation::Reciprocal, root) = function(fusion, reciprocal)? else { return None };
    let (Activation::Sqrt, sum) = function(fusion, root)? else { return None };
    let (scale, epsilon) = uniform(fusion, sum)?;
    let variance = operand(fusion, sum)?;
    let (Operation::Sub, &[x, mean]) = fusion.operation(difference)? else { return None };
    let row = &fusion.step(difference)?.shape;
    let axes = last_axes(fusion, mean, x, row.len())?;
    let square = *fusion.operation(variance)?.1.first()?;
    let (Activation::Power { exponent: 2.0 }, base) = function(fusion, square)? else { return None };
    let same = last_axes(fusion, variance, square, row.len()) == Some(axes);
    (scale == 1.0 && base == difference && same).then(|| {
        let one = |number: f32| ArcArray::from_elem(IxDyn(&vec![1; row.len()]), number);
        let norm = LayerNorm { axes, epsilon: epsilon as f32, scale: one(1.0), shift: one(0.0) };
        Change::Compute(Box::new(Operation::LayerNorm(norm)), vec![x])
    })
}

/// How many last axes a value is the mean over, if it is the mean of `of` and keeps the axes.
fn last_axes(fusion: &Fusion, value: usize, of: usize, rank: usize) -> Option<usize> {
    match fusion.operation(value)? {
        (Operation::Reduce { mean: true, axes, keep: true }, &[inner])
            if inner == of && axes.iter().copied().eq(rank - axes.len()..rank) =>
        {
            Some(axes.len())
        }
        _ => None,
    }
}

/// The scale and the shift of an affine value that has one of each.
fn uniform(fusion: &Fusion, value: usize) -> Option<(f64, f64)> {
    match fusion.operation(value)?.0 {
        Operation::Affine { scale, shift } if scale.len() == 1 && shift.len() == 1 => {
            Some((f64::from(*scale.first()?), f64::from(*shift.first()?)))
        }
        _ => None,
    }
}

/// The activation of a value, and its operand.
fn function<'a>(fusion: &'a Fusion, value: usize) -> Option<(&'a Activation, usize)> {
    match fusion.operation(value)? {
        (Operation::Activation(activation), &[operand]) => Some((activation, operand)),
        _ => None,
    }
}

/// The only operand of a value.
fn operand(fusion: &Fusion, value: usize) -> Option<usize> {
    match fusion.step(value)?.inputs[..] {
        [operand] => Some(operand),
        _ => None,
    }
}

fn activation(activation: Activation, operand: usize) -> Change {
    Change::Compute(Box::new(Operation::Activation(activation)), vec![operand])
}

fn power(exponent: f32) -> Activation {
    Activation::Power { exponent }
}

fn near(found: f64, exact: f64) -> bool {
    (found / exact - 1.0).abs() < TOLERANCE
}
