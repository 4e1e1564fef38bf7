//! Orthogonal rotations, folded into the weights.

use ndarray::{Array2, Axis, s};
use unspoken_store::Random;

use super::fold::fold_norms;
use crate::config::Config;
use crate::linear::linear;
use crate::weights::Weights;

/// Rotates the residual stream by a random orthogonal matrix, and the values of each key head by another one. Gains of
/// norms are folded first, because a norm without gains commutes with rotations. The logits stay the same up to
/// rounding. Queries, keys, gates and their factors keep their values.
pub fn rotate(config: &Config, weights: &mut Weights, seed: u64) {
    fold_norms(weights);
    let mut random = Random::new(seed, 0);
    rotate_residual(weights, &orthogonal(config.width, &mut random));
    for layer in 0..config.layers {
        for head in 0..config.kv_heads {
            let rotation = orthogonal(config.head_width, &mut random);
            rotate_values(config, weights, layer, head, &rotation);
        }
    }
}

/// Replaces the residual stream `x` (a row) by `x R`.
fn rotate_residual(weights: &mut Weights, rotation: &Array2<f32>) {
    let transposed = rotation.t().as_standard_layout().into_owned();
    let inputs = |matrix: &mut Array2<f32>| *matrix = linear(matrix.view(), &transposed);
    let outputs = |matrix: &mut Array2<f32>| {
        let columns = matrix.t().as_standard_layout().into_owned();
        *matrix = linear(columns.view(), &transposed).reversed_axes().as_standard_layout().into_owned();
    };
    inputs(&mut weights.embedding);
    if let Some(head) = &mut weights.head {
        inputs(head);
    }
    for layer in &mut weights.layers {
        for matrix in [&mut layer.query, &mut layer.key, &mut layer.value, &mut layer.gate, &mut layer.up] {
            inputs(matrix);
        }
        outputs(&mut layer.output);
        outputs(&mut layer.down);
        if let Some(bias) = &mut layer.attention.output_bias {
            *bias = bias.dot(rotation);
        }
    }
}

/// Replaces the values `v` (a row) of a key head by `v R`; the queries' heads that share it undo it in the output.
fn rotate_values(config: &Config, weights: &mut Weights, layer: usize, head: usize, rotation: &Array2<f32>) {
    let (width, group) = (config.head_width, config.group());
    let layer = &mut weights.layers[layer];
    let mut values = layer.value.slice_mut(s![head * width..(head + 1) * width, ..]);
    let rotated = rotation.t().dot(&values);
    values.assign(&rotated);
    if let Some(bias) = &mut layer.attention.value_bias {
        let mut bias = bias.slice_mut(s![head * width..(head + 1) * width]);
        let rotated = bias.dot(rotation);
        bias.assign(&rotated);
    }
    let columns = head * group * width..(head + 1) * group * width;
    for mut output in layer.output.slice_mut(s![.., columns]).axis_chunks_iter_mut(Axis(1), width) {
        let rotated = output.dot(rotation);
        output.assign(&rotated);
    }
}

/// A random orthogonal matrix: Gaussian columns, made orthonormal twice by Gram and Schmidt's method in 64 bits.
fn orthogonal(width: usize, random: &mut Random) -> Array2<f32> {
    // Rows are made orthonormal, because they are contiguous; the transposed matrix is orthogonal, too.
    let mut rows = Array2::from_shape_fn((width, width), |_| random.normal());
    for _ in 0..2 {
        for row in 0..width {
            let (done, mut rest) = rows.view_mut().split_at(Axis(0), row);
            let mut current = rest.row_mut(0);
            let parts = done.dot(&current);
            let projection = done.t().dot(&parts);
            current -= &projection;
            let length = current.dot(&current).sqrt();
            current /= length;
        }
    }
    rows.mapv(|value| value as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotations_are_orthogonal() {
        let rotation = orthogonal(48, &mut Random::new(3, 0));
        let product = rotation.dot(&rotation.t()) - Array2::<f32>::eye(48);
        assert!(product.iter().all(|value| value.abs() < 1e-6));
    }
}
