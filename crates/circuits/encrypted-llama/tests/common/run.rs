//! Runs of passes, simulated and encrypted.

#![allow(dead_code)] // Each test binary uses a part.

use unspoken_ckks::{
    Bootstrap, Bootstrapper, Ciphertext, Complex64, Encoder, Evaluator, Overflow, Preset, Simulated as Vector,
    Simulator,
};
use unspoken_encrypted_llama::{
    EncryptedEvaluator, PassArithmetic, PassEvaluator, PassProgram, Session, SimulatedEvaluator, WEIGHT_BITS,
};
use unspoken_llama::{Noise, Simulated};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{EvaluationKeys, KeyPlan, SecretKey, SeededSmallRingKeys, SmallRingKeys};

use super::{Beside, Row, Setting, print};

pub fn program(setting: &Setting, preset: &str, tokens: usize, small_degree: usize) -> PassProgram {
    let parameters = Preset::find(preset).unwrap().build().unwrap();
    let plan = Bootstrap::for_products(&parameters, WEIGHT_BITS).unwrap();
    PassProgram::new(&setting.circuit, setting.model.clone(), &setting.design, plan, (tokens, small_degree)).unwrap()
}

/// Chunks that sessions have room for.
pub const CHUNKS: usize = 3;

/// The numbers and private tokens of the chunks that are run, one after the other. A chunk that has run is replaced,
/// and those after it are forgotten.
pub type Run<'a> = [(usize, &'a [u32])];

