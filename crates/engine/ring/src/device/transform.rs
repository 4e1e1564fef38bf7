//! Transforms.

use unspoken_device::Address;
use unspoken_device::kernel::{self, FoldArgs, Kernel, Many, TransformArgs};

use super::ring::DeviceRing;
use crate::basis::Domain;
use crate::error::RingError;
use crate::kind::RingKind;
use crate::poly::Poly;
use crate::ring::Ring;

/// All limbs of a polynomial over a basis.
pub(super) fn all(basis: kernel::Basis) -> Many {
    Many { basis, per_prime: 1, skip: 0, listed: 0, list: [0; kernel::MAX_SOURCES] }
}

/// `per_prime` limbs for each prime of a basis.
pub(super) fn several(basis: kernel::Basis, per_prime: usize) -> Many {
    Many { per_prime: per_prime as u32, ..all(basis) }
}

/// The raised digits of a decomposition, without the digit of each prime itself.
pub(super) fn raised(basis: kernel::Basis, digits: usize) -> Many {
    Many { skip: 1, ..several(basis, digits) }
}

/// Some limbs of a polynomial over a basis; their results are one after the other.
pub(super) fn some(basis: kernel::Basis, limbs: &[usize]) -> Many {
    let mut list = [0; kernel::MAX_SOURCES];
    list.iter_mut().zip(limbs).for_each(|(place, &limb)| *place = limb as u32);
    Many { listed: limbs.len() as u32, list, ..all(basis) }
}

impl DeviceRing {
    /// To the evaluation domain, in place.
    pub(crate) fn to_evaluation(&self, ring: &Ring, poly: &mut Poly) -> Result<(), RingError> {
        let place = self.limbs_to_change(poly)?;
        let invariant = ring.kind() == RingKind::ConjugateInvariant;
        // The fold is of residues in Montgomery form.
        if invariant {
            self.scale_limbs(ring, poly.basis, place, |prime| {
                let modulus = ring.modulus(prime);
                modulus.shoup(modulus.r)
            })?;
        }
        self.forward(ring, &all(place.basis), poly.limbs, place.words, !invariant)?;
        poly.domain = Domain::Evaluation;
        Ok(())
    }

    /// To the coefficient domain, in place.
    pub(crate) fn to_coefficients(&self, ring: &Ring, poly: &mut Poly) -> Result<(), RingError> {
        let place = self.limbs_to_change(poly)?;
        self.inverse(ring, &all(place.basis), poly.limbs, (place.words, place.words), (0, 0))?;
        poly.domain = Domain::Coefficient;
        Ok(())
    }

    /// Forward transforms of limbs in place: of residues in Montgomery form, or of plain residues in the standard ring.
    pub(super) fn forward(
        &self,
        ring: &Ring,
        many: &Many,
        limbs: usize,
        words: Address,
        plain: bool,
    ) -> Result<(), RingError> {
        if ring.kind() == RingKind::ConjugateInvariant {
            self.fold(ring, kernel::FOLD, many, limbs, words)?;
        }
        let arguments = TransformArgs {
            ring: self.ring,
            many: *many,
            source: words,
            target: words,
            to_montgomery: u32::from(plain),
            scales: 0,
            words: 0,
        };
        let tiles = self.tiles(ring, limbs);
        if ring.degree().ilog2() > kernel::LOG_TILE {
            self.launch(kernel::FORWARD_COLUMNS, tiles, &arguments)?;
        }
        self.launch(kernel::FORWARD_RUNS, tiles, &arguments)
    }

    /// Inverse transforms of limbs from one place to another. Each limb is multiplied by its factor at `scales` (none:
    /// out of Montgomery form), and its word at `words` (none: zero) is added; only the standard ring has such words.
    pub(super) fn inverse(
        &self,
        ring: &Ring,
        many: &Many,
        limbs: usize,
        (source, target): (Address, Address),
        (scales, words): (Address, Address),
    ) -> Result<(), RingError> {
        let (ring_args, many_args) = (self.ring, *many);
        let arguments =
            TransformArgs { ring: ring_args, many: many_args, source, target, to_montgomery: 0, scales, words };
        let tiles = self.tiles(ring, limbs);
        self.launch(kernel::INVERSE_RUNS, tiles, &arguments)?;
        if ring.degree().ilog2() > kernel::LOG_TILE {
            self.launch(kernel::INVERSE_COLUMNS, tiles, &arguments)?;
        }
        if ring.kind() == RingKind::ConjugateInvariant {
            self.fold(ring, kernel::UNFOLD, many, limbs, target)?;
        }
        Ok(())
    }

    fn tiles(&self, ring: &Ring, limbs: usize) -> [usize; 3] {
        [ring.degree().div_ceil(1 << kernel::LOG_TILE), limbs, 1]
    }

    fn fold(
        &self,
        ring: &Ring,
        kernel: Kernel<FoldArgs>,
        many: &Many,
        limbs: usize,
        words: Address,
    ) -> Result<(), RingError> {
        // Pairs of positions from 1 to n/2.
        let blocks = (ring.degree() / 2 + 1).div_ceil(kernel::THREADS);
        self.launch(kernel, [blocks, limbs, 1], &FoldArgs { ring: self.ring, many: *many, words })
    }
}
