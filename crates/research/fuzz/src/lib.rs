//! Fuzz targets for every decoder of untrusted bytes, and the valid objects that seed them.
//!
//! ```
//! use unspoken_fuzz::Target;
//!
//! let target = Target::find("wire_declaration").ok_or("no such target")?;
//! assert!((target.seeds)().iter().all(|seed| (target.run)(seed)));
//! assert!(!(target.run)(b"no declaration"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`Target`] is a decoder with a property that must hold for every accepted input. Random bytes never pass a magic
//! number or a checksum, so most mutated inputs are repaired before they are run. The repair happens in the mutator:
//! the decoder sees the final bytes, so a failing file is a reproducer without further steps. See `docs/fuzzing.md`.

pub mod chat;
pub mod ckks;
pub mod classify;
pub mod classify_head;
pub mod digits;
pub mod digits_network;
pub mod embed;
pub mod embedding;
pub mod exact;
pub mod fasttext;
mod files;
mod fixtures;
pub mod llama;
pub mod llama_halves;
pub mod matrix;
pub mod matrix_service;
mod messages;
pub mod model;
pub mod onnx;
pub mod oprf;
pub mod permute;
pub mod pir;
pub mod pir_encrypted;
mod repair;
pub mod rlwe;
pub mod search;
pub mod sums;
pub mod texts;
pub mod wire;

/// One decoder under test.
pub struct Target {
    /// Name of the target and of its corpus folder.
    pub name: &'static str,
    /// Decodes `data`, panics if the property does not hold, and returns whether the decoder accepted it.
    pub run: fn(data: &[u8]) -> bool,
    /// Repairs what random changes always break: magic numbers, counts, lengths, checksums.
    pub repair: fn(data: &mut Vec<u8>),
    /// Valid inputs; the decoder accepts each of them.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

impl Target {
    /// The target with this name, if there is one.
    pub fn find(name: &str) -> Option<&'static Target> {
        TARGETS.into_iter().find(|target| target.name == name)
    }
}

/// Every target.
pub const TARGETS: [&Target; 100] = [
    &rlwe::CIPHERTEXT,
    &rlwe::SEEDED_CIPHERTEXT,
    &rlwe::SPARSE_CIPHERTEXT,
    &rlwe::ROUNDED_CIPHERTEXT,
    &rlwe::PUBLIC_KEY,
    &rlwe::SECRET_KEY,
    &rlwe::KEY_PLAN,
    &rlwe::KEY_BUNDLE,
    &rlwe::BOOT_KEY_BUNDLE,
    &rlwe::COMPACT_QUERY,
    &rlwe::SUBRING_QUERY,
    &rlwe::SMALL_RING_KEYS,
    &ckks::CIPHERTEXT,
    &ckks::SEEDED_CIPHERTEXT,
    &exact::CIPHERTEXT,
    &exact::SEEDED_CIPHERTEXT,
    &wire::MESSAGES,
    &wire::DECLARATION,
    &wire::ANSWER,
    &classify::DESCRIBED,
    &classify::KEY_FRONT,
    &classify::QUERY,
    &classify::ANSWER,
    &fasttext::ENCODER,
    &fasttext::TABLES,
    &fasttext::MODEL_FILES,
    &digits_network::FILES_OF_NETWORK,
    &digits_network::IDX,
    &digits::DESCRIBED,
    &digits::QUERY,
    &digits::ANSWER,
    &embedding::CODES,
    &embedding::SUBTABLES,
    &embedding::NPY,
    &embedding::SAFETENSORS,
    &embedding::LINEAR_HEAD,
    &texts::DRUG_REVIEWS,
    &texts::ENRON_SPAM_CSV,
    &texts::ENRON_SPAM_MAILS,
    &onnx::MODEL,
    &onnx::OUTPUTS,
    &llama::GGUF,
    &llama::CHECKPOINT,
    &llama::SAFETENSORS,
    &llama::PREPARATION,
    &llama_halves::CLIENT,
    &llama_halves::ROTATED,
    &chat::DESCRIBED,
    &chat::KEY_FRONT,
    &chat::QUERY,
    &chat::TOKEN_QUERY,
    &chat::ANSWER,
    &chat::PART,
    &embed::DESCRIBED,
    &embed::QUERY,
    &embed::SHORT_QUERY,
    &embed::SHORT_COMPACT_QUERY,
    &embed::STRIDED_QUERY,
    &embed::ANSWER,
    &classify_head::DESCRIBED,
    &classify_head::ANSWER,
    &permute::PLAN,
    &matrix::PROGRAM,
    &matrix::SIGNATURE,
    &matrix::INPUTS,
    &matrix::RESULT,
    &matrix::KEYS,
    &matrix::SECRET,
    &matrix_service::DESCRIPTION,
    &matrix_service::QUERY,
    &matrix_service::ANSWER,
    &model::DESCRIPTION,
    &pir::DESCRIBED,
    &pir::SHARD,
    &pir::REQUEST,
    &pir::ANSWER,
    &pir::KEYS,
    &pir::BUCKET,
    &pir::CIPHERTEXTS,
    &pir::DENSE_MESSAGES,
    &oprf::DESCRIBED,
    &oprf::REQUEST,
    &oprf::ANSWER,
    &oprf::KEY,
    &oprf::RECORD,
    &sums::DESCRIBED,
    &sums::REQUEST,
    &sums::RECEIPTS,
    &sums::SUM,
    &sums::KEY,
    &pir_encrypted::UPLOAD,
    &pir_encrypted::REPLY,
    &pir_encrypted::DECLARATION,
    &search::DESCRIBED,
    &search::REQUEST,
    &search::ANSWER,
    &search::DOCUMENT,
    &search::MANIFEST,
    &search::SHARD,
    &search::SHARD_ANSWER,
];

/// One in this many mutated inputs is not repaired.
const UNREPAIRED: u32 = 8;

/// Repairs the first `size` bytes of `data` and returns the new size; bytes that no longer fit are not repaired.
pub fn repair_in_place(target: &Target, data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    if seed.is_multiple_of(UNREPAIRED) {
        return size;
    }
    let mut bytes = data[..size].to_vec();
    (target.repair)(&mut bytes);
    if bytes.len() > max_size {
        return size;
    }
    data[..bytes.len()].copy_from_slice(&bytes);
    bytes.len()
}
