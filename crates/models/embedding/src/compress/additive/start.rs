//! Initial codes and subtables: residual k-means, one subtable after the other.

use ndarray::{Array2, ArrayView2, Axis, s};
use rayon::prelude::*;
use unspoken_store::Random;

use super::products::{inner_products, smallest, squared_lengths};
use super::{Phase, Stop, Watch};
use crate::error::EmbeddingError;

/// Number of rows per thread whose distances are in memory at once.
const BLOCK_ROWS: usize = 128;
/// Number of sampled rows for each column while k-means moves the columns.
const SAMPLE_PER_COLUMN: usize = 64;

/// The index of the nearest column for each row.
fn nearest(rows: ArrayView2<f32>, columns: ArrayView2<f32>, stop: Stop) -> Result<Vec<u16>, EmbeddingError> {
    let lengths = squared_lengths(columns);
    let blocks = rows.nrows().div_ceil(BLOCK_ROWS);
    let found: Vec<Vec<u16>> = (0..blocks)
        .into_par_iter()
        .map(|block| {
            stop.check()?;
            let first = block * BLOCK_ROWS;
            let rows = rows.slice(s![first..(first + BLOCK_ROWS).min(rows.nrows()), ..]);
            let mut distances = Array2::zeros((rows.nrows(), columns.nrows()));
            inner_products(rows, columns, -2.0, distances.view_mut());
            let of_row = |mut distances: ndarray::ArrayViewMut1<f32>| {
                distances.iter_mut().zip(&lengths).for_each(|(distance, length)| *distance += length);
                smallest(distances.as_slice().unwrap_or_default()).0 as u16
            };
            Ok(distances.rows_mut().into_iter().map(of_row).collect())
        })
        .collect::<Result<_, EmbeddingError>>()?;
    Ok(found.concat())
}

/// K-means with `count` columns: random rows, moved `rounds` times to the mean of their nearest rows. Large tables are
/// sampled. A column that is nearest to no row is not moved.
fn k_means(
    rows: ArrayView2<f32>,
    count: usize,
    rounds: usize,
    random: &mut Random,
    watch: &mut Watch,
) -> Result<Array2<f32>, EmbeddingError> {
    let sample = rows.select(Axis(0), &random.distinct(count * SAMPLE_PER_COLUMN, rows.nrows()));
    let mut columns = Array2::zeros((count, rows.ncols()));
    for (mut column, row) in columns.rows_mut().into_iter().zip(sample.rows()) {
        column.assign(&row);
    }
    for _ in 0..rounds {
        let codes = nearest(sample.view(), columns.view(), watch.stop())?;
        let mut sums = Array2::<f64>::zeros(columns.dim());
        let mut members = vec![0usize; count];
        for (row, &code) in sample.rows().into_iter().zip(&codes) {
            members[usize::from(code)] += 1;
            sums.row_mut(code.into()).iter_mut().zip(row).for_each(|(sum, &value)| *sum += f64::from(value));
        }
        for ((mut column, sum), &members) in columns.rows_mut().into_iter().zip(sums.rows()).zip(&members) {
            if members > 0 {
                column.iter_mut().zip(sum).for_each(|(value, sum)| *value = (sum / members as f64) as f32);
            }
        }
        watch.report(Phase::Start, None);
    }
    Ok(columns)
}

/// Subtables of `count` columns (by subtable, one column per row) and codes (rows x subtables). Each subtable is the
/// k-means of the residual of the previous ones.
pub(super) fn residual_k_means(
    rows: ArrayView2<f32>,
    (subtables, count): (usize, usize),
    rounds: usize,
    seed: u64,
    watch: &mut Watch,
) -> Result<(Array2<f32>, Vec<u16>), EmbeddingError> {
    let mut random = Random::new(seed, START_STREAM);
    let mut residual = rows.to_owned();
    let mut columns = Array2::zeros((subtables * count, rows.ncols()));
    let mut codes = vec![0; rows.nrows() * subtables];
    for t in 0..subtables {
        let found = k_means(residual.view(), count, rounds, &mut random, watch)?;
        let nearest = nearest(residual.view(), found.view(), watch.stop())?;
        for (row, (mut residual, &code)) in residual.rows_mut().into_iter().zip(&nearest).enumerate() {
            residual -= &found.row(code.into());
            codes[row * subtables + t] = code;
        }
        columns.slice_mut(s![t * count..(t + 1) * count, ..]).assign(&found);
    }
    Ok((columns, codes))
}

/// Streams of random numbers: of the start, and of the first round.
const START_STREAM: u64 = 0;
