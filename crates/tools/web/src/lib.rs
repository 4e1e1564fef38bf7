#![doc = include_str!("../README.md")]

mod application;
mod clear;
mod client;
mod collection;
mod conversation;
mod failure;
mod half;
mod kernels;
mod model;
mod panic;
mod progress;
mod question;
mod sampling;
mod seal;
mod security;
mod values;

pub use clear::ClearModel;
pub use client::{Client, Request};
pub use collection::{document_of, has_documents_of};
pub use conversation::Conversation;
pub use kernels::Kernels;
pub use panic::panic_place;
pub use progress::AnswerStream;
