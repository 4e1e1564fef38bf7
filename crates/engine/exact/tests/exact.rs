//! Tests of encrypted exact arithmetic against the same arithmetic in the clear, in small insecure rings.

use proptest::prelude::*;
use unspoken_exact::{
    Ciphertext, Encoder, Encrypted, EncryptionKey, Evaluator, ExactError, Plaintext, Preset, Scheme, SeededCiphertext,
};
use unspoken_ring::{Basis, SecretRng};
use unspoken_rlwe::{PublicKey, SecretKey, ZeroEncryption};

const SMALL: &str = "insecure_n10_exact17";
const LARGE: &str = "insecure_n10_exact30";
const SCHEMES: [Scheme; 2] = [Scheme::Bfv, Scheme::Bgv];

struct Client {
    encoder: Encoder,
    evaluator: Evaluator,
    secret: SecretKey,
    rng: SecretRng,
}

impl Client {
    fn new(preset: &str, scheme: Scheme) -> Self {
        let parameters = Preset::find(preset).unwrap().build(scheme).unwrap();
        let mut rng = SecretRng::insecure_from_seed(1);
        let secret = SecretKey::generate(parameters.rlwe(), &mut rng).unwrap();
        Client { encoder: Encoder::new(&parameters), evaluator: Evaluator::new(&parameters), secret, rng }
    }

    fn modulus(&self) -> i64 {
        i64::from(self.encoder.parameters().plain_modulus())
    }

    fn slots(&self) -> usize {
        self.encoder.parameters().slots()
    }

    /// Uniform over the whole range.
    fn values(&mut self) -> Vec<i64> {
        let modulus = self.modulus();
        let mut bytes = vec![0; 8 * self.slots()];
        self.rng.fill(&mut bytes);
        let draw = |b: &[u8; 8]| centred(i64::from_le_bytes(*b), modulus);
        bytes.as_chunks::<8>().0.iter().map(draw).collect()
    }

    fn encrypt(&mut self, plaintext: &Plaintext) -> Ciphertext {
        self.encoder.encrypt(plaintext, &self.secret, &mut self.rng).unwrap().expand().unwrap()
    }

    fn slots_of(&self, ciphertext: &Ciphertext) -> Vec<i64> {
        let measured = self.encoder.measured_budget_bits(ciphertext, &self.secret).unwrap();
        assert!(measured >= ciphertext.budget_bits() - 0.1, "{measured} under {}", ciphertext.budget_bits());
        self.encoder.decode_slots(&self.encoder.decrypt(ciphertext, &self.secret).unwrap()).unwrap().to_vec()
    }
}

fn centred(x: i64, modulus: i64) -> i64 {
    let residue = x.rem_euclid(modulus);
    if residue > modulus / 2 { residue - modulus } else { residue }
}

/// `a b` modulo `X^n + 1` and `t`.
fn negacyclic(a: &[i64], b: &[i64], modulus: i64) -> Vec<i64> {
    let n = a.len();
    let mut product = vec![0i128; n];
    for (i, &a) in a.iter().enumerate() {
        for (j, &b) in b.iter().enumerate() {
            let sign = if i + j < n { 1 } else { -1 };
            product[(i + j) % n] += sign * i128::from(a) * i128::from(b);
        }
    }
    product.into_iter().map(|x| centred((x % i128::from(modulus)) as i64, modulus)).collect()
}

#[test]
fn every_operation_is_exact_in_the_slots() {
    for (preset, scheme) in SCHEMES.into_iter().flat_map(|scheme| [(SMALL, scheme), (LARGE, scheme)]) {
        let mut client = Client::new(preset, scheme);
        let modulus = client.modulus();
        let (x, y) = (client.values(), client.values());
        let [px, py] = [&x, &y].map(|values| client.encoder.encode_slots(values).unwrap());
        let (cx, cy) = (client.encrypt(&px), client.encrypt(&py));
        assert_eq!(client.slots_of(&cx), x, "{preset} {scheme}");
        let evaluator = client.evaluator.clone();
        type Operation = fn(i64, i64) -> i128;
        let cases: [(&str, Ciphertext, Operation); 5] = [
            ("add", evaluator.add(&cx, &cy).unwrap(), |a, b| i128::from(a) + i128::from(b)),
            ("subtract", evaluator.sub(&cx, &cy).unwrap(), |a, b| i128::from(a) - i128::from(b)),
            ("add plain", evaluator.add_plain(&cx, &py).unwrap(), |a, b| i128::from(a) + i128::from(b)),
            ("subtract plain", evaluator.sub_plain(&cx, &py).unwrap(), |a, b| i128::from(a) - i128::from(b)),
            ("multiply", evaluator.mul_plain(&cx, &py).unwrap(), |a, b| i128::from(a) * i128::from(b)),
        ];
        for (name, ciphertext, operation) in cases {
            let reduce = |(&a, &b): (&i64, &i64)| centred((operation(a, b) % i128::from(modulus)) as i64, modulus);
            let expected: Vec<i64> = x.iter().zip(&y).map(reduce).collect();
            assert_eq!(client.slots_of(&ciphertext), expected, "{name} {preset} {scheme}");
        }
    }
}

