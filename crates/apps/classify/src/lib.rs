#![doc = include_str!("../README.md")]

mod client;
mod description;
mod error;
mod fasttext;
mod head;
mod server;
mod tables;
mod text;

pub use client::{Classified, EncodedText, ScoreClient};
pub use description::{Kind, ScoreDescription, TextTokens};
pub use error::ClassifyError;
pub use fasttext::FastText;
pub use head::{Head, HeadModel, HeadTables};
pub use server::{ClassifyOptions, ScoreServer, StageSeconds};
pub use tables::{ModelTables, TokenScores};

/// The service's half of a fastText classifier.
pub type ClassifyServer = ScoreServer<FastText>;
/// The client's half of a fastText classifier.
pub type ClassifyClient = ScoreClient<FastText>;
/// The description of a fastText classifier.
pub type Description = ScoreDescription<FastText>;
/// The service's half of a linear head over embeddings.
pub type HeadServer = ScoreServer<Head>;
/// The client's half of a linear head over embeddings.
pub type HeadClient = ScoreClient<Head>;
/// The description of a linear head over embeddings.
pub type HeadDescription = ScoreDescription<Head>;

mod proto {
    #![allow(missing_docs)]
    include!(concat!(env!("OUT_DIR"), "/unspoken.classify.v1.rs"));
}
