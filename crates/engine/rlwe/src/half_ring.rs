//! The ring of half the degree, for short results: a result whose message is a polynomial in `X^2` is switched to a
//! secret `s'(X^2)` and sent as a ciphertext of half the degree.
//!
//! The secret `s'` has half the degree, so its keys are counted at that degree. It is derived from the main secret with
//! a hash. Like every evaluation key, the switching key assumes circular security.

use unspoken_ring::RingKind;
use zeroize::Zeroizing;

use crate::ciphertext::Ciphertext;
use crate::error::RlweError;
use crate::evaluation_keys::EvaluationKeys;
use crate::key_kind::KeyKind;
use crate::keys::SecretKey;
use crate::parameters::Parameters;
use crate::secured::{DerivedSecret, HALF_SECRET};
use crate::security::{SECURITY_BITS, max_log2_modulus, security_bits};

impl Parameters {
    /// Checks that a key to the ring of half the degree, for ciphertexts of `chain` chain primes, has 128 bits of
    /// security at that degree, or that the name begins with `insecure_`.
    ///
    /// # Errors
    /// [`RlweError::Insecure`] if not, [`RlweError::HalfRing`] if the ring is not the standard one.
    pub fn check_half_ring(&self, chain: usize) -> Result<(), RlweError> {
        let (ring, name) = (self.ring(), self.name().to_owned());
        if ring.kind() != RingKind::Standard {
            return Err(RlweError::HalfRing { name });
        }
        let (degree, found) = (ring.degree() / 2, self.log2_modulus(ring.gadget_key_basis(chain)));
        let bits = security_bits(degree, found, HALF_SECRET);
        if bits >= SECURITY_BITS || self.is_insecure() {
            return Ok(());
        }
        let needed = max_log2_modulus(degree, HALF_SECRET).unwrap_or(0.0);
        Err(RlweError::Insecure { name, degree, secret: HALF_SECRET.to_string(), found, bits, needed })
    }
}

impl SecretKey {
    /// The coefficients of the secret `s'(X^2)`.
    pub(crate) fn half_ring_secret(&self) -> Result<Zeroizing<Vec<i32>>, RlweError> {
        let degree = self.parameters().ring().degree();
        let own = self.derive(DerivedSecret::HalfRing)?.ternary(degree / 2);
        let mut embedded = Zeroizing::new(vec![0; degree]);
        embedded.iter_mut().step_by(2).zip(own.iter()).for_each(|(target, value)| *target = *value);
        Ok(embedded)
    }
}

impl Ciphertext {
    /// The same message under the secret `s'(X^2)`.
    ///
    /// # Errors
    /// If there are not two components, or the key is missing.
    pub(crate) fn to_half_ring(&self, parameters: &Parameters, keys: &EvaluationKeys) -> Result<Ciphertext, RlweError> {
        const OPERATION: &str = "switch to the ring of half the degree";
        let (ring, basis) = (parameters.ring(), self.basis());
        let key = keys.get(OPERATION, ring, KeyKind::HalfRing, basis)?;
        let [c0, c1] = self.pair(OPERATION)?;
        let [k0, k1] = ring.gadget_product(c1, key)?;
        let mut k0 = ring.divide_round(&k0, basis)?;
        ring.add_assign(&mut k0, c0)?;
        Ok(Ciphertext { components: vec![k0, ring.divide_round(&k1, basis)?] })
    }
}
