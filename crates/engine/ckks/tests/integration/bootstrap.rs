//! Bootstraps in a small insecure ring: encrypted runs against simulated runs and values in the clear.

use std::f64::consts::PI;

use crate::common::Client;
use unspoken_ckks::{
    Arithmetic, Bootstrap, Bootstrapper, CkksError, Complex64, ErrorStatistics, Simulator, SlotValues,
};
use unspoken_rlwe::{CompactQuery, CompactQueryParameters, CompactQuerySecret, EvaluationKeys, KeyPlan, RlweError};

const PRESET: &str = "insecure_n11_boot_depth10_scale50";

/// `log2` of the largest allowed error of a slot after a bootstrap in this ring.
const WORST: f64 = -20.0;

fn plan(client: &Client, slots: usize, values: SlotValues) -> Bootstrap {
    Bootstrap::new(client.parameters(), slots, values).unwrap()
}

fn check(found: &[Complex64], expected: &[Complex64]) -> ErrorStatistics {
    let error = ErrorStatistics::between(found, expected);
    println!("rms 2^{:.1}, worst 2^{:.1}", error.rms.log2(), error.worst.log2());
    assert!(error.worst.log2() < WORST, "worst 2^{:.1}", error.worst.log2());
    error
}

#[test]
fn slots_come_back_with_the_noise_that_was_simulated() {
    let mut client = Client::new(PRESET, 1);
    let plan = plan(&client, client.parameters().slots(), SlotValues::Complex);
    assert_eq!((plan.input_level(), plan.output_level(), plan.depth()), (3, 13, 10));
    assert!(plan.log2_failure() < -40.0);
    let input = client.values(0.7);
    let simulator = Simulator::new(&client.encoder, 5).with_keys(plan.key_plan());
    let simulated = simulator.encrypt(&input, plan.input_level() + 1, client.parameters().scale()).unwrap();
    let simulated = plan.simulate_refresh(&simulator, &simulated).unwrap();
    let expected = check(simulated.noisy(), &input);
    assert_eq!(simulator.key_plan(), plan.key_plan());
    assert!(simulator.cost().hoisted_rotations.values().sum::<u64>() > 20, "the maps use hoisted rotations");
    assert_eq!(simulator.overflows(), []);

    let keys = client.keys(&plan.key_plan());
    assert_eq!(keys.bytes(), plan.key_plan().memory_bytes(client.parameters().ring()));
    let encrypted = client.encrypt(&input, plan.input_level() + 1);
    let bootstrapper = Bootstrapper::new(&client.encoder, plan).unwrap();
    let evaluator = client.evaluator(&keys);
    let output = bootstrapper.refresh(&evaluator, &encrypted).unwrap();
    assert_eq!(output.level(), bootstrapper.plan().output_level());
    assert_eq!(output.scale(), encrypted.scale());
    let found = check(&client.decrypt(&output), &input);
    let ratio = found.rms / expected.rms;
    assert!((0.5..2.0).contains(&ratio), "{ratio} times the simulated error");
    // After ten products the result can be bootstrapped again, at the scale of those products.
    let mut power = output;
    for _ in 0..10 {
        power = evaluator.multiply(&power, &power).unwrap();
    }
    let again = bootstrapper.refresh(&evaluator, &power).unwrap();
    assert_eq!(again.scale(), power.scale());
    let expected: Vec<Complex64> = input.iter().map(|z| z.powu(1024)).collect();
    let error = ErrorStatistics::between(&client.decrypt(&again), &expected);
    assert!(error.worst < 2f64.powi(-12), "2^{:.1}", error.worst.log2());
}

