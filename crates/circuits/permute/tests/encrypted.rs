//! Plans of every strategy, encrypted and simulated: positions, levels, scales, keys and errors.

use unspoken_ckks::{
    Arithmetic, Ciphertext, CkksError, CkksParameters, Complex64, CostModel, Encoder, ErrorStatistics, Evaluator,
    Preset, Simulator,
};
use unspoken_permute::{
    BlockedPlan, Estimate, Packing, Permutation, PermutationPlan, PermutationTask, PermuteError, PreparedBlocks,
    PreparedPermutation, Strategy, Verdict, factors,
};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{EvaluationKeys, KeyPlan, RlweError, SecretKey};

const COMPLEX: &str = "insecure_n11_depth17_scale30";
const REAL: &str = "insecure_n11_real_depth17_scale30";
const OUTPUT_LEVEL: usize = 1;

struct Client {
    encoder: Encoder,
    secret: SecretKey,
    rng: SecretRng,
}

impl Client {
    fn new(preset: &str) -> Self {
        let parameters = Preset::find(preset).unwrap().build().unwrap();
        let mut rng = SecretRng::insecure_from_seed(5);
        let secret = SecretKey::generate(parameters.rlwe(), &mut rng).unwrap();
        Client { encoder: Encoder::new(&parameters), secret, rng }
    }

    fn parameters(&self) -> &CkksParameters {
        self.encoder.parameters()
    }

    fn keys(&mut self, plan: &KeyPlan) -> EvaluationKeys {
        EvaluationKeys::generate(&self.secret, plan, &mut self.rng).unwrap()
    }

    fn encrypt(&mut self, values: &[Complex64], level: usize) -> Ciphertext {
        let plaintext = self.encoder.encode(values, level, self.parameters().scale()).unwrap();
        self.encoder.encrypt(&plaintext, &self.secret, &mut self.rng).unwrap().expand(self.encoder.parameters())
    }
}

/// Test values of 8 bits, so that rounding recovers them from the noisy result.
fn numbers(count: usize) -> Vec<Complex64> {
    (0..count).map(|i| Complex64::from((i * 37 % 251) as f64 / 256.0)).collect()
}

/// The slots before and after the permutation, computed in the clear.
fn slots(permutation: &Permutation, length: usize, packing: Packing, slots: usize) -> [Vec<Complex64>; 2] {
    let padded = permutation.padded(length).unwrap();
    let before: Vec<Complex64> = match packing {
        Packing::Repeated => numbers(length).into_iter().cycle().take(slots).collect(),
        Packing::Blocks => numbers(slots),
    };
    let after = padded.batch(slots / length).unwrap().apply(&before).unwrap();
    [before, after]
}

/// Runs a plan simulated and encrypted, with exactly the keys it needs. Returns the worst error of the encrypted run.
fn check(client: &mut Client, plan: &PermutationPlan, permutation: &Permutation) -> f64 {
    let parameters = client.parameters().clone();
    let scale = parameters.scale();
    let prepared = PreparedPermutation::new(&parameters, plan, OUTPUT_LEVEL, scale).unwrap();
    assert_eq!(prepared.input_level(), OUTPUT_LEVEL + plan.depth());
    let [before, after] = slots(permutation, plan.length(), plan.packing(), parameters.slots());
    let name = format!("{} {:?}", plan.strategy(), plan.packing());

    let simulator = Simulator::new(&client.encoder, 3).with_keys(prepared.key_plan().clone());
    let input = simulator.encrypt(&before, prepared.input_level(), scale).unwrap();
    let simulated = prepared.apply(&simulator, &input).unwrap();
    assert!(ErrorStatistics::between(simulated.exact(), &after).worst < 1e-12, "{name}");
    assert!(simulator.key_plan().iter().eq(prepared.key_plan().iter()), "{name}: keys that are not used");
    assert_eq!(simulator.cost(), prepared.estimate().cost, "{name}");
    let total: u64 = prepared.estimate().total_rotations().iter().sum();
    assert_eq!(total, simulator.cost().total_key_switches(), "{name}");
    assert_eq!(simulator.cost().plaintext_products, prepared.estimate().masks, "{name}");
    assert!(simulator.overflows().is_empty());

    let keys = client.keys(prepared.key_plan());
    let input = client.encrypt(&before, prepared.input_level());
    let found = prepared.apply(&Evaluator::new(&client.encoder, &keys), &input).unwrap();
    assert_eq!(found.level(), OUTPUT_LEVEL);
    assert!((found.scale() / scale - 1.0).abs() < 1e-12);
    let found = client.encoder.decrypt(&found, &client.secret).unwrap();
    for (slot, (found, expected)) in found.iter().zip(&after).enumerate() {
        assert_eq!((found.re * 256.0).round(), expected.re * 256.0, "{name}, slot {slot}");
    }
    let error = ErrorStatistics::between(&found, &after);
    assert!(
        error.rms < 2.0 * simulated.error().rms,
        "{name}: {} measured, {} predicted",
        error.rms,
        simulated.error().rms
    );
    error.worst
}

