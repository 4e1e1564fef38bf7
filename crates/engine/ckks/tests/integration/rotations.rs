//! Sums of rotations, fused rescales, prepared vectors and steps: encrypted runs against the definition and the
//! simulator.

use std::collections::BTreeMap;

use crate::common::{Client, REAL, STANDARD};
use unspoken_ckks::{
    Arithmetic, CkksError, Complex64, Cost, ErrorStatistics, InnerSum, LinearPlan, LinearTransform, PreparedVector,
    Simulator, Steps,
};
use unspoken_rlwe::{EvaluationKeys, RlweError};

const LEVEL: usize = 5;

/// A circuit of these operations. The encrypted run, the simulation and the definition must agree for each of them.
fn circuit<A: Arithmetic>(a: &A, x: &A::Vector, mask: &PreparedVector) -> Result<Vec<A::Vector>, CkksError> {
    let doubled = a.sum_rotations(x, &[0, 1, -2, 500])?;
    let masked = a.mul_prepared(&doubled, mask)?;
    let both = a.sum_products(&[(x, mask), (&doubled, mask)])?;
    Ok(vec![
        a.sum_rotations_rescale(&masked, &[3, -7])?,
        a.rotate_rescale(&both, 9)?,
        doubled,
        a.sum_rotations_rescale(&masked, &[0])?,
    ])
}

fn expected(x: &[Complex64], mask: &[Complex64]) -> Vec<Vec<Complex64>> {
    let at = |v: &[Complex64], j: i64| v[j.rem_euclid(v.len() as i64) as usize];
    let of = |f: &dyn Fn(i64) -> Complex64| (0..x.len() as i64).map(f).collect::<Vec<_>>();
    let doubled = of(&|j| at(x, j) + at(x, j + 1) + at(x, j - 2) + at(x, j + 500));
    let masked = of(&|j| at(&doubled, j) * at(mask, j));
    let both = of(&|j| at(mask, j) * (at(x, j) + at(&doubled, j)));
    let summed = of(&|j| at(&masked, j + 3) + at(&masked, j - 7));
    vec![summed, of(&|j| at(&both, j + 9)), doubled.clone(), masked]
}

#[test]
fn sums_of_rotations_and_products() {
    for preset in [STANDARD, REAL] {
        let mut client = Client::new(preset, 7);
        let (x, mask) = (client.values(0.5), client.values(0.5));
        let expected = expected(&x, &mask);
        let parameters = client.parameters().clone();
        let mask = PreparedVector::new(mask, LEVEL, parameters.level_modulus(LEVEL)).unwrap();

        let simulator = Simulator::new(&client.encoder, 3);
        let input = simulator.encrypt(&x, LEVEL + 1, parameters.scale()).unwrap();
        let simulated = circuit(&simulator, &simulator.drop_to(&input, LEVEL).unwrap(), &mask).unwrap();
        let keys = client.keys(&simulator.key_plan());
        let input = client.encrypt(&x, LEVEL);
        let evaluator = client.evaluator(&keys);
        let found = circuit(&evaluator, &input, &mask).unwrap();
        for (((found, simulated), expected), drop) in found.iter().zip(&simulated).zip(&expected).zip([1, 1, 0, 1]) {
            assert!(ErrorStatistics::between(simulated.exact(), expected).worst < 1e-12);
            assert_eq!((found.level(), simulator.level(simulated)), (LEVEL - drop, LEVEL - drop));
            assert_eq!(found.scale(), simulator.scale(simulated));
            let measured = ErrorStatistics::between(&client.decrypt(found), expected);
            let predicted = simulated.error();
            assert!(measured.worst < 2f64.powi(-30), "error 2^{:.1}", measured.worst.log2());
            let ratio = measured.median / predicted.median;
            assert!((0.6..1.7).contains(&ratio), "measured {measured:?}, predicted {predicted:?}");
        }
        // The keys belong to the rotations 1, -2, 500, 3, -7 and 9.
        assert_eq!(simulator.key_plan().len(), 6);
    }
}

