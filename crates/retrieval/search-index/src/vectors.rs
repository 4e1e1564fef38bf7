//! Vectors of length 1, and their coordinates of 8 bits.

use ndarray::{Array2, ArrayView1, ArrayView2};

use crate::error::IndexError;

/// Part of all coordinates that may be cut off at the largest number of 8 bits.
const CUT: f64 = 1e-4;

/// Largest magnitude of a coordinate.
const MAX_COORDINATE: f32 = 127.0;

/// Factor by which a vector is made shorter until its coordinates fit an index.
const SHORTENED: f32 = 0.99;

/// The vectors of length 1 with these directions, one in each row. The similarity of two of them is the cosine.
///
/// # Errors
/// If there are none, or one has no direction: all zeros, or a coordinate that is not finite.
pub fn directions(mut vectors: Array2<f32>) -> Result<Array2<f32>, IndexError> {
    if vectors.is_empty() {
        return Err(IndexError::Empty);
    }
    for (number, mut vector) in vectors.outer_iter_mut().enumerate() {
        let length = length(vector.view());
        let refuse = |found| Err(IndexError::Direction { vector: number, found });
        if !length.is_finite() {
            return refuse("a coordinate that is not finite");
        }
        if length == 0.0 {
            return refuse("zeros");
        }
        vector.mapv_inplace(|coordinate| (f64::from(coordinate) / length) as f32);
    }
    Ok(vectors)
}

/// The Euclidean length; finite if all coordinates are.
fn length(vector: ArrayView1<'_, f32>) -> f64 {
    vector.iter().map(|&coordinate| f64::from(coordinate).powi(2)).sum::<f64>().sqrt()
}

/// The square of the norm.
fn square(coordinates: ArrayView1<'_, i8>) -> i64 {
    coordinates.iter().map(|&coordinate| i64::from(coordinate).pow(2)).sum()
}

/// Vectors of length 1 in coordinates of 8 bits: each is `scale` times the coordinate, rounded, and cut off at 127. Of
/// all coordinates, one in ten thousand is cut off.
#[derive(Clone, Debug)]
pub struct Quantised {
    coordinates: Array2<i8>,
    scale: f32,
    norm: u32,
}

impl Quantised {
    /// Quantises vectors of length 1, one in each row.
    pub fn new(directions: ArrayView2<'_, f32>) -> Self {
        let mut magnitudes: Vec<f32> = directions.iter().map(|coordinate| coordinate.abs()).collect();
        let kept = (magnitudes.len() as f64 * (1.0 - CUT)).ceil() as usize;
        let (_, &mut largest, _) = magnitudes.select_nth_unstable_by(kept.max(1) - 1, f32::total_cmp);
        Self::with_scale(directions, MAX_COORDINATE / largest.max(f32::MIN_POSITIVE))
    }

    /// As [`Quantised::new`], with a scale of other vectors.
    pub fn with_scale(directions: ArrayView2<'_, f32>, scale: f32) -> Self {
        let coordinates =
            directions.mapv(|coordinate| (coordinate * scale).round().clamp(-MAX_COORDINATE, MAX_COORDINATE) as i8);
        let largest = coordinates.outer_iter().map(square).max().unwrap_or_default();
        // The column of the check has ones at least.
        let norm = (largest as f64).sqrt().max((coordinates.ncols() as f64).sqrt()).ceil() as u32;
        Quantised { coordinates, scale, norm }
    }

    /// The coordinates of another vector of length 1 for an index with this scale and largest norm. A vector that
    /// rounding makes longer is shortened.
    pub fn one(direction: &[f32], scale: f32, norm: u32) -> Vec<i8> {
        let mut scale = scale;
        loop {
            let round = |coordinate: &f32| (coordinate * scale).round().clamp(-MAX_COORDINATE, MAX_COORDINATE) as i8;
            let coordinates: Vec<i8> = direction.iter().map(round).collect();
            if square(ArrayView1::from(&coordinates)) <= i64::from(norm).pow(2) {
                return coordinates;
            }
            scale *= SHORTENED;
        }
    }

    /// The coordinates, one vector in each row.
    pub fn coordinates(&self) -> ArrayView2<'_, i8> {
        self.coordinates.view()
    }

    /// The inner product of the coordinates with a vector of length 1 is this many times the cosine.
    pub fn scale(&self) -> f32 {
        self.scale
    }

    /// The largest Euclidean norm, rounded up.
    pub fn norm(&self) -> u32 {
        self.norm
    }
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    #[test]
    fn vectors_without_a_direction_are_named() {
        let refused = |vectors: Array2<f32>| directions(vectors).unwrap_err().to_string();
        assert!(refused(Array2::zeros((0, 4))).contains("found none"));
        assert!(refused(array![[1.0, 0.0], [0.0, 0.0]]).contains("zeros in vector 1"));
        assert!(refused(array![[1.0, f32::NAN]]).contains("not finite in vector 0"));
        assert!(refused(array![[1.0, 0.0], [f32::INFINITY, 0.0]]).contains("not finite in vector 1"));
        let made = directions(array![[3.0, 4.0], [f32::MAX, 0.0]]).unwrap();
        assert_eq!(made, array![[0.6, 0.8], [1.0, 0.0]]);
    }

    #[test]
    fn cosines_are_kept() {
        let made = directions(Array2::from_shape_fn((50, 96), |(i, j)| ((i * 97 + j * 31) as f32).sin())).unwrap();
        let quantised = Quantised::new(made.view());
        assert!(f64::from(quantised.norm()) <= 127.0 * 96f64.sqrt());
        let cosine = |i: usize, j: usize| made.row(i).dot(&made.row(j));
        for (i, j) in [(0, 0), (3, 17), (20, 49)] {
            let score: f32 =
                quantised.coordinates().row(i).iter().zip(made.row(j)).map(|(&byte, x)| f32::from(byte) * x).sum();
            assert!((score / quantised.scale() - cosine(i, j)).abs() < 0.01, "{i} {j}");
        }
        assert_eq!(Quantised::with_scale(made.view(), 1e-9).norm(), 10);
        let one = made.row(7).to_vec();
        assert_eq!(
            Quantised::one(&one, quantised.scale(), quantised.norm()),
            quantised.coordinates().row(7).to_vec(),
            "as in the index"
        );
        let short = Quantised::one(&one, quantised.scale(), 50);
        assert!((40..=50).contains(&square(ArrayView1::from(&short)).isqrt()), "{short:?}");
    }
}
