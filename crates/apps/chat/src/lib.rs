#![doc = include_str!("../README.md")]

mod client;
mod constant_time;
mod conversation;
mod description;
mod drafts;
mod error;
mod generation;
mod keys;
mod message;
mod part;
mod passages;
mod server;
mod session_id;
mod sessions;
mod stored;

pub use client::{Answer, ChatClient, EncodedQuestion, Logits, Question};
pub use conversation::{Conversation, PromptTokens, Wanted};
pub use description::{Description, PROTOCOL_VERSION};
pub use drafts::Drafts;
pub use error::ChatError;
pub use generation::{End, PrivateGeneration, Statistics, seeded};
pub use keys::ChatKeys;
pub use passages::Passages;
pub use server::{ChatServer, PassInput, ServedModel, ServerOptions, small_degree};
pub use session_id::SessionId;
pub use stored::SessionStore;

mod proto {
    #![allow(missing_docs)]
    include!(concat!(env!("OUT_DIR"), "/unspoken.chat.v1.rs"));
}
