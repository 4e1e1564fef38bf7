//! The simulator against the evaluator: equal levels, scales, errors and keys, and noise as predicted.

use crate::common::{Client, REAL, STANDARD};
use unspoken_ckks::{
    Arithmetic, CkksError, Complex64, CostModel, ErrorStatistics, NoiseModel, PreparedMatrix, Simulator,
};
use unspoken_rlwe::{KeyKind, KeyPlan, RlweError, galois};

/// A circuit with two inputs, for any arithmetic.
#[derive(Clone, Copy, Debug)]
enum Circuit {
    Encrypt,
    Rotate,
    Conjugate,
    Relinearise,
    RelineariseRescale,
    RescaleProduct,
    Constant,
    Values,
    SumSlots,
    Matrix,
    SquareTower,
    /// Sums and products of vectors at different levels.
    Levels,
    Mixed(u64),
}

impl Circuit {
    fn run<A: Arithmetic>(self, a: &A, [x, y]: [&A::Vector; 2]) -> Result<A::Vector, CkksError> {
        let parameters = a.parameters();
        let level = a.level(x);
        let modulus = parameters.level_modulus(level);
        match self {
            Circuit::Encrypt => Ok(x.clone()),
            Circuit::Rotate => a.rotate(x, 3),
            Circuit::Conjugate => a.conjugate(x),
            Circuit::Relinearise => a.relinearise(&a.tensor(x, y)?),
            Circuit::RelineariseRescale => a.multiply(x, y),
            Circuit::RescaleProduct => a.relinearise(&a.rescale(&a.tensor(x, y)?)?),
            Circuit::Constant => a.rescale(&a.mul_constant(x, Complex64::from(0.3), a.scale(x) * modulus)?),
            Circuit::Values => {
                let slots = parameters.slots();
                let values: Vec<Complex64> = (0..slots).map(|i| Complex64::from((i as f64 * 0.1).sin())).collect();
                a.add_values(&a.rescale(&a.mul_values(x, &values, modulus)?)?, &values)
            }
            Circuit::SumSlots => a.sum_slots(x, 1, 16),
            Circuit::Matrix => {
                let output = a.scale(x) * modulus;
                let scales = [a.scale(x), a.scale(y)];
                let entry = |r: usize, c: usize| Complex64::from(0.7 * r as f64 - c as f64 - 0.2);
                let matrix = PreparedMatrix::new(parameters, level, &scales, &[output; 2], entry)?;
                let rows = a.matrix(&matrix, &[x, y])?;
                a.rescale(&a.add(&rows[0], &rows[1])?)
            }
            Circuit::SquareTower => (0..level).try_fold(x.clone(), |power, _| a.multiply(&power, &power)),
            Circuit::Levels => {
                let lowered = (1..level).map(|lower| a.drop_to(x, lower)).collect::<Result<Vec<_>, _>>()?;
                let sum = lowered.iter().rev().try_fold(y.clone(), |sum, x| a.add(&sum, x))?;
                let product = a.multiply(&sum, y)?;
                a.rotate(&a.drop_to(&product, 0)?, 1)
            }
            Circuit::Mixed(seed) => mixed(a, [x, y], seed),
        }
    }
}

/// A random circuit down to level 0. Every product is summed before it is rescaled.
fn mixed<A: Arithmetic>(a: &A, [x, y]: [&A::Vector; 2], seed: u64) -> Result<A::Vector, CkksError> {
    let mut state = seed;
    let mut draw = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let (mut first, mut second) = (x.clone(), y.clone());
    while a.level(&first) > 0 {
        first = match draw(5) {
            0 => a.rotate(&first, 1 + draw(2) as i64)?,
            1 => a.add_constant(&first, Complex64::from(0.25))?,
            2 => a.add_values(&first, &[Complex64::from(0.3), Complex64::from(-0.2)])?,
            _ => {
                let product = a.tensor(&first, &second)?;
                let other = a.mul_constant(&second, Complex64::from(-0.3), a.scale(&product))?;
                let modulus = a.parameters().level_modulus(a.level(&second));
                let scale = a.scale(&second);
                second = a.rescale(&a.mul_constant(&second, Complex64::from(0.6), scale * modulus)?)?;
                second = a.sub(&second, &a.rotate(&second, 2)?)?;
                a.relinearise_rescale(&a.add(&product, &other)?)?
            }
        };
    }
    Ok(first)
}

