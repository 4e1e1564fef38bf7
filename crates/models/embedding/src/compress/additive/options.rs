//! Options of additive quantisation.

use crate::compress::check_shape;
use crate::error::{EmbeddingError, check_option};
use crate::shape::Shape;

/// Options of compression by additive quantisation. The defaults are the paper's `l = 4` subtables, and settings that
/// need minutes on two cores for tables of some ten million numbers.
///
/// ```
/// use unspoken_embedding::CompressOptions;
///
/// let options = CompressOptions { columns: 1024, ..CompressOptions::default() };
/// assert_eq!(options.subtables, 4);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompressOptions {
    /// Seed of the start and of the trials of the search. The same seed, table and options give the same compressed
    /// table, bit for bit, on any number of threads of one kind of processor.
    pub seed: u64,
    /// Subtables `l`: 1 to 16.
    pub subtables: usize,
    /// Columns of each subtable `p`: even, 2 to 4096, at most 16384 in all subtables together.
    pub columns: usize,
    /// Rounds of k-means for each subtable of the start: 1 to 1000.
    pub start_rounds: usize,
    /// Rounds of refinement, of subtables and then codes: 1 to 1000.
    pub rounds: usize,
    /// Changes tried on each row's code in each round: 0 to 1000.
    pub trials: usize,
}

impl Default for CompressOptions {
    fn default() -> Self {
        Self { seed: 0, subtables: 4, columns: 256, start_rounds: 5, rounds: 12, trials: 4 }
    }
}

impl CompressOptions {
    /// The shape of the compressed table. Checks all options.
    ///
    /// # Errors
    /// [`EmbeddingError::Option`] for the first option outside its range.
    pub(super) fn shape(&self, width: usize) -> Result<Shape, EmbeddingError> {
        let shape = check_shape(Shape { subtables: self.subtables, columns: self.columns, width })?;
        let ranges = [("start_rounds", self.start_rounds, 1), ("rounds", self.rounds, 1), ("trials", self.trials, 0)];
        for (name, found, least) in ranges {
            check_option(name, found, (least..=1000).contains(&found), &format!("{least} to 1000"))?;
        }
        Ok(shape)
    }
}
