//! Tests of the sparse secret of a bootstrap, of compact queries, and of their keys, in a small insecure ring.

use unspoken_ring::modular::primes_descending;
use unspoken_ring::{Basis, Poly, RingError, RingKind, RingLiteral, SecretRng};
use unspoken_rlwe::security::{SECURITY_BITS, SPARSE_SECRET, SecretDistribution};
use unspoken_rlwe::{
    Ciphertext, CompactQuery, CompactQueryParameters, CompactQuerySecret, EncapsulationLiteral, EvaluationKeys,
    KeyBundle, KeyKind, KeyPlan, KeyStorage, Parameters, ParametersLiteral, RlweError, SecretKey, SeededSwitchingKey,
};

const ENCAPSULATION: EncapsulationLiteral = EncapsulationLiteral { base: 2, primes: 5 };

fn literal(name: &str, degree: usize, encapsulation: Option<EncapsulationLiteral>) -> ParametersLiteral {
    let mut primes = primes_descending(1 << 29, 1 << 30, 2 * degree as u32);
    let special = primes.by_ref().take(5).collect();
    let chain = primes.take(8).collect();
    let ring = RingLiteral { degree, kind: RingKind::Standard, chain, terminal: vec![], special, digit_len: 2 };
    ParametersLiteral { name: name.into(), ring, secret: SecretDistribution::UniformTernary, encapsulation }
}

fn small() -> Parameters {
    Parameters::new(literal("insecure_test", 1024, Some(ENCAPSULATION))).unwrap()
}

fn message(parameters: &Parameters, coefficients: &[i64], chain: usize) -> Poly {
    let ring = parameters.ring();
    let mut poly = ring.from_i64(coefficients, Basis::chain(chain)).unwrap();
    ring.to_evaluation(&mut poly).unwrap();
    poly
}

/// A raised ciphertext under the main secret.
fn raised(parameters: &Parameters, sparse: &Ciphertext, keys: &EvaluationKeys) -> Result<Ciphertext, RlweError> {
    let (ring, to) = (parameters.ring(), Basis::chain(8));
    let mut divisor = vec![0; ring.degree()];
    divisor[0] = i64::from(ring.special()[0]) * i64::from(ring.special()[1]);
    let mut divisor = ring.from_i64(&divisor, to.with_special())?;
    ring.to_evaluation(&mut divisor)?;
    let divisor = ring.into_subring(divisor, 1)?;
    sparse.raise(parameters, to)?.product_sum(ring, &[(1, &divisor)], keys)?.divide(ring, to)
}

#[test]
fn raising_adds_small_multiples_of_the_modulus() {
    let parameters = small();
    let ring = parameters.ring();
    let mut rng = SecretRng::insecure_from_seed(1);
    let secret = SecretKey::generate(&parameters, &mut rng).unwrap();
    let mut plan = KeyPlan::new();
    plan.require(KeyKind::Encapsulation, ENCAPSULATION.primes);
    plan.require(KeyKind::Decapsulation { element: 1 }, 8);
    let keys = EvaluationKeys::generate(&secret, &plan, &mut rng).unwrap();
    let values: Vec<i64> = (0..1024).map(|i| (i - 500) << 40).collect();
    let ciphertext = secret.encrypt(&message(&parameters, &values, 2), &mut rng).unwrap();
    let sparse = ciphertext.encapsulate(&parameters, KeyKind::Encapsulation, &keys).unwrap();
    let switched = raised(&parameters, &sparse, &keys).unwrap();
    let found = ring.to_f64(&secret.decrypt(&switched).unwrap()).unwrap();
    let modulus = f64::from(ring.chain()[0]) * f64::from(ring.chain()[1]);
    let mut integers = Vec::new();
    for (found, &value) in found.iter().zip(&values) {
        let integer = ((found - value as f64) / modulus).round();
        assert!((found - value as f64 - integer * modulus).abs() < 2f64.powi(20));
        integers.push(integer);
    }
    // Sums of 33 uniform terms: variance 33/12.
    let variance = integers.iter().map(|i| i * i).sum::<f64>() / 1024.0;
    assert!((2.2..3.4).contains(&variance), "{variance}");
    assert!(integers.iter().all(|i| i.abs() <= 13.0));
    // A ciphertext of another level cannot be switched. The error names a missing key.
    let high = secret.encrypt(&message(&parameters, &values, 3), &mut rng).unwrap();
    assert!(high.encapsulate(&parameters, KeyKind::Encapsulation, &keys).is_err());
    let error = ciphertext.encapsulate(&parameters, KeyKind::QueryEncapsulation, &keys).unwrap_err();
    assert!(matches!(error, RlweError::Ring(_)), "{error}");
    let error = raised(&parameters, &sparse, &EvaluationKeys::new()).unwrap_err();
    assert!(matches!(error, RlweError::MissingKeys { .. }), "{error}");
    let error = raised(&parameters, &high, &keys).unwrap_err();
    assert!(matches!(error, RlweError::Ring(RingError::Basis { operation: "raise the modulus", .. })), "{error}");
}

