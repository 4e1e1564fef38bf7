//! Trains on MNIST, runs the network on the first test images encrypted, and compares the scores with the scores in the
//! clear.
//!
//! ```text
//! python3 scripts/fetch_data.py mnist
//! cargo run --release -p unspoken-papers --example mnist -- data/mnist [lite|full] [images] [batch]
//! ```

use std::error::Error;
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use unspoken_ckks::{Arithmetic, Complex64, Encoder, Evaluator, Preset, Simulator};
use unspoken_cnn::{ImageLayout, PlainWeightsCircuit};
use unspoken_digits_model::{CLASSES, Image, LabelledImages, Network, Part, Progress, Shape, TrainOptions, fit};
use unspoken_papers::EncryptedWeightsCircuit;
use unspoken_ring::SecretRng;
use unspoken_rlwe::{EvaluationKeys, KeyBundle, SecretKey};

/// Maximum number of images for the circuit with encrypted weights, which is slow and runs with four batch sizes.
const MAX_ENCRYPTED_WEIGHT_IMAGES: usize = 512;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("give the folder of the data as the first argument")?;
    let shape = if arguments.next().as_deref() == Some("full") { Shape::FULL } else { Shape::LITE };
    let count: usize = arguments.next().map_or(Ok(512), |count| count.parse())?;
    let batch = arguments.next().map(|batch| batch.parse::<usize>()).transpose()?;
    let train = LabelledImages::read(&directory, Part::Train)?;
    let test = LabelledImages::read(&directory, Part::Test)?;
    let network = trained(&train, shape)?;
    println!("test accuracy {:.4} of {} images", network.accuracy(&test), test.len());
    println!("largest values on them {:?}, bounds {:?}", network.ranges(test.images()), network.bounds());
    for preset in ["n14_real_depth8_scale30", "n15_real_depth17_scale30"] {
        plain_weights(&network, &test, preset, count, batch)?;
        for batch in [8, 16, 32, 128] {
            encrypted_weights(&network, &test, preset, count.min(MAX_ENCRYPTED_WEIGHT_IMAGES), batch)?;
        }
    }
    Ok(())
}

fn trained(train: &LabelledImages, shape: Shape) -> Result<Network, Box<dyn Error>> {
    let start = Instant::now();
    let options = TrainOptions { shape, ..TrainOptions::default() };
    let mut progress = |p: &Progress| {
        let validation = p.validation_accuracy.unwrap_or(f64::NAN);
        let seconds = start.elapsed().as_secs_f64();
        println!("epoch {:2}: loss {:.4}, validation {validation:.4}, {seconds:.1} s", p.epoch, p.loss);
    };
    Ok(fit(train, &options, &mut progress, &AtomicBool::new(false))?)
}

/// Runs the circuit with plaintext weights.
fn plain_weights(
    network: &Network,
    test: &LabelledImages,
    preset: &str,
    count: usize,
    batch: Option<usize>,
) -> Result<(), Box<dyn Error>> {
    let parameters = Preset::find(preset)?.build()?;
    let batch = batch.unwrap_or(ImageLayout::largest_batch(network.shape(), parameters.slots()));
    let circuit = PlainWeightsCircuit::new(network, &parameters, batch)?;
    let layout = circuit.layout();
    let (level, scale) = (circuit.input_level(), circuit.scale());
    let encoder = Encoder::new(&parameters);
    let simulator = Simulator::new(&encoder, 1);
    let zero = simulator.encrypt(&[0.0.into()], level, scale)?;
    circuit.evaluate(&simulator, &vec![zero; layout.vectors()])?;
    let cost = simulator.cost();
    println!(
        "{preset}: batch {batch}, {} vectors, {} key switches {:?}, {} products, {} keys, {:.1} MB of keys",
        layout.vectors(),
        cost.total_key_switches(),
        cost.key_switches,
        cost.plaintext_products,
        circuit.key_plan().len(),
        KeyBundle::byte_len(parameters.rlwe(), circuit.key_plan()) as f64 / 1e6,
    );
    let mut rng = SecretRng::from_os()?;
    let secret = SecretKey::generate(parameters.rlwe(), &mut rng)?;
    let keys = EvaluationKeys::generate(&secret, circuit.key_plan(), &mut rng)?;
    let evaluator = Evaluator::new(&encoder, &keys);
    let (mut difference, mut fastest, mut bytes) = (Difference::default(), f64::INFINITY, 0);
    for images in test.images()[..count].chunks(batch) {
        let mut inputs = Vec::new();
        for values in layout.arrange(images)? {
            let seeded = encoder.encrypt(&encoder.encode(&values, level, scale)?, &secret, &mut rng)?;
            bytes = seeded.to_bytes(&parameters).len();
            inputs.push(seeded.expand(&parameters));
        }
        let start = Instant::now();
        let answer = circuit.evaluate(&evaluator, &inputs)?;
        fastest = fastest.min(start.elapsed().as_secs_f64());
        assert_eq!(evaluator.level(&answer), 0);
        let found = layout.scores(&encoder.decrypt(&answer, &secret)?, images.len())?;
        difference.add(network, images, &found);
    }
    println!(
        "{preset}: {difference}; {:.1} ms a batch, {:.2} MB",
        1e3 * fastest,
        (bytes * layout.vectors()) as f64 / 1e6
    );
    Ok(())
}

