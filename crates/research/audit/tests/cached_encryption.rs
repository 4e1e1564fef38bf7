//! Tests of the audit at small rings and once at the paper's size, and of the paper's printing errors.

use unspoken_audit::attack::{Known, Learned, Procedure};
use unspoken_audit::cached_encryption::{Mode, Report, run, run_modes};
use unspoken_audit::insecure_reproduction::{Rache, RacheShape, Vanilla, Zinc};
use unspoken_audit::{AuditError, MessageSpace, Scheme, Size};
use unspoken_ring::{Basis, Domain, SecretRng};
use unspoken_rlwe::{Ciphertext, SecretKey};

struct Setting {
    space: MessageSpace,
    secret: SecretKey,
    rng: SecretRng,
}

impl Setting {
    fn new(scheme: Scheme) -> Self {
        let space = MessageSpace::new(scheme, Size::Small).unwrap();
        let mut rng = SecretRng::insecure_from_seed(7);
        let secret = SecretKey::generate(space.rlwe(), &mut rng).unwrap();
        Setting { space, secret, rng }
    }

    fn vanilla(&mut self) -> Vanilla {
        Vanilla::generate(&self.space, &self.secret, &mut self.rng).unwrap()
    }

    fn decrypts_to(&self, ciphertext: &Ciphertext, values: &[f64]) -> bool {
        let found = self.space.decrypt(&self.secret, ciphertext, values.len()).unwrap();
        found.iter().zip(values).all(|(a, b)| (a - b).abs() < 1e-3)
    }
}

/// Checks every claim: findings on `broken` broken modes, and 24 on sound ones.
fn check(report: &Report, broken: usize, trials: usize) {
    assert_eq!(report.findings.len(), broken + 24);
    for finding in &report.findings {
        let what = format!("{} {} {}: {finding:?}", finding.scheme, finding.mode, finding.attack);
        assert!(finding.is_as_claimed(), "{what}");
        if finding.claimed_sound {
            // A fair coin fails this check with probability 2^-30; for 24 findings, with 2^-25.
            assert!(finding.log2_chance > -30.0, "{what}");
            assert!(finding.worst_error > 1.0, "{what}");
        } else {
            assert_eq!((finding.right, finding.recovered, finding.advantage), (trials, trials, 1.0), "{what}");
            // The result is exact, except for the errors of CKKS at a scale of 2^55.
            let approximate = finding.scheme == "CKKS" && finding.attack == "difference";
            assert!(if approximate { finding.worst_error < 1e-11 } else { finding.worst_error == 0.0 }, "{what}");
        }
    }
    assert!(report.is_as_claimed());
}

#[test]
fn reproductions_are_broken_and_sound_modes_resist() {
    let mut rng = SecretRng::insecure_from_seed(1);
    let mut steps = 0;
    // Zinc in three schemes, Rache with nine caches in CKKS and five in the others.
    check(&run(Size::Small, 200, &mut rng, |_| steps += 1).unwrap(), 3 + 9 + 5 + 5, 200);
    assert_eq!(steps, 22 + 24);
}

#[test]
fn the_same_at_the_size_of_the_paper() {
    let mut rng = SecretRng::insecure_from_seed(2);
    // The command attacks all caches at this size; these take seconds.
    let quick = |mode: &Mode| match mode {
        Mode::Rache(shape) => matches!((shape.radix, shape.pivots), (2, 8) | (6, 4)),
        _ => true,
    };
    let modes = |scheme| Mode::all(scheme).into_iter().filter(quick).collect();
    let report = run_modes(Size::Paper, 32, modes, &mut rng, |_| ()).unwrap();
    check(&report, 9, 32);
    for finding in &report.findings {
        assert!(finding.n == 32768 && (866.0..=868.0).contains(&finding.log2_q), "{finding:?}");
    }
}

#[test]
fn too_few_trials_prove_nothing_and_are_refused() {
    let mut rng = SecretRng::insecure_from_seed(3);
    for trials in [0, 31, 1 << 20] {
        assert!(matches!(run(Size::Small, trials, &mut rng, |_| ()), Err(AuditError::Range { .. })));
    }
}

#[test]
fn reproductions_decrypt() {
    for scheme in Scheme::ALL {
        let mut setting = Setting::new(scheme);
        let vanilla = setting.vanilla();
        let zinc = Zinc::new(&vanilla, &mut setting.rng).unwrap();
        let values = [0.0, 1.0, -999.0, 500.0];
        let message = setting.space.encode(&values).unwrap();
        let encrypted = [vanilla.encrypt(&message, &mut setting.rng), zinc.encrypt(&message, &mut setting.rng)];
        for ciphertext in encrypted {
            assert!(setting.decrypts_to(&ciphertext.unwrap(), &values), "{scheme}");
        }
        for (radix, pivots) in [(2, 10), (6, 4)] {
            let rache = Rache::new(&vanilla, RacheShape { radix, pivots }, &mut setting.rng).unwrap();
            for value in [0, 1, 35, 999, radix.pow(pivots as u32) - 1] {
                let ciphertext = rache.encrypt(value, &mut setting.rng).unwrap();
                assert!(setting.decrypts_to(&ciphertext, &[value as f64]), "{scheme} {radix} {value}");
            }
            assert!(matches!(rache.encrypt(radix.pow(pivots as u32), &mut setting.rng), Err(AuditError::Range { .. })));
        }
    }
}

