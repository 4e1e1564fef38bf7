//! Vectors that repeat: few coefficients are sent, separated by rotations, joined and rounded.

use unspoken_ckks::{
    Arithmetic, CkksError, CkksParameters, Complex64, Encoder, Evaluator, PeriodicPacking, Preset, SeededCiphertext,
    Simulator,
};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{self as rlwe, EvaluationKeys, KeyKind, KeyPlan, RlweError, RoundedCiphertext, SecretKey};

const PRESET: &str = "insecure_n11_depth9_scale50";

fn parameters() -> CkksParameters {
    Preset::find(PRESET).unwrap().build().unwrap()
}

fn vectors(count: usize, period: usize) -> Vec<Vec<Complex64>> {
    let value = |v: usize, s: usize| Complex64::new(((7 * v + 3 * s) % 11) as f64 / 11.0, (s % 5) as f64 / 5.0 - 0.4);
    (0..count).map(|v| (0..period).map(|s| value(v, s)).collect()).collect()
}

fn largest_error(found: &[Complex64], exact: &[Complex64]) -> f64 {
    found.iter().zip(exact.iter().cycle()).map(|(f, e)| (f - e).norm()).fold(0.0, f64::max)
}

#[test]
fn few_coefficients_are_sent_and_separated() {
    let parameters = parameters();
    let (encoder, level, scale) = (Encoder::new(&parameters), parameters.max_level(), parameters.scale());
    let mut rng = SecretRng::insecure_from_seed(5);
    let secret = SecretKey::generate(parameters.rlwe(), &mut rng).unwrap();
    for (period, count) in [(16, 3), (16, 4), (1, 1), (64, 5), (1, 7), (parameters.slots(), 1)] {
        let packing = PeriodicPacking::new(&parameters, period, count).unwrap();
        let sent = vectors(count, period);
        let slices: Vec<&[Complex64]> = sent.iter().map(Vec::as_slice).collect();
        let plaintext = packing.encode(&encoder, &slices, level, scale).unwrap();
        let places = packing.places();
        assert_eq!(places.len(), 2 * period * count);
        let unused = packing.unused_places(40);
        let even = (0..2 * parameters.slots()).step_by(2).filter(|place| !places.contains(place));
        assert_eq!(unused.len(), if period == parameters.slots() { 0 } else { even.count().min(40) });
        assert!(unused.iter().all(|place| !places.contains(place) && *place < 2 * parameters.slots()));
        let seeded = rlwe::SeededCiphertext::encrypt(&secret, plaintext.poly(), &mut rng).unwrap();
        let bytes = seeded.sparse_to_bytes(parameters.rlwe(), &places).unwrap();
        let basis = parameters.basis(level);
        assert_eq!(bytes.len(), rlwe::SeededCiphertext::sparse_byte_len(parameters.rlwe(), basis, 2 * period * count));
        assert!(count * period == parameters.slots() || bytes.len() < SeededCiphertext::byte_len(&parameters, level));
        let read = rlwe::SeededCiphertext::sparse_from_bytes(parameters.rlwe(), &places, &bytes).unwrap();
        let mut plan = packing.key_plan(level);
        plan.require_over(KeyKind::HalfRing, parameters.basis(0));
        let keys = EvaluationKeys::generate(&secret, &plan, &mut rng).unwrap();
        let evaluator = Evaluator::new(&encoder, &keys);
        let found = packing.unpack(&evaluator, &packing.expand(&read, scale).unwrap()).unwrap();
        // The simulator knows vectors only: all slots of the packed vector, divided by the factor.
        let simulator = Simulator::new(&encoder, 1);
        let whole = encoder.decode(&secret.decrypt(&seeded.expand(parameters.ring())).unwrap(), scale).unwrap();
        let whole: Vec<Complex64> = whole.iter().map(|z| z / f64::from(packing.factor())).collect();
        let packed = simulator.encrypt(&whole, level, scale).unwrap();
        let simulated = packing.unpack(&simulator, &packed).unwrap();
        assert_eq!((found.len(), simulated.len()), (count, count));
        for ((found, exact), simulated) in found.iter().zip(&sent).zip(&simulated) {
            assert_eq!((found.level(), found.scale()), (level, scale));
            let error = largest_error(&encoder.decrypt(found, &secret).unwrap(), exact);
            let predicted = simulated.error().worst;
            println!("{count} of {period}: 2^{:.1}, predicted 2^{:.1}", error.log2(), predicted.log2());
            assert!(error < 2f64.powi(-28), "{count} of {period}: 2^{:.1}", error.log2());
            assert!(error < 4.0 * predicted && predicted < 4.0 * error, "{error:e} {predicted:e}");
            assert!(largest_error(simulated.exact(), exact) < 2f64.powi(-28));
        }

        // The same vectors joined, at the lowest level, and rounded.
        if places.iter().any(|place| place % 2 == 1) {
            continue;
        }
        let low: Vec<_> = found.iter().map(|vector| evaluator.drop_to(vector, 0).unwrap()).collect();
        let joined = packing.join(&evaluator, &low).unwrap();
        let modulus: f64 = parameters.ring().primes(parameters.basis(0)).map(f64::from).product();
        for bits in [16, 24, 40] {
            let rounded = joined.inner().rounded(parameters.rlwe(), &keys, bits, &places).unwrap();
            let bytes = rounded.to_bytes(parameters.rlwe());
            assert_eq!(bytes.len(), RoundedCiphertext::byte_len(parameters.rlwe(), bits, places.len()));
            let read = RoundedCiphertext::from_bytes(parameters.rlwe(), places.len(), &bytes).unwrap();
            assert_eq!(read, rounded);
            let fractions = secret.decrypt_rounded(&read, &places).unwrap();
            let slots = packing.decode(&encoder, &fractions, scale / modulus).unwrap();
            // Six deviations of a slot, which is a sum of 2 period coefficients.
            let unit = (-f64::from(bits)).exp2() * modulus / scale;
            let bound = 6.0 * RoundedCiphertext::deviation(parameters.ring()) * (2.0 * period as f64).sqrt() * unit;
            for (slots, exact) in slots.iter().zip(&sent) {
                let error = largest_error(slots, exact);
                assert!(error < bound && error > bound / 100.0, "{bits} bits: {error:e}, bound {bound:e}");
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let parameters = parameters();
    let encoder = Encoder::new(&parameters);
    for (period, count) in [(3, 1), (16, 0), (parameters.slots(), 2), (0, 1), (1, usize::MAX)] {
        assert!(matches!(PeriodicPacking::new(&parameters, period, count), Err(CkksError::Shape { .. })));
    }
    let packing = PeriodicPacking::new(&parameters, 4, 2).unwrap();
    let short = vectors(2, 2);
    let short: Vec<&[Complex64]> = short.iter().map(Vec::as_slice).collect();
    assert!(matches!(packing.encode(&encoder, &short, 1, 1e12), Err(CkksError::Shape { .. })));
    assert!(packing.decode(&encoder, &[0.0; 3], 1.0).is_err());
    let real = Preset::find("insecure_n11_real_depth9_scale50").unwrap().build().unwrap();
    assert!(matches!(PeriodicPacking::new(&real, 4, 2), Err(CkksError::RealRing { .. })));

    let mut rng = SecretRng::insecure_from_seed(6);
    let secret = SecretKey::generate(parameters.rlwe(), &mut rng).unwrap();
    let values = vectors(2, 4);
    let values: Vec<&[Complex64]> = values.iter().map(Vec::as_slice).collect();
    let plaintext = packing.encode(&encoder, &values, 1, parameters.scale()).unwrap();
    let sent = rlwe::SeededCiphertext::encrypt(&secret, plaintext.poly(), &mut rng).unwrap();
    let places = packing.places();
    let bytes = sent.sparse_to_bytes(parameters.rlwe(), &places).unwrap();
    let read =
        |bytes: &[u8], places: &[usize]| rlwe::SeededCiphertext::sparse_from_bytes(parameters.rlwe(), places, bytes);
    assert!(read(&bytes, &places).is_ok());
    assert!(matches!(read(&bytes[1..], &places), Err(RlweError::Decode { .. })));
    assert!(matches!(read(&bytes, &places[1..]), Err(RlweError::Decode { .. })));
    assert!(read(&bytes, &[1 << 20]).is_err());
    let mut large = bytes.clone();
    large[58..].fill(0xff);
    assert!(read(&large, &places).unwrap_err().to_string().contains("residue"));
    let low = rlwe::SeededCiphertext::encrypt(&secret, plaintext.poly(), &mut rng).unwrap().expand(parameters.ring());
    let mut plan = KeyPlan::new();
    plan.require_over(KeyKind::HalfRing, parameters.basis(1));
    let keys = EvaluationKeys::generate(&secret, &plan, &mut rng).unwrap();
    let round = |bits, places: &[usize], keys| low.rounded(parameters.rlwe(), keys, bits, places);
    let rounded = round(24, &places, &keys).unwrap();
    let bytes = rounded.to_bytes(parameters.rlwe());
    assert!(RoundedCiphertext::from_bytes(parameters.rlwe(), places.len() + 1, &bytes).is_err());
    assert!(RoundedCiphertext::from_bytes(parameters.rlwe(), places.len(), &bytes[..40]).is_err());
    assert!(secret.decrypt_rounded(&rounded, &places[1..]).is_err());
    for bits in [0, 20, 48] {
        assert!(round(bits, &places, &keys).is_err());
    }
    assert!(round(24, &[1], &keys).unwrap_err().to_string().contains("even"));
    let missing = round(24, &places, &EvaluationKeys::new()).unwrap_err();
    assert!(matches!(missing, RlweError::MissingKeys { .. }), "{missing}");
}

#[test]
fn keys_to_the_half_ring_are_counted_at_its_degree() {
    let secure = Preset::find("n15_depth8_scale50").unwrap().build().unwrap();
    let check = |chain| secure.rlwe().check_kind(KeyKind::HalfRing, chain);
    assert!(check(secure.basis(0).chain).is_ok());
    let error = check(secure.basis(secure.max_level()).chain).unwrap_err();
    assert!(matches!(error, RlweError::Insecure { degree: 16384, .. }), "{error}");
    let objects = secure.rlwe().secured_objects();
    let key = objects.iter().find(|object| object.what.contains("half")).unwrap();
    assert!(key.degree == 16384 && key.security_bits >= 128.0 && key.log2_modulus < 431.0);
    let real = Preset::find("n15_real_depth11_scale50").unwrap().build().unwrap();
    assert!(matches!(real.rlwe().check_kind(KeyKind::HalfRing, 1), Err(RlweError::HalfRing { .. })));
}
