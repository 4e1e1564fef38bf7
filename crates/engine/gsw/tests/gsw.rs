//! Tests of every step of the crate against plaintext results and against the predicted noise.

use std::sync::Arc;

use unspoken_gsw::{
    BinaryRing, BinaryRingLiteral, BootstrapLiteral, BootstrapParameters, CircuitBootstrapKey, GadgetLiteral, GswError,
    LweCiphertext, LweLiteral, LweSecret, LweSwitchKey, Noise, RingSecret, RlweCiphertext, SeededBlindRotationKey,
    SeededConversionKey, SeededLweSwitchKey, SeededTraceKey, log2_failure, log2_failure_of_shared,
};
use unspoken_ring::modular::primes_descending;
use unspoken_ring::{Poly, SecretRng};

const DEGREE: usize = 512;

fn literal(degree: usize) -> BootstrapLiteral {
    BootstrapLiteral {
        ring: BinaryRingLiteral {
            name: "insecure_small",
            degree,
            primes: primes_descending(1 << 25, 1 << 26, 2 * degree as u32).take(2).collect(),
        },
        lwe: LweLiteral { dimension: 40, error_terms: 14 },
        rotation: GadgetLiteral { log2_base: 11, levels: 4 },
        trace: GadgetLiteral { log2_base: 6, levels: 8 },
        output: GadgetLiteral { log2_base: 4, levels: 6 },
    }
}

struct Fixture {
    parameters: BootstrapParameters,
    ring: BinaryRing,
    secret: RingSecret,
    lwe: LweSecret,
    rng: SecretRng,
}

impl Fixture {
    fn new(seed: u64) -> Self {
        let parameters = BootstrapParameters::new(literal(DEGREE)).unwrap();
        let ring = parameters.ring().clone();
        let mut rng = SecretRng::insecure_from_seed(seed);
        let secret = RingSecret::generate(&ring, &mut rng).unwrap();
        let lwe = LweSecret::generate(parameters.lwe(), &mut rng);
        Fixture { parameters, ring, secret, lwe, rng }
    }

    fn encrypt(&mut self, message: u32) -> LweCiphertext {
        let seed = self.rng.seed();
        let body = self.lwe.encrypt(message, (&seed, 0), self.parameters.lwe(), &mut self.rng);
        LweCiphertext::expand(body, (&seed, 0), self.lwe.dimension())
    }

    /// The phase as fractions of the modulus, between -1/2 and 1/2.
    fn phase(&self, ciphertext: &RlweCiphertext) -> Vec<f64> {
        let modulus = self.ring.log2_modulus().exp2();
        let phase = self.ring.to_f64(&self.secret.phase(ciphertext).unwrap()).unwrap();
        phase.iter().map(|x| x / modulus).collect()
    }

    /// The polynomial with these coefficients times `2^log2_unit`, in the evaluation domain.
    fn poly(&self, coefficients: impl Fn(usize) -> i64, log2_unit: u32) -> Poly {
        let all: Vec<i64> = (0..DEGREE).map(|i| coefficients(i) << log2_unit).collect();
        self.ring.evaluate_i64(&all, self.ring.basis()).unwrap()
    }
}

fn variance(errors: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = errors.fold((0.0, 0usize), |(sum, count), e| (sum + e * e, count + 1));
    sum / count as f64
}

/// Asserts that a measured standard deviation is between 0.5 and 1.6 times the predicted one. Samples of a few hundred
/// vary less.
fn assert_predicted(what: &str, measured: f64, predicted: Noise) {
    let ratio = (measured / predicted.0).sqrt();
    assert!((0.5..1.6).contains(&ratio), "{what}: measured {ratio:.3} times the predicted deviation");
}

#[test]
fn lwe_opens_to_what_was_encrypted() {
    let mut fixture = Fixture::new(1);
    let sigma = fixture.parameters.lwe().sigma();
    let errors: Vec<f64> = (0..2000u32)
        .map(|i| {
            let message = i << 21;
            let ciphertext = fixture.encrypt(message);
            f64::from(fixture.lwe.phase(&ciphertext).unwrap().wrapping_sub(message).cast_signed())
        })
        .collect();
    let measured = variance(errors.into_iter()).sqrt() / sigma;
    assert!((0.9..1.1).contains(&measured), "{measured}");
}

