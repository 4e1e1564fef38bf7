#![doc = include_str!("../README.md")]

mod asker;
mod classifier;
mod description;
mod error;

pub use asker::{Asker, Classified};
pub use classifier::{Classifier, StageSeconds};
pub use description::{Description, PROTOCOL_VERSION};
pub use error::ClassifyError;

mod proto {
    #![allow(missing_docs)]
    include!(concat!(env!("OUT_DIR"), "/unspoken.classify.v1.rs"));
}
