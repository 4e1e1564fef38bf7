//! Passes in several processes: threads that compute parts, some of which give parts back.

use std::mem::discriminant;
use std::sync::Mutex;

use crate::common::run::{CHUNKS, Client, program};
use crate::common::{Setting, many_heads, narrow_heads, shared, wide_heads, wide_heads_with};
use unspoken_ckks::{Ciphertext, Complex64, CostModel, Encoder, Simulator};
use unspoken_encrypted_llama::{
    EncryptedEvaluator, Helpers, Part, PartTask, PassArithmetic, PassPlace, PassProgram, SimulatedEvaluator,
    SimulatedProcesses,
};
use unspoken_llama::{Place, Quantity};
use unspoken_llama_model::{Attention, KvCache};
use unspoken_ring::SecretRng;

const SMALL: &str = "insecure_n11_boot_depth15_scale40";

/// Two helpers in threads. They give every third part back, and panic at every tenth.
struct Threads<'a> {
    evaluator: EncryptedEvaluator<'a>,
    place: PassPlace<'a>,
    /// What they were asked for.
    tasks: Mutex<Vec<PartTask>>,
}

impl Helpers for Threads<'_> {
    fn count(&self) -> usize {
        2
    }

    fn compute(&self, _: usize, part: &Part<Ciphertext>) -> Option<Vec<Ciphertext>> {
        let mut tasks = self.tasks.lock().unwrap();
        tasks.push(part.task.clone());
        let number = tasks.len();
        drop(tasks);
        assert!(!number.is_multiple_of(10), "a helper that panics");
        if number.is_multiple_of(3) {
            return None;
        }
        Some(self.place.compute(&self.evaluator, part).unwrap())
    }
}

/// Runs a pass of each chunk, and returns the slots of its results.
fn passes<'a>(
    (setting, program, client): (&Setting, &'a PassProgram, &'a Client),
    public: &'a KvCache,
    evaluator_of: impl Fn(EncryptedEvaluator<'a>, usize, &mut dyn FnMut(&EncryptedEvaluator<'_>)),
) -> Vec<Vec<Vec<Complex64>>> {
    let (parameters, mut rng) = (program.bootstrap().parameters(), SecretRng::insecure_from_seed(5));
    let (mut session, mut all) = (program.session(), Vec::new());
    let chunk = program.layout().chunk();
    for number in 0..CHUNKS {
        let tokens = &setting.held_out[0].private[number * chunk..][..chunk];
        let slots = program.layout().pack(setting.model.embed(tokens).view(), program.input_unit());
        let input = slots.iter().map(|slots| {
            let plaintext = client.encoder.encode(slots, program.input_level(), parameters.scale()).unwrap();
            client.encoder.encrypt(&plaintext, &client.secret, &mut rng).unwrap().expand(parameters)
        });
        let input: Vec<Ciphertext> = input.collect();
        evaluator_of(client.evaluator(), number, &mut |evaluator| {
            let mut pass = PassArithmetic::new(evaluator, program, public, &mut session, (true, CHUNKS)).unwrap();
            let result = pass.run(input.clone()).unwrap();
            all.push(result.iter().map(|vector| client.decrypt(vector)).collect());
        });
    }
    all
}

