//! The server's half of a model: the folded, centred score tables.

use unspoken_store::ModelId;

use crate::encoder::Codes;
use crate::error::FastTextError;
use crate::shape::Shape;

/// Maximum magnitude of the sum of a row, relative to its largest entry and to the number of columns: a few roundings
/// of an `f64`.
const CENTRING_TOLERANCE: f64 = 1e-12;
/// Maximum magnitude of an entry: far above any result of training, and small enough that no sum over a message
/// overflows.
const LARGEST_SCORE: f64 = 1e12;

/// The server's half of a model: `l` folded score tables `S_t = W M_t`, each classes x columns. It contains no
/// vocabulary and no codes.
///
/// The score of a message is `z = sum over tokens i and subtables t of S_t[:, j_(i,t)]` (paper, section 6.2.1; the
/// mean's `1/m` is dropped, because it does not change the argmax).
///
/// **Centring.** The columns of each table sum to zero: `sum_j S_t[c, j] = 0`. The encrypted lookup writes column `j`
/// as a constant plus powers of `alpha_j = exp(2 pi i J_j)`; the constant is the mean of the row. A centred row has no
/// constant, so a padded slot, which carries `alpha = 0`, adds exactly zero to the score, and the server cannot
/// distinguish padding from words: every message fills [`Shape::max_tokens`] slots. Subtracting a mean from a row of
/// `S_t` shifts the score of its class by a constant for each token. The trainer works with centred tables from the
/// start, so centring does not change the model.
#[derive(Clone, Debug, PartialEq)]
pub struct ScoreTables {
    id: ModelId,
    shape: Shape,
    /// subtables x classes x columns
    values: Vec<f64>,
}

impl ScoreTables {
    /// Checks that tables are valid and centred. `values` is subtables x classes x columns, row-major.
    pub(crate) fn new(id: ModelId, shape: Shape, values: Vec<f64>) -> Result<Self, FastTextError> {
        shape.check()?;
        if values.len() != shape.score_entries() {
            return Err(FastTextError::field(
                "score tables",
                format!("{} entries", values.len()),
                format!("{}", shape.score_entries()),
            ));
        }
        for row in values.chunks_exact(shape.columns) {
            check_row(row)?;
        }
        Ok(Self { id, shape, values })
    }

    /// The training run this half comes from: equal to its client half's.
    pub fn id(&self) -> ModelId {
        self.id
    }

    /// The numbers both halves agree on.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Row `c` of `S_t`: the contribution to class `c` of each of the `p` columns.
    /// `None` unless `t < l` and `c <` classes.
    pub fn row(&self, t: usize, c: usize) -> Option<&[f64]> {
        (t < self.shape.subtables && c < self.shape.classes).then(|| self.row_unchecked(t, c))
    }

    fn row_unchecked(&self, t: usize, c: usize) -> &[f64] {
        let columns = self.shape.columns;
        &self.values[(t * self.shape.classes + c) * columns..][..columns]
    }

    /// All entries, subtables x classes x columns, row-major.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Maximum `|z_c|` of any message of `max_tokens` tokens. An encrypted evaluation must leave room for it.
    pub fn score_bound(&self) -> f64 {
        let class_bound =
            |c| -> f64 { (0..self.shape.subtables).map(|t| largest_magnitude(self.row_unchecked(t, c))).sum() };
        let token_bound = (0..self.shape.classes).map(class_bound).fold(0.0, f64::max);
        token_bound * self.shape.max_tokens as f64
    }

    /// The plaintext class scores of a message: the reference for the encrypted ones.
    ///
    /// # Errors
    /// [`FastTextError::Field`] when the codes come from a model of another shape.
    pub fn scores(&self, codes: &Codes) -> Result<Vec<f64>, FastTextError> {
        let columns = self.shape.columns;
        let mut scores = vec![0.0; self.shape.classes];
        for token in codes.tokens() {
            if token.len() != self.shape.subtables || token.iter().any(|&code| usize::from(code) >= columns) {
                return Err(FastTextError::field(
                    "code",
                    format!("{token:?}"),
                    format!("{} columns below {columns}", self.shape.subtables),
                ));
            }
            self.add_token(token, &mut scores);
        }
        Ok(scores)
    }

