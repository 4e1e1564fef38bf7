//! Zinc: one cached encryption of zero for all messages.

use unspoken_ring::{Domain, Poly, SecretRng};
use unspoken_rlwe::Ciphertext;

use crate::error::AuditError;
use crate::insecure_reproduction::vanilla::{Vanilla, fresh_error};
use crate::space::MessageSpace;

/// Algorithm 1. Broken: [`Difference`](crate::attack::Difference) recovers every message from one known one.
pub struct Zinc {
    space: MessageSpace,
    /// The cached encryption of zero, to which every message is added.
    zero: Ciphertext,
}

impl Zinc {
    /// Precomputation: one encryption of zero.
    ///
    /// # Errors
    /// Only if the ring refuses the operation, which its own parameters rule out.
    pub fn new(vanilla: &Vanilla, rng: &mut SecretRng) -> Result<Self, AuditError> {
        let space = vanilla.space().clone();
        let zero = vanilla.encrypt(&space.ring().zero(space.basis(), Domain::Evaluation), rng)?;
        Ok(Zinc { space, zero })
    }

    /// `(zero_1 + m + f e_1', zero_2 + f e_2')`: two transforms per prime, no product.
    ///
    /// # Errors
    /// If the message belongs to another ring.
    pub fn encrypt(&self, message: &Poly, rng: &mut SecretRng) -> Result<Ciphertext, AuditError> {
        let ring = self.space.ring();
        let mut components = Vec::with_capacity(2);
        for zero in self.zero.components() {
            let mut component = fresh_error(&self.space, rng)?;
            ring.add_assign(&mut component, zero)?;
            components.push(component);
        }
        ring.add_assign(&mut components[0], message)?;
        Ok(Ciphertext::new(components)?)
    }
}
