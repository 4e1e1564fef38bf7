//! Every operation of the evaluator against plain complex arithmetic, in both rings.

use std::borrow::Cow;

use unspoken_ckks::{
    Arithmetic, Ciphertext, CkksError, CkksParameters, Complex64, Encoder, Evaluator, InnerSum, LinearPlan,
    LinearTransform, PreparedMatrix, PreparedVector, Preset, Simulator,
};
use unspoken_ring::{Poly, RingKind, SecretRng};
use unspoken_rlwe::{EvaluationKeys, KeyKind, KeyPlan, SecretKey, galois};

struct Setting {
    encoder: Encoder,
    secret: SecretKey,
    keys: EvaluationKeys,
    rng: SecretRng,
}

const ROTATIONS: [i64; 4] = [1, 2, 4, -3];

impl Setting {
    fn new(preset: &str) -> Self {
        let parameters = Preset::find(preset).unwrap().build().unwrap();
        let mut rng = SecretRng::insecure_from_seed(1);
        let secret = SecretKey::generate(parameters.rlwe(), &mut rng).unwrap();
        let (ring, chain) = (parameters.ring(), parameters.ring().chain().len());
        let mut plan = KeyPlan::new();
        plan.require(KeyKind::Relinearisation, chain);
        ROTATIONS.iter().for_each(|&r| plan.require(KeyKind::Galois { element: galois::rotation(ring, r) }, chain));
        plan.extend(&InnerSum::new(1, 8).unwrap().key_plan(&parameters, parameters.max_level()));
        if ring.kind() == RingKind::Standard {
            plan.require(KeyKind::Galois { element: galois::conjugation(ring) }, chain);
        }
        let keys = EvaluationKeys::generate(&secret, &plan, &mut rng).unwrap();
        Setting { encoder: Encoder::new(&parameters), secret, keys, rng }
    }

    fn both() -> [Self; 2] {
        ["insecure_n11_depth9_scale50", "insecure_n11_real_depth9_scale50"].map(Self::new)
    }

    fn parameters(&self) -> &CkksParameters {
        self.encoder.parameters()
    }

    fn is_real(&self) -> bool {
        self.parameters().ring().kind() == RingKind::ConjugateInvariant
    }

    fn values(&mut self) -> Vec<Complex64> {
        let mut unit = || {
            let mut bytes = [0; 4];
            self.rng.fill(&mut bytes);
            0.7 * f64::from(i32::from_le_bytes(bytes)) / f64::from(i32::MAX)
        };
        let real = self.encoder.parameters().ring().kind() == RingKind::ConjugateInvariant;
        let mut draw = || Complex64::new(unit(), if real { 0.0 } else { unit() });
        std::iter::repeat_with(&mut draw).take(self.encoder.parameters().slots()).collect()
    }

    fn encrypt(&mut self, values: &[Complex64], level: usize) -> Ciphertext {
        let plaintext = self.encoder.encode(values, level, self.parameters().scale()).unwrap();
        self.encoder.encrypt(&plaintext, &self.secret, &mut self.rng).unwrap().expand(self.encoder.parameters())
    }

    fn evaluator(&self) -> Evaluator<'_> {
        Evaluator::new(&self.encoder, &self.keys)
    }

    fn assert_close(&self, ciphertext: &Ciphertext, expected: impl Fn(usize) -> Complex64, bits: i32) {
        let found = self.encoder.decrypt(ciphertext, &self.secret).unwrap();
        let worst = found.iter().enumerate().map(|(i, z)| (z - expected(i)).norm()).fold(0.0, f64::max);
        assert!(worst < 2f64.powi(-bits), "error 2^{:.1}", worst.log2());
    }
}

