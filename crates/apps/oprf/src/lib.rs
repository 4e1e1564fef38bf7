#![doc = include_str!("../README.md")]

mod allowance;
mod budgets;
mod client;
mod description;
mod error;
mod server;

pub use allowance::Allowance;
pub use client::{OprfClient, Question};
pub use description::{Description, PROTOCOL_VERSION};
pub use error::OprfError;
pub use server::OprfServer;

mod proto {
    #![allow(missing_docs)]
    include!(concat!(env!("OUT_DIR"), "/unspoken.oprf.v1.rs"));
}
