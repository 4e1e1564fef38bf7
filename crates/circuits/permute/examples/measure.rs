//! Times the best plan of each strategy: `measure PRESET LOG2_LENGTH MAX_KEYS THREADS`.

use std::time::Instant;

use unspoken_ckks::{Complex64, CostModel, Encoder, ErrorStatistics, Evaluator, Preset};
use unspoken_permute::{Packing, Permutation, PermutationTask, PreparedPermutation, Strategy};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{EvaluationKeys, SecretKey};

const OUTPUT_LEVEL: usize = 1;

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut arguments = std::env::args().skip(1);
    let preset = arguments.next().unwrap_or_else(|| "n15_real_depth17_scale30".into());
    let log2 = arguments.next().map_or(Ok(9), |text| text.parse::<u32>())?;
    let max_keys = arguments.next().map(|text| text.parse()).transpose()?;
    let threads = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let parameters = Preset::find(&preset)?.build()?;
    let encoder = Encoder::new(&parameters);
    let mut rng = SecretRng::insecure_from_seed(1);
    let secret = SecretKey::generate(parameters.rlwe(), &mut rng)?;
    let permutation = Permutation::random(1 << log2, 1)?;
    let values: Vec<Complex64> = (0..1 << log2).map(|i| f64::from(i % 251).into()).collect();
    let expected = permutation.apply(&values)?;
    let pool = rayon_pool(threads)?;
    let task = PermutationTask {
        max_keys,
        ..PermutationTask::new(&permutation, Packing::Repeated, &parameters, OUTPUT_LEVEL)
    };
    pool.install(|| -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let model = CostModel::measure(&parameters)?;
        println!("{model:?}");
        let explanation = task.explain(&parameters, &model)?;
        for strategy in [Strategy::Copies, Strategy::Benes, Strategy::Windowed, Strategy::Network] {
            let Some(best) = explanation.best_of(strategy) else { continue };
            let prepared = PreparedPermutation::new(&parameters, &best.plan, OUTPUT_LEVEL, parameters.scale())?;
            let keys = EvaluationKeys::generate(&secret, prepared.key_plan(), &mut rng)?;
            let plaintext = encoder.encode(&values, prepared.input_level(), parameters.scale())?;
            let input = encoder.encrypt(&plaintext, &secret, &mut rng)?.expand(&parameters);
            let evaluator = Evaluator::new(&encoder, &keys);
            let output = prepared.apply(&evaluator, &input)?;
            let mut fastest = f64::INFINITY;
            for _ in 0..3 {
                let start = Instant::now();
                prepared.apply(&evaluator, &input)?;
                fastest = fastest.min(start.elapsed().as_secs_f64());
            }
            let found = encoder.decrypt(&output, &secret)?;
            let error = ErrorStatistics::between(&found[..expected.len()], &expected);
            let [hoisted, whole] = best.estimate.total_rotations();
            println!(
                "{strategy}: {:.1} ms, predicted {:.1}; depth {}, {hoisted} + {whole} rotations, {} masks of {} MB, {} \
                 keys of {} MB, error 2^{:.1}",
                fastest * 1e3,
                best.seconds * 1e3,
                best.estimate.depth,
                best.estimate.masks,
                best.estimate.prepared_bytes >> 20,
                best.estimate.keys.len(),
                best.estimate.keys.memory_bytes(parameters.ring()) >> 20,
                error.worst.log2(),
            );
        }
        Ok(())
    })
}

fn rayon_pool(threads: usize) -> Result<rayon::ThreadPool, rayon::ThreadPoolBuildError> {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build()
}