#[test]
fn encoding_is_the_evaluation_at_the_slots_roots() {
    // Slot j of X is zeta^(5^j); of X + 1/X in the real ring, its double real part.
    for s in Setting::both() {
        let parameters = s.parameters();
        let mut x = vec![0.0; parameters.ring().degree()];
        x[1] = 1.0;
        let plaintext = s.encoder.encode_coefficients(&x, 0, 2f64.powi(40)).unwrap();
        let mut poly = plaintext.poly().clone();
        parameters.ring().to_coefficients(&mut poly).unwrap();
        let slots = s.encoder.decode(&poly, plaintext.scale()).unwrap();
        let order = 4 * parameters.slots();
        let mut power = 1;
        for &slot in slots.iter() {
            let root = Complex64::cis(2.0 * std::f64::consts::PI * power as f64 / order as f64);
            let expected = if s.is_real() { Complex64::from(2.0 * root.re) } else { root };
            assert!((slot - expected).norm() < 1e-12);
            power = power * 5 % order;
        }
    }
}

#[test]
fn linear_operations() {
    for mut s in Setting::both() {
        let (x, y) = (s.values(), s.values());
        let (a, b) = (s.encrypt(&x, 5), s.encrypt(&y, 3));
        let e = s.evaluator();
        s.assert_close(&a, |i| x[i], 36);
        s.assert_close(&e.add(&a, &b).unwrap(), |i| x[i] + y[i], 36);
        assert!(matches!(e.lowered(&a, 5), Ok(Cow::Borrowed(same)) if std::ptr::eq(same, &a)));
        let lowered = e.lowered(&a, 3).unwrap();
        assert_eq!(lowered.level(), 3);
        s.assert_close(&lowered, |i| x[i], 36);
        assert!(matches!(e.lowered(&b, 4), Err(CkksError::Level { found: 3, needed: 4, .. })));
        s.assert_close(&e.sub(&b, &a).unwrap(), |i| y[i] - x[i], 36);
        s.assert_close(&e.add_constant(&a, Complex64::new(-2.5, 0.0)).unwrap(), |i| x[i] - 2.5, 36);
        s.assert_close(&e.add_values(&a, &y).unwrap(), |i| x[i] + y[i], 36);
        let scaled = e.mul_constant(&a, Complex64::from(0.3), a.scale() * s.parameters().level_modulus(5)).unwrap();
        s.assert_close(&e.rescale(&scaled).unwrap(), |i| 0.3 * x[i], 36);
        let masked = e.mul_values(&a, &y, s.parameters().level_modulus(5)).unwrap();
        s.assert_close(&e.rescale(&masked).unwrap(), |i| x[i] * y[i], 36);
        let slots = s.parameters().slots();
        for steps in ROTATIONS {
            let at = |i: usize| (i as i64 + steps).rem_euclid(slots as i64) as usize;
            s.assert_close(&e.rotate(&a, steps).unwrap(), |i| x[at(i)], 33);
        }
        let hoisted = e.rotate_hoisted(&a, &ROTATIONS).unwrap();
        s.assert_close(&hoisted[3], |i| x[(i + slots - 3) % slots], 33);
        s.assert_close(&e.sum_slots(&a, 1, 8).unwrap(), |i| (0..8).map(|k| x[(i + k) % slots]).sum(), 34);
    }
}

#[test]
fn complex_operations() {
    let mut s = Setting::new("insecure_n11_depth9_scale50");
    let x = s.values();
    let a = s.encrypt(&x, 4);
    let e = s.evaluator();
    let (i, c) = (Complex64::i(), Complex64::new(0.25, -1.5));
    s.assert_close(&e.conjugate(&a).unwrap(), |k| x[k].conj(), 36);
    s.assert_close(&e.mul_imaginary(&a).unwrap(), |k| i * x[k], 36);
    s.assert_close(&e.add_constant(&a, c).unwrap(), |k| x[k] + c, 36);
    let scaled = e.mul_constant(&a, c, a.scale() * s.parameters().level_modulus(4)).unwrap();
    s.assert_close(&e.rescale(&scaled).unwrap(), |k| c * x[k], 36);

    let real = Setting::new("insecure_n11_real_depth9_scale50");
    let zero = real.encoder.encode_real(&[0.0], 1, 2f64.powi(40)).unwrap();
    let mut rng = SecretRng::insecure_from_seed(9);
    let zero = real.encoder.encrypt(&zero, &real.secret, &mut rng).unwrap().expand(real.parameters());
    assert!(matches!(real.evaluator().conjugate(&zero), Err(CkksError::RealRing { .. })));
    assert!(matches!(real.evaluator().mul_imaginary(&zero), Err(CkksError::RealRing { .. })));
    assert!(matches!(real.encoder.encode(&[i], 1, 2f64.powi(40)), Err(CkksError::Value { index: 0, .. })));
}

