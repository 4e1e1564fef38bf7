//! Measures every product method in every encoding space, compares the times with the planner's predictions, and prints
//! how much slower the planner's choice is than the best method.
//!
//! `cargo run --release -p unspoken-encrypted-matrix --example planner -- insecure_n11_real_depth17_scale30 8`

use std::time::Instant;

use ndarray::Array2;
use unspoken_ckks::{CostModel, Encoder, Evaluator, Preset};
use unspoken_encrypted_matrix::{EncryptedMatrix, Estimate, Layout, Product, ProductTask, estimates};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{EvaluationKeys, KeyPlan, SecretKey};

/// Number of repetitions. The fastest one counts.
const REPETITIONS: usize = 3;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let preset = arguments.next().unwrap_or_else(|| "n14_real_depth8_scale30".into());
    let dim: usize = arguments.next().map_or(Ok(8), |d| d.parse())?;
    let encoder = Encoder::new(&Preset::find(&preset)?.build()?);
    let (parameters, model) = (encoder.parameters(), CostModel::nominal(encoder.parameters()));
    for blocks in (0..=dim.ilog2()).rev().map(|log2| 1 << log2) {
        let Ok(layout) = Layout::new(parameters, dim, blocks) else { continue };
        let task =
            ProductTask { layout, shape: (dim, dim, dim), output_level: parameters.max_level() - 3, most_keys: None };
        let all = estimates(&encoder, &model, &task)?;
        println!("d = {dim}, {blocks} blocks, {} products at once", layout.parallel());
        let measured = all.iter().map(|e| measure(&encoder, layout, e)).collect::<Result<Vec<f64>, _>>()?;
        let best = measured.iter().copied().fold(f64::INFINITY, f64::min);
        for (estimate, seconds) in all.iter().zip(&measured) {
            println!(
                "  {:<18} {:>4} keys  predicted {:>8.1} ms, measured {:>8.1} ms",
                estimate.method.to_string(),
                estimate.rotation_keys(),
                1e3 * estimate.seconds,
                1e3 * seconds
            );
        }
        println!("  the choice is {:.0} % slower than the best", 100.0 * (measured[0] / best - 1.0));
    }
    Ok(())
}

fn measure(encoder: &Encoder, layout: Layout, estimate: &Estimate) -> Result<f64, Box<dyn std::error::Error>> {
    let parameters = encoder.parameters();
    let mut rng = SecretRng::insecure_from_seed(1);
    let secret = SecretKey::generate(parameters.rlwe(), &mut rng)?;
    let plan: &KeyPlan = &estimate.keys;
    let keys = EvaluationKeys::generate(&secret, plan, &mut rng)?;
    let matrix = Array2::from_elem((layout.dim(), layout.dim()), 0.1);
    let encrypted = EncryptedMatrix::encrypt(encoder, &secret, layout, &[matrix], estimate.level, &mut rng)?;
    let encrypted = encrypted.expand(parameters);
    let product = Product::new(parameters, layout, estimate.method, estimate.level, [parameters.scale(); 2])?;
    let evaluator = Evaluator::new(encoder, &keys);
    product.apply(&evaluator, &encrypted, &encrypted)?;
    let mut best = f64::INFINITY;
    for _ in 0..REPETITIONS {
        let start = Instant::now();
        product.apply(&evaluator, &encrypted, &encrypted)?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    Ok(best)
}
