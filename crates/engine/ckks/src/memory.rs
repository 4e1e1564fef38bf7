//! How much memory operations on ciphertexts take.
//!
//! Amounts are counted in limbs: the residues of one polynomial modulo one prime. They are upper bounds: what the
//! threads of an operation hold in turn counts as held at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use unspoken_ring::{Basis, Ring};

use crate::parameters::CkksParameters;

/// Complex numbers per slot that an encoding holds: values in the order of the transform, its scratch, coefficients
/// before and after rounding.
const ENCODING_NUMBERS: usize = 5;

/// Bytes of so many limbs.
pub(crate) fn bytes(ring: &Ring, limbs: usize) -> u64 {
    (limbs * ring.poly_bytes(Basis::chain(1))) as u64
}

/// Limbs of the digits of one polynomial, raised to the extended basis, and of the plain digits they are made of.
pub(crate) fn raised_digits(ring: &Ring, chain: usize) -> usize {
    ring.digit_count(chain) * (chain + ring.special().len()) + chain
}

/// Limbs of a relinearisation or automorphism, its result included: the raised digits and their product with the key,
/// or that product beside its quotient and the image of the quotient.
pub(crate) fn key_switch(ring: &Ring, chain: usize) -> usize {
    let extended = chain + ring.special().len();
    let raising = raised_digits(ring, chain) + 2 * extended;
    let dividing = 2 * extended + division(extended) + 4 * chain;
    raising.max(dividing)
}

/// Limbs that the division of one polynomial holds beside it and the result.
pub(crate) fn division(from: usize) -> usize {
    // A digit for each prime that is dropped, a remainder for each other one, and how often the digits overflow.
    from + 1
}

/// Bytes that an encoding holds beside its result.
pub(crate) fn encoding(parameters: &CkksParameters) -> u64 {
    (ENCODING_NUMBERS * parameters.slots() * 2 * size_of::<f64>()) as u64
}

/// Bytes of memory that a vector of two components at `level` takes.
pub fn vector_bytes(parameters: &CkksParameters, level: usize) -> u64 {
    bytes(parameters.ring(), 2 * parameters.chain(level))
}

/// Bytes of memory that a relinearisation or automorphism of a vector at `level` takes at its peak, its result
/// included.
pub fn key_switch_bytes(parameters: &CkksParameters, level: usize) -> u64 {
    bytes(parameters.ring(), key_switch(parameters.ring(), parameters.chain(level)))
}

/// Bytes of memory of a run that holds `live` bytes at its peak, and at other times `freed` bytes of other sizes: the
/// ring keeps freed buffers for reuse, up to a limit, and a buffer of one size is not reused for another.
pub fn with_idle_buffers(parameters: &CkksParameters, live: u64, freed: u64) -> u64 {
    live + freed.min(parameters.ring().idle_bytes() as u64)
}

/// Bytes in use, and the most there were.
#[derive(Debug, Default)]
pub(crate) struct Meter(Mutex<Usage>);

#[derive(Debug, Default)]
struct Usage {
    in_use: u64,
    peak: u64,
    /// By size, of the polynomials of vectors: bytes in use, and the most there were.
    by_size: BTreeMap<u64, [u64; 2]>,
    /// What operations held for a moment: the amounts that differ.
    passing: BTreeSet<u64>,
}

impl Meter {
    fn usage(&self) -> MutexGuard<'_, Usage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets earlier peaks; what is in use.
    pub(crate) fn begin(&self) -> InUse {
        let mut usage = self.usage();
        usage.peak = usage.in_use;
        usage.passing.clear();
        usage.by_size.values_mut().for_each(|[in_use, peak]| *peak = *in_use);
        InUse { bytes: usage.in_use }
    }

    /// The most bytes in use at once since `before`, beyond those in use then.
    pub(crate) fn live(&self, before: &InUse) -> u64 {
        self.usage().peak - before.bytes
    }

    /// The most bytes of every size since `before`, added up: what is in use when no buffer is ever given back.
    pub(crate) fn touched(&self, before: &InUse) -> u64 {
        let usage = self.usage();
        let vectors: u64 = usage.by_size.values().map(|[_, peak]| peak).sum();
        vectors + usage.passing.iter().sum::<u64>() - before.bytes
    }

    /// Notes bytes that are in use for a moment, beside all others.
    pub(crate) fn pass(&self, bytes: u64) {
        let mut usage = self.usage();
        usage.peak = usage.peak.max(usage.in_use + bytes);
        usage.passing.insert(bytes);
    }

    /// Counts `count` polynomials of so many bytes as in use for as long as the result lives.
    pub(crate) fn hold(self: &Arc<Self>, count: u64, size: u64) -> Held {
        let bytes = count * size;
        let mut usage = self.usage();
        usage.in_use += bytes;
        usage.peak = usage.peak.max(usage.in_use);
        let [in_use, peak] = usage.by_size.entry(size).or_default();
        *in_use += bytes;
        *peak = (*peak).max(*in_use);
        drop(usage);
        Held { meter: Some(Arc::clone(self)), count, size }
    }
}

/// What was in use when counting began.
pub(crate) struct InUse {
    bytes: u64,
}

/// Polynomials in use, given back when dropped. A clone counts as many again.
#[derive(Debug, Default)]
pub(crate) struct Held {
    meter: Option<Arc<Meter>>,
    count: u64,
    size: u64,
}

impl Clone for Held {
    fn clone(&self) -> Self {
        self.meter.as_ref().map_or_else(Held::default, |meter| meter.hold(self.count, self.size))
    }
}

impl Drop for Held {
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
