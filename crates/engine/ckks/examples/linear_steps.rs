//! Predicted and measured seconds of a linear transformation for every number of baby steps, on one thread.
//!
//! `cargo run --release -p unspoken-ckks --example linear_steps -- n14_depth8_scale30 5 64`: the arguments are the
//! preset, the level and the number of adjacent diagonals.

use std::collections::BTreeMap;
use std::time::Instant;

use unspoken_ckks::{Complex64, CostModel, Encoder, Evaluator, LinearPlan, LinearTransform, Preset, Steps};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{EvaluationKeys, SecretKey};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [preset, level, count] = arguments.as_slice() else { return Err("usage: PRESET LEVEL DIAGONALS".into()) };
    let (level, count): (usize, usize) = (level.parse()?, count.parse()?);
    let parameters = Preset::find(preset)?.build()?;
    let (encoder, scale) = (Encoder::new(&parameters), parameters.scale());
    let diagonal = |k: usize| (k, vec![Complex64::from(1.0 / count as f64); parameters.slots()]);
    let diagonals: BTreeMap<usize, Vec<Complex64>> = (0..count).map(diagonal).collect();
    let chosen = LinearPlan::new(&parameters, diagonals, level, scale, scale)?;
    let (nominal, measured) = (CostModel::nominal(&parameters), CostModel::measure(&parameters)?);
    let mut rng = SecretRng::from_os()?;
    let secret = SecretKey::generate(parameters.rlwe(), &mut rng)?;
    let plaintext = encoder.encode(&[Complex64::from(0.5)], level, scale)?;
    let input = encoder.encrypt(&plaintext, &secret, &mut rng)?.expand(&parameters);
    println!("{preset}, level {level}, {count} diagonals; chosen: {} baby steps", chosen.steps().babies);
    println!("{:>6} {:>5} {:>12} {:>12} {:>12}", "babies", "keys", "nominal/ms", "measured/ms", "time/ms");
    for babies in (0..=count.ilog2()).map(|log2| 1 << log2) {
        let plan = chosen.clone().with_steps(Steps::of_babies(babies))?;
        let keys = EvaluationKeys::generate(&secret, &plan.key_plan(), &mut rng)?;
        let (cost, needed) = (plan.cost(), plan.key_plan().len());
        let transform = LinearTransform::new(&encoder, plan)?;
        let evaluator = Evaluator::new(&encoder, &keys);
        let mut fastest = f64::INFINITY;
        for _ in 0..5 {
            let start = Instant::now();
            transform.apply(&evaluator, &input)?;
            fastest = fastest.min(start.elapsed().as_secs_f64());
        }
        let [nominal, measured] = [&nominal, &measured].map(|model| model.seconds(&cost) * 1e3);
        println!("{babies:>6} {needed:>5} {nominal:>12.1} {measured:>12.1} {:>12.1}", fastest * 1e3);
    }
    Ok(())
}