#[test]
fn public_keys_and_zeros_made_ahead_encrypt_the_same() {
    for (preset, scheme) in SCHEMES.into_iter().flat_map(|scheme| [(SMALL, scheme), (LARGE, scheme)]) {
        let mut client = Client::new(preset, scheme);
        let key = PublicKey::generate(&client.secret, &mut client.rng).unwrap();
        let values = client.values();
        let plaintext = client.encoder.encode_slots(&values).unwrap();
        let public = client.encoder.encrypt_public(&plaintext, &key, &mut client.rng).unwrap();
        assert_eq!(client.slots_of(&public), values);

        let parameters = client.encoder.parameters().clone();
        let chain = parameters.ring().chain().len();
        let zeros = [
            ZeroEncryption::seeded(&client.secret, Basis::chain(chain), &mut client.rng).unwrap(),
            ZeroEncryption::public(&key, Basis::chain(chain), &mut client.rng).unwrap(),
        ];
        for (zero, seeded) in zeros.into_iter().zip([true, false]) {
            let sent = client.encoder.encrypt_with(&plaintext, zero).unwrap();
            assert_eq!(matches!(sent, Encrypted::Seeded(_)), seeded);
            let bytes = sent.to_bytes();
            let received = Encrypted::from_bytes(&parameters, &bytes).unwrap();
            assert_eq!(received.to_bytes(), bytes);
            assert_eq!(client.slots_of(&received.expand().unwrap()), values);
            assert!(Encrypted::from_bytes(&parameters, &bytes[..bytes.len() - 1]).is_err());
        }
        let lower = ZeroEncryption::seeded(&client.secret, Basis::chain(chain - 1), &mut client.rng).unwrap();
        assert!(matches!(client.encoder.encrypt_with(&plaintext, lower), Err(ExactError::Rlwe(_))));
        let short = unspoken_rlwe::Ciphertext::zero(parameters.ring(), Basis::chain(chain - 1));
        assert!(matches!(
            client.encoder.import_fresh(short, EncryptionKey::Secret),
            Err(ExactError::Parameters { .. })
        ));
    }
}

#[test]
fn coefficients_are_convolved_and_weights_give_inner_products() {
    for scheme in SCHEMES {
        let mut client = Client::new(SMALL, scheme);
        let (x, y) = (client.values(), client.values());
        let plaintext = client.encoder.encode_coefficients(&x).unwrap();
        assert_eq!(*client.encoder.decode_coefficients(&plaintext).unwrap(), x);
        let encrypted = client.encrypt(&plaintext);
        let product = |factor: &Plaintext| {
            let product = client.evaluator.mul_plain(&encrypted, factor).unwrap();
            client.encoder.decode_coefficients(&client.encoder.decrypt(&product, &client.secret).unwrap()).unwrap()
        };
        let convolved = product(&client.encoder.encode_coefficients(&y).unwrap());
        assert_eq!(*convolved, negacyclic(&x, &y, client.modulus()));
        let weighted = product(&client.encoder.encode_weights(&y[..100]).unwrap());
        let expected: i64 = x.iter().zip(&y[..100]).map(|(a, b)| a * b).sum();
        assert_eq!(weighted[0], centred(expected, client.modulus()));
    }
}

