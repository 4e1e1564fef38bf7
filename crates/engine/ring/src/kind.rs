//! The two kinds of ring.

/// The two kinds of ring of degree `n`, a power of two.
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
