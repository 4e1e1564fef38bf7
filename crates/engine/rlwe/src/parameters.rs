//! Parameter sets: immutable objects made from literals that are checked once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use unspoken_ring::{Backend, Basis, Device, Ring, RingKind, RingLiteral};

use crate::error::RlweError;
use crate::security::{SECURITY_BITS, SPARSE_SECRET, SecretDistribution, max_log2_modulus, security_bits};

/// The prefix that the name of a parameter set with less than 128 bits of security must have.
pub const INSECURE_PREFIX: &str = "insecure_";

/// The numbers of a parameter set.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ParametersLiteral {
    /// Name of the set. It begins with `insecure_` if and only if the set may have less than 128 bits of security.
    pub name: String,
    /// Ring, chain, special primes and digits.
    pub ring: RingLiteral,
    /// The distribution of secrets.
    pub secret: SecretDistribution,
    /// The shape of the keys under the sparse secret of a bootstrap, if the set has them.
    pub encapsulation: Option<EncapsulationLiteral>,
}

/// The keys under the sparse secret of a bootstrap: single-digit switching keys over the first `primes` primes of the
/// chain, for ciphertexts over the first `base` primes. The primes between act as special primes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EncapsulationLiteral {
    /// Number of chain primes of the ciphertexts that are bootstrapped.
    pub base: usize,
    /// Number of chain primes of the keys.
    pub primes: usize,
}

/// A checked parameter set and its ring. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Parameters(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    literal: ParametersLiteral,
    ring: Ring,
    fingerprint: Fingerprint,
    /// The rings of products on coefficients that were made, by their degree.
    small_rings: Mutex<BTreeMap<usize, SmallRings>>,
}

/// The rings of [`SmallRing`](crate::SmallRing): the ring of the large degree, and the ring of the small one.
#[derive(Clone, Debug)]
pub(crate) struct SmallRings {
    pub(crate) wide: Ring,
    pub(crate) small: Parameters,
}

/// Identifies a parameter set in serialised data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 16]);

impl Parameters {
    /// Checks the security of the literal and builds its ring on the fastest backend of this machine.
    ///
    /// # Errors
    /// If the ring cannot be built, or the largest modulus (of all primes, which the key-switching keys
    /// use) leaves less than 128 bits and the name does not begin with `insecure_`.
    pub fn new(literal: ParametersLiteral) -> Result<Self, RlweError> {
        Self::with_backend(literal, Backend::detect())
    }

    /// As [`Parameters::new`], on the given backend.
    ///
    /// # Errors
    /// As for [`Parameters::new`], or if the backend is not available on this machine.
    pub fn with_backend(literal: ParametersLiteral, backend: Backend) -> Result<Self, RlweError> {
        let degree = literal.ring.degree;
        let found = log2_product(literal.ring.chain.iter().chain(&literal.ring.terminal).chain(&literal.ring.special));
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
        if let Some(encapsulation) = literal.encapsulation {
            check_encapsulation(&literal, encapsulation)?;
        }
        let ring = Ring::new(literal.ring.clone(), backend)?;
        let fingerprint = Fingerprint::of(&literal);
        Ok(Parameters(Arc::new(Inner { literal, ring, fingerprint, small_rings: Mutex::default() })))
    }

    /// The same parameters with the polynomials of their ring on a device: for services, which have no secrets. Keys
    /// and ciphertexts are copied there at their first use. Keys and ciphertexts of the one parameter object cannot be
    /// used with the other.
    ///
    /// # Errors
    /// If the ring does not fit the device, or the device failed.
    pub fn on_device(&self, device: &Device) -> Result<Self, RlweError> {
        let (literal, fingerprint) = (self.0.literal.clone(), self.0.fingerprint);
        let ring = self.0.ring.on_device(device)?;
        Ok(Parameters(Arc::new(Inner { literal, ring, fingerprint, small_rings: Mutex::default() })))
    }

