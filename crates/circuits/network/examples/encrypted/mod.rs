//! Encrypted runs of programs with one input and one output.

use std::time::Instant;

use ndarray::ArrayView2;
use unspoken_ckks::{Ciphertext, Encoder, Evaluator};
use unspoken_network::{Answer, Program};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{EvaluationKeys, SecretKey};

/// The answer for rows, and the least seconds of some runs. Weights that are kept are encoded before.
pub fn run(
    program: &Program,
    rows: ArrayView2<'_, f64>,
    runs: usize,
) -> Result<(Answer, f64), Box<dyn std::error::Error>> {
    let parameters = program.parameters();
    let encoder = Encoder::new(parameters);
    let mut rng = SecretRng::insecure_from_seed(1);
    let secret = SecretKey::generate(parameters.rlwe(), &mut rng)?;
    let keys = EvaluationKeys::generate(&secret, program.key_plan(), &mut rng)?;
    let mut vectors = Vec::new();
    for slots in program.inputs()[0].arrange(rows)? {
        let plaintext = encoder.encode(&slots, program.input_level(), program.scale())?;
        vectors.push(encoder.encrypt(&plaintext, &secret, &mut rng)?.expand(parameters));
    }
    let start = Instant::now();
    program.prepare(&encoder)?;
    println!("  weights encoded in {:.2} s", start.elapsed().as_secs_f64());
    let (evaluator, mut best, mut answer) = (Evaluator::new(&encoder, &keys), f64::INFINITY, Vec::new());
    for _ in 0..runs {
        let start = Instant::now();
        answer = program.evaluate(&evaluator, std::slice::from_ref(&vectors))?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    let decrypt = |vector: &Ciphertext| encoder.decrypt(vector, &secret);
    let slots = answer[0].iter().map(decrypt).collect::<Result<Vec<_>, _>>()?;
    Ok((program.outputs()[0].read(&slots, rows.nrows())?, best))
}
