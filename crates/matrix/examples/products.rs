use std::time::Instant;
use unspoken_ckks::*;
use unspoken_matrix::*;
use unspoken_ring::SecretRng;
use unspoken_rlwe::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dims: Vec<usize> =
        std::env::args().nth(1).unwrap_or("8".into()).split(',').map(|d| d.parse().unwrap()).collect();
    let run: bool = std::env::args().nth(2).is_some();
    let only: Option<String> = std::env::args().nth(3);
    let parameters = Preset::find("n15_real_depth17_scale30")?.build()?;
    let encoder = Encoder::new(&parameters);
    let model = CostModel::nominal(&parameters);
    for d in dims {
        for log in (0..=d.ilog2()).rev() {
            let Ok(layout) = Layout::new(&parameters, d, 1 << log) else { continue };
            let output_level = parameters.max_level() - 3;
            let task = Task { layout, shape: (d, d, d), output_level, most_keys: None };
            let t = Instant::now();
            let all = estimates(&encoder, &model, &task)?;
            println!("d={d} m={} P={} planned in {:.2?}", 1 << log, layout.parallel(), t.elapsed());
            for (i, e) in all.iter().enumerate() {
                let name = e.method.to_string();
                let wanted = match &only {
                    Some(o) => o.split(',').any(|o| o == name),
                    None => i < 3 || name.starts_with("orig") || name == "jkls",
                };
                if !wanted {
                    continue;
                }
                let ms = e.seconds * 1e3;
                print!(
                    "  {name:<18} keys {:>3} {:>7.0} MB switches {:>4}  predicted {ms:>8.0} ms, {:>8.3} per product",
                    e.rotation_keys(),
                    e.keys.memory_bytes(parameters.ring()) as f64 / 1e6,
                    e.cost.total_key_switches(),
                    ms / layout.parallel() as f64
                );
                if run {
                    let mut rng = SecretRng::insecure_from_seed(1);
                    let secret = SecretKey::generate(parameters.rlwe(), &mut rng)?;
                    let keys = EvaluationKeys::generate(&secret, &e.keys, &mut rng)?;
                    let m: Vec<_> = (0..layout.parallel())
                        .map(|p| {
                            ndarray::Array2::from_shape_fn((d, d), |(i, j)| {
                                ((i * 7 + j * 13 + p) % 17) as f64 / 17.0 - 0.5
                            })
                        })
                        .collect();
                    let x =
                        EncryptedMatrix::encrypt(&encoder, &secret, layout, &m, e.level, &mut rng)?.expand(&parameters);
                    let product = Product::new(&parameters, layout, e.method, e.level, [parameters.scale(); 2])?;
                    let evaluator = Evaluator::new(&encoder, &keys);
                    product.apply(&evaluator, &x, &x)?;
                    let t = Instant::now();
                    let out = product.apply(&evaluator, &x, &x)?;
                    let ms = t.elapsed().as_secs_f64() * 1e3;
                    let out = out.decrypt(&encoder, &secret)?;
                    let err = out
                        .iter()
                        .zip(&m)
                        .map(|(o, m)| (o - m.dot(m)).iter().fold(0.0f64, |a, x| a.max(x.abs())))
                        .fold(0.0, f64::max);
                    print!("  ran {ms:>8.0} ms, {:>8.3} per product, error {err:.1e}", ms / layout.parallel() as f64);
                }
                println!();
            }
        }
    }
    Ok(())
}