#[test]
fn slots_are_rows_that_the_automorphisms_of_the_ring_rotate() {
    let client = Client::new(SMALL, Scheme::Bfv);
    let half = client.slots() / 2;
    let values: Vec<i64> = (0..client.slots() as i64).collect();
    let plaintext = client.encoder.encode_slots(&values).unwrap();
    let coefficients = client.encoder.decode_coefficients(&plaintext).unwrap();
    let image = |element: usize| {
        let n = client.slots();
        let mut moved = vec![0; n];
        for (i, &c) in coefficients.iter().enumerate() {
            let exponent = i * element % (2 * n);
            moved[exponent % n] = if exponent < n { c } else { -c };
        }
        client.encoder.decode_slots(&client.encoder.encode_coefficients(&moved).unwrap()).unwrap()
    };
    let rotated: Vec<i64> =
        (0..2).flat_map(|row| (0..half).map(move |j| row * half + (j + 1) % half)).map(|j| values[j]).collect();
    assert_eq!(*image(5), rotated);
    let swapped: Vec<i64> = [&values[half..], &values[..half]].concat();
    assert_eq!(*image(2 * client.slots() - 1), swapped);
}

#[test]
fn what_could_decrypt_wrong_is_refused_and_nothing_before_it_is_wrong() {
    for scheme in SCHEMES {
        let mut client = Client::new(SMALL, scheme);
        let (x, y) = (client.values(), client.values());
        let factor = client.encoder.encode_slots(&y).unwrap();
        let mut encrypted = client.encrypt(&client.encoder.encode_slots(&x).unwrap());
        let mut expected = x;
        let mut products = 0;
        let refusal = loop {
            match client.evaluator.mul_plain(&encrypted, &factor) {
                Ok(product) => encrypted = product,
                Err(refusal) => break refusal,
            }
            expected.iter_mut().zip(&y).for_each(|(a, b)| *a = centred(*a * b, client.modulus()));
            assert_eq!(client.slots_of(&encrypted), expected);
            products += 1;
        };
        assert!(matches!(refusal, ExactError::Noise { found, .. } if found < 1.0), "{refusal}");
        assert_eq!(products, 2, "{scheme}");
        // Each doubling uses one bit of the noise budget.
        let left = encrypted.budget_bits();
        let mut doublings = 0;
        while client.evaluator.add(&encrypted, &encrypted.clone()).is_ok() {
            encrypted = client.evaluator.add(&encrypted, &encrypted).unwrap();
            doublings += 1;
        }
        assert_eq!(doublings, (left - 1.0) as i32, "{left}");
        client.encoder.decrypt(&encrypted, &client.secret).unwrap();
    }
}

#[test]
fn presets_keep_what_their_purpose_says() {
    for (preset, products) in [("n12_exact17", 2), ("n13_exact30", 4), ("n14_exact30", 8)] {
        for scheme in SCHEMES {
            let mut client = Client::new(preset, scheme);
            // The largest possible factor.
            let factor = client.encoder.encode_coefficients(&vec![client.modulus() / 2; client.slots()]).unwrap();
            let mut product = client.encrypt(&factor);
            for _ in 0..products {
                product = client.evaluator.mul_plain(&product, &factor).unwrap();
            }
            client.encoder.decrypt(&product, &client.secret).unwrap();
        }
    }
}

#[test]
fn noise_is_measured_whatever_the_bound_claims() {
    for scheme in SCHEMES {
        let mut client = Client::new(SMALL, scheme);
        let values = client.values();
        let plaintext = client.encoder.encode_slots(&values).unwrap();
        let encrypted = client.encrypt(&plaintext);
        // Decryption with another secret measures a large noise and is refused, although the bound is small.
        let other = SecretKey::generate(client.encoder.parameters().rlwe(), &mut client.rng).unwrap();
        let refused = client.encoder.decrypt(&encrypted, &other).unwrap_err();
        assert!(matches!(refused, ExactError::MeasuredNoise { operation: "decrypt", .. }), "{refused}");
    }
}

