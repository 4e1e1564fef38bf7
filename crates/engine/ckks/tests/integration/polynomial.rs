//! Polynomials on encrypted vectors against their values in the clear, in both rings.

use crate::common::{Client, REAL, STANDARD};
use unspoken_ckks::{
    Arithmetic, CkksError, Complex64, Polynomial, Simulator, SlotPolynomials, evaluate, evaluate_slots,
    evaluate_to_scale, evaluate_with_power,
};

/// Evaluates a polynomial on slots in `[low, high]` at the lowest sufficient level. Checks that every error is below
/// `2^-bits`.
fn check(client: &mut Client, polynomial: &Polynomial, (low, high): (f64, f64), bits: i32) {
    let (middle, radius) = ((low + high) / 2.0, (high - low) / 2.0);
    let real: Vec<Complex64> = client.values(1.0).iter().map(|z| Complex64::from(middle + radius * z.re)).collect();
    check_at(client, polynomial, &real, bits);
}

fn check_at(client: &mut Client, polynomial: &Polynomial, values: &[Complex64], bits: i32) {
    let (level, scale) = (polynomial.depth(), client.parameters().scale());
    let simulator = Simulator::new(&client.encoder, 3);
    let simulated = evaluate(&simulator, &simulator.encrypt(values, level, scale).unwrap(), polynomial).unwrap();
    assert_eq!(simulator.overflows(), []);
    let keys = client.keys(&simulator.key_plan());
    let input = client.encrypt(values, level);
    let output = evaluate(&client.evaluator(&keys), &input, polynomial).unwrap();
    assert_eq!(output.level(), 0);
    assert!((output.scale() / scale - 1.0).abs() < 1e-12);
    let found = client.decrypt(&output);
    let degree = polynomial.degree();
    for (i, (z, x)) in found.iter().zip(values).enumerate() {
        let expected = polynomial.at(*x);
        assert!((simulated.exact()[i] - expected).norm() < 1e-9, "degree {degree}, in the clear");
        let error = (z - expected).norm();
        assert!(error < 2f64.powi(-bits), "degree {degree}: error 2^{:.1}, slot {i}", error.log2());
    }
}

#[test]
fn every_degree_in_both_bases_and_rings() {
    for preset in [STANDARD, REAL] {
        let mut client = Client::new(preset, 1);
        for degree in (1..=17).chain([31, 32, 33, 47, 63]) {
            let coefficients: Vec<Complex64> = (0..=degree).map(|_| Complex64::from(client.unit())).collect();
            let chebyshev = Polynomial::chebyshev(&coefficients, -1.0, 1.0).unwrap();
            assert_eq!(chebyshev.depth(), (degree as f64 + 1.0).log2().ceil() as usize);
            check(&mut client, &chebyshev, (-1.0, 1.0), 25);
            let monomial = Polynomial::monomial(&coefficients).unwrap();
            check(&mut client, &monomial, (-1.0, 1.0), 25);
        }
    }
}

#[test]
fn sparse_odd_and_even_polynomials() {
    let one = Complex64::from(1.0);
    for preset in [STANDARD, REAL] {
        let mut client = Client::new(preset, 2);
        for (residue, degree) in [(0, 30), (1, 31), (1, 45)] {
            let coefficient = |k: usize| if k % 2 == residue { one / (k + 1) as f64 } else { one * 0.0 };
            let coefficients: Vec<_> = (0..=degree).map(coefficient).collect();
            check(&mut client, &Polynomial::chebyshev(&coefficients, -1.0, 1.0).unwrap(), (-1.0, 1.0), 27);
            check(&mut client, &Polynomial::monomial(&coefficients).unwrap(), (-1.0, 1.0), 27);
        }
        let mut sparse = vec![Complex64::default(); 41];
        for k in [0, 3, 40] {
            sparse[k] = one;
        }
        check(&mut client, &Polynomial::chebyshev(&sparse, -1.0, 1.0).unwrap(), (-1.0, 1.0), 27);
        check(&mut client, &Polynomial::monomial(&sparse).unwrap(), (-1.0, 1.0), 27);
    }
}

