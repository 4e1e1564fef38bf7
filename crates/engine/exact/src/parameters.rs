//! Parameter sets of the exact schemes: a chain of primes, a plaintext modulus and a scheme.

use std::fmt;
use std::sync::Arc;

use unspoken_ring::{Backend, Basis, Ring, RingKind, RingLiteral};
use unspoken_rlwe::{self as rlwe, ParametersLiteral};

use crate::error::ExactError;

/// Least noise budget of a result, in bits: the noise is at most half of the smallest noise that makes the result
/// wrong.
pub const MIN_BUDGET_BITS: f64 = 1.0;

/// Largest number of bits of a modulus: larger noise does not fit a double.
const MAX_LOG2_MODULUS: f64 = 1000.0;

/// The scheme, which determines the position of the message in a ciphertext.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// BFV: the message is in the upper bits, times `Q/t`, with the noise below it (Fan and Vercauteren, ePrint
    /// 2012/144).
    Bfv,
    /// BGV: the message is in the lower bits, with `t` times the noise above it (Brakerski, Gentry and Vaikuntanathan,
    /// ePrint 2011/277).
    Bgv,
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Scheme::Bfv => "BFV",
            Scheme::Bgv => "BGV",
        })
    }
}

/// The numbers of an exact parameter set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExactLiteral {
    /// Ring, primes, secret.
    pub rlwe: ParametersLiteral,
    /// BFV or BGV.
    pub scheme: Scheme,
    /// The plaintext modulus `t`: a prime below 2^30, 1 modulo twice the ring degree, and none of the ring's primes.
    pub plain_modulus: u32,
}

/// A checked exact parameter set. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ExactParameters(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    rlwe: rlwe::Parameters,
    scheme: Scheme,
    /// Polynomials modulo `t`.
    plain_ring: Ring,
}

impl ExactParameters {
    /// Checks the literal and builds its rings on the fastest backend of this machine.
    ///
    /// # Errors
    /// If the ring is not the standard one, the plaintext modulus is not as described, the modulus has more than 1000
    /// bits, or as for [`rlwe::Parameters::new`].
    pub fn new(literal: ExactLiteral) -> Result<Self, ExactError> {
        Self::with_backend(literal, Backend::detect())
    }

    /// As [`ExactParameters::new`], on the given backend.
    ///
    /// # Errors
    /// As for [`ExactParameters::new`], or if the backend is not available on this machine.
    pub fn with_backend(literal: ExactLiteral, backend: Backend) -> Result<Self, ExactError> {
        let ExactLiteral { rlwe, scheme, plain_modulus: t } = literal;
        let refuse = |reason: String| Err(ExactError::Literal { name: rlwe.name.clone(), reason });
        let (kind, degree) = (rlwe.ring.kind, rlwe.ring.degree);
        if kind != RingKind::Standard {
            return refuse("slots modulo a prime need the standard ring".into());
        }
        if !rlwe.ring.terminal.is_empty() {
            return refuse("terminal primes, which serve rescaling alone".into());
        }
        if rlwe.ring.chain.iter().chain(&rlwe.ring.special).any(|&q| q == t) {
            return refuse(format!("the plaintext modulus {t} is a prime of the ring; take another"));
        }
        let bits: f64 = rlwe.ring.chain.iter().map(|&q| f64::from(q).log2()).sum();
        let needed = f64::from(t).log2() + 1.0 + MIN_BUDGET_BITS;
        if !(needed..=MAX_LOG2_MODULUS).contains(&bits) {
            return refuse(format!("a modulus of {bits:.1} bits; {needed:.1} to {MAX_LOG2_MODULUS} are possible"));
        }
        let plain = RingLiteral { degree, kind, chain: vec![t], terminal: vec![], special: vec![], digit_len: 1 };
        let plain_ring = Ring::new(plain, backend)?;
        let rlwe = rlwe::Parameters::with_backend(rlwe, backend)?;
        Ok(ExactParameters(Arc::new(Inner { rlwe, scheme, plain_ring })))
    }

    /// The underlying RLWE parameters.
    pub fn rlwe(&self) -> &rlwe::Parameters {
        &self.0.rlwe
    }

    /// The ring of ciphertexts.
    pub fn ring(&self) -> &Ring {
        self.0.rlwe.ring()
    }

    /// The ring of plaintexts: one prime, `t`.
    pub(crate) fn plain_ring(&self) -> &Ring {
        &self.0.plain_ring
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.0.rlwe.name()
    }

    /// BFV or BGV.
    pub fn scheme(&self) -> Scheme {
        self.0.scheme
    }

    /// The plaintext modulus `t`: values are integers from `-t/2` to `t/2`, and wrap around there.
    pub fn plain_modulus(&self) -> u32 {
        self.0.plain_ring.chain()[0]
    }

    /// Number of slots of a vector, and number of its coefficients: the ring degree.
    pub fn slots(&self) -> usize {
        self.ring().degree()
    }

    /// The basis of every ciphertext: the whole chain.
    pub fn basis(&self) -> Basis {
        Basis::chain(self.ring().chain().len())
    }

    /// Bits of the smallest noise that makes a result wrong: `Q/2t` for BFV, and for BGV, where the noise includes the
    /// message, `Q/2`.
    pub(crate) fn log2_noise_limit(&self) -> f64 {
        let whole = self.rlwe().log2_modulus(self.basis()) - 1.0;
        match self.scheme() {
            Scheme::Bfv => whole - f64::from(self.plain_modulus()).log2(),
            Scheme::Bgv => whole,
        }
    }

    /// A description of the parameters for error messages.
    pub(crate) fn describe(&self) -> String {
        format!("{} of preset '{}' modulo {}", self.scheme(), self.name(), self.plain_modulus())
    }

    /// Checks that `other` is the same object. Data of another object belong to another ring object, even if the
    /// literals are equal.
    pub(crate) fn check_same(&self, operation: &'static str, other: &ExactParameters) -> Result<(), ExactError> {
        if Arc::ptr_eq(&self.0, &other.0) {
            return Ok(());
        }
        Err(ExactError::Parameters { operation, found: other.describe(), needed: self.describe() })
    }
}
