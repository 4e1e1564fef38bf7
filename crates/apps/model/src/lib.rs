#![doc = include_str!("../README.md")]

mod bootstraps;
mod client;
mod compiled;
mod description;
mod error;
mod interface;
mod options;
mod output;
mod report;
mod row;
mod server;
mod simulated;
mod stored;
mod wiped;

pub use bootstraps::BootstrapReport;
pub use client::{ModelClient, Predicted};
pub use compiled::CompiledModel;
pub use description::{Description, Input, PROTOCOL_VERSION};
pub use error::ModelError;
pub use interface::{InputShape, Interface};
pub use options::CompileOptions;
pub use output::{Gives, OutputShape};
pub use report::{FunctionReport, Report};
pub use row::{EncodedRow, Row};
pub use server::ModelServer;
pub use simulated::SimulatedModel;
pub use wiped::WipedArrays;

mod proto {
    #![allow(missing_docs)]
    include!(concat!(env!("OUT_DIR"), "/unspoken.model.v1.rs"));
}
