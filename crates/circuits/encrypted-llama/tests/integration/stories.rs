//! Passes of whole models in a small ring, simulated and encrypted, beside the model in floating point.

use crate::common::run::{CHUNKS, agree, program};
use crate::common::{PUBLIC, narrow_heads, shared, wide_heads};
use unspoken_ckks::{Arithmetic, CostModel, Encoder, Simulator, vector_bytes};
use unspoken_encrypted_llama::{ExplainedStep, PassArithmetic, SimulatedEvaluator};
use unspoken_llama::Quantity;

const SMALL: &str = "insecure_n11_boot_depth15_scale40";

#[test]
fn passes_agree_with_the_model_and_the_simulator_at_every_step() {
    let setting = shared();
    let mut program = program(setting, SMALL, 8, 512);
    let encoder = Encoder::new(program.bootstrap().parameters());
    let placed = program.place(&encoder, PUBLIC, &CostModel::nominal(encoder.parameters())).unwrap();
    assert!(placed.seconds < placed.greedy_seconds, "{placed:?}");
    let sample = &setting.held_out[0];
    // A chunk, then other tokens that replace it, then two chunks, of which the first is replaced.
    let run = [(0, 8..16), (0, 0..8), (1, 16..24), (2, 16..24), (1, 8..16)];
    let run = run.map(|(chunk, tokens)| (chunk, &sample.private[tokens]));
    let (found, keys) = agree(setting, &program, (&sample.public, &run), 9.0);
    let requirements = program.requirements(&encoder, PUBLIC, CHUNKS).unwrap();
    // What is explained is what was run, and takes what the placement predicted.
    let model = CostModel::nominal(encoder.parameters());
    let explained = program.explain(&encoder, (PUBLIC, 1, CHUNKS), &model).unwrap();
    assert_eq!(explained.iter().map(ExplainedStep::bootstraps).sum::<usize>(), requirements.bootstraps);
    let places: Vec<_> = explained.iter().flat_map(|step| step.places.iter().copied()).collect();
    assert!(found[4].iter().all(|row| places.contains(&row.place)), "{places:?}");
    let seconds: f64 = program.explain(&encoder, (PUBLIC, 0, 1), &model).unwrap().iter().map(|step| step.seconds).sum();
    assert!((seconds / placed.seconds - 1.0).abs() < 0.1, "{seconds} {placed:?}");
    assert!(requirements.keys.covers(&keys));
    assert!(keys.iter().count() + program.bootstrap().key_plan().iter().count() >= requirements.keys.len());
}

#[test]
fn sessions_take_as_much_memory_as_announced_behind_any_public_text() {
    let setting = shared();
    let mut program = program(setting, SMALL, 8, 512);
    let encoder = Encoder::new(program.bootstrap().parameters());
    let parameters = encoder.parameters();
    program.place(&encoder, PUBLIC, &CostModel::nominal(parameters)).unwrap();
    const CHUNKS: usize = 4;
    let announced = |public| program.requirements(&encoder, public, CHUNKS).unwrap().session_bytes;
    let taken = |public: usize| {
        let cache = setting.model.prefix_cache(&vec![0; public]).unwrap();
        let simulator = Simulator::counting(&encoder);
        let evaluator = SimulatedEvaluator::new(&simulator, program.bootstrap());
        let mut session = program.session();
        for _ in 0..CHUNKS {
            let input = program.input_without_values(&simulator).unwrap();
            let mut pass = PassArithmetic::new(&evaluator, &program, &cache, &mut session, (true, CHUNKS)).unwrap();
            pass.run(input).unwrap();
        }
        session.vectors().map(|vector| vector_bytes(parameters, simulator.level(vector))).sum::<u64>()
    };
    // Three final chunks lie in two vectors of 16 columns, wherever they begin.
    for public in [0, 8, PUBLIC, PUBLIC + 8] {
        assert_eq!(taken(public), announced(public), "{public}");
    }
}

#[test]
fn chunks_in_two_parts_and_heads_in_several_vectors_agree_too() {
    let setting = wide_heads(50);
    let program = program(&setting, SMALL, 16, 512);
    let layout = program.layout();
    assert_eq!((layout.parts, layout.tokens, layout.blocks, layout.lanes), (2, 8, 2, 1));
    let sample = &setting.held_out[0];
    // The last chunk begins a vector of columns; the session goes back before it.
    let run = [(0, &sample.private[..16]), (1, &sample.private[16..32]), (0, &sample.private[..16])];
    agree(&setting, &program, (&sample.public, &run), 7.0);
}

#[test]
fn results_that_fit_one_vector_share_its_bootstrap() {
    let setting = narrow_heads();
    let program = program(&setting, SMALL, 8, 512);
    let layout = program.layout();
    assert_eq!((layout.parts, layout.blocks, layout.lanes, layout.activation_vectors(150)), (1, 1, 4, 2));
    let sample = &setting.held_out[0];
    let run = [(0, &sample.private[..8]), (1, &sample.private[8..16])];
    agree(&setting, &program, (&sample.public, &run), 7.0);
    let encoder = Encoder::new(program.bootstrap().parameters());
    let model = CostModel::nominal(encoder.parameters());
    let explained = program.explain(&encoder, (sample.public.len(), 1, CHUNKS), &model).unwrap();
    let shared = explained.iter().filter(|step| step.places.len() > 1);
    let counts: Vec<_> = shared.map(|step| (step.places.len(), step.outputs, step.fresh)).collect();
    assert_eq!(counts, [(3, 3, 1), (2, 2, 1), (3, 3, 1), (2, 2, 1)]);
}

#[test]
fn the_result_of_a_large_vocabulary_is_the_output_of_the_last_norm() {
    let setting = wide_heads(1100);
    let mut program = program(&setting, SMALL, 8, 512);
    let encoder = Encoder::new(program.bootstrap().parameters());
    program.place(&encoder, 20, &CostModel::nominal(encoder.parameters())).unwrap();
    assert_eq!((program.result().quantity, program.result().width), (Quantity::LastNorm, 128));
    let sample = &setting.held_out[0];
    // Three chunks: a factor of a norm is one number for each token, too few of one chunk for a comparison.
    let run = [0, 1, 2].map(|chunk| (chunk, &sample.private[8 * chunk..][..8]));
    let (found, _) = agree(&setting, &program, (&sample.public, &run), 7.0);
    assert_eq!(found[0].last().unwrap().place.quantity, Quantity::LastNorm);
}
