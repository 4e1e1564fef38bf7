//! Tests of encryption, switching and serialisation in a small insecure ring.

use unspoken_ring::modular::primes_descending;
use unspoken_ring::{Basis, Domain, Poly, Ring, RingKind, RingLiteral, SecretRng};
use unspoken_rlwe::security::SecretDistribution;
use unspoken_rlwe::{
    Ciphertext, EvaluationKeys, FreshCiphertext, KeyBundle, KeyKind, KeyPlan, KeyStorage, Lifted, Parameters,
    ParametersLiteral, PublicKey, RlweError, SecretKey, SeededCiphertext, SeededSwitchingKey, ZeroEncryption, galois,
};
use zeroize::Zeroizing;

const DEGREE: usize = 1024;

fn literal(name: &str, kind: RingKind) -> ParametersLiteral {
    let mut primes = primes_descending(1 << 29, 1 << 30, kind.prime_step(DEGREE));
    let special = primes.by_ref().take(2).collect();
    let chain = primes.take(4).collect();
    let terminal = primes_descending(1 << 24, 1 << 25, kind.prime_step(DEGREE)).take(1).collect();
    let ring = RingLiteral { degree: DEGREE, kind, chain, terminal, special, digit_len: 2 };
    ParametersLiteral { name: name.into(), ring, secret: SecretDistribution::UniformTernary, encapsulation: None }
}

struct Setting {
    parameters: Parameters,
    secret: SecretKey,
    rng: SecretRng,
}

impl Setting {
    fn new(kind: RingKind) -> Self {
        let parameters = Parameters::new(literal("insecure_test", kind)).unwrap();
        let mut rng = SecretRng::insecure_from_seed(1);
        let secret = SecretKey::generate(&parameters, &mut rng).unwrap();
        Setting { parameters, secret, rng }
    }

    fn ring(&self) -> &Ring {
        self.parameters.ring()
    }

    fn message(&mut self, bits: u32, chain: usize) -> Poly {
        self.message_over(bits, Basis::chain(chain))
    }

    fn message_over(&mut self, bits: u32, basis: Basis) -> Poly {
        let mut draw = || {
            let mut bytes = [0; 4];
            self.rng.fill(&mut bytes);
            i128::from(i32::from_le_bytes(bytes) >> (32 - bits))
        };
        let coefficients: Vec<i128> = std::iter::repeat_with(&mut draw).take(DEGREE).collect();
        let mut poly = self.ring().from_i128(&coefficients, basis).unwrap();
        self.ring().to_evaluation(&mut poly).unwrap();
        poly
    }

    /// Largest coefficient of `dec(ciphertext) - expected`.
    fn noise(&self, ciphertext: &Ciphertext, expected: &Poly) -> f64 {
        let ring = self.ring();
        let mut difference = ring.restricted(expected, ciphertext.basis()).unwrap();
        ring.to_coefficients(&mut difference).unwrap();
        ring.sub_assign(&mut difference, &self.secret.decrypt(ciphertext).unwrap()).unwrap();
        ring.to_f64(&difference).unwrap().iter().fold(0.0, |max, x| x.abs().max(max))
    }

    fn keys(&mut self, kinds: &[KeyKind]) -> EvaluationKeys {
        let mut plan = KeyPlan::new();
        kinds.iter().for_each(|&kind| plan.require(kind, 4));
        EvaluationKeys::generate(&self.secret, &plan, &mut self.rng).unwrap()
    }
}

/// Six standard deviations of a fresh error (`FRESH`) and of the error that a key switch adds at this size
/// (`SWITCHED`): with digits of 60 bits and 60 bits of special primes, the key switch adds about
/// `sigma sqrt(n digits)`, and rounding adds `sqrt(n / 18)`.
const FRESH: f64 = 6.0 * 3.19;
const SWITCHED: f64 = 6.0 * 3.19 * 2.0 * 60.0;

