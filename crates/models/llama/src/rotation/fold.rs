//! Gains of norms, folded into the matrices after them.

use ndarray::{Array1, Array2};

use crate::weights::Weights;

/// Multiplies the columns of the matrices after each norm by the norm's gains and sets the gains to 1. The logits stay
/// the same up to rounding. A head that was tied to the embedding becomes a matrix of its own.
pub fn fold_norms(weights: &mut Weights) {
    for layer in &mut weights.layers {
        for matrix in [&mut layer.query, &mut layer.key, &mut layer.value] {
            scale_columns(matrix, &layer.attention_norm);
        }
        for matrix in [&mut layer.gate, &mut layer.up] {
            scale_columns(matrix, &layer.ffn_norm);
        }
        layer.attention_norm.fill(1.0);
        layer.ffn_norm.fill(1.0);
    }
    let mut head = weights.head().clone();
    scale_columns(&mut head, &weights.norm);
    weights.head = Some(head);
    weights.norm.fill(1.0);
}

fn scale_columns(matrix: &mut Array2<f32>, gains: &Array1<f32>) {
    *matrix *= gains;
}
