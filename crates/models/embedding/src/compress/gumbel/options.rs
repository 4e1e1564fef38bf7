//! Options of compression by an encoder network.

use crate::compress::check_shape;
use crate::compressed::GumbelRecord;
use crate::error::{EmbeddingError, check_option};
use crate::shape::Shape;

/// Maximum number of columns of all subtables together: the weights of the network and their gradients need 1 GB then.
const MAX_COLUMNS: usize = 1 << 13;

/// Options of compression by an encoder network. Batch and temperature come from Shu and Nakayama; rate and epochs suit
/// some ten thousand rows.
#[derive(Clone, Debug, PartialEq)]
pub struct GumbelOptions {
    /// Seed of the initial weights, the order of rows and the noise. The same seed, table and options give the same
    /// compressed table, bit for bit, on any number of threads of one kind of processor.
    pub seed: u64,
    /// Subtables `l`: 1 to 16.
    pub subtables: usize,
    /// Columns of each subtable `p`: even, 2 to 4096, at most 8192 in all subtables together.
    pub columns: usize,
    /// Epochs: 1 to 10000.
    pub epochs: usize,
    /// Rows of a batch: 1 to 65536.
    pub batch: usize,
    /// Adam's rate: above 0, at most 1.
    pub rate: f32,
    /// Temperature of the softmax: 0.01 to 10.
    pub temperature: f32,
}

impl Default for GumbelOptions {
    fn default() -> Self {
        Self { seed: 0, subtables: 4, columns: 256, epochs: 100, batch: 128, rate: 0.001, temperature: 1.0 }
    }
}

impl GumbelOptions {
    /// The shape of the compressed table. Checks all options.
    ///
    /// # Errors
    /// [`EmbeddingError::Option`] for the first option outside its range.
    pub(super) fn shape(&self, width: usize) -> Result<Shape, EmbeddingError> {
        let shape = check_shape(Shape { subtables: self.subtables, columns: self.columns, width })?;
        let all = shape.all_columns();
        check_option("columns of all subtables", all, all <= MAX_COLUMNS, "at most 8192 for this method")?;
        check_option("epochs", self.epochs, (1..=10000).contains(&self.epochs), "1 to 10000")?;
        check_option("batch", self.batch, (1..=65536).contains(&self.batch), "1 to 65536")?;
        check_option("rate", self.rate, self.rate > 0.0 && self.rate <= 1.0, "above 0, at most 1")?;
        let temperature = self.temperature;
        check_option("temperature", temperature, (0.01..=10.0).contains(&temperature), "0.01 to 10")?;
        Ok(shape)
    }

    /// The record of a compression of this many rows.
    pub(super) fn record(&self, tokens: usize) -> GumbelRecord {
        let Self { seed, epochs, batch, rate, temperature, .. } = *self;
        GumbelRecord { seed, epochs, batch, rate, temperature, tokens }
    }
}
