//! A client of passes: its keys, and what it encrypts and decrypts.

use ndarray::Array2;
use unspoken_ckks::{Bootstrapper, Ciphertext, Complex64, Encoder, Evaluator};
use unspoken_encrypted_llama::{EncryptedEvaluator, PassProgram};
use unspoken_encrypted_matrix::{EncryptedMatrix, Layout};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{EvaluationKeys, KeyPlan, SecretKey, SeededSmallRingKeys, SmallRingKeys};

/// Keys of a client of a program, and the matrices of its bootstraps.
pub(super) struct PassClient {
    pub(super) encoder: Encoder,
    secret: SecretKey,
    evaluation: EvaluationKeys,
    small: SmallRingKeys,
    bootstrapper: Bootstrapper,
    rng: SecretRng,
}

impl PassClient {
    /// Makes the keys of a plan, and the keys of the program's bootstraps and small ring.
    pub(super) fn new(program: &PassProgram, encoder: &Encoder, keys: &KeyPlan) -> anyhow::Result<Self> {
        let parameters = encoder.parameters();
        // These keys protect no data: a fixed seed gives every run the same numbers.
        let mut rng = SecretRng::insecure_from_seed(3);
        let secret = SecretKey::generate(parameters.rlwe(), &mut rng)?;
        let mut all = keys.clone();
        all.extend(&program.bootstrap().key_plan());
        let evaluation = EvaluationKeys::generate(&secret, &all, &mut rng)?;
        let ring = program.small_ring();
        let small = SeededSmallRingKeys::generate(ring, &secret, &mut rng)?.expand(ring)?;
        let bootstrapper = Bootstrapper::new(encoder, program.bootstrap().clone())?;
        Ok(PassClient { encoder: encoder.clone(), secret, evaluation, small, bootstrapper, rng })
    }

    pub(super) fn pass_evaluator(&self) -> EncryptedEvaluator<'_> {
        EncryptedEvaluator::new(self.evaluator(), &self.bootstrapper, &self.small)
    }

    pub(super) fn evaluator(&self) -> Evaluator<'_> {
        Evaluator::new(&self.encoder, &self.evaluation)
    }

    /// Bytes of the switching keys, the keys of the small ring included.
    pub(super) fn key_bytes(&self) -> u64 {
        self.evaluation.bytes() + self.small.bytes()
    }

    /// Encrypts vectors at a level, at the scale of the parameters.
    pub(super) fn encrypt(&mut self, vectors: &[Vec<Complex64>], level: usize) -> anyhow::Result<Vec<Ciphertext>> {
        let parameters = self.encoder.parameters();
        let mut encrypted = Vec::with_capacity(vectors.len());
        for slots in vectors {
            let plaintext = self.encoder.encode(slots, level, parameters.scale())?;
            encrypted.push(self.encoder.encrypt(&plaintext, &self.secret, &mut self.rng)?.expand(parameters));
        }
        Ok(encrypted)
    }

    pub(super) fn decrypt(&self, vectors: &[Ciphertext]) -> anyhow::Result<Vec<Vec<Complex64>>> {
        vectors.iter().map(|vector| Ok(self.encoder.decrypt(vector, &self.secret)?.to_vec())).collect()
    }

    /// Encrypts a batch of matrices at a level.
    pub(super) fn encrypt_matrices(
        &mut self,
        layout: Layout,
        matrices: &[Array2<f64>],
        level: usize,
    ) -> anyhow::Result<EncryptedMatrix<Ciphertext>> {
        let seeded = EncryptedMatrix::encrypt(&self.encoder, &self.secret, layout, matrices, level, &mut self.rng)?;
        Ok(seeded.expand(self.encoder.parameters()))
    }

    pub(super) fn decrypt_matrices(&self, matrices: &EncryptedMatrix<Ciphertext>) -> anyhow::Result<Vec<Array2<f64>>> {
        Ok(matrices.decrypt(&self.encoder, &self.secret)?)
    }
}
