//! Terminal primes: moduli that are not nested, against exact integer arithmetic, on every backend of this machine.

use num_bigint::BigInt;
use unspoken_ring::modular::primes_descending;
use unspoken_ring::{Backend, Basis, Domain, Poly, Ring, RingError, RingKind, RingLiteral, SecretRng};

use crate::common::{DEGREE, encoded, gadget_rows, random, read};

/// Primes of 30 bits in the chain, of 25 bits as terminal primes.
fn rings() -> impl Iterator<Item = Ring> {
    let available = Backend::ALL.into_iter().filter(|backend| backend.is_available());
    available.flat_map(|backend| {
        [RingKind::Standard, RingKind::ConjugateInvariant].map(|kind| {
            let step = kind.prime_step(DEGREE);
            let mut primes = primes_descending(1 << 29, 1 << 30, step);
            let special = primes.by_ref().take(4).collect();
            let chain = primes.take(6).collect();
            let terminal = primes_descending(1 << 24, 1 << 25, step).take(3).collect();
            Ring::new(RingLiteral { degree: DEGREE, kind, chain, terminal, special, digit_len: 4 }, backend).unwrap()
        })
    })
}

fn basis(chain: usize, terminal: usize) -> Basis {
    Basis::chain(chain).with_terminal(terminal)
}

#[test]
fn rational_rescaling_rounds_the_quotient() {
    let mut rng = SecretRng::insecure_from_seed(1);
    for ring in rings() {
        let product = |from: Basis, to: Basis| -> BigInt {
            let dropped: Vec<u32> = ring.primes(to).collect();
            ring.primes(from).filter(|q| !dropped.contains(q)).map(BigInt::from).product()
        };
        for (from, to) in [
            (basis(5, 0), basis(2, 2)),
            (basis(3, 2), basis(4, 0)),
            (basis(4, 1), basis(2, 3)),
            (basis(4, 3), basis(4, 0)),
            (basis(4, 2).with_special(), basis(1, 3)),
            (basis(4, 2).with_special(), basis(4, 2)),
        ] {
            let coefficients = random(&mut rng, 100);
            let result = ring.rescale_round(&encoded(&ring, &coefficients, from), to).unwrap();
            assert_eq!(result.basis(), to);
            let (multiplied, divided) = (product(to, from), product(from, to));
            for (found, x) in read(&ring, result).into_iter().zip(&coefficients) {
                let doubled = BigInt::from(2 * x) * &multiplied + &divided;
                let wanted = doubled.modpow(&BigInt::from(1), &(&divided * 2));
                let rounded: BigInt = (&doubled - wanted) / (&divided * 2);
                let rounded: f64 = rounded.to_string().parse().unwrap();
                assert!((found - rounded).abs() <= rounded.abs() * 2f64.powi(-50), "{from} {to}: {found} {rounded}");
            }
        }
        let poly = encoded(&ring, &[1; DEGREE], basis(3, 1));
        for to in [basis(4, 2), basis(3, 3), basis(0, 3), basis(7, 0), basis(2, 4), basis(2, 1).with_special()] {
            assert!(matches!(ring.rescale_round(&poly, to), Err(RingError::Basis { .. })), "{to}");
        }
        assert!(matches!(ring.divide_round(&poly, basis(2, 2)), Err(RingError::Basis { .. })));
    }
}

#[test]
fn operands_over_more_primes_are_matched_by_prime() {
    let mut rng = SecretRng::insecure_from_seed(2);
    for ring in rings() {
        let (a, b) = (random(&mut rng, 20), random(&mut rng, 20));
        let (small, large) = (basis(3, 2), basis(6, 3));
        let [x, y] = [encoded(&ring, &a, small), encoded(&ring, &b, large)];
        let sums: Vec<f64> = a.iter().zip(&b).map(|(a, b)| (a + b) as f64).collect();
        assert_eq!(read(&ring, ring.add(&x, &y).unwrap()), sums);
        assert_eq!(read(&ring, ring.restricted(&y, small).unwrap()), b.iter().map(|&b| b as f64).collect::<Vec<_>>());
        let restricted = ring.restricted(&y, small).unwrap();
        let product = read(&ring, ring.mul(&x, &restricted).unwrap());
        assert_eq!(read(&ring, ring.mul(&x, &y).unwrap()), product);
        let zero = ring.zero(large, Domain::Evaluation);
        let [_, cross, _] = ring.tensor([&x, &zero], [&zero, &y], small).unwrap();
        assert_eq!(read(&ring, cross), product);
        let mut sum = ring.zero(small, Domain::Evaluation);
        ring.mul_add_assign(&mut sum, &encoded(&ring, &a, large), &y).unwrap();
        assert_eq!(read(&ring, sum), product);
        assert!(matches!(ring.add(&x, &encoded(&ring, &b, basis(6, 1))), Err(RingError::Basis { .. })));
        let extended = ring.extend_basis(&x, basis(5, 3).with_special()).unwrap();
        assert_eq!(
            read(&ring, ring.restricted(&extended, basis(5, 1)).unwrap()),
            a.iter().map(|&a| a as f64).collect::<Vec<_>>()
        );
    }
}

#[test]
fn one_gadget_key_serves_every_basis() {
    let mut rng = SecretRng::insecure_from_seed(3);
    for ring in rings() {
        let message = random(&mut rng, 10);
        let whole = ring.gadget_key_basis(6);
        assert_eq!((whole, ring.digit_count(6)), (basis(6, 3).with_special(), 3));
        let m = encoded(&ring, &message, whole);
        let zero = ring.zero(whole, Domain::Evaluation);
        let rows = gadget_rows(&ring, &m, 3);
        let rows: Vec<[&Poly; 2]> = rows.iter().map(|row| [row, &zero]).collect();
        let key = ring.gadget_key(6, &rows).unwrap();
        assert_eq!(key.bytes(), ring.gadget_key_bytes(ring.gadget_key_basis(6)));
        for (from, to) in [
            (basis(6, 3), basis(6, 3)),
            (basis(5, 0), basis(3, 2)),
            (basis(3, 2), basis(3, 0)),
            (basis(1, 3), basis(1, 1)),
        ] {
            let factor = random(&mut rng, 10);
            let x = encoded(&ring, &factor, from);
            let direct = ring.gadget_product(&x, &key).unwrap();
            let raised = ring.decompose(&x).unwrap();
            assert_eq!(raised.basis(), from);
            let hoisted = ring.gadget_product_hoisted(&raised, &key).unwrap();
            let summed = ring.hoisted_sum(&raised, &[(&key, 1)]).unwrap();
            let expected =
                read(&ring, ring.mul(&encoded(&ring, &factor, from), &encoded(&ring, &message, from)).unwrap());
            for products in [direct, hoisted, summed] {
                let [product, other] = products.map(|poly| read(&ring, ring.divide_round(&poly, from).unwrap()));
                assert_eq!(product, expected);
                assert!(other.iter().all(|&x| x == 0.0));
            }
            // Division by the special primes and rational rescaling in one step.
            let [product, _] = ring.gadget_product(&x, &key).unwrap();
            let scaled = read(&ring, ring.rescale_round(&product, to).unwrap());
            let log2 = |basis| ring.primes(basis).map(|q| f64::from(q).log2()).sum::<f64>();
            let ratio = (log2(to) - log2(from)).exp2();
            assert!(scaled.iter().zip(&expected).all(|(found, exact)| (found - exact * ratio).abs() <= 0.51), "{from}");
        }
    }
}
