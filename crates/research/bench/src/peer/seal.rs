//! Microsoft SEAL's encoding and encryption (`research/peers/seal_peer.py`).

use std::path::Path;

use serde::Deserialize;
use serde_json::json;

use super::{PeerProcess, PeerTimes, python, script};
use crate::clock::Clock;

const SCRIPT: &str = "seal_peer.py";

/// A running SEAL with one context, its keys and one vector.
pub(crate) struct Seal {
    process: PeerProcess,
    clock: Clock,
    /// Its parameters.
    pub(crate) setup: SealSetup,
}

/// Requested parameters of SEAL: total bits and number of primes; the last prime is the special one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SealRequest {
    pub(crate) log_n: u32,
    pub(crate) log_qp: u32,
    pub(crate) primes: u32,
    pub(crate) special_bits: u32,
    /// The plaintext modulus of BFV; `None` for CKKS. tenseal does not have SEAL's BGV.
    pub(crate) plain_modulus: Option<u32>,
}

/// The parameters SEAL runs with, as it reports them.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct SealSetup {
    pub(crate) version: String,
    /// Number of primes of a ciphertext.
    pub(crate) towers: usize,
    pub(crate) log2_q: f64,
    pub(crate) log2_qp: f64,
    /// `TC128`, or `none` for small rings.
    pub(crate) security_level: String,
    pub(crate) ciphertext_bytes: SealBytes,
}

/// Bytes of ciphertexts in SEAL's own serialisation.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct SealBytes {
    pub(crate) encrypt_public: u64,
    pub(crate) encrypt_symmetric_seeded: u64,
}

/// The calls that can be timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SealCall {
    /// A vector of all slots, from a Python list.
    Encode,
    /// One number, the same in all slots.
    EncodeOne,
    /// Public-key encryption: over all primes, then divided by the special prime.
    Public,
    /// A public-key encryption of zero over all primes, without the division and without a message.
    PublicZeroOfAllPrimes,
    /// Encryption under the secret key.
    Symmetric,
    /// Encryption under the secret key, with the uniform half kept as a seed.
    SymmetricSeeded,
}

impl SealCall {
    fn name(self) -> &'static str {
        match self {
            SealCall::Encode => "encode",
            SealCall::EncodeOne => "encode_one",
            SealCall::Public => "encrypt_public",
            SealCall::PublicZeroOfAllPrimes => "encrypt_public_zero_of_all_primes",
            SealCall::Symmetric => "encrypt_symmetric",
            SealCall::SymmetricSeeded => "encrypt_symmetric_seeded",
        }
    }
}

impl Seal {
    pub(crate) const NAME: &str = "SEAL";

    /// Whether `make peers` has been run in the repository at `root`.
    pub(crate) fn is_set_up(root: &Path) -> bool {
        python(root).exists() && script(root, SCRIPT).exists()
    }

    /// Starts the process, which creates its context and keys and checks by decryption the calls it will time.
    pub(crate) fn start(root: &Path, request: SealRequest, clock: Clock) -> anyhow::Result<Self> {
        let mut process = PeerProcess::open(Self::NAME, root, SCRIPT)?;
        let SealRequest { log_n, log_qp, primes, special_bits, plain_modulus } = request;
        let mut command = json!({
            "cmd": "setup", "scheme": "ckks", "log_n": log_n, "log_qp": log_qp, "primes": primes,
            "special_bits": special_bits,
        });
        if let Some(modulus) = plain_modulus {
            (command["scheme"], command["plain_modulus"]) = ("bfv".into(), modulus.into());
        }
        let setup = process.ask(&command)?;
        Ok(Seal { process, clock, setup })
    }

    /// Seconds of one call.
    pub(crate) fn time(&mut self, call: SealCall) -> anyhow::Result<f64> {
        let times: PeerTimes = self.process.ask(&json!({ "cmd": "time", "op": call.name(), "reps": 1 }))?;
        times.first(Self::NAME, self.clock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_contexts_of_seal_are_understood() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
        if !Seal::is_set_up(&root) {
            println!("skipped: SEAL is not set up; `make peers` sets it up");
            return;
        }
        let request = SealRequest { log_n: 11, log_qp: 167, primes: 4, special_bits: 17, plain_modulus: None };
        let exact = SealRequest { plain_modulus: Some(65537), ..request };
        let mut seal = Seal::start(&root, exact, Clock::Cpu).unwrap();
        assert!(seal.time(SealCall::SymmetricSeeded).unwrap() > 0.0 && seal.time(SealCall::Encode).unwrap() > 0.0);
        let mut seal = Seal::start(&root, request, Clock::Cpu).unwrap();
        let SealSetup { towers, log2_q, log2_qp, security_level, .. } = &seal.setup;
        assert_eq!((*towers, security_level.as_str()), (3, "none"));
        assert!((log2_q - 150.0).abs() < 0.1 && (log2_qp - 167.0).abs() < 1.1, "{log2_q} {log2_qp}");
        let bytes = &seal.setup.ciphertext_bytes;
        assert!(bytes.encrypt_public > 19 * bytes.encrypt_symmetric_seeded / 10, "{bytes:?}");
        let public = seal.time(SealCall::Public).unwrap();
        assert!(public > 0.0 && seal.time(SealCall::EncodeOne).unwrap() < public);
    }
}
