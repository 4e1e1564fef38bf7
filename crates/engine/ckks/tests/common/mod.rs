//! A client with its keys and random values, for tests that run circuits in different ways.

#![allow(dead_code)] // Each test binary uses a part.

use unspoken_ckks::{Ciphertext, CkksParameters, Complex64, Encoder, Evaluator, Preset};
use unspoken_ring::{RingKind, SecretRng};
use unspoken_rlwe::{EvaluationKeys, KeyPlan, SecretKey};

pub const STANDARD: &str = "insecure_n11_depth9_scale50";
pub const REAL: &str = "insecure_n11_real_depth9_scale50";

pub struct Client {
    pub encoder: Encoder,
    pub secret: SecretKey,
    pub rng: SecretRng,
}

impl Client {
    pub fn new(preset: &str, seed: u64) -> Self {
        let parameters = Preset::find(preset).unwrap().build().unwrap();
        let mut rng = SecretRng::insecure_from_seed(seed);
        let secret = SecretKey::generate(parameters.rlwe(), &mut rng).unwrap();
        Client { encoder: Encoder::new(&parameters), secret, rng }
    }

    pub fn parameters(&self) -> &CkksParameters {
        self.encoder.parameters()
    }

    pub fn is_real(&self) -> bool {
        self.parameters().ring().kind() == RingKind::ConjugateInvariant
    }

    pub fn keys(&mut self, plan: &KeyPlan) -> EvaluationKeys {
        EvaluationKeys::generate(&self.secret, plan, &mut self.rng).unwrap()
    }

    pub fn evaluator<'a>(&'a self, keys: &'a EvaluationKeys) -> Evaluator<'a> {
        Evaluator::new(&self.encoder, keys)
    }

    /// Uniform in `[-1, 1)`.
    pub fn unit(&mut self) -> f64 {
        let mut bytes = [0; 4];
        self.rng.fill(&mut bytes);
        f64::from(i32::from_le_bytes(bytes)) / 2f64.powi(31)
    }

    /// Random slots with parts in `[-radius, radius)`; real ones in the real ring.
    pub fn values(&mut self, radius: f64) -> Vec<Complex64> {
        let real = self.is_real();
        let slots = self.parameters().slots();
        (0..slots)
            .map(|_| Complex64::new(radius * self.unit(), if real { 0.0 } else { radius * self.unit() }))
            .collect()
    }

    pub fn encrypt(&mut self, values: &[Complex64], level: usize) -> Ciphertext {
        let plaintext = self.encoder.encode(values, level, self.parameters().scale()).unwrap();
        self.encoder.encrypt(&plaintext, &self.secret, &mut self.rng).unwrap().expand(self.encoder.parameters())
    }

    pub fn decrypt(&self, ciphertext: &Ciphertext) -> Vec<Complex64> {
        self.encoder.decrypt(ciphertext, &self.secret).unwrap().to_vec()
    }
}