#[test]
fn functions_on_intervals() {
    for preset in [STANDARD, REAL] {
        let mut client = Client::new(preset, 3);
        let sine = Polynomial::chebyshev_approximation(f64::sin, -6.0, 6.0, 23).unwrap();
        assert!(sine.coefficients().iter().step_by(2).all(|c| c.norm() == 0.0), "sine is odd");
        assert_eq!((sine.degree(), sine.depth()), (23, 6));
        assert!((sine.at(Complex64::from(2.5)).re - 2.5f64.sin()).abs() < 1e-9);
        check(&mut client, &sine, (-6.0, 6.0), 27);
        let exponential = Polynomial::chebyshev_approximation(f64::exp, -3.0, 1.0, 15).unwrap();
        assert!((exponential.at(Complex64::from(-1.2)).re - (-1.2f64).exp()).abs() < 1e-9);
        check(&mut client, &exponential, (-3.0, 1.0), 29);
        // An interval of length 2 uses no level, at any position.
        let shifted = Polynomial::chebyshev_approximation(f64::sqrt, 0.5, 2.5, 15).unwrap();
        assert_eq!(shifted.depth(), 4);
        check(&mut client, &shifted, (0.5, 2.5), 29);
    }
}

#[test]
fn complex_coefficients_at_complex_slots() {
    let mut client = Client::new(STANDARD, 4);
    let coefficients: Vec<_> = (0..12).map(|_| Complex64::new(client.unit(), client.unit())).collect();
    let polynomial = Polynomial::monomial(&coefficients).unwrap();
    let values = client.values(0.7);
    check_at(&mut client, &polynomial, &values, 28);

    let mut client = Client::new(REAL, 4);
    let input = client.values(0.7);
    let input = client.encrypt(&input, 5);
    let keys = client.keys(&Default::default());
    let refused = evaluate(&client.evaluator(&keys), &input, &Polynomial::monomial(&coefficients[..2]).unwrap());
    assert!(matches!(refused, Err(CkksError::Value { .. })));
}

#[test]
fn scales_are_what_was_asked_for() {
    let mut client = Client::new(STANDARD, 5);
    let polynomial = Polynomial::chebyshev_approximation(f64::cos, -1.0, 1.0, 10).unwrap();
    let values: Vec<Complex64> = client.values(1.0).iter().map(|z| Complex64::from(z.re)).collect();
    let simulator = Simulator::new(&client.encoder, 1);
    let scale = 1.37 * client.parameters().scale();
    let run = |level| {
        let input = simulator.encrypt(&values, level, 0.81 * scale).unwrap();
        evaluate_to_scale(&simulator, &input, &polynomial, scale).unwrap()
    };
    run(7);
    let keys = client.keys(&simulator.key_plan());
    let input = client.encrypt(&values, 7);
    let output = evaluate_to_scale(&client.evaluator(&keys), &input, &polynomial, scale).unwrap();
    assert_eq!(output.level(), 3);
    assert!((output.scale() / scale - 1.0).abs() < 1e-12);
    let found = client.decrypt(&output);
    assert!(found.iter().zip(&values).all(|(z, x)| (z - polynomial.at(*x)).norm() < 2f64.powi(-32)));
    // A constant polynomial uses no level.
    let constant = Polynomial::monomial(&[Complex64::from(0.25)]).unwrap();
    let output = evaluate(&client.evaluator(&keys), &input, &constant).unwrap();
    assert_eq!(output.level(), 7);
    assert!(client.decrypt(&output).iter().all(|z| (z - 0.25).norm() < 2f64.powi(-32)));
}

#[test]
fn mistakes_are_errors() {
    let mut client = Client::new(STANDARD, 6);
    let cubic = Polynomial::monomial(&[Complex64::from(1.0); 4]).unwrap();
    let values = client.values(0.5);
    let (low, high) = (client.encrypt(&values, 1), client.encrypt(&values, 4));
    let none = client.keys(&Default::default());
    let evaluator = client.evaluator(&none);
    assert!(matches!(evaluate(&evaluator, &low, &cubic), Err(CkksError::Level { found: 1, needed: 2, .. })));
    let missing = evaluate(&evaluator, &high, &cubic).unwrap_err().to_string();
    assert!(missing.contains("relinearisation key"), "{missing}");
    assert!(matches!(evaluate_to_scale(&evaluator, &high, &cubic, f64::NAN), Err(CkksError::Value { .. })));
    let product = evaluator.tensor(&high, &high).unwrap();
    assert!(evaluate(&evaluator, &product, &cubic).is_err());
    assert!(Polynomial::chebyshev(&[Complex64::from(1.0)], 1.0, 1.0).is_err());
    assert!(Polynomial::monomial(&[Complex64::from(f64::NAN)]).is_err());
    assert!(Polynomial::chebyshev_approximation(f64::ln, -1.0, 1.0, 5).is_err());
    assert_eq!(Polynomial::monomial(&[]).unwrap().degree(), 0);
}