#[test]
fn one_division_costs_less_noise_and_work_than_many() {
    let client = Client::new(STANDARD, 1);
    let x = vec![Complex64::from(0.5); client.parameters().slots()];
    let run = |together: bool| {
        let simulator = Simulator::new(&client.encoder, 3);
        let x = simulator.encrypt(&x, LEVEL, client.parameters().scale()).unwrap();
        if together {
            simulator.sum_rotations(&x, &[1, 2, 3]).unwrap();
        } else {
            simulator.rotate_hoisted(&x, &[1, 2, 3]).unwrap();
        }
        simulator.cost()
    };
    assert!(run(true).limb_transforms < run(false).limb_transforms);
    assert_eq!(run(true).total_key_switches(), 3);
}

#[test]
fn inner_sums_are_hoisted_and_offer_their_keys() {
    for preset in [STANDARD, REAL] {
        let mut client = Client::new(preset, 3);
        let (parameters, slots) = (client.parameters().clone(), client.parameters().slots());
        let values = client.values(0.2);
        let (stride, count) = (8, 32);
        let sum = InnerSum::new(stride, count).unwrap();
        let plan = sum.key_plan(&parameters, LEVEL);
        // Two stages of four and one of two.
        assert_eq!(plan.len(), 3 + 3 + 1);
        let simulator = Simulator::new(&client.encoder, 3).with_keys(plan.clone());
        let input = simulator.encrypt(&values, LEVEL, parameters.scale()).unwrap();
        simulator.sum_slots(&input, stride as usize, count).unwrap();
        assert_eq!(simulator.key_plan(), plan);
        let doubled = Simulator::new(&client.encoder, 3);
        let input = doubled.encrypt(&values, LEVEL, parameters.scale()).unwrap();
        InnerSum::with_radix(stride, count, 0, 2).unwrap().apply(&doubled, &input).unwrap();
        assert!(simulator.cost().limb_transforms * 5 <= doubled.cost().limb_transforms * 3);

        let keys = client.keys(&plan);
        let encrypted = client.encrypt(&values, LEVEL);
        let found = client.decrypt(&sum.apply(&client.evaluator(&keys), &encrypted).unwrap());
        let row = |j: usize| (0..count).map(|e| values[(j + e * stride as usize) % slots]).sum();
        let expected: Vec<Complex64> = (0..slots).map(row).collect();
        assert!(ErrorStatistics::between(&found, &expected).worst < 2f64.powi(-28));
    }
}

#[test]
fn rotations_from_shared_digits_have_one_price() {
    let client = Client::new(STANDARD, 1);
    let parameters = client.parameters();
    let (ring, basis, scale) = (parameters.ring(), parameters.basis(LEVEL), parameters.scale());
    let diagonals: BTreeMap<_, _> = (0..12).map(|k| (k, vec![Complex64::from(0.5)])).collect();
    let plan = LinearPlan::new(parameters, diagonals, LEVEL, scale, scale).unwrap();
    let cost = |babies| plan.clone().with_steps(Steps::of_babies(babies)).unwrap().cost();
    let (eleven, fewer) = (cost(12), cost(6));
    assert_eq!(eleven.hoisted_rotations, [(basis.chain, 11)].into());
    assert_eq!(fewer.total_key_switches(), 6);
    assert_eq!(fewer.hoisted_rotations, [(basis.chain, 5)].into());
    let mut expected = Cost::decomposition(ring, basis);
    expected += Cost::hoisted_rotation(ring, basis).times(11);
    expected += Cost::rescale(ring, ring.switching_basis(basis), parameters.basis(LEVEL - 1), 2);
    assert_eq!((eleven.limb_transforms, eleven.conversion_macs), (expected.limb_transforms, expected.conversion_macs));
    assert_eq!(eleven.key_macs, expected.key_macs);
    let twice = Cost::hoisted_rotations(ring, basis, 2).key_macs;
    let once = Cost::hoisted_rotations(ring, basis, 1).key_macs;
    assert_eq!(twice - once, Cost::hoisted_rotation(ring, basis).key_macs);
}