#[test]
fn rotations_look_a_phase_up() {
    let mut fixture = Fixture::new(2);
    let gadget = fixture.parameters.rotation();
    let key = SeededBlindRotationKey::generate(&fixture.lwe, &fixture.secret, gadget, &mut fixture.rng).unwrap();
    let key = key.expand(&fixture.ring).unwrap();
    let mut table = fixture.poly(|i| i as i64, 40);
    fixture.ring.to_coefficients(&mut table).unwrap();
    let unit = (40.0 - fixture.ring.log2_modulus()).exp2();
    let mut errors = Vec::new();
    for phase in [0u32, 5, 300, 511, 512, 513, 1023] {
        let ciphertext = fixture.encrypt(phase << 22);
        let switched = ciphertext.switched(10);
        let found = fixture.phase(&key.rotate(&table, &switched).unwrap());
        // The entry of the table near the phase, up to the noise of the LWE ciphertext.
        let near = (found[0] / unit).round() as i64;
        let exact = if phase < 512 { i64::from(phase) } else { 512 - i64::from(phase) };
        assert!((near - exact).abs() <= 20 || near.abs() >= 492 || near.abs() <= 20, "{phase}: {near}");
        errors.extend(found.iter().map(|x| x - (x / unit).round() * unit));
    }
    assert_predicted("rotation", variance(errors.into_iter()), Noise::rotation(&fixture.ring, gadget, 40));
}

#[test]
fn traces_take_coefficients_out() {
    let mut fixture = Fixture::new(3);
    let gadget = fixture.parameters.trace();
    let key =
        SeededTraceKey::generate(&fixture.secret, gadget, &mut fixture.rng).unwrap().expand(&fixture.ring).unwrap();
    let message = fixture.poly(|i| (i as i64 * 37) % 101 - 50, 42);
    let ciphertext = RlweCiphertext::trivial(&fixture.ring, &message).unwrap();
    let unit = (42.0 - fixture.ring.log2_modulus()).exp2();
    for count in [1, 8, 512] {
        let parts = key.coefficients(&ciphertext, count).unwrap();
        assert_eq!(parts.len(), count);
        for (k, part) in parts.iter().enumerate() {
            let found = fixture.phase(part);
            let expected = ((k * DEGREE / count) as i64 * 37) % 101 - 50;
            assert_eq!((found[0] / unit).round() as i64, expected);
            assert!(found[1..].iter().all(|x| x.abs() < unit / 4.0));
        }
    }
    assert!(matches!(key.coefficients(&ciphertext, 3), Err(GswError::Shape { found: 3, .. })));
}

#[test]
fn traces_remove_coefficients_that_nobody_chose() {
    let mut fixture = Fixture::new(3);
    let gadget = fixture.parameters.trace();
    let key =
        SeededTraceKey::generate(&fixture.secret, gadget, &mut fixture.rng).unwrap().expand(&fixture.ring).unwrap();
    let unit = (42.0 - fixture.ring.log2_modulus()).exp2();
    let ring = fixture.ring.clone();
    for count in [1, 8, 512] {
        let (stride, seed) = (DEGREE / count, fixture.rng.seed());
        let value = |i: usize| (i as i64 * 37) % 101 - 50;
        let message = fixture.poly(value, 42);
        let mut body = fixture.secret.encrypt_seeded(&message, (&seed, 0), &mut fixture.rng).unwrap();
        // Of the body, only the coefficients of the message are kept: all others of the phase are random.
        ring.to_coefficients(&mut body).unwrap();
        let mut kept = vec![0; DEGREE];
        let coefficients = ring.to_f64(&body).unwrap();
        kept.iter_mut().zip(coefficients.iter()).step_by(stride).for_each(|(kept, &body)| *kept = body as i64);
        let body = ring.evaluate_i64(&kept, ring.basis()).unwrap();
        let parts = key.coefficients(&RlweCiphertext::expand(&ring, &body, &seed).unwrap(), count).unwrap();
        for (k, part) in parts.iter().enumerate() {
            let found = fixture.phase(part);
            assert_eq!((found[0] / unit).round() as i64, value(k * stride));
            assert!(found[1..].iter().all(|x| x.abs() < unit / 4.0));
        }
    }
}

