//! Slim evaluation, simulated and encrypted: values, levels, scales, keys, cost and errors.

use unspoken_ckks::{
    Arithmetic, CkksError, CkksParameters, Complex64, Encoder, ErrorStatistics, Evaluator, Polynomial, Preset,
    Simulator, evaluate,
};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{EvaluationKeys, RlweError, SecretKey};
use unspoken_slim::{SlimError, SlimEvaluation, SquareTree};

const DEEP: &str = "insecure_n11_depth24_scale52";
const REAL: &str = "insecure_n11_real_depth9_scale50";
const OUTPUT_LEVEL: usize = 1;

fn parameters(preset: &str) -> CkksParameters {
    Preset::find(preset).unwrap().build().unwrap()
}

fn inverse_root(low: f64, degree: usize) -> Polynomial {
    Polynomial::chebyshev_approximation(|x| 1.0 / x.sqrt(), low, 1.0, degree).unwrap()
}

/// Values of an interval, with both ends.
fn values(count: usize, (low, high): (f64, f64)) -> Vec<Complex64> {
    let place = |v: usize| low + (high - low) * v as f64 / (count - 1) as f64;
    (0..count).map(|v| place(v).into()).collect()
}

/// Runs an evaluation on a simulator and encrypted with exactly the keys it names, and compares both with what is
/// expected. Returns the worst error of the encrypted run.
fn check(preset: &str, slim: &SlimEvaluation, inputs: &[Complex64], expected: &[Complex64]) -> f64 {
    let parameters = parameters(preset);
    let (encoder, scale) = (Encoder::new(&parameters), parameters.scale());
    let simulator = Simulator::new(&encoder, 3).with_keys(slim.key_plan().clone());
    let input = simulator.encrypt(inputs, slim.input_level(), scale).unwrap();
    let simulated = slim.apply(&simulator, &input).unwrap();
    assert_eq!(simulator.level(&simulated), OUTPUT_LEVEL);
    assert!((simulator.scale(&simulated) / scale - 1.0).abs() < 1e-12);
    assert!(simulator.key_plan().iter().eq(slim.key_plan().iter()), "keys that are not used");
    assert_eq!(&simulator.cost(), slim.cost());
    assert!(simulator.overflows().is_empty());
    for (slot, found) in simulated.exact().iter().enumerate() {
        let expected = expected[slot % expected.len()];
        assert!((found - expected).norm() < 1e-9 * expected.norm().max(1.0), "slot {slot}: {found} {expected}");
    }

    let mut rng = SecretRng::insecure_from_seed(5);
    let secret = SecretKey::generate(parameters.rlwe(), &mut rng).unwrap();
    let keys = EvaluationKeys::generate(&secret, slim.key_plan(), &mut rng).unwrap();
    let plaintext = encoder.encode(inputs, slim.input_level(), scale).unwrap();
    let input = encoder.encrypt(&plaintext, &secret, &mut rng).unwrap().expand(&parameters);
    let output = slim.apply(&Evaluator::new(&encoder, &keys), &input).unwrap();
    assert_eq!(output.level(), OUTPUT_LEVEL);
    let found = encoder.decrypt(&output, &secret).unwrap();
    let expected: Vec<Complex64> = expected.iter().copied().cycle().take(found.len()).collect();
    let error = ErrorStatistics::between(&found, &expected);
    let predicted = simulated.error();
    assert!(error.rms < 2.0 * predicted.rms && predicted.rms < 2.0 * error.rms, "{error:?}, {predicted:?}");
    error.worst
}

#[test]
fn every_depth_computes_the_polynomial() {
    let parameters = parameters(DEEP);
    let polynomial = inverse_root(1.0 / 30.0, 32);
    let inputs = values(16, (1.0 / 30.0, 1.0));
    let expected: Vec<Complex64> = inputs.iter().map(|x| polynomial.at(*x)).collect();
    for depth in 1..=5 {
        let tree = SquareTree::new(&polynomial, depth).unwrap();
        let slim = SlimEvaluation::new(&parameters, &[&tree], 16, OUTPUT_LEVEL, parameters.scale()).unwrap();
        assert_eq!(slim.levels(), 6);
        // Relinearisation, and a rotation for each level of squares.
        assert_eq!(slim.key_plan().len(), 1 + depth);
        let worst = check(DEEP, &slim, &inputs, &expected);
        println!("depth {depth}: worst error 2^{:.1}", worst.log2());
        assert!(worst < 2f64.powi(-27), "depth {depth}: {worst}");
    }
}