#[test]
fn raised_ciphertexts_are_rotated_and_multiplied_at_once() {
    let parameters = small();
    let (ring, to) = (parameters.ring(), Basis::chain(8));
    let mut rng = SecretRng::insecure_from_seed(4);
    let secret = SecretKey::generate(&parameters, &mut rng).unwrap();
    let mut plan = KeyPlan::new();
    plan.require(KeyKind::Encapsulation, ENCAPSULATION.primes);
    [1, 5].into_iter().for_each(|element| plan.require(KeyKind::Decapsulation { element }, 8));
    let mut bytes = Vec::new();
    let never = std::sync::atomic::AtomicBool::new(false);
    KeyBundle::write(&secret, &plan, &mut rng, &mut bytes, |_, _| {}, &never).unwrap();
    let values: Vec<i64> = (0..1024).map(|i| (i - 500) << 40).collect();
    let ciphertext = secret.encrypt(&message(&parameters, &values, 2), &mut rng).unwrap();
    // `3 m(X) + X m(X^5)`, at the scale of the divisor.
    let divisor = i64::from(ring.special()[0]) * i64::from(ring.special()[1]);
    let factor = |power: usize, times: i64| {
        let mut coefficients = vec![0; 1024];
        coefficients[power] = divisor / 4 * times;
        let mut poly = ring.from_i64(&coefficients, to.with_special()).unwrap();
        ring.to_evaluation(&mut poly).unwrap();
        ring.into_subring(poly, 1).unwrap()
    };
    let [first, second] = [factor(0, 3), factor(1, 1)];
    let modulus = f64::from(ring.chain()[0]) * f64::from(ring.chain()[1]);
    for storage in [KeyStorage::Expanded, KeyStorage::Seeded] {
        let keys = KeyBundle::read(&parameters, storage, &mut bytes.as_slice()).unwrap();
        assert_eq!(keys.bytes(), plan.stored_bytes(ring, storage));
        let sparse = ciphertext.encapsulate(&parameters, KeyKind::Encapsulation, &keys).unwrap();
        let raised = sparse.raise(&parameters, to).unwrap();
        let sum = raised.product_sum(ring, &[(1, &first), (5, &second)], &keys).unwrap();
        let found = ring.to_f64(&secret.decrypt(&sum.divide(ring, to).unwrap()).unwrap()).unwrap();
        for (i, found) in found.iter().enumerate() {
            // The coefficient of `X^(i-1)` in `m(X^5)` is that of `X^j` with `5 j = i - 1` modulo 2048, up to its sign.
            let j = (i + 2047) * 1229 % 2048;
            let (image, sign) = if j < 1024 { (values[j], 1.0) } else { (values[j - 1024], -1.0) };
            let expected = (3.0 * values[i] as f64 + sign * image as f64) / 4.0;
            let quarters = (found - expected) / modulus * 4.0;
            assert!((quarters - quarters.round()).abs() * modulus < 2f64.powi(24), "{i}: {quarters}");
        }
    }
}

#[test]
fn queries_reach_the_sparse_secret_with_their_elements_in_place() {
    let parameters = small();
    let ring = parameters.ring();
    let mut rng = SecretRng::insecure_from_seed(2);
    let secret = SecretKey::generate(&parameters, &mut rng).unwrap();
    let queries = CompactQueryParameters::new(&parameters).unwrap();
    let torus: Vec<f64> = (0..512).map(|i| f64::from(i) / 512.0 - 0.5).collect();
    let query = CompactQuerySecret::of(&secret, &queries).unwrap().encrypt(&torus, &mut rng).unwrap();
    let again = CompactQuerySecret::of(&secret, &queries).unwrap().encrypt(&torus, &mut rng).unwrap();
    assert_ne!(query.seed(), again.seed());
    assert_ne!(query.to_bytes(&queries)[16..], again.to_bytes(&queries)[16..]);
    let mut plan = KeyPlan::new();
    plan.require(KeyKind::QueryEncapsulation, ENCAPSULATION.primes);
    plan.require(KeyKind::Decapsulation { element: 1 }, 8);
    let keys = EvaluationKeys::generate(&secret, &plan, &mut rng).unwrap();
    let query = CompactQuery::from_bytes(&queries, &query.to_bytes(&queries)).unwrap();
    let packed = query.expand(&queries, ring).unwrap();
    let sparse = packed.encapsulate(&parameters, KeyKind::QueryEncapsulation, &keys).unwrap();
    let switched = raised(&parameters, &sparse.scale_modulus(ring, 2).unwrap(), &keys).unwrap();
    let found = ring.to_f64(&secret.decrypt(&switched).unwrap()).unwrap();
    let modulus = f64::from(ring.chain()[0]) * f64::from(ring.chain()[1]);
    let mut squares = 0.0;
    for (i, t) in torus.iter().enumerate() {
        let x = found[queries.coefficient(i)] / modulus - t;
        let error = (x - x.round()) * f64::from(ring.chain()[0]);
        assert!(error.abs() < 30.0, "{error}");
        squares += error * error;
    }
    // The error of the encryption, 3.19, and the rounding of the switch, sqrt(33/12).
    let deviation = (squares / 512.0).sqrt();
    assert!((3.0..4.4).contains(&deviation), "{deviation}");
}

