//! Tests of the ring against exact integer arithmetic, on every backend that this machine can run.

use num_bigint::BigInt;
use unspoken_ring::modular::{Modulus, primes_descending};
use unspoken_ring::{
    Backend, Basis, Domain, KeyRows, Poly, Ring, RingError, RingKind, RingLiteral, SecretRng, Special,
};

use crate::common::{DEGREE, encoded, gadget_rows, random, read};

fn ring_on(kind: RingKind, chain: usize, special: usize, digit_len: usize, backend: Backend) -> Ring {
    let step = kind.prime_step(DEGREE);
    let mut primes = primes_descending(1 << 29, 1 << 30, step);
    let special = primes.by_ref().take(special).collect();
    let chain = primes.take(chain).collect();
    Ring::new(RingLiteral { degree: DEGREE, kind, chain, terminal: vec![], special, digit_len }, backend).unwrap()
}

fn rings(chain: usize, special: usize, digit_len: usize) -> impl Iterator<Item = Ring> {
    let available = Backend::ALL.into_iter().filter(|b| b.is_available());
    available.flat_map(move |backend| {
        [RingKind::Standard, RingKind::ConjugateInvariant].map(|kind| ring_on(kind, chain, special, digit_len, backend))
    })
}

/// `(exponent modulo the order, coefficient)` of each term in `Z[X] / (X^m + 1)`, `m = n` or `2n`.
fn terms(kind: RingKind, coefficients: &[i128]) -> (usize, Vec<(usize, i128)>) {
    let plain = coefficients.iter().copied().enumerate();
    match kind {
        RingKind::Standard => (DEGREE, plain.collect()),
        RingKind::ConjugateInvariant => {
            let mirrored = plain.clone().skip(1).map(|(i, c)| (4 * DEGREE - i, c));
            (2 * DEGREE, plain.chain(mirrored).collect())
        }
    }
}

fn collect(kind: RingKind, modulus_degree: usize, terms: impl Iterator<Item = (usize, BigInt)>) -> Vec<BigInt> {
    let mut full = vec![BigInt::from(0); modulus_degree];
    for (exponent, coefficient) in terms {
        match exponent % (2 * modulus_degree) {
            e if e < modulus_degree => full[e] += coefficient,
            e => full[e - modulus_degree] -= coefficient,
        }
    }
    if kind == RingKind::ConjugateInvariant {
        full.truncate(DEGREE);
    }
    full
}

fn multiply(kind: RingKind, a: &[i128], b: &[i128]) -> Vec<BigInt> {
    let ((degree, a), (_, b)) = (terms(kind, a), terms(kind, b));
    let products = a.iter().flat_map(|&(i, x)| b.iter().map(move |&(j, y)| (i + j, BigInt::from(x) * y)));
    collect(kind, degree, products)
}

fn assert_integers(found: &[f64], expected: &[BigInt]) {
    for (x, y) in found.iter().zip(expected) {
        assert_eq!(format!("{x:.0}"), y.to_string());
    }
}

#[test]
fn products_are_exact() {
    let mut rng = SecretRng::insecure_from_seed(1);
    let (a, b) = (random(&mut rng, 20), random(&mut rng, 20));
    for ring in rings(3, 0, 1) {
        let basis = Basis::chain(3);
        let (mut x, mut y) = (ring.from_i128(&a, basis).unwrap(), ring.from_i128(&b, basis).unwrap());
        ring.to_evaluation(&mut x).unwrap();
        ring.to_evaluation(&mut y).unwrap();
        ring.mul_assign(&mut x, &y).unwrap();
        assert_integers(&read(&ring, x), &multiply(ring.kind(), &a, &b));
    }
}

#[test]
fn tensor_product_is_the_three_products() {
    let mut rng = SecretRng::insecure_from_seed(2);
    let inputs: [Vec<i128>; 4] = std::array::from_fn(|_| random(&mut rng, 15));
    for ring in rings(2, 0, 1) {
        let [a0, a1, b0, b1] = std::array::from_fn(|i| {
            let mut poly = ring.from_i128(&inputs[i], Basis::chain(2)).unwrap();
            ring.to_evaluation(&mut poly).unwrap();
            poly
        });
        let [d0, d1, d2] = ring.tensor([&a0, &a1], [&b0, &b1], Basis::chain(2)).unwrap();
        let product = |i: usize, j: usize| multiply(ring.kind(), &inputs[i], &inputs[j]);
        assert_integers(&read(&ring, d0), &product(0, 2));
        let cross: Vec<BigInt> = product(0, 3).into_iter().zip(product(1, 2)).map(|(x, y)| x + y).collect();
        assert_integers(&read(&ring, d1), &cross);
        assert_integers(&read(&ring, d2), &product(1, 3));
    }
}

