//! The sparse secret of a bootstrap, and the key switches to it and from it.
//!
//! Raising the modulus of `(c_0, c_1)` from `q` adds `q I` to the message, where `I` is a sum of one rounded term for
//! each non-zero coefficient of the secret. So the raise is done under a sparse secret, which is safe only for a small
//! modulus: a ciphertext of the lowest level is switched to the sparse secret, raised, and switched back at once
//! (Bossuat, Troncoso-Pastoriza and Hubaux, "Bootstrapping for approximate homomorphic encryption with negligible
//! failure-probability by using sparse-secret encapsulation", ACNS 2022).
//!
//! The coefficients of a raised ciphertext are small beside the raised modulus. So it is its own only digit, and keys
//! from the sparse secret have one row. These keys encrypt `s' P/D` in place of `s' P`, with `D` the product of a few
//! special primes: a raised ciphertext takes the product with a plaintext vector of scale `D`, and the division by `P`
//! after it, without losing a level (the idea is of Yan and others, "Level-conserving rescale and aggregated key
//! switch", PKC 2026, eprint 2025/1403; this form is ours). Each rotation of the raised ciphertext has a key of its
//! own, so a linear map of it needs no decomposition: one extension and one division in all.
//!
//! The sparse secret is derived from the main one with a hash, so it is never stored, and all these switching keys can
//! be made at any time. Like every evaluation key, the keys to the sparse secret and back assume circular security.

use unspoken_ring::{Basis, Image, ImageInput, Poly, Ring, RnsDigits, SubringPoly};

use crate::ciphertext::Ciphertext;
use crate::error::RlweError;
use crate::evaluation_keys::EvaluationKeys;
use crate::key_kind::KeyKind;
use crate::key_plan::KeyPlan;
use crate::keys::SecretKey;
use crate::parameters::{EncapsulationLiteral, Parameters};
use crate::secured::{DerivedSecret, query_degree};
use crate::security::SPARSE_WEIGHT;
use crate::switching::ExtendedCiphertext;

impl Parameters {
    /// The shape of the keys under the sparse secret.
    ///
    /// # Errors
    /// If these parameters are not made for bootstrapping.
    pub fn encapsulation(&self) -> Result<EncapsulationLiteral, RlweError> {
        let none = || RlweError::Encapsulation { name: self.name().into(), reason: "no such keys are defined".into() };
        self.literal().encapsulation.ok_or_else(none)
    }

    /// The scale `D` of plaintext vectors that multiply raised ciphertexts ([`Raised::product_sum`]): the product of
    /// the first two special primes.
    ///
    /// # Errors
    /// If these parameters are not made for bootstrapping, or have too few special primes.
    pub fn raised_divisor(&self) -> Result<f64, RlweError> {
        let (base, special) = (self.encapsulation()?.base, self.ring().special());
        let log2 = |primes: &[u32]| primes.iter().map(|&q| f64::from(q).log2()).sum::<f64>();
        let (divisor, rest) = special.split_at(DIVISOR_PRIMES.min(special.len()));
        let (found, needed) = (log2(rest), log2(&self.ring().chain()[..base]) + RAISED_MARGIN);
        if found < needed {
            let reason = format!(
                "{found:.0} bits of special primes after the first {DIVISOR_PRIMES}, needed {needed:.0} for keys from \
                 the sparse secret"
            );
            return Err(RlweError::Encapsulation { name: self.name().into(), reason });
        }
        Ok(divisor.iter().map(|&q| f64::from(q)).product())
    }

    /// Checks that these parameters have keys of this kind over `chain` chain primes. Under the sparse secret only the
    /// number of primes in the parameters is safe, even if a service asks for another number. Under the secret of the
    /// ring of half the degree, every number of primes is safe that leaves 128 bits of security.
    ///
    /// # Errors
    /// [`RlweError::NoSpecialPrimes`], [`RlweError::Encapsulation`] or an error of
    /// [`Parameters::check_half_ring`](Self::check_half_ring) if not.
    pub fn check_kind(&self, kind: KeyKind, chain: usize) -> Result<(), RlweError> {
        if self.ring().special().is_empty() {
            return Err(RlweError::NoSpecialPrimes { name: self.name().into(), kind });
        }
        let needed = match kind {
            KeyKind::Relinearisation | KeyKind::Galois { .. } => return Ok(()),
            KeyKind::Decapsulation { .. } => return self.raised_divisor().map(drop),
            KeyKind::SubringQuery => return query_degree(self).map(drop),
            KeyKind::HalfRing => return self.check_half_ring(chain),
            KeyKind::Encapsulation | KeyKind::QueryEncapsulation => self.encapsulation()?.primes,
        };
        if chain == needed {
            return Ok(());
        }
        let reason = format!("{kind} over {chain} primes, but only {needed} are safe and useful");
        Err(RlweError::Encapsulation { name: self.name().into(), reason })
    }
}

