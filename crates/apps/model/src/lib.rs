#![doc = include_str!("../README.md")]

mod bootstraps;
mod client;
mod compiled;
mod description;
mod error;
mod interface;
mod row;
mod server;
mod stored;

pub use bootstraps::BootstrapReport;
pub use client::{ModelClient, Predicted};
pub use compiled::{CompiledModel, Report};
pub use description::{Description, Input, PROTOCOL_VERSION};
pub use error::ModelError;
pub use interface::{InputShape, Interface};
pub use row::Row;
pub use server::ModelServer;

mod proto {
    #![allow(missing_docs)]
    include!(concat!(env!("OUT_DIR"), "/unspoken.model.v1.rs"));
}