#[test]
fn automorphisms_act_on_coefficients() {
    let mut rng = SecretRng::insecure_from_seed(3);
    let a = random(&mut rng, 20);
    for ring in rings(1, 0, 1) {
        for galois in [1u64, 5, 25, 2 * DEGREE as u64 - 3] {
            let mut poly = ring.from_i128(&a, Basis::chain(1)).unwrap();
            let of_coefficients = ring.automorphism(&poly, galois).unwrap();
            ring.to_evaluation(&mut poly).unwrap();
            let image = ring.automorphism(&poly, galois).unwrap();
            assert_eq!(read(&ring, of_coefficients), read(&ring, image.clone()));
            let (degree, terms) = terms(ring.kind(), &a);
            let moved = terms.into_iter().map(|(i, c)| (i * galois as usize, BigInt::from(c)));
            assert_integers(&read(&ring, image), &collect(ring.kind(), degree, moved));
        }
        assert!(matches!(
            ring.automorphism(&ring.zero(Basis::chain(1), Domain::Evaluation), 2),
            Err(RingError::Galois { found: 2 })
        ));
    }
}

#[test]
fn division_rounds_to_the_nearest_integer() {
    let mut rng = SecretRng::insecure_from_seed(4);
    for ring in rings(4, 2, 1) {
        let cases = [
            (Basis::chain(4), Basis::chain(3)),
            (Basis::chain(4), Basis::chain(2)),
            (Basis::extended(4), Basis::chain(4)),
            (Basis::extended(4), Basis::chain(2)),
            (Basis::extended(3), Basis::chain(2)),
        ];
        for (from, to) in cases {
            let kept: Vec<u32> = ring.primes(to).collect();
            let divisor: BigInt = ring.primes(from).filter(|q| !kept.contains(q)).map(BigInt::from).product();
            // Quotients stay exact in a double.
            let a = random(&mut rng, (divisor.bits() as u32 + 50).min(126));
            let mut poly = ring.from_i128(&a, from).unwrap();
            ring.to_evaluation(&mut poly).unwrap();
            let quotient = read(&ring, ring.divide_round(&poly, to).unwrap());
            for (x, value) in quotient.iter().zip(&a) {
                let twice: BigInt = BigInt::from(*value) * 2 + &divisor;
                let doubled: BigInt = &divisor * 2;
                let floor =
                    if twice < BigInt::from(0) { (&twice - &doubled + 1) / &doubled } else { &twice / &doubled };
                assert_eq!(format!("{x:.0}").replace("-0", "0"), floor.to_string(), "{from} to {to}");
            }
        }
    }
}

#[test]
fn basis_extension_keeps_centred_integers() {
    let mut rng = SecretRng::insecure_from_seed(9);
    for ring in rings(4, 2, 1) {
        let a = random(&mut rng, 53);
        for (from, to) in [(Basis::chain(2), Basis::chain(4)), (Basis::chain(2), Basis::extended(3))] {
            let extend = |basis| {
                let mut poly = ring.from_i128(&a, basis).unwrap();
                ring.to_evaluation(&mut poly).unwrap();
                poly
            };
            let mut difference = ring.extend_basis(&extend(from), to).unwrap();
            ring.sub_assign(&mut difference, &extend(to)).unwrap();
            let mut bytes = Vec::new();
            ring.write_residues(&difference, &mut bytes);
            assert!(bytes.iter().all(|&b| b == 0), "{from} to {to}");
        }
        let small = ring.zero(Basis::chain(1), Domain::Evaluation);
        assert!(ring.extend_basis(&small, Basis::chain(5)).is_err());
    }
}

