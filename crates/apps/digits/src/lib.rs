#![doc = include_str!("../README.md")]

mod client;
mod description;
mod error;
mod server;

pub use client::{DigitsClient, Recognised};
pub use description::{Description, PROTOCOL_VERSION};
pub use error::DigitsError;
pub use server::DigitsServer;

mod proto {
    #![allow(missing_docs)]
    include!(concat!(env!("OUT_DIR"), "/unspoken.digits.v1.rs"));
}
