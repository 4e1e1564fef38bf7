#![doc = include_str!("../README.md")]

mod client;
mod connect;
mod cost;
mod error;
mod progress;
mod state;
pub mod transport;

pub use client::ServiceClient;
pub use cost::Cost;
pub use error::ClientError;
pub use progress::{Progress, UsageStats};
pub use state::StateDir;
