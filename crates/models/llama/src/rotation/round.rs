//! Weights as small integers.

use ndarray::Array2;

use crate::weights::Weights;

/// Rounds the weights of all linear maps, the head included, to integers of `bits` bits with sign, times a scale for
/// each row. Encrypted arithmetic multiplies by such integers without a rounding error of its own. A head that was tied
/// to the embedding becomes a matrix of its own; the embedding keeps its numbers.
///
/// # Panics
/// If `bits` is not between 2 and 24.
pub fn round_weights(weights: &mut Weights, bits: u32) {
    assert!((2..=24).contains(&bits), "found {bits} bits, needed 2 to 24");
    for layer in &mut weights.layers {
        let attention = [&mut layer.query, &mut layer.key, &mut layer.value, &mut layer.output];
        attention.into_iter().for_each(|matrix| round_rows(matrix, bits));
        [&mut layer.gate, &mut layer.up, &mut layer.down].into_iter().for_each(|matrix| round_rows(matrix, bits));
    }
    let mut head = weights.head().clone();
    round_rows(&mut head, bits);
    weights.head = Some(head);
}

fn round_rows(matrix: &mut Array2<f32>, bits: u32) {
    let largest_integer = ((1u32 << (bits - 1)) - 1) as f32;
    for mut row in matrix.rows_mut() {
        let step = row.fold(0.0f32, |most, value| most.max(value.abs())) / largest_integer;
        if step > 0.0 {
            row.mapv_inplace(|value| (value / step).round() * step);
        }
    }
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    #[test]
    fn rows_become_multiples_of_their_step() {
        let mut matrix = array![[1.0, -0.4, 0.1], [0.0, 0.0, 0.0], [-70.0, 12.0, 0.3]];
        round_rows(&mut matrix, 3);
        let expected = array![[1.0, -1.0 / 3.0, 0.0], [0.0, 0.0, 0.0], [-70.0, 70.0 / 3.0, 0.0]];
        assert!((&matrix - &expected).iter().all(|difference| difference.abs() < 1e-5), "{matrix}");
    }
}