#[test]
fn bootstraps_run_over_levels_that_are_not_nested() {
    for (preset, depth, worst) in [
        ("insecure_n11_boot_depth21_scale35", 21, -10.0),
        ("insecure_n11_boot_depth15_scale40", 15, -14.0),
        ("insecure_n11_boot_depth12_scale45", 12, -18.0),
    ] {
        let mut client = Client::new(preset, 8);
        let all = client.parameters().slots();
        for (slots, values) in [(all, SlotValues::Complex), (64, SlotValues::Real), (64, SlotValues::Complex)] {
            let plan = plan(&client, slots, values);
            // Sparse slots need one level less before the raise, which has the size of the scale at 2^45 alone.
            let spared = usize::from(slots < all && preset.ends_with("scale45"));
            let depth = depth + spared;
            assert_eq!((plan.depth(), plan.output_level()), (depth, client.parameters().circuit_level()));
            let mut input = client.values(0.7);
            input.truncate(slots);
            if values == SlotValues::Real {
                input.iter_mut().for_each(|z| z.im = 0.0);
            }
            let wanted = input.repeat(all / slots);
            let (level, scale) = (plan.input_level() + 2, client.parameters().scale());
            let simulator = Simulator::new(&client.encoder, 5).with_keys(plan.key_plan());
            let simulated = simulator.encrypt(&input, level, scale).unwrap();
            let simulated = plan.simulate_refresh(&simulator, &simulated).unwrap();
            let expected = ErrorStatistics::between(simulated.noisy(), &wanted);
            assert_eq!((simulator.key_plan(), simulator.overflows()), (plan.key_plan(), vec![]));
            let keys = client.keys(&plan.key_plan());
            let encrypted = client.encrypt(&input, level);
            let bootstrapper = Bootstrapper::new(&client.encoder, plan).unwrap();
            let evaluator = client.evaluator(&keys);
            let mut output = bootstrapper.refresh(&evaluator, &encrypted).unwrap();
            assert_eq!((output.level(), output.scale()), (bootstrapper.plan().output_level(), scale));
            let found = ErrorStatistics::between(&client.decrypt(&output), &wanted);
            println!("{preset}: rms 2^{:.1}, predicted 2^{:.1}", found.rms.log2(), expected.rms.log2());
            assert!((0.5..2.0).contains(&(found.rms / expected.rms)) && found.worst.log2() < worst, "{found:?}");
            // Down to the level of the next bootstrap, where the scale is still near the scale of the parameters.
            for _ in 0..depth {
                output = evaluator.multiply(&output, &output).unwrap();
                assert!((output.scale() / scale).log2().abs() < 0.1, "2^{}", output.scale().log2());
            }
            let again = bootstrapper.refresh(&evaluator, &output).unwrap();
            assert_eq!(again.level(), bootstrapper.plan().output_level());
        }
    }
}

#[test]
fn sparse_and_real_slots_come_back() {
    let mut client = Client::new(PRESET, 2);
    let all = plan(&client, client.parameters().slots(), SlotValues::Complex);
    let few = [4, 8, 16, 64, 512].map(|slots| (slots, SlotValues::Complex));
    let few = few.into_iter().chain([4, 16, 256, 1024].map(|slots| (slots, SlotValues::Real)));
    for (slots, values) in few {
        let plan = plan(&client, slots, values);
        // Few slots have keys of their own for the sum of copies that ModRaise leaves.
        let bytes = |plan: &Bootstrap| plan.key_plan().memory_bytes(plan.parameters().ring());
        assert!(
            bytes(&plan) <= bytes(&all) + bytes(&all) / 8 && plan.input_level() <= all.input_level(),
            "{slots} {values:?}"
        );
        let mut input = client.values(1.0);
        input.truncate(slots);
        if values == SlotValues::Real {
            input.iter_mut().for_each(|z| z.im = 0.0);
        }
        let keys = client.keys(&plan.key_plan());
        let encrypted = client.encrypt(&input, plan.input_level());
        let bootstrapper = Bootstrapper::new(&client.encoder, plan).unwrap();
        let output = bootstrapper.refresh(&client.evaluator(&keys), &encrypted).unwrap();
        let wanted = input.repeat(client.parameters().slots() / slots);
        let found = check(&client.decrypt(&output), &wanted);
        let plan = bootstrapper.plan();
        let simulator = Simulator::new(&client.encoder, 5).with_keys(plan.key_plan());
        let simulated = simulator.encrypt(&input, plan.input_level(), client.parameters().scale()).unwrap();
        let simulated = plan.simulate_refresh(&simulator, &simulated).unwrap();
        let expected = ErrorStatistics::between(simulated.noisy(), &wanted);
        assert!((0.4..2.5).contains(&(found.rms / expected.rms)), "{slots} {values:?}: {found:?} {expected:?}");
        assert_eq!((simulator.key_plan(), simulator.overflows()), (plan.key_plan(), vec![]));
    }
}

