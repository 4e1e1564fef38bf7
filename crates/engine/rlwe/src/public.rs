//! Encryption without the secret.

use std::fmt;

use unspoken_ring::{Basis, Poly, SecretRng, Seed};

use crate::ciphertext::Ciphertext;
use crate::error::RlweError;
use crate::keys::SecretKey;
use crate::parameters::Parameters;

/// A public key: an encryption of zero `(b, a)` under the secret over all chain primes, `b = -a s + e`, `a` expanded
/// from a seed. Special primes are not needed: encryption does not divide by them.
///
/// An encryption is `(b u + e_0 + m, a u + e_1)` with a fresh ternary `u` and fresh errors (Lyubashevsky, Peikert and
/// Regev, "On ideal lattices and learning with errors over rings", EUROCRYPT 2010). Its noise `e u + e_0 + e_1 s` has a
/// deviation of about `sigma sqrt(4n/3)` per coefficient, where encryption under the secret key has `sigma`.
#[derive(Clone)]
pub struct PublicKey {
    parameters: Parameters,
    pub(crate) seed: Seed,
    pub(crate) body: Poly,
    mask: Poly,
}

impl PublicKey {
    /// Makes a public key under a fresh seed and a fresh error. One per secret is enough.
    ///
    /// # Errors
    /// Only if the ring refuses, which its own parameters rule out.
    pub fn generate(secret: &SecretKey, rng: &mut SecretRng) -> Result<Self, RlweError> {
        let parameters = secret.parameters();
        let ring = parameters.ring();
        let (seed, error) = (rng.seed(), rng.gaussian(ring.degree()));
        let whole = Basis::chain(ring.chain().len());
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

    /// The parameters it belongs to.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Sixteen bytes that tell this key from others: of a hash of all its bytes, since the seed is public and whoever
    /// likes may make a key with it.
    pub fn identity(&self) -> [u8; 16] {
        let hash = blake3::derive_key("unspoken 2026 identity of a public key", &self.to_bytes());
        std::array::from_fn(|i| hash[i])
    }

    /// Bytes in memory, its seed expanded.
    pub fn bytes(&self) -> usize {
        self.body.bytes() + self.mask.bytes()
    }

    /// Encrypts `message` (evaluation domain, chain basis) over the primes of `message`.
    ///
    /// # Errors
    /// If the message is in the coefficient domain, over special primes or of another ring.
    pub fn encrypt(&self, message: &Poly, rng: &mut SecretRng) -> Result<Ciphertext, RlweError> {
        self.encrypt_zero(message.basis().chain, rng)?.plus(self.parameters.ring(), message)
    }

    /// An encryption of zero over the first `chain` primes: whoever adds a message to it must use it once only. It is
    /// secret: whoever has it and the ciphertext made of it has the message.
    ///
    /// # Errors
    /// If the ring has fewer primes.
    pub fn encrypt_zero(&self, chain: usize, rng: &mut SecretRng) -> Result<Ciphertext, RlweError> {
        let ring = self.parameters.ring();
        let n = ring.degree();
        let (ephemeral, errors) = (rng.ternary(n), [rng.gaussian(n), rng.gaussian(n)]);
        let errors = [errors[0].as_slice(), errors[1].as_slice()];
        let components = ring.small_products(&ephemeral, [&self.body, &self.mask], errors, Basis::chain(chain))?;
        Ciphertext::new(components.into())
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PublicKey").field("parameters", &self.parameters.name()).finish_non_exhaustive()
    }
}
