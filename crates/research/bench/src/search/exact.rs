//! Exact search in the clear: inner products with all vectors.

use ndarray::{Array2, ArrayView2, Axis};
use rayon::prelude::*;

/// Vectors that a thread takes at a time.
const CHUNK: usize = 4096;

/// The numbers of the `most` vectors nearest to a vector, the nearest first. Uses the threads of the pool that it runs
/// in.
pub(super) fn search(vectors: &Array2<f32>, query: &[f32], most: usize) -> Vec<usize> {
    let scores = |(number, rows): (usize, ArrayView2<'_, f32>)| -> Vec<(f32, usize)> {
        let score = |row: ndarray::ArrayView1<'_, f32>| dot(row.as_slice().unwrap_or_default(), query);
        let all = rows.outer_iter().map(score).zip(number * CHUNK..).collect();
        best(all, most)
    };
    let chunks: Vec<Vec<(f32, usize)>> =
        vectors.axis_chunks_iter(Axis(0), CHUNK).into_par_iter().enumerate().map(scores).collect();
    best(chunks.concat(), most).into_iter().map(|(_, number)| number).collect()
}

/// As [`search`], for several queries.
pub(super) fn search_all(vectors: &Array2<f32>, queries: &Array2<f32>, most: usize) -> Vec<Vec<usize>> {
    let of_chunk = |(number, rows): (usize, ArrayView2<'_, f32>)| -> Vec<Vec<(f32, usize)>> {
        let scores = queries.dot(&rows.t());
        scores.outer_iter().map(|row| best(row.iter().copied().zip(number * CHUNK..).collect(), most)).collect()
    };
    let merged = |a: Vec<Vec<(f32, usize)>>, b: Vec<Vec<(f32, usize)>>| {
        a.into_iter().zip(b).map(|(a, b)| best([a, b].concat(), most)).collect()
    };
    let nothing = || vec![Vec::new(); queries.nrows()];
    let chunks = vectors.axis_chunks_iter(Axis(0), CHUNK).into_par_iter().enumerate();
    let found = chunks.map(of_chunk).reduce(nothing, merged);
    found.into_iter().map(|best| best.into_iter().map(|(_, number)| number).collect()).collect()
}

/// The `most` largest scores, the largest first.
fn best(mut scores: Vec<(f32, usize)>, most: usize) -> Vec<(f32, usize)> {
    if most < scores.len() {
        scores.select_nth_unstable_by(most, |a, b| b.0.total_cmp(&a.0));
        scores.truncate(most);
    }
    scores.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
    scores
}

/// The inner product, in sixteen sums, which a compiler puts into vector registers. Pairs of iterators would not be
/// inlined in this build, and take five times as long.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0f32; 16];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<16>(), b.as_chunks::<16>());
    for (place, a) in a.iter().enumerate() {
        let b = &b[place];
        for lane in 0..16 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    sums.iter().sum::<f32>() + a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum::<f32>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_query_and_several_find_the_nearest() {
        let vectors = Array2::from_shape_fn((10_000, 19), |(i, j)| ((i * 31 + j * 17) as f32).sin());
        let queries = Array2::from_shape_fn((3, 19), |(i, j)| ((i * 7 + j * 5) as f32).cos());
        let all = search_all(&vectors, &queries, 10);
        for (query, found) in queries.outer_iter().zip(&all) {
            let mut expected: Vec<usize> = (0..10_000).collect();
            let scores = vectors.dot(&query);
            expected.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
            let score = |places: &[usize]| places.iter().map(|&place| scores[place]).collect::<Vec<_>>();
            let one = search(&vectors, &query.to_vec(), 10);
            for found in [found, &one] {
                let pairs = score(found).into_iter().zip(score(&expected[..10]));
                assert!(found.len() == 10 && pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-4));
            }
        }
        assert_eq!(search(&vectors, &[0.0; 19], 20_000).len(), 10_000);
    }
}
