#![doc = include_str!("../README.md")]

mod any_half;
mod call;
mod checksum;
mod ckks;
mod client_half;
mod client_id;
mod counters;
mod error;
mod every;
mod handshake;
mod header;
mod key_set;
mod keyring;
mod kind;
pub mod limits;
mod opened;
mod pir;
mod progress;
mod registration;
mod replay;
mod server_half;
mod shard_problem;
mod shards;
mod share;
pub mod together;
mod transfer;

pub use any_half::{AnyError, AnyHalf};
pub use call::{AnswerHelpers, Call};
pub use checksum::{CHECKSUM_BYTES, append_checksum, append_description_checksum, checked, checked_description};
pub use ckks::{CkksClientHalf, CkksDescription, CkksServerHalf, check_device};
pub use client_half::{ApplicationDescription, ClientHalf, KeyGenerator};
pub use client_id::ClientId;
pub use counters::{DurableCounters, NoCounters};
pub use error::{ApplicationError, ErrorKind, PlainError, ProtocolError};
pub use every::read_every;
pub use handshake::{CkksPresets, Handshake, ParameterFamily};
pub use header::CkksHeader;
pub use key_set::KeySetId;
pub use keyring::Keyring;
pub use kind::{Protocol, application_kind};
pub use opened::{AnyRequest, HalfRequest, OpenedError, OpenedHalf};
pub use pir::PirPresets;
pub use progress::AnswerProgress;
pub use registration::Registration;
pub use replay::{ReplayGuard, SeedGuard};
pub use server_half::{Group, KeyLimits, KeyLoader, Limits, Request, ServerHalf};
pub use shard_problem::ShardProblem;
pub use shards::{Agreement, ForwardedKeys, ShardAccess, ShardFailure, Shards};
pub use share::{SharingNoise, simulated_error_bound};
pub use transfer::{output_bytes, rounded_output_bytes, rounded_output_deviation, write_output, write_rounded_output};
#[doc(hidden)]
pub use zeroize::Zeroizing;

mod v1 {
    #![allow(missing_docs)]
    include!(concat!(env!("OUT_DIR"), "/unspoken.protocol.v1.rs"));
}
