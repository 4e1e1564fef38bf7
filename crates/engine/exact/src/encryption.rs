//! Encryption, decryption, and measurement of the noise of a ciphertext.
//!
//! Both schemes use the same encryption, `c_0 + c_1 s = M + e`. BFV uses `M = round(Q m / t)`; BGV uses `M = m / t`
//! modulo `Q` and multiplies the result by `t`, which gives `m + t e`. As `t` is invertible modulo `Q`, the second
//! component stays uniform, so encryptions of zero work for both schemes.

use unspoken_ring::{Poly, SecretRng, declassify};
use unspoken_rlwe::{self as rlwe, FreshCiphertext, PublicKey, SecretKey, ZeroEncryption};

use crate::ciphertext::{Ciphertext, Encrypted, SeededCiphertext};
use crate::encoding::{Encoder, Plaintext};
use crate::error::ExactError;
use crate::parameters::{ExactParameters, MIN_BUDGET_BITS, Scheme};

/// Largest magnitude of a coefficient of a sampled error: the sampler returns no larger ones.
const MAX_ERROR: f64 = 30.0;

/// The key of a fresh encryption, which determines the bound on its error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncryptionKey {
    /// The secret key: one sampled error.
    Secret,
    /// A public key: `e u + e_0 + e_1 s`, with `u` and `s` ternary.
    Public,
}

impl EncryptionKey {
    fn max_error(self, degree: usize) -> f64 {
        match self {
            EncryptionKey::Secret => MAX_ERROR,
            EncryptionKey::Public => MAX_ERROR * (2 * degree + 1) as f64,
        }
    }

    /// `log2` of the bound on the noise of a fresh encryption; in BGV, of message plus noise.
    fn noise_bits(self, parameters: &ExactParameters) -> f64 {
        let (t, max_error) = (f64::from(parameters.plain_modulus()), self.max_error(parameters.slots()));
        match parameters.scheme() {
            // The rounding of the message.
            Scheme::Bfv => (max_error + 0.5).log2(),
            Scheme::Bgv => (t * max_error + t / 2.0).log2(),
        }
    }
}

impl ExactParameters {
    /// The noise budget of a fresh encryption in bits, as [`Ciphertext::budget_bits`] tells it. The sum of `k` fresh
    /// encryptions has `log2 k` bits less, and needs [`MIN_BUDGET_BITS`].
    pub fn fresh_budget_bits(&self, key: EncryptionKey) -> f64 {
        self.log2_noise_limit() - key.noise_bits(self)
    }
}

impl Encoder {
    /// Encrypts under the secret key, with a fresh seed and a fresh error.
    ///
    /// # Errors
    /// If secret and plaintext belong to different parameters.
    pub fn encrypt(
        &self,
        plaintext: &Plaintext,
        secret: &SecretKey,
        rng: &mut SecretRng,
    ) -> Result<SeededCiphertext, ExactError> {
        let inner = rlwe::SeededCiphertext::encrypt(secret, &self.message(plaintext)?, rng)?;
        Ok(SeededCiphertext { inner, parameters: self.parameters.clone() })
    }

    /// Encrypts under a public key. The result is noisier than the result of [`Encoder::encrypt`] and twice as long;
    /// see [`PublicKey`].
    ///
    /// # Errors
    /// If key and plaintext belong to different parameters.
    pub fn encrypt_public(
        &self,
        plaintext: &Plaintext,
        key: &PublicKey,
        rng: &mut SecretRng,
    ) -> Result<Ciphertext, ExactError> {
        self.import_fresh(key.encrypt(&self.message(plaintext)?, rng)?, EncryptionKey::Public)
    }

    /// Encrypts with a precomputed encryption of zero, over the whole chain: one addition, after the message is lifted
    /// to the chain.
    ///
    /// # Errors
    /// If the encryption of zero has fewer primes or belongs to other parameters. It is consumed on an error, too.
    pub fn encrypt_with(&self, plaintext: &Plaintext, zero: ZeroEncryption) -> Result<Encrypted, ExactError> {
        Ok(match zero.plus(self.parameters.ring(), &self.message(plaintext)?)? {
            FreshCiphertext::Seeded(inner) => {
                Encrypted::Seeded(SeededCiphertext { inner, parameters: self.parameters.clone() })
            }
            FreshCiphertext::Full(inner) => Encrypted::Full(self.import_fresh(inner, EncryptionKey::Public)?),
        })
    }

    /// The ring element that represents a plaintext in an encryption: `round(Q m / t)` for BFV, `m / t` modulo `Q` for
    /// BGV. [`Encoder::import_fresh`] imports an encryption of it that was made outside this crate. Evaluation domain,
    /// whole chain.
    ///
    /// # Errors
    /// If the plaintext belongs to other parameters.
    pub fn message(&self, plaintext: &Plaintext) -> Result<Poly, ExactError> {
        self.parameters.check_same("encrypt", plaintext.parameters())?;
        plaintext.message()
    }

