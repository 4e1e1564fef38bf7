//! Tests of subring queries and of their key, in a small insecure ring.

use unspoken_ring::modular::primes_descending;
use unspoken_ring::{Basis, RingKind, RingLiteral, SecretRng};
use unspoken_rlwe::security::{SECURITY_BITS, SPARSE_SECRET, SecretDistribution};
use unspoken_rlwe::{
    EncapsulationLiteral, EvaluationKeys, KeyBundle, KeyKind, KeyPlan, KeyStorage, Parameters, ParametersLiteral,
    RlweError, SecretKey, SubringQuery, SubringQueryParameters, SubringQuerySecret, generate_keys,
};

fn literal(name: &str, degree: usize, encapsulation: bool) -> ParametersLiteral {
    let mut primes = primes_descending(1 << 29, 1 << 30, 2 * degree as u32);
    let special = primes.by_ref().take(2).collect();
    let chain = primes.take(8).collect();
    let ring = RingLiteral { degree, kind: RingKind::Standard, chain, terminal: vec![], special, digit_len: 2 };
    let encapsulation = encapsulation.then_some(EncapsulationLiteral { base: 2, primes: 5 });
    ParametersLiteral { name: name.into(), ring, secret: SecretDistribution::UniformTernary, encapsulation }
}

fn small() -> Parameters {
    Parameters::new(literal("insecure_test", 2048, true)).unwrap()
}

#[test]
fn elements_reach_the_main_secret_with_integers_in_the_subring_alone() {
    let parameters = small();
    let ring = parameters.ring();
    let mut rng = SecretRng::insecure_from_seed(1);
    let secret = SecretKey::generate(&parameters, &mut rng).unwrap();
    let queries = SubringQueryParameters::new(&parameters, 64).unwrap();
    let torus: Vec<f64> = (0..64).map(|i| f64::from(i) / 64.0 - 0.5).collect();
    let encrypt = |rng: &mut SecretRng| SubringQuerySecret::of(&secret, &queries).unwrap().encrypt(&torus, rng);
    let (query, again) = (encrypt(&mut rng).unwrap(), encrypt(&mut rng).unwrap());
    let bytes = query.to_bytes(&queries).unwrap();
    assert_ne!(query.seed(), again.seed());
    assert_ne!(bytes[16..], again.to_bytes(&queries).unwrap()[16..]);
    let query = SubringQuery::from_bytes(&queries, &bytes).unwrap();
    assert_eq!(query.to_bytes(&queries).unwrap(), bytes);

    let mut plan = KeyPlan::new();
    plan.require(KeyKind::SubringQuery, 8);
    let keys = EvaluationKeys::generate(&secret, &plan, &mut rng).unwrap();
    let factor = 1 << 20;
    let raised = query.raise(&queries, &parameters, (Basis::chain(8), factor), &keys).unwrap();
    let found = ring.to_f64(&secret.decrypt(&raised).unwrap()).unwrap();
    let q = f64::from(ring.chain()[0]);
    let unit = q * factor as f64;
    let (mut squares, mut integers) = (0.0, Vec::new());
    for (place, found) in found.iter().enumerate() {
        // The subring has degree 1024, and its elements are eight apart in its lower half.
        if place % 2 > 0 {
            assert!(found.abs() < 2000.0, "{found} in coefficient {place}");
        } else if place < 1024 && place % 16 == 0 {
            let x = found / unit - torus[place / 16];
            integers.push(x.round());
            squares += ((x - x.round()) * q).powi(2);
        } else {
            assert!(found.abs() < 14.0 * unit);
        }
    }
    let variance = integers.iter().map(|i| i * i).sum::<f64>() / 64.0;
    assert!((1.5..4.5).contains(&variance), "{variance}");
    let deviation = (squares / 64.0).sqrt();
    assert!((2.3..4.3).contains(&deviation), "{deviation}");

    let error = query.raise(&queries, &parameters, (Basis::chain(8), factor), &EvaluationKeys::new()).unwrap_err();
    assert!(matches!(error, RlweError::MissingKeys { .. }), "{error}");
    for factor in [0, -1, 1 << 31] {
        let error = query.raise(&queries, &parameters, (Basis::chain(8), factor), &keys).unwrap_err();
        assert!(matches!(error, RlweError::Decode { .. }), "{error}");
    }
    let other = Parameters::new(literal("insecure_other", 4096, true)).unwrap();
    let error = query.raise(&queries, &other, (Basis::chain(8), factor), &keys).unwrap_err();
    assert!(error.to_string().contains("insecure_other"), "{error}");
}

