//! Tests of matrix products between the halves of a bootstrap, in a small insecure ring.

use crate::common::Client;
use unspoken_ckks::{
    Arithmetic, Bootstrap, Bootstrapper, CkksError, CoefficientMatrix, Complex64, DimensionPlaces, ErrorStatistics,
    Simulator, SlotValues,
};
use unspoken_rlwe::{SeededSmallRingKeys, SmallRing};

const PRESET: &str = "insecure_n11_boot_depth10_scale50";
const SMALL_DEGREE: usize = 512;
const WEIGHT_BITS: u32 = 12;
const TOKENS: usize = 16;

/// Weights that need no rounding, and whose rows have sums of absolute values of at most 1.
fn weight(output: usize, input: usize) -> f64 {
    (((output * 37 + input * 101 + 5) % 41) as f64 - 20.0) / f64::from(1 << WEIGHT_BITS)
}

fn value(input: usize, part: usize, token: usize) -> f64 {
    ((input * 13 + part * 29 + token * 7 + input * token) as f64).cos()
}

/// The slots of vectors of `dimensions` dimensions each, the parts of a vector next to each other.
fn packed(
    (count, dimensions, parts): (usize, usize, usize),
    value: impl Fn(usize, usize, usize) -> f64,
) -> Vec<Vec<Complex64>> {
    let slot = |vector: usize, slot: usize| {
        let dimension = vector / parts * dimensions + slot / TOKENS;
        let value = if dimension < count { value(dimension, vector % parts, slot % TOKENS) } else { 0.0 };
        Complex64::from(value)
    };
    let vectors = parts * count.div_ceil(dimensions);
    (0..vectors).map(|v| (0..dimensions * TOKENS).map(|j| slot(v, j)).collect()).collect()
}

#[test]
fn matrices_multiply_dimensions_as_the_simulator_predicts() {
    let mut client = Client::new(PRESET, 1);
    let plan = Bootstrap::for_products(client.parameters(), WEIGHT_BITS).unwrap();
    let small = plan.small_ring(SMALL_DEGREE, TOKENS).unwrap();
    let dimensions = small.rows();
    assert_eq!(dimensions, client.parameters().slots() / TOKENS);
    let evaluation = client.keys(&plan.key_plan());
    let seeded = SeededSmallRingKeys::generate(&small, &client.secret, &mut client.rng).unwrap();
    let keys = seeded.expand(&small).unwrap();
    let bootstrapper = Bootstrapper::new(&client.encoder, plan).unwrap();
    let plan = bootstrapper.plan();
    // Each row of the matrix occurs `copies` times in the outputs, `stride` inputs lie between two that are used.
    for ((rows, copies), (columns, stride), parts) in [
        ((dimensions, 1), (dimensions, 1), 2),
        ((70, 1), (100, 1), 1),
        ((2 * dimensions + 5, 1), (20, 1), 1),
        ((10, 3), (20, 3), 2),
    ] {
        let used: Vec<usize> = (0..columns).map(|column| column * stride).collect();
        let outputs: Vec<Option<usize>> = (0..rows * copies).map(|output| Some(output % rows)).collect();
        let places = DimensionPlaces { inputs: &used, outputs: &outputs };
        let matrix = CoefficientMatrix::new(plan, &small, &places, rows, weight).unwrap();
        assert_eq!((matrix.shape(), matrix.tokens()), ((rows, columns), TOKENS));
        let values = packed((used[columns - 1] + 1, dimensions, parts), value);
        let wanted = packed((rows * copies, dimensions, parts), |output, part, token| {
            let terms = used.iter().enumerate();
            terms.map(|(column, input)| value(*input, part, token) * weight(output % rows, column)).sum()
        });

        let simulator = Simulator::new(&client.encoder, 3);
        let scale = client.parameters().scale();
        let simulated = values.iter().map(|values| simulator.encrypt(values, plan.input_level(), scale).unwrap());
        let simulated: Vec<_> = simulated.collect();
        let references = simulated.iter().collect::<Vec<_>>();
        let simulated = plan.simulate_refresh_product(&simulator, &matrix, parts, &references).unwrap();
        assert!(simulator.overflows().is_empty(), "{:?}", simulator.overflows());
        let degree = (small.parameters().ring().degree() + small.row_len()) * small.basis().chain;
        assert_eq!(simulator.cost().matrix_macs, (rows * columns * degree) as u64);

        let encrypted = values.iter().map(|values| client.encrypt(values, plan.input_level()));
        let encrypted: Vec<_> = encrypted.collect();
        let evaluator = client.evaluator(&evaluation);
        let references = encrypted.iter().collect::<Vec<_>>();
        let outputs = bootstrapper.refresh_product(&evaluator, &keys, &matrix, parts, &references).unwrap();
        assert_eq!((outputs.len(), simulated.len()), (wanted.len(), wanted.len()));
        for ((output, simulated), wanted) in outputs.iter().zip(&simulated).zip(&wanted) {
            assert_eq!((output.level(), simulator.level(simulated)), (plan.output_level(), plan.output_level()));
            let found = ErrorStatistics::between(&client.decrypt(output), wanted);
            let predicted = ErrorStatistics::between(simulated.noisy(), wanted);
            assert!(found.rms < 2f64.powi(-23), "{found:?}");
            assert!((found.rms / predicted.rms).log2().abs() < 0.5, "{found:?} {predicted:?}");
        }
    }
}