/// Runs the circuit with encrypted weights. Images and weights are encrypted under one key.
fn encrypted_weights(
    network: &Network,
    test: &LabelledImages,
    preset: &str,
    count: usize,
    batch: usize,
) -> Result<(), Box<dyn Error>> {
    let parameters = Preset::find(preset)?.build()?;
    let circuit = EncryptedWeightsCircuit::new(network.shape(), &parameters, batch)?;
    let layout = circuit.layout();
    let (level, scale) = (circuit.input_level(), circuit.scale());
    let encoder = Encoder::new(&parameters);
    let mut rng = SecretRng::from_os()?;
    let secret = SecretKey::generate(parameters.rlwe(), &mut rng)?;
    let plan = circuit.key_plan();
    let keys = EvaluationKeys::generate(&secret, plan, &mut rng)?;
    let evaluator = Evaluator::new(&encoder, &keys);
    let mut encrypt = |values: &[Complex64], level: usize, scale: f64| {
        let seeded = encoder.encrypt(&encoder.encode(values, level, scale)?, &secret, &mut rng)?;
        Ok(seeded.expand(&parameters))
    };
    let weights = circuit.encrypt_network(network, &mut encrypt)?;
    let (mut difference, mut fastest) = (Difference::default(), f64::INFINITY);
    for images in test.images()[..count].chunks(batch) {
        let arranged = layout.arrange(images)?;
        let inputs = arranged.iter().map(|slots| encrypt(slots, level, scale)).collect::<Result<Vec<_>, _>>()?;
        let start = Instant::now();
        let answer = circuit.evaluate(&evaluator, &weights, &inputs)?;
        fastest = fastest.min(start.elapsed().as_secs_f64());
        let slots = answer.iter().map(|vector| encoder.decrypt(vector, &secret).map(|slots| slots.to_vec()));
        let slots = slots.collect::<Result<Vec<_>, _>>()?;
        difference.add(network, images, &layout.scores(&slots, images.len())?);
    }
    println!(
        "{preset}, weights encrypted: batch {batch}, {} vectors of images, {} of weights, {} keys, {:.1} MB of keys",
        layout.vectors(),
        weights.vectors(),
        plan.len(),
        KeyBundle::byte_len(parameters.rlwe(), plan) as f64 / 1e6,
    );
    println!("{preset}, weights encrypted: {difference}; {:.1} ms a batch", 1e3 * fastest);
    Ok(())
}

/// Comparison of encrypted scores with scores in the clear.
#[derive(Default)]
struct Difference {
    images: usize,
    labels: usize,
    worst: f64,
}

impl Difference {
    fn add(&mut self, network: &Network, images: &[Image], found: &[[f64; CLASSES]]) {
        let largest = |scores: &[f64; CLASSES]| (0..CLASSES).max_by(|&a, &b| scores[a].total_cmp(&scores[b]));
        for (found, image) in found.iter().zip(images) {
            let exact = network.scores(image);
            self.images += 1;
            self.labels += usize::from(largest(found) != largest(&exact));
            self.worst = found.iter().zip(&exact).map(|(a, b)| (a - b).abs()).fold(self.worst, f64::max);
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} images: {} labels differ, worst score error {:.1e}", self.images, self.labels, self.worst)
    }
}
