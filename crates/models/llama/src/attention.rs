//! Rotary positions and attention.

use ndarray::parallel::prelude::*;
use ndarray::{Array2, ArrayView2, ArrayViewMut2, Axis, s};

use crate::cache::LayerCache;
use crate::config::Config;

/// Rotates pairs of adjacent coordinates of each head of a layer by the angle of its frequency and of the token's
/// position. The first row is at position `first`.
pub fn rotate_positions(config: &Config, layer: usize, first: usize, vectors: &mut Array2<f32>) {
    for (row, mut vector) in vectors.rows_mut().into_iter().enumerate() {
        let position = (first + row) as f64;
        let turns: Vec<(f32, f32)> = (0..config.head_width / 2)
            .filter_map(|pair| config.frequency(layer, pair))
            .map(|frequency| {
                let (sin, cos) = (position * frequency).sin_cos();
                (sin as f32, cos as f32)
            })
            .collect();
        for mut head in vector.axis_chunks_iter_mut(Axis(0), config.head_width) {
            for (pair, (sin, cos)) in turns.iter().enumerate() {
                let (x, y) = (head[2 * pair], head[2 * pair + 1]);
                head[2 * pair] = x * cos - y * sin;
                head[2 * pair + 1] = x * sin + y * cos;
            }
        }
    }
}

/// Weighted sums of values for new tokens, and the scores of each head. The new tokens are the last of the cache.
pub(crate) fn attend(config: &Config, queries: ArrayView2<f32>, cache: &LayerCache) -> (Array2<f32>, Vec<Array2<f32>>) {
    let mut sums = Array2::zeros(queries.raw_dim());
    let scores = sums
        .axis_chunks_iter_mut(Axis(1), config.head_width)
        .into_par_iter()
        .enumerate()
        .map(|(head, sums)| {
            let columns = head * config.head_width..(head + 1) * config.head_width;
            let kv = head / config.group();
            attend_head(queries.slice(s![.., columns]), cache.keys[kv].view(), cache.values[kv].view(), sums)
        })
        .collect();
    (sums, scores)
}

/// Attention of one head. Returns the scores; future tokens have `-inf`.
fn attend_head(
    queries: ArrayView2<f32>,
    keys: ArrayView2<f32>,
    values: ArrayView2<f32>,
    mut sums: ArrayViewMut2<f32>,
) -> Array2<f32> {
    let earlier = keys.nrows() - queries.nrows();
    let mut scores = products(queries, keys) / (queries.ncols() as f32).sqrt();
    for (row, mut scores) in scores.rows_mut().into_iter().enumerate() {
        scores.slice_mut(s![earlier + row + 1..]).fill(f32::NEG_INFINITY);
    }
    let mut weights = scores.clone();
    for mut row in weights.rows_mut() {
        let largest = row.fold(f32::NEG_INFINITY, |most, value| most.max(*value));
        row.mapv_inplace(|value| (value - largest).exp());
        let sum = row.sum();
        row /= sum;
    }
    if weights.nrows() == 1 {
        let mut sum = sums.row_mut(0);
        sum.fill(0.0);
        weights.iter().zip(values.rows()).for_each(|(weight, value)| sum.scaled_add(*weight, &value));
    } else {
        sums.assign(&weights.dot(&values));
    }
    scores
}

/// Products of each query with each key. One query alone needs no copies of the keys in another order.
fn products(queries: ArrayView2<f32>, keys: ArrayView2<f32>) -> Array2<f32> {
    if queries.nrows() == 1 { keys.dot(&queries.row(0)).insert_axis(Axis(0)) } else { queries.dot(&keys.t()) }
}
