//! Runs encrypted passes of a prepared model and prints the time of each operation.
//!
//! `cargo run --release -p unspoken-encrypted-llama --example pass -- MODEL PREPARATION PRESET TOKENS`

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use ndarray::{Array2, ArrayView1};
use unspoken_ckks::{Bootstrap, Bootstrapper, Complex64, CostModel, Encoder, Evaluator, Preset, Simulator};
use unspoken_encrypted_llama::{EncryptedEvaluator, PassArithmetic, PassProgram, SimulatedEvaluator, WEIGHT_BITS};
use unspoken_llama::{Preparation, Quantity};
use unspoken_llama_files::{LoadedModel, load};
use unspoken_llama_model::{Generation, KvCache};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{EvaluationKeys, KeyPlan, SecretKey, SeededSmallRingKeys};

/// Private chunks for which a session has room.
const CHUNKS: usize = 4;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, model, preparation, preset, tokens, public] = &arguments[..] else { return Err("five arguments".into()) };
    let LoadedModel { model, tokenizer } = load(Path::new(model), None)?;
    let files = Preparation::FILES.map(|name| Path::new(preparation).join(name));
    let preparation =
        Preparation::from_bytes(std::fs::read_to_string(&files[0])?.as_bytes(), &std::fs::read(&files[1])?)?;
    let prompt = tokenizer.encode("One day, Tim and a fox went to the park. They saw")?;
    let told: Vec<u32> = Generation::new(&model, &prompt, &[])?.take(300).collect();
    let text: Vec<u32> = preparation.prefix.iter().chain(&prompt).chain(&told).copied().collect();
    let model = Arc::new(preparation.rotated(model)?);
    let (tokens, public): (usize, usize) = (tokens.parse()?, public.parse()?);
    let parameters = Preset::find(preset)?.build()?;
    let plan = Bootstrap::for_products(&parameters, WEIGHT_BITS)?;
    let degree = (parameters.ring().degree() / 16).max(512);
    let mut program =
        PassProgram::new(&preparation.circuit(), model.clone(), &preparation.design()?, plan, (tokens, degree))?;
    println!("{:?}", program.layout());
    let cache = model.prefix_cache(&text[..public])?;
    let encoder = Encoder::new(&parameters);
    let begin = Instant::now();
    let placed = program.place(&encoder, public, &CostModel::nominal(&parameters))?;
    println!("{placed:?} in {:.1} s", begin.elapsed().as_secs_f64());
    let chunk = program.layout().chunk();
    let vectors = program.layout().pack(model.embed(&text[..chunk]).view(), 1.0).len();
    let keys = counted_keys(&program, &encoder, &cache, vectors)?;
    if std::env::var_os("COUNT_ONLY").is_some() {
        return Ok(());
    }
    let begin = Instant::now();
    let mut rng = SecretRng::insecure_from_seed(3);
    let secret = SecretKey::generate(parameters.rlwe(), &mut rng)?;
    let evaluation = EvaluationKeys::generate(&secret, &keys, &mut rng)?;
    let small = program.small_ring();
    let small_keys = SeededSmallRingKeys::generate(small, &secret, &mut rng)?.expand(small)?;
    println!("keys in {:.1} s", begin.elapsed().as_secs_f64());
    let begin = Instant::now();
    let bootstrapper = Bootstrapper::new(&encoder, program.bootstrap().clone())?;
    println!("bootstrapper in {:.1} s", begin.elapsed().as_secs_f64());
    let evaluator = EncryptedEvaluator::new(Evaluator::new(&encoder, &evaluation), &bootstrapper, &small_keys);
    let mut session = program.session();
    let (level, scale) = (program.bootstrap().output_level(), parameters.scale());
    let mut clear = cache.clone();
    for number in 0..2 {
        let tokens = &text[public + number * chunk..][..chunk];
        let input = program.layout().pack(model.embed(tokens).view(), program.input_unit());
        let input = input.iter().map(|slots| -> Result<_, Box<dyn Error>> {
            let plaintext = encoder.encode(slots, level, scale)?;
            Ok(encoder.encrypt(&plaintext, &secret, &mut rng)?.expand(&parameters))
        });
        let input = input.collect::<Result<Vec<_>, _>>()?;
        let whole = Instant::now();
        let mut last = Instant::now();
        let mut watch = |place: unspoken_llama::Place, level: usize| {
            if place.layer < 2 || place.layer == 5 {
                println!("{:<36} level {level:2} {:.3} s", place.to_string(), last.elapsed().as_secs_f64());
            }
            last = Instant::now();
        };
        let pass = PassArithmetic::new(&evaluator, &program, &cache, &mut session, (true, CHUNKS))?;
        let mut pass = pass.with_watch(&mut watch);
        let vectors = pass.run(input)?;
        println!("pass {number}: {:.1} s, {} bootstraps", whole.elapsed().as_secs_f64(), pass.bootstraps());
        let slots = vectors.iter().map(|vector| Ok(encoder.decrypt(vector, &secret)?.to_vec()));
        let slots = slots.collect::<Result<Vec<Vec<Complex64>>, Box<dyn Error>>>()?;
        let slots: Vec<&[Complex64]> = slots.iter().map(Vec::as_slice).collect();
        let result = program.result();
        let found = program.layout().unpack(&slots, result.width, result.unit);
        let found = if result.quantity == Quantity::Logits { found } else { model.logits(found.view()) };
        let normed = model.forward(tokens, &mut clear, &mut ())?;
        let wanted = model.logits(normed.view());
        let (worst, same) = compared(&found, &wanted);
        println!("largest logit error {worst:.5}, same top {same} of {chunk}");
    }
    Ok(())
}

/// The keys of two passes of `vectors` vectors, counted without encryption.
fn counted_keys(
    program: &PassProgram,
    encoder: &Encoder,
    cache: &KvCache,
    vectors: usize,
) -> Result<KeyPlan, Box<dyn Error>> {
    let begin = Instant::now();
    let simulator = Simulator::counting(encoder);
    let evaluator = SimulatedEvaluator::new(&simulator, program.bootstrap());
    let mut session = program.session();
    let (level, scale) = (program.bootstrap().output_level(), encoder.parameters().scale());
    for number in 0..2 {
        let mut pass = PassArithmetic::new(&evaluator, program, cache, &mut session, (true, CHUNKS))?;
        let input = (0..vectors).map(|_| simulator.encrypt(&[], level, scale)).collect::<Result<_, _>>()?;
        pass.run(input)?;
        println!("pass {number}: {} bootstraps", pass.bootstraps());
    }
    let mut keys = simulator.key_plan();
    keys.extend(&program.bootstrap().key_plan());
    println!(
        "counted in {:.1} s: {} keys, {} MB",
        begin.elapsed().as_secs_f64(),
        keys.len(),
        keys.memory_bytes(encoder.parameters().ring()) / 1_000_000
    );
    Ok(keys)
}

/// The largest difference of two logits, and the number of tokens whose largest logit is the same one.
fn compared(found: &Array2<f32>, wanted: &Array2<f32>) -> (f32, usize) {
    let top =
        |row: ArrayView1<'_, f32>| row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map(|(index, _)| index);
    let (mut worst, mut same) = (0.0f32, 0);
    for (found, wanted) in found.rows().into_iter().zip(wanted.rows()) {
        same += usize::from(top(found) == top(wanted));
        worst = found.iter().zip(wanted).fold(worst, |worst, (a, b)| worst.max((a - b).abs()));
    }
    (worst, same)
}