    /// Adds one token's columns; the code must fit the shape.
    pub(crate) fn add_token(&self, token: &[u16], scores: &mut [f64]) {
        for (t, &code) in token.iter().enumerate() {
            for (c, score) in scores.iter_mut().enumerate() {
                *score += self.row_unchecked(t, c)[usize::from(code)];
            }
        }
    }
}

fn largest_magnitude(row: &[f64]) -> f64 {
    row.iter().fold(0.0, |largest, value| largest.max(value.abs()))
}

fn check_row(row: &[f64]) -> Result<(), FastTextError> {
    // NaN and infinities are outside the range too.
    let allowed = -LARGEST_SCORE..=LARGEST_SCORE;
    if let Some(value) = row.iter().find(|value| !allowed.contains(value)) {
        let needed = format!("a number of magnitude at most {LARGEST_SCORE:e}");
        return Err(FastTextError::field("score", value, needed));
    }
    let sum: f64 = row.iter().sum();
    let allowed = CENTRING_TOLERANCE * largest_magnitude(row) * row.len() as f64;
    if sum.abs() > allowed {
        return Err(FastTextError::field(
            "sum of a row of scores",
            sum,
            format!("at most {allowed:e} from zero (centred tables)"),
        ));
    }
    Ok(())
}

/// Subtracts its mean from each row of `columns` entries, twice: the second pass corrects the rounding of the first.
pub(crate) fn centre(values: &mut [f64], columns: usize) {
    for row in values.chunks_exact_mut(columns) {
        for _ in 0..2 {
            let mean = row.iter().sum::<f64>() / columns as f64;
            row.iter_mut().for_each(|value| *value -= mean);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { subtables: 2, columns: 4, classes: 2, max_tokens: 8 };

    fn centred() -> Vec<f64> {
        let mut values: Vec<f64> = (0..16).map(|i| f64::from(i * i) * 0.1).collect();
        centre(&mut values, SHAPE.columns);
        values
    }

    fn tables(values: Vec<f64>) -> Result<ScoreTables, FastTextError> {
        ScoreTables::new(ModelId::default(), SHAPE, values)
    }

    #[test]
    fn centring_makes_rows_sum_to_zero_and_keeps_differences() {
        let values = centred();
        for row in values.chunks_exact(4) {
            assert!(row.iter().sum::<f64>().abs() < 1e-14);
        }
        assert!((values[1] - values[0] - 0.1).abs() < 1e-14);
    }

    #[test]
    fn refuses_tables_that_are_not_centred_or_not_finite() {
        assert!(tables(centred()).is_ok());
        let mut shifted = centred();
        shifted[3] += 1e-6;
        assert!(tables(shifted).expect_err("refused").to_string().contains("centred"));
        for poison in [f64::NAN, f64::INFINITY] {
            let mut values = centred();
            values[5] = poison;
            assert!(tables(values).is_err());
        }
        let mut huge = vec![0.0; 16];
        huge[..4].fill(f64::MAX);
        assert!(tables(huge).is_err());
        assert!(tables(centred()[..15].to_vec()).is_err());
    }

    #[test]
    fn bound_holds_the_worst_message() {
        let tables = tables(centred()).expect("centred");
        let worst = (0..2)
            .map(|c| -> f64 { (0..2).map(|t| largest_magnitude(tables.row(t, c).expect("in range"))).sum() })
            .fold(0.0, f64::max);
        assert_eq!(tables.score_bound(), worst * 8.0);
        assert!(tables.row(2, 0).is_none() && tables.row(0, 2).is_none());
    }
}
