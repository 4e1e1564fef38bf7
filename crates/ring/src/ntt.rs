//! Tables of the number-theoretic transform of one prime.

use crate::modular::{Modulus, Shoup, primitive_root_of_unity};

/// Which ring of degree `n` (`n` a power of two) the polynomials live in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RingKind {
    /// `Z[X] / (X^n + 1)`: primes are 1 modulo `2n`; carries `n/2` complex slots.
    Standard,
    /// The real subring `Z[X + 1/X]` of `Z[X] / (X^2n + 1)`: primes are 1 modulo `4n`; carries `n` real slots.
    /// An element is `a_0 + sum_i a_i (X^i + X^-i)`.
    ConjugateInvariant,
}

impl RingKind {
    /// Every prime of a ring of degree `n` is 1 modulo this.
    pub fn prime_step(self, degree: usize) -> u32 {
        match self {
            RingKind::Standard => 2 * degree as u32,
            RingKind::ConjugateInvariant => 4 * degree as u32,
        }
    }
}

/// Twiddle factors of one prime for one degree.
///
/// Both rings use one and the same butterfly network; they differ in the roots, and the conjugate-invariant
/// ring folds its coefficients first. Position `i` of the output holds the value at `psi^e(i)`, where `psi` is
/// the primitive root whose order is the ring's prime step, `f` the bit reversal of `i` over `log2 n` bits, and
/// `e(i) = 2f + 1` (standard) or `4f + 1` (conjugate-invariant).
pub(crate) struct NttTable {
    pub(crate) modulus: Modulus,
    /// `forward[m + i]`: root of block `i` in the stage of `m` blocks.
    pub(crate) forward: Vec<Shoup>,
    /// Inverses of `forward`.
    pub(crate) inverse: Vec<Shoup>,
    /// `1/n`.
    pub(crate) degree_inverse: u32,
    /// `sqrt(-1)` as the evaluation of `X^(n/2)` (standard) at positions below `n/2`, or the fold's root.
    pub(crate) imaginary: u32,
}

impl NttTable {
    pub(crate) fn new(modulus: Modulus, degree: usize, kind: RingKind) -> Self {
        let step = kind.prime_step(degree);
        let psi = primitive_root_of_unity(&modulus, step);
        let powers = |root: u32| {
            std::iter::successors(Some(1), |&power| Some(modulus.mul(power, root)))
                .take(step as usize / 2)
                .collect::<Vec<u32>>()
        };
        let roots = |powers: &[u32]| {
            (0..degree).map(|k| modulus.shoup(powers[Self::root_exponent(k, degree, kind)])).collect::<Vec<_>>()
        };
        let up = powers(psi);
        NttTable {
            modulus,
            forward: roots(&up),
            inverse: roots(&powers(modulus.inv(psi))),
            degree_inverse: modulus.inv(degree as u32),
            imaginary: up[step as usize / 4],
        }
    }

    /// The exponent of `psi` in entry `k = m + i` of the root tables.
    fn root_exponent(k: usize, degree: usize, kind: RingKind) -> usize {
        if k == 0 {
            return 0;
        }
        let bits = degree.trailing_zeros();
        match kind {
            RingKind::Standard => bit_reverse(k, bits),
            // The first half of the network of degree 2n: entry m + i there is entry 2m + i here.
            RingKind::ConjugateInvariant => {
                let stage = 1usize << k.ilog2();
                bit_reverse(2 * stage + (k - stage), bits + 1)
            }
        }
    }
}

/// The lowest `bits` bits of `x` in reverse order.
pub(crate) fn bit_reverse(x: usize, bits: u32) -> usize {
    if bits == 0 { 0 } else { x.reverse_bits() >> (usize::BITS - bits) }
}
