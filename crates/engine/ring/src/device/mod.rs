//! Rings on a device: the operations of [`Ring`] as kernels. They return the same bits as on the processor.
//!
//! A polynomial that an operation computes is in the memory of the device. A polynomial that is made on the processor
//! (from integers, from bytes, from a seed) is copied to the device at its first use. An operation without a kernel
//! computes on the processor: it fetches its operands, and [`Ring::fetched_polynomials`] counts them.

mod batches;
mod digits;
mod elements;
mod matrices;
mod sums;
mod switching;
#[cfg(test)]
mod table_tests;
pub(crate) mod tables;
#[cfg(test)]
mod tests;
mod transform;

use std::sync::atomic::{AtomicU64, Ordering};

use unspoken_device::kernel::{self, Kernel};
use unspoken_device::{Arguments, Buffer, Device, Operation};

use crate::error::RingError;
use crate::memory::Words;
use crate::ntt::RingKind;
use crate::poly::{Basis, Domain, Poly};
use crate::ring::Ring;

/// A ring in the memory of a device.
pub(crate) struct DeviceRing {
    device: Device,
    /// The ring as kernels see it. Its tables are in the buffers.
    ring: kernel::Ring,
    _tables: [Buffer; 3],
    caches: tables::Caches,
    fetched: AtomicU64,
}

impl DeviceRing {
    /// The device.
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// How many polynomials were fetched.
    pub(crate) fn fetched(&self) -> u64 {
        self.fetched.load(Ordering::Relaxed)
    }

    /// Notes that a polynomial is fetched.
    pub(crate) fn count_fetched(&self) {
        self.fetched.fetch_add(1, Ordering::Relaxed);
    }

    fn basis(&self, basis: Basis) -> kernel::Basis {
        kernel::Basis { chain: basis.chain as u32, own: (basis.chain + basis.terminal) as u32 }
    }

    /// A polynomial as kernels see it. It is copied to the device if it is not there.
    fn limbs(&self, poly: &Poly) -> Result<kernel::Limbs, RingError> {
        Ok(kernel::Limbs { words: poly.words.on(&self.device)?.address(), basis: self.basis(poly.basis) })
    }

    /// A polynomial that is changed on the device.
    fn limbs_to_change(&self, poly: &mut Poly) -> Result<kernel::Limbs, RingError> {
        let basis = self.basis(poly.basis);
        Ok(kernel::Limbs { words: poly.words.on_to_change(&self.device)?.address(), basis })
    }

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

    /// Queues a kernel.
    #[expect(unsafe_code, reason = "kernels get addresses")]
    fn launch<A: Arguments>(&self, kernel: Kernel<A>, blocks: [usize; 3], arguments: &A) -> Result<(), RingError> {
        // SAFETY: the operations of this module give buffers of this device that are as large as the shapes in the
        // arguments, and hold the buffers until the call.
        Ok(unsafe { self.device.launch(kernel, blocks, arguments) }?)
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
        let [constants, forward, inverse] = tables::of_ring(self, device)?;
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

/// A ring on a device, for one operation. The addresses that the operation gets are valid until it ends.
pub(crate) struct On<'a> {
    ring: &'a DeviceRing,
    _operation: Operation,
}

impl<'a> On<'a> {
    /// Begins an operation, if the device is in use.
    pub(crate) fn new(ring: &'a DeviceRing) -> Option<Self> {
        ring.device.is_in_use().then(|| On { ring, _operation: Operation::begin() })
    }
}

impl std::ops::Deref for On<'_> {
    type Target = DeviceRing;

    fn deref(&self) -> &DeviceRing {
        self.ring
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
