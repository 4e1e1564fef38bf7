//! Linear transformations of encrypted vectors against the definition, in both rings.

use std::collections::BTreeMap;

use crate::common::{Client, REAL, STANDARD};
use unspoken_ckks::{Arithmetic, CkksError, Complex64, ErrorStatistics, LinearPlan, LinearTransform, Simulator, Steps};
use unspoken_rlwe::RlweError;

type Diagonals = BTreeMap<usize, Vec<Complex64>>;

fn random(client: &mut Client, indices: impl IntoIterator<Item = usize>) -> Diagonals {
    indices.into_iter().map(|k| (k, client.values(0.7))).collect()
}

fn transformed(diagonals: &Diagonals, input: &[Complex64]) -> Vec<Complex64> {
    let slots = input.len();
    let row = |j: usize| diagonals.iter().map(|(&k, diagonal)| diagonal[j] * input[(j + k) % slots]).sum();
    (0..slots).map(row).collect()
}

fn plan(client: &Client, diagonals: Diagonals, level: usize) -> LinearPlan {
    let scale = client.parameters().scale();
    LinearPlan::new(client.parameters(), diagonals, level, scale, scale).unwrap()
}

/// Applies a transformation in three ways (hoisted, by plain rotations, simulated) from one level above the plan's.
/// Checks values, keys, level and scale.
fn check(client: &mut Client, diagonals: Diagonals, level: usize, bits: i32) {
    let input = client.values(0.7);
    let expected = transformed(&diagonals, &input);
    let scale = client.parameters().scale();
    let plan = plan(client, diagonals, level);

    let simulator = Simulator::new(&client.encoder, 2);
    let simulated = plan.evaluate(&simulator, &simulator.encrypt(&input, level + 1, scale).unwrap()).unwrap();
    assert!(ErrorStatistics::between(simulated.exact(), &expected).worst < 1e-9);
    assert_eq!(simulator.key_plan(), plan.key_plan(), "the plan names exactly the keys used");

    let keys = client.keys(&plan.key_plan());
    let encrypted = client.encrypt(&input, level + 1);
    let evaluator = client.evaluator(&keys);
    let plain = plan.evaluate(&evaluator, &encrypted).unwrap();
    let transform = LinearTransform::new(&client.encoder, plan).unwrap();
    let hoisted = transform.apply(&evaluator, &encrypted).unwrap();
    assert_eq!((hoisted.level(), hoisted.scale()), (level - 1, scale));
    assert_eq!(plain.level(), level - 1);
    let plain = ErrorStatistics::between(&client.decrypt(&plain), &expected);
    let hoisted = ErrorStatistics::between(&client.decrypt(&hoisted), &expected);
    assert!(hoisted.worst < 2f64.powi(-bits), "error 2^{:.1}", hoisted.worst.log2());
    // The hoisted form has fewer divisions, so its noise is at most slightly larger.
    assert!(
        hoisted.median < 1.1 * plain.median,
        "2^{:.1} hoisted, 2^{:.1} plain",
        hoisted.median.log2(),
        plain.median.log2()
    );
}

#[test]
fn few_and_many_diagonals() {
    for preset in [STANDARD, REAL] {
        let mut client = Client::new(preset, 1);
        let slots = client.parameters().slots();
        for indices in [
            vec![0, 1, 2],
            vec![0, 1, slots - 1],
            vec![3, 500, 501, 900],
            (0..40).collect(),
            (0..slots).step_by(16).collect(),
        ] {
            let diagonals = random(&mut client, indices);
            check(&mut client, diagonals, 4, 28);
        }
        let diagonals = random(&mut client, [0, 7, 9, 100]);
        check(&mut client, diagonals, 1, 28);
    }
}

