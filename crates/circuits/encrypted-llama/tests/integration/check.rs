//! Arguments outside the intervals of polynomials show in the imaginary parts of results.

use std::collections::BTreeMap;

use ndarray::Array2;
use unspoken_ckks::{Complex64, CostModel, Encoder, Simulator};
use unspoken_encrypted_llama::{PassArithmetic, PassEvaluator, PassProgram, RESULT_BOUND, SimulatedEvaluator};
use unspoken_llama::{Comparison, Noise, Sample, Simulation};
use unspoken_ring::SecretRng;

use crate::common::run::{CHUNKS, Client, program};
use crate::common::unlike::prompts;
use crate::common::{PUBLIC, Setting, setting, shared, stories260k};

const SMALL: &str = "insecure_n11_boot_depth15_scale40";

const CHUNK: usize = 8;

/// The slots of the vectors of the result of a chunk: tokens after public ones, with these embeddings.
fn result<M>(
    (evaluator, setting, program): (&M, &Setting, &PassProgram),
    (public, rows): (&[u32], Array2<f32>),
    mut encrypt: impl FnMut(&[Complex64]) -> M::Vector,
    decrypt: impl Fn(&M::Vector) -> Vec<Complex64>,
) -> Vec<Vec<Complex64>>
where
    M: PassEvaluator + Sync,
    M::Arithmetic: Sync,
{
    let public = setting.model.prefix_cache(public).unwrap();
    let slots = program.layout().pack(rows.view(), program.input_unit());
    let input = slots.iter().map(|slots| encrypt(slots)).collect();
    let mut session = program.session();
    let mut pass = PassArithmetic::new(evaluator, program, &public, &mut session, (true, CHUNKS)).unwrap();
    pass.run(input).unwrap().iter().map(decrypt).collect()
}

/// The same, encrypted for a client.
fn encrypted(
    client: &Client,
    (setting, program): (&Setting, &PassProgram),
    text: (&[u32], Array2<f32>),
    rng: &mut SecretRng,
) -> Vec<Vec<Complex64>> {
    let parameters = program.bootstrap().parameters();
    let encrypt = |slots: &[Complex64]| {
        let plaintext = client.encoder.encode(slots, program.input_level(), parameters.scale()).unwrap();
        client.encoder.encrypt(&plaintext, &client.secret, rng).unwrap().expand(parameters)
    };
    let decrypt = |vector: &_| client.decrypt(vector);
    result((&client.evaluator(), setting, program), text, encrypt, decrypt)
}

/// The largest imaginary part of each token in the first vector.
fn sums(slots: &[Vec<Complex64>]) -> [f64; CHUNK] {
    std::array::from_fn(|token| slots[0].iter().skip(token).step_by(CHUNK).fold(0.0, |most, slot| slot.im.max(most)))
}

#[test]
fn a_token_whose_values_leave_their_intervals_shows_itself() {
    let setting = setting(12.0, 1);
    let program = program(&setting, SMALL, CHUNK, 512);
    let parameters = program.bootstrap().parameters();
    let encoder = Encoder::new(parameters);
    let keys = program.requirements(&encoder, PUBLIC, CHUNKS).unwrap().keys;
    let mut rng = SecretRng::insecure_from_seed(5);
    let client = Client::new(&program, &keys, &mut rng);
    let sample = &setting.held_out[0];
    // The embeddings of the chunk, times factors.
    let text = |factors: [f32; CHUNK]| {
        let mut rows = setting.model.embed(&sample.private[..CHUNK]);
        rows.rows_mut().into_iter().zip(factors).for_each(|(mut row, factor)| row *= factor);
        (&sample.public[..], rows)
    };
    let mut encrypted = |factors| sums(&encrypted(&client, (&setting, &program), text(factors), &mut rng));
    let simulated = |factors| {
        let simulator = Simulator::new(&encoder, 1);
        let evaluator = SimulatedEvaluator::new(&simulator, program.bootstrap());
        let encrypt =
            |slots: &[Complex64]| simulator.encrypt(slots, program.input_level(), parameters.scale()).unwrap();
        sums(&result((&evaluator, &setting, &program), text(factors), encrypt, |vector| vector.noisy().to_vec()))
    };
    let usual = [1.0; CHUNK];
    for found in [encrypted(usual), simulated(usual)] {
        assert!(found.iter().all(|sum| *sum < RESULT_BOUND), "{found:?}");
    }
    // A token whose values are a little outside shows itself alone, and the simulator predicts it.
    for factor in [0.4, 1.5] {
        let mut factors = usual;
        factors[5] = factor;
        let (found, predicted) = (encrypted(factors), simulated(factors));
        for (token, (sum, predicted)) in found.into_iter().zip(predicted).enumerate() {
            assert_eq!(sum > RESULT_BOUND, token == 5, "{factor}: {found:?}");
            assert!((sum / predicted - 1.0).abs() < 0.01, "{factor}: {found:?}");
        }
    }
    // Values far outside leave no slot as it should be.
    for factor in [2.0, 8.0] {
        let mut factors = usual;
        factors[5] = factor;
        let found = encrypted(factors);
        assert!(found.iter().all(|sum| *sum > 1e3), "{factor}: {found:?}");
    }
}

