//! Affine steps beside each other, and beside a product with constants.

use super::merge::{after_conv, after_linear, before_conv, before_linear, then};
use super::{Change, Fusion};
use crate::graph::{LayerNorm, Operation};

/// The change of a step, if it is affine or follows an affine step.
pub(super) fn change(fusion: &mut Fusion, place: usize) -> Option<Change> {
    let value = fusion.inputs + place;
    let (operation, &[operand]) = fusion.operation(value)? else { return None };
    match operation {
        Operation::Affine { .. } => is_identity(fusion, value, operand)
            .then_some(Change::Same(operand))
            .or_else(|| into_operand(fusion, value, operand)),
        Operation::Linear(_) | Operation::Conv(_) => take_operand(fusion, value, operand),
        _ => None,
    }
}

fn is_identity(fusion: &Fusion, value: usize, operand: usize) -> bool {
    let Some((Operation::Affine { scale, shift }, _)) = fusion.operation(value) else { return false };
    let unchanged = scale.iter().all(|&scale| scale == 1.0) && shift.iter().all(|&shift| shift == 0.0);
    unchanged && fusion.shape(operand) == fusion.shape(value)
}

/// An affine step goes into the operation before it, if nothing else needs that one's value.
fn into_operand(fusion: &mut Fusion, value: usize, operand: usize) -> Option<Change> {
    if !fusion.is_used_once(operand) {
        return None;
    }
    let Some((Operation::Affine { scale, shift }, _)) = fusion.operation(value) else { return None };
    let (scale, shift) = (scale.clone(), shift.clone());
    let same_shape = fusion.shape(operand) == fusion.shape(value);
    let numbers = fusion.shape(value).iter().product::<usize>();
    let (before, inputs) = fusion.operation(operand)?;
    let inputs = inputs.to_vec();
    let (copied, merged) = match before {
        Operation::Affine { scale: first, shift: summand } => {
            let (scale, shift) = then((first, summand), (&scale, &shift), numbers)?;
            (scale.len() + shift.len(), Operation::Affine { scale, shift })
        }
        Operation::Linear(linear) if same_shape => {
            (linear.weight.len(), Operation::Linear(after_linear(linear, &scale, &shift)?))
        }
        Operation::Conv(conv) if same_shape => (conv.weight.len(), Operation::Conv(after_conv(conv, &scale, &shift)?)),
        Operation::LayerNorm(norm) if same_shape => {
            let (scale, shift) = then((&norm.scale, &norm.shift), (&scale, &shift), numbers)?;
            let (axes, epsilon) = (norm.axes, norm.epsilon);
            (scale.len() + shift.len(), Operation::LayerNorm(LayerNorm { axes, epsilon, scale, shift }))
        }
        _ => return None,
    };
    fusion.may_copy(copied).then_some(Change::Compute(Box::new(merged), inputs))
}

/// A product with constants takes an affine step before it, if nothing else needs that one's value.
fn take_operand(fusion: &mut Fusion, value: usize, operand: usize) -> Option<Change> {
    if !fusion.is_used_once(operand) {
        return None;
    }
    let (Operation::Affine { scale, shift }, &[inner]) = fusion.operation(operand)? else { return None };
    // A constant that makes rows larger stays.
    if fusion.shape(inner) != fusion.shape(operand) {
        return None;
    }
    let (copied, merged) = match fusion.operation(value)?.0 {
        Operation::Linear(linear) => (linear.weight.len(), Operation::Linear(before_linear(linear, scale, shift)?)),
        Operation::Conv(conv) => (conv.weight.len(), Operation::Conv(before_conv(conv, scale, shift)?)),
        _ => return None,
    };
    fusion.may_copy(copied).then_some(Change::Compute(Box::new(merged), vec![inner]))
}