#[test]
fn refusals_name_what_is_missing() {
    let mut client = Client::new(STANDARD, 1);
    let x = client.values(0.5);
    let input = client.encrypt(&x, 2);
    let keys = client.keys(&Default::default());
    let evaluator = client.evaluator(&keys);
    match evaluator.sum_rotations(&input, &[0, 5, 6]) {
        Err(CkksError::Rlwe(RlweError::MissingKeys { missing, .. })) => assert_eq!(missing.len(), 2),
        other => panic!("{:?}", other.map(|_| ())),
    }
    assert!(matches!(evaluator.sum_rotations(&input, &[]), Err(CkksError::Shape { .. })));
    let low = evaluator.drop_to(&input, 0).unwrap();
    assert!(matches!(evaluator.rotate_rescale(&low, 0), Err(CkksError::Level { .. })));
    let mask = PreparedVector::new(vec![Complex64::from(1.0)], 2, 2f64.powi(40)).unwrap();
    assert!(matches!(evaluator.mul_prepared(&low, &mask), Err(CkksError::Level { found: 0, needed: 2, .. })));
    let other = PreparedVector::new(vec![Complex64::from(1.0)], 1, 2f64.powi(40)).unwrap();
    assert!(matches!(evaluator.sum_products(&[(&input, &mask), (&input, &other)]), Err(CkksError::Level { .. })));
    assert!(evaluator.sum_products(&[]).is_err() && PreparedVector::new(vec![], 1, 1.0).is_err());
}

#[test]
fn diagonals_in_any_progression() {
    for preset in [STANDARD, REAL] {
        let mut client = Client::new(preset, 2);
        let (parameters, slots) = (client.parameters().clone(), client.parameters().slots() as i64);
        // Odd, even and large differences; diagonals on both sides of zero; a last giant step with fewer diagonals.
        for (difference, terms, first, babies) in
            [(31, -7..8, -7, 4), (4, -3..4, -3, 7), (96, 0..9, 0, 2), (5, -6..0, -6, 3), (1, 0..10, -2, 5)]
        {
            let index = |i: i64| (difference * i).rem_euclid(slots) as usize;
            let diagonals: BTreeMap<_, _> = terms.map(|i| (index(i), client.values(0.4))).collect();
            let input = client.values(0.5);
            let row = |j: usize| diagonals.iter().map(|(&k, d)| d[j] * input[(j + k) % slots as usize]).sum();
            let expected: Vec<Complex64> = (0..slots as usize).map(row).collect();
            let scale = parameters.scale();
            let steps = Steps { difference: difference as usize, first, babies };
            let plan = LinearPlan::new(&parameters, diagonals, LEVEL, scale, scale).unwrap().with_steps(steps).unwrap();
            assert!(plan.key_plan().len() <= babies + 1);
            let simulator = Simulator::new(&client.encoder, 1);
            let transform = LinearTransform::deferred(plan);
            let simulated = simulator.encrypt(&input, LEVEL, scale).unwrap();
            let simulated = simulator.linear(&transform, &simulated).unwrap();
            assert!(ErrorStatistics::between(simulated.exact(), &expected).worst < 1e-12);
            assert_eq!(simulator.key_plan(), transform.plan().key_plan());
            assert_eq!(simulator.cost(), transform.plan().cost());
            let keys = client.keys(&transform.plan().key_plan());
            let encrypted = client.encrypt(&input, LEVEL);
            let found = client.evaluator(&keys).linear(&transform, &encrypted).unwrap();
            assert!(ErrorStatistics::between(&client.decrypt(&found), &expected).worst < 2f64.powi(-28));
        }
    }
}

