//! The server's half: the subtables.

use unspoken_store::ModelId;

use crate::error::EmbeddingError;
use crate::shape::Shape;

/// Maximum magnitude of an entry: far above any result of compressing a checked table.
const LARGEST_ENTRY: f32 = 1e9;

/// The server's half of a compressed table: `l` subtables of `d` rows and `p` columns. It contains no tokens and no
/// codes.
#[derive(Clone, Debug, PartialEq)]
pub struct Subtables {
    id: ModelId,
    shape: Shape,
    /// subtables x width x columns
    values: Vec<f32>,
}

impl Subtables {
    /// Checks and joins the parts; `values` is subtables x width x columns, row-major.
    pub(crate) fn new(id: ModelId, shape: Shape, values: Vec<f32>) -> Result<Self, EmbeddingError> {
        shape.check()?;
        let needed = shape.all_columns() * shape.width;
        if values.len() != needed {
            return Err(EmbeddingError::field("subtables", format!("{} entries", values.len()), needed));
        }
        // NaN and infinities are outside the range too.
        let allowed = -LARGEST_ENTRY..=LARGEST_ENTRY;
        if let Some(value) = values.iter().find(|value| !allowed.contains(value)) {
            let needed = format!("a number of magnitude at most {LARGEST_ENTRY:e}");
            return Err(EmbeddingError::field("entry of a subtable", value, needed));
        }
        Ok(Self { id, shape, values })
    }

    /// The compression this half comes from: equal to its client half's.
    pub fn id(&self) -> ModelId {
        self.id
    }

    /// The numbers both halves agree on.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Subtable `t`, width x columns, row-major; `None` unless `t < l`.
    pub fn subtable(&self, t: usize) -> Option<&[f32]> {
        let entries = self.shape.width * self.shape.columns;
        (t < self.shape.subtables).then(|| &self.values[t * entries..][..entries])
    }

    /// All entries, subtables x width x columns, row-major.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// Maximum magnitude of any coordinate of a sum of one column of each subtable. An encrypted evaluation must leave
    /// room for it.
    pub fn bound(&self) -> f64 {
        let row_bound = |t: usize, r: usize| {
            let row = &self.values[(t * self.shape.width + r) * self.shape.columns..][..self.shape.columns];
            f64::from(row.iter().fold(0.0f32, |largest, value| largest.max(value.abs())))
        };
        let coordinate = |r| (0..self.shape.subtables).map(|t| row_bound(t, r)).sum::<f64>();
        (0..self.shape.width).map(coordinate).fold(0.0, f64::max)
    }

    /// The embedding of a code: the sum of one column of each subtable.
    ///
    /// # Errors
    /// [`EmbeddingError::Field`] when the code comes from a table of another shape.
    pub fn reconstruct(&self, code: &[u16]) -> Result<Vec<f32>, EmbeddingError> {
        let Shape { subtables, columns, width } = self.shape;
        if code.len() != subtables || code.iter().any(|&entry| usize::from(entry) >= columns) {
            let needed = format!("{subtables} columns below {columns}");
            return Err(EmbeddingError::field("code", format!("{code:?}"), needed));
        }
        let coordinate = |r| {
            let entries =
                code.iter().enumerate().map(|(t, &j)| self.values[(t * width + r) * columns + usize::from(j)]);
            entries.map(f64::from).sum::<f64>() as f32
        };
        Ok((0..width).map(coordinate).collect())
    }
}
