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
