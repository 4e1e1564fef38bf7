#![doc = include_str!("../README.md")]

mod chat;
mod classify;
mod device_metrics;
mod digits;
mod embed;
mod follow;
mod kind;
mod kinds;
mod loading;
mod matrix;
mod model;
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
mod routing;
mod search;
mod search_documents;
mod search_router;
mod search_shard;
mod session_directory;
mod shard_service;
mod shared;
mod sum_directory;
mod sums;

pub use device_metrics::DeviceMetrics;
pub use kind::{ClientKind, Kind, KindOption, Serving, State};
pub use kinds::{KINDS, help};
pub use loading::{load, without_directories};
pub use offer::Resources;
pub use oprf::read_key;
pub use placement::Placement;
pub use preset::{DEFAULT_PRESET, DIGITS_PRESET, secure};
pub use sums::read_public;

/// Adds what several shards serve elsewhere, as one application of this name. `kind` is that of the router. A thread
/// looks at the shards as long as they are served.
///
/// # Errors
/// If the name is not valid, a shard does not answer, they do not fit each other, or no router is of this kind.
pub fn route<A: unspoken_protocol::ShardAccess>(
    kind: &str,
    name: &str,
    shards: Vec<A>,
    applications: unspoken_server::Applications,
) -> anyhow::Result<unspoken_server::Applications> {
    match kind {
        "pir-router" => pir_router::route(name, shards, applications),
        "search-router" => search_router::route(name, shards, applications),
        _ => anyhow::bail!("no router of kind {kind:?}; choose pir-router or search-router"),
    }
}
