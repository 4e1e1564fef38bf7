#![doc = include_str!("../README.md")]

mod bytes;
mod client;
mod description;
mod error;
mod graph_bytes;
mod keys;
mod messages;
mod noise;
mod planner;
mod precision;
mod preset;
mod program;
mod secret;
mod secret_id;
mod server;
mod shape;
mod signature;

pub use client::{EncodedInputs, MatrixClient, NamedArrays};
pub use description::{Description, PROTOCOL_VERSION};
pub use error::MatrixError;
pub use keys::Keys;
pub use messages::{EncryptedInputs, EncryptedResult};
pub use planner::Options;
pub use precision::Precision;
pub use program::{Program, ProgramSource};
pub use secret::Secret;
pub use server::MatrixServer;
pub use shape::{ArrayShape, Axes};
pub use signature::{Input, Signature};

mod proto {
    #![allow(missing_docs)]
    include!(concat!(env!("OUT_DIR"), "/unspoken.matrix.v1.rs"));
}
pub use unspoken_encrypted_matrix::PlanCache;
