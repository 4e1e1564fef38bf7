#![doc = include_str!("../README.md")]

mod encryptor;
mod error;
#[cfg(unix)]
mod file;
mod key;
mod planner;
mod pool;
#[cfg(unix)]
mod sealed_store;

pub use encryptor::{Encryptor, WhenEmpty};
pub use error::EncryptError;
#[cfg(unix)]
pub use file::{PoolFile, PoolPaths, PoolShape};
pub use key::ClientKey;
pub use planner::{EncryptionPlan, Needs};
pub use pool::{Pool, PoolOptions};