#[test]
fn the_identity_and_a_single_diagonal() {
    for preset in [STANDARD, REAL] {
        let mut client = Client::new(preset, 2);
        let slots = client.parameters().slots();
        let ones = vec![Complex64::from(1.0); slots];
        let identity = BTreeMap::from([(0, ones)]);
        assert_eq!(plan(&client, identity.clone(), 3).key_plan().len(), 0);
        check(&mut client, identity, 3, 36);
        let single = random(&mut client, [slots - 3]);
        assert_eq!(plan(&client, single.clone(), 3).key_plan().len(), 1);
        check(&mut client, single, 3, 32);
    }
}

#[test]
fn diagonals_that_repeat_take_less_memory() {
    for preset in [STANDARD, REAL] {
        let mut client = Client::new(preset, 9);
        let slots = client.parameters().slots();
        let whole = random(&mut client, 0..6);
        let full = plan(&client, whole.clone(), 3).prepared_bytes();
        for period in [1, 4, slots / 32, slots / 16, slots / 8, slots / 2] {
            let repeated = |(k, d): (&usize, &Vec<Complex64>)| (*k, d[..period].repeat(slots / period));
            let diagonals: Diagonals = whole.iter().map(repeated).collect();
            let bytes = plan(&client, diagonals.clone(), 3).prepared_bytes();
            assert!(bytes < full, "{preset} {period}: {bytes} of {full}");
            assert!(period > slots / 16 || 8 * bytes < full, "{preset} {period}: {bytes} of {full}");
            check(&mut client, diagonals, 3, 20);
        }
    }
}

#[test]
fn plans_are_cheap_and_say_their_keys() {
    let mut client = Client::new(STANDARD, 3);
    let slots = client.parameters().slots();
    let diagonals = random(&mut client, 0..slots);
    let dense = plan(&client, diagonals, 5);
    let babies = dense.steps().babies;
    assert_eq!(dense.cost().plaintext_products, slots as u64);
    assert_eq!(dense.cost().total_key_switches(), (babies - 1 + slots / babies - 1) as u64);
    assert!(dense.cost().total_key_switches() < 110);
    assert_eq!(dense.key_plan().len(), babies, "one key for each baby step, one for all giant steps");
    let fewer = dense.clone().with_steps(Steps::of_babies(8)).unwrap();
    assert_eq!(fewer.key_plan().len(), 8);
    assert!(
        dense.clone().with_steps(Steps::of_babies(0)).is_err()
            && dense.with_steps(Steps::of_babies(2 * slots)).is_err()
    );
    let neighbours = random(&mut client, [0, 1, slots - 1]);
    assert_eq!(plan(&client, neighbours, 5).rotations(), [1, slots - 1]);
}

#[test]
fn the_plan_absorbs_a_change_of_scale() {
    let mut client = Client::new(STANDARD, 4);
    let diagonals = random(&mut client, 0..5);
    let input = client.values(0.7);
    let expected = transformed(&diagonals, &input);
    let (scale, output) = (client.parameters().scale(), client.parameters().scale() * 1.7);
    let plan = LinearPlan::new(client.parameters(), diagonals, 3, scale, output).unwrap();
    let keys = client.keys(&plan.key_plan());
    let encrypted = client.encrypt(&input, 3);
    let transform = LinearTransform::new(&client.encoder, plan).unwrap();
    let found = transform.apply(&client.evaluator(&keys), &encrypted).unwrap();
    assert_eq!(found.scale(), output);
    assert!(ErrorStatistics::between(&client.decrypt(&found), &expected).worst < 2f64.powi(-30));
}