    /// The rings of a small degree, which `make` makes at the first call: keys and ciphertexts of one ring cannot be
    /// used with another one, even if the two are equal.
    pub(crate) fn small_rings(
        &self,
        degree: usize,
        make: impl FnOnce() -> Result<SmallRings, RlweError>,
    ) -> Result<SmallRings, RlweError> {
        // A map is whole even if a thread panicked.
        let mut known = self.0.small_rings.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rings) = known.get(&degree) {
            return Ok(rings.clone());
        }
        let rings = make()?;
        known.insert(degree, rings.clone());
        Ok(rings)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.literal.name
    }

    /// Whether the set may have less than 128 bits of security. Only tests and benchmarks accept such a set.
    pub fn is_insecure(&self) -> bool {
        self.name().starts_with(INSECURE_PREFIX)
    }

    /// The ring.
    pub fn ring(&self) -> &Ring {
        &self.0.ring
    }

    /// The literal that it was built from.
    pub fn literal(&self) -> &ParametersLiteral {
        &self.0.literal
    }

    /// A hash of the literal without its name, to check whether serialised data belong to these parameters.
    pub fn fingerprint(&self) -> Fingerprint {
        self.0.fingerprint
    }

    /// Checks that the parameters of a key are this object. Another object with the same literal is refused, because
    /// its polynomials belong to another ring object.
    ///
    /// # Errors
    /// [`RlweError::OtherParameters`] if they are not.
    pub fn check_key(&self, operation: &'static str, key: &Parameters) -> Result<(), RlweError> {
        if Arc::ptr_eq(&self.0, &key.0) {
            return Ok(());
        }
        let same = self.fingerprint() == key.fingerprint();
        let what = if same { "another object with the numbers of" } else { "other parameters," };
        let (found, needed) = (format!("{what} '{}'", key.name()), self.name().into());
        Err(RlweError::OtherParameters { operation, found, needed })
    }

    /// Bits of the product of the primes of `basis`.
    pub fn log2_modulus(&self, basis: Basis) -> f64 {
        self.ring().primes(basis).map(|q| f64::from(q).log2()).sum()
    }
}

/// Checks that the keys under the sparse secret have a valid shape and 128 bits of security.
fn check_encapsulation(literal: &ParametersLiteral, encapsulation: EncapsulationLiteral) -> Result<(), RlweError> {
    let (name, degree) = (literal.name.clone(), literal.ring.degree);
    let EncapsulationLiteral { base, primes } = encapsulation;
    let possible = base > 0 && base < primes && primes <= literal.ring.chain.len();
    let bits = |range: std::ops::Range<usize>| log2_product(literal.ring.chain[range].iter());
    // The switch divides its noise, which is as large as the product of the base primes, by the primes beyond the base.
    if !possible || bits(base..primes) < bits(0..base) - 1.0 || literal.ring.kind != RingKind::Standard {
        let reason = format!("keys under the sparse secret over {primes} primes for ciphertexts of {base}");
        return Err(RlweError::Encapsulation { name, reason });
    }
    let found = log2_product(literal.ring.chain[..primes].iter());
    let bits = security_bits(degree, found, SPARSE_SECRET);
    if bits < SECURITY_BITS && !name.starts_with(INSECURE_PREFIX) {
        let needed = max_log2_modulus(degree, SPARSE_SECRET).unwrap_or(0.0);
        return Err(RlweError::Insecure { name, degree, secret: SPARSE_SECRET.to_string(), found, bits, needed });
    }
    Ok(())
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
        if let Some(EncapsulationLiteral { base, primes }) = literal.encapsulation {
            number(base as u64);
            number(primes as u64);
        }
        for primes in [&literal.ring.chain, &literal.ring.special] {
            number(primes.len() as u64);
            primes.iter().for_each(|&q| number(u64::from(q)));
        }
        // The fingerprints of sets without terminal primes are older than these.
        literal.ring.terminal.iter().for_each(|&q| number(u64::from(q)));
        let mut fingerprint = [0; 16];
        fingerprint.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        Fingerprint(fingerprint)
    }
}

fn log2_product<'a>(primes: impl Iterator<Item = &'a u32>) -> f64 {
    primes.map(|&q| f64::from(q).log2()).sum()
}
