#![doc = include_str!("../README.md")]

mod client;
mod error;
mod oprf;
mod record;
mod sealing;
mod service;

pub use client::Blinded;
pub use error::SymmetricPirError;
pub use oprf::{MAX_ELEMENTS, request_bytes, response_bytes};
pub use record::{LABEL_BYTES, OVERHEAD_BYTES, RecordKey};
pub use sealing::{DATABASE_ID_BYTES, MAX_RECORD_BYTES, Name, PUBLIC_KEY_BYTES, Sealing};
pub use service::ServiceKey;

#[cfg(test)]
mod vectors;