/// Simulates the chunk of a sample, without noise.
fn simulate(setting: &Setting, samples: &[Sample]) -> Comparison {
    let (circuit, model, design) = (&setting.circuit, &*setting.model, &setting.design);
    let simulation = Simulation { circuit, model, served: model, design, chunk: CHUNK };
    simulation.compare(&[Noise::None], samples, |_| {}).unwrap().remove(1)
}

/// A prompt, the largest term of its check, and whether a value left its interval.
struct Simulated<'a> {
    kind: &'static str,
    sample: &'a Sample,
    check: f64,
    escaped: bool,
    /// By how much the most likely token in the clear was missed, and the largest error of a logit.
    missed: f64,
    error: f64,
}

#[test]
fn no_wrong_token_passes_unnoticed_in_prompts_unlike_the_calibration() {
    let setting = shared();
    let mut program = program(setting, SMALL, CHUNK, 512);
    let encoder = Encoder::new(program.bootstrap().parameters());
    program.place(&encoder, PUBLIC, &CostModel::nominal(encoder.parameters())).unwrap();
    let requirements = program.requirements(&encoder, PUBLIC, CHUNKS).unwrap();
    let limit = requirements.check_limit;
    // The error of polynomials on usual text.
    let usual = simulate(setting, &setting.held_out);
    assert_eq!(usual.escaped(), 0);
    let story = [&setting.held_out[0].public[..], &setting.held_out[0].private].concat();
    let tokenizer = stories260k().tokenizer;
    let vocabulary = setting.model.config.vocabulary as u32;
    let all = prompts((&tokenizer, &story, vocabulary), (PUBLIC, CHUNK), (2000, 7));
    let mut found: Vec<Simulated> = Vec::new();
    for (kind, sample) in &all {
        let of = simulate(setting, std::slice::from_ref(sample));
        let check = if of.is_finite() { of.largest_check(&setting.design) } else { f64::INFINITY };
        let escaped = of.escaped() > 0;
        found.push(Simulated { kind, sample, check, escaped, missed: of.missed, error: of.logit_error });
    }
    found.sort_by(|a, b| a.check.total_cmp(&b.check));
    let (unnoticed, noticed) = found.split_at(found.partition_point(|prompt| prompt.check <= limit));
    let mut kinds: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    let wrong = |prompt: &Simulated| prompt.missed > 2.0 * usual.logit_error;
    for prompt in &found {
        let counts = kinds.entry(prompt.kind).or_default();
        let one = [true, prompt.check > limit, wrong(prompt)];
        counts.iter_mut().zip(one).for_each(|(count, more)| *count += usize::from(more));
    }
    println!("prompts, noticed, wrong: {kinds:?}");
    let error = unnoticed.iter().map(|prompt| prompt.error).fold(0.0, f64::max);
    let right = noticed.iter().filter(|prompt| !wrong(prompt)).count();
    println!(
        "{} noticed, {right} of them right; {} wrong in all",
        noticed.len(),
        found.iter().filter(|p| wrong(p)).count()
    );
    println!("limit {limit}; errors of logits {:.3} on usual text, {error:.3} if not noticed", usual.logit_error);
    assert!(unnoticed.len() > 500 && noticed.iter().filter(|prompt| wrong(prompt)).count() > 500);
    assert!(!unnoticed.iter().any(wrong));
    assert!(error < 5.0 * usual.logit_error);
    // Encrypted: those that are nearest to the border, on both sides.
    let mut rng = SecretRng::insecure_from_seed(6);
    let client = Client::new(&program, &requirements.keys, &mut rng);
    let escaped = unnoticed.iter().rev().filter(|prompt| prompt.escaped).take(10);
    for prompt in escaped.chain(noticed.iter().take(10)) {
        let rows = setting.model.embed(&prompt.sample.private);
        let slots = encrypted(&client, (setting, &program), (&prompt.sample.public, rows), &mut rng);
        let sum = sums(&slots).into_iter().fold(0.0, f64::max);
        let views: Vec<&[Complex64]> = slots.iter().map(Vec::as_slice).collect();
        let result = program.result();
        let logits = program.layout().unpack(&views, result.width, result.unit);
        let clear = clear(setting, prompt.sample);
        let error = logits.iter().zip(&clear).fold(0.0f32, |most, (own, clear)| most.max((own - clear).abs()));
        println!("{} check {:.1} sum {:.2} error {error:.3}", prompt.kind, prompt.check, sum);
        if prompt.check > limit {
            assert!(sum > RESULT_BOUND, "{}: {sum}", prompt.kind);
        } else {
            assert!(sum > RESULT_BOUND || f64::from(error) < 6.0 * usual.logit_error, "{}: {error}", prompt.kind);
        }
    }
}

/// Logits of the private tokens in the clear.
fn clear(setting: &Setting, sample: &Sample) -> Array2<f32> {
    let mut cache = setting.model.prefix_cache(&sample.public).unwrap();
    let normed = setting.model.forward(&sample.private, &mut cache, &mut ()).unwrap();
    setting.model.logits(normed.view())
}