#[test]
fn rache_takes_the_pivots_of_the_paper_and_its_span_is_as_small() {
    let mut setting = Setting::new(Scheme::Ckks);
    let vanilla = setting.vanilla();
    for pivots in [4, 23] {
        let rache = Rache::new(&vanilla, RacheShape { radix: 2, pivots }, &mut setting.rng).unwrap();
        let known = |value: u64, rng: &mut SecretRng| Known {
            values: vec![value as f64],
            ciphertext: rache.encrypt(value, rng).unwrap(),
        };
        let limit = 1u64 << pivots;
        let all: Vec<Known> = (0..48).map(|i| known(i * 7_654_321 % limit, &mut setting.rng)).collect();
        let learned = Procedure::Span.learn(&setting.space, &all).unwrap();
        let Learned::Span(span) = &learned else { panic!("another attack") };
        assert_eq!(span.dimensions(), pivots);
        let secret = rache.encrypt(limit - 2, &mut setting.rng).unwrap();
        assert_eq!(learned.recover(&setting.space, &secret).unwrap(), [(limit - 2) as f64]);
    }
    // The largest caches of the paper's Table 1, which hold numbers of 64 bits.
    assert_eq!(RacheShape { radix: 2, pivots: 64 }.limit(), 1 << 64);
    assert_eq!(RacheShape { radix: 6, pivots: 24 }.limit(), 6u128.pow(24));
    let rache = Rache::new(&vanilla, RacheShape { radix: 2, pivots: 64 }, &mut setting.rng).unwrap();
    let ciphertext = rache.encrypt(12345, &mut setting.rng).unwrap();
    let found = setting.space.decrypt(&setting.secret, &ciphertext, 1).unwrap()[0];
    // The remaining error comes from the topmost pivots, rounded to 53 bits of their values.
    assert!((found - 12345.0).abs() < 1e-3, "{found}");
}

#[test]
fn zinc_shows_that_two_ciphertexts_have_one_origin() {
    for scheme in Scheme::ALL {
        let mut setting = Setting::new(scheme);
        let zinc = Zinc::new(&setting.vanilla(), &mut setting.rng).unwrap();
        let mut second = |value: f64| {
            let message = setting.space.encode(&[value]).unwrap();
            zinc.encrypt(&message, &mut setting.rng).unwrap().components()[1].clone()
        };
        let (a, b) = (second(1.0), second(2.0));
        let ring = setting.space.ring();
        let mut difference = ring.sub(&a, &b).unwrap();
        ring.to_coefficients(&mut difference).unwrap();
        let largest = ring.to_f64(&difference).unwrap().iter().fold(0.0, |max: f64, x| max.max(x.abs()));
        assert!(largest <= 60.0 * f64::from(setting.space.error_factor()), "{scheme}: {largest}");
    }
}

#[test]
fn equation_8_as_printed_does_not_decrypt() {
    let mut setting = Setting::new(Scheme::Bfv);
    let ring = setting.space.ring().clone();
    let vanilla = setting.vanilla();
    let message = setting.space.encode(&[5.0]).unwrap();
    let right = vanilla.encrypt(&message, &mut setting.rng).unwrap();
    // Uses pk_1 u + e in both components: the first component without its message.
    let again = ring.sub(&right.components()[0], &message).unwrap();
    let printed = Ciphertext::new(vec![right.components()[0].clone(), again]).unwrap();
    assert!(setting.decrypts_to(&right, &[5.0]));
    assert!(!setting.decrypts_to(&printed, &[5.0]));
}

#[test]
fn small_values_in_the_transform_domain_are_not_a_small_error() {
    let mut setting = Setting::new(Scheme::Ckks);
    let ring = setting.space.ring().clone();
    let q = ring.chain()[0];
    let small = setting.rng.gaussian(ring.degree());
    let residues: Vec<u32> = small.iter().map(|&e| e.rem_euclid(q as i32) as u32).collect();
    let mut error = ring.from_values(&residues).unwrap();
    assert_eq!((error.domain(), error.basis()), (Domain::Evaluation, Basis::chain(1)));
    ring.to_coefficients(&mut error).unwrap();
    let coefficients = ring.to_f64(&error).unwrap();
    // As large as uniform residues: their mean magnitude is q/4.
    let mean = coefficients.iter().map(|x| x.abs()).sum::<f64>() / coefficients.len() as f64;
    assert!((mean / f64::from(q) - 0.25).abs() < 0.02, "{mean}");
}
