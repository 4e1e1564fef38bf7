#![doc = include_str!("../README.md")]

mod client;
mod description;
mod error;
mod server;

pub use client::{Classified, ClassifyClient, EncodedMessage};
pub use description::{Description, PROTOCOL_VERSION};
pub use error::ClassifyError;
pub use server::{ClassifyOptions, ClassifyServer, StageSeconds};

mod proto {
    #![allow(missing_docs)]
    include!(concat!(env!("OUT_DIR"), "/unspoken.classify.v1.rs"));
}
