//! The simulator against the evaluator: the same levels, scales, refusals and keys, and the noise that was predicted.

mod common;

use common::{Client, REAL, STANDARD};
use unspoken_ckks::{
    Arithmetic, CkksError, CkksParameters, Complex64, CostModel, ErrorStatistics, NoiseModel, PreparedMatrix, Simulator,
};
use unspoken_rlwe::{EvaluationKeys, KeyPlan, RlweError};

/// A circuit with two inputs, for any arithmetic.
#[derive(Clone, Copy, Debug)]
enum Circuit {
    Encrypt,
    Rotate,
    Conjugate,
    Relinearise,
    RelineariseRescale,
    Rescale,
    RescaleProduct,
    Constant,
    Values,
    SumSlots,
    Matrix,
    SquareTower,
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
            Circuit::Rescale => a.rescale(&a.mul_constant(x, Complex64::from(1.0), a.scale(x) * modulus)?),
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
            Circuit::Mixed(seed) => mixed(a, [x, y], seed),
        }
    }
}

/// A random circuit on vectors of the parameters' scale: each step takes one of the vectors, or two of one level.
fn mixed<A: Arithmetic>(a: &A, [x, y]: [&A::Vector; 2], seed: u64) -> Result<A::Vector, CkksError> {
    let mut state = seed;
    let mut draw = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let (mut first, mut second) = (x.clone(), y.clone());
    while a.level(&first) > 0 {
        first = match draw(4) {
            0 => a.add(&first, &a.rotate(&first, 1 + draw(2) as i64)?)?,
            1 => a.rotate(&first, 1 + draw(2) as i64)?,
            2 => a.add_constant(&first, Complex64::from(0.25))?,
            _ => {
                let scale = a.parameters().level_modulus(a.level(&first)) * a.scale(&first);
                let lower = a.rescale(&a.mul_constant(&second, Complex64::from(0.6), scale)?)?;
                let product = a.multiply(&first, &second)?;
                second = a.rotate(&lower, 1)?;
                let aligned = a.mul_constant(&second, Complex64::from(-0.5), a.scale(&product) * 2f64.powi(10))?;
                a.add(&a.mul_constant(&product, Complex64::from(0.5), a.scale(&product) * 2f64.powi(10))?, &aligned)?
            }
        };
        // Back from the finer scale: spend a level, to the scale asked for.
        if a.level(&first) > 0 && a.scale(&first) > a.parameters().scale() * 2f64.powi(5) {
            let scale = a.parameters().scale() * a.parameters().level_modulus(a.level(&first));
            first = a.rescale(&a.mul_constant(&first, Complex64::from(1.0), scale)?)?;
            second = a.rescale(&a.mul_constant(&second, Complex64::from(1.0), scale)?)?;
        }
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
    Circuit::Rescale,
    Circuit::RescaleProduct,
    Circuit::Constant,
    Circuit::Values,
    Circuit::SumSlots,
    Circuit::Matrix,
    Circuit::SquareTower,
];

#[test]
fn probe() {
    for preset in [STANDARD, REAL, "n13_depth3_scale30"] {
        let mut client = Client::new(preset, 7);
        for level in [1, client.parameters().max_level()] {
            for circuit in OPERATIONS {
                let [f, p] = compare(&mut client, circuit, level);
                let l = |x: f64| x.log2();
                println!(
                    "{preset} {level} {circuit:?}: rms {:.2} {:.2} median {:.2} {:.2} worst {:.2} {:.2}",
                    l(f.rms),
                    l(p.rms),
                    l(f.median),
                    l(p.median),
                    l(f.worst),
                    l(p.worst)
                );
            }
        }
        for seed in 0..6 {
            let level = client.parameters().max_level();
            let [f, p] = compare(&mut client, Circuit::Mixed(seed), level);
            let l = |x: f64| x.log2();
            println!(
                "{preset} mixed {seed}: rms {:.2} {:.2} median {:.2} {:.2} worst {:.2} {:.2}",
                l(f.rms),
                l(p.rms),
                l(f.median),
                l(p.median),
                l(f.worst),
                l(p.worst)
            );
        }
    }
    for preset in ["n13_depth3_scale30", "n14_depth8_scale30"] {
        let client = Client::new(preset, 7);
        let m = CostModel::measure(client.parameters()).unwrap();
        println!("{m:?} {:?}", CostModel::nominal(client.parameters()));
    }
}
