#![doc = include_str!("../README.md")]

mod ciphertext;
mod codec;
mod compact_query;
mod encapsulation;
mod error;
mod evaluation_keys;
mod half_ring;
mod key_plan;
mod keys;
mod parameters;
mod public;
mod rounded;
mod secured;
pub mod security;
mod small_ring;
mod small_ring_keys;
mod subring_query;
mod switching;
mod zero_encryption;

pub use ciphertext::{Ciphertext, SeededCiphertext};
pub use codec::{FORMAT_VERSION, HEADER_BYTES, KeyBundle, MAX_BUNDLE_KEYS};
pub use compact_query::{CompactQuery, CompactQueryParameters, CompactQuerySecret};
pub use error::RlweError;
pub use evaluation_keys::{EvaluationKeys, WorkId};
pub use key_plan::{KeyPlan, KeyStorage, generate_keys};
pub use keys::{KeyKind, SecretKey, SeededSwitchingKey, galois, slot_count};
pub use parameters::{EncapsulationLiteral, Fingerprint, INSECURE_PREFIX, Parameters, ParametersLiteral};
pub use public::PublicKey;
pub use rounded::RoundedCiphertext;
pub use secured::SecuredObject;
pub use small_ring::{RowPlaces, SmallRing};
pub use small_ring_keys::{SeededSmallRingKeys, SmallRingKeys};
pub use subring_query::{SubringQuery, SubringQueryParameters, SubringQuerySecret};
pub use switching::{ExtendedCiphertext, Hoisted};
pub use zero_encryption::{FreshCiphertext, ZeroEncryption};
