//! Parameter sets: a literal, checked once, becomes an immutable object.

use std::sync::Arc;

use unspoken_ring::{Backend, Basis, Ring, RingKind, RingLiteral};

use crate::error::RlweError;
use crate::security::{SECURITY_BITS, SecretDistribution, max_log2_modulus, security_bits};

/// The prefix without which nothing under 128 bits builds.
pub const INSECURE_PREFIX: &str = "insecure_";

/// The numbers of a parameter set.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ParametersLiteral {
    /// Its name; begins with `insecure_` if and only if it may have less than 128 bits.
    pub name: String,
    /// Ring, chain, special primes and digits.
    pub ring: RingLiteral,
    /// The distribution of secrets.
    pub secret: SecretDistribution,
}

/// A checked parameter set and its ring. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Parameters(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    literal: ParametersLiteral,
    ring: Ring,
    fingerprint: Fingerprint,
}

/// Identifies a parameter set in serialised data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 16]);

/// One kind of object under a secret and its security, for reports.
#[derive(Clone, Debug, PartialEq)]
pub struct SecuredObject {
    /// What it is.
    pub what: &'static str,
    /// Ring degree.
    pub degree: usize,
    /// Bits of its modulus.
    pub log2_modulus: f64,
    /// The secret's distribution.
    pub secret: SecretDistribution,
    /// Deviation of its errors.
    pub sigma: f64,
    /// Its security level, at most 128 (see [`security_bits`]).
    pub security_bits: f64,
}

impl Parameters {
    /// Checks the security of the literal and builds its ring on the fastest backend of this machine.
    ///
    /// # Errors
    /// If the ring cannot be built, or the largest modulus (chain times special primes, which the key-switching keys
    /// use) leaves less than 128 bits and the name does not begin with `insecure_`.
    pub fn new(literal: ParametersLiteral) -> Result<Self, RlweError> {
        Self::with_backend(literal, Backend::detect())
    }

    /// As [`Parameters::new`], on a backend of choice.
    ///
    /// # Errors
    /// As for [`Parameters::new`], or if the backend is not available here.
    pub fn with_backend(literal: ParametersLiteral, backend: Backend) -> Result<Self, RlweError> {
        let degree = literal.ring.degree;
        let found = log2_product(literal.ring.chain.iter().chain(&literal.ring.special));
        let bits = security_bits(degree, found, literal.secret);
        if bits < SECURITY_BITS && !literal.name.starts_with(INSECURE_PREFIX) {
            return Err(RlweError::Insecure {
                name: literal.name,
                degree,
                secret: literal.secret.to_string(),
                found,
                bits,
                needed: max_log2_modulus(degree, literal.secret).unwrap_or(0.0),
            });
        }
        let ring = Ring::new(literal.ring.clone(), backend)?;
        let fingerprint = Fingerprint::of(&literal);
        Ok(Parameters(Arc::new(Inner { literal, ring, fingerprint })))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.literal.name
    }

    /// Whether it may have less than 128 bits; nothing outside tests and benchmarks accepts such a set.
    pub fn is_insecure(&self) -> bool {
        self.name().starts_with(INSECURE_PREFIX)
    }

    /// The ring.
    pub fn ring(&self) -> &Ring {
        &self.0.ring
    }

    /// The numbers it was built from.
    pub fn literal(&self) -> &ParametersLiteral {
        &self.0.literal
    }

    /// A hash of the literal without its name, to tell whether serialised data fit.
    pub fn fingerprint(&self) -> Fingerprint {
        self.0.fingerprint
    }

    /// Bits of the product of the primes of `basis`.
    pub fn log2_modulus(&self, basis: Basis) -> f64 {
        self.ring().primes(basis).map(|q| f64::from(q).log2()).sum()
    }

    /// Every kind of object under the secret, with its security.
    pub fn secured_objects(&self) -> Vec<SecuredObject> {
        let chain = self.ring().chain().len();
        let object = |what, basis| {
            let (degree, secret) = (self.ring().degree(), self.literal().secret);
            let log2_modulus = self.log2_modulus(basis);
            let security_bits = security_bits(degree, log2_modulus, secret);
            SecuredObject { what, degree, log2_modulus, secret, sigma: unspoken_ring::ERROR_SIGMA, security_bits }
        };
        vec![
            object("ciphertext", Basis::chain(chain)),
            object("key-switching key", Basis { chain, special: !self.ring().special().is_empty() }),
        ]
    }
}

impl Fingerprint {
    fn of(literal: &ParametersLiteral) -> Self {
        let mut hasher = blake3::Hasher::new();
        let mut number = |x: u64| {
            hasher.update(&x.to_le_bytes());
        };
        number(literal.ring.degree as u64);
        number(match literal.ring.kind {
            RingKind::Standard => 0,
            RingKind::ConjugateInvariant => 1,
        });
        number(literal.ring.digit_len as u64);
        number(match literal.secret {
            SecretDistribution::UniformTernary => 0,
            SecretDistribution::SparseTernary { weight } => weight as u64,
        });
        for primes in [&literal.ring.chain, &literal.ring.special] {
            number(primes.len() as u64);
            primes.iter().for_each(|&q| number(u64::from(q)));
        }
        let mut fingerprint = [0; 16];
        fingerprint.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        Fingerprint(fingerprint)
    }
}

fn log2_product<'a>(primes: impl Iterator<Item = &'a u32>) -> f64 {
    primes.map(|&q| f64::from(q).log2()).sum()
}