impl SecretKey {
    /// The sparse secret, over the whole extended basis, in the evaluation domain.
    pub(crate) fn sparse_secret(&self) -> Result<Poly, RlweError> {
        self.parameters().encapsulation()?;
        let degree = self.parameters().ring().degree();
        self.lift_secret(&self.derive(DerivedSecret::Sparse)?.sparse_ternary(degree, SPARSE_WEIGHT))
    }

    /// The message of an encapsulation key over `chain` primes: the secret that the key switches from, times the primes
    /// that the ciphertexts do not have.
    pub(crate) fn encapsulated_message(&self, kind: KeyKind, message: &Poly, chain: usize) -> Result<Poly, RlweError> {
        let ring = self.parameters().ring();
        let mut scaled = ring.restricted(message, Basis::chain(chain))?;
        let auxiliary = ring.chain()[switched_primes(self.parameters(), kind)?..chain].iter();
        for &prime in auxiliary {
            ring.scale_assign(&mut scaled, i128::from(prime))?;
        }
        Ok(scaled)
    }
}

/// Number of special primes whose product is the scale of plaintext vectors that multiply raised ciphertexts.
const DIVISOR_PRIMES: usize = 2;

/// Bits by which the other special primes exceed the modulus of level 0. The coefficients of a raised ciphertext, times
/// a plaintext vector and the errors of keys, and divided by `P`, have to be far below the rounding error of the
/// division: with `k` terms they have a deviation of less than `2^-RAISED_MARGIN sqrt(k N)` for vectors of values below
/// one.
const RAISED_MARGIN: f64 = 8.0;

/// The message of the row of a decapsulation key: a secret times `P/D`.
pub(crate) fn raised_message(ring: &Ring, secret: &Poly, basis: Basis) -> Result<Poly, RlweError> {
    times_special(ring, ring.restricted(secret, basis)?)
}

/// A polynomial times the special primes that the divisor `D` has not.
fn times_special(ring: &Ring, mut poly: Poly) -> Result<Poly, RlweError> {
    // The product of four primes of 30 bits is a valid factor.
    for primes in ring.special()[DIVISOR_PRIMES..].chunks(4) {
        ring.scale_assign(&mut poly, primes.iter().map(|&prime| i128::from(prime)).product())?;
    }
    Ok(poly)
}

/// Switches a ciphertext with the one row of an encapsulation key.
pub(crate) fn switch_by_row(ring: &Ring, [c0, c1]: [&Poly; 2], row: &[Poly; 2]) -> Result<Ciphertext, RlweError> {
    let basis = c1.basis();
    let digit = ring.extend_basis(c1, row[0].basis())?;
    let mut k0 = ring.divide_round(&ring.mul(&digit, &row[0])?, basis)?;
    ring.add_assign(&mut k0, c0)?;
    let k1 = ring.divide_round(&ring.mul(&digit, &row[1])?, basis)?;
    Ok(Ciphertext { components: vec![k0, k1] })
}

/// Number of chain primes of the ciphertexts that an encapsulation key switches.
fn switched_primes(parameters: &Parameters, kind: KeyKind) -> Result<usize, RlweError> {
    let EncapsulationLiteral { base, .. } = parameters.encapsulation()?;
    Ok(if kind == KeyKind::QueryEncapsulation { 1 } else { base })
}

impl Ciphertext {
    /// Switches a ciphertext of the lowest level to the sparse secret: from the main secret
    /// ([`KeyKind::Encapsulation`]) or from the secret of compact queries ([`KeyKind::QueryEncapsulation`]).
    ///
    /// # Errors
    /// If there are not two components over the primes that this kind of key switches, or the key is missing.
    pub fn encapsulate(
        &self,
        parameters: &Parameters,
        kind: KeyKind,
        keys: &EvaluationKeys,
    ) -> Result<Ciphertext, RlweError> {
        const OPERATION: &str = "encapsulate";
        let ring = parameters.ring();
        let EncapsulationLiteral { primes, .. } = parameters.encapsulation()?;
        let needed = Basis::chain(switched_primes(parameters, kind)?);
        let [c0, c1] = self.pair(OPERATION)?;
        let found = c1.basis();
        if found != needed {
            return Err(unspoken_ring::RingError::Basis { operation: OPERATION, found, needed }.into());
        }
        switch_by_row(ring, [c0, c1], keys.single_digit(OPERATION, kind, primes)?)
    }

