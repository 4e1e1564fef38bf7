//! Ciphertexts and their encryption under a secret key.

use unspoken_ring::{Basis, Domain, Poly, Ring, SecretRng, Seed};

use crate::error::RlweError;
use crate::keys::SecretKey;
use crate::parameters::Parameters;

/// `(c_0, c_1, ...)` with `sum_i c_i s^i = m + e`: two components, or three before relinearisation.
///
/// Components are in the evaluation domain over one common basis.
#[derive(Clone, Debug)]
pub struct Ciphertext {
    pub(crate) components: Vec<Poly>,
}

impl Ciphertext {
    /// Moves it to the memory of this process, if only a device has it.
    ///
    /// # Errors
    /// If the device failed.
    pub fn fetch(&mut self, parameters: &Parameters) -> Result<(), RlweError> {
        Ok(self.components.iter_mut().try_for_each(|component| parameters.ring().fetch(component))?)
    }

    /// Wraps components.
    ///
    /// # Errors
    /// If there are not two or three, or they differ in basis or are in the coefficient domain.
    pub fn new(components: Vec<Poly>) -> Result<Self, RlweError> {
        let found = components.len();
        let uniform = components.iter().all(|c| {
            c.domain() == Domain::Evaluation && components.first().is_some_and(|first| first.basis() == c.basis())
        });
        if !(2..=3).contains(&found) || !uniform {
            return Err(RlweError::Components { operation: "make a ciphertext", found, needed: 2 });
        }
        Ok(Ciphertext { components })
    }

    /// The trivial encryption of zero: `(0, 0)`.
    pub fn zero(ring: &Ring, basis: Basis) -> Self {
        let zero = || ring.zero(basis, Domain::Evaluation);
        Ciphertext { components: vec![zero(), zero()] }
    }

    /// The components, `c_0` first.
    pub fn components(&self) -> &[Poly] {
        &self.components
    }

    /// The components, mutable; all must stay over one basis.
    pub fn components_mut(&mut self) -> &mut [Poly] {
        &mut self.components
    }

    /// The basis of the components.
    pub fn basis(&self) -> Basis {
        self.components[0].basis()
    }

    /// The same message plus `message` (evaluation domain, no special primes), over the primes of `message`. One
    /// addition. The result is a ciphertext to be sent: public, even if an encryption of zero is secret.
    ///
    /// # Errors
    /// If `message` has more primes, is in the coefficient domain or of another ring.
    pub fn plus(self, ring: &Ring, message: &Poly) -> Result<Self, RlweError> {
        let mut components = Vec::with_capacity(self.components.len());
        for (i, component) in self.components.into_iter().enumerate() {
            components.push(if i == 0 {
                sum_over(ring, component, message)?
            } else if component.basis() == message.basis() {
                component
            } else {
                ring.restricted(&component, message.basis())?
            });
        }
        // `a s + e + m`.
        components.iter_mut().for_each(Poly::declare_public);
        Ok(Ciphertext { components })
    }

    /// The two components of a relinearised ciphertext.
    pub(crate) fn pair(&self, operation: &'static str) -> Result<[&Poly; 2], RlweError> {
        match self.components.as_slice() {
            [c0, c1] => Ok([c0, c1]),
            more => Err(RlweError::Components { operation, found: more.len(), needed: 2 }),
        }
    }
}

/// `a + message` over the primes of `message`.
fn sum_over(ring: &Ring, mut a: Poly, message: &Poly) -> Result<Poly, RlweError> {
    if a.basis() != message.basis() {
        a = ring.restricted(&a, message.basis())?;
    }
    ring.add_assign(&mut a, message)?;
    Ok(a)
}

/// A fresh encryption whose uniform half is a seed: half the bytes of a [`Ciphertext`].
#[derive(Clone, Debug)]
pub struct SeededCiphertext {
    pub(crate) seed: Seed,
    pub(crate) body: Poly,
}