#[test]
fn decryption_undoes_encryption_up_to_noise() {
    for kind in [RingKind::Standard, RingKind::ConjugateInvariant] {
        let mut s = Setting::new(kind);
        let message = s.message(25, 3);
        let ciphertext = s.secret.encrypt(&message, &mut s.rng).unwrap();
        let noise = s.noise(&ciphertext, &message);
        assert!(noise > 0.0 && noise < FRESH, "{noise}");
    }
}

#[test]
fn automorphisms_direct_hoisted_and_multiplied_agree() {
    for kind in [RingKind::Standard, RingKind::ConjugateInvariant] {
        let mut s = Setting::new(kind);
        let element = galois::rotation(s.ring(), 3);
        let keys = s.keys(&[KeyKind::Galois { element }]);
        for (chain, terminal) in [(4, 0), (4, 1), (3, 0), (2, 1), (1, 0)] {
            let message = s.message_over(20, Basis::chain(chain).with_terminal(terminal));
            let ciphertext = s.secret.encrypt(&message, &mut s.rng).unwrap();
            let expected = s.ring().automorphism(&message, element).unwrap();
            let hoisted = ciphertext.hoist(s.ring()).unwrap();
            let mut one = s.ring().zero(s.ring().switching_basis(ciphertext.basis()), Domain::Evaluation);
            s.ring().add_constant_assign(&mut one, 1).unwrap();
            let one = s.ring().into_subring(one, 1).unwrap();
            let lifted = ciphertext.lift(s.ring()).unwrap();
            let sums = vec![vec![(0, &one)].into()];
            let products = Lifted::product_sums(s.ring(), &[(&lifted, element)], sums, &keys).unwrap();
            for image in [
                ciphertext.automorphism(s.ring(), element, &keys).unwrap(),
                hoisted.automorphism(s.ring(), element, &keys).unwrap(),
                products[0].divide(s.ring(), ciphertext.basis()).unwrap(),
            ] {
                let noise = s.noise(&image, &expected);
                assert!(noise > 0.0 && noise < SWITCHED, "{noise}");
            }
        }
    }
}

#[test]
fn relinearisation_keeps_the_product() {
    let mut s = Setting::new(RingKind::Standard);
    let keys = s.keys(&[KeyKind::Relinearisation]);
    let (m1, m2) = (s.message(25, 4), s.message(25, 4));
    let (c1, c2) = (s.secret.encrypt(&m1, &mut s.rng).unwrap(), s.secret.encrypt(&m2, &mut s.rng).unwrap());
    let pair = |c: &Ciphertext| [c.components()[0].clone(), c.components()[1].clone()];
    let ([a0, a1], [b0, b1]) = (pair(&c1), pair(&c2));
    let tensor = s.ring().tensor([&a0, &a1], [&b0, &b1], Basis::chain(4)).unwrap();
    let product = Ciphertext::new(tensor.into()).unwrap();
    let mut expected = m1.clone();
    s.ring().mul_assign(&mut expected, &m2).unwrap();
    let before = s.noise(&product, &expected);
    let after = s.noise(&product.relinearise(s.ring(), &keys, Basis::chain(4)).unwrap(), &expected);
    assert!((after - before).abs() < SWITCHED, "{before} {after}");
    // Relinearisation fused with the rescale gives the same as a rescale afterwards, up to rounding.
    let fused = product.relinearise(s.ring(), &keys, Basis::chain(3)).unwrap();
    let apart =
        product.relinearise(s.ring(), &keys, Basis::chain(4)).unwrap().rescale(s.ring(), Basis::chain(3)).unwrap();
    let apart = {
        let mut poly = s.secret.decrypt(&apart).unwrap();
        s.ring().to_evaluation(&mut poly).unwrap();
        poly
    };
    assert!(s.noise(&fused, &apart) < 200.0);
}

