//! The asking side: makes keys, uploads them, asks, reads answers.

mod classify;
mod state;
pub mod transport;

pub use classify::{ClassifyClient, ClientError, Step, Usage};
pub use state::StateDir;