#[test]
fn a_bundle_has_the_key_where_queries_are_possible() {
    let parameters = small();
    let mut rng = SecretRng::insecure_from_seed(2);
    let secret = SecretKey::generate(&parameters, &mut rng).unwrap();
    let mut plan = KeyPlan::new();
    for kind in [KeyKind::Relinearisation, KeyKind::SubringQuery, KeyKind::Galois { element: 5 }] {
        plan.require(kind, 8);
    }
    for storage in [KeyStorage::Expanded, KeyStorage::Seeded] {
        let mut bytes = Vec::new();
        KeyBundle::write_plan(&parameters, &plan, &mut bytes).unwrap();
        generate_keys(&secret, &plan, &mut rng, &std::sync::atomic::AtomicBool::new(false), |key| {
            KeyBundle::write_key(&parameters, &key, &mut bytes)
        })
        .unwrap();
        assert_eq!(bytes.len() as u64, KeyBundle::byte_len(&parameters, &plan));
        let keys = KeyBundle::read(&parameters, storage, &mut bytes.as_slice()).unwrap();
        keys.check("test", &plan).unwrap();
        assert_eq!(keys.bytes(), plan.stored_bytes(parameters.ring(), storage));
    }
    let without = Parameters::new(literal("insecure_other", 2048, false)).unwrap();
    let mut bytes = Vec::new();
    KeyBundle::write_plan(&without, &plan, &mut bytes).unwrap();
    let error = KeyBundle::read_plan(&without, &mut bytes.as_slice()).unwrap_err();
    assert!(matches!(error, RlweError::Encapsulation { .. }), "{error}");
}

#[test]
fn queries_are_in_a_ring_with_a_margin_of_security_for_their_sparse_secret() {
    // 30 bits are below the bound of a secret of weight 32 at degree 2^13, which is 37, and far below that at 2^14, 77.
    for degree in [1 << 15, 1 << 16] {
        let parameters = Parameters::new(literal("sound", degree, true)).unwrap();
        let objects = parameters.secured_objects();
        let query = objects.iter().find(|object| object.what == "subring query").unwrap();
        assert_eq!((query.degree, query.secret), (1 << 14, SPARSE_SECRET));
        assert!(query.security_bits >= SECURITY_BITS && (29.9..30.0).contains(&query.log2_modulus));
        assert_eq!(SubringQueryParameters::most(&parameters).unwrap(), 4096);
        let ring = SubringQueryParameters::new(&parameters, 512).unwrap();
        assert_eq!((ring.parameters().ring().degree(), ring.byte_len()), (1 << 14, 16 + 512 * 30 / 8));
        for count in [0, 3, 8192] {
            assert!(SubringQueryParameters::new(&parameters, count).is_err(), "{count}");
        }
    }
    // A ring of degree 2^14 has none of smaller degree.
    let mut tight = literal("insecure_tight", 1 << 14, true);
    tight.name = "tight".into();
    tight.ring.special.truncate(1);
    tight.ring.digit_len = 1;
    tight.ring.chain.truncate(2);
    tight.encapsulation = None;
    let parameters = Parameters::new(tight).unwrap();
    assert!(SubringQueryParameters::new(&parameters, 64).is_err());
}
