//! Tests of matrix products between the halves of a bootstrap, in a small insecure ring.

mod common;

use common::Client;
use unspoken_ckks::{
    Arithmetic, Bootstrap, Bootstrapper, CkksError, CoefficientMatrix, Complex64, ErrorStatistics, Simulator,
    SlotValues,
};
use unspoken_rlwe::{SeededSmallRingKeys, SmallRing};

const PRESET: &str = "insecure_n11_boot_depth9_scale50";
const SMALL_DEGREE: usize = 512;
const WEIGHT_BITS: u32 = 12;
const TOKENS: usize = 16;

/// Weights that need no rounding, and whose rows have sums of absolute values of at most 1.
fn weight(output: usize, input: usize) -> f64 {
    (((output * 37 + input * 101 + 5) % 41) as f64 - 20.0) / f64::from(1 << WEIGHT_BITS)
}

fn value(input: usize, token: usize) -> Complex64 {
    Complex64::cis(((input * 13 + token * 7 + input * token) % 97) as f64)
}

/// The slots of vectors of `dimensions` dimensions each.
fn packed(count: usize, dimensions: usize, value: impl Fn(usize, usize) -> Complex64) -> Vec<Vec<Complex64>> {
    let slot = |vector: usize, slot: usize| {
        let dimension = vector * dimensions + slot / TOKENS;
        if dimension < count { value(dimension, slot % TOKENS) } else { Complex64::default() }
    };
    (0..count.div_ceil(dimensions)).map(|v| (0..dimensions * TOKENS).map(|j| slot(v, j)).collect()).collect()
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
    for (outputs, inputs) in [(dimensions, dimensions), (70, 100), (10, 40)] {
        let matrix = CoefficientMatrix::new(plan, &small, (outputs, inputs), weight).unwrap();
        assert_eq!((matrix.shape(), matrix.tokens()), ((outputs, inputs), TOKENS));
        let values = packed(inputs, dimensions, value);
        let product = |output: usize, token: usize| -> Complex64 {
            (0..inputs).map(|input| value(input, token) * weight(output, input)).sum()
        };
        let wanted = packed(outputs, dimensions, product);

        let simulator = Simulator::new(&client.encoder, 3);
        let scale = client.parameters().scale();
        let simulated = values.iter().map(|values| simulator.encrypt(values, plan.input_level(), scale).unwrap());
        let simulated: Vec<_> = simulated.collect();
        let references = simulated.iter().collect::<Vec<_>>();
        let simulated = plan.simulate_refresh_product(&simulator, &matrix, &references).unwrap();
        assert!(simulator.overflows().is_empty(), "{:?}", simulator.overflows());
        assert!(simulator.cost().matrix_macs > 0);

        let encrypted = values.iter().map(|values| client.encrypt(values, plan.input_level()));
        let encrypted: Vec<_> = encrypted.collect();
        let evaluator = client.evaluator(&evaluation);
        let outputs = bootstrapper.refresh_product(&evaluator, &keys, &matrix, &encrypted.iter().collect::<Vec<_>>());
        let outputs = outputs.unwrap();
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
fn what_does_not_fit_is_refused() {
    let client = Client::new(PRESET, 1);
    let parameters = client.parameters();
    assert!(Bootstrap::for_products(parameters, 0).is_err() && Bootstrap::for_products(parameters, 25).is_err());
    let plain = Bootstrap::new(parameters, parameters.slots(), SlotValues::Complex).unwrap();
    let plan = Bootstrap::for_products(parameters, WEIGHT_BITS).unwrap();
    let small = plan.small_ring(SMALL_DEGREE, TOKENS).unwrap();
    let shape = (8, 100);
    let error = CoefficientMatrix::new(&plain, &small, shape, |_, _| 0.5).unwrap_err();
    assert!(error.to_string().contains("Bootstrap::for_products"), "{error}");
    assert!(CoefficientMatrix::new(&plan, &small, (0, 5), |_, _| 0.5).is_err());
    assert!(CoefficientMatrix::new(&plan, &small, shape, |_, _| f64::NAN).is_err());
    let matrix = CoefficientMatrix::new(&plan, &small, shape, |_, _| 0.001).unwrap();
    let simulator = Simulator::new(&client.encoder, 1);
    let encrypt = |scale: f64| simulator.encrypt(&[Complex64::from(0.5)], plan.input_level(), scale).unwrap();
    let [one, other] = [encrypt(parameters.scale()), encrypt(1.2 * parameters.scale())];
    let error = plan.simulate_refresh_product(&simulator, &matrix, &[&one]).unwrap_err();
    assert!(error.to_string().contains("2 vectors, which have the 100 inputs"), "{error}");
    let error = plan.simulate_refresh_product(&simulator, &matrix, &[&one, &other]).unwrap_err();
    assert!(matches!(error, CkksError::Scale { .. }), "{error}");
    // A plan with other bits would give other values.
    let other = Bootstrap::for_products(parameters, WEIGHT_BITS + 1).unwrap();
    assert!(other.simulate_refresh_product(&simulator, &matrix, &[&one, &one]).is_err());
    assert!(SmallRing::new(parameters.rlwe(), SMALL_DEGREE, 2 * TOKENS).is_ok());
}
