//! Public keys: encryption without the secret.

use std::fmt;

use unspoken_ring::{Basis, Poly, SecretRng, Seed};

use crate::ciphertext::Ciphertext;
use crate::error::RlweError;
use crate::keys::SecretKey;
use crate::parameters::Parameters;

/// A public key: an encryption of zero `(b, a)` under the secret over all primes but the special ones, `b = -a s + e`,
/// `a` expanded from a seed. It needs no special primes, because encryption does not divide by them.
///
/// An encryption is `(b u + e_0 + m, a u + e_1)` with a fresh ternary `u` and fresh errors (Lyubashevsky, Peikert and
/// Regev, "On ideal lattices and learning with errors over rings", EUROCRYPT 2010). Its noise `e u + e_0 + e_1 s` has a
/// standard deviation of about `sigma sqrt(4n/3)` per coefficient, whereas encryption under the secret key has `sigma`.
#[derive(Clone)]
pub struct PublicKey {
    parameters: Parameters,
    pub(crate) seed: Seed,
    pub(crate) body: Poly,
    mask: Poly,
}

impl PublicKey {
    /// Generates a public key under a fresh seed and a fresh error. One per secret is enough.
    ///
    /// # Errors
    /// Only if an operation of the ring fails, which cannot happen with checked parameters.
    pub fn generate(secret: &SecretKey, rng: &mut SecretRng) -> Result<Self, RlweError> {
        let parameters = secret.parameters();
        let ring = parameters.ring();
        let (seed, error) = (rng.seed(), rng.gaussian(ring.degree()));
        let whole = Self::basis(parameters);
        let mut body = ring.small_minus_uniform_product(&error, (&seed, 0), secret.poly(), whole)?;
        // `a s + e`.
        body.declare_public();
        Ok(Self::from_parts(parameters, seed, body))
    }

    /// Expands the seed.
    pub(crate) fn from_parts(parameters: &Parameters, seed: Seed, body: Poly) -> Self {
        let mask = parameters.ring().uniform(&seed, 0, body.basis());
        PublicKey { parameters: parameters.clone(), seed, body, mask }
    }

    /// The basis of a public key: all primes but the special ones.
    pub(crate) fn basis(parameters: &Parameters) -> Basis {
        let ring = parameters.ring();
        Basis::chain(ring.chain().len()).with_terminal(ring.terminal().len())
    }

    /// The parameters it belongs to.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Sixteen bytes that identify this key. The bytes are a hash of the whole key, because the seed is public and
    /// anyone can make another key with it.
    pub fn identity(&self) -> [u8; 16] {
        let hash = blake3::derive_key("unspoken 2026 identity of a public key", &self.to_bytes());
        std::array::from_fn(|i| hash[i])
    }

    /// Bytes in memory, including the expanded seed.
    pub fn bytes(&self) -> usize {
        self.body.bytes() + self.mask.bytes()
    }

    /// Encrypts `message` (evaluation domain, no special primes) over the primes of `message`.
    ///
    /// # Errors
    /// If the message is in the coefficient domain, over special primes or of another ring.
    pub fn encrypt(&self, message: &Poly, rng: &mut SecretRng) -> Result<Ciphertext, RlweError> {
        self.encrypt_zero(message.basis(), rng)?.plus(self.parameters.ring(), message)
    }

    /// An encryption of zero. It must be used for one message only. It is secret: it and the ciphertext made from it
    /// together reveal the message.
    ///
    /// # Errors
    /// If the ring has fewer primes.
    pub fn encrypt_zero(&self, basis: Basis, rng: &mut SecretRng) -> Result<Ciphertext, RlweError> {
        let ring = self.parameters.ring();
        let n = ring.degree();
        let (ephemeral, errors) = (rng.ternary(n), [rng.gaussian(n), rng.gaussian(n)]);
        let errors = [errors[0].as_slice(), errors[1].as_slice()];
        let components = ring.small_products(&ephemeral, [&self.body, &self.mask], errors, basis)?;
        Ciphertext::new(components.into())
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PublicKey").field("parameters", &self.parameters.name()).finish_non_exhaustive()
    }
}
