//! Polynomials in residue representation. They are plain data; the arithmetic is in [`Ring`](crate::Ring).

use std::fmt;
use std::ops::Range;

use crate::Basis;
use crate::Domain;
use crate::memory::Words;

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
