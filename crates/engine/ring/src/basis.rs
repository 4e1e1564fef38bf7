//! What the residues of a polynomial are: the primes they are modulo, and the domain they are in.

use std::fmt;

/// The special primes of a basis. Each variant contains those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Special {
    /// None of them.
    None,
    /// The first few, which the short form of switching keys has ([`Ring::switching_basis`](crate::Ring)).
    Short,
    /// All of them.
    All,
}

/// The primes of a ring that a polynomial is represented over: the first `chain` primes of the chain, the first
/// `terminal` of the terminal primes, and none, some or all of the special primes. Limbs are in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Basis {
    /// Number of primes of the chain, from the first.
    pub chain: usize,
    /// Number of terminal primes, from the first.
    pub terminal: usize,
    /// The special primes that are included.
    pub special: Special,
}

impl Basis {
    /// The first `chain` primes, without the special ones.
    pub const fn chain(chain: usize) -> Self {
        Basis { chain, terminal: 0, special: Special::None }
    }

    /// The first `chain` primes and all special ones.
    pub const fn extended(chain: usize) -> Self {
        Basis::chain(chain).with_special()
    }

    /// The same primes of the chain, and the first `terminal` terminal primes.
    pub const fn with_terminal(self, terminal: usize) -> Self {
        Basis { terminal, ..self }
    }

    /// The same primes and all special ones.
    pub const fn with_special(self) -> Self {
        Basis { special: Special::All, ..self }
    }

    /// The same primes and the first few special ones.
    pub const fn with_short_special(self) -> Self {
        Basis { special: Special::Short, ..self }
    }

    /// The same primes without the special ones.
    pub const fn without_special(self) -> Self {
        Basis { special: Special::None, ..self }
    }

    /// The limb for the same prime as limb `i` over another basis, which is contained in this one.
    pub(crate) const fn limb_over(self, other: Basis, i: usize) -> usize {
        let own = other.chain + other.terminal;
        if i < other.chain {
            i
        } else if i < own {
            self.chain + i - other.chain
        } else {
            self.chain + self.terminal + i - own
        }
    }

    /// Whether all primes of another basis are in this one.
    pub const fn contains(self, other: Basis) -> bool {
        self.chain >= other.chain && self.terminal >= other.terminal && self.special as u8 >= other.special as u8
    }
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} chain primes", self.chain)?;
        if self.terminal > 0 {
            write!(f, ", {} terminal primes", self.terminal)?;
        }
        f.write_str(match self.special {
            Special::None => "",
            Special::Short => " and the first special primes",
            Special::All => " and the special primes",
        })
    }
}

/// The two ways in which residues represent a polynomial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Domain {
    /// Coefficients, plain residues.
    Coefficient,
    /// Values at the roots in bit-reversed order, residues in Montgomery form (times `2^32`).
    Evaluation,
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Domain::Coefficient => "coefficient",
            Domain::Evaluation => "evaluation",
        })
    }
}