#[test]
fn coefficients_become_slots() {
    let mut client = Client::new(PRESET, 3);
    let slots = client.parameters().slots();
    let plan = plan(&client, slots, SlotValues::Complex);
    let keys = client.keys(&plan.coefficient_key_plan());
    let message: Vec<f64> = (0..2 * slots).map(|_| client.unit()).collect();
    let plaintext = client.encoder.encode_coefficients(&message, 0, plan.message_scale()).unwrap();
    let encrypted = client.encoder.encrypt(&plaintext, &client.secret, &mut client.rng).unwrap();
    let mut expected = vec![Complex64::default(); slots];
    for k in 0..slots {
        expected[plan.slot_of(k)] = Complex64::new(message[k], message[k + slots]);
    }
    let simulator = Simulator::new(&client.encoder, 6);
    let simulated = simulator.encrypt_coefficients(&message, 0, plan.message_scale()).unwrap();
    check(plan.simulate_refresh_coefficients(&simulator, &simulated).unwrap().noisy(), &expected);
    let bootstrapper = Bootstrapper::from_coefficients(&client.encoder, plan).unwrap();
    let evaluator = client.evaluator(&keys);
    let encrypted = encrypted.expand(client.parameters());
    check(&client.decrypt(&bootstrapper.refresh_coefficients(&evaluator, &encrypted).unwrap()), &expected);
    // A bootstrapper without the map from slots to coefficients returns an error instead of skipping the map.
    let slots = client.encoder.encode(&[Complex64::from(0.5)], 3, client.parameters().scale()).unwrap();
    let slots = client.encoder.encrypt(&slots, &client.secret, &mut client.rng).unwrap().expand(client.parameters());
    let error = bootstrapper.refresh(&client.evaluator(&keys), &slots).unwrap_err();
    assert!(error.to_string().contains("Bootstrapper::new"), "{error}");
}

/// Torus elements: `(-1)^j (2j+1) / (4p)` and their exponentials.
fn torus(p: usize, count: usize) -> (Vec<f64>, Vec<Complex64>) {
    let element = |i: usize| {
        let j = (i * 7 + i / p) % p;
        let sign = if j.is_multiple_of(2) { 1.0 } else { -1.0 };
        sign * (2 * j + 1) as f64 / (4 * p) as f64
    };
    let elements: Vec<f64> = (0..count).map(element).collect();
    let exponentials = elements.iter().map(|t| Complex64::cis(2.0 * PI * t)).collect();
    (elements, exponentials)
}

#[test]
fn torus_elements_become_exponentials() {
    let mut client = Client::new(PRESET, 4);
    let slots = client.parameters().slots();
    let plan = plan(&client, slots, SlotValues::Real);
    let (elements, exponentials) = torus(1024, slots);
    let modulus = plan.message_scale() * 2f64.powi(14);
    let message: Vec<f64> = elements.iter().copied().chain(std::iter::repeat_n(0.0, slots)).collect();
    let plaintext = client.encoder.encode_coefficients(&message, 0, modulus).unwrap();
    let encrypted = client.encoder.encrypt(&plaintext, &client.secret, &mut client.rng).unwrap();
    let mut expected = vec![Complex64::default(); slots];
    (0..slots).for_each(|k| expected[plan.slot_of(k)] = exponentials[k]);
    let simulator = Simulator::new(&client.encoder, 7);
    let simulated = simulator.encrypt_coefficients(&message, 0, modulus).unwrap();
    check(plan.simulate_exponential(&simulator, &simulated).unwrap().noisy(), &expected);
    let keys = client.keys(&plan.coefficient_key_plan());
    let bootstrapper = Bootstrapper::from_coefficients(&client.encoder, plan).unwrap();
    let evaluator = client.evaluator(&keys);
    let output = bootstrapper.exponential(&evaluator, &encrypted.expand(client.parameters())).unwrap();
    check(&client.decrypt(&output), &expected);
}

