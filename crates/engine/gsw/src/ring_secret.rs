//! Secrets of a small ring, and gadget encryptions under them for storage and transfer: seeds and bodies.

use std::fmt;

use unspoken_ring::{Basis, DigitGadget, DigitKey, Poly, Ring, SecretRng, Seed};

use crate::error::{GswError, shape};
use crate::lwe::LweSecret;
use crate::parameters::BinaryRing;
use crate::rgsw::RlweCiphertext;

/// A binary secret of a small ring.
pub struct RingSecret {
    ring: BinaryRing,
    pub(crate) poly: Poly,
}

impl RingSecret {
    /// A fresh secret.
    ///
    /// # Errors
    /// If an operation of the ring fails, which cannot happen in a checked ring.
    pub fn generate(ring: &BinaryRing, rng: &mut SecretRng) -> Result<Self, GswError> {
        Self::from_lwe(ring, &LweSecret { coefficients: rng.binary(ring.degree()) })
    }

    /// The secret whose coefficients are the words of an LWE secret, so that coefficients of its ciphertexts are LWE
    /// ciphertexts under the LWE secret ([`RlweCiphertext::coefficient`]).
    ///
    /// # Errors
    /// If the LWE secret's dimension is not the ring's degree.
    pub fn from_lwe(ring: &BinaryRing, secret: &LweSecret) -> Result<Self, GswError> {
        shape("make a ring secret", secret.dimension(), ring.degree())?;
        let poly = ring.evaluate_secret_i32(&secret.coefficients, ring.basis())?;
        Ok(RingSecret { ring: ring.clone(), poly })
    }

    /// The ring.
    pub fn ring(&self) -> &BinaryRing {
        &self.ring
    }

    /// A fresh encryption of a message in the evaluation domain.
    ///
    /// # Errors
    /// If the message is not a polynomial of the ring in the evaluation domain over all its primes.
    pub fn encrypt(&self, message: &Poly, rng: &mut SecretRng) -> Result<RlweCiphertext, GswError> {
        let seed = rng.seed();
        RlweCiphertext::expand(&self.ring, &self.encrypt_seeded(message, (&seed, 0), rng)?, &seed)
    }

    /// The first component of an encryption whose second component is expanded from a stream of a seed
    /// ([`Ring::uniform`]). Each stream must be used only once under a secret.
    ///
    /// # Errors
    /// As for [`RingSecret::encrypt`].
    pub fn encrypt_seeded(&self, message: &Poly, stream: (&Seed, u32), rng: &mut SecretRng) -> Result<Poly, GswError> {
        let (ring, error) = (&self.ring, rng.gaussian(self.ring.degree()));
        let mut body = ring.small_minus_uniform_product(&error, stream, &self.poly, ring.basis())?;
        ring.add_assign(&mut body, message)?;
        // `a s + e + m`.
        body.declare_public();
        Ok(body)
    }

    /// The secret as a polynomial in the evaluation domain, for messages that encrypt it under another secret. It is
    /// marked secret.
    pub fn poly(&self) -> &Poly {
        &self.poly
    }

    /// The message and the noise, in the coefficient domain: `c_0 + c_1 s`. Secret.
    ///
    /// # Errors
    /// If the ciphertext is of another ring.
    pub fn phase(&self, ciphertext: &RlweCiphertext) -> Result<Poly, GswError> {
        let [c0, c1] = &ciphertext.0;
        let mut phase = c0.clone();
        self.ring.mul_add_assign(&mut phase, c1, &self.poly)?;
        self.ring.to_coefficients(&mut phase)?;
        Ok(phase)
    }

    /// A gadget encryption of a message: rows `weight_i m`, and for whole ciphertexts as operands (`components` is 2)
    /// also rows `weight_i m s`. `message` is in the evaluation domain.
    pub(crate) fn encrypt_rows(
        &self,
        gadget: DigitGadget,
        message: &Poly,
        components: usize,
        rng: &mut SecretRng,
    ) -> Result<SeededRows, GswError> {
        let (seed, basis) = (rng.seed(), self.ring.basis());
        let mut factor = message.clone();
        let mut bodies = Vec::with_capacity(components * gadget.levels());
        for component in 0..components {
            if component == 1 {
                self.ring.mul_assign(&mut factor, &self.poly)?;
            }
            for level in 0..gadget.levels() {
                let stream = (&seed, bodies.len() as u32);
                let error = rng.gaussian(self.ring.degree());
                let mut body = self.ring.small_minus_uniform_product(&error, stream, &self.poly, basis)?;
                let mut weighted = factor.clone();
                self.ring.scale_assign(&mut weighted, 1 << gadget.log2_weight(level))?;
                self.ring.add_assign(&mut body, &weighted)?;
                // `a s + e + weight m`.
                body.declare_public();
                bodies.push(body);
            }
        }
        Ok(SeededRows { seed, gadget, bodies })
    }
}

impl fmt::Debug for RingSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RingSecret").field("ring", &self.ring.name()).finish_non_exhaustive()
    }
}

/// A gadget encryption whose uniform halves are stored as a seed.
#[derive(Debug)]
pub struct SeededRows {
    pub(crate) seed: Seed,
    pub(crate) gadget: DigitGadget,
    pub(crate) bodies: Vec<Poly>,
}

impl SeededRows {
    /// Rows with these first components; the second component of row `i` is expanded from stream `i` of `seed`.
    pub fn new(seed: Seed, gadget: DigitGadget, bodies: Vec<Poly>) -> Self {
        SeededRows { seed, gadget, bodies }
    }

    /// Expands the rows to a key for products.
    ///
    /// # Errors
    /// If it belongs to another ring.
    pub fn expand(&self, ring: &Ring) -> Result<DigitKey, GswError> {
        let basis = Basis::chain(ring.chain().len());
        let uniform: Vec<Poly> =
            (0..self.bodies.len()).map(|row| ring.uniform(&self.seed, row as u32, basis)).collect();
        let rows: Vec<[&Poly; 2]> = self.bodies.iter().zip(&uniform).map(|(body, uniform)| [body, uniform]).collect();
        Ok(ring.digit_key(self.gadget, &rows)?)
    }
}