#[test]
fn levels_need_not_be_nested() {
    let polynomial = inverse_root(1.0 / 30.0, 32);
    let inputs = values(16, (1.0 / 30.0, 1.0));
    let expected: Vec<Complex64> = inputs.iter().map(|x| polynomial.at(*x)).collect();
    for (preset, worst) in [
        ("insecure_n11_depth12_scale35", -12.0),
        ("insecure_n11_depth12_scale40", -17.0),
        ("insecure_n11_depth12_scale45", -22.0),
    ] {
        let parameters = parameters(preset);
        for depth in [1, 3, 5] {
            let tree = SquareTree::new(&polynomial, depth).unwrap();
            let slim = SlimEvaluation::new(&parameters, &[&tree], 16, OUTPUT_LEVEL, parameters.scale()).unwrap();
            let found = check(preset, &slim, &inputs, &expected).log2();
            assert!(found < worst, "{preset}, depth {depth}: 2^{found:.1}");
        }
    }
}

#[test]
fn polynomials_and_intervals_may_differ_by_value_in_the_real_ring() {
    let parameters = parameters(REAL);
    let polynomials = [inverse_root(1.0 / 30.0, 16), inverse_root(1.0 / 5.0, 16)];
    let trees = polynomials.each_ref().map(|polynomial| SquareTree::new(polynomial, 2).unwrap());
    let slim = SlimEvaluation::new(&parameters, &trees.each_ref(), 8, OUTPUT_LEVEL, parameters.scale()).unwrap();
    let inputs = values(8, (0.25, 1.0));
    let expected: Vec<Complex64> = inputs.iter().enumerate().map(|(v, x)| polynomials[v % 2].at(*x)).collect();
    let worst = check(REAL, &slim, &inputs, &expected);
    assert!(worst < 2f64.powi(-25), "{worst}");
}

#[test]
fn negative_leading_coefficients_and_full_slots() {
    let parameters = parameters(DEEP);
    let silu = Polynomial::chebyshev_approximation(|x| x / (1.0 + (-x).exp()), -8.0, 8.0, 32).unwrap();
    let tree = SquareTree::new(&silu, 3).unwrap();
    let count = parameters.slots() >> 3;
    let slim = SlimEvaluation::new(&parameters, &[&tree], count, OUTPUT_LEVEL, parameters.scale()).unwrap();
    let inputs = values(count, (-8.0, 8.0));
    let expected: Vec<Complex64> = inputs.iter().map(|x| silu.at(*x)).collect();
    let worst = check(DEEP, &slim, &inputs, &expected);
    assert!(worst < 2f64.powi(-25), "{worst}");
}

#[test]
fn a_folded_map_saves_a_level() {
    let parameters = parameters(DEEP);
    let encoder = Encoder::new(&parameters);
    let polynomial = inverse_root(1.0 / 30.0, 32);
    let tree = SquareTree::new(&polynomial, 4).unwrap();
    let slim = SlimEvaluation::new(&parameters, &[&tree], 4, OUTPUT_LEVEL, parameters.scale()).unwrap();
    let map = slim.affine_map();
    assert_eq!((map.level, map.factors.len()), (OUTPUT_LEVEL + 5, 4 << 4));
    let inputs = values(4, (1.0 / 30.0, 1.0));
    let mapped = map.factors.iter().zip(&map.offsets).zip(inputs.iter().cycle()).map(|((a, b), x)| a * x + b);
    let simulator = Simulator::new(&encoder, 3);
    let argument = simulator.encrypt(&mapped.collect::<Vec<_>>(), map.level, map.scale).unwrap();
    let output = slim.apply_mapped(&simulator, &argument).unwrap();
    let expected: Vec<Complex64> = inputs.iter().map(|x| polynomial.at(*x)).collect();
    assert!(ErrorStatistics::between(&output.noisy()[..4], &expected).worst < 2f64.powi(-27));
    assert_eq!(simulator.level(&output), OUTPUT_LEVEL);
}