impl SeededCiphertext {
    /// Encrypts `message` (evaluation domain, no special primes) under a fresh seed and a fresh error.
    ///
    /// # Errors
    /// If the message is in the coefficient domain, over special primes or of another ring.
    pub fn encrypt(secret: &SecretKey, message: &Poly, rng: &mut SecretRng) -> Result<Self, RlweError> {
        let seed = rng.seed();
        Self::encrypt_with_seed(secret, message, seed, rng)
    }

    /// As [`SeededCiphertext::encrypt`], under a fresh seed of the caller that is used for nothing else.
    pub(crate) fn encrypt_with_seed(
        secret: &SecretKey,
        message: &Poly,
        seed: Seed,
        rng: &mut SecretRng,
    ) -> Result<Self, RlweError> {
        let ring = secret.parameters().ring();
        let error = rng.gaussian(ring.degree());
        let mut body = ring.small_minus_uniform_product(&error, (&seed, 0), secret.poly(), message.basis())?;
        ring.add_assign(&mut body, message)?;
        // `a s + e + m`.
        body.declare_public();
        Ok(SeededCiphertext { seed, body })
    }

    /// An encryption of zero, under a fresh seed and a fresh error. It must be used for one message only. It is secret:
    /// it and the ciphertext made from it together reveal the message.
    ///
    /// # Errors
    /// If the ring has fewer primes.
    pub fn encrypt_zero(secret: &SecretKey, basis: Basis, rng: &mut SecretRng) -> Result<Self, RlweError> {
        let ring = secret.parameters().ring();
        let (seed, error) = (rng.seed(), rng.gaussian(ring.degree()));
        let body = ring.small_minus_uniform_product(&error, (&seed, 0), secret.poly(), basis)?;
        Ok(SeededCiphertext { seed, body })
    }

    /// The same message plus `message` (evaluation domain, no special primes), over the primes of `message`. One
    /// addition.
    ///
    /// # Errors
    /// If `message` has more primes, is in the coefficient domain or of another ring.
    pub fn plus(self, ring: &Ring, message: &Poly) -> Result<Self, RlweError> {
        let mut body = sum_over(ring, self.body, message)?;
        // `a s + e + m`.
        body.declare_public();
        Ok(SeededCiphertext { seed: self.seed, body })
    }

    /// The basis of its modulus.
    pub fn basis(&self) -> Basis {
        self.body.basis()
    }

    /// The public seed, which no two queries may share.
    pub fn seed(&self) -> &Seed {
        &self.seed
    }

    /// Expands the seed.
    pub fn expand(&self, ring: &Ring) -> Ciphertext {
        let mask = ring.uniform(&self.seed, 0, self.body.basis());
        Ciphertext { components: vec![self.body.clone(), mask] }
    }
}

impl SecretKey {
    /// Encrypts `message` (evaluation domain, no special primes).
    ///
    /// # Errors
    /// As for [`SeededCiphertext::encrypt`].
    pub fn encrypt(&self, message: &Poly, rng: &mut SecretRng) -> Result<Ciphertext, RlweError> {
        Ok(SeededCiphertext::encrypt(self, message, rng)?.expand(self.parameters().ring()))
    }

    /// `sum_i c_i s^i`: the message plus its noise, in the coefficient domain. Secret.
    ///
    /// # Errors
    /// If the ciphertext belongs to another ring.
    pub fn decrypt(&self, ciphertext: &Ciphertext) -> Result<Poly, RlweError> {
        let ring = self.parameters().ring();
        let mut reversed = ciphertext.components.iter().rev();
        let Some(last) = reversed.next() else {
            return Err(RlweError::Components { operation: "decrypt", found: 0, needed: 2 });
        };
        let key = ring.restricted(self.poly(), ciphertext.basis())?;
        let mut sum = last.clone();
        for component in reversed {
            ring.mul_assign(&mut sum, &key)?;
            ring.add_assign(&mut sum, component)?;
        }
        ring.to_coefficients(&mut sum)?;
        Ok(sum)
    }
}
