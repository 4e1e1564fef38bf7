#![doc = include_str!("../README.md")]

mod client;
mod description;
mod error;
mod server;
mod strided;

pub use client::{EmbedClient, EncodedToken};
pub use description::{Description, PROTOCOL_VERSION};
pub use error::EmbedError;
pub use server::{EmbedOptions, EmbedServer};

mod proto {
    #![allow(missing_docs)]
    include!(concat!(env!("OUT_DIR"), "/unspoken.embed.v1.rs"));
}
