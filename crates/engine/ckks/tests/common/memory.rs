//! Compares estimates of memory to measured allocations. Tests of circuits share this module. A test that uses it must
//! be the only test of its binary, so that no other test allocates at the same time.

#![allow(dead_code)] // Each test binary uses a part.

use std::sync::atomic::AtomicBool;

use peak_alloc::PeakAlloc;
use unspoken_ckks::{
    Ciphertext, CkksError, CkksParameters, Complex64, Encoder, Evaluator, Plaintext, Preset, SeededCiphertext,
};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{EvaluationKeys, KeyBundle, KeyPlan, KeyStorage, SecretKey};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Bytes that are currently allocated.
pub fn allocated() -> u64 {
    ALLOCATOR.current_usage() as u64
}

/// Peak bytes that `work` allocates, in addition to bytes allocated before.
pub fn peak<T>(work: impl FnOnce() -> T) -> (T, u64) {
    ALLOCATOR.reset_peak_usage();
    let before = ALLOCATOR.current_usage();
    let result = work();
    (result, (ALLOCATOR.peak_usage() - before) as u64)
}

/// Comparisons of estimates. All are made before one that fails ends the test.
#[derive(Default)]
pub struct Checks(Vec<String>);

impl Checks {
    /// Notes if the estimate is no bound, or more than `slack` times what is taken.
    pub fn check(&mut self, what: &str, measured: u64, estimate: u64, slack: f64) {
        let ratio = estimate as f64 / measured as f64;
        let line = format!("{what}: {measured} bytes measured, {estimate} estimated, {ratio:.2} times as many");
        println!("{line}");
        if !(1.0..=slack).contains(&ratio) {
            self.0.push(line);
        }
    }

    /// Notes if two estimates are further apart than this factor.
    pub fn agree(&mut self, what: &str, counted: u64, estimate: u64, factor: f64) {
        let ratio = estimate as f64 / counted as f64;
        let line = format!("{what}: {counted} bytes counted, {estimate} estimated, {ratio:.2} times as many");
        println!("{line}");
        if !(1.0 / factor..=factor).contains(&ratio) {
            self.0.push(line);
        }
    }

    /// That nothing was noted.
    pub fn finish(self) {
        assert!(self.0.is_empty(), "{:#?}", self.0);
    }
}

/// Parameters of a preset with a ring of their own, without the freed buffers of other runs.
pub fn own_parameters(preset: &str) -> CkksParameters {
    CkksParameters::new(Preset::find(preset).unwrap().literal().unwrap()).unwrap()
}

/// State of a server: its own ring, which keeps only freed buffers of its own runs, and the keys and ciphertexts of a
/// client.
pub struct Server {
    pub encoder: Encoder,
    pub keys: EvaluationKeys,
    pub inputs: Vec<Ciphertext>,
}

impl Server {
    /// A server with a client's keys and `inputs` encrypted vectors at a level and a scale.
    pub fn new(preset: &str, plan: &KeyPlan, inputs: usize, (level, scale): (usize, f64)) -> Self {
        let (mut bundle, mut vectors) = (Vec::new(), Vec::new());
        {
            let parameters = own_parameters(preset);
            let encoder = Encoder::new(&parameters);
            let mut rng = SecretRng::insecure_from_seed(1);
            let secret = SecretKey::generate(parameters.rlwe(), &mut rng).unwrap();
            KeyBundle::write(&secret, plan, &mut rng, &mut bundle, |_, _| (), &AtomicBool::new(false)).unwrap();
            let value = |i: usize| Complex64::from((i % 7) as f64 / 7.0);
            let values: Vec<Complex64> = (0..parameters.slots()).map(value).collect();
            let plaintext = encoder.encode(&values, level, scale).unwrap();
            for _ in 0..inputs {
                vectors.push(encoder.encrypt(&plaintext, &secret, &mut rng).unwrap().to_bytes(&parameters));
            }
        }
        let parameters = own_parameters(preset);
        let keys = KeyBundle::read(parameters.rlwe(), KeyStorage::Expanded, &mut bundle.as_slice()).unwrap();
        let read = |bytes: &Vec<u8>| SeededCiphertext::from_bytes(&parameters, bytes).unwrap().expand(&parameters);
        let inputs = vectors.iter().map(read).collect();
        Server { encoder: Encoder::new(&parameters), keys, inputs }
    }

    /// An encryption under a fresh key, for vectors whose values do not matter.
    pub fn encrypt(&self, plaintext: &Plaintext) -> Result<Ciphertext, CkksError> {
        let parameters = self.encoder.parameters();
        let mut rng = SecretRng::insecure_from_seed(2);
        let secret = SecretKey::generate(parameters.rlwe(), &mut rng).unwrap();
        Ok(self.encoder.encrypt(plaintext, &secret, &mut rng)?.expand(parameters))
    }

    pub fn evaluator(&self) -> Evaluator<'_> {
        Evaluator::new(&self.encoder, &self.keys)
    }
}