#[test]
fn every_strategy_in_both_packings_and_both_rings() {
    for (preset, packing) in [(COMPLEX, Packing::Blocks), (REAL, Packing::Repeated)] {
        let mut client = Client::new(preset);
        let parameters = client.parameters().clone();
        let model = CostModel::nominal(&parameters);
        let random = Permutation::random(50, 1).unwrap();
        let transpose = Permutation::transpose(8, 8).unwrap();
        for (permutation, strategies) in [
            (&random, [Strategy::Windowed, Strategy::Benes, Strategy::Network]),
            (&transpose, [Strategy::Factors, Strategy::Diagonals, Strategy::Windowed]),
        ] {
            let explanation =
                PermutationTask::new(permutation, packing, &parameters, OUTPUT_LEVEL).explain(&parameters, &model);
            let explanation = explanation.unwrap();
            let copies = Some(Strategy::Copies).filter(|_| packing == Packing::Repeated);
            assert_eq!(explanation.best_of(Strategy::Copies).is_some(), copies.is_some());
            for strategy in strategies.into_iter().chain(copies) {
                let plan = &explanation.best_of(strategy).unwrap().plan;
                let worst = check(&mut client, plan, permutation);
                println!("{preset} {strategy}: worst error 2^{:.1} after {} levels", worst.log2(), plan.depth());
                assert!(worst < 2f64.powi(-9));
            }
        }
    }
}

#[test]
fn deep_networks_and_ones_collapsed_with_few_keys() {
    let mut client = Client::new(REAL);
    let parameters = client.parameters().clone();
    let permutation = Permutation::random(128, 9).unwrap();
    for packing in [Packing::Repeated, Packing::Blocks] {
        for (top, bottom, together) in [(0, 0, 1), (3, 2, 1), (3, 0, 2), (0, 3, 1), (2, 2, 2)] {
            let mut network = unspoken_permute::Network::new(&permutation, packing, top, bottom).unwrap();
            network.together = together;
            let plan = PermutationPlan::network(packing, 128, network).unwrap();
            check(&mut client, &plan, &permutation);
        }
    }
    drop(parameters);
}

#[test]
fn special_permutations_take_what_they_need_and_no_more() {
    let mut client = Client::new(REAL);
    let parameters = client.parameters().clone();
    let model = CostModel::nominal(&parameters);
    let slots = parameters.slots();
    let plan = |permutation: &Permutation| {
        let task = PermutationTask::new(permutation, Packing::Repeated, &parameters, OUTPUT_LEVEL);
        task.plan(&parameters, &model).unwrap()
    };
    let identity = Permutation::identity(slots).unwrap();
    let found = plan(&identity);
    assert_eq!((found.plan.strategy(), found.estimate.depth, found.estimate.keys.len()), (Strategy::Identity, 0, 0));
    check(&mut client, &found.plan, &identity);

    let rotation = Permutation::rotation(slots, 5).unwrap();
    let found = plan(&rotation);
    assert_eq!((found.estimate.depth, found.estimate.masks, found.estimate.keys.len()), (0, 0, 1));
    check(&mut client, &found.plan, &rotation);

    let swap = Permutation::swap(slots, 3, 1200).unwrap();
    let found = plan(&swap);
    assert!(found.estimate.depth <= 2 && found.estimate.masks <= 6, "{:?}", found.estimate);
    check(&mut client, &found.plan, &swap);

    for permutation in [Permutation::reversal(256).unwrap(), Permutation::random(77, 3).unwrap()] {
        let found = plan(&permutation);
        check(&mut client, &found.plan, &permutation);
    }
}