#[test]
fn gadget_products_are_products_with_small_errors() {
    let mut rng = SecretRng::insecure_from_seed(5);
    for digit_len in [1, 2, 3] {
        for ring in rings(5, 3, digit_len) {
            let message = random(&mut rng, 10);
            for chain in [5, 4, 1] {
                let basis = Basis::extended(5);
                let m = encoded(&ring, &message, basis);
                let zero = ring.zero(basis, Domain::Evaluation);
                let rows = gadget_rows(&ring, &m, ring.digit_count(5));
                let rows: Vec<[&Poly; 2]> = rows.iter().map(|row| [row, &zero]).collect();
                let whole = ring.gadget_key(5, &rows).unwrap();
                // Digits of one prime are small enough for the short form, the others are not.
                let short = ring.switching_basis(Basis::chain(chain)).special == Special::Short;
                assert_eq!(short, digit_len == 1 || chain == 1);
                let other = ring.short_gadget_key(&whole).unwrap();
                let (key, other) = if short { (other, whole) } else { (whole, other) };
                let a = random(&mut rng, 10);
                let mut x = ring.from_i128(&a, Basis::chain(chain)).unwrap();
                ring.to_evaluation(&mut x).unwrap();
                assert!(matches!(ring.gadget_product(&x, &other), Err(RingError::Basis { .. })));
                let direct = ring.gadget_product(&x, &key).unwrap();
                let hoisted = ring.gadget_product_hoisted(&ring.decompose(&x).unwrap(), &key).unwrap();
                for (direct, hoisted) in direct.iter().zip(&hoisted) {
                    let [direct, hoisted] =
                        [direct, hoisted].map(|p| read(&ring, ring.divide_round(p, Basis::chain(chain)).unwrap()));
                    assert_eq!(direct, hoisted);
                }
                // The sum of two automorphisms of the product, computed limb by limb, against one automorphism after
                // the other.
                let raised = ring.decompose(&x).unwrap();
                let together = ring.hoisted_sum(&raised, &[(&key, 5), (&key, 25), (&key, 5)]).unwrap();
                let divided = |p: &Poly| read(&ring, ring.divide_round(p, Basis::chain(chain)).unwrap());
                for (sum, product) in together.iter().zip(&ring.gadget_product_hoisted(&raised, &key).unwrap()) {
                    let once = ring.automorphism(product, 5).unwrap();
                    let mut expected = ring.automorphism(product, 25).unwrap();
                    ring.add_assign(&mut expected, &once).unwrap();
                    ring.add_assign(&mut expected, &once).unwrap();
                    assert_eq!(divided(&ring.automorphism_sum(product, &[25, 5, 5]).unwrap()), divided(&expected));
                    assert_eq!(divided(sum), divided(&expected));
                }
                assert!(ring.hoisted_sum(&raised, &[]).is_err() && ring.automorphism_sum(&x, &[]).is_err());
                assert!(ring.hoisted_sum(&raised, &[(&key, 2)]).is_err());
                let [product, other] = direct.map(|p| read(&ring, ring.divide_round(&p, Basis::chain(chain)).unwrap()));
                assert_integers(&product, &multiply(ring.kind(), &a, &message));
                assert!(other.iter().all(|&x| x == 0.0));
            }
        }
    }
}

#[test]
fn seeded_keys_give_the_bits_of_stored_ones() {
    let mut rng = SecretRng::insecure_from_seed(8);
    for digit_len in [1, 2, 3] {
        for ring in rings(5, 3, digit_len) {
            let (seed, basis) = (rng.seed(), Basis::extended(5));
            let bodies: Vec<Poly> =
                (0..ring.digit_count(5)).map(|digit| ring.uniform(&rng.seed(), digit as u32, basis)).collect();
            let masks: Vec<Poly> = (0..bodies.len()).map(|digit| ring.uniform(&seed, digit as u32, basis)).collect();
            let rows: Vec<[&Poly; 2]> = bodies.iter().zip(&masks).map(|(body, mask)| [body, mask]).collect();
            let stored = ring.gadget_key(5, &rows).unwrap();
            let mut builder = ring.seeded_gadget_key_builder(5, KeyRows::EachDigit, seed).unwrap();
            bodies.iter().for_each(|body| builder.push(body).unwrap());
            assert!(
                builder.push(&bodies[0]).is_err()
                    && ring.seeded_gadget_key_builder(6, KeyRows::EachDigit, seed).is_err()
            );
            let seeded = builder.finish().unwrap();
            assert_eq!(2 * seeded.bytes(), stored.bytes());
            for chain in [5, 1] {
                let x = ring.uniform(&rng.seed(), 0, Basis::chain(chain));
                let short = ring.switching_basis(x.basis()).special == Special::Short;
                let products = [&stored, &seeded].map(|key| {
                    if short {
                        return ring.gadget_product(&x, &ring.short_gadget_key(key).unwrap()).unwrap();
                    }
                    ring.gadget_product(&x, key).unwrap()
                });
                let [stored, seeded] = products.map(|pair| {
                    let mut bytes = Vec::new();
                    pair.iter().for_each(|poly| ring.write_residues(poly, &mut bytes));
                    bytes
                });
                assert!(stored == seeded);
            }
        }
    }
}