#[test]
fn products_down_the_whole_chain() {
    for mut s in Setting::both() {
        let x = s.values();
        let top = s.parameters().max_level();
        let mut power = s.encrypt(&x, top);
        let e = s.evaluator();
        for level in (0..top).rev() {
            power = e.multiply(&power, &power).unwrap();
            assert_eq!(power.level(), level);
        }
        s.assert_close(&power, |i| x[i].powu(1 << top), 25);
        assert!(matches!(e.multiply(&power, &power), Err(CkksError::Level { found: 0, needed: 1, .. })));
    }
}

#[test]
fn products_that_wait_to_be_relinearised() {
    for mut s in Setting::both() {
        let (x, y) = (s.values(), s.values());
        let (a, b) = (s.encrypt(&x, 3), s.encrypt(&y, 3));
        let e = s.evaluator();
        let sum = e.add(&e.tensor(&a, &b).unwrap(), &e.tensor(&a, &a).unwrap()).unwrap();
        let expected = |i: usize| x[i] * y[i] + x[i] * x[i];
        s.assert_close(&sum, expected, 36);
        s.assert_close(&e.relinearise_rescale(&sum).unwrap(), expected, 36);
        s.assert_close(&e.rescale(&e.relinearise(&sum).unwrap()).unwrap(), expected, 36);
        assert!(e.tensor(&sum, &a).is_err());
        let higher = s.encrypt(&y, 4);
        let e = s.evaluator();
        let fused = e.sum_tensors(&[(&a, &higher), (&a, &a)]).unwrap();
        assert_eq!((fused.level(), fused.scale()), (sum.level(), sum.scale()));
        s.assert_close(&fused, expected, 36);
        s.assert_close(&e.relinearise_rescale(&fused).unwrap(), expected, 36);
        assert!(matches!(e.sum_tensors(&[]), Err(CkksError::Shape { found: 0, .. })));
        assert!(matches!(e.sum_tensors(&[(&a, &a), (&a, &sum)]), Err(CkksError::Scale { .. })));
        let simulator = Simulator::new(&s.encoder, 1);
        let [p, q] = [(&x, 3), (&y, 4)].map(|(values, level)| simulator.encrypt(values, level, a.scale()).unwrap());
        let simulated = simulator.sum_tensors(&[(&p, &q), (&p, &p)]).unwrap();
        assert_eq!((simulator.level(&simulated), simulator.scale(&simulated)), (fused.level(), fused.scale()));
        let rescaled = e.rescale(&e.relinearise(&sum).unwrap()).unwrap();
        let three = e.tensor(&rescaled, &rescaled).unwrap();
        let same = e.tensor(&a, &b).unwrap();
        assert!(e.sum_tensors(&[(&three, &same)]).is_err());
    }
}

#[test]
fn matrices_absorb_scales() {
    for mut s in Setting::both() {
        let (x, y) = (s.values(), s.values());
        let a = s.encrypt(&x, 4);
        let b = s.encrypt(&y, 5);
        let b = s.evaluator().multiply(&b, &b).unwrap();
        let imaginary = if s.is_real() { 0.0 } else { 1.0 };
        let entry = |r: usize, c: usize| Complex64::new(r as f64 - 0.5 * c as f64, imaginary * (0.3 + c as f64));
        let output = s.parameters().scale() * s.parameters().level_modulus(4);
        let matrix = PreparedMatrix::new(s.parameters(), 4, &[a.scale(), b.scale()], &[output; 3], entry).unwrap();
        let rows = s.evaluator().matrix(&matrix, &[&a, &b]).unwrap();
        for (r, row) in rows.iter().enumerate() {
            let rescaled = s.evaluator().rescale(row).unwrap();
            s.assert_close(&rescaled, |i| entry(r, 0) * x[i] + entry(r, 1) * y[i] * y[i], 35);
        }
        assert!(matches!(s.evaluator().matrix(&matrix, &[&b, &a]), Err(CkksError::Scale { .. })));
        assert!(matches!(s.evaluator().matrix(&matrix, &[&a]), Err(CkksError::Shape { .. })));
    }
}