/// Errors of the encrypted run and of the simulation, from the same values.
fn compare(client: &mut Client, circuit: Circuit, level: usize) -> [ErrorStatistics; 2] {
    let inputs = [client.values(0.7), client.values(0.7)];
    let scale = client.parameters().scale();
    let simulator = Simulator::new(&client.encoder, 5);
    let simulated = inputs.clone().map(|values| simulator.encrypt(&values, level, scale).unwrap());
    let predicted = circuit.run(&simulator, [&simulated[0], &simulated[1]]).unwrap();
    assert_eq!(simulator.overflows(), []);

    let keys = client.keys(&simulator.key_plan());
    let encrypted = inputs.map(|values| client.encrypt(&values, level));
    let evaluator = client.evaluator(&keys);
    let found = circuit.run(&evaluator, [&encrypted[0], &encrypted[1]]).unwrap();
    assert_eq!(evaluator.level(&found), simulator.level(&predicted), "{circuit:?}");
    assert_eq!(evaluator.scale(&found), simulator.scale(&predicted), "{circuit:?}");
    [ErrorStatistics::between(&client.decrypt(&found), predicted.exact()), predicted.error()]
}

fn assert_within(what: &str, found: f64, predicted: f64, factor: f64) {
    let ratio = found / predicted;
    let (found, predicted) = (found.log2(), predicted.log2());
    assert!((1.0 / factor..factor).contains(&ratio), "{what}: found 2^{found:.2}, predicted 2^{predicted:.2}");
}

const OPERATIONS: [Circuit; 11] = [
    Circuit::Encrypt,
    Circuit::Rotate,
    Circuit::Relinearise,
    Circuit::RelineariseRescale,
    Circuit::RescaleProduct,
    Circuit::Constant,
    Circuit::Values,
    Circuit::SumSlots,
    Circuit::Matrix,
    Circuit::SquareTower,
    Circuit::Levels,
];

const SMALL_SCALE: &str = "n13_depth3_scale30";

/// Sets whose levels are not nested.
const RATIONAL: [&str; 3] =
    ["insecure_n11_depth12_scale35", "insecure_n11_depth12_scale40", "insecure_n11_depth12_scale45"];

#[test]
fn every_operation_has_the_noise_predicted() {
    for preset in [STANDARD, REAL, SMALL_SCALE].into_iter().chain(RATIONAL) {
        let mut client = Client::new(preset, 7);
        for level in [1, 2, 3, client.parameters().max_level()] {
            for circuit in OPERATIONS {
                let [found, predicted] = compare(&mut client, circuit, level);
                let what = format!("{circuit:?} at level {level} of {preset}");
                assert_within(&what, found.median, predicted.median, 1.25);
                assert_within(&what, found.rms, predicted.rms, 1.5);
            }
        }
    }
    let mut client = Client::new(STANDARD, 8);
    let [found, predicted] = compare(&mut client, Circuit::Conjugate, 5);
    assert_within("conjugate", found.median, predicted.median, 1.25);
}

#[test]
fn random_circuits_have_the_noise_predicted() {
    for preset in [STANDARD, REAL, SMALL_SCALE].into_iter().chain(RATIONAL) {
        let mut client = Client::new(preset, 9);
        let level = client.parameters().max_level();
        for seed in 0..8 {
            let [found, predicted] = compare(&mut client, Circuit::Mixed(seed), level);
            let what = format!("circuit {seed} in {preset}");
            assert_within(&what, found.median, predicted.median, 1.5);
        }
    }
}

#[test]
fn key_switches_have_the_noise_predicted_on_average_over_keys() {
    for (preset, level) in [(STANDARD, 9), (REAL, 9), (SMALL_SCALE, 3), (SMALL_SCALE, 1)] {
        let (mut power, rounds) = (0.0, 12);
        for seed in 0..rounds {
            let [found, _] = compare(&mut Client::new(preset, 20 + seed), Circuit::Rotate, level);
            power += found.rms * found.rms / rounds as f64;
        }
        let client = Client::new(preset, 1);
        let parameters = client.parameters();
        let model = NoiseModel::new(parameters);
        let parts =
            [model.encryption(), model.encoding(), model.rounding(2), model.key_switch(parameters.basis(level))];
        let predicted = parts.iter().map(|x| x * x).sum::<f64>().sqrt() / parameters.scale();
        assert_within(&format!("rotation at level {level} of {preset}"), power.sqrt(), predicted, 1.5);
    }
}