#[test]
fn matrix_products_match_the_definition() {
    let mut rng = SecretRng::insecure_from_seed(6);
    for ring in rings(2, 0, 1) {
        for (rows, columns) in [(1, 1), (3, 5), (6, 17)] {
            let inputs: Vec<Vec<i128>> = (0..columns).map(|_| random(&mut rng, 20)).collect();
            let polys: Vec<Poly> = inputs
                .iter()
                .map(|a| {
                    let mut poly = ring.from_i128(a, Basis::chain(2)).unwrap();
                    ring.to_evaluation(&mut poly).unwrap();
                    poly
                })
                .collect();
            let entry = |r: usize, c: usize| (r as i128 * 37 - c as i128 * 101, c as i128 * 13 - r as i128 * 7);
            let refs: Vec<&Poly> = polys.iter().collect();
            let matrix = ring.real_matrix(Basis::chain(2), rows, columns, |r, c| entry(r, c).0);
            let results = ring.matrix_product(&matrix, &refs).unwrap();
            assert_eq!(results.len(), rows);
            for (r, result) in results.into_iter().enumerate() {
                let sum = |x: usize| (0..columns).map(|c| BigInt::from(entry(r, c).0) * inputs[c][x]).sum::<BigInt>();
                assert_integers(&read(&ring, result), &(0..DEGREE).map(sum).collect::<Vec<_>>());
            }
            let complex = ring.complex_matrix(Basis::chain(2), rows, columns, entry);
            if ring.kind() == RingKind::ConjugateInvariant {
                assert!(complex.is_err());
                continue;
            }
            let results = ring.matrix_product(&complex.unwrap(), &refs).unwrap();
            for (r, result) in results.into_iter().enumerate() {
                // i is X^(n/2).
                let rotated = |c: usize, x: usize| {
                    if x < DEGREE / 2 { -inputs[c][x + DEGREE / 2] } else { inputs[c][x - DEGREE / 2] }
                };
                let term = |c: usize, x: usize| {
                    BigInt::from(entry(r, c).0) * inputs[c][x] + BigInt::from(entry(r, c).1) * rotated(c, x)
                };
                let sum = |x: usize| (0..columns).map(|c| term(c, x)).sum::<BigInt>();
                assert_integers(&read(&ring, result), &(0..DEGREE).map(sum).collect::<Vec<_>>());
            }
        }
    }
}

#[test]
fn backends_return_the_same_bits() {
    let bytes = |backend| {
        let ring = ring_on(RingKind::Standard, 5, 3, 2, backend);
        let seed = SecretRng::insecure_from_seed(7).seed();
        let basis = Basis::extended(5);
        let rows: Vec<[Poly; 2]> =
            (0..3).map(|d| [ring.uniform(&seed, d, basis), ring.uniform(&seed, d + 9, basis)]).collect();
        let refs: Vec<[&Poly; 2]> = rows.iter().map(|[a, b]| [a, b]).collect();
        let key = ring.gadget_key(5, &refs).unwrap();
        let x = ring.uniform(&seed, 20, Basis::chain(5));
        let [k0, _] = ring.gadget_product(&x, &key).unwrap();
        let divided = ring.divide_round(&k0, Basis::chain(3)).unwrap();
        let mut moved = ring.automorphism(&divided, 125).unwrap();
        ring.to_coefficients(&mut moved).unwrap();
        let mut bytes = Vec::new();
        ring.write_residues(&moved, &mut bytes);
        bytes
    };
    let reference = bytes(Backend::Portable);
    for backend in Backend::ALL.into_iter().filter(|b| b.is_available()) {
        assert_eq!(bytes(backend), reference, "{backend:?}");
    }
}