#[test]
fn missing_keys_are_named_all_at_once() {
    let mut s = Setting::new(RingKind::Standard);
    let keys = s.keys(&[KeyKind::Relinearisation]);
    let mut plan = KeyPlan::new();
    plan.require(KeyKind::Relinearisation, 4);
    plan.require(KeyKind::Galois { element: 5 }, 2);
    plan.require(KeyKind::Galois { element: 25 }, 3);
    plan.require(KeyKind::Galois { element: 1 }, 3);
    let error = keys.check("test circuit", &plan).unwrap_err().to_string();
    assert!(error.contains("Galois key 5 (2 primes), Galois key 25 (3 primes)"), "{error}");
    let message = s.message(10, 4);
    let ciphertext = s.secret.encrypt(&message, &mut s.rng).unwrap();
    assert!(matches!(ciphertext.automorphism(s.ring(), 5, &keys), Err(RlweError::MissingKeys { .. })));
}

#[test]
fn insecure_parameters_need_their_name() {
    let error = Parameters::new(literal("fast", RingKind::Standard)).unwrap_err();
    assert!(matches!(error, RlweError::Insecure { .. }), "{error}");
}

#[test]
fn two_encryptions_share_nothing() {
    let mut s = Setting::new(RingKind::Standard);
    let message = s.message(10, 2);
    let [a, b] = [(); 2].map(|()| SeededCiphertext::encrypt(&s.secret, &message, &mut s.rng).unwrap());
    assert_ne!(a.seed(), b.seed());
    assert_ne!(a.to_bytes(&s.parameters)[60..], b.to_bytes(&s.parameters)[60..]);
}

#[test]
fn secrets_survive_storage_and_do_not_print() {
    let mut s = Setting::new(RingKind::Standard);
    let again = SecretKey::from_bytes(&s.parameters, &s.secret.to_bytes().unwrap()).unwrap();
    let message = s.message(20, 2);
    let ciphertext = again.encrypt(&message, &mut s.rng).unwrap();
    assert!(s.noise(&ciphertext, &message) < FRESH);
    assert!(SecretKey::from_bytes(&s.parameters, &[0xff; DEGREE / 4]).is_err());
    assert!(SecretKey::from_bytes(&s.parameters, &[0; 3]).is_err());
    assert_eq!(format!("{again:?}"), "SecretKey { parameters: \"insecure_test\", .. }");
}

