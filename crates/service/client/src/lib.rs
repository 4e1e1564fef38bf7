//! The asking side: makes keys, uploads them, asks, reads answers.

mod classify;
mod client;
mod digits;
mod embed;
mod retrieve;
mod session;
mod state;
pub mod transport;

pub use classify::ClassifyClient;
pub use client::Client;
pub use digits::DigitsClient;
pub use embed::EmbedClient;
pub use retrieve::RetrieveClient;
pub use session::{ClientError, Step, Usage};
pub use state::StateDir;
pub use unspoken_encrypt::{Needs, Plan};
pub use unspoken_pir::Mode;
pub use unspoken_retrieve::{Answer, Question};
