#![doc = include_str!("../README.md")]

mod asker;
mod description;
mod error;
mod gate;
mod message;
mod retriever;

pub use asker::{Answer, Choice, Counter, Question, RecordAsker};
pub use description::{Description, PROTOCOL_VERSION};
pub use error::RetrieveError;
pub use retriever::{ClientKeys, Retriever};

mod proto {
    #![allow(missing_docs)]
    include!(concat!(env!("OUT_DIR"), "/unspoken.retrieve.v1.rs"));
}
