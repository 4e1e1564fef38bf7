//! Errors of this crate.

use std::path::PathBuf;

/// Characters of a name from a file that an error shows.
const SHOWN: usize = 100;

/// A model could not be read, or could not be run.
#[derive(Debug, thiserror::Error)]
pub enum OnnxError {
    /// A file could not be opened or read.
    #[error("read {path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A model, or a part of it, is damaged or not supported.
    #[error("read the ONNX model: {place}: found {found}, needed {needed}; {remedy}")]
    Refused {
        /// The part of the model: the node with its operator and output, the tensor, the input or the output.
        place: String,
        /// What was found.
        found: String,
        /// What was needed.
        needed: String,
        /// What to do.
        remedy: String,
    },
    /// Outputs in bytes are damaged or not supported.
    #[error("read the outputs of a network: {place}: found {found}, needed {needed}; ask the service for them again")]
    Outputs {
        /// The part: the bytes, a result, or the output with the number of its step.
        place: String,
        /// What was found.
        found: String,
        /// What was needed.
        needed: String,
    },
    /// The inputs of a run, or the results for a finish, do not fit the network.
    #[error("run the network: found {found}, needed {needed}")]
    Run {
        /// What was found.
        found: String,
        /// What was needed.
        needed: String,
    },
}

/// Why a part of a model is refused; [`Refusal::at`] adds which part.
#[derive(Debug)]
pub(crate) struct Refusal {
    found: String,
    needed: String,
    remedy: String,
}

impl Refusal {
    /// A refusal with what was found, what was needed and what to do.
    pub fn new(found: impl Into<String>, needed: impl Into<String>, remedy: impl Into<String>) -> Self {
        Refusal { found: found.into(), needed: needed.into(), remedy: remedy.into() }
    }

    /// A refusal of a model that does not follow the standard.
    pub fn broken(found: impl Into<String>, needed: impl Into<String>) -> Self {
        Refusal::new(found, needed, "write the model again, and check it with `onnx.checker.check_model`")
    }

    /// The error for this part of the model.
    pub fn at(self, place: impl Into<String>) -> OnnxError {
        OnnxError::Refused { place: place.into(), found: self.found, needed: self.needed, remedy: self.remedy }
    }

    /// The error for this part of outputs in bytes.
    pub fn of_outputs(self, place: impl Into<String>) -> OnnxError {
        OnnxError::Outputs { place: place.into(), found: self.found, needed: self.needed }
    }
}

/// A name from a file for a message: in quotation marks, escaped and shortened.
pub(crate) fn quoted(name: &str) -> String {
    match name.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{:?}...", &name[..end]),
        None => format!("{name:?}"),
    }
}

pub(crate) fn run_error(found: impl Into<String>, needed: impl Into<String>) -> OnnxError {
    OnnxError::Run { found: found.into(), needed: needed.into() }
}