#[test]
fn plans_for_products_bootstrap_without_one_too() {
    let mut client = Client::new(PRESET, 2);
    let plan = Bootstrap::for_products(client.parameters(), WEIGHT_BITS).unwrap();
    let evaluation = client.keys(&plan.key_plan());
    let bootstrapper = Bootstrapper::new(&client.encoder, plan).unwrap();
    let plan = bootstrapper.plan();
    let real = |z: Vec<Complex64>| -> Vec<Complex64> { z.iter().map(|z| Complex64::from(z.re)).collect() };
    let values: Vec<_> = (0..3).map(|_| real(client.values(1.0))).collect();
    let encrypted: Vec<_> = values.iter().map(|values| client.encrypt(values, plan.input_level())).collect();
    let (evaluator, references) = (client.evaluator(&evaluation), encrypted.iter().collect::<Vec<_>>());
    let outputs = bootstrapper.refresh_many(&evaluator, &references).unwrap();
    for (output, values) in outputs.iter().zip(&values) {
        assert_eq!(output.level(), plan.output_level());
        let found = ErrorStatistics::between(&client.decrypt(output), values);
        assert!(found.rms < 2f64.powi(-20), "{found:?}");
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let client = Client::new(PRESET, 1);
    let parameters = client.parameters();
    assert!(Bootstrap::for_products(parameters, 0).is_err() && Bootstrap::for_products(parameters, 25).is_err());
    let plain = Bootstrap::new(parameters, parameters.slots(), SlotValues::Complex).unwrap();
    let plan = Bootstrap::for_products(parameters, WEIGHT_BITS).unwrap();
    let small = plan.small_ring(SMALL_DEGREE, TOKENS).unwrap();
    let (inputs, outputs) = ((0..100).collect::<Vec<_>>(), (0..8).map(Some).collect::<Vec<_>>());
    let places = DimensionPlaces { inputs: &inputs, outputs: &outputs };
    let error = CoefficientMatrix::new(&plain, &small, &places, 8, |_, _| 0.5).unwrap_err();
    assert!(error.to_string().contains("Bootstrap::for_products"), "{error}");
    for places in [DimensionPlaces { inputs: &[], ..places }, DimensionPlaces { outputs: &[], ..places }] {
        assert!(CoefficientMatrix::new(&plan, &small, &places, 8, |_, _| 0.5).is_err());
    }
    assert!(CoefficientMatrix::new(&plan, &small, &places, 7, |_, _| 0.5).is_err());
    assert!(CoefficientMatrix::new(&plan, &small, &places, 8, |_, _| f64::NAN).is_err());
    let matrix = CoefficientMatrix::new(&plan, &small, &places, 8, |_, _| 0.001).unwrap();
    let simulator = Simulator::new(&client.encoder, 1);
    let encrypt = |scale: f64| simulator.encrypt(&[Complex64::from(0.5)], plan.input_level(), scale).unwrap();
    let [one, other] = [encrypt(parameters.scale()), encrypt(1.2 * parameters.scale())];
    let error = plan.simulate_refresh_product(&simulator, &matrix, 1, &[&one]).unwrap_err();
    assert!(error.to_string().contains("2 vectors, which have the 100 inputs"), "{error}");
    let error = plan.simulate_refresh_product(&simulator, &matrix, 1, &[&one, &other]).unwrap_err();
    assert!(matches!(error, CkksError::Scale { .. }), "{error}");
    // A plan with other bits would give other values.
    let other = Bootstrap::for_products(parameters, WEIGHT_BITS + 1).unwrap();
    assert!(other.simulate_refresh_product(&simulator, &matrix, 1, &[&one, &one]).is_err());
    assert!(plan.simulate_refresh_product(&simulator, &matrix, 3, &[&one; 6]).is_err());
    assert!(SmallRing::new(parameters.rlwe(), SMALL_DEGREE, 2 * TOKENS).is_ok());
}
