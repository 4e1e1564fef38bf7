#![doc = include_str!("../README.md")]

mod ciphertext;
mod encoding;
mod encryption;
mod error;
mod evaluator;
mod parameters;
mod presets;

pub use ciphertext::{Ciphertext, Encrypted, SeededCiphertext};
pub use encoding::{Encoder, Plaintext};
pub use encryption::EncryptionKey;
pub use error::ExactError;
pub use evaluator::Evaluator;
pub use parameters::{ExactLiteral, ExactParameters, MIN_BUDGET_BITS, Scheme};
pub use presets::{PRESETS, Preset};
