//! Polynomials in residue representation. They are plain data; the arithmetic is in [`Ring`](crate::Ring).

use std::fmt;
use std::ops::Range;

use crate::memory::Words;

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

/// A polynomial of a [`Ring`](crate::Ring), over a [`Basis`], in a [`Domain`].
///
/// Its memory belongs to the ring that made it and returns there when it is dropped; memory marked secret is wiped
/// first. `Debug` shows the shape, never the residues.
///
/// A polynomial made from integers, bytes or a public seed is public until [`Poly::mark_secret`]. A polynomial computed
/// from a secret one is secret, and so is its copy, until [`Poly::declare_public`].
pub struct Poly {
    pub(crate) words: Words,
    pub(crate) stride: usize,
    pub(crate) degree: usize,
    pub(crate) basis: Basis,
    pub(crate) limbs: usize,
    pub(crate) domain: Domain,
}

impl Poly {
    /// The primes it is represented over.
    pub fn basis(&self) -> Basis {
        self.basis
    }

    /// The domain its residues are in.
    pub fn domain(&self) -> Domain {
        self.domain
    }

    /// Marks the polynomial secret: its memory is wiped before it is reused. Call it where integers or bytes of a key,
    /// an error or a message become a polynomial. Every polynomial computed from a secret one is secret, too.
    pub fn mark_secret(&mut self) {
        self.words.mark_secret();
    }

    /// Declares the polynomial public. It must reveal nothing of the secrets it was computed from, such as the body
    /// `a s + e + m` of a ciphertext. It is not wiped, and polynomials computed from it are public.
    pub fn declare_public(&mut self) {
        self.words.declare_public();
    }

    /// Whether the polynomial is marked secret.
    pub fn is_secret(&self) -> bool {
        self.words.is_secret()
    }

    /// The limb for the same prime as limb `i` of a polynomial over `basis`, which is contained in this one's.
    pub(crate) fn limb_over(&self, basis: Basis, i: usize) -> &[u32] {
        self.limb(self.basis.limb_over(basis, i))
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        self.words.count() * size_of::<u32>()
    }

    pub(crate) fn limb(&self, index: usize) -> &[u32] {
        &self.words[index * self.stride..][..self.degree]
    }

    pub(crate) fn limb_mut(&mut self, index: usize) -> &mut [u32] {
        &mut self.words[index * self.stride..][..self.degree]
    }

    pub(crate) fn limbs(&self) -> impl ExactSizeIterator<Item = &[u32]> {
        self.words.chunks_exact(self.stride).take(self.limbs).map(|limb| &limb[..self.degree])
    }
}

/// Residues of a block of [`in_blocks`], which stays in the first-level cache.
const BLOCK: usize = 2048;

/// Copies `source` to `out` and changes the copy with `change`, block by block, so that the copy is still in the cache.
pub(crate) fn in_blocks(out: &mut [u32], source: &[u32], mut change: impl FnMut(&mut [u32], Range<usize>)) {
    for (index, (out, source)) in out.chunks_mut(BLOCK).zip(source.chunks(BLOCK)).enumerate() {
        out.copy_from_slice(source);
        change(out, index * BLOCK..index * BLOCK + source.len());
    }
}

impl Clone for Poly {
    fn clone(&self) -> Self {
        Poly { words: self.words.duplicate(), ..*self }
    }
}

impl fmt::Debug for Poly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poly")
            .field("degree", &self.degree)
            .field("basis", &self.basis)
            .field("domain", &self.domain)
            .finish_non_exhaustive()
    }
}
