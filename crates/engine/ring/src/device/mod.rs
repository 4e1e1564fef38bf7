//! Rings on a device: the operations of [`Ring`] as kernels. They return the same bits as on the processor.
//!
//! A polynomial that an operation computes is in the memory of the device. A polynomial that is made on the processor
//! (from integers, from bytes, from a seed) is copied to the device at its first use. An operation without a kernel
//! computes on the processor: it fetches its operands, and [`Ring::fetched_polynomials`] counts them.

mod batches;
mod digits;
mod elements;
mod matrices;
pub(crate) mod ring;
mod sums;
mod switching;
#[cfg(all(test, not(target_family = "wasm")))]
mod table_tests;
pub(crate) mod tables;
#[cfg(all(test, not(target_family = "wasm")))]
mod tests;
mod transform;

use std::sync::atomic::AtomicU64;

use unspoken_device::kernel::{self, Prime};
use unspoken_device::{Buffer, Device};

use self::ring::{DeviceRing, On};
use self::tables::shoup;
use crate::basis::{Basis, Domain};
use crate::error::RingError;
use crate::kind::RingKind;
use crate::memory::Words;
use crate::ntt::NttTable;
use crate::poly::Poly;
use crate::ring::Ring;

impl DeviceRing {
    /// A polynomial on the device with unspecified residues.
    fn blank(&self, ring: &Ring, basis: Basis, domain: Domain) -> Result<Poly, RingError> {
        Ok(ring.poly_of(self.words(ring, ring.limb_count(basis))?, basis, domain))
    }

    /// The zero polynomial in the evaluation domain.
    pub(crate) fn zero(&self, ring: &Ring, basis: Basis) -> Result<Poly, RingError> {
        let mut buffer = self.device.buffer(ring.limb_count(basis) * ring.stride())?;
        buffer.clear()?;
        Ok(ring.poly_of(ring.pool().on_device(buffer), basis, Domain::Evaluation))
    }

    /// Memory on the device for `limbs` limbs, with unspecified words.
    fn words(&self, ring: &Ring, limbs: usize) -> Result<Words, RingError> {
        self.memory(ring, limbs * ring.stride())
    }

    /// Memory on the device for `words` words, which are unspecified.
    fn memory(&self, ring: &Ring, words: usize) -> Result<Words, RingError> {
        Ok(ring.pool().on_device(self.device.buffer(words)?))
    }

    /// Blocks for all residues of `limbs` limbs.
    fn blocks(&self, ring: &Ring, run: usize, limbs: usize) -> [usize; 3] {
        [ring.degree().div_ceil(run), limbs, 1]
    }
}

impl Ring {
    /// The same ring on a device. Polynomials of one cannot be used with the other.
    ///
    /// # Errors
    /// [`RingError::OnDevice`] if it has more primes than fit, or if the device has too little memory or failed.
    pub fn on_device(&self, device: &Device) -> Result<Ring, RingError> {
        let primes = self.chain().len() + self.terminal().len() + self.special().len();
        if primes > kernel::MAX_PRIMES {
            return Err(RingError::OnDevice { what: "primes", found: primes, needed: "at most 128" });
        }
        let [constants, forward, inverse] = of_ring(self, device)?;
        let ring = kernel::Ring {
            primes: constants.address(),
            forward: forward.address(),
            inverse: inverse.address(),
            log_degree: self.degree().ilog2(),
            stride: self.stride() as u32,
            chain: self.chain().len() as u32,
            own: (self.chain().len() + self.terminal().len()) as u32,
            digit_len: self.digit_len() as u32,
            invariant: u32::from(self.kind() == RingKind::ConjugateInvariant),
        };
        Ok(self.with_device(DeviceRing {
            device: device.clone(),
            ring,
            _tables: [constants, forward, inverse],
            caches: tables::Caches::default(),
            fetched: AtomicU64::new(0),
        }))
    }

    /// The device of this ring and of another ring, if both are on the same device.
    pub(crate) fn on_with(&self, other: &Ring) -> Option<On<'_>> {
        self.on().filter(|on| other.device().is_some_and(|device| device.is_same(&on.device)))
    }

    /// The polynomial, in the memory of this process.
    pub(crate) fn here<'a>(&self, poly: &'a Poly) -> Result<Here<'a>, RingError> {
        if poly.words.is_here() {
            return Ok(Here::Same(poly));
        }
        Ok(Here::Fetched(Box::new(Poly { words: self.fetched(&poly.words)?, ..*poly })))
    }

    /// Moves a polynomial to the memory of this process, if only a device has it.
    ///
    /// # Errors
    /// If the device failed.
    pub fn fetch(&self, poly: &mut Poly) -> Result<(), RingError> {
        self.check_own("fetch", poly)?;
        if !poly.words.is_here() {
            poly.words = self.fetched(&poly.words)?;
        }
        Ok(())
    }

    /// The polynomials, in the memory of this process.
    pub(crate) fn all_here<'a>(&self, polys: impl IntoIterator<Item = &'a Poly>) -> Result<Vec<Here<'a>>, RingError> {
        polys.into_iter().map(|poly| self.here(poly)).collect()
    }

    /// A copy of words in the memory of this process, which only a device has.
    pub(crate) fn fetched(&self, words: &Words) -> Result<Words, RingError> {
        self.count_fetched();
        words.fetched()
    }
}

/// A polynomial in the memory of this process.
pub(crate) enum Here<'a> {
    Same(&'a Poly),
    Fetched(Box<Poly>),
}

impl std::ops::Deref for Here<'_> {
    type Target = Poly;

    fn deref(&self) -> &Poly {
        match self {
            Here::Same(poly) => poly,
            Here::Fetched(poly) => poly,
        }
    }
}

/// The primes of a ring with their constants, and the roots of the forward and the inverse transform.
fn of_ring(ring: &Ring, device: &Device) -> Result<[Buffer; 3], RingError> {
    let count = ring.chain().len() + ring.terminal().len() + ring.special().len();
    let (mut primes, mut forward, mut inverse) = (Vec::with_capacity(count), Vec::new(), Vec::new());
    for prime in 0..count {
        let modulus = ring.modulus(prime);
        // Vector kernels have other orders of the roots.
        let table = NttTable::new(*modulus, ring.degree(), ring.kind(), 1);
        let (half, root) = (modulus.q.div_ceil(2), table.imaginary);
        let constant = |value| shoup(modulus.shoup(value));
        primes.push(Prime {
            q: modulus.q,
            neg_inv: modulus.neg_inv,
            r: modulus.r,
            r2: modulus.r2,
            to_montgomery: constant(modulus.r),
            degree_scale: constant(modulus.from_montgomery(table.degree_inverse)),
            imaginary: constant(root),
            neg_imaginary: constant(modulus.neg(root)),
            half: constant(half),
            half_imaginary: constant(modulus.mul(half, root)),
        });
        forward.extend(table.forward.iter().map(|&root| shoup(root)));
        inverse.extend(table.inverse.iter().map(|&root| shoup(root)));
    }
    Ok([device.upload(&primes)?, device.upload(&forward)?, device.upload(&inverse)?])
}
