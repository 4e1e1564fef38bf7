//! How much memory operations on ciphertexts take.
//!
//! Amounts are counted in limbs: the residues of one polynomial modulo one prime. They are upper bounds: what the
//! threads of an operation hold in turn counts as held at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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

/// Bytes of memory of a run whose vectors and temporary values take `live` bytes at their peak: the ring keeps freed
/// buffers for reuse, and those of one size do not serve for another.
pub fn with_idle_buffers(parameters: &CkksParameters, live: u64) -> u64 {
    live + live.min(parameters.ring().idle_bytes() as u64)
}

/// Bytes in use, and the most there were.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    in_use: AtomicU64,
    peak: AtomicU64,
}

impl Meter {
    fn in_use(&self) -> u64 {
        self.in_use.load(Ordering::Relaxed)
    }

    /// Forgets earlier peaks; bytes in use.
    pub(crate) fn begin(&self) -> u64 {
        let in_use = self.in_use();
        self.peak.store(in_use, Ordering::Relaxed);
        in_use
    }

    pub(crate) fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    /// Notes bytes that are in use for a moment, beside all others.
    pub(crate) fn pass(&self, bytes: u64) {
        self.peak.fetch_max(self.in_use() + bytes, Ordering::Relaxed);
    }

    /// Counts bytes as in use for as long as the result lives.
    pub(crate) fn hold(self: &Arc<Self>, bytes: u64) -> Held {
        let in_use = self.in_use.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak.fetch_max(in_use, Ordering::Relaxed);
        Held { meter: Some(Arc::clone(self)), bytes }
    }
}

/// Bytes in use, given back when dropped. A clone counts as many again.
#[derive(Debug, Default)]
pub(crate) struct Held {
    meter: Option<Arc<Meter>>,
    bytes: u64,
}

impl Clone for Held {
    fn clone(&self) -> Self {
        self.meter.as_ref().map_or_else(Held::default, |meter| meter.hold(self.bytes))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(meter) = &self.meter {
            meter.in_use.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_what_was_held_at_once() {
        let meter = Arc::new(Meter::default());
        let first = meter.hold(100);
        let second = first.clone();
        assert_eq!((meter.in_use(), meter.peak()), (200, 200));
        drop(first);
        meter.pass(50);
        assert_eq!((meter.in_use(), meter.peak()), (100, 200));
        meter.pass(150);
        drop(second);
        assert_eq!((meter.in_use(), meter.peak()), (0, 250));
        assert_eq!((meter.begin(), meter.peak()), (0, 0));
    }
}