#[test]
fn bundles_hold_every_kind_of_key_and_nothing_that_does_not_fit() {
    let parameters = small();
    let mut rng = SecretRng::insecure_from_seed(3);
    let secret = SecretKey::generate(&parameters, &mut rng).unwrap();
    let mut plan = KeyPlan::new();
    for kind in [KeyKind::Encapsulation, KeyKind::QueryEncapsulation] {
        plan.require(kind, ENCAPSULATION.primes);
    }
    plan.require(KeyKind::Decapsulation { element: 1 }, 8);
    plan.require(KeyKind::Relinearisation, 6);
    plan.require(KeyKind::Galois { element: 5 }, 4);
    let mut bytes = Vec::new();
    KeyBundle::write_plan(&parameters, &plan, &mut bytes).unwrap();
    unspoken_rlwe::generate_keys(&secret, &plan, &mut rng, &std::sync::atomic::AtomicBool::new(false), |key| {
        KeyBundle::write_key(&parameters, &key, &mut bytes)
    })
    .unwrap();
    assert_eq!(bytes.len() as u64, KeyBundle::byte_len(&parameters, &plan));
    let keys = KeyBundle::read(&parameters, KeyStorage::Expanded, &mut bytes.as_slice()).unwrap();
    keys.check("test", &plan).unwrap();
    assert_eq!(keys.bytes(), plan.memory_bytes(parameters.ring()));
    assert!(KeyBundle::read(&parameters, KeyStorage::Expanded, &mut &bytes[..bytes.len() - 1]).is_err());
    // An encapsulation key over other primes than the parameters have, and a key for parameters without encapsulation.
    let mut wrong = KeyPlan::new();
    wrong.require(KeyKind::Encapsulation, ENCAPSULATION.primes + 1);
    let mut bytes = Vec::new();
    KeyBundle::write_plan(&parameters, &wrong, &mut bytes).unwrap();
    assert!(KeyBundle::read_plan(&parameters, &mut bytes.as_slice()).is_err());
    let without = Parameters::new(literal("insecure_other", 1024, None)).unwrap();
    let mut bytes = Vec::new();
    KeyBundle::write_plan(&without, &plan, &mut bytes).unwrap();
    let error = KeyBundle::read_plan(&without, &mut bytes.as_slice()).unwrap_err();
    assert!(matches!(error, RlweError::Encapsulation { .. }), "{error}");
    assert_ne!(without.fingerprint(), parameters.fingerprint());
    // Such a key is not generated on request of a service either: over more primes it would reveal the sparse secret.
    for chain in [1, ENCAPSULATION.primes + 1, 8] {
        let error = SeededSwitchingKey::generate(&secret, KeyKind::Encapsulation, chain, &mut rng).unwrap_err();
        assert!(matches!(error, RlweError::Encapsulation { .. }), "{error}");
    }
}

#[test]
fn keys_under_the_sparse_secret_count_for_security() {
    // 60 + 90 bits are safe at degree 2^15, whose bound is 164; 180 are not.
    let mut wide = literal("sound", 1 << 15, Some(ENCAPSULATION));
    let parameters = Parameters::new(wide.clone()).unwrap();
    let objects = parameters.secured_objects();
    let sparse = objects.iter().find(|object| object.secret == SPARSE_SECRET).unwrap();
    assert!(sparse.security_bits >= SECURITY_BITS && (149.0..150.0).contains(&sparse.log2_modulus));
    wide.encapsulation = Some(EncapsulationLiteral { base: 2, primes: 6 });
    assert!(matches!(Parameters::new(wide.clone()), Err(RlweError::Insecure { .. })));
    wide.encapsulation = Some(EncapsulationLiteral { base: 5, primes: 5 });
    assert!(matches!(Parameters::new(wide), Err(RlweError::Encapsulation { .. })));
}
