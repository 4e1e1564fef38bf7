#![doc = include_str!("../README.md")]

mod description;
mod error;
mod server;
mod tables;
mod text;

pub use description::ScoreDescription;
pub use error::ScoreError;
pub use server::{ScoreOptions, ScoreServer, StageSeconds};
pub use tables::TokenScores;
pub use text::EncodedText;

mod proto {
    #![allow(missing_docs)]
    include!(concat!(env!("OUT_DIR"), "/unspoken.scores.v1.rs"));
}