#[test]
fn short_vectors_take_few_rotations_through_their_copies() {
    let mut client = Client::new(REAL);
    let parameters = client.parameters().clone();
    let model = CostModel::nominal(&parameters);
    for log2 in [6u32, 8, 10] {
        let permutation = Permutation::random(1 << log2, 7).unwrap();
        let keys = Some(log2 as usize);
        let task = PermutationTask {
            max_keys: keys,
            ..PermutationTask::new(&permutation, Packing::Repeated, &parameters, OUTPUT_LEVEL)
        };
        let explanation = task.explain(&parameters, &model).unwrap();
        let best = explanation.best().unwrap();
        let benes = explanation.best_of(Strategy::Benes).unwrap();
        let count = |estimate: &Estimate| (estimate.total_rotations().iter().sum::<u64>(), estimate.masks);
        let (ours, theirs) = (count(&best.estimate), count(&benes.estimate));
        println!("2^{log2}: {ours:?} rotations and masks, {theirs:?} of the Benes network");
        assert_eq!(best.plan.strategy(), Strategy::Copies);
        assert!(best.estimate.keys.len() <= log2 as usize);
        assert!(ours.0 < theirs.0 && ours.1 < theirs.1 && best.seconds < benes.seconds);
        check(&mut client, &best.plan, &permutation);
    }
}

#[test]
fn known_factors_of_odd_dimensions_are_used() {
    let mut client = Client::new(REAL);
    let parameters = client.parameters().clone();
    let model = CostModel::nominal(&parameters);
    let permutation = Permutation::transpose(11, 11).unwrap();
    let known = factors::transpose(11).unwrap();
    let task = PermutationTask {
        factors: &known,
        max_keys: Some(12),
        ..PermutationTask::new(&permutation, Packing::Blocks, &parameters, OUTPUT_LEVEL)
    };
    let found = task.plan(&parameters, &model).unwrap();
    assert!(found.estimate.keys.len() <= 12);
    check(&mut client, &found.plan, &permutation);
}

#[test]
fn all_missing_keys_are_named_at_once() {
    let mut client = Client::new(COMPLEX);
    let parameters = client.parameters().clone();
    let permutation = Permutation::random(64, 2).unwrap();
    let task = PermutationTask::new(&permutation, Packing::Repeated, &parameters, OUTPUT_LEVEL);
    let plan = task.plan(&parameters, &CostModel::nominal(&parameters)).unwrap().plan;
    let prepared = PreparedPermutation::new(&parameters, &plan, OUTPUT_LEVEL, parameters.scale()).unwrap();
    let mut some = KeyPlan::new();
    prepared.key_plan().iter().skip(2).for_each(|(kind, chain)| some.require(kind, chain));
    let needed: Vec<_> = prepared.key_plan().iter().take(2).collect();
    let named = |error: PermuteError| match error {
        PermuteError::Ckks(CkksError::Rlwe(RlweError::MissingKeys { missing, .. })) => missing,
        other => panic!("{other}"),
    };
    let keys = client.keys(&some);
    let input = client.encrypt(&numbers(64), prepared.input_level());
    let evaluator = Evaluator::new(&client.encoder, &keys);
    assert_eq!(named(prepared.apply(&evaluator, &input).unwrap_err()), needed);
    let simulator = Simulator::new(&client.encoder, 1).with_keys(some);
    let input = simulator.encrypt(&numbers(64), prepared.input_level(), parameters.scale()).unwrap();
    assert_eq!(named(prepared.apply(&simulator, &input).unwrap_err()), needed);
    let low = simulator.drop_to(&input, 0).unwrap();
    let simulator = Simulator::new(&client.encoder, 1);
    assert!(matches!(prepared.apply(&simulator, &low), Err(PermuteError::Ckks(CkksError::Level { .. }))));
}

#[test]
fn without_the_depth_the_planner_goes_shallower_or_says_what_is_missing() {
    let parameters = Preset::find(COMPLEX).unwrap().build().unwrap();
    let model = CostModel::nominal(&parameters);
    let permutation = Permutation::random(256, 2).unwrap();
    let free = PermutationTask::new(&permutation, Packing::Repeated, &parameters, OUTPUT_LEVEL);
    let best = free.plan(&parameters, &model).unwrap();
    assert!(best.estimate.depth > 2);
    let tight = PermutationTask { input_level: 3, ..free.clone() };
    let shallower = tight.plan(&parameters, &model).unwrap();
    assert!(shallower.estimate.depth <= 2 && shallower.seconds >= best.seconds);
    let text = tight.explain(&parameters, &model).unwrap().to_string();
    assert!(text.contains("needs an input at level") && text.matches("chosen").count() == 1, "{text}");
    let impossible = PermutationTask { input_level: OUTPUT_LEVEL, ..free.clone() };
    let error = impossible.plan(&parameters, &model).unwrap_err().to_string();
    assert!(error.contains("with an input at level 2"), "{error}");
    let keyless = PermutationTask { max_keys: Some(1), ..free };
    let explanation = keyless.explain(&parameters, &model).unwrap();
    assert!(explanation.rows().iter().all(|row| matches!(row.verdict, Verdict::NeedsKeys(_))));
    let error = explanation.into_best().unwrap_err().to_string();
    assert!(error.contains("keys there is one"), "{error}");
}

