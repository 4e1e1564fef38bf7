#![doc = include_str!("../README.md")]

mod client;
mod description;
mod error;
mod server;

pub use client::{EncodedTokens, LayerClient, LayerModel, ScoredText};
pub use description::{Description, PROTOCOL_VERSION};
pub use error::LayerError;
pub use server::LayerServer;
pub use unspoken_scores::ScoreOptions as LayerOptions;

mod proto {
    #![allow(missing_docs)]
    include!(concat!(env!("OUT_DIR"), "/unspoken.layer.v1.rs"));
}