#[test]
fn bootstrapped_bits_select_with_the_predicted_noise() {
    let mut fixture = Fixture::new(4);
    let parameters = fixture.parameters.clone();
    let (secret, rng) = (&fixture.secret, &mut fixture.rng);
    let rotation = SeededBlindRotationKey::generate(&fixture.lwe, secret, parameters.rotation(), rng).unwrap();
    let conversion = SeededConversionKey::generate(&parameters, secret, rng).unwrap().expand().unwrap();
    let rotation = rotation.expand(&fixture.ring).unwrap();
    let key = CircuitBootstrapKey::new(rotation, Arc::new(conversion));
    let ring = fixture.ring.clone();
    let messages = [fixture.poly(|i| i as i64 % 7, 46), fixture.poly(|i| -(i as i64 % 5), 46)];
    let [zero, one] = messages.each_ref().map(|message| fixture.secret.encrypt(message, &mut fixture.rng).unwrap());
    let unit = (46.0 - ring.log2_modulus()).exp2();
    let coarse = ring.gadget(GadgetLiteral { log2_base: 9, levels: 2 }).unwrap();
    for gadget in [parameters.output(), coarse] {
        let mut errors = Vec::new();
        for bit in [0u32, 1, 1, 0, 1] {
            let rgsw = key.bootstrap(&fixture.encrypt(bit << 31), gadget).unwrap();
            let found = fixture.phase(&rgsw.select(&ring, &zero, &one).unwrap());
            for (i, found) in found.iter().enumerate() {
                let expected = if bit == 0 { i as i64 % 7 } else { -(i as i64 % 5) };
                assert_eq!((found / unit).round() as i64, expected);
                errors.push(found - expected as f64 * unit);
            }
        }
        assert_predicted("selection", variance(errors.into_iter()), Noise::rgsw_product(&parameters, gadget));
    }
    let whole = ring.gadget(GadgetLiteral { log2_base: 13, levels: 4 }).unwrap();
    assert!(matches!(key.bootstrap(&fixture.encrypt(0), whole), Err(GswError::Shape { .. })));
}

#[test]
fn a_bootstraps_rotation_also_gives_a_number_with_the_bits_sign() {
    let mut fixture = Fixture::new(8);
    let parameters = fixture.parameters.clone();
    let long = LweSecret::generate(LweLiteral { dimension: DEGREE, error_terms: 1 }, &mut fixture.rng);
    let secret = RingSecret::from_lwe(&fixture.ring, &long).unwrap();
    let rng = &mut fixture.rng;
    let rotation = SeededBlindRotationKey::generate(&fixture.lwe, &secret, parameters.rotation(), rng).unwrap();
    let conversion = SeededConversionKey::generate(&parameters, &secret, rng).unwrap().expand().unwrap();
    let key = CircuitBootstrapKey::new(rotation.expand(&fixture.ring).unwrap(), Arc::new(conversion));
    let ciphertexts = [0u32, 1].map(|bit| fixture.encrypt(bit << 31));
    let half = |log2: u32| (fixture.ring.log2_modulus() + f64::from(log2) - 32.0).exp2().round() as i64;
    let mut errors = Vec::new();
    for log2_half in 10..31 {
        for (bit, ciphertext) in ciphertexts.iter().enumerate() {
            let signed = key.signed(&key.rotate(ciphertext, parameters.output(), half(log2_half)).unwrap()).unwrap();
            let expected = if bit == 0 { (1u32 << log2_half).wrapping_neg() } else { 1 << log2_half };
            let error = long.phase(&signed).unwrap().wrapping_sub(expected).cast_signed();
            errors.push(f64::from(error) / 32f64.exp2());
        }
    }
    let predicted =
        Noise::rotation(&fixture.ring, parameters.rotation(), 40).plus(Noise::switching(fixture.ring.degree(), 32.0));
    assert_predicted("signed number", variance(errors.into_iter()), predicted);
}

#[test]
fn coefficients_become_lwe_ciphertexts_and_switch() {
    let mut fixture = Fixture::new(5);
    let long = LweSecret::generate(LweLiteral { dimension: DEGREE, error_terms: 1 }, &mut fixture.rng);
    let secret = RingSecret::from_lwe(&fixture.ring, &long).unwrap();
    let gadget = GadgetLiteral { log2_base: 3, levels: 6 };
    let literal = fixture.parameters.lwe();
    let key = SeededLweSwitchKey::generate(&long, (&fixture.lwe, literal), gadget, &mut fixture.rng).expand();
    let mut errors = Vec::new();
    for i in 0..60i64 {
        let place = i as usize * 31 % DEGREE;
        let message = fixture.poly(|k| if k == place { i } else { 3 }, 46);
        let whole = secret.encrypt(&message, &mut fixture.rng).unwrap();
        assert!(whole.coefficient(&fixture.ring, DEGREE).is_err());
        let constant = whole.coefficient(&fixture.ring, place).unwrap();
        let expected = (i as f64 * (46.0 + 32.0 - fixture.ring.log2_modulus()).exp2()).round() as i64 as u32;
        let error = long.phase(&constant).unwrap().wrapping_sub(expected).cast_signed();
        assert!(error.abs() < 64, "{error}");
        let switched = key.switch(&constant).unwrap();
        let error = fixture.lwe.phase(&switched).unwrap().wrapping_sub(expected).cast_signed();
        errors.push(f64::from(error) / 32f64.exp2());
    }
    assert_predicted("LWE switch", variance(errors.into_iter()), LweSwitchKey::noise(DEGREE, literal, gadget));
    assert!(matches!(key.switch(&fixture.encrypt(0)), Err(GswError::Shape { found: 40, .. })));
}

