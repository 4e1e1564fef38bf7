//! Progress of long calls, and usage counters.

use crate::cost::Cost;
use crate::transport::{Cancel, UploadProgress};

/// Bytes sent and received, and seconds spent, since the client was made.
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
    /// Seconds spent making and uploading keys.
    pub key_seconds: f64,
    /// Seconds spent encrypting and decrypting.
    pub client_seconds: f64,
    /// Seconds spent waiting for the service.
    pub server_seconds: f64,
}

impl UsageStats {
    /// What was added since an earlier look.
    #[must_use]
    pub fn since(self, earlier: UsageStats) -> Self {
        UsageStats {
            questions: self.questions - earlier.questions,
            key_bytes: self.key_bytes - earlier.key_bytes,
            query_bytes: self.query_bytes - earlier.query_bytes,
            answer_bytes: self.answer_bytes - earlier.answer_bytes,
            key_seconds: self.key_seconds - earlier.key_seconds,
            client_seconds: self.client_seconds - earlier.client_seconds,
            server_seconds: self.server_seconds - earlier.server_seconds,
        }
    }

    /// With the bytes and seconds of another client that helps to answer the same questions.
    #[must_use]
    pub fn with_helper(self, other: UsageStats) -> Self {
        UsageStats {
            questions: self.questions,
            key_bytes: self.key_bytes + other.key_bytes,
            query_bytes: self.query_bytes + other.query_bytes,
            answer_bytes: self.answer_bytes + other.answer_bytes,
            key_seconds: self.key_seconds + other.key_seconds,
            client_seconds: self.client_seconds + other.client_seconds,
            server_seconds: self.server_seconds + other.server_seconds,
        }
    }
}

/// Progress of a long call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress {
    /// Before keys are made and uploaded: the service does not have this client's keys.
    KeysToSend {
        /// Bytes of the key bundle.
        bytes: u64,
    },
    /// Before queries are sent: what they will take.
    QueriesToSend(Cost),
    /// Making switching keys.
    MakingKeys {
        /// Keys made.
        done: usize,
        /// Keys to make.
        total: usize,
    },
    /// Uploading the keys.
    Uploading(UploadProgress),
    /// Sending queries.
    Asking {
        /// The activity, for instance "classifying".
        verb: &'static str,
        /// Questions whose answers have arrived.
        done: usize,
        /// Questions in total.
        total: usize,
    },
    /// The service computes the answer to the query that was sent last. Only applications whose answers take seconds
    /// report this. The numbers are the service's; if the query is sent again, they begin again.
    Answering {
        /// Steps done.
        done: u32,
        /// Steps in total, at least one.
        total: u32,
    },
}

/// Progress callback and cancellation of a long call.
pub(crate) struct CallControl<'a> {
    pub(crate) progress: &'a mut dyn FnMut(Progress),
    pub(crate) cancel: &'a Cancel,
}
