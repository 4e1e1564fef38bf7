#![doc = include_str!("../README.md")]

mod allowance;
mod budgets;
mod client;
mod description;
mod error;
mod server;

pub use allowance::Allowance;
pub use client::{Question, UnsealClient};
pub use description::{Description, PROTOCOL_VERSION};
pub use error::UnsealError;
pub use server::UnsealServer;

mod proto {
    #![allow(missing_docs)]
    include!(concat!(env!("OUT_DIR"), "/unspoken.unseal.v1.rs"));
}
