#![doc = include_str!("../README.md")]

mod asker;
mod description;
mod error;
mod recogniser;

pub use asker::{ImageAsker, Recognised};
pub use description::{Description, PROTOCOL_VERSION};
pub use error::DigitsError;
pub use recogniser::Recogniser;

mod proto {
    #![allow(missing_docs)]
    include!(concat!(env!("OUT_DIR"), "/unspoken.digits.v1.rs"));
}
