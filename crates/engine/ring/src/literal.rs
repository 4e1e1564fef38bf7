//! The numbers that define a ring, and their check.

use crate::error::RingError;
use crate::kind::RingKind;
use crate::modular::{PRIME_LIMIT, is_prime};

/// Most special primes.
const MAX_SPECIAL: usize = 16;

/// Most terminal primes.
const MAX_TERMINAL: usize = 8;

/// The numbers that define a [`Ring`](crate::Ring); checked when the ring is built.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RingLiteral {
    /// Degree `n`, a power of two from 2^9 to 2^17.
    pub degree: usize,
    /// Standard or conjugate-invariant.
    pub kind: RingKind,
    /// The chain `q_0, q_1, ...`; polynomials are over prefixes of it.
    pub chain: Vec<u32>,
    /// Smaller primes, at most 8, which are multiplied in and divided out again so that the moduli of successive levels
    /// may have any ratio: a basis has the first few of them. May be empty.
    pub terminal: Vec<u32>,
    /// The special primes of key-switching, at most 16; may be empty.
    pub special: Vec<u32>,
    /// Number of primes that form one digit of the gadget decomposition: first the terminal primes, then the chain
    /// primes.
    pub digit_len: usize,
}

impl RingLiteral {
    /// Checks the degree, the primes and the lengths.
    pub(crate) fn check(&self) -> Result<(), RingError> {
        let RingLiteral { degree, kind, chain, terminal, special, digit_len } = self;
        if !degree.is_power_of_two() || !(1 << 9..=1 << 17).contains(degree) {
            return Err(RingError::Degree { found: *degree });
        }
        let step = kind.prime_step(*degree);
        let mut seen = std::collections::HashSet::new();
        for &q in chain.iter().chain(terminal).chain(special) {
            if q >= PRIME_LIMIT || q % step != 1 || !is_prime(q) || !seen.insert(q) {
                return Err(RingError::Prime { found: q, step });
            }
        }
        let lengths = [
            ("the chain", chain.len(), 1..=1024, "1 to 1024"),
            (
                "the list of terminal primes",
                terminal.len(),
                0..=MAX_TERMINAL.min(digit_len.saturating_sub(1)),
                "0 to 8, fewer than a digit",
            ),
            ("the list of special primes", special.len(), 0..=MAX_SPECIAL, "0 to 16"),
            ("a digit", *digit_len, 1..=chain.len().max(1), "1 to the chain's length"),
        ];
        for (what, found, range, needed) in lengths {
            if !range.contains(&found) {
                return Err(RingError::Length { what, found, needed });
            }
        }
        Ok(())
    }
}
