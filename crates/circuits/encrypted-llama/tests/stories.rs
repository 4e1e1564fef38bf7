//! Passes of stories260K, simulated and encrypted, beside the model in floating point.

mod common;

use common::{Beside, PUBLIC, Row, print, shared};
use unspoken_ckks::{
    Bootstrap, Bootstrapper, Ciphertext, Complex64, Encoder, Evaluator, Preset, Simulated as Vector, Simulator,
};
use unspoken_encrypted_llama::{EncryptedMachine, PassArithmetic, Program, Session, SimulatedMachine, WEIGHT_BITS};
use unspoken_llama::{Noise, Simulated};
use unspoken_llama_model::KvCache;
use unspoken_ring::SecretRng;
use unspoken_rlwe::{EvaluationKeys, KeyPlan, SecretKey, SeededSmallRingKeys};

const SMALL: &str = "insecure_n11_boot_depth14_scale40";

fn program(preset: &str, tokens: usize, small_degree: usize) -> Program {
    let setting = shared();
    let parameters = Preset::find(preset).unwrap().build().unwrap();
    let plan = Bootstrap::for_products(&parameters, WEIGHT_BITS).unwrap();
    Program::new(&setting.circuit, setting.model.clone(), &setting.design, plan, (tokens, small_degree)).unwrap()
}

/// Chunks that sessions have room for.
const CHUNKS: usize = 3;

/// Private tokens of the chunks that are run, one after the other; a chunk that is not new replaces the last one.
type Run<'a> = [(bool, &'a [u32])];

/// The rows of each pass, the keys, and the bootstrapped vectors.
fn simulate(program: &Program, public: &KvCache, run: &Run<'_>) -> (Vec<Vec<Row>>, KeyPlan, usize) {
    let setting = shared();
    let encoder = Encoder::new(program.bootstrap().parameters());
    let simulator = Simulator::new(&encoder, 1);
    let machine = SimulatedMachine { simulator: &simulator, encoder: &encoder, bootstrap: program.bootstrap() };
    let mut session = Session::new(setting.model.config.layers);
    let decrypt = |vector: &Vector| vector.noisy().to_vec();
    let (level, scale) = (program.bootstrap().output_level(), encoder.parameters().scale());
    let (mut passes, mut bootstraps) = (Vec::new(), 0);
    let mut text: Vec<u32> = Vec::new();
    for (next, tokens) in run {
        let pass = PassArithmetic::new(&machine, program, public, &mut session, (*next, CHUNKS)).unwrap();
        let input = program.layout().pack(setting.model.embed(tokens).view(), program.input_unit());
        let input = input.iter().map(|slots| simulator.encrypt(slots, level, scale).unwrap()).collect();
        if !next {
            text.truncate(text.len() - tokens.len());
        }
        let mut before = public.clone();
        if !text.is_empty() {
            setting.model.forward(&text, &mut before, &mut ()).unwrap();
        }
        let clear = Simulated::new(&setting.model, &before, &setting.design, &Noise::None, 1);
        let place = (public.len(), text.len() / tokens.len(), CHUNKS);
        let beside = Beside { pass, program, clear, place, decrypt: &decrypt, rows: Vec::new() };
        let (rows, count) = beside.run(setting, input, tokens);
        passes.push(rows);
        bootstraps += count;
        text.extend(*tokens);
    }
    println!("{:?}", simulator.overflows());
    let mut keys = simulator.key_plan();
    keys.extend(&program.bootstrap().key_plan());
    (passes, keys, bootstraps)
}

fn encrypted(program: &Program, public: &KvCache, run: &Run<'_>, keys: &KeyPlan) -> Vec<Vec<Row>> {
    let setting = shared();
    let parameters = program.bootstrap().parameters();
    let encoder = Encoder::new(parameters);
    let mut rng = SecretRng::insecure_from_seed(3);
    let secret = SecretKey::generate(parameters.rlwe(), &mut rng).unwrap();
    let evaluation = EvaluationKeys::generate(&secret, keys, &mut rng).unwrap();
    let small = program.small_ring();
    let small_keys = SeededSmallRingKeys::generate(small, &secret, &mut rng).unwrap().expand(small).unwrap();
    let bootstrapper = Bootstrapper::new(&encoder, program.bootstrap().clone()).unwrap();
    let machine = EncryptedMachine {
        evaluator: Evaluator::new(&encoder, &evaluation),
        bootstrapper: &bootstrapper,
        small_keys: &small_keys,
    };
    let mut session = Session::new(setting.model.config.layers);
    let decrypt = |vector: &Ciphertext| -> Vec<Complex64> { encoder.decrypt(vector, &secret).unwrap().to_vec() };
    let (level, scale) = (program.bootstrap().output_level(), parameters.scale());
    let mut passes = Vec::new();
    let mut text: Vec<u32> = Vec::new();
    for (next, tokens) in run {
        let pass = PassArithmetic::new(&machine, program, public, &mut session, (*next, CHUNKS)).unwrap();
        let input = program.layout().pack(setting.model.embed(tokens).view(), program.input_unit());
        let input = input
            .iter()
            .map(|slots| {
                let plaintext = encoder.encode(slots, level, scale).unwrap();
                encoder.encrypt(&plaintext, &secret, &mut rng).unwrap().expand(parameters)
            })
            .collect();
        if !next {
            text.truncate(text.len() - tokens.len());
        }
        let mut before = public.clone();
        if !text.is_empty() {
            setting.model.forward(&text, &mut before, &mut ()).unwrap();
        }
        let clear = Simulated::new(&setting.model, &before, &setting.design, &Noise::None, 1);
        let place = (public.len(), text.len() / tokens.len(), CHUNKS);
        let beside = Beside { pass, program, clear, place, decrypt: &decrypt, rows: Vec::new() };
        passes.push(beside.run(setting, input, tokens).0);
        text.extend(*tokens);
    }
    passes
}

#[test]
fn passes_agree_with_the_model_and_the_simulator_at_every_step() {
    let setting = shared();
    let program = program(SMALL, 8, 512);
    let sample = &setting.held_out[0];
    let public = setting.model.prefix_cache(&sample.public).unwrap();
    // A chunk with other tokens than the ones that replace it; then another chunk.
    let run = [(true, &sample.private[8..16]), (false, &sample.private[..8]), (true, &sample.private[8..16])];
    let (simulated, keys, bootstraps) = simulate(&program, &public, &run);
    print(&simulated[2]);
    println!("{bootstraps} bootstraps");
    let found = encrypted(&program, &public, &run, &keys);
    print(&found[2]);
    for (found, simulated) in found.iter().flatten().zip(simulated.iter().flatten()) {
        let bits = (found.rms / simulated.rms).log2();
        if bits.abs() > 1.0 {
            println!("{}: measured over predicted 2^{bits:.1}", found.place);
        }
        assert!(found.largest / found.worst > 256.0, "{found:?}");
    }
}
