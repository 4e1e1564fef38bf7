//! Tests of modulus switching against exact integer arithmetic.

use num_bigint::BigInt;
use unspoken_ring::modular::{Modulus, primes_descending, primitive_root_of_unity};
use unspoken_ring::{Backend, Basis, Ring, RingError, RingKind, RingLiteral, SecretRng, Seed};

use crate::common::DEGREE;

fn ring(chain: usize) -> Ring {
    let chain = primes_descending(1 << 29, 1 << 30, 2 * DEGREE as u32).take(chain).collect();
    let kind = RingKind::Standard;
    Ring::new(
        RingLiteral { degree: DEGREE, kind, chain, terminal: vec![], special: vec![], digit_len: 1 },
        Backend::detect(),
    )
    .unwrap()
}

/// The residues of every coefficient, read from the bytes of the polynomial over each prime alone.
fn coefficients(ring: &Ring, chain: usize, seed: u8) -> (unspoken_ring::Poly, Vec<BigInt>) {
    let mut poly = ring.uniform(&Seed([seed; 32]), 0, Basis::chain(chain));
    ring.to_coefficients(&mut poly).unwrap();
    let primes: Vec<u32> = ring.primes(poly.basis()).collect();
    let product: BigInt = primes.iter().map(|&q| BigInt::from(q)).product();
    let mut bytes = Vec::new();
    ring.write_residues(&poly, &mut bytes);
    let limb_bytes = bytes.len() / chain;
    let mut integers = vec![BigInt::from(0); DEGREE];
    for (i, &q) in primes.iter().enumerate() {
        let limb = &bytes[i * limb_bytes..(i + 1) * limb_bytes];
        let others = &product / q;
        let reduced: u32 = (&others % q).try_into().unwrap();
        let basis_element = others * Modulus::new(q).inv(reduced);
        for (x, integer) in integers.iter_mut().enumerate() {
            let residue = (0..30).fold(0u32, |r, bit| {
                let at = 30 * x + bit;
                r | u32::from(limb[at / 8] >> (at % 8) & 1) << bit
            });
            *integer += &basis_element * residue;
        }
    }
    let centre = |x: BigInt| {
        let x = x % &product;
        if &x * 2 > product { x - &product } else { x }
    };
    (poly, integers.into_iter().map(centre).collect())
}

fn modulo(x: &BigInt, t: u32) -> u32 {
    let t = BigInt::from(t);
    (((x % &t) + &t) % &t).try_into().unwrap()
}

#[test]
fn coefficients_are_scaled_and_reduced_exactly() {
    for (chain, seed) in [(1, 1), (3, 2), (29, 3)] {
        let ring = ring(chain);
        let (poly, integers) = coefficients(&ring, chain, seed);
        let product: BigInt = ring.primes(poly.basis()).map(BigInt::from).product();
        for t in [3, 65_537, (1 << 30) - 35, 12_345] {
            let remainders: Vec<u32> = integers.iter().map(|x| modulo(x, t)).collect();
            assert_eq!(*ring.remainders(&poly, t).unwrap(), remainders, "{chain} primes, t = {t}");
            let half_up = |x: &BigInt| {
                let numerator: BigInt = x * t * 2 + &product;
                let twice = &product * 2;
                // Division rounds towards zero, so the numerator is made positive first.
                modulo(&((numerator + &twice * t) / twice - t), t)
            };
            let scaled: Vec<u32> = integers.iter().map(half_up).collect();
            assert_eq!(*ring.scale_round(&poly, t).unwrap(), scaled, "{chain} primes, t = {t}");
        }
    }
}

#[test]
fn division_by_a_constant_undoes_a_product() {
    let ring = ring(3);
    let poly = ring.uniform(&Seed([4; 32]), 0, Basis::chain(3));
    let mut scaled = poly.clone();
    ring.scale_assign(&mut scaled, 65_537).unwrap();
    ring.unscale_assign(&mut scaled, 65_537).unwrap();
    ring.sub_assign(&mut scaled, &poly).unwrap();
    ring.to_coefficients(&mut scaled).unwrap();
    assert!(ring.to_f64(&scaled).unwrap().iter().all(|&x| x == 0.0));
    let prime = ring.chain()[1];
    assert!(matches!(ring.unscale_assign(&mut scaled, prime), Err(RingError::Factor { found, .. }) if found == prime));
}

