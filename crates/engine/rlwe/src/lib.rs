#![doc = include_str!("../README.md")]

mod ciphertext;
mod codec;
mod encapsulation;
mod error;
mod keys;
mod parameters;
mod public;
mod query;
pub mod security;
mod switching;
mod zero;

pub use ciphertext::{Ciphertext, SeededCiphertext};
pub use codec::{FORMAT_VERSION, HEADER_BYTES, KeyBundle, MAX_BUNDLE_KEYS};
pub use error::RlweError;
pub use keys::{EvaluationKeys, KeyKind, KeyPlan, SecretKey, SeededSwitchingKey, galois, generate_keys, slot_count};
pub use parameters::{
    EncapsulationLiteral, Fingerprint, INSECURE_PREFIX, Parameters, ParametersLiteral, SecuredObject,
};
pub use public::PublicKey;
pub use query::{Query, QueryParameters, QuerySecret};
pub use switching::{ExtendedCiphertext, Hoisted};
pub use zero::{Fresh, Zero};
