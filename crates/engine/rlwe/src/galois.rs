//! Slots, and the Galois elements of their operations.

use unspoken_ring::{Ring, RingKind};

/// Number of slots: complex slots in the standard ring, real slots in the conjugate-invariant ring.
pub fn slot_count(ring: &Ring) -> usize {
    match ring.kind() {
        RingKind::Standard => ring.degree() / 2,
        RingKind::ConjugateInvariant => ring.degree(),
    }
}

/// The order of the ring's root of unity. Galois elements are numbers modulo this order.
pub fn order(ring: &Ring) -> u64 {
    u64::from(ring.kind().prime_step(ring.degree()))
}

/// The element that rotates the slots to the left by `steps`: slot `j` gets the value of slot `j + steps`.
pub fn rotation(ring: &Ring, steps: i64) -> u64 {
    let modulus = order(ring);
    let mut exponent = steps.rem_euclid(slot_count(ring) as i64) as u64;
    let (mut base, mut result) = (5u64, 1u64);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = result * base % modulus;
        }
        base = base * base % modulus;
        exponent >>= 1;
    }
    result
}

/// The element that conjugates the slots of the standard ring.
pub fn conjugation(ring: &Ring) -> u64 {
    order(ring) - 1
}

/// The inverse of an odd element.
pub fn inverse(ring: &Ring, element: u64) -> u64 {
    let mut inverse = element;
    for _ in 0..6 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(element.wrapping_mul(inverse)));
    }
    inverse % order(ring)
}