/// Runs passes alone and with helpers, compares them, and returns what the helpers were asked for.
fn check(setting: &Setting, tokens: usize) -> Vec<PartTask> {
    let mut program = program(setting, SMALL, tokens, 512);
    let encoder = Encoder::new(program.bootstrap().parameters());
    let model = CostModel::nominal(encoder.parameters());
    let public = &setting.held_out[0].public;
    program.place(&encoder, public.len(), &model).unwrap();
    let mut keys = program.requirements(&encoder, public.len(), CHUNKS).unwrap().keys;
    keys.extend(&program.bootstrap().key_plan());
    let client = Client::new(&program, &keys, &mut SecretRng::insecure_from_seed(3));
    let cache = setting.model.prefix_cache(public).unwrap();
    let whole = (setting, &program, &client);
    let alone = passes(whole, &cache, |evaluator, _, run| run(&evaluator));
    let tasks = Mutex::new(Vec::new());
    let spread = passes(whole, &cache, |evaluator, chunk, run| {
        let place = PassPlace { program: &program, public: (&cache).into(), chunk, chunks: CHUNKS };
        let threads = Threads { evaluator, place, tasks: Mutex::default() };
        run(&evaluator.with_helpers(&threads));
        let asked = threads.tasks.into_inner().unwrap();
        assert!(asked.len() > 2);
        tasks.lock().unwrap().extend(asked);
    });
    for (alone, spread) in alone.iter().flatten().zip(spread.iter().flatten()) {
        let largest = alone.iter().fold(0.0f64, |most, value| most.max(value.re.abs()));
        let errors = alone.iter().zip(spread).map(|(a, b)| (a - b).re.abs());
        let bits = (largest / errors.fold(0.0, f64::max)).log2();
        assert!(bits > 7.0, "{bits} bits");
    }
    predict(&program, &encoder, &cache);
    tasks.into_inner().unwrap()
}

/// More processes take less time and send more bytes, as far as there are parts; a slow network takes longer.
fn predict(program: &PassProgram, encoder: &Encoder, public: &KvCache) {
    let model = CostModel::nominal(encoder.parameters());
    let times = |count: usize, network: f64| {
        let processes = SimulatedProcesses::new(count, network, &model);
        let simulator = Simulator::counting(encoder);
        let evaluator = SimulatedEvaluator::new(&simulator, program.bootstrap()).with_processes(&processes);
        let mut session = program.session();
        let mut pass = PassArithmetic::new(&evaluator, program, public, &mut session, (true, CHUNKS)).unwrap();
        pass.run(program.input_without_values(&simulator).unwrap()).unwrap();
        processes.times(&simulator)
    };
    let [two, four] = [2, 4].map(|count| times(count, 1e12));
    assert!(two.spread < 0.75 * two.alone && two.spread > 0.49 * two.alone, "{two:?}");
    assert!(two.seconds() < two.whole && two.whole > two.alone, "{two:?}");
    assert!(four.spread <= two.spread && four.bytes >= two.bytes, "{two:?} {four:?}");
    assert!(times(2, 1e5).spread > two.alone);
}

fn kinds(tasks: &[PartTask]) -> [bool; 5] {
    let place = Place::new(0, Quantity::Silu);
    let all = [
        PartTask::Refresh,
        PartTask::Coefficients,
        PartTask::Product { places: Vec::new(), outputs: 0..0, scale: 0.0 },
        PartTask::Function { place, index: 0 },
        PartTask::Heads { layer: 0, block: 0, step: 0 },
    ];
    all.map(|kind| tasks.iter().any(|task| discriminant(task) == discriminant(&kind)))
}

#[test]
fn wide_heads_are_spread() {
    let [_, coefficients, _, function, heads] = kinds(&check(&wide_heads(50), 16));
    assert!(coefficients && function && heads);
}

#[test]
fn norms_of_heads_are_spread() {
    let attention = Attention { input_biases: true, head_norms: true, ..Attention::default() };
    let tasks = check(&wide_heads_with(attention, 50), 16);
    let of = |norm: Quantity| {
        tasks.iter().any(|task| matches!(task, PartTask::Function { place, .. } if place.quantity == norm))
    };
    assert!(of(Quantity::QueryNormFactor) && of(Quantity::KeyNormFactor));
}

#[test]
fn heads_with_kept_rows_and_products_are_spread() {
    let [_, coefficients, product, _, heads] = kinds(&check(&many_heads(), 8));
    assert!(coefficients && product && heads);
}

#[test]
fn activations_in_several_vectors_are_spread() {
    let [_, coefficients, _, _, heads] = kinds(&check(&narrow_heads(), 8));
    assert!(coefficients && !heads);
}

#[test]
fn scores_in_several_vectors_are_spread() {
    let [refresh, _, _, function, heads] = kinds(&check(shared(), 8));
    assert!(refresh && function && !heads, "{refresh} {function} {heads}");
}

