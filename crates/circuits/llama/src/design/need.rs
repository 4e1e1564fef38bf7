//! The functions of a circuit, and the precision that each needs.

use super::options::DesignOptions;
use crate::arithmetic::Function;
use crate::circuit::Circuit;
use crate::place::{Place, Quantity};

/// Precision of the inverse square root of each round of softmax but the last, in bits. An error there multiplies all
/// weights of a token and head by the same number, which the next round divides out again (Section 4.4 of the paper).
/// The root only has to keep the weights in their range.
pub(super) const INNER_ROUND_BITS: f64 = 5.0;

/// Bits by which polynomials are more precise than the circuit.
const SPARE_BITS: f64 = 2.0;

/// A function of the circuit: its result, its argument, and the precision that it needs.
pub(super) struct Need {
    pub function: Function,
    pub argument: Place,
    pub result: Place,
    /// Precision in bits.
    pub bits: f64,
}

/// The functions of all layers.
pub(super) fn needs(circuit: &Circuit, options: &DesignOptions) -> Vec<Need> {
    let bits = options.bits + SPARE_BITS;
    let layers = circuit.config().layers;
    let mut needs = Vec::new();
    for layer in 0..layers {
        let mut add = |function, argument, result, bits| {
            let (argument, result) = (Place::new(layer, argument), Place::new(layer, result));
            needs.push(Need { function, argument, result, bits });
        };
        let inverse = Function::InverseSqrt;
        add(inverse, Quantity::AttentionNormSquare, Quantity::AttentionNormFactor, bits);
        if circuit.config().attention.head_norms {
            add(inverse, Quantity::QueryNormSquare, Quantity::QueryNormFactor, bits);
            add(inverse, Quantity::KeyNormSquare, Quantity::KeyNormFactor, bits);
        }
        // Before the factors of the first round, whose ranges depend on the shifts.
        add(Function::Exponential, Quantity::Score, Quantity::Exponential, bits);
        for round in 0..circuit.rounds() {
            let bits = if round + 1 < circuit.rounds() { INNER_ROUND_BITS } else { bits };
            add(inverse, Quantity::SoftmaxSquare(round), Quantity::SoftmaxFactor(round), bits);
        }
        add(inverse, Quantity::FfnNormSquare, Quantity::FfnNormFactor, bits);
        add(Function::Silu, Quantity::Gate, Quantity::Silu, bits);
    }
    let (argument, result) =
        (Place::new(layers, Quantity::LastNormSquare), Place::new(layers, Quantity::LastNormFactor));
    needs.push(Need { function: Function::InverseSqrt, argument, result, bits });
    needs
}