/// Runs passes beside the model. Returns the rows of each.
fn beside<M>(
    (evaluator, setting, program): (&M, &Setting, &PassProgram),
    (public, run): (&[u32], &Run<'_>),
    mut encrypt: impl FnMut(&[Complex64]) -> M::Vector,
    decrypt: &dyn Fn(&M::Vector) -> Vec<Complex64>,
    same: &dyn Fn(&M::Vector, &M::Vector) -> bool,
) -> Vec<Vec<Row>>
where
    M: PassEvaluator + Sync,
    M::Arithmetic: Sync,
{
    let cache = setting.model.prefix_cache(public).unwrap();
    let mut session = program.session();
    let (mut passes, mut text) = (Vec::new(), Vec::new());
    // The session after the last pass of each chunk.
    let mut earlier: Vec<Session<M::Vector>> = Vec::new();
    for (chunk, tokens) in run {
        if !text.is_empty() {
            session = restored(program, &session, public.len());
        }
        if *chunk < session.chunk() {
            program.go_back(evaluator, &cache, &mut session, (*chunk, CHUNKS)).unwrap();
            assert_eq!(session.vectors().count(), earlier[*chunk].vectors().count());
            assert!(session.vectors().zip(earlier[*chunk].vectors()).all(|(one, other)| same(one, other)));
        }
        let next = *chunk == earlier.len();
        let pass = PassArithmetic::new(evaluator, program, &cache, &mut session, (next, CHUNKS)).unwrap();
        let slots = program.layout().pack(setting.model.embed(tokens).view(), program.input_unit());
        let input = slots.iter().map(|slots| encrypt(slots)).collect();
        text.truncate(chunk * tokens.len());
        let before = setting.model.prefix_cache(&[public, &text].concat()).unwrap();
        let clear = Simulated::new(&setting.model, &before, &setting.design, &Noise::None, 1);
        let place = (public.len(), text.len() / tokens.len(), CHUNKS);
        let both = Beside { pass, program, clear, place, decrypt, rows: Vec::new() };
        passes.push(both.run(setting, input, tokens).0);
        text.extend(*tokens);
        earlier.truncate(*chunk);
        earlier.push(session.clone());
    }
    passes
}

/// A session that is built again from its vectors.
fn restored<V: Clone + Send + Sync>(program: &PassProgram, session: &Session<V>, public: usize) -> Session<V> {
    let mut vectors = session.vectors().cloned();
    let restored = program.restore((public, CHUNKS), session.chunk(), || vectors.next().ok_or("too few"));
    assert!(vectors.next().is_none());
    restored.unwrap()
}

/// Runs simulated passes. Returns the rows of each, and the keys.
fn simulated(setting: &Setting, program: &PassProgram, (public, run): (&[u32], &Run<'_>)) -> (Vec<Vec<Row>>, KeyPlan) {
    let encoder = Encoder::new(program.bootstrap().parameters());
    let simulator = Simulator::new(&encoder, 1);
    let evaluator = SimulatedEvaluator::new(&simulator, program.bootstrap());
    let scale = encoder.parameters().scale();
    let encrypt = |slots: &[Complex64]| simulator.encrypt(slots, program.input_level(), scale).unwrap();
    let decrypt = |vector: &Vector| vector.noisy().to_vec();
    // Simulated noise grows with each operation.
    let rows = beside((&evaluator, setting, program), (public, run), encrypt, &decrypt, &|_, _| true);
    // Values a little beyond 1 are less precise, but not wrong.
    let beyond = |overflow: &Overflow| overflow.log2_coefficient - overflow.log2_modulus;
    let overflows = simulator.overflows();
    assert!(overflows.iter().all(|overflow| beyond(overflow) < 0.5), "{overflows:?}");
    (rows, simulator.key_plan())
}

/// The keys of a client, and the matrices of bootstraps.
pub struct Client {
    pub encoder: Encoder,
    pub secret: SecretKey,
    evaluation: EvaluationKeys,
    small_keys: SmallRingKeys,
    bootstrapper: Bootstrapper,
}

impl Client {
    /// Exactly these keys, and the keys of the small ring.
    pub fn new(program: &PassProgram, keys: &KeyPlan, rng: &mut SecretRng) -> Self {
        let parameters = program.bootstrap().parameters();
        let encoder = Encoder::new(parameters);
        let secret = SecretKey::generate(parameters.rlwe(), rng).unwrap();
        let evaluation = EvaluationKeys::generate(&secret, keys, rng).unwrap();
        let small = program.small_ring();
        let small_keys = SeededSmallRingKeys::generate(small, &secret, rng).unwrap().expand(small).unwrap();
        let bootstrapper = Bootstrapper::new(&encoder, program.bootstrap().clone()).unwrap();
        Client { encoder, secret, evaluation, small_keys, bootstrapper }
    }

    pub fn evaluator(&self) -> EncryptedEvaluator<'_> {
        let evaluator = Evaluator::new(&self.encoder, &self.evaluation);
        EncryptedEvaluator::new(evaluator, &self.bootstrapper, &self.small_keys)
    }

    pub fn decrypt(&self, vector: &Ciphertext) -> Vec<Complex64> {
        self.encoder.decrypt(vector, &self.secret).unwrap().to_vec()
    }
}

/// Runs encrypted passes with exactly these keys and the keys of bootstraps.
fn encrypted(
    setting: &Setting,
    program: &PassProgram,
    (public, run): (&[u32], &Run<'_>),
    keys: &KeyPlan,
) -> Vec<Vec<Row>> {
    let parameters = program.bootstrap().parameters();
    let mut rng = SecretRng::insecure_from_seed(3);
    let mut keys = keys.clone();
    keys.extend(&program.bootstrap().key_plan());
    let client = Client::new(program, &keys, &mut rng);
    let encrypt = |slots: &[Complex64]| {
        let plaintext = client.encoder.encode(slots, program.input_level(), parameters.scale()).unwrap();
        client.encoder.encrypt(&plaintext, &client.secret, &mut rng).unwrap().expand(parameters)
    };
    let decrypt = |vector: &Ciphertext| client.decrypt(vector);
    let same = |a: &Ciphertext, b: &Ciphertext| a.to_bytes(parameters) == b.to_bytes(parameters);
    beside((&client.evaluator(), setting, program), (public, run), encrypt, &decrypt, &same)
}

/// Checks that errors are small, and that errors of encrypted passes are as the simulator predicts: within a bit over
/// all passes, for each place.
fn check(found: &[Vec<Row>], predicted: &[Vec<Row>], bits: f64) {
    assert_eq!(found.len(), predicted.len());
    for step in 0..found[0].len() {
        let rms = |passes: &[Vec<Row>]| {
            let squares = passes.iter().map(|rows| rows[step].rms * rows[step].rms);
            (squares.sum::<f64>() / passes.len() as f64).sqrt()
        };
        let (row, ratio) = (found[0][step], rms(found) / rms(predicted));
        let place = row.place;
        assert!(found.iter().all(|rows| rows[step].place == place));
        let worst = found.iter().map(|rows| (rows[step].largest / rows[step].worst).log2()).fold(f64::MAX, f64::min);
        assert!(worst > bits, "{place}: {worst:.1} bits");
        // Few values have an error that has hardly grown yet.
        let most = if (row.largest / rms(found)).log2() > 20.0 { 2.0 } else { 1.0 };
        assert!(ratio.log2().abs() < most, "{place}: measured over predicted 2^{:.1}", ratio.log2());
    }
}

/// Runs passes simulated and encrypted, and [checks](check) them. Returns the rows of the encrypted ones, and the keys.
pub fn agree(
    setting: &Setting,
    program: &PassProgram,
    passes: (&[u32], &Run<'_>),
    bits: f64,
) -> (Vec<Vec<Row>>, KeyPlan) {
    let (predicted, keys) = simulated(setting, program, passes);
    let found = encrypted(setting, program, passes, &keys);
    found.last().into_iter().for_each(|rows| print(rows));
    check(&found, &predicted, bits);
    (found, keys)
}
