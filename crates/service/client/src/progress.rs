//! How far long work is, and how much it took.

use crate::transport::{Cancel, UploadProgress};

/// Bytes that travelled and seconds that passed, since the client was made.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct UsageStats {
    /// Questions asked: messages, tokens, images or records.
    pub questions: usize,
    /// Bytes of the key bundle; 0 if the service had it already.
    pub key_bytes: u64,
    /// Bytes of all queries.
    pub query_bytes: u64,
    /// Bytes of all answers.
    pub answer_bytes: u64,
    /// Seconds making and uploading keys.
    pub key_seconds: f64,
    /// Seconds encrypting and decrypting here.
    pub client_seconds: f64,
    /// Seconds waiting for the service.
    pub server_seconds: f64,
}

/// How far long work is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress {
    /// Making switching keys.
    MakingKeys {
        /// Keys made.
        done: usize,
        /// Keys to make.
        total: usize,
    },
    /// Uploading them.
    Uploading(UploadProgress),
    /// Asking.
    Asking {
        /// What is done there, for instance "classifying".
        verb: &'static str,
        /// Questions whose answers arrived.
        done: usize,
        /// How many were asked.
        total: usize,
    },
}

/// Progress callback and cancellation of a long call.
pub(crate) struct CallControl<'a> {
    pub(crate) progress: &'a mut dyn FnMut(Progress),
    pub(crate) cancel: &'a Cancel,
}