    /// The same torus elements modulo the first `chain` primes: message and modulus are multiplied by the primes that
    /// the ciphertext does not have.
    ///
    /// # Errors
    /// If the ciphertext has more primes.
    pub fn scale_modulus(&self, ring: &Ring, chain: usize) -> Result<Ciphertext, RlweError> {
        let own = self.basis().chain;
        let grow = |component: &Poly| {
            let mut grown = ring.extend_basis(component, Basis::chain(chain))?;
            for &prime in ring.chain().iter().take(chain).skip(own) {
                ring.scale_assign(&mut grown, i128::from(prime))?;
            }
            Ok(grown)
        };
        Ok(Ciphertext { components: self.components.iter().map(grow).collect::<Result<_, RlweError>>()? })
    }

    /// Raises a ciphertext of the lowest level under the sparse secret to a larger basis. The message becomes
    /// `m + q I`, with `q` the modulus before and `I` a polynomial of small integers.
    ///
    /// # Errors
    /// If there are not two components, the ciphertext has more primes than the lowest level, or the parameters have no
    /// [`Parameters::raised_divisor`].
    pub fn raise(&self, parameters: &Parameters, to: Basis) -> Result<Raised, RlweError> {
        const OPERATION: &str = "raise the modulus";
        parameters.raised_divisor()?;
        let ring = parameters.ring();
        let [c0, c1] = self.pair(OPERATION)?;
        // The keys are precise enough for small coefficients alone.
        let (found, needed) = (c1.basis(), Basis::chain(parameters.encapsulation()?.base));
        if !needed.contains(found) {
            return Err(unspoken_ring::RingError::Basis { operation: OPERATION, found, needed }.into());
        }
        let extended = to.with_special();
        let scaled = times_special(ring, ring.extend_basis(c0, extended)?)?;
        Ok(Raised { scaled, digit: ring.only_digit(ring.extend_basis(c1, extended)?)? })
    }
}

/// A raised ciphertext, still under the sparse secret.
pub struct Raised {
    /// The first component times `P/D`, over an extended basis.
    scaled: Poly,
    /// The second component.
    digit: RnsDigits,
}

impl Raised {
    /// The sum of the images under `X -> X^element`, each times a plaintext polynomial over the extended basis, under
    /// the main secret. It is `P/D` times the products, and [`ExtendedCiphertext::divide`] divides by `P`: plaintext
    /// polynomials of scale `D` leave the scale as it is, and no level is lost. An element of 1 is the ciphertext
    /// itself, which needs a key, too.
    ///
    /// # Errors
    /// If there are no terms, keys are missing (the error names all of them), or a polynomial is over another basis.
    pub fn product_sum(
        &self,
        ring: &Ring,
        terms: &[(u64, &SubringPoly)],
        keys: &EvaluationKeys,
    ) -> Result<ExtendedCiphertext, RlweError> {
        const OPERATION: &str = "raise the modulus";
        let basis = self.digit.basis();
        let mut needed = KeyPlan::new();
        terms.iter().for_each(|&(element, _)| needed.require(KeyKind::Decapsulation { element }, basis.chain));
        keys.check(OPERATION, &needed)?;
        let input = ImageInput { digits: &self.digit, added: [&self.scaled, &self.scaled] };
        let image = |&(element, _): &(u64, _)| {
            let key = keys.get(OPERATION, ring, KeyKind::Decapsulation { element }, basis)?;
            Ok(Image { input, key: Some(key), galois: element })
        };
        let images = terms.iter().map(image).collect::<Result<Vec<_>, RlweError>>()?;
        let row: Vec<_> = terms.iter().map(|(_, factor)| *factor).enumerate().collect();
        let mut sums = ring.hoisted_product_sums(&images, vec![row.into()])?;
        Ok(ExtendedCiphertext { components: sums.swap_remove(0) })
    }
}