#[test]
fn key_plans_are_exact() {
    let mut client = Client::new(STANDARD, 3);
    let values = client.values(0.5);
    let scale = client.parameters().scale();
    let circuit = |simulator: &Simulator| {
        let x = simulator.encrypt(&values, 6, scale)?;
        let low = simulator.rotate(&simulator.multiply(&x, &x)?, 3)?;
        simulator.rotate_hoisted(&simulator.drop_to(&low, 2)?, &[0, 3, 5])
    };
    let simulator = Simulator::new(&client.encoder, 1);
    circuit(&simulator).unwrap();
    let plan = simulator.key_plan();
    let (ring, chain) = (client.parameters().ring(), |level| client.parameters().chain(level));
    let galois = |steps| KeyKind::Galois { element: galois::rotation(ring, steps) };
    let mut expected = KeyPlan::new();
    expected.require(KeyKind::Relinearisation, chain(6));
    expected.require(galois(3), chain(5));
    expected.require(galois(5), chain(2));
    assert_eq!(plan, expected);

    circuit(&Simulator::new(&client.encoder, 1).with_keys(plan.clone())).unwrap();
    let mut short = KeyPlan::new();
    plan.iter().for_each(|(kind, chain)| short.require(kind, if kind == galois(3) { chain - 1 } else { chain }));
    match circuit(&Simulator::new(&client.encoder, 1).with_keys(short)) {
        Err(CkksError::Rlwe(RlweError::MissingKeys { missing, .. })) => assert_eq!(missing, [(galois(3), chain(5))]),
        other => panic!("{other:?}"),
    }
}

/// Error messages of invalid calls, for any arithmetic.
fn refusals<A: Arithmetic>(a: &A, x: &A::Vector) -> Vec<String> {
    let low = a.drop_to(x, 0).unwrap();
    let product = a.tensor(x, x).unwrap();
    let other = a.mul_constant(x, Complex64::from(1.0), 1.5 * a.scale(x)).unwrap();
    let parameters = a.parameters();
    let one = |r: usize, c: usize| Complex64::from((r + c) as f64);
    let matrix = PreparedMatrix::new(parameters, 1, &[a.scale(x)], &[a.scale(x) * 2f64.powi(40)], one).unwrap();
    let nan = Complex64::from(f64::NAN);
    let results = [
        a.add(x, &other),
        a.sub(&product, x),
        a.tensor(&product, x),
        a.rescale(&low),
        a.relinearise_rescale(&a.tensor(&low, &low).unwrap()),
        a.relinearise(&product),
        a.multiply(x, x),
        a.drop_to(&low, 1),
        a.rotate(x, 1),
        a.rotate(&product, 0),
        a.conjugate(x),
        a.mul_constant(x, nan, a.scale(x)),
        a.mul_constant(x, Complex64::from(1.0), f64::INFINITY),
        a.add_constant(x, nan),
        a.mul_values(x, &[nan], 1e9),
        a.mul_values(x, &[Complex64::from(1.0)], f64::NAN),
        a.mul_values(&low, &[Complex64::from(1e30)], 1e9),
        a.add_values(x, &[nan; 3]),
        a.matrix(&matrix, &[]).map(|mut rows| rows.remove(0)),
        a.matrix(&matrix, &[&low]).map(|mut rows| rows.remove(0)),
        a.matrix(&matrix, &[&other]).map(|mut rows| rows.remove(0)),
        a.sum_slots(x, 1, 3),
    ];
    results.into_iter().map(|result| result.map(drop).unwrap_err().to_string()).collect()
}

#[test]
fn refusals_are_those_of_the_evaluator() {
    for preset in [STANDARD, REAL] {
        let mut client = Client::new(preset, 4);
        let values = client.values(0.5);
        let encrypted = client.encrypt(&values, 4);
        let keys = client.keys(&KeyPlan::new());
        let simulator = Simulator::new(&client.encoder, 1).with_keys(KeyPlan::new());
        let simulated = simulator.encrypt(&values, 4, client.parameters().scale()).unwrap();
        assert_eq!(refusals(&simulator, &simulated), refusals(&client.evaluator(&keys), &encrypted));
    }
}

