//! Public-key encryption as in the paper's baseline.

use unspoken_ring::{Poly, SecretRng};
use unspoken_rlwe::{Ciphertext, SecretKey, SeededCiphertext};

use crate::error::AuditError;
use crate::space::MessageSpace;

/// Equations (7) and (8): the key `(-a s + f e, a)`, and encryption with two products and three transforms per prime.
///
/// Sound, but slow; the product uses `unspoken_rlwe::PublicKey`.
pub struct Vanilla {
    space: MessageSpace,
    key: [Poly; 2],
}

impl Vanilla {
    /// Generates the public key.
    ///
    /// # Errors
    /// If the secret belongs to other parameters.
    pub fn generate(space: &MessageSpace, secret: &SecretKey, rng: &mut SecretRng) -> Result<Self, AuditError> {
        let ring = space.ring();
        let zero = SeededCiphertext::encrypt_zero(secret, space.basis(), rng)?.expand(ring);
        // f (-a s + e, a): a uniform second component stays uniform.
        let scaled = |component: &Poly| {
            let mut component = component.clone();
            space.scale_error(&mut component)?;
            Ok::<Poly, AuditError>(component)
        };
        let key = [scaled(&zero.components()[0])?, scaled(&zero.components()[1])?];
        Ok(Vanilla { space: space.clone(), key })
    }

    /// The message space that it encrypts.
    pub fn space(&self) -> &MessageSpace {
        &self.space
    }

    /// `(pk_1 u + f e_1 + m, pk_2 u + f e_2)` with a ternary `u`, for a message of [`MessageSpace::encode`].
    ///
    /// # Errors
    /// If the message belongs to another ring.
    pub fn encrypt(&self, message: &Poly, rng: &mut SecretRng) -> Result<Ciphertext, AuditError> {
        let ring = self.space.ring();
        let mut ephemeral = ring.from_i32(&rng.ternary(ring.degree()), self.space.basis())?;
        ephemeral.mark_secret();
        ring.to_evaluation(&mut ephemeral)?;
        let mut components = [fresh_error(&self.space, rng)?, fresh_error(&self.space, rng)?];
        for (component, key) in components.iter_mut().zip(&self.key) {
            ring.mul_add_assign(component, key, &ephemeral)?;
        }
        ring.add_assign(&mut components[0], message)?;
        Ok(Ciphertext::new(components.into())?)
    }
}

/// `f e` for a fresh Gaussian `e`, in the evaluation domain.
pub(super) fn fresh_error(space: &MessageSpace, rng: &mut SecretRng) -> Result<Poly, AuditError> {
    let ring = space.ring();
    let mut error = ring.from_i32(&rng.gaussian(ring.degree()), space.basis())?;
    error.mark_secret();
    ring.to_evaluation(&mut error)?;
    space.scale_error(&mut error)?;
    Ok(error)
}
