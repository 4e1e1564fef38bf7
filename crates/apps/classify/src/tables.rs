//! Tables of the scores of tokens.

use unspoken_ckks::CkksParameters;
use unspoken_lookup::Precision;

use crate::description::Kind;
use crate::error::ClassifyError;

/// The tables of a model: what each column of each subtable adds to the score of each class.
///
/// The score of a text is `z_c = sum over its tokens i and the subtables t of S_t[c, j_(i,t)]`. The rows of each table
/// are centred, `sum_j S_t[c, j] = 0`, so that a padded slot adds nothing.
#[derive(Clone, Copy, Debug)]
pub struct TokenScores<'a> {
    /// The model's identity.
    pub model_id: [u8; 16],
    /// Number of subtables.
    pub subtables: usize,
    /// Columns of each subtable.
    pub columns: usize,
    /// Number of classes: 2 to 1024.
    pub classes: usize,
    /// Maximum number of tokens of a text, a power of two: also the number of slots of a text.
    pub max_tokens: usize,
    /// Subtables x classes x columns, row-major.
    pub values: &'a [f64],
}

/// A model that a service has.
pub trait ModelTables {
    /// Its kind.
    type Kind: Kind;

    /// Its tables.
    fn token_scores(&self) -> TokenScores<'_>;

    /// What its kind adds to a description.
    fn own(&self) -> <Self::Kind as Kind>::Own;
}

impl TokenScores<'_> {
    /// Refuses tables of another number of entries than the shape says.
    pub(crate) fn check(&self) -> Result<(), ClassifyError> {
        let needed = self.subtables * self.classes * self.columns;
        if self.values.len() != needed {
            return Err(ClassifyError::mismatch("score tables", format!("{} entries", self.values.len()), needed));
        }
        Ok(())
    }

    /// Row `c` of `S_t`.
    pub(crate) fn row(&self, t: usize, c: usize) -> &[f64] {
        &self.values[(t * self.classes + c) * self.columns..][..self.columns]
    }

    /// Maximum magnitude of a score of any text.
    pub(crate) fn bound(&self) -> f64 {
        let class = |c| (0..self.subtables).map(|t| largest(self.row(t, c))).sum::<f64>();
        (0..self.classes).map(class).fold(0.0, f64::max) * self.max_tokens as f64
    }

    /// Compares the bound of the error with the differences that decide on a label: for each column of a subtable, the
    /// difference of its largest and its smallest score. Refuses tables whose scores are all below the error.
    pub(crate) fn check_precision(
        &self,
        parameters: &CkksParameters,
        error_bound: f64,
    ) -> Result<Precision, ClassifyError> {
        let spread = |t: usize, j: usize| {
            let column = (0..self.classes).map(|c| self.row(t, c)[j]);
            let (low, high) =
                column.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), z| (low.min(z), high.max(z)));
            high - low
        };
        let spreads = (0..self.subtables).flat_map(|t| (0..self.columns).map(move |j| (t, j)));
        let bound = self.bound();
        if bound <= error_bound {
            return Err(ClassifyError::mismatch(
                "score tables",
                format!("scores of texts up to {bound:.1e}"),
                format!(
                    "more than the error bound of preset {}, {error_bound:.1e}; use another preset",
                    parameters.name()
                ),
            ));
        }
        Ok(Precision::new(error_bound, largest(self.values), spreads.map(|(t, j)| spread(t, j))))
    }
}

/// The largest magnitude.
fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |largest, value| largest.max(value.abs()))
}
