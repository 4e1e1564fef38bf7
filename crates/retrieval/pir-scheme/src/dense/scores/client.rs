//! The client's half: queries for scores, and reading them.

use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use unspoken_ring::{SecretRng, declassify, nearest_integer};
use zeroize::Zeroizing;

use crate::client::{PirSecret, nearest};
use crate::dense::QUERY_BITS;
use crate::dense::query::RowsQuery;
use crate::dense::scores::response::ScoreResponse;
use crate::dense::scores::shape::{RANGE, ScoreShape};
use crate::error::SchemeError;

/// Deviations that the score of the last column of a cluster may differ from the one that the client computes.
const MAX_DEVIATIONS: f64 = 8.0;

impl PirSecret {
    /// A query for the scores of the clusters of a block, with a fresh secret of its own. `vector` is of any length but
    /// zero: scores are those of the vector of length 1. No branch and no address depends on the block or the vector,
    /// except that a vector without a direction is an error.
    ///
    /// # Errors
    /// If there is no such block, or the vector has another number of coordinates, one that is not finite, or length 0.
    pub fn score_query(
        &self,
        shape: &ScoreShape,
        block: usize,
        vector: &[f32],
        rng: &mut SecretRng,
    ) -> Result<RowsQuery, SchemeError> {
        if declassify(block >= shape.blocks()) {
            return Err(SchemeError::Index { pieces: shape.blocks() as u64 });
        }
        let direction = direction(shape, vector)?;
        let modulus = self.parameters().ring().log2_modulus().exp2();
        let unit = RANGE * modulus / f64::from(shape.norm());
        let entries: Zeroizing<Vec<i64>> =
            Zeroizing::new(direction.iter().map(|coordinate| nearest_integer(coordinate * unit) as i64).collect());
        let width = shape.width() as u64;
        let of_row = |row: u64| {
            let here: Choice = (row / width).ct_eq(&(block as u64));
            i64::conditional_select(&0, &entries[(row % width) as usize], here)
        };
        self.rows_query(Some(shape.masks()), (shape.rows(), QUERY_BITS), of_row, rng)
    }

    /// The scores of the documents of a cluster, from the response to a query for this vector: the inner products of
    /// their coordinates with the vector of length 1. No branch and no address depends on them, except that an
    /// unreadable response is an error.
    ///
    /// # Errors
    /// If the response was not computed from such a query and the table of this shape, which is noticed with nearly all
    /// responses, not with all.
    pub fn scores(
        &self,
        shape: &ScoreShape,
        vector: &[f32],
        response: &ScoreResponse,
    ) -> Result<Zeroizing<Vec<f32>>, SchemeError> {
        let direction = direction(shape, vector)?;
        let fractions = self.fractions(&response.0, ScoreShape::rounding())?;
        let norm = f64::from(shape.norm());
        let score = |fraction: &f64| (fraction - nearest(*fraction) as f64) * norm / RANGE;
        let expected = direction.iter().sum::<f64>() * f64::from(shape.check_coordinate());
        let (check, documents) = fractions.split_last().expect("a ring has coefficients");
        let error = (score(check) - expected).abs();
        let readable = error <= MAX_DEVIATIONS * shape.deviation(self.parameters())? * norm;
        let scores: Zeroizing<Vec<f32>> = Zeroizing::new(documents.iter().map(|each| score(each) as f32).collect());
        if declassify(readable) { Ok(scores) } else { Err(SchemeError::Unreadable) }
    }
}

/// The vector of length 1.
fn direction(shape: &ScoreShape, vector: &[f32]) -> Result<Zeroizing<Vec<f64>>, SchemeError> {
    if vector.len() != shape.width() {
        let needed = format!("{} coordinates", shape.width());
        return Err(SchemeError::format("vector", format!("{} coordinates", vector.len()), needed));
    }
    let length = vector.iter().map(|&coordinate| f64::from(coordinate).powi(2)).sum::<f64>().sqrt();
    if !declassify(length.is_finite() & (length > 0.0)) {
        return Err(SchemeError::format("vector", "a length of zero, or one that is not finite", "a finite length"));
    }
    Ok(Zeroizing::new(vector.iter().map(|&coordinate| f64::from(coordinate) / length).collect()))
}