#[test]
fn ciphertexts_that_were_shifted_switch_without_a_bias() {
    let mut fixture = Fixture::new(6);
    let short = LweLiteral { dimension: 1024, error_terms: 1 };
    let long = LweSecret::generate(short, &mut fixture.rng);
    let gadget = GadgetLiteral { log2_base: 1, levels: 14 };
    let literal = fixture.parameters.lwe();
    let key = SeededLweSwitchKey::generate(&long, (&fixture.lwe, literal), gadget, &mut fixture.rng).expand();
    // The gadget keeps 14 bits, so every second word of a ciphertext shifted by 17 is a tie.
    let means: Vec<f64> = [19, 17, 16, 15]
        .into_iter()
        .map(|shift| {
            let error = |_| {
                let seed = fixture.rng.seed();
                let body = long.encrypt(0, (&seed, 0), short, &mut fixture.rng);
                let shifted = LweCiphertext::expand(body, (&seed, 0), 1024).shifted(shift);
                f64::from(fixture.lwe.phase(&key.switch(&shifted).unwrap()).unwrap().cast_signed()) / 32f64.exp2()
            };
            (0..100).map(error).sum::<f64>() / 100.0
        })
        .collect();
    // The noise of the key is the same for all shifts. Rounding all ties up would add 0.0078, 0.0039 and 0.002.
    for mean in &means[1..] {
        assert!((mean - means[0]).abs() < 0.001, "{means:?}");
    }
}

#[test]
fn weak_parameters_need_their_name() {
    let named = |name| BootstrapLiteral { ring: BinaryRingLiteral { name, ..literal(DEGREE).ring }, ..literal(DEGREE) };
    assert!(matches!(BootstrapParameters::new(named("small")), Err(GswError::Insecure { .. })));
    assert!(BootstrapParameters::new(named("insecure_small")).is_ok());
    let uneven = BootstrapLiteral { output: GadgetLiteral { log2_base: 13, levels: 4 }, ..literal(DEGREE) };
    assert!(matches!(BootstrapParameters::new(uneven), Err(GswError::Shape { .. })));
}

#[test]
fn failures_are_bounded() {
    let certain = log2_failure(Noise(1.0), 0.1, 1.0);
    assert_eq!(certain, 0.0);
    // Seven and a half standard deviations: erfc(7.5 / sqrt 2) is 6.4e-14.
    let rare = log2_failure(Noise(1.0), 7.5, 1.0);
    assert!((rare - 6.4e-14f64.log2()).abs() < 0.1, "{rare}");
    // A common factor makes large noises more likely; the effect decreases with the number of degrees of freedom. With
    // two degrees of freedom the noise is Laplacian: exp(-sqrt(2) t).
    let shared = [2, 7, 50, 5000].map(|freedom| log2_failure_of_shared(Noise(0.0), Noise(1.0), 12.0, 1.0, freedom));
    let laplacian = -(2f64.sqrt() * 12.0) * std::f64::consts::LOG2_E;
    assert!((0.0..0.5).contains(&(shared[0] - laplacian)), "{shared:?} {laplacian}");
    assert!(shared.is_sorted_by(|a, b| a > b) && shared[3] > log2_failure(Noise(1.0), 12.0, 1.0), "{shared:?}");
}

#[test]
fn what_is_sent_is_public_and_what_opens_it_is_secret() {
    let mut fixture = Fixture::new(9);
    let mut message = fixture.poly(|i| i as i64, 20);
    message.mark_secret();
    let sent = fixture.secret.encrypt(&message, &mut fixture.rng).unwrap();
    assert!(sent.components().iter().all(|component| !component.is_secret()));
    assert!(fixture.secret.phase(&sent).unwrap().is_secret());
    let keys = SeededTraceKey::generate(&fixture.secret, fixture.parameters.trace(), &mut fixture.rng).unwrap();
    let parts = keys.expand(&fixture.ring).unwrap().coefficients(&sent, 2).unwrap();
    assert!(parts.iter().flat_map(|part| part.components()).all(|component| !component.is_secret()));
}
