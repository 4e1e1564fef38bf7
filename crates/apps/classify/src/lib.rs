#![doc = include_str!("../README.md")]

mod client;
mod description;
mod error;
mod server;

pub use client::{Classified, ClassifyClient, EncodedMessage};
pub use description::{Description, PROTOCOL_VERSION};
pub use error::ClassifyError;
pub use server::ClassifyServer;
pub use unspoken_scores::{ScoreOptions as ClassifyOptions, StageSeconds};
