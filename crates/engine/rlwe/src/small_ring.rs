//! Products of plaintext matrices with the coefficients of ciphertexts at the lowest level, in a ring of small degree.
//!
//! A ciphertext of degree `n` is switched to a secret `s'(X^r)` of the subring of degree `n' = n / r` and falls apart
//! into `r` ciphertexts of that degree, and each of those into module ciphertexts of degree `t`
//! ([`Ring::module_rows`]). A matrix product on coefficients is then an integer matrix product for every prime, at no
//! level. The results are packed again, by one key switch for each part of `s'`, and switched to the sparse secret of a
//! bootstrap (Bae, Cheon, Hanrot, Park and Stehlé, "Plaintext-ciphertext matrix multiplication and FHE bootstrapping:
//! fast and fused", CRYPTO 2024; private Llama paper, section 5.2 and appendix A).
//!
//! The secret `s'` has degree `n'`, so its keys are counted as keys of that degree: the primes of the lowest level and
//! one special prime.

use unspoken_ring::{Basis, ModuleRows, Ring, RingKind, RingLiteral, RingMatrix};

use crate::error::RlweError;
use crate::parameters::{Parameters, ParametersLiteral, SmallRings};
use crate::security::SecretDistribution;

/// The small ring of a parameter set, and the degree of its module ciphertexts.
#[derive(Clone, Debug)]
pub struct SmallRing {
    pub(crate) main: Parameters,
    /// The degree of the parameter set, with the primes of the small ring.
    pub(crate) wide: Ring,
    pub(crate) small: Parameters,
    pub(crate) degree: usize,
}

impl SmallRing {
    /// The ring of degree `small_degree`, the same one for all calls with these parameters, with module ciphertexts of
    /// degree `module_degree`: number of coefficients to a row of the products.
    ///
    /// # Errors
    /// If the parameters are not made for bootstrapping or have no special primes, the ring has less than 128 bits of
    /// security and the name does not begin with `insecure_`, or a degree is not a power of two below the next one.
    pub fn new(parameters: &Parameters, small_degree: usize, module_degree: usize) -> Result<Self, RlweError> {
        let base = parameters.encapsulation()?.base;
        let ring = parameters.ring();
        let least = ModuleRows::MIN_DEGREE;
        let fits = |degree: usize, above: usize| degree.is_power_of_two() && degree < above;
        let possible = fits(small_degree, ring.degree()) && fits(module_degree, small_degree) && module_degree >= least;
        if ring.special().is_empty() || !possible {
            let reason = format!(
                "a small ring of degree {small_degree} with module ciphertexts of degree {module_degree}; needed \
                 special primes, and powers of two below {} and {small_degree} of which the second is {least} or more",
                ring.degree()
            );
            return Err(RlweError::Encapsulation { name: parameters.name().into(), reason });
        }
        let literal = |degree: usize| RingLiteral {
            degree,
            kind: RingKind::Standard,
            chain: ring.chain()[..base].to_vec(),
            terminal: Vec::new(),
            special: ring.special()[..1].to_vec(),
            digit_len: 1,
        };
        let make = || -> Result<SmallRings, RlweError> {
            let mut wide = Ring::new(literal(ring.degree()), ring.backend())?;
            let small = ParametersLiteral {
                name: format!("{}_small", parameters.name()),
                ring: literal(small_degree),
                secret: SecretDistribution::UniformTernary,
                encapsulation: None,
            };
            let mut small = Parameters::with_backend(small, ring.backend())?;
            if let Some(device) = ring.device() {
                (wide, small) = (wide.on_device(device)?, small.on_device(device)?);
            }
            Ok(SmallRings { wide, small })
        };
        let SmallRings { wide, small } = parameters.small_rings(small_degree, make)?;
        Ok(SmallRing { main: parameters.clone(), wide, small, degree: module_degree })
    }

    /// The parameters of the ring of small degree.
    pub fn parameters(&self) -> &Parameters {
        &self.small
    }

    /// Number of coefficients of a row, `t`.
    pub fn row_len(&self) -> usize {
        self.degree
    }

    /// Number of rows of a ciphertext, `n / t`: coefficient `i + c (n / t)` is coefficient `c` of row `i`.
    pub fn rows(&self) -> usize {
        self.main.ring().degree() / self.degree
    }

    /// Number of module ciphertexts of a ciphertext of the small ring, and of the parts of its secret.
    pub fn rank(&self) -> usize {
        self.small.ring().degree() / self.degree
    }

    /// The primes of the key to the sparse secret.
    pub(crate) fn up_basis(&self) -> Basis {
        Basis::chain(self.main.encapsulation().map_or(0, |encapsulation| encapsulation.primes))
    }

    /// The primes of its ciphertexts: the primes of the lowest level.
    pub fn basis(&self) -> Basis {
        Basis::chain(self.small.ring().chain().len())
    }

    /// Packs an integer matrix for products.
    pub fn matrix(&self, rows: usize, columns: usize, entry: impl Fn(usize, usize) -> i128 + Sync) -> RingMatrix {
        self.small.ring().real_matrix(self.basis(), rows, columns, entry)
    }

    /// Bytes in memory of a packed matrix.
    pub fn matrix_bytes(&self, rows: usize, columns: usize) -> usize {
        self.small.ring().real_matrix_bytes(self.basis(), rows, columns)
    }
}
