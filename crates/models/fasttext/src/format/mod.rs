//! Model directories: two JSON files and two safetensors files, one pair for each
//! half. Described in `docs/model-format.md`.
//!
//! Files are written atomically, the weights before the JSON that contains their checksum. Reading checks everything:
//! sizes are limited before allocation, unknown fields and versions are refused, weights must match their checksum, and
//! the types of the values check their ranges.

mod client;
mod server;

use std::path::Path;

use crate::error::ModelError;
use crate::model::Model;
use crate::{Encoder, ScoreTables};

/// Version of the server's files, and of client's files whose words are runs of ASCII letters.
const VERSION: u32 = 1;
/// Version of client's files that state what a word is.
const WORD_RULE_VERSION: u32 = 2;

impl Encoder {
    /// Writes `client.safetensors` and `client.json` into `directory`, which is
    /// created when absent.
    ///
    /// # Errors
    /// [`ModelError::File`].
    pub fn save(&self, directory: impl AsRef<Path>) -> Result<(), ModelError> {
        client::save(self, directory.as_ref())
    }

    /// Reads and checks `client.json` and `client.safetensors`.
    ///
    /// # Errors
    /// Any of [`ModelError`] but [`Halves`](ModelError::Halves).
    pub fn load(directory: impl AsRef<Path>) -> Result<Self, ModelError> {
        client::load(directory.as_ref())
    }

    /// Checks the contents of `client.json` and `client.safetensors`, for clients without a file system.
    ///
    /// # Errors
    /// As for [`Encoder::load`].
    pub fn from_bytes(json: &[u8], weights: &[u8]) -> Result<Self, ModelError> {
        client::from_bytes(json, weights)
    }
}

impl ScoreTables {
    /// Reads and checks `server.json` and `server.safetensors`. Needs no file of
    /// the client's half.
    ///
    /// # Errors
    /// Any of [`ModelError`] but [`Halves`](ModelError::Halves).
    pub fn load(directory: impl AsRef<Path>) -> Result<Self, ModelError> {
        server::load(directory.as_ref()).map(|(tables, _)| tables)
    }
}

impl Model {
    /// Writes both halves into `directory`, which is created when absent. To give
    /// a client its half, copy the two `client` files and nothing else.
    ///
    /// # Errors
    /// [`ModelError::File`].
    pub fn save(&self, directory: impl AsRef<Path>) -> Result<(), ModelError> {
        server::save(self.tables(), self.training(), directory.as_ref())?;
        self.encoder().save(directory)
    }

    /// Reads and checks both halves.
    ///
    /// # Errors
    /// Any of [`ModelError`].
    pub fn load(directory: impl AsRef<Path>) -> Result<Self, ModelError> {
        let encoder = client::load(directory.as_ref())?;
        let (tables, training) = server::load(directory.as_ref())?;
        Self::join(encoder, tables, training)
    }
}