#[test]
fn plans_are_data_and_are_checked_when_they_are_read() {
    let parameters = Preset::find(COMPLEX).unwrap().build().unwrap();
    let model = CostModel::nominal(&parameters);
    let permutation = Permutation::random(32, 4).unwrap();
    for (strategy, packing) in [
        (Strategy::Diagonals, Packing::Blocks),
        (Strategy::Benes, Packing::Blocks),
        (Strategy::Network, Packing::Blocks),
        (Strategy::Copies, Packing::Repeated),
    ] {
        let task = PermutationTask::new(&permutation, packing, &parameters, OUTPUT_LEVEL);
        let plan = task.explain(&parameters, &model).unwrap().best_of(strategy).unwrap().plan.clone();
        let text = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<PermutationPlan>(&text).unwrap(), plan);
        assert_eq!(plan.permutation().unwrap(), permutation);
        let read = |from: &str, to: &str| {
            assert!(text.contains(from), "{from} in {text}");
            serde_json::from_str::<PermutationPlan>(&text.replacen(from, to, 1))
        };
        assert!(read("\"version\":1", "\"version\":2").is_err());
        assert!(read("\"length\":32", "\"length\":64").is_err());
        assert!(read("\"length\":32", "\"length\":31").is_err());
        if strategy == Strategy::Network {
            assert!(read("\"rotation\":", "\"rotation\":9").is_err());
            assert!(read("\"mask\":[", "\"mask\":[32,").is_err());
        } else if strategy == Strategy::Copies {
            assert!(read("\"Repeated\"", "\"Blocks\"").is_err());
            assert!(read("\"count\":", "\"count\":1").is_err());
            assert!(read("\"count\":", "\"count\":10000000000").is_err());
            assert!(read("\"shifts\":{\"0\":[", "\"shifts\":{\"0\":[4000000000,").is_err());
            assert!(read("\"shifts\":{\"0\":", "\"shifts\":{\"9000000000000000000\":").is_err());
            assert!(read("\"babies\":", "\"babies\":9999").is_err());
        } else {
            assert!(read("\"babies\":", "\"babies\":9999").is_err());
            assert!(read("\"Exact\"", "\"Forward\"").is_err());
        }
    }
}

#[test]
fn vectors_longer_than_the_slots() {
    let mut client = Client::new(COMPLEX);
    let parameters = client.parameters().clone();
    let (slots, scale) = (parameters.slots(), parameters.scale());
    let permutation = Permutation::random(3 * slots - 5, 8).unwrap();
    let model = CostModel::nominal(&parameters);
    let levels = (parameters.max_level(), OUTPUT_LEVEL);
    let plan = BlockedPlan::new(&parameters, &model, &permutation, levels, Some(24), None).unwrap();
    let prepared = PreparedBlocks::new(&parameters, &plan, OUTPUT_LEVEL, scale).unwrap();
    assert_eq!(prepared.input_level(), OUTPUT_LEVEL + plan.depth());
    let padded = permutation.padded(3 * slots).unwrap();
    let entries = numbers(3 * slots);
    let expected = padded.apply(&entries).unwrap();
    let keys = client.keys(prepared.key_plan());
    let blocks: Vec<Ciphertext> =
        entries.chunks(slots).map(|block| client.encrypt(block, prepared.input_level())).collect();
    let found = prepared.apply(&Evaluator::new(&client.encoder, &keys), &blocks).unwrap();
    assert!(found.iter().all(|block| block.level() == OUTPUT_LEVEL));
    let found = found.iter().flat_map(|block| client.encoder.decrypt(block, &client.secret).unwrap().to_vec());
    for (slot, (found, expected)) in found.zip(&expected).enumerate() {
        assert_eq!((found.re * 256.0).round(), expected.re * 256.0, "slot {slot}");
    }
    let simulator = Simulator::new(&client.encoder, 1).with_keys(prepared.key_plan().clone());
    let blocks: Vec<_> =
        entries.chunks(slots).map(|block| simulator.encrypt(block, prepared.input_level(), scale).unwrap()).collect();
    prepared.apply(&simulator, &blocks).unwrap();
    assert!(simulator.key_plan().iter().eq(prepared.key_plan().iter()), "keys that are not used");
    assert!(prepared.apply(&simulator, &blocks[1..]).is_err());
}