#[test]
fn steps_that_do_not_fit_are_refused_and_short_diagonals_repeat() {
    let mut client = Client::new(STANDARD, 2);
    let parameters = client.parameters().clone();
    let plan = |diagonal: Vec<Complex64>| {
        LinearPlan::new(&parameters, BTreeMap::from([(6, diagonal)]), LEVEL, parameters.scale(), parameters.scale())
    };
    let ones = plan(vec![Complex64::from(1.0)]).unwrap();
    assert!(ones.clone().with_steps(Steps { difference: 4, first: 0, babies: 2 }).is_err());
    assert!(ones.clone().with_steps(Steps { difference: 0, first: 0, babies: 2 }).is_err());
    assert!(plan(vec![Complex64::from(1.0); 3]).is_err() && plan(vec![]).is_err());
    let short = [1.0, 0.0, 0.5, 0.25].map(Complex64::from).to_vec();
    let transform = LinearTransform::deferred(plan(short.clone()).unwrap());
    let x = client.values(0.5);
    let keys = client.keys(&transform.plan().key_plan());
    let encrypted = client.encrypt(&x, LEVEL);
    let found = client.decrypt(&client.evaluator(&keys).linear(&transform, &encrypted).unwrap());
    for (j, z) in found.iter().enumerate() {
        assert!((z - short[j % 4] * x[(j + 6) % x.len()]).norm() < 2f64.powi(-30));
    }
}

#[test]
fn products_of_rotations_divide_each_sum_once() {
    for preset in [STANDARD, REAL] {
        let mut client = Client::new(preset, 5);
        let (level, scale) = (5, client.parameters().scale());
        let modulus = client.parameters().level_modulus(level);
        let input = client.values(0.7);
        let factors: Vec<PreparedVector> =
            (0..3).map(|_| PreparedVector::new(client.values(0.7), level, modulus).unwrap()).collect();
        let steps = [0, 3, -2];
        let rows =
            [vec![(0, &factors[0]), (2, &factors[1])], vec![(1, &factors[2]), (1, &factors[0]), (0, &factors[2])]];
        let slots = input.len();
        let expected = |row: &[(usize, &PreparedVector)]| -> Vec<Complex64> {
            let at = |j: usize, i: usize| input[(j as i64 + steps[i]).rem_euclid(slots as i64) as usize];
            (0..slots).map(|j| row.iter().map(|&(i, f)| f.values()[j] * at(j, i)).sum()).collect()
        };

        let simulator = Simulator::new(&client.encoder, 3);
        let counter = Simulator::counting(&client.encoder);
        let simulated = simulator.encrypt(&input, level + 1, scale).unwrap();
        let simulated = simulator.rotation_products(&simulated, &steps, &rows).unwrap();
        let counted = counter.encrypt(&input, level + 1, scale).unwrap();
        let counted = counter.rotation_products(&counted, &steps, &rows).unwrap();
        assert_eq!((counter.key_plan(), counter.cost()), (simulator.key_plan(), simulator.cost()));
        assert_eq!((counter.level(&counted[1]), counter.scale(&counted[1])), (level - 1, scale));

        let keys = client.keys(&simulator.key_plan());
        let (encrypted, low) = (client.encrypt(&input, level + 1), client.encrypt(&input, level - 1));
        let evaluator = client.evaluator(&keys);
        let results = evaluator.rotation_products(&encrypted, &steps, &rows).unwrap();
        assert_eq!(results.len(), 2);
        for ((result, simulated), row) in results.iter().zip(&simulated).zip(&rows) {
            assert_eq!((result.level(), result.scale()), (level - 1, scale));
            let error = ErrorStatistics::between(&client.decrypt(result), &expected(row));
            assert!(error.worst < 2f64.powi(-28), "2^{:.1}", error.worst.log2());
            assert!(ErrorStatistics::between(simulated.exact(), &expected(row)).worst < 1e-9);
        }
        let none = EvaluationKeys::new();
        let error = client.evaluator(&none).rotation_products(&encrypted, &steps, &rows).unwrap_err();
        assert!(matches!(error, CkksError::Rlwe(RlweError::MissingKeys { missing, .. }) if missing.len() == 2));
        assert!(
            evaluator.rotation_products(&encrypted, &steps[..1], &rows).is_err(),
            "a row names a step that is missing"
        );
        assert!(evaluator.rotation_products(&encrypted, &steps, &[]).is_err());
        assert!(evaluator.rotation_products(&low, &steps, &rows).is_err());
    }
}
