//! Estimates of the memory that operations on ciphertexts take.
//!
//! Amounts are counted in limbs: the residues of one polynomial modulo one prime. They are upper bounds: if threads of
//! an operation hold memory one after the other, it counts as held at the same time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use unspoken_ring::{Basis, HELD_IMAGES, Ring};

use crate::parameters::CkksParameters;

/// Complex numbers per slot that an encoding holds: values in the order of the transform, scratch space of the
/// transform, coefficients before and after rounding.
const ENCODING_NUMBERS: usize = 5;

/// Bytes of `limbs` limbs.
pub(crate) fn bytes(ring: &Ring, limbs: usize) -> u64 {
    (limbs * ring.poly_bytes(Basis::chain(1))) as u64
}

/// Limbs of the digits of one polynomial, raised to the extended basis, and of the plain digits before the raise.
pub(crate) fn raised_digits(ring: &Ring, basis: Basis) -> usize {
    ring.digit_count(basis.chain) * ring.limb_count(ring.switching_basis(basis)) + ring.limb_count(basis)
}

/// Peak limbs of a relinearisation or automorphism, its result included. The peak is the maximum of two phases: the
/// raised digits and their product with the key; that product, its quotient and the image of the quotient.
pub(crate) fn key_switch(ring: &Ring, basis: Basis) -> usize {
    let extended = ring.limb_count(ring.switching_basis(basis));
    let raising = raised_digits(ring, basis) + 2 * extended;
    let dividing = 2 * extended + division(extended) + 4 * ring.limb_count(basis);
    raising.max(dividing)
}

/// Limbs of the images that [`Ring::hoisted_product_sums`] holds, of `images` in all: those of one limb for each
/// thread, or whole ones on a device.
pub(crate) fn held_images(ring: &Ring, extended: Basis, images: usize) -> usize {
    let limbs = ring.limb_count(extended);
    match ring.device() {
        Some(_) => 2 * limbs * images,
        None => 2 * (HELD_IMAGES.min(images) + 1) * rayon::current_num_threads().min(limbs),
    }
}

/// Temporary limbs of the division of one polynomial, in addition to the polynomial and the result.
pub(crate) fn division(from: usize) -> usize {
    // One digit for each dropped prime, one remainder for each other prime, and the overflow count of the digits.
    from + 1
}

/// Number of threads of the current pool that work at the same time on so many parts.
pub(crate) fn threads(parts: usize) -> usize {
    rayon::current_num_threads().min(parts)
}

/// Temporary bytes of an encoding, in addition to its result.
pub(crate) fn encoding(parameters: &CkksParameters) -> u64 {
    (ENCODING_NUMBERS * parameters.slots() * 2 * size_of::<f64>()) as u64
}

/// Bytes of memory of a vector of two components at `level`.
pub fn vector_bytes(parameters: &CkksParameters, level: usize) -> u64 {
    bytes(parameters.ring(), 2 * parameters.limbs(level))
}

/// Peak bytes of memory of a relinearisation or automorphism of a vector at `level`, its result included.
pub fn key_switch_bytes(parameters: &CkksParameters, level: usize) -> u64 {
    bytes(parameters.ring(), key_switch(parameters.ring(), parameters.basis(level)))
}

/// Bytes of memory of a run that holds `live` bytes at its peak, and at other times `freed` bytes in buffers of other
/// sizes. The ring keeps freed buffers for reuse, up to a limit, also for smaller sizes, down to half of their own. So
/// about a quarter of what is live, at most, is wasted in longer buffers, and half of what was freed is not reused: all
/// circuits that were measured need less.
pub fn with_idle_buffers(parameters: &CkksParameters, live: u64, freed: u64) -> u64 {
    live + live / 4 + (freed / 2).min(parameters.ring().idle_bytes() as u64)
}

/// Counter of the bytes in use and of their peak.
#[derive(Debug, Default)]
pub(crate) struct Meter(Mutex<Usage>);

#[derive(Debug, Default)]
struct Usage {
    in_use: u64,
    peak: u64,
    /// For each size of the polynomials of vectors: bytes in use and their peak.
    by_size: BTreeMap<u64, [u64; 2]>,
    /// The distinct amounts of bytes that operations held temporarily.
    passing: BTreeSet<u64>,
}

impl Meter {
    fn usage(&self) -> MutexGuard<'_, Usage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resets all peaks to the bytes in use, which it returns.
    pub(crate) fn begin(&self) -> InUse {
        let mut usage = self.usage();
        usage.peak = usage.in_use;
        usage.passing.clear();
        usage.by_size.values_mut().for_each(|[in_use, peak]| *peak = *in_use);
        InUse { bytes: usage.in_use }
    }

    /// Peak of the bytes in use since `before`, less the bytes in use at that time.
    pub(crate) fn live(&self, before: &InUse) -> u64 {
        self.usage().peak - before.bytes
    }

    /// Sum over all sizes of the peak bytes since `before`: the memory in use if no freed buffer is returned to the
    /// system.
    pub(crate) fn touched(&self, before: &InUse) -> u64 {
        let usage = self.usage();
        let vectors: u64 = usage.by_size.values().map(|[_, peak]| peak).sum();
        vectors + usage.passing.iter().sum::<u64>() - before.bytes
    }

    /// Records bytes that are in use temporarily, in addition to all others.
    pub(crate) fn pass(&self, bytes: u64) {
        let mut usage = self.usage();
        usage.peak = usage.peak.max(usage.in_use + bytes);
        usage.passing.insert(bytes);
    }

    /// Counts `count` polynomials of `size` bytes as in use until the result is dropped.
    pub(crate) fn hold(self: &Arc<Self>, count: u64, size: u64) -> Allocation {
        let bytes = count * size;
        let mut usage = self.usage();
        usage.in_use += bytes;
        usage.peak = usage.peak.max(usage.in_use);
        let [in_use, peak] = usage.by_size.entry(size).or_default();
        *in_use += bytes;
        *peak = (*peak).max(*in_use);
        drop(usage);
        Allocation { meter: Some(Arc::clone(self)), count, size }
    }
}

/// Bytes that were in use when counting began.
pub(crate) struct InUse {
    bytes: u64,
}

/// Polynomials counted as in use until this is dropped. A clone counts the same number again.
#[derive(Debug, Default)]
pub(crate) struct Allocation {
    meter: Option<Arc<Meter>>,
    count: u64,
    size: u64,
}

impl Clone for Allocation {
    fn clone(&self) -> Self {
        self.meter.as_ref().map_or_else(Allocation::default, |meter| meter.hold(self.count, self.size))
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if let Some(meter) = &self.meter {
            let mut usage = meter.usage();
            usage.in_use -= self.count * self.size;
            if let Some([in_use, _]) = usage.by_size.get_mut(&self.size) {
                *in_use -= self.count * self.size;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_what_was_held_at_once() {
        let meter = Arc::new(Meter::default());
        let first = meter.hold(2, 50);
        let before = meter.begin();
        let second = first.clone();
        assert_eq!((meter.live(&before), meter.touched(&before)), (100, 100));
        drop(second);
        meter.pass(50);
        let other = meter.hold(1, 70);
        assert_eq!((meter.live(&before), meter.touched(&before)), (100, 100 + 50 + 70));
        meter.pass(150);
        drop(other);
        drop(first);
        assert_eq!((meter.live(&before), meter.touched(&before)), (220, 100 + 50 + 70 + 150));
        let before = meter.begin();
        assert_eq!((meter.live(&before), meter.touched(&before)), (0, 0));
    }
}