#[test]
fn ranges_and_shapes_are_checked() {
    let client = Client::new(SMALL, Scheme::Bgv);
    let limit = client.modulus() / 2;
    for value in [limit + 1, -limit - 1, i64::MAX, i64::MIN] {
        let refused = client.encoder.encode_slots(&[0, value]).unwrap_err();
        assert!(
            matches!(refused, ExactError::Value { index: 1, .. })
                && !refused.to_string().contains(&value.unsigned_abs().to_string()),
            "{refused}"
        );
    }
    let edge = client.encoder.encode_slots(&[limit, -limit]).unwrap();
    assert_eq!(client.encoder.decode_slots(&edge).unwrap()[..3], [limit, -limit, 0]);
    let long = vec![0; client.slots() + 1];
    assert!(matches!(client.encoder.encode_coefficients(&long), Err(ExactError::Shape { .. })));
    assert!(matches!(client.encoder.encode_weights(&long), Err(ExactError::Shape { .. })));
    let mut stranger = Client::new(SMALL, Scheme::Bfv);
    assert!(matches!(stranger.encoder.decode_slots(&edge), Err(ExactError::Parameters { .. })));
    let zero = stranger.encoder.encode_slots(&[]).unwrap();
    let foreign = stranger.encrypt(&zero);
    assert!(matches!(client.evaluator.add_plain(&foreign, &edge), Err(ExactError::Parameters { .. })));
    assert!(matches!(client.encoder.decrypt(&foreign, &client.secret), Err(ExactError::Parameters { .. })));
}

#[test]
fn bytes_come_back_and_damage_is_refused() {
    for scheme in SCHEMES {
        let mut client = Client::new(SMALL, scheme);
        let parameters = client.encoder.parameters().clone();
        let values = client.values();
        let plaintext = client.encoder.encode_slots(&values).unwrap();
        let seeded = client.encoder.encrypt(&plaintext, &client.secret, &mut client.rng).unwrap();
        let bytes = seeded.to_bytes();
        assert_eq!(bytes.len(), SeededCiphertext::byte_len(&parameters));
        let ciphertext = SeededCiphertext::from_bytes(&parameters, &bytes).unwrap().expand().unwrap();
        let whole = ciphertext.to_bytes();
        let again = Ciphertext::from_bytes(&parameters, &whole).unwrap();
        assert_eq!(again.budget_bits(), ciphertext.budget_bits());
        assert_eq!(client.slots_of(&again), values);
        for cut in [0, 5, 12, 13, 40, whole.len() - 1] {
            assert!(Ciphertext::from_bytes(&parameters, &whole[..cut]).is_err());
            assert!(SeededCiphertext::from_bytes(&parameters, &bytes[..cut.min(bytes.len() - 1)]).is_err());
        }
        for (at, value) in [(0, 7), (1, 3), (5, 1)] {
            let mut damaged = bytes.clone();
            damaged[at] ^= value;
            assert!(SeededCiphertext::from_bytes(&parameters, &damaged).is_err(), "byte {at}");
        }
        for claim in [f64::NAN, -1.0, f64::INFINITY, 1e9] {
            let mut damaged = whole.clone();
            damaged[5..13].copy_from_slice(&claim.to_le_bytes());
            assert!(Ciphertext::from_bytes(&parameters, &damaged).is_err(), "{claim}");
        }
    }
}

#[test]
fn impossible_parameters_are_refused() {
    let literal = Preset::find(SMALL).unwrap().literal(Scheme::Bfv).unwrap();
    let mut prime_of_the_ring = literal.clone();
    prime_of_the_ring.plain_modulus = literal.rlwe.ring.chain[0];
    let mut not_one_modulo_2n = literal.clone();
    not_one_modulo_2n.plain_modulus = 101;
    let mut too_small = literal.clone();
    too_small.rlwe.ring.chain.truncate(1);
    too_small.plain_modulus = Preset::find(LARGE).unwrap().literal(Scheme::Bfv).unwrap().rlwe.ring.chain[0];
    let mut insecure = literal;
    insecure.rlwe.name = "n10".into();
    for bad in [prime_of_the_ring, not_one_modulo_2n, too_small, insecure] {
        assert!(unspoken_exact::ExactParameters::new(bad.clone()).is_err(), "{bad:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn sums_of_many_are_exact(values in prop::collection::vec(-500i64..500, 1..60)) {
        for scheme in SCHEMES {
            let mut client = Client::new(SMALL, scheme);
            let mut sum = client.encrypt(&client.encoder.encode_slots(&[]).unwrap());
            for &value in &values {
                let term = client.encrypt(&client.encoder.encode_slots(&[value, -value]).unwrap());
                client.evaluator.add_assign(&mut sum, &term).unwrap();
            }
            let total: i64 = values.iter().sum();
            prop_assert_eq!(&client.slots_of(&sum)[..3], &[total, -total, 0]);
        }
    }
}