#[test]
fn compact_queries_become_exponentials() {
    let mut client = Client::new(PRESET, 5);
    let slots = client.parameters().slots();
    let plan = plan(&client, slots, SlotValues::Real);
    let queries = CompactQueryParameters::new(client.parameters().rlwe()).unwrap();
    assert_eq!((queries.len(), queries.byte_len()), (slots, 16 + slots * 30 / 8));
    let (elements, exponentials) = torus(1024, slots);
    let secret = CompactQuerySecret::of(&client.secret, &queries).unwrap();
    let query = secret.encrypt(&elements, &mut client.rng).unwrap();
    let bytes = query.to_bytes(&queries);
    assert_eq!(bytes.len(), queries.byte_len());
    let query = CompactQuery::from_bytes(&queries, &bytes).unwrap();
    let mut expected = vec![Complex64::default(); slots];
    (0..slots).for_each(|i| expected[plan.slot_of(queries.coefficient(i))] = exponentials[i]);
    let keys = client.keys(&plan.query_key_plan());
    let bootstrapper = Bootstrapper::from_coefficients(&client.encoder, plan).unwrap();
    let evaluator = client.evaluator(&keys);
    let output = bootstrapper.exponential_of_query(&evaluator, &queries, &query, client.parameters().scale()).unwrap();
    let error = check(&client.decrypt(&output), &expected);
    // Encryption and key switching errors have a standard deviation of about 4 / q; the bound is 6 deviations.
    assert!(error.worst < 2.0 * PI * 6.0 * 5.0 / 2f64.powi(30));
    assert!(CompactQuery::from_bytes(&queries, &bytes[1..]).is_err());
    assert!(secret.encrypt(&elements[1..], &mut client.rng).is_err());
    assert!(secret.encrypt(&vec![f64::NAN; slots], &mut client.rng).is_err());
}

#[test]
fn what_is_out_of_range_is_reported_and_bounded() {
    let client = Client::new(PRESET, 6);
    let plan = plan(&client, client.parameters().slots(), SlotValues::Real);
    let simulator = Simulator::new(&client.encoder, 8);
    let mut input = vec![Complex64::from(0.5); client.parameters().slots()];
    input[3] = Complex64::from(20.0);
    let simulated = simulator.encrypt(&input, plan.input_level(), client.parameters().scale()).unwrap();
    let output = plan.simulate_refresh(&simulator, &simulated).unwrap();
    assert_eq!(simulator.overflows().len(), 1);
    assert_eq!(simulator.overflows()[0].operation, "bootstrap out of range");
    let error = (output.noisy()[3] - input[3]).norm();
    // The cubic term of the sine at an angle of 2 pi / 2^14.
    let predicted = 20f64.powi(3) * (2.0 * PI / 2f64.powi(14)).powi(2) / 6.0;
    assert!((0.5..2.0).contains(&(error / predicted)), "{error} {predicted}");
    assert!((output.noisy()[4] - input[4]).norm() < 2f64.powi(-20));
}

#[test]
fn missing_and_wrong_keys_are_noticed() {
    let mut client = Client::new(PRESET, 7);
    let plan = plan(&client, 64, SlotValues::Complex);
    let encrypted = client.encrypt(&[Complex64::from(0.5)], plan.input_level());
    let low = client.encrypt(&[Complex64::from(0.5)], plan.input_level() - 1);
    let bootstrapper = Bootstrapper::new(&client.encoder, plan.clone()).unwrap();
    let none = EvaluationKeys::new();
    let error = bootstrapper.refresh(&client.evaluator(&none), &encrypted).unwrap_err();
    let CkksError::Rlwe(RlweError::MissingKeys { missing, .. }) = error else { panic!("{error}") };
    assert_eq!(missing.len(), plan.key_plan().len());
    let keys = client.keys(&plan.key_plan());
    assert!(matches!(
        bootstrapper.refresh(&client.evaluator(&keys), &low),
        Err(CkksError::Level { found: 1, needed: 2, .. })
    ));
    let simulator = Simulator::new(&client.encoder, 1).with_keys(KeyPlan::new());
    let simulated = simulator.encrypt(&[Complex64::from(0.5)], 3, client.parameters().scale()).unwrap();
    assert!(plan.simulate_refresh(&simulator, &simulated).is_err());
    let other = Client::new(crate::common::STANDARD, 1);
    assert!(Bootstrap::new(other.parameters(), 64, SlotValues::Real).is_err());
    for slots in [2, 48] {
        let error = Bootstrap::new(client.parameters(), slots, SlotValues::Real).unwrap_err().to_string();
        assert!(error.contains("a power of two from 4 to the 1024 slots"), "{error}");
    }
}
