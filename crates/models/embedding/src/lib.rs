#![doc = include_str!("../README.md")]

mod codes;
mod compress;
mod compressed;
mod downstream;
mod error;
mod format;
mod head;
mod limits;
mod load;
mod mean;
mod quality;
mod segment;
mod shape;
mod subtables;
mod table;
mod text;
mod tokens;

pub use codes::TokenCodes;
pub use compress::{CompressOptions, GumbelOptions, Phase, Progress, compress, compress_by_gumbel};
pub use compressed::{AdditiveRecord, CompressedTable, CompressionRecord, GumbelRecord};
pub use downstream::{Accuracy, RecurrentOptions, RecurrentProgress, ReviewTask};
pub use error::EmbeddingError;
pub use head::{FoldedHead, HeadOptions, LinearHead, TrainedHead};
pub use limits::LARGEST_VALUE;
pub use load::{Source, read_vectors};
pub use mean::MeanEmbedder;
pub use quality::Quality;
pub use segment::{SEGMENTATION_VERSION, Segmenter};
pub use shape::Shape;
pub use subtables::Subtables;
pub use table::EmbeddingTable;
pub use text::{TextCoverage, TextIds, TextReader};
pub use tokens::{TokenList, UNKNOWN_NAMES};
pub use unspoken_store::{ModelId, StoreError};