#[test]
fn values_are_those_at_the_roots() {
    let ring = ring(1);
    let modulus = Modulus::new(ring.chain()[0]);
    let coefficients = SecretRng::insecure_from_seed(5).gaussian(DEGREE);
    let mut poly = ring.from_i32(&coefficients, Basis::chain(1)).unwrap();
    ring.to_evaluation(&mut poly).unwrap();
    let values = ring.to_values(&poly).unwrap();
    let psi = primitive_root_of_unity(&modulus, 2 * DEGREE as u32);
    for i in [0, 1, 2, 200, DEGREE - 1] {
        let reversed = (i as u32).reverse_bits() >> (32 - DEGREE.trailing_zeros());
        let root = modulus.pow(psi, u64::from(2 * reversed + 1));
        let horner = |value, &c: &i32| modulus.add(modulus.mul(value, root), modulus.from_i32(c));
        assert_eq!(values[i], coefficients.iter().rev().fold(0, horner), "position {i}");
    }
    let mut again = ring.from_values(&values).unwrap();
    ring.to_coefficients(&mut again).unwrap();
    let expected: Vec<f64> = coefficients.iter().map(|&c| f64::from(c)).collect();
    assert_eq!(*ring.to_f64(&again).unwrap(), expected);
}

#[test]
fn what_does_not_fit_is_refused() {
    let (ring, other) = (ring(2), ring(1));
    let evaluated = ring.uniform(&Seed([6; 32]), 0, Basis::chain(2));
    assert!(matches!(ring.scale_round(&evaluated, 17), Err(RingError::Domain { .. })));
    assert!(matches!(ring.to_values(&evaluated), Err(RingError::Basis { .. })));
    let mut poly = evaluated.clone();
    ring.to_coefficients(&mut poly).unwrap();
    for t in [0, 1, 2, 65_536, 1 << 30, u32::MAX] {
        assert!(matches!(ring.remainders(&poly, t), Err(RingError::Factor { found, .. }) if found == t), "{t}");
    }
    assert!(matches!(other.remainders(&poly, 17), Err(RingError::ForeignOperand { .. })));
    assert!(matches!(other.from_values(&[0; 3]), Err(RingError::Length { .. })));
    let large = vec![other.chain()[0]; DEGREE];
    assert!(matches!(other.from_values(&large), Err(RingError::Residue { .. })));
}

#[test]
fn the_errors_of_fractions_have_mean_zero() {
    // Two primes whose reciprocals are both rounded up: without a correction the mean is 0.0076 of a unit.
    let chain: Vec<u32> = primes_descending(1 << 25, 1 << 26, 4096).take(2).collect();
    let modulus: f64 = chain.iter().map(|&q| f64::from(q)).product();
    let literal =
        RingLiteral { degree: 2048, kind: RingKind::Standard, chain, terminal: vec![], special: vec![], digit_len: 1 };
    let ring = Ring::new(literal, Backend::detect()).unwrap();
    let seed = SecretRng::insecure_from_seed(8).seed();
    let (mut sum, mut count) = (0.0, 0.0);
    for stream in 0..200 {
        let mut poly = ring.uniform(&seed, stream, Basis::chain(2));
        ring.to_coefficients(&mut poly).unwrap();
        let (exact, found) = (ring.to_f64(&poly).unwrap(), ring.fractions(&poly).unwrap());
        for (exact, &found) in exact.iter().zip(found.iter()) {
            let units = exact / modulus * 32f64.exp2();
            let error = f64::from(found) - units;
            // Centred coefficients are below zero for the upper half of the fractions.
            sum += error - (error / 32f64.exp2()).round() * 32f64.exp2();
            count += 1.0;
        }
    }
    let mean: f64 = sum / count;
    assert!(mean.abs() < 0.0025, "the mean error is {mean:.5} units");
}
