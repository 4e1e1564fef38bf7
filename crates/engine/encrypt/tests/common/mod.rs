//! A client in a small insecure ring.

#![allow(dead_code)] // Each test binary uses a part.

use std::sync::Arc;

use unspoken_ckks::{CkksParameters, Complex64, Encoder, Encrypted, Preset};
use unspoken_encrypt::ClientKey;
use unspoken_ring::{Basis, SecretRng};
use unspoken_rlwe::{PublicKey, SecretKey, ZeroEncryption};

pub struct Client {
    pub parameters: CkksParameters,
    pub encoder: Encoder,
    pub secret: Arc<SecretKey>,
    pub public: Arc<PublicKey>,
    pub rng: SecretRng,
}

impl Client {
    pub fn new(seed: u64) -> Self {
        // A ring of its own, as another process has it.
        let literal = Preset::find("insecure_n11_linear_depth4_scale30").unwrap().literal().unwrap();
        let parameters = CkksParameters::new(literal).unwrap();
        let mut rng = SecretRng::insecure_from_seed(seed);
        let secret = SecretKey::generate(parameters.rlwe(), &mut rng).unwrap();
        let public = PublicKey::generate(&secret, &mut rng).unwrap();
        let encoder = Encoder::new(&parameters);
        Client { parameters, encoder, secret: Arc::new(secret), public: Arc::new(public), rng }
    }

    pub fn keys(&self) -> [ClientKey; 2] {
        [ClientKey::Secret(Arc::clone(&self.secret)), ClientKey::Public(Arc::clone(&self.public))]
    }

    /// Number of primes of the highest level.
    pub fn basis(&self) -> Basis {
        self.parameters.basis(self.parameters.max_level())
    }

    pub fn entry_bytes(&self, key: &ClientKey) -> usize {
        ZeroEncryption::memory_bytes(self.parameters.rlwe(), self.basis(), key.is_seeded())
    }

    /// The largest difference between the decrypted slots and `values`, which are repeated to fill the slots.
    pub fn error(&self, sent: Encrypted, values: &[Complex64]) -> f64 {
        let slots = self.encoder.decrypt(&sent.expand(&self.parameters), &self.secret).unwrap();
        assert_eq!(slots.len(), self.parameters.slots());
        slots.iter().zip(values.iter().cycle()).map(|(a, b)| (a - b).norm()).fold(0.0, f64::max)
    }

    /// The bytes of a zero, which identify it.
    pub fn bytes(&self, zero: ZeroEncryption) -> Vec<u8> {
        zero.into_bytes(self.parameters.rlwe()).unwrap().to_vec()
    }
}

/// Six standard deviations of the noise of a slot of a public-key encryption, divided by the scale.
pub const TOLERANCE: f64 = 6.0 * 3.19 * 2048.0 * 1.2 / (1u64 << 29) as f64;