#[test]
fn simulations_are_reproducible() {
    let mut client = Client::new(REAL, 5);
    let values = client.values(0.5);
    let scale = client.parameters().scale();
    let run = |seed| {
        let simulator = Simulator::new(&client.encoder, seed);
        let x = simulator.encrypt(&values, 4, scale).unwrap();
        let y = simulator.encrypt(&values, 4, scale).unwrap();
        assert_ne!(x.noisy(), y.noisy());
        // The same operation on the same ciphertext makes the same errors: their difference is exactly zero.
        let twice = [&x, &x].map(|x| simulator.rotate(x, 1).unwrap());
        assert_eq!(simulator.sub(&twice[0], &twice[1]).unwrap().error().worst, 0.0);
        Circuit::Mixed(1).run(&simulator, [&x, &y]).unwrap().noisy().to_vec()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn overflows_are_noted_where_they_happen() {
    let client = Client::new(STANDARD, 6);
    let simulator = Simulator::new(&client.encoder, 1);
    let scale = client.parameters().scale();
    let x = simulator.encrypt(&[Complex64::from(3.0)], 1, scale).unwrap();
    let low = simulator.drop_to(&x, 0).unwrap();
    assert_eq!(simulator.overflows(), []);
    let room = client.parameters().log2_modulus(0) - scale.log2();
    simulator.mul_constant(&low, Complex64::from(room.exp2() / 8.0), scale).unwrap();
    assert_eq!(simulator.overflows(), []);
    simulator.mul_constant(&low, Complex64::from(room.exp2() / 5.0), scale).unwrap();
    let overflows = simulator.overflows();
    assert_eq!(overflows.len(), 1);
    assert_eq!((overflows[0].operation, overflows[0].level), ("multiply by a constant", 0));
    assert!(overflows[0].log2_coefficient > overflows[0].log2_modulus);
}

#[test]
fn costs_are_counted() {
    let mut client = Client::new(STANDARD, 6);
    let values = client.values(0.5);
    let simulator = Simulator::new(&client.encoder, 1);
    let parameters = client.parameters();
    let x = simulator.encrypt(&values, 3, parameters.scale()).unwrap();
    let product = simulator.multiply(&x, &x).unwrap();
    let rotated = simulator.rotate(&product, 1).unwrap();
    simulator.rotate(&rotated, 0).unwrap();
    let cost = simulator.cost();
    let (ring, [high, low]) = (parameters.ring(), [parameters.chain(3), parameters.chain(2)]);
    assert_eq!(cost.key_switches, [(high, 1), (low, 1)].into());
    assert_eq!((cost.tensors, cost.rescales, cost.plaintext_products), (1, 1, 0));
    // Transforms per key switch: one inverse transform per prime, forward transforms for each digit outside its own
    // primes, and the transforms of the division.
    let transforms = |chain: usize| {
        let extended = chain + ring.special().len();
        ring.digit_count(chain) * extended + 2 * extended
    };
    assert_eq!(cost.limb_transforms, (transforms(high) + transforms(low)) as u64);
    // Hoisting saves digit decompositions.
    let separate = Simulator::new(&client.encoder, 1);
    let together = Simulator::new(&client.encoder, 1);
    let turned: Vec<_> = (1..6).map(|steps| separate.rotate(&rotated, steps).unwrap()).collect();
    let hoisted = together.rotate_hoisted(&rotated, &[1, 2, 3, 4, 5]).unwrap();
    assert_eq!(hoisted[2].noisy(), turned[2].noisy());
    assert_eq!(together.cost().total_key_switches(), 5);
    let spared = 4 * ring.digit_count(low) * (low + ring.special().len());
    assert_eq!(together.cost().limb_transforms + spared as u64, separate.cost().limb_transforms);
}

#[test]
fn cost_models_are_measured_quickly_and_add_up() {
    let client = Client::new(STANDARD, 6);
    let start = std::time::Instant::now();
    let model = CostModel::measure(client.parameters()).unwrap();
    assert!(start.elapsed().as_secs() < 10, "a second, and room for a busy machine");
    let rates = [
        model.limb_transform,
        model.conversion_mac,
        model.key_mac,
        model.matrix_mac,
        model.run_mac,
        model.elementwise,
        model.encoding,
    ];
    assert!(rates.iter().all(|&seconds| seconds > 0.0 && seconds < 1.0), "{model:?}");
    let simulator = Simulator::new(&client.encoder, 1);
    let x = simulator.encrypt(&[Complex64::from(0.5)], 3, client.parameters().scale()).unwrap();
    simulator.multiply(&x, &x).unwrap();
    let once = model.seconds(&simulator.cost());
    simulator.multiply(&x, &x).unwrap();
    assert!((model.seconds(&simulator.cost()) / once - 2.0).abs() < 1e-9);
}

/// Needs an otherwise idle machine. Run with `--ignored`.
#[test]
#[ignore = "depends on what else the machine does"]
fn seconds_are_predicted_within_a_factor_of_two() {
    for preset in [SMALL_SCALE, "n14_depth8_scale30"] {
        let mut client = Client::new(preset, 7);
        let values = client.values(0.5);
        let level = client.parameters().max_level();
        let simulator = Simulator::new(&client.encoder, 1);
        let x = simulator.encrypt(&values, level, client.parameters().scale()).unwrap();
        Circuit::Mixed(3).run(&simulator, [&x, &x]).unwrap();
        let predicted = CostModel::measure(client.parameters()).unwrap().seconds(&simulator.cost());
        let keys = client.keys(&simulator.key_plan());
        let x = client.encrypt(&values, level);
        let evaluator = client.evaluator(&keys);
        let run = || {
            let start = std::time::Instant::now();
            Circuit::Mixed(3).run(&evaluator, [&x, &x]).unwrap();
            start.elapsed().as_secs_f64()
        };
        let found = (0..10).map(|_| run()).fold(f64::INFINITY, f64::min);
        println!("{preset}: {found:.4} s, predicted {predicted:.4} s");
        assert_within(preset, found, predicted, 2.0);
    }
}
