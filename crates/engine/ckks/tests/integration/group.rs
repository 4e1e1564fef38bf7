//! Operations on several vectors at once, against the same operations one by one and against the simulator.

use crate::common::Client;
use unspoken_ckks::{
    Arithmetic, Bootstrap, Bootstrapper, Ciphertext, CkksError, Complex64, ErrorStatistics, LinearPlan,
    LinearTransform, Simulator, SlotValues,
};
use unspoken_rlwe::{KeyKind, KeyPlan, galois};

const PRESET: &str = "insecure_n11_boot_depth15_scale40";

fn references(vectors: &[Ciphertext]) -> Vec<&Ciphertext> {
    vectors.iter().collect()
}

#[test]
fn groups_of_bootstraps_give_what_was_simulated() {
    let mut client = Client::new(PRESET, 1);
    let all = client.parameters().slots();
    for (slots, values) in [(all, SlotValues::Complex), (all, SlotValues::Real), (64, SlotValues::Real)] {
        let plan = Bootstrap::new(client.parameters(), slots, values).unwrap();
        let inputs: Vec<Vec<Complex64>> = (0..5)
            .map(|_| {
                let mut input = client.values(0.7);
                input.truncate(slots);
                if values == SlotValues::Real {
                    input.iter_mut().for_each(|z| z.im = 0.0);
                }
                input
            })
            .collect();
        let simulator = Simulator::new(&client.encoder, 5).with_keys(plan.key_plan());
        let (level, scale) = (plan.input_level() + 1, client.parameters().scale());
        let simulated: Vec<_> = inputs.iter().map(|input| simulator.encrypt(input, level, scale).unwrap()).collect();
        let simulated = plan.simulate_refresh_many(&simulator, &simulated.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!(simulator.key_plan(), plan.key_plan());
        let keys = client.keys(&plan.key_plan());
        let encrypted: Vec<Ciphertext> = inputs.iter().map(|input| client.encrypt(input, level)).collect();
        let bootstrapper = Bootstrapper::new(&client.encoder, plan).unwrap();
        let evaluator = client.evaluator(&keys);
        let outputs = bootstrapper.refresh_many(&evaluator, &references(&encrypted)).unwrap();
        assert_eq!(outputs.len(), inputs.len());
        for ((output, simulated), input) in outputs.iter().zip(&simulated).zip(&inputs) {
            assert_eq!((output.level(), output.scale()), (bootstrapper.plan().output_level(), scale));
            let wanted = input.repeat(all / slots);
            let found = ErrorStatistics::between(&client.decrypt(output), &wanted);
            let expected = ErrorStatistics::between(simulated.noisy(), &wanted);
            assert!((0.4..2.5).contains(&(found.rms / expected.rms)), "{found:?} {expected:?}");
        }
        // The last vector of an odd number has no partner.
        let alone = bootstrapper.refresh(&evaluator, &encrypted[4]).unwrap();
        assert_eq!(client.decrypt(&alone), client.decrypt(&outputs[4]));
        assert!(bootstrapper.refresh_many(&evaluator, &[]).unwrap().is_empty());
        let low = client.encrypt(&inputs[0], bootstrapper.plan().input_level() - 1);
        let group = [&encrypted[0], &encrypted[1], &encrypted[2], &low];
        let evaluator = client.evaluator(&keys);
        let error = bootstrapper.refresh_many(&evaluator, &group).unwrap_err();
        let index = if values == SlotValues::Real { 1 } else { 3 };
        let CkksError::InGroup { index: found, error } = error else { panic!("{error}") };
        assert!(found == index && matches!(*error, CkksError::Level { .. }), "{found}: {error}");
    }
}

#[test]
fn pairs_of_real_vectors_cost_less_than_two_bootstraps() {
    let client = Client::new(PRESET, 2);
    let plan = Bootstrap::new(client.parameters(), client.parameters().slots(), SlotValues::Real).unwrap();
    let transforms = |count: usize| {
        let simulator = Simulator::counting(&client.encoder);
        let input = simulator.encrypt(&[], plan.input_level(), client.parameters().scale()).unwrap();
        plan.simulate_refresh_many(&simulator, &vec![&input; count]).unwrap();
        simulator.cost().limb_transforms as f64
    };
    assert!((1.3..1.7).contains(&(transforms(2) / transforms(1))) && transforms(4) == 2.0 * transforms(2));
    let bytes = |count: usize| plan.working_bytes_of_many(&client.encoder, count).unwrap();
    assert!(bytes(0) == 0 && bytes(1) < bytes(2) && bytes(2) < bytes(4));
    let few = rayon_threads(1, || [bytes(2), bytes(40)]);
    assert!(few[1] < 3 * few[0], "one pair at a time: {few:?}");
}

fn rayon_threads<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(work)
}

#[test]
fn rotations_and_maps_of_groups_are_those_of_each_vector() {
    let mut client = Client::new(crate::common::STANDARD, 3);
    let (ring, level) = (client.parameters().ring().clone(), 4);
    let diagonals = [0, 1, 2, 5].map(|k| (k, client.values(1.0))).into();
    let scale = client.parameters().scale();
    let plan = LinearPlan::new(client.parameters(), diagonals, level, scale, scale).unwrap();
    let mut keys: KeyPlan = plan.key_plan();
    keys.require_over(KeyKind::Galois { element: galois::rotation(&ring, 7) }, client.parameters().basis(level));
    let keys = client.keys(&keys);
    let values: Vec<Vec<Complex64>> = (0..5).map(|_| client.values(1.0)).collect();
    let vectors: Vec<Ciphertext> = values.iter().map(|values| client.encrypt(values, level)).collect();
    let transform = LinearTransform::new(&client.encoder, plan).unwrap();
    for threads in [1, 2, 3] {
        rayon_threads(threads, || {
            let evaluator = client.evaluator(&keys);
            let turned = evaluator.rotate_many(&vectors.iter().map(|v| (v, 7)).collect::<Vec<_>>()).unwrap();
            let mapped = transform.apply_many(&evaluator, &references(&vectors)).unwrap();
            for ((vector, turned), mapped) in vectors.iter().zip(&turned).zip(&mapped) {
                assert_eq!(client.decrypt(&evaluator.rotate(vector, 7).unwrap()), client.decrypt(turned));
                assert_eq!(client.decrypt(&transform.apply(&evaluator, vector).unwrap()), client.decrypt(mapped));
            }
            let error = evaluator.rotate_many(&[(&vectors[0], 7), (&vectors[1], 6)]).unwrap_err();
            assert!(error.to_string().starts_with("number 1 of the group"), "{error}");
        });
    }
}
