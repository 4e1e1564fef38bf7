//! One module per subcommand.

pub mod chat;
pub mod classify;
pub mod cluster;
pub mod connection;
pub mod demo;
pub mod devices;
pub mod digits;
pub mod doctor;
pub mod embed;
pub mod health;
pub mod keys;
pub mod llama;
pub mod matrix;
#[cfg(feature = "full")]
pub mod mcp;
pub mod model;
mod model_output;
pub mod openapi;
pub mod params;
pub mod permute;
pub mod pir;
pub mod plan;
mod plan_bootstrap;
mod plan_cache;
#[cfg(feature = "full")]
pub mod proxy;
pub mod search;
mod seed;
pub mod serve;
mod state_root;
pub mod sums;
pub mod train;
