#![doc = include_str!("../README.md")]

mod ciphertext;
mod codec;
mod compact_query;
mod encapsulation;
mod error;
mod keys;
mod parameters;
mod public;
pub mod security;
mod switching;
mod zero_encryption;

pub use ciphertext::{Ciphertext, SeededCiphertext};
pub use codec::{FORMAT_VERSION, HEADER_BYTES, KeyBundle, MAX_BUNDLE_KEYS};
pub use compact_query::{CompactQuery, CompactQueryParameters, CompactQuerySecret};
pub use error::RlweError;
pub use keys::{EvaluationKeys, KeyKind, KeyPlan, SecretKey, SeededSwitchingKey, galois, generate_keys, slot_count};
pub use parameters::{
    EncapsulationLiteral, Fingerprint, INSECURE_PREFIX, Parameters, ParametersLiteral, SecuredObject,
};
pub use public::PublicKey;
pub use switching::{ExtendedCiphertext, Hoisted};
pub use zero_encryption::{FreshCiphertext, ZeroEncryption};