#[test]
fn sparse_vectors_repeat() {
    let mut s = Setting::new("insecure_n11_depth9_scale50");
    let values = &s.values()[..16];
    let a = s.encrypt(values, 2);
    s.assert_close(&a, |i| values[i % 16], 36);
}

#[test]
fn mistakes_are_errors_that_say_what_to_do() {
    let mut s = Setting::new("insecure_n11_depth9_scale50");
    let x = s.values();
    let a = s.encrypt(&x, 2);
    let e = s.evaluator();
    let product = e.multiply(&a, &a).unwrap();
    let other = e.mul_constant(&product, Complex64::from(1.0), product.scale() * 1.5).unwrap();
    assert!(matches!(e.add(&product, &other), Err(CkksError::Scale { .. })));
    let missing = e.rotate(&a, 100).unwrap_err().to_string();
    assert!(missing.contains("Galois key"), "{missing}");
    assert!(matches!(s.encoder.encode(&x[..3], 2, 2f64.powi(40)), Err(CkksError::Shape { found: 3, .. })));
    assert!(matches!(s.encoder.encode_real(&[f64::NAN], 2, 2f64.powi(40)), Err(CkksError::Value { .. })));
    assert!(matches!(s.encoder.encode_real(&[1e30], 0, 2f64.powi(40)), Err(CkksError::Overflow { .. })));
    assert!(matches!(s.encoder.encode_real(&[1.0], 99, 2f64.powi(40)), Err(CkksError::Level { .. })));
}

#[test]
fn vectors_survive_serialisation() {
    let mut s = Setting::new("insecure_n11_depth9_scale50");
    let x = s.values();
    let plaintext = s.encoder.encode(&x, 3, 2f64.powi(45)).unwrap();
    let seeded = s.encoder.encrypt(&plaintext, &s.secret, &mut s.rng).unwrap();
    let bytes = seeded.to_bytes(s.parameters());
    assert_eq!(bytes.len(), unspoken_ckks::SeededCiphertext::byte_len(s.parameters(), 3));
    let seeded = unspoken_ckks::SeededCiphertext::from_bytes(s.parameters(), &bytes).unwrap();
    let again =
        Ciphertext::from_bytes(s.parameters(), &seeded.expand(s.parameters()).to_bytes(s.parameters())).unwrap();
    assert_eq!((again.level(), again.scale()), (3, 2f64.powi(45)));
    s.assert_close(&again, |i| x[i], 32);
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 2f64.powi(201)] {
        let mut damaged = bytes.clone();
        damaged[..8].copy_from_slice(&bad.to_le_bytes());
        assert!(unspoken_ckks::SeededCiphertext::from_bytes(s.parameters(), &damaged).is_err());
    }
}

#[test]
fn what_a_service_computes_is_public() {
    let mut s = Setting::new("insecure_n11_depth9_scale50");
    let x = s.values();
    let plaintext = s.encoder.encode(&x, 3, s.parameters().scale()).unwrap();
    assert!(plaintext.poly().is_secret());
    let a = s.encrypt(&x, 3);
    let e = s.evaluator();
    let weights = PreparedVector::new(x.clone(), 3, s.parameters().scale()).unwrap();
    let rows = [vec![(0, &weights), (1, &weights)]];
    let (diagonals, scale) = ([(0, x.clone()), (1, x.clone())].into(), s.parameters().scale());
    let plan = LinearPlan::new(s.parameters(), diagonals, 3, scale, scale).unwrap();
    let computed = [
        vec![e.mul_values(&a, &x, s.parameters().scale()).unwrap(), e.add_values(&a, &x).unwrap()],
        vec![e.mul_prepared(&a, &weights).unwrap(), e.multiply(&a, &a).unwrap()],
        e.rotation_products(&a, &[1, 2], &rows).unwrap(),
        vec![e.linear(&LinearTransform::new(&s.encoder, plan).unwrap(), &a).unwrap()],
    ];
    for (i, result) in computed.iter().flatten().enumerate() {
        assert!(!result.inner().components().iter().any(Poly::is_secret), "result {i}");
    }
}