#[test]
fn residues_are_packed_bit_by_bit() {
    for bits in [17, 29, 30] {
        let kind = RingKind::Standard;
        let chain = primes_descending(1 << (bits - 1), 1 << bits, kind.prime_step(DEGREE)).take(1).collect();
        let literal = RingLiteral { degree: DEGREE, kind, chain, terminal: vec![], special: vec![], digit_len: 1 };
        let ring = Ring::new(literal, Backend::detect()).unwrap();
        let poly = ring.uniform(&SecretRng::insecure_from_seed(9).seed(), 0, Basis::chain(1));
        let mut bytes = Vec::new();
        ring.write_residues(&poly, &mut bytes);
        assert_eq!(8 * bytes.len(), DEGREE * bits);
        let bit = |i: usize| u32::from(bytes[i / 8] >> (i % 8) & 1);
        let residue = |i: usize| (0..bits).fold(0, |word, k| word | bit(i * bits + k) << k);
        let modulus = Modulus::new(ring.chain()[0]);
        let unpacked: Vec<u32> = (0..DEGREE).map(|i| modulus.from_montgomery(residue(i))).collect();
        assert_eq!(unpacked, *ring.to_values(&poly).unwrap());
        let again = ring.read_residues(&bytes, Basis::chain(1), Domain::Evaluation).unwrap();
        assert_eq!(unpacked, *ring.to_values(&again).unwrap());
    }
}

#[test]
fn residues_survive_serialisation_and_damage_is_noticed() {
    let ring = ring_on(RingKind::Standard, 3, 1, 1, Backend::detect());
    let basis = Basis::extended(2);
    let poly = ring.uniform(&SecretRng::insecure_from_seed(8).seed(), 0, basis);
    let mut bytes = Vec::new();
    ring.write_residues(&poly, &mut bytes);
    assert_eq!(bytes.len(), ring.residue_bytes(basis));
    let again = ring.read_residues(&bytes, basis, Domain::Evaluation).unwrap();
    let mut copy = Vec::new();
    ring.write_residues(&again, &mut copy);
    assert_eq!(bytes, copy);
    assert!(matches!(ring.read_residues(&bytes[1..], basis, Domain::Evaluation), Err(RingError::Length { .. })));
    bytes[..4].fill(0xff);
    assert!(matches!(ring.read_residues(&bytes, basis, Domain::Evaluation), Err(RingError::Residue { .. })));
}

#[test]
fn wrong_operands_are_errors() {
    let ring = ring_on(RingKind::Standard, 3, 1, 1, Backend::detect());
    let other = ring_on(RingKind::Standard, 3, 1, 1, Backend::detect());
    let zero = |ring: &Ring, chain| ring.zero(Basis::chain(chain), Domain::Evaluation);
    let mut a = zero(&ring, 3);
    assert!(matches!(ring.add_assign(&mut a, &zero(&ring, 2)), Err(RingError::Basis { .. })));
    assert!(matches!(ring.add_assign(&mut a, &zero(&other, 3)), Err(RingError::ForeignOperand { .. })));
    let coefficients = ring.zero(Basis::chain(3), Domain::Coefficient);
    assert!(matches!(ring.mul_assign(&mut a, &coefficients), Err(RingError::Domain { .. })));
    assert!(matches!(ring.divide_round(&a, Basis::chain(0)), Err(RingError::Basis { .. })));
    assert!(matches!(ring.divide_round(&a, Basis::extended(2)), Err(RingError::Basis { .. })));
    let literal = |chain| RingLiteral {
        degree: DEGREE,
        kind: RingKind::Standard,
        chain,
        terminal: vec![],
        special: vec![],
        digit_len: 1,
    };
    assert!(matches!(Ring::new(literal(vec![12289, 12289]), Backend::Portable), Err(RingError::Prime { .. })));
    assert!(matches!(Ring::new(literal(vec![]), Backend::Portable), Err(RingError::Length { .. })));
    assert!(matches!(
        Ring::new(RingLiteral { degree: 500, ..literal(vec![12289]) }, Backend::Portable),
        Err(RingError::Degree { .. })
    ));
}
