//! Uploads to databases of encrypted entries: requests of their owner to the application that answers from them.
//!
//! They are requests of the same application, told apart from queries by their checksum. Each shows the owner's write
//! key, which is derived from the client's secret and the layout; the service has its hash from the declaration. That
//! key is checked before anything else of a request. Sizes are bounded by the limit on queries before a request is
//! read; then numbers and residues of entries are checked (`UploadedDatabase::stage`). All operations may be repeated.

mod client;
mod message;
mod server;

pub use client::{UploadClient, UploadQuestion};
pub use server::EncryptedServer;
