//! The cases: calls of the engine and of clients with secret inputs.

mod applications;
mod chat;
mod ckks;
mod exact;
mod leak;
mod models;
mod oprf;
mod pools;
mod queries;
mod retrieval;
mod sampling;
mod search;
mod sums;

use std::path::Path;

use unspoken_ring::SecretRng;
use zeroize::Zeroizing;

use super::memcheck::mark_secret;

/// Calls with secret inputs, run in a process of their own under valgrind.
pub struct Case {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it runs, and what is secret.
    pub about: &'static str,
    /// Writes what the case reads to a directory, outside valgrind: the work of a server, which has no secrets.
    pub prepare: Option<fn(&Path) -> anyhow::Result<()>>,
    /// Runs the calls. The directory is empty, or has what `prepare` wrote.
    pub run: fn(&Path) -> anyhow::Result<()>,
}

impl Case {
    const fn new(name: &'static str, about: &'static str, run: fn(&Path) -> anyhow::Result<()>) -> Self {
        Case { name, about, prepare: None, run }
    }

    const fn prepared(self, prepare: fn(&Path) -> anyhow::Result<()>) -> Self {
        Case { prepare: Some(prepare), ..self }
    }
}

/// A function that branches on a secret: every run begins with it, and ends if it is not reported.
pub static LEAK: Case = Case::new("deliberate-leak", "a function that branches on a secret", leak::run);

/// All cases.
pub static CASES: [Case; 24] = [
    Case::new("sampling", "secrets and errors of every distribution; the generator is secret", sampling::run),
    Case::new("ckks-keys", "secret, public and switching keys; the generator is secret", ckks::keys),
    Case::new("ckks-encoding", "encoding of messages; the messages are secret", ckks::encoding),
    Case::new("ckks-encryption", "encryption; key, messages and generator are secret", ckks::encryption),
    Case::new("ckks-decryption", "decryption and decoding; the key is secret", ckks::decryption),
    Case::new("exact-encryption", "BFV and BGV encryption; key, messages and generator are secret", exact::encryption),
    Case::new("exact-decryption", "BFV and BGV decryption; the key is secret", exact::decryption),
    Case::new("pools", "pools of encryptions of zero; key and generator are secret", pools::run),
    Case::new("retrieval-keys", "keys of private retrieval; secret and generator are secret", retrieval::keys),
    Case::new("retrieval-queries", "all kinds of queries; secret, index and generator are secret", retrieval::queries),
    Case::new("retrieval-reading", "reading a response; secret and index are secret", retrieval::reading)
        .prepared(retrieval::prepare_reading),
    Case::new("get-by-key", "a client's question by key and its answer; secret and key are secret", retrieval::by_key)
        .prepared(retrieval::prepare_by_key),
    Case::new("get-by-index", "a client's question by index; secret and index are secret", retrieval::by_index)
        .prepared(retrieval::prepare_by_index),
    Case::new(
        "search-queries",
        "choosing blocks and encrypting a vector; vector, secret and generator are secret",
        search::asking,
    )
    .prepared(search::prepare_queries),
    Case::new("search-reading", "decrypting and ranking scores; secret and vector are secret", search::reading)
        .prepared(search::prepare_reading),
    Case::new("oprf", "a client that asks for the key of a record and opens it; its name is secret", oprf::run),
    Case::new("sums", "contributions, and a collector that decrypts sums; key and values are secret", sums::run),
    Case::new(
        "index-queries",
        "direct, one-hot and compact queries; key, indices and generator are secret",
        queries::run,
    ),
    Case::new("classify-reading", "a client that reads scores; the key is secret", applications::classify)
        .prepared(applications::prepare_classify),
    Case::new(
        "classify-head-reading",
        "a client that reads the scores of a head; the key is secret",
        applications::layer,
    )
    .prepared(applications::prepare_layer),
    Case::new("digits", "a client's images and scores; key and pixels are secret", applications::digits)
        .prepared(applications::prepare_digits),
    Case::new(
        "model",
        "a client's rows of a model of one's own, inside and outside their ranges; key and numbers are secret",
        models::run,
    )
    .prepared(models::prepare),
    Case::new("matrix", "a client's inputs and results; key and entries are secret", applications::matrix)
        .prepared(applications::prepare_matrix),
    Case::new("chat", "a client's chunk of tokens and its logits; key and tokens are secret", chat::run)
        .prepared(chat::prepare),
];

/// The case with a name.
pub fn find(name: &str) -> Option<&'static Case> {
    CASES.iter().chain([&LEAK]).find(|case| case.name == name)
}

/// Secret bytes. Their values are the same in every run: only their marks matter.
fn secret_bytes(count: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..count).map(|i| (i * 167 + 29) as u8).collect();
    mark_secret(&mut bytes);
    bytes
}

/// A secret key of 32 bytes.
fn secret_key() -> Zeroizing<[u8; 32]> {
    let mut key = Zeroizing::new([0; 32]);
    key.copy_from_slice(&secret_bytes(32));
    key
}

/// A generator with a secret key, so that all its output is secret: errors, secrets, and public seeds, too.
fn secret_generator() -> SecretRng {
    SecretRng::derived("unspoken 2026 constant-time checks", &[&secret_bytes(32)])
}

/// Secret real numbers from -1 to 1.
fn secret_numbers(count: usize) -> Vec<f64> {
    let mut numbers: Vec<f64> = (0..count).map(|i| ((i * 7919 + 13) % 2001) as f64 / 1000.0 - 1.0).collect();
    mark_secret(&mut numbers);
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each case ends without an error, outside valgrind too: `make storm` would stop at one whose input has rotted.
    #[test]
    fn every_case_can_be_prepared_and_run() {
        for case in &CASES {
            let directory = tempfile::tempdir().unwrap();
            if let Some(prepare) = case.prepare {
                prepare(directory.path()).unwrap_or_else(|error| panic!("prepare {}: {error:?}", case.name));
            }
            (case.run)(directory.path()).unwrap_or_else(|error| panic!("run {}: {error:?}", case.name));
        }
    }
}
