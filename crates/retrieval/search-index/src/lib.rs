#![doc = include_str!("../README.md")]

mod clusters;
mod directory;
mod document;
mod edit;
mod error;
mod followed;
mod index;
mod manifest;
mod plan;
mod ranked;
mod stored;
mod vectors;

pub use directory::{Directory, MAX_ASKED};
pub use document::{Document, DocumentParts, MAX_ID_BYTES};
pub use edit::IndexEdit;
pub use error::IndexError;
pub use followed::FollowedIndex;
pub use index::Index;
pub use manifest::{About, ID_BYTES, build_directory, build_number, is_index};
pub use plan::{Plan, Wish};
pub use ranked::{Ranked, best_first};
pub use stored::{IndexPart, IndexVersions, StoredIndex};
pub use vectors::{Quantised, directions};