#[test]
fn mistakes_are_errors_that_name_what_is_missing() {
    let mut client = Client::new(STANDARD, 5);
    let slots = client.parameters().slots();
    let diagonals = random(&mut client, [0, 1, 2, 3, 64, 65, 66]);
    let transform = plan(&client, diagonals, 3);
    let needed = transform.key_plan();
    let transform = LinearTransform::new(&client.encoder, transform).unwrap();
    let keys = client.keys(&Default::default());
    let values = client.values(0.7);
    let (input, low) = (client.encrypt(&values, 3), client.encrypt(&values, 2));
    let evaluator = client.evaluator(&keys);
    match transform.apply(&evaluator, &input) {
        Err(CkksError::Rlwe(RlweError::MissingKeys { missing, .. })) => {
            assert_eq!(missing, needed.iter().collect::<Vec<_>>())
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(transform.apply(&evaluator, &low), Err(CkksError::Level { found: 2, needed: 3, .. })));
    let rescaled = evaluator.mul_constant(&input, Complex64::from(1.0), 1.5 * input.scale()).unwrap();
    assert!(matches!(transform.apply(&evaluator, &rescaled), Err(CkksError::Scale { .. })));

    let scale = client.parameters().scale();
    let refused = |diagonals, level| LinearPlan::new(client.parameters(), diagonals, level, scale, scale).is_err();
    let diagonal = vec![Complex64::from(1.0); slots];
    assert!(refused(BTreeMap::new(), 3));
    assert!(refused(BTreeMap::from([(slots, diagonal.clone())]), 3));
    assert!(refused(BTreeMap::from([(0, diagonal[1..].to_vec())]), 3));
    assert!(refused(BTreeMap::from([(0, diagonal.clone())]), 0));
    assert!(refused(BTreeMap::from([(0, diagonal.clone())]), 99));
    let diagonals = BTreeMap::from([(0, diagonal)]);
    assert!(LinearPlan::new(client.parameters(), diagonals, 3, scale, f64::NAN).is_err());
}

/// Blocks of a matrix of three vectors to three: the numbers of diagonals of the block for each result and each input.
/// The last result needs one input, and the second giant step of another is not there.
fn blocks(slots: usize) -> Vec<Vec<(usize, Vec<usize>)>> {
    vec![
        vec![(0, vec![0, 1, 2, 9]), (1, vec![slots - 3, slots - 1, 17])],
        vec![(2, vec![4, 5]), (0, vec![3]), (1, vec![0])],
        vec![(1, vec![slots - 2])],
    ]
}

#[test]
fn sums_share_the_steps_of_inputs_and_results() {
    for preset in [STANDARD, REAL] {
        for period in [0, 16] {
            let mut client = Client::new(preset, 11);
            let (slots, scale, level) = (client.parameters().slots(), client.parameters().scale(), 4);
            let steps = Steps { difference: 1, first: -4, babies: 4 };
            let inputs: Vec<Vec<Complex64>> = (0..3).map(|_| client.values(0.7)).collect();
            let rows: Vec<Vec<(usize, Diagonals)>> = blocks(slots)
                .into_iter()
                .map(|row| row.into_iter().map(|(input, indices)| (input, random(&mut client, indices))).collect())
                .collect();
            let repeated = |d: &Diagonals| {
                let repeat = |(k, d): (&usize, &Vec<Complex64>)| (*k, d[..period].repeat(slots / period));
                if period == 0 { d.clone() } else { d.iter().map(repeat).collect() }
            };
            let rows: Vec<Vec<(usize, Diagonals)>> =
                rows.iter().map(|row| row.iter().map(|(input, d)| (*input, repeated(d))).collect()).collect();
            let expected = rows.iter().map(|row| {
                let zero = vec![Complex64::default(); slots];
                row.iter().fold(zero, |sum, (input, diagonals)| {
                    sum.iter().zip(transformed(diagonals, &inputs[*input])).map(|(a, b)| a + b).collect()
                })
            });
            let expected: Vec<Vec<Complex64>> = expected.collect();
            for streamed in [false, true] {
                let transform = |diagonals: &Diagonals| {
                    let plan = LinearPlan::of_steps(client.parameters(), diagonals.clone(), steps, level, scale, scale);
                    let plan = plan.unwrap().with_period(if period == 0 { slots } else { period });
                    LinearTransform::deferred(if streamed { plan.streamed() } else { plan })
                };
                let transforms: Vec<Vec<(usize, LinearTransform)>> =
                    rows.iter().map(|row| row.iter().map(|(i, d)| (*i, transform(d))).collect()).collect();
                let sums: Vec<Vec<(usize, &LinearTransform)>> =
                    transforms.iter().map(|row| row.iter().map(|(i, t)| (*i, t)).collect()).collect();
                let (simulator, counting) = (Simulator::new(&client.encoder, 2), Simulator::counting(&client.encoder));
                let simulate = |simulator: &Simulator| {
                    let inputs: Vec<_> =
                        inputs.iter().map(|input| simulator.encrypt(input, level + 1, scale).unwrap()).collect();
                    simulator.linear_sums(&sums, &inputs.iter().collect::<Vec<_>>()).unwrap()
                };
                for (found, expected) in simulate(&simulator).iter().zip(&expected) {
                    assert!(ErrorStatistics::between(found.exact(), expected).worst < 1e-9);
                }
                simulate(&counting);
                assert_eq!(simulator.key_plan(), counting.key_plan());
                assert_eq!(simulator.cost(), counting.cost());
                assert_eq!(counting.cost().encoded > 0, streamed);

                let keys = client.keys(&simulator.key_plan());
                let encrypted: Vec<_> = inputs.iter().map(|input| client.encrypt(input, level + 1)).collect();
                let encrypted: Vec<_> = encrypted.iter().collect();
                let evaluator = client.evaluator(&keys);
                let found = evaluator.linear_sums(&sums, &encrypted).unwrap();
                for (found, expected) in found.iter().zip(&expected) {
                    assert_eq!((found.level(), found.scale()), (level - 1, scale));
                    let error = ErrorStatistics::between(&client.decrypt(found), expected).worst;
                    assert!(error < 2f64.powi(-20), "{preset} {streamed}: error 2^{:.1}", error.log2());
                }
                assert!(evaluator.linear_sums(&sums, &encrypted[..2]).is_err(), "an input is missing");
                assert!(evaluator.linear_sums(&[], &encrypted).is_err());
                assert!(evaluator.linear_sums(&[sums[0].clone(), Vec::new()], &encrypted).is_err());
            }
        }
    }
}

#[test]
fn sums_of_many_results_are_computed_in_groups() {
    let mut client = Client::new(STANDARD, 12);
    let (slots, scale, level) = (client.parameters().slots(), client.parameters().scale(), 2);
    let steps = Steps::of_babies(1);
    let input = client.values(0.7);
    let rows: Vec<Diagonals> = (0..9).map(|row| random(&mut client, (0..20).map(|k| (7 * row + k) % slots))).collect();
    let transforms: Vec<LinearTransform> = rows
        .iter()
        .map(|diagonals| {
            let plan = LinearPlan::of_steps(client.parameters(), diagonals.clone(), steps, level, scale, scale);
            LinearTransform::deferred(plan.unwrap())
        })
        .collect();
    let sums: Vec<Vec<(usize, &LinearTransform)>> = transforms.iter().map(|transform| vec![(0, transform)]).collect();
    let counting = Simulator::counting(&client.encoder);
    let simulated = counting.encrypt(&[], level, scale).unwrap();
    counting.linear_sums(&sums, &[&simulated]).unwrap();
    let keys = client.keys(&counting.key_plan());
    let encrypted = client.encrypt(&input, level);
    let found = client.evaluator(&keys).linear_sums(&sums, &[&encrypted]).unwrap();
    for (found, diagonals) in found.iter().zip(&rows) {
        let error = ErrorStatistics::between(&client.decrypt(found), &transformed(diagonals, &input)).worst;
        assert!(error < 2f64.powi(-20), "error 2^{:.1}", error.log2());
    }
    let other = LinearPlan::of_steps(client.parameters(), rows[0].clone(), Steps::of_babies(2), level, scale, scale);
    let other = LinearTransform::deferred(other.unwrap());
    let mixed = client.evaluator(&keys).linear_sums(&[vec![(0, &transforms[0]), (0, &other)]], &[&encrypted]);
    assert!(matches!(mixed, Err(CkksError::Shape { .. })), "steps differ");
}
