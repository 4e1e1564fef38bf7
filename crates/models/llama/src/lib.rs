#![doc = include_str!("../README.md")]

mod attention;
mod cache;
mod chat_template;
mod config;
mod constant_time;
mod error;
mod forward;
mod generate;
mod halves;
mod linear;
mod observe;
mod published;
mod rotation;
mod sampling;
mod statistics;
mod stops;
mod tokenizer;
mod weights;

pub use attention::rotate_positions;
pub use cache::KvCache;
pub use chat_template::{ChatTemplate, Message, Prompt, Rendering};
pub use config::{Attention, Config};
pub use error::InputError;
pub use forward::Model;
pub use generate::{Generation, perplexity, perplexity_after};
pub use halves::{ClientModel, Coverage, DraftTexts, RotatedModel};
pub use linear::{linear, with_bias};
pub use observe::{Observer, Step};
pub use published::{SHAPES, published};
pub use rotation::{Prefix, PrefixSearch, find_prefix, fold_norms, rotate, round_weights};
pub use sampling::{Chosen, MAX_ALTERNATIVES, Probabilities, Sampler, Sampling, Scored};
pub use statistics::{Range, Statistics};
pub use stops::StopStream;
pub use tokenizer::{SPACE, TextStream, Tokenizer};
pub use weights::{AttentionVectors, LayerWeights, TensorName, Weights};
