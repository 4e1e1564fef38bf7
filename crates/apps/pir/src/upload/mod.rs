//! Uploads to databases of encrypted entries: requests of their owner to the application that answers from them.

mod client;
mod message;
mod server;

pub use client::{UploadClient, UploadQuestion};
pub use server::EncryptedServer;
