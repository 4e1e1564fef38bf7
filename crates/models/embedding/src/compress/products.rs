//! Inner products of rows and columns.

use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2};

/// Writes `scale <a_i, b_j>` to `out[i, j]`, for all rows of `a` and of `b`. Runs on one thread: callers split the
/// rows.
pub(super) fn inner_products(a: ArrayView2<f32>, b: ArrayView2<f32>, scale: f32, mut out: ArrayViewMut2<f32>) {
    general_mat_mul(scale, &a, &b.t(), 0.0, &mut out);
}

/// The squared length of each row.
pub(super) fn squared_lengths(rows: ArrayView2<f32>) -> Vec<f32> {
    rows.rows().into_iter().map(|row| row.dot(&row)).collect()
}

/// The smallest entry and its index, the first of equals. `values` is not empty and has no NaN.
pub(super) fn smallest(values: &[f32]) -> (usize, f32) {
    const LANES: usize = 16;
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut lanes = [f32::INFINITY; LANES];
    for chunk in chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane = if value < *lane { value } else { *lane };
        }
    }
    let least = lanes.iter().chain(rest).fold(f32::INFINITY, |least, &value| least.min(value));
    (values.iter().position(|&value| value == least).unwrap_or(0), least)
}

#[cfg(test)]
mod tests {
    use ndarray::{Array2, array};

    use super::*;

    #[test]
    fn the_smallest_entry_is_found_at_any_length() {
        for length in [1, 15, 16, 17, 64, 100] {
            for at in [0, length / 2, length - 1] {
                let mut values: Vec<f32> = (0..length).map(|i| (i % 7) as f32).collect();
                values[at] = -1.0;
                assert_eq!(smallest(&values), (at, -1.0));
            }
        }
        assert_eq!(smallest(&[2.0; 40]), (0, 2.0));
    }

    #[test]
    fn products_are_of_rows_with_rows() {
        let (a, b) = (array![[1.0, 2.0], [0.0, 1.0]], array![[3.0, 1.0], [1.0, 1.0], [0.0, -1.0]]);
        let mut out = Array2::zeros((2, 3));
        inner_products(a.view(), b.view(), 2.0, out.view_mut());
        assert_eq!(out, array![[10.0, 6.0, -4.0], [2.0, 2.0, -2.0]]);
        assert_eq!(squared_lengths(b.view()), [10.0, 2.0, 1.0]);
    }
}
