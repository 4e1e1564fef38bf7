//! The directory of a compressed table: two JSON files and two safetensors files, one pair for each half. Described in
//! `docs/model-format.md`.

mod client;
mod server;
mod version;

use std::path::Path;

use crate::codes::TokenCodes;
use crate::compressed::CompressedTable;
use crate::error::EmbeddingError;
use crate::subtables::Subtables;

impl TokenCodes {
    /// Reads and checks `client.json` and `client.safetensors`. Needs no file of the server's half.
    ///
    /// # Errors
    /// [`EmbeddingError::Store`], [`EmbeddingError::Field`] or [`EmbeddingError::Tokens`].
    pub fn load(directory: impl AsRef<Path>) -> Result<Self, EmbeddingError> {
        client::load((&directory).into())
    }

    /// Whether a directory has the client's half of a compressed table, of any version of its format.
    pub fn is_in(directory: impl AsRef<Path>) -> bool {
        client::is_in((&directory).into())
    }
}

impl Subtables {
    /// Reads and checks `server.json` and `server.safetensors`. Needs no file of the client's half.
    ///
    /// # Errors
    /// [`EmbeddingError::Store`], [`EmbeddingError::Field`] or [`EmbeddingError::Tokens`].
    pub fn load(directory: impl AsRef<Path>) -> Result<Self, EmbeddingError> {
        server::load((&directory).into()).map(|(subtables, _)| subtables)
    }
}

impl CompressedTable {
    /// Writes both halves into `directory`, which is created when absent. To give a client its half, copy the two
    /// `client` files and nothing else.
    ///
    /// # Errors
    /// [`EmbeddingError::Store`].
    pub fn save(&self, directory: impl AsRef<Path>) -> Result<(), EmbeddingError> {
        server::save(self.subtables(), self.record(), directory.as_ref())?;
        client::save(self.codes(), directory.as_ref())
    }

    /// Reads and checks both halves.
    ///
    /// # Errors
    /// Any of [`EmbeddingError`].
    pub fn load(directory: impl AsRef<Path>) -> Result<Self, EmbeddingError> {
        let codes = client::load((&directory).into())?;
        let (subtables, record) = server::load((&directory).into())?;
        Self::join(codes, subtables, record)
    }
}