#[test]
fn degree_128_takes_half_the_products_of_baby_steps_and_giant_steps() {
    let parameters = parameters("n16_depth20_scale58");
    let (encoder, scale, low) = (Encoder::new(&parameters), parameters.scale(), 1.0 / 900.0);
    let polynomial = inverse_root(low, 128);
    let tree = SquareTree::new(&polynomial, 5).unwrap();
    let slim = SlimEvaluation::new(&parameters, &[&tree], 256, OUTPUT_LEVEL, scale).unwrap();
    let counting = Simulator::counting(&encoder);
    let input = counting.encrypt(&[], OUTPUT_LEVEL + polynomial.depth(), scale).unwrap();
    evaluate(&counting, &input, &polynomial).unwrap();
    let (steps, cost) = (counting.cost(), slim.cost());
    println!("{} and {} products", steps.tensors, cost.tensors);
    println!("{} and {} key switches", steps.total_key_switches(), cost.total_key_switches());
    assert!(2 * cost.tensors <= steps.tensors);
    assert!(4 * cost.total_key_switches() <= 3 * steps.total_key_switches());
    assert_eq!(slim.levels() + 1, polynomial.depth());
    assert!(slim.prepared_bytes() > 0 && slim.working_bytes() > 0);

    // At most three bits less precise than baby steps and giant steps.
    let inputs = values(256, (low, 1.0));
    let expected: Vec<Complex64> = inputs.iter().map(|x| polynomial.at(*x)).collect();
    let simulator = Simulator::new(&encoder, 1);
    let input = simulator.encrypt(&inputs, slim.input_level(), scale).unwrap();
    let output = slim.apply(&simulator, &input).unwrap();
    let found = ErrorStatistics::between(output.noisy(), &repeated(&expected, parameters.slots())).rms;
    let input = simulator.encrypt(&inputs, OUTPUT_LEVEL + polynomial.depth(), scale).unwrap();
    let output = evaluate(&simulator, &input, &polynomial).unwrap();
    let beside = ErrorStatistics::between(output.noisy(), &repeated(&expected, parameters.slots())).rms;
    println!("rms errors 2^{:.1} and 2^{:.1}", found.log2(), beside.log2());
    assert!(found < 8.0 * beside, "{found} {beside}");
    assert!(simulator.overflows().is_empty());
}

fn repeated(values: &[Complex64], count: usize) -> Vec<Complex64> {
    values.iter().copied().cycle().take(count).collect()
}

#[test]
fn what_does_not_fit_is_refused() {
    let parameters = parameters(REAL);
    let (encoder, scale) = (Encoder::new(&parameters), parameters.scale());
    let tree = |degree: usize, depth: usize| SquareTree::new(&inverse_root(1.0 / 30.0, degree), depth).unwrap();
    let (tree, other) = (tree(16, 2), tree(16, 3));
    let refused = |trees: &[&SquareTree], values: usize, part: &str| {
        let error = SlimEvaluation::new(&parameters, trees, values, OUTPUT_LEVEL, scale).err().unwrap();
        assert!(matches!(error, SlimError::Shape { .. }) && error.to_string().contains(part), "{error}");
    };
    refused(&[], 8, "no trees");
    refused(&[&tree], 6, "power of two");
    refused(&[&tree, &tree, &tree], 8, "multiple of the trees");
    refused(&[&tree, &other], 8, "depth 3");
    refused(&[&tree], parameters.slots(), "smaller depth");
    let silu = Polynomial::chebyshev_approximation(|x| x / (1.0 + (-x).exp()), -8.0, 8.0, 16).unwrap();
    let negative = SquareTree::new(&silu, 2).unwrap();
    refused(&[&tree, &negative], 8, "negative");
    let deep = SlimEvaluation::new(&parameters, &[&tree], 8, 5, scale).err().unwrap();
    assert!(matches!(deep, SlimError::Ckks(CkksError::Level { found: 9, needed: 10, .. })), "{deep}");

    let slim = SlimEvaluation::new(&parameters, &[&tree], 8, OUTPUT_LEVEL, scale).unwrap();
    let simulator = Simulator::new(&encoder, 1).with_keys(Default::default());
    let input = simulator.encrypt(&values(8, (0.25, 1.0)), slim.input_level(), scale).unwrap();
    let missing = slim.apply(&simulator, &input).unwrap_err();
    let SlimError::Ckks(CkksError::Rlwe(RlweError::MissingKeys { missing, .. })) = missing else { panic!("{missing}") };
    assert_eq!(missing.len(), slim.key_plan().len());
    let simulator = Simulator::new(&encoder, 1);
    let low = simulator.drop_to(&input, slim.input_level() - 1).unwrap();
    assert!(matches!(slim.apply(&simulator, &low), Err(SlimError::Ckks(CkksError::Level { .. }))));
    let wrong = simulator.encrypt(&values(8, (0.25, 1.0)), slim.input_level(), scale * 1.5).unwrap();
    assert!(matches!(slim.apply(&simulator, &wrong), Err(SlimError::Ckks(CkksError::Scale { .. }))));
}
