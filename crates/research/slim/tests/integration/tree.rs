//! Decompositions: exactness, forms and stability.

use unspoken_ckks::{Complex64, Polynomial};
use unspoken_slim::{SlimError, SquareTree};

/// Points at which trees are compared with polynomials.
const POINTS: usize = 129;

fn inverse_root(low: f64, degree: usize) -> Polynomial {
    Polynomial::chebyshev_approximation(|x| 1.0 / x.sqrt(), low, 1.0, degree).unwrap()
}

fn silu(end: f64, degree: usize) -> Polynomial {
    Polynomial::chebyshev_approximation(|x| x / (1.0 + (-x).exp()), -end, end, degree).unwrap()
}

/// The largest value on a grid.
fn largest(polynomial: &Polynomial, (low, high): (f64, f64)) -> f64 {
    let values = (0..=400).map(|i| polynomial.at(Complex64::from(low + (high - low) * f64::from(i) / 400.0)).norm());
    values.fold(0.0, f64::max)
}

/// Decomposes to every depth given, checks the tree, and returns the bits that the last loses, relative to the largest
/// value.
fn check(name: &str, polynomial: &Polynomial, interval: (f64, f64), depths: &[usize]) -> f64 {
    let size = largest(polynomial, interval);
    let mut lost = 0.0;
    for &depth in depths {
        let tree = SquareTree::new(polynomial, depth).unwrap();
        let exactness = tree.log2_exactness(POINTS);
        assert!(exactness < -49.0, "{name}, depth {depth}: 2^{exactness}");
        assert_eq!((tree.depth(), tree.degree() >> depth), (depth, tree.leaf_degree()));
        for level in 0..depth {
            assert_eq!(tree.shifts(level).len(), 1 << level);
        }
        for i in 0..=64 {
            let x = interval.0 + (interval.1 - interval.0) * f64::from(i) / 64.0;
            let difference = (tree.at(x) - polynomial.at(Complex64::from(x)).re).abs();
            assert!(difference <= tree.added().abs() + 1e-9 * size, "{name}, depth {depth}, {x}: {difference}");
        }
        // Squares lose about what the paper estimates, and errors of leaves grow at most by the product over levels.
        let stability = tree.stability();
        assert!(stability.iter().map(|s| s.level).eq((1..=depth).rev()));
        let estimates: f64 = stability.iter().map(|s| s.bits_lost).sum();
        lost = stability[0].measured;
        assert!(lost > 0.0 && lost <= estimates, "{name}, depth {depth}: {lost} measured, {estimates} estimated");
        let last = &stability[depth - 1];
        assert!(last.measured <= last.bits_lost && last.measured > last.bits_lost - 1.0, "{name}: {last:?}");
        let root = (2.0 * (size + last.largest_shift)).sqrt();
        assert!(last.largest_sum <= root * 1.001, "{name}: {} above {root}", last.largest_sum);
        lost -= size.log2();
        println!("{name}, depth {depth}: exact 2^{exactness:.1}, loss {lost:.1} bits");
    }
    lost
}

#[test]
fn inverse_roots_are_sums_of_squares_at_every_depth() {
    for (low, degree) in [(1.0 / 30.0, 32), (1.0 / 100.0, 32), (1.0 / 30.0, 64), (1.0 / 100.0, 64)] {
        let polynomial = inverse_root(low, degree);
        assert_eq!(SquareTree::new(&polynomial, 1).unwrap().added(), 0.0);
        let lost = check(&format!("1/sqrt, {low}, {degree}"), &polynomial, (low, 1.0), &[1, 2, 3, 4, 5]);
        assert!(lost < 5.0, "{lost} bits");
    }
}

#[test]
fn degree_128_is_decomposed_to_linear_leaves() {
    let low = 1.0 / 900.0;
    let lost = check("1/sqrt, 1/900, 128", &inverse_root(low, 128), (low, 1.0), &[1, 2, 3, 4, 5, 7]);
    // The paper expects one bit for each level.
    assert!(lost < 7.0, "{lost} bits");
}

#[test]
fn exponentials_and_negative_leading_coefficients() {
    let exponential = Polynomial::chebyshev_approximation(f64::exp, -12.0, 0.0, 16).unwrap();
    check("exp, 16", &exponential, (-12.0, 0.0), &[1, 2, 3, 4]);
    let silu = silu(16.0, 64);
    assert!(silu.coefficients()[64].re < 0.0);
    check("silu, 64", &silu, (-16.0, 16.0), &[1, 3, 5]);
}

#[test]
fn a_missing_leading_coefficient_is_added_and_reported() {
    // Degree 32 of the exponential is below the precision of f64; degrees 15 and 31 are no powers of two.
    for (polynomial, interval) in [
        (Polynomial::chebyshev_approximation(f64::exp, -12.0, 0.0, 32).unwrap(), (-12.0, 0.0)),
        (Polynomial::chebyshev_approximation(f64::exp, -12.0, 0.0, 15).unwrap(), (-12.0, 0.0)),
        (inverse_root(1.0 / 30.0, 31), (1.0 / 30.0, 1.0)),
        (silu(8.0, 31), (-8.0, 8.0)),
    ] {
        let tree = SquareTree::new(&polynomial, 3).unwrap();
        let degree = polynomial.degree().next_power_of_two();
        assert_eq!(tree.degree(), degree);
        let relative = tree.added().abs() / largest(&polynomial, interval);
        assert!(relative > 0.0 && relative < 2f64.powi(-18), "{relative}");
        assert_eq!(tree.coefficients()[degree], tree.added());
        check(&format!("degree {}", polynomial.degree()), &polynomial, interval, &[1, 3]);
    }
}

#[test]
fn the_same_polynomial_has_the_same_tree() {
    let polynomial = inverse_root(1.0 / 100.0, 32);
    assert_eq!(SquareTree::new(&polynomial, 3).unwrap(), SquareTree::new(&polynomial, 3).unwrap());
}

#[test]
fn what_cannot_be_decomposed_is_refused() {
    let refused = |polynomial: Polynomial, depth: usize, part: &str| {
        let error = SquareTree::new(&polynomial, depth).unwrap_err();
        assert!(matches!(error, SlimError::Shape { .. }), "{error}");
        assert!(error.to_string().contains(part), "{error}");
    };
    refused(Polynomial::monomial(&[1.0.into(), 1.0.into()]).unwrap(), 1, "monomial");
    let complex = [Complex64::from(1.0), Complex64::new(0.0, 1.0)];
    refused(Polynomial::chebyshev(&complex, 0.0, 1.0).unwrap(), 1, "complex");
    refused(inverse_root(0.1, 16), 5, "from 1 to 4");
    refused(inverse_root(0.1, 16), 0, "depth 0");
    refused(Polynomial::chebyshev(&[1.0.into()], 0.0, 1.0).unwrap(), 1, "degree 1");
    refused(inverse_root(1e-4, 300), 1, "degree 512");
}
