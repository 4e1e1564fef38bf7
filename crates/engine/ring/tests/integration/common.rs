//! A small degree, and polynomials of integers.

use unspoken_ring::{Basis, Domain, Poly, Ring, SecretRng};

pub const DEGREE: usize = 512;

/// Integers of `bits` bits with their sign, one for each coefficient.
pub fn random(rng: &mut SecretRng, bits: u32) -> Vec<i128> {
    let mut draw = || {
        let mut bytes = [0u8; 16];
        rng.fill(&mut bytes);
        i128::from_le_bytes(bytes) >> (128 - bits)
    };
    std::iter::repeat_with(&mut draw).take(DEGREE).collect()
}

/// The polynomial with these coefficients, in evaluation form.
pub fn encoded(ring: &Ring, coefficients: &[i128], basis: Basis) -> Poly {
    let mut poly = ring.from_i128(coefficients, basis).unwrap();
    ring.to_evaluation(&mut poly).unwrap();
    poly
}

/// The centred coefficients.
pub fn read(ring: &Ring, mut poly: Poly) -> Vec<f64> {
    ring.to_coefficients(&mut poly).unwrap();
    ring.to_f64(&poly).unwrap().to_vec()
}

/// The first components of the rows of a gadget key of `message` without errors and masks, one for each digit.
pub fn gadget_rows(ring: &Ring, message: &Poly, digits: usize) -> Vec<Poly> {
    let row = |digit| {
        let mut row = ring.zero(message.basis(), Domain::Evaluation);
        ring.add_gadget_message(&mut row, message, digit).unwrap();
        row
    };
    (0..digits).map(row).collect()
}