#[test]
fn every_slot_has_its_own_polynomial() {
    for preset in [STANDARD, REAL] {
        let mut client = Client::new(preset, 8);
        let (slots, scale) = (client.parameters().slots(), client.parameters().scale());
        // Polynomials of different degrees: one with a zero coefficient where the others have none, one that is zero,
        // and one that is constant.
        let mut polynomials: Vec<Polynomial> = [7, 15, 12]
            .map(|degree| {
                let coefficients: Vec<Complex64> = (0..=degree).map(|_| Complex64::from(client.unit())).collect();
                Polynomial::chebyshev(&coefficients, -1.0, 1.0).unwrap()
            })
            .into();
        polynomials.push(Polynomial::chebyshev(&[], -1.0, 1.0).unwrap());
        polynomials.push(Polynomial::chebyshev(&[Complex64::from(0.5)], -1.0, 1.0).unwrap());
        let family = SlotPolynomials::new(&polynomials, (0..slots / 2).map(|slot| slot % 5).collect()).unwrap();
        assert_eq!(family.depth(), 4);
        let values: Vec<Complex64> = client.values(1.0).iter().map(|z| Complex64::from(z.re)).collect();
        let simulator = Simulator::new(&client.encoder, 3);
        let input = simulator.encrypt(&values, 5, scale).unwrap();
        let simulated = evaluate_slots(&simulator, &input, &family, 1.5 * scale).unwrap();
        assert_eq!((simulator.level(&simulated), simulator.overflows()), (1, vec![]));
        let keys = client.keys(&simulator.key_plan());
        let input = client.encrypt(&values, 5);
        let output = evaluate_slots(&client.evaluator(&keys), &input, &family, 1.5 * scale).unwrap();
        assert!((output.scale() / scale - 1.5).abs() < 1e-12 && output.level() == 1);
        let found = client.decrypt(&output);
        for (slot, (z, x)) in found.iter().zip(&values).enumerate() {
            let expected = polynomials[slot % (slots / 2) % 5].at(*x);
            assert!((simulated.exact()[slot] - expected).norm() < 1e-9, "slot {slot}, in the clear");
            assert!((z - expected).norm() < 2f64.powi(-25), "slot {slot}");
        }
        let low = client.encrypt(&values, 3);
        let error = evaluate_slots(&client.evaluator(&keys), &low, &family, scale).unwrap_err();
        assert!(matches!(error, CkksError::Level { found: 3, needed: 4, .. }), "{error}");
        let other = Polynomial::chebyshev(&[Complex64::from(0.5); 3], -1.0, 2.0).unwrap();
        assert!(SlotPolynomials::new(&[other], vec![0]).is_err());
        assert!(SlotPolynomials::new(&polynomials, vec![5]).is_err());
        assert!(SlotPolynomials::new(&polynomials, vec![]).is_err());
        assert!(SlotPolynomials::new(&polynomials[3..], vec![0]).is_err());
    }
}

#[test]
fn the_greatest_power_of_two_comes_with_the_value() {
    let mut client = Client::new(STANDARD, 9);
    let values: Vec<Complex64> = client.values(1.0).iter().map(|z| Complex64::from(z.re)).collect();
    let simulator = Simulator::new(&client.encoder, 4);
    let scale = client.parameters().scale();
    for (degree, n) in [(0, 1u32), (1, 1), (2, 2), (3, 2), (4, 4), (15, 8), (16, 16), (31, 16)] {
        let polynomial = Polynomial::chebyshev_approximation(|x| (x + 1.2).recip(), -1.0, 1.0, degree).unwrap();
        let power = Polynomial::chebyshev(
            &(0..=n).map(|k| Complex64::from(f64::from(u8::from(k == n)))).collect::<Vec<_>>(),
            -1.0,
            1.0,
        );
        let power = power.unwrap();
        let input = simulator.encrypt(&values, 7, scale).unwrap();
        let found = evaluate_with_power(&simulator, &input, &polynomial, scale).unwrap();
        assert_eq!(simulator.level(&found.power), 7 - n.ilog2() as usize, "{degree}");
        assert!(simulator.level(&found.value) < simulator.level(&found.power) || degree == 0, "{degree}");
        let slots = found.power.exact().iter().zip(&values);
        slots.for_each(|(slot, x)| assert!((slot - power.at(*x)).norm() < 1e-9, "{degree}: {slot} at {x}"));
    }
}
