//! Model directories: two JSON files and two safetensors files, one pair for each
//! half. Described in `docs/model-format.md`.
//!
//! Files are written atomically, the weights before the JSON that contains their checksum. Reading checks everything:
//! sizes are limited before allocation, unknown fields and versions are refused, weights must match their checksum, and
//! the types of the values check their ranges.

mod client;
mod server;
mod version;

use std::path::Path;

use unspoken_store::ModelFiles;

use crate::error::FastTextError;
use crate::model::Model;
use crate::{Encoder, ScoreTables};

impl Encoder {
    /// Writes `client.safetensors` and `client.json` into `directory`, which is
    /// created when absent.
    ///
    /// # Errors
    /// [`FastTextError::Store`].
    pub fn save(&self, directory: impl AsRef<Path>) -> Result<(), FastTextError> {
        client::save(self, directory.as_ref())
    }

    /// Reads and checks `client.json` and `client.safetensors`.
    ///
    /// # Errors
    /// [`FastTextError::Store`] or [`FastTextError::Field`].
    pub fn load(directory: impl AsRef<Path>) -> Result<Self, FastTextError> {
        Self::read((&directory).into())
    }

    /// As [`Encoder::load`], of files that may be in memory.
    ///
    /// # Errors
    /// As for [`Encoder::load`].
    pub fn read(files: ModelFiles<'_>) -> Result<Self, FastTextError> {
        client::load(files)
    }
}

impl ScoreTables {
    /// Reads and checks `server.json` and `server.safetensors`. Needs no file of
    /// the client's half.
    ///
    /// # Errors
    /// [`FastTextError::Store`] or [`FastTextError::Field`].
    pub fn load(directory: impl AsRef<Path>) -> Result<Self, FastTextError> {
        server::load((&directory).into()).map(|(tables, _)| tables)
    }
}

impl Model {
    /// Writes both halves into `directory`, which is created when absent. To give
    /// a client its half, copy the two `client` files and nothing else.
    ///
    /// # Errors
    /// [`FastTextError::Store`].
    pub fn save(&self, directory: impl AsRef<Path>) -> Result<(), FastTextError> {
        server::save(self.tables(), self.training(), directory.as_ref())?;
        self.encoder().save(directory)
    }

    /// Reads and checks both halves.
    ///
    /// # Errors
    /// Any of [`FastTextError`].
    pub fn load(directory: impl AsRef<Path>) -> Result<Self, FastTextError> {
        Self::read((&directory).into())
    }

    /// As [`Model::load`], of files that may be in memory.
    ///
    /// # Errors
    /// As for [`Model::load`].
    pub fn read(files: ModelFiles<'_>) -> Result<Self, FastTextError> {
        let encoder = client::load(files)?;
        let (tables, training) = server::load(files)?;
        Self::join(encoder, tables, training)
    }
}