    /// Makes a ciphertext of this crate from a fresh encryption of [`Encoder::message`] that was made outside this
    /// crate.
    ///
    /// # Errors
    /// If it does not have two components over the whole chain of these parameters, or the error leaves no noise
    /// budget.
    pub fn import_fresh(&self, fresh: rlwe::Ciphertext, key: EncryptionKey) -> Result<Ciphertext, ExactError> {
        import_fresh(&self.parameters, fresh, key)
    }

    /// Decodes the phase, which is the message plus its noise in the coefficient domain, as [`SecretKey::decrypt`]
    /// returns it: `round(t x / Q)` in BFV, `x` modulo `t` in BGV. Does not check that the noise is small enough.
    ///
    /// # Errors
    /// If the polynomial belongs to another ring or is in the evaluation domain.
    pub fn plaintext_of_phase(&self, phase: &Poly) -> Result<Plaintext, ExactError> {
        let (ring, t) = (self.parameters.ring(), self.parameters.plain_modulus());
        let residues = match self.parameters.scheme() {
            Scheme::Bfv => ring.scale_round(phase, t)?,
            Scheme::Bgv => ring.remainders(phase, t)?,
        };
        Ok(self.plaintext(&residues))
    }

    /// Decrypts, and checks the measured noise.
    ///
    /// # Errors
    /// [`ExactError::MeasuredNoise`] if less than [`MIN_BUDGET_BITS`] of noise budget are left, so that the result
    /// could be wrong. An error, too, if secret and ciphertext belong to different parameters.
    pub fn decrypt(&self, ciphertext: &Ciphertext, secret: &SecretKey) -> Result<Plaintext, ExactError> {
        let (plaintext, noise) = self.open("decrypt", ciphertext, secret)?;
        let limit = (self.parameters.log2_noise_limit() - MIN_BUDGET_BITS).exp2().min(f64::MAX);
        if declassify(noise <= limit) {
            return Ok(plaintext);
        }
        Err(ExactError::MeasuredNoise { operation: "decrypt", needed: MIN_BUDGET_BITS })
    }

    /// The noise budget in bits, measured with the secret: at least [`Ciphertext::budget_bits`] for an honest
    /// ciphertext (up to the rounding of a BFV message, one half of a unit), and about 0 for one that decrypts wrong.
    ///
    /// # Errors
    /// If secret and ciphertext belong to different parameters.
    pub fn measured_budget_bits(&self, ciphertext: &Ciphertext, secret: &SecretKey) -> Result<f64, ExactError> {
        let (_, noise) = self.open("measure the noise", ciphertext, secret)?;
        Ok(self.parameters.log2_noise_limit() - noise.max(1.0).log2())
    }

    /// The plaintext, and the largest coefficient of the noise. No branch depends on them.
    fn open(
        &self,
        operation: &'static str,
        ciphertext: &Ciphertext,
        secret: &SecretKey,
    ) -> Result<(Plaintext, f64), ExactError> {
        self.parameters.check_same(operation, ciphertext.parameters())?;
        let ring = self.parameters.ring();
        let mut phase = secret.decrypt(&ciphertext.inner)?;
        let plaintext = self.plaintext_of_phase(&phase)?;
        if self.parameters.scheme() == Scheme::Bfv {
            let mut exact = plaintext.summand()?;
            ring.to_coefficients(&mut exact)?;
            ring.sub_assign(&mut phase, &exact)?;
        }
        let noise = ring.to_f64(&phase)?;
        // Numbers that are not negative have the order of their bits, which are compared without a branch.
        let largest = noise.iter().fold(0, |largest: u64, x| largest.max(x.abs().to_bits()));
        Ok((plaintext, f64::from_bits(largest)))
    }
}

impl SeededCiphertext {
    /// Expands the seed.
    ///
    /// # Errors
    /// Only if an operation of the ring fails, which cannot happen with checked parameters.
    pub fn expand(&self) -> Result<Ciphertext, ExactError> {
        import_fresh(&self.parameters, self.inner.expand(self.parameters.ring()), EncryptionKey::Secret)
    }
}

fn import_fresh(
    parameters: &ExactParameters,
    mut fresh: rlwe::Ciphertext,
    key: EncryptionKey,
) -> Result<Ciphertext, ExactError> {
    const OPERATION: &str = "import a fresh encryption";
    if fresh.components().len() != 2 || fresh.basis() != parameters.basis() {
        let found = format!("{} components over {}", fresh.components().len(), fresh.basis());
        let needed = format!("2 components over {}", parameters.basis());
        return Err(ExactError::Parameters { operation: OPERATION, found, needed });
    }
    if parameters.scheme() == Scheme::Bgv {
        for component in fresh.components_mut() {
            parameters.ring().scale_assign(component, i128::from(parameters.plain_modulus()))?;
        }
    }
    Ciphertext::checked(OPERATION, parameters, fresh, key.noise_bits(parameters))
}