#[test]
fn ciphertexts_survive_serialisation_and_damage_is_noticed() {
    let mut s = Setting::new(RingKind::Standard);
    let message = s.message(20, 3);
    let seeded = SeededCiphertext::encrypt(&s.secret, &message, &mut s.rng).unwrap();
    let bytes = seeded.to_bytes(&s.parameters);
    assert_eq!(bytes.len(), SeededCiphertext::byte_len(&s.parameters, Basis::chain(3)));
    let expanded = SeededCiphertext::from_bytes(&s.parameters, &bytes).unwrap().expand(s.ring());
    let full = Ciphertext::from_bytes(&s.parameters, &expanded.to_bytes(&s.parameters)).unwrap();
    assert!(s.noise(&full, &message) < FRESH);

    let read = |bytes: &[u8]| SeededCiphertext::from_bytes(&s.parameters, bytes);
    for len in [0, 3, 23, 24, 26, 57, 58, 1000, bytes.len() - 1] {
        assert!(read(&bytes[..len]).is_err(), "{len} bytes");
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert!(read(&longer).is_err());
    for (position, what) in
        [(0, "kind of file"), (4, "format version"), (6, "object kind"), (9, "other parameters"), (24, "chain primes")]
    {
        let mut damaged = bytes.clone();
        damaged[position] ^= 0x40;
        let error = read(&damaged).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
    let foreign = Parameters::new(literal("insecure_other", RingKind::ConjugateInvariant)).unwrap();
    assert!(SeededCiphertext::from_bytes(&foreign, &bytes).is_err());
    let mut terminals = bytes.clone();
    terminals[25] |= 0x20;
    let error = SeededCiphertext::from_bytes(&s.parameters, &terminals).unwrap_err().to_string();
    assert!(error.contains("2 terminal primes"), "{error}");
}

#[test]
fn ciphertexts_over_terminal_primes_survive_serialisation() {
    let mut s = Setting::new(RingKind::Standard);
    let basis = Basis::chain(2).with_terminal(1);
    let message = s.message_over(20, basis);
    let seeded = SeededCiphertext::encrypt(&s.secret, &message, &mut s.rng).unwrap();
    let bytes = seeded.to_bytes(&s.parameters);
    assert_eq!(bytes.len(), SeededCiphertext::byte_len(&s.parameters, basis));
    let expanded = SeededCiphertext::from_bytes(&s.parameters, &bytes).unwrap().expand(s.ring());
    let bytes = expanded.to_bytes(&s.parameters);
    assert_eq!(bytes.len(), Ciphertext::byte_len(&s.parameters, basis));
    let full = Ciphertext::from_bytes(&s.parameters, &bytes).unwrap();
    assert_eq!(full.basis(), basis);
    assert!(s.noise(&full, &message) < FRESH);
    // From two primes of 30 bits and one of 25 to three of 30, and to one.
    let rescaled = |to| s.secret.decrypt(&full.rescale(s.ring(), to).unwrap()).unwrap();
    for to in [Basis::chain(3), Basis::chain(1)] {
        let poly = rescaled(to);
        assert_eq!(poly.basis(), to);
    }
    let public = PublicKey::generate(&s.secret, &mut s.rng).unwrap();
    let ciphertext = public.encrypt(&message, &mut s.rng).unwrap();
    assert!(ciphertext.basis() == basis && s.noise(&ciphertext, &message) < FRESH * 40.0);
}

#[test]
fn key_bundles_survive_serialisation_and_damage_is_noticed() {
    let mut s = Setting::new(RingKind::Standard);
    let element = galois::rotation(s.ring(), 1);
    let mut plan = KeyPlan::new();
    plan.require(KeyKind::Relinearisation, 4);
    plan.require(KeyKind::Galois { element }, 2);
    let mut bytes = Vec::new();
    KeyBundle::write_plan(&s.parameters, &plan, &mut bytes).unwrap();
    for (kind, chain) in plan.iter() {
        let key = SeededSwitchingKey::generate(&s.secret, kind, chain, &mut s.rng).unwrap();
        KeyBundle::write_key(&s.parameters, &key, &mut bytes).unwrap();
    }
    assert_eq!(bytes.len() as u64, KeyBundle::byte_len(&s.parameters, &plan));
    assert_eq!(KeyBundle::read_plan(&s.parameters, &mut bytes.as_slice()).unwrap(), plan);
    let keys = KeyBundle::read(&s.parameters, KeyStorage::Expanded, &mut bytes.as_slice()).unwrap();
    assert_eq!(keys.bytes(), plan.memory_bytes(s.ring()));
    let message = s.message(20, 2);
    let ciphertext = s.secret.encrypt(&message, &mut s.rng).unwrap();
    let expected = s.ring().automorphism(&message, element).unwrap();
    assert!(s.noise(&ciphertext.automorphism(s.ring(), element, &keys).unwrap(), &expected) < SWITCHED);

    for len in [0, 10, 27, 30, 50, 60, bytes.len() / 2, bytes.len() - 1] {
        assert!(KeyBundle::read(&s.parameters, KeyStorage::Expanded, &mut &bytes[..len]).is_err(), "{len} bytes");
    }
    let damaged = |position: usize, value: u8| {
        let mut damaged = bytes.clone();
        damaged[position] = value;
        KeyBundle::read(&s.parameters, KeyStorage::Expanded, &mut damaged.as_slice()).unwrap_err().to_string()
    };
    assert!(damaged(27, 0xff).contains("keys")); // the count
    assert!(damaged(28 + 12, 12).contains("key kind 12"));
    assert!(damaged(28 + 12, 2).contains("sparse secret"));
    assert!(damaged(28 + 8, 9).contains("chain primes"));
    bytes.push(0);
    assert!(KeyBundle::read(&s.parameters, KeyStorage::Expanded, &mut bytes.as_slice()).is_err());
}

#[test]
fn a_plan_counts_what_its_keys_take() {
    let mut s = Setting::new(RingKind::Standard);
    let mut plan = KeyPlan::new();
    plan.require(KeyKind::Galois { element: 5 }, 1);
    plan.require(KeyKind::Galois { element: 5 }, 3);
    plan.require(KeyKind::Relinearisation, 4);
    let keys = EvaluationKeys::generate(&s.secret, &plan, &mut s.rng).unwrap();
    assert_eq!(keys.bytes(), plan.memory_bytes(s.ring()));
    assert!(plan.wire_bytes(s.ring()) * 2 <= plan.memory_bytes(s.ring()));
}

#[test]
fn seeded_keys_take_half_of_the_memory_and_give_the_same_bits() {
    let mut s = Setting::new(RingKind::Standard);
    let mut plan = KeyPlan::new();
    plan.require(KeyKind::Galois { element: 5 }, 4);
    let mut bundle = Vec::new();
    KeyBundle::write_plan(&s.parameters, &plan, &mut bundle).unwrap();
    for (kind, chain) in plan.iter() {
        let key = SeededSwitchingKey::generate(&s.secret, kind, chain, &mut s.rng).unwrap();
        KeyBundle::write_key(&s.parameters, &key, &mut bundle).unwrap();
    }
    let message = s.message(20, 4);
    let ciphertext = s.secret.encrypt(&message, &mut s.rng).unwrap();
    let images = [KeyStorage::Expanded, KeyStorage::Seeded].map(|storage| {
        let keys = KeyBundle::read(&s.parameters, storage, &mut bundle.as_slice()).unwrap();
        assert_eq!(keys.bytes(), plan.stored_bytes(s.ring(), storage));
        let image = ciphertext.automorphism(s.ring(), 5, &keys).unwrap();
        let mut bytes = Vec::new();
        image.components().iter().for_each(|c| s.ring().write_residues(c, &mut bytes));
        (bytes, keys.bytes())
    });
    let [(expanded, whole), (seeded, half)] = images;
    assert!(expanded == seeded && whole == 2 * half);
}

#[test]
fn public_keys_encrypt_with_the_noise_they_promise() {
    for kind in [RingKind::Standard, RingKind::ConjugateInvariant] {
        let mut s = Setting::new(kind);
        let public = PublicKey::generate(&s.secret, &mut s.rng).unwrap();
        // In the conjugate-invariant ring a product has twice the terms.
        let terms = if kind == RingKind::Standard { 4.0 / 3.0 } else { 8.0 / 3.0 } * DEGREE as f64;
        let deviation = 3.19 * (terms + 1.0f64).sqrt();
        for chain in 1..=4 {
            let message = s.message(15, chain);
            let ciphertext = public.encrypt(&message, &mut s.rng).unwrap();
            assert_eq!(ciphertext.basis(), Basis::chain(chain));
            let noise = s.noise(&ciphertext, &message);
            assert!(noise > 2.0 * deviation && noise < 6.0 * deviation, "{noise} at deviation {deviation}");
        }
        let zero = s.ring().zero(Basis::chain(2), unspoken_ring::Domain::Evaluation);
        let [a, b] = [(); 2].map(|()| public.encrypt(&zero, &mut s.rng).unwrap().to_bytes(&s.parameters));
        assert!(a[27..59] != b[27..59], "two encryptions share a component");
    }
}

#[test]
fn public_keys_survive_serialisation_and_damage_is_noticed() {
    let mut s = Setting::new(RingKind::Standard);
    let public = PublicKey::generate(&s.secret, &mut s.rng).unwrap();
    let bytes = public.to_bytes();
    assert_eq!(bytes.len(), PublicKey::byte_len(&s.parameters));
    let again = PublicKey::from_bytes(&s.parameters, &bytes).unwrap();
    assert_eq!(again.to_bytes(), bytes);
    let message = s.message(20, 4);
    let ciphertext = again.encrypt(&message, &mut s.rng).unwrap();
    assert!(s.noise(&ciphertext, &message) < 6.0 * 3.19 * 40.0);
    assert_eq!(format!("{public:?}"), "PublicKey { parameters: \"insecure_test\", .. }");

    let read = |bytes: &[u8]| PublicKey::from_bytes(&s.parameters, bytes);
    for len in [0, 23, 24, 55, 56, bytes.len() - 1] {
        assert!(read(&bytes[..len]).is_err(), "{len} bytes");
    }
    assert!(read(&[&bytes[..], &[0]].concat()).is_err());
    let mut unreduced = bytes.clone();
    unreduced[56..60].fill(0xff);
    assert!(read(&unreduced).unwrap_err().to_string().contains("not reduced"));
    assert!(SeededCiphertext::from_bytes(&s.parameters, &bytes).is_err());
}

#[test]
fn public_keys_with_one_seed_are_told_apart() {
    let mut s = Setting::new(RingKind::Standard);
    let public = PublicKey::generate(&s.secret, &mut s.rng).unwrap();
    let bytes = public.to_bytes();
    let other = PublicKey::generate(&s.secret, &mut s.rng).unwrap().to_bytes();
    let read = |bytes: &[u8]| PublicKey::from_bytes(&s.parameters, bytes).unwrap().identity();
    assert_eq!(read(&bytes), public.identity());
    // The body of one key with the seed of another, in both combinations.
    for mixed in [[&bytes[..56], &other[56..]].concat(), [&other[..56], &bytes[56..]].concat()] {
        assert_ne!(read(&mixed), public.identity());
        assert_ne!(read(&mixed), read(&other));
    }
}

#[test]
fn a_message_added_to_zero_is_encrypted() {
    let mut s = Setting::new(RingKind::Standard);
    let public = PublicKey::generate(&s.secret, &mut s.rng).unwrap();
    for chain in 1..=3 {
        let message = s.message(20, chain);
        let zeros = [
            ZeroEncryption::seeded(&s.secret, Basis::chain(3), &mut s.rng).unwrap(),
            ZeroEncryption::public(&public, Basis::chain(3), &mut s.rng).unwrap(),
        ];
        for (zero, seeded) in zeros.into_iter().zip([true, false]) {
            let bytes = zero.into_bytes(&s.parameters).unwrap();
            assert_eq!(bytes.len(), ZeroEncryption::byte_len(&s.parameters, Basis::chain(3), seeded));
            let zero = ZeroEncryption::from_bytes(&s.parameters, bytes, Basis::chain(3), seeded).unwrap();
            assert_eq!(zero.basis(), Basis::chain(3));
            let (full, bound) = match zero.plus(s.ring(), &message).unwrap() {
                FreshCiphertext::Seeded(fresh) => (fresh.expand(s.ring()), FRESH),
                FreshCiphertext::Full(fresh) => (fresh, FRESH * 40.0),
            };
            assert_eq!(full.basis(), Basis::chain(chain));
            assert!(s.noise(&full, &message) < bound);
        }
    }
    let message = s.message(20, 4);
    let lower = ZeroEncryption::seeded(&s.secret, Basis::chain(3), &mut s.rng).unwrap();
    assert!(lower.plus(s.ring(), &message).is_err());
}

#[test]
fn bytes_of_something_else_are_no_zero() {
    let mut s = Setting::new(RingKind::Standard);
    let bytes =
        ZeroEncryption::seeded(&s.secret, Basis::chain(2), &mut s.rng).unwrap().into_bytes(&s.parameters).unwrap();
    let refuse = |bytes: &[u8], chain, seeded| {
        let found =
            ZeroEncryption::from_bytes(&s.parameters, Zeroizing::new(bytes.to_vec()), Basis::chain(chain), seeded);
        let error = found.unwrap_err().to_string();
        assert!(error.contains("an encryption of zero"), "{error}");
    };
    for len in [0, 6, 7, 30, bytes.len() - 1] {
        refuse(&bytes[..len], 2, true);
    }
    for position in [0, 4, 6, 8] {
        let mut changed = bytes.to_vec();
        changed[position] ^= 1;
        refuse(&changed, 2, true);
    }
    refuse(&bytes, 3, true);
    refuse(&bytes, 2, false);
    refuse(&PublicKey::generate(&s.secret, &mut s.rng).unwrap().to_bytes(), 2, true);
    let zero = s.ring().zero(Basis::chain(2), unspoken_ring::Domain::Evaluation);
    let three = Ciphertext::new(vec![zero.clone(), zero.clone(), zero]).unwrap();
    refuse(&three.to_bytes(&s.parameters), 2, false);
    // A residue that is not below its prime: all bits of the last one are set.
    let mut outside = bytes.to_vec();
    outside[bytes.len() - 4..].fill(0xff);
    let error = ZeroEncryption::from_bytes(&s.parameters, Zeroizing::new(outside), Basis::chain(2), true).unwrap_err();
    assert!(matches!(error, RlweError::Ring(unspoken_ring::RingError::Residue { .. })), "{error}");
}

#[test]
fn without_special_primes_there_are_no_switching_keys() {
    let mut bare = literal("insecure_bare", RingKind::Standard);
    bare.ring.special.clear();
    let parameters = Parameters::new(bare).unwrap();
    let mut rng = SecretRng::insecure_from_seed(1);
    let secret = SecretKey::generate(&parameters, &mut rng).unwrap();
    for kind in [KeyKind::Relinearisation, KeyKind::Galois { element: 5 }] {
        let error = SeededSwitchingKey::generate(&secret, kind, 2, &mut rng).unwrap_err();
        assert!(matches!(error, RlweError::NoSpecialPrimes { .. }), "{error}");
    }
    let objects = parameters.secured_objects();
    assert_eq!(objects.iter().map(|object| object.what).collect::<Vec<_>>(), ["ciphertext", "public key"]);
    assert!(PublicKey::generate(&secret, &mut rng).is_ok());
}

#[test]
fn what_is_sent_is_public_and_what_opens_it_is_secret() {
    let mut s = Setting::new(RingKind::Standard);
    let element = galois::rotation(s.ring(), 3);
    let keys = s.keys(&[KeyKind::Relinearisation, KeyKind::Galois { element }]);
    let public = PublicKey::generate(&s.secret, &mut s.rng).unwrap();
    let mut message = s.message(20, 4);
    message.mark_secret();

    let is_secret = |ciphertext: &Ciphertext| ciphertext.components().iter().any(Poly::is_secret);
    let seeded = s.secret.encrypt(&message, &mut s.rng).unwrap();
    let full = public.encrypt(&message, &mut s.rng).unwrap();
    for ciphertext in [&seeded, &full] {
        assert!(!is_secret(ciphertext));
        // The keys of the server and the results computed with them are public, too.
        assert!(!is_secret(&ciphertext.automorphism(s.ring(), element, &keys).unwrap()));
        let [a, b] = ciphertext.components() else { panic!("two components") };
        let product = Ciphertext::new(s.ring().tensor([a, b], [a, b], Basis::chain(4)).unwrap().into()).unwrap();
        assert!(!is_secret(&product.relinearise(s.ring(), &keys, Basis::chain(3)).unwrap()));
        assert!(s.secret.decrypt(ciphertext).unwrap().is_secret());
    }

    // An encryption of zero is secret, because it reveals the message of the ciphertext made from it.
    let zeros = [
        SeededCiphertext::encrypt_zero(&s.secret, Basis::chain(4), &mut s.rng).unwrap().expand(s.ring()),
        public.encrypt_zero(Basis::chain(4), &mut s.rng).unwrap(),
    ];
    for zero in zeros {
        assert!(is_secret(&zero) && !is_secret(&zero.plus(s.ring(), &message).unwrap()));
    }
    for (zero, seeded) in [
        (ZeroEncryption::seeded(&s.secret, Basis::chain(4), &mut s.rng).unwrap(), true),
        (ZeroEncryption::public(&public, Basis::chain(4), &mut s.rng).unwrap(), false),
    ] {
        let bytes = zero.into_bytes(&s.parameters).unwrap();
        let read = ZeroEncryption::from_bytes(&s.parameters, bytes, Basis::chain(4), seeded).unwrap();
        let sent = match read.plus(s.ring(), &message).unwrap() {
            FreshCiphertext::Seeded(sent) => sent.expand(s.ring()),
            FreshCiphertext::Full(sent) => sent,
        };
        assert!(!is_secret(&sent));
    }
}
