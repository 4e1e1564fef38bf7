#![doc = include_str!("../README.md")]

mod asker;
mod description;
mod embedder;
mod error;

pub use asker::TokenAsker;
pub use description::{Description, PROTOCOL_VERSION};
pub use embedder::{Embedder, EmbedderOptions};
pub use error::EmbedError;

mod proto {
    #![allow(missing_docs)]
    include!(concat!(env!("OUT_DIR"), "/unspoken.embed.v1.rs"));
}
