//! Products with weights.

use ndarray::linalg::general_mat_mul;
use ndarray::parallel::prelude::*;
use ndarray::{Array1, Array2, ArrayView2, Axis};
use zeroize::Zeroize;

/// Fewest rows of weights that a thread takes.
const ROWS: usize = 64;

/// Runs a pass on a thread of the pool, where its many short products begin without waking and waiting for another
/// thread.
pub(crate) fn in_pool<R: Send>(pass: impl FnOnce() -> R + Send) -> R {
    rayon::scope(|_| pass())
}

/// `x * weights^T`: a row for each row of `x`, a column for each row of `weights`.
pub fn linear(x: ArrayView2<f32>, weights: &Array2<f32>) -> Array2<f32> {
    // Transposed, so that each thread writes rows of its own.
    let mut result = Array2::zeros((weights.nrows(), x.nrows()));
    let rows = weights.nrows().div_ceil(4 * rayon::current_num_threads()).max(ROWS);
    let inputs = x.t();
    result.axis_chunks_iter_mut(Axis(0), rows).into_par_iter().zip(weights.axis_chunks_iter(Axis(0), rows)).for_each(
        |(mut part, weights)| match x.nrows() {
            1 => {
                let token = x.row(0);
                for (value, row) in part.iter_mut().zip(weights.rows()) {
                    *value = row.dot(&token);
                }
            }
            _ => general_mat_mul(1.0, &weights, &inputs, 0.0, &mut part),
        },
    );
    if result.t().is_standard_layout() {
        return result.reversed_axes();
    }
    let ordered = result.t().as_standard_layout().into_owned();
    // Clients multiply private values by their head.
    result.iter_mut().for_each(Zeroize::zeroize);
    ordered
}

/// Rows with a bias added to each, if there is one.
pub fn with_bias(mut rows: Array2<f32>, bias: Option<&Array1<f32>>) -> Array2<f32> {
    if let Some(bias) = bias {
        rows += bias;
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_those_of_the_definition_for_one_token_and_many() {
        for tokens in [1, 3] {
            let x = Array2::from_shape_fn((tokens, 5), |(i, j)| (i * 5 + j) as f32 - 6.0);
            let weights = Array2::from_shape_fn((200, 5), |(i, j)| (i as f32 - 100.0) * (j as f32 + 0.5));
            let found = linear(x.view(), &weights);
            assert_eq!(found.dim(), (tokens, 200));
            for ((i, o), value) in found.indexed_iter() {
                let needed: f32 = (0..5).map(|j| x[(i, j)] * weights[(o, j)]).sum();
                assert!((value - needed).abs() <= 1e-3 * needed.abs().max(1.0));
            }
        }
    }
}
