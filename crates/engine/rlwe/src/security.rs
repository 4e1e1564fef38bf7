//! The largest modulus of a ring degree and a secret at 128 bits of security.
//!
//! Dense ternary: recomputed with the Lattice Estimator (minimum over primal uSVP, primal BDD and dual hybrid), in
//! agreement with the 2024 security guidelines (ePrint 2024/463), for errors of standard deviation 3.19. Sparse
//! ternary: the table of the sparse-key-estimate project (rotated primal hybrid attack, ePrint 2026/279), which is
//! stricter than older tables. The modulus is the largest one of all objects under the secret: for key-switching keys
//! it is the product of all primes.

use std::fmt;

/// The distribution of the coefficients of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SecretDistribution {
    /// Each of -1, 0, 1 with probability one third.
    UniformTernary,
    /// Exactly `weight` coefficients are -1 or 1, the others 0.
    SparseTernary {
        /// The Hamming weight.
        weight: usize,
    },
}

impl fmt::Display for SecretDistribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SecretDistribution::UniformTernary => f.write_str("uniform ternary"),
            SecretDistribution::SparseTernary { weight } => write!(f, "ternary of weight {weight}"),
        }
    }
}

/// The distribution of the secret under which a bootstrap raises the modulus. It is the sparsest one in the table of
/// bounds, because the integer that the raise adds grows with the square root of the weight.
pub const SPARSE_SECRET: SecretDistribution = SecretDistribution::SparseTernary { weight: SPARSE_WEIGHT };

/// The Hamming weight of [`SPARSE_SECRET`].
pub const SPARSE_WEIGHT: usize = 32;

/// The security level of every parameter set whose name does not begin with `insecure_`.
pub const SECURITY_BITS: f64 = 128.0;

/// `(ring degree, largest log2 q)` for a uniform ternary secret.
const DENSE: [(usize, f64); 8] = [
    (1 << 10, 26.0),
    (1 << 11, 53.0),
    (1 << 12, 106.0),
    (1 << 13, 214.0),
    (1 << 14, 430.0),
    (1 << 15, 868.0),
    (1 << 16, 1747.0),
    (1 << 17, 3523.0),
];

const SPARSE_WEIGHTS: [usize; 7] = [32, 64, 128, 192, 256, 512, 1024];

/// `(ring degree, largest log2 q by weight)` for sparse ternary secrets.
const SPARSE: [(usize, [f64; 7]); 5] = [
    (1 << 12, [19.0, 58.0, 86.0, 96.0, 101.0, 106.0, 111.0]),
    (1 << 13, [37.0, 113.0, 167.0, 187.0, 197.0, 209.0, 214.0]),
    (1 << 14, [77.0, 229.0, 333.0, 370.0, 388.0, 416.0, 426.0]),
    (1 << 15, [164.0, 468.0, 669.0, 739.0, 774.0, 829.0, 854.0]),
    (1 << 16, [349.0, 961.0, 1351.0, 1481.0, 1553.0, 1659.0, 1714.0]),
];

/// The largest `log2 q` that keeps [`SECURITY_BITS`] for a ring of degree `degree`; `None` where no bound is known.
///
/// For a sparse secret the bound of the next smaller weight in the table is used, but never more than the bound of a
/// dense secret.
pub fn max_log2_modulus(degree: usize, secret: SecretDistribution) -> Option<f64> {
    let dense = DENSE.iter().find(|(n, _)| *n == degree).map(|(_, bound)| *bound)?;
    match secret {
        SecretDistribution::UniformTernary => Some(dense),
        SecretDistribution::SparseTernary { weight } => {
            let (_, bounds) = SPARSE.iter().find(|(n, _)| *n == degree)?;
            let column = SPARSE_WEIGHTS.iter().rposition(|&w| w <= weight)?;
            Some(bounds[column].min(dense))
        }
    }
}

/// `(dimension, largest log2 q/sigma for a uniform binary secret)`, from the same runs of the estimator.
const BINARY: [(usize, f64); 14] = [
    (512, 10.53),
    (630, 13.52),
    (700, 15.35),
    (768, 17.07),
    (850, 19.17),
    (900, 20.46),
    (1024, 23.7),
    (1100, 25.66),
    (1200, 28.26),
    (1300, 30.86),
    (1400, 33.48),
    (1536, 36.96),
    (2048, 50.34),
    (4096, 104.11),
];

/// The largest `log2 q/sigma` that keeps [`SECURITY_BITS`] for LWE of a dimension under a uniform binary secret, or
/// RLWE of that degree, with errors of standard deviation `sigma`; `None` where no bound is known. Between two
/// dimensions of the table the bound of the smaller one is used.
pub fn binary_max_log2_ratio(dimension: usize) -> Option<f64> {
    BINARY.iter().rev().find(|(n, _)| *n <= dimension).map(|(_, bound)| *bound)
}

/// As [`security_bits`], under a uniform binary secret, for a modulus `2^log2_ratio` times as large as the standard
/// deviation of the errors.
pub fn binary_security_bits(dimension: usize, log2_ratio: f64) -> f64 {
    let bound = binary_max_log2_ratio(dimension).unwrap_or(0.0);
    SECURITY_BITS * (bound / log2_ratio.max(1.0)).min(1.0)
}

/// Bits of security of a modulus of `log2_modulus` bits, to first order: 128 at the bound, and inversely proportional
/// to the bits of the modulus above it. At most 128; 0 where no bound is known.
pub fn security_bits(degree: usize, log2_modulus: f64, secret: SecretDistribution) -> f64 {
    let bound = max_log2_modulus(degree, secret).unwrap_or(0.0);
    SECURITY_BITS * (bound / log2_modulus.max(1.0)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_sets_that_fall_short_are_found_short() {
        let weight_192 = SecretDistribution::SparseTernary { weight: 192 };
        assert!(security_bits(1 << 16, 1555.0, weight_192) < SECURITY_BITS); // lookup paper, Table 4
        assert!(security_bits(1 << 15, 881.0, SecretDistribution::UniformTernary) < SECURITY_BITS); // Zinc paper
        assert_eq!(security_bits(1 << 15, 868.0, SecretDistribution::UniformTernary), SECURITY_BITS);
    }

    #[test]
    fn unknown_territory_is_not_secure() {
        assert_eq!(security_bits(1 << 9, 10.0, SecretDistribution::UniformTernary), 0.0);
        assert_eq!(security_bits(1 << 16, 100.0, SecretDistribution::SparseTernary { weight: 16 }), 0.0);
    }

    #[test]
    fn small_sets_that_fall_short_are_found_short() {
        // Pirouette, Tables 3 to 5: key-switching keys, the response, the ring.
        for (dimension, log2_modulus) in [(600, 42.0), (1300, 42.0), (512, 20.0), (2048, 56.0)] {
            assert!(binary_security_bits(dimension, log2_modulus - 3.19f64.log2()) < SECURITY_BITS);
        }
        assert_eq!(binary_security_bits(1300, 32.0 - 3.19f64.log2()), SECURITY_BITS); // its query
        assert_eq!(binary_security_bits(100, 1.0), 0.0);
    }

    #[test]
    fn sparse_never_beats_dense() {
        let heavy = SecretDistribution::SparseTernary { weight: 1024 };
        assert_eq!(max_log2_modulus(1 << 12, heavy), Some(106.0));
    }
}