#[test]
fn parts_of_another_pass_are_refused() {
    let setting = wide_heads(50);
    let mut program = program(&setting, SMALL, 16, 512);
    let encoder = Encoder::new(program.bootstrap().parameters());
    program.place(&encoder, 20, &CostModel::nominal(encoder.parameters())).unwrap();
    let public = setting.model.prefix_cache(&setting.held_out[0].public).unwrap();
    let simulator = Simulator::counting(&encoder);
    let evaluator = SimulatedEvaluator::new(&simulator, program.bootstrap());
    let place = PassPlace { program: &program, public: (&public).into(), chunk: 0, chunks: CHUNKS };
    let vectors = program.input_without_values(&simulator).unwrap();
    let refused = |place: PassPlace<'_>, task: PartTask, count: usize| {
        let vectors = vectors.iter().cycle().take(count).cloned().collect();
        place.compute(&evaluator, &Part { task, vectors }).unwrap_err().to_string()
    };
    let product = |places: &[Quantity], outputs| PartTask::Product {
        places: places.iter().map(|quantity| Place::new(0, *quantity)).collect(),
        outputs,
        scale: 1.0,
    };
    assert!(refused(place, PartTask::Refresh, 0).contains("0 vectors"));
    assert!(refused(place, PartTask::Coefficients, 3).contains("3 vectors"));
    assert!(refused(place, product(&[], 0..1), 1).contains("0 linear maps"));
    assert!(refused(place, product(&[Quantity::Gate], 0..9), 1).contains("0..9"));
    assert!(refused(place, product(&[Quantity::Score], 0..1), 1).contains("score"));
    assert!(refused(place, product(&[Quantity::Gate], 0..1), 5).contains("5"));
    let silu = |layer, quantity| PartTask::Function { place: Place::new(layer, quantity), index: 0 };
    assert!(refused(place, silu(9, Quantity::Silu), 1).contains("layer 9"));
    assert!(refused(place, silu(0, Quantity::Score), 1).contains("score"));
    assert!(refused(PassPlace { chunk: CHUNKS, ..place }, silu(0, Quantity::Silu), 1).contains("chunk 3"));
    let heads = |layer, block, step| PartTask::Heads { layer, block, step };
    assert!(refused(place, heads(0, 2, 10), 6).contains("block 2"));
    assert!(refused(place, heads(2, 0, 10), 6).contains("layer 2"));
    assert!(refused(place, heads(0, 0, 10), 5).contains("5 vectors"));
    assert!(refused(place, heads(0, 0, 10), 7).contains("7 vectors"));
    assert!(refused(place, silu(0, Quantity::Silu), 0).contains("0 vectors"));
    assert!(refused(place, silu(0, Quantity::Silu), 2).contains("2 vectors"));
    assert!(refused(place, heads(0, 0, 999), 6).contains("placement"));
}

#[test]
fn passes_are_predicted_for_each_chunk_and_number_of_processes() {
    let setting = many_heads();
    let mut program = program(&setting, SMALL, 8, 512);
    let encoder = Encoder::new(program.bootstrap().parameters());
    let model = CostModel::nominal(encoder.parameters());
    program.place(&encoder, 20, &model).unwrap();
    let times = |chunk| program.spread_times(&encoder, (20, chunk, CHUNKS), (&[1, 2], 1e12), &model).unwrap();
    let [first, last] = [0, CHUNKS - 1].map(times);
    for times in [&first, &last] {
        let [one, two] = times[..] else { panic!("{times:?}") };
        assert_eq!((one.parts, one.bytes), (0, 0.0));
        assert!(two.parts > 0 && two.seconds() < 0.9 * one.seconds(), "{one:?} {two:?}");
        // Blocks have bootstraps of their own.
        assert!((two.whole / one.whole - 1.0).abs() < 0.2, "{one:?} {two:?}");
    }
    assert!(last[0].seconds() > first[0].seconds(), "{first:?} {last:?}");
    let outside = (20, CHUNKS, CHUNKS);
    assert!(program.spread_times(&encoder, outside, (&[2], 1e12), &model).is_err());
    assert!(program.explain(&encoder, outside, &model).is_err());
}
