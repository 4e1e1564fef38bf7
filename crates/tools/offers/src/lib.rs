#![doc = include_str!("../README.md")]

mod chat;
mod classify;
mod device_metrics;
mod digits;
mod embed;
mod kind;
mod kinds;
mod loading;
mod matrix;
mod offer;
mod old_spellings;
mod oprf;
mod pir;
mod pir_encrypted;
mod pir_router;
mod pir_shard;
mod placement;
pub mod preparation;
mod preset;
mod private_directory;
mod publish;
mod session_directory;
mod shard_service;
mod shared;
mod sum_directory;
mod sums;

pub use device_metrics::DeviceMetrics;
pub use kind::{ClientKind, Kind, KindOption, Serving, State};
pub use kinds::{KINDS, help};
pub use loading::load;
pub use offer::Resources;
pub use oprf::read_key;
pub use pir_router::route;
pub use placement::Placement;
pub use preset::{DEFAULT_PRESET, DIGITS_PRESET, secure};
pub use sums::read_public;
