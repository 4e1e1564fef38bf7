//! A circuit with keys, encrypted weights and a full batch of encrypted images.

use unspoken_ckks::{Ciphertext, CkksParameters, Complex64, Encoder, Evaluator, SeededCiphertext, Simulator};
use unspoken_digits_model::{CLASSES, Image, PIXELS};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{EvaluationKeys, KeyBundle, KeyPlan, SecretKey};

use super::circuit::Circuit;
use super::{KEY_SWITCHES, KEY_WIRE, KEYS, LEVELS, PRODUCTS, QUERY_WIRE};
use crate::clock::Stopwatch;
use crate::error::{larger_error, wrong};
use crate::row::Metric;
use crate::untrained::{network, pseudorandom};

/// Largest allowed error of a score; scores are about 1.
const TOLERANCE: f64 = 1e-2;

pub(super) struct CircuitFixture<C: Circuit> {
    pub(super) circuit: C,
    encoder: Encoder,
    keys: EvaluationKeys,
    plan: KeyPlan,
    weights: C::Weights<Ciphertext>,
    inputs: Vec<Ciphertext>,
    key_switches: u64,
    products: u64,
}

fn random_images(count: usize) -> anyhow::Result<Vec<Image>> {
    let pixel = |i: usize| (127.5 * (1.0 + pseudorandom(1000 + i))) as u8;
    let image = |i: usize| {
        let pixels: Vec<u8> = (0..PIXELS).map(|p| pixel(i * PIXELS + p)).collect();
        Ok(Image::new(&pixels)?)
    };
    (0..count).map(image).collect()
}

impl<C: Circuit> CircuitFixture<C> {
    /// Generates keys from a fixed seed, and checks one evaluation against the network in the clear.
    pub(super) fn new(circuit: C, parameters: &CkksParameters) -> anyhow::Result<Self> {
        let images = random_images(circuit.batch())?;
        let arranged = circuit.arrange(&images)?;
        let (level, scale) = (circuit.levels(), parameters.scale());
        let encoder = Encoder::new(parameters);
        let simulator = Simulator::new(&encoder, 1);
        let network = network(circuit.shape())?;
        let zero = simulator.encrypt(&[Complex64::default()], level, scale)?;
        let mut simulate = |_: &[Complex64], level, scale| simulator.encrypt(&[Complex64::default()], level, scale);
        let weights = circuit.encrypt(&network, &mut simulate)?;
        circuit.evaluate(&simulator, &weights, &vec![zero; arranged.len()])?;
        let (plan, cost) = (simulator.key_plan(), simulator.cost());
        let mut rng = SecretRng::insecure_from_seed(8);
        let secret = SecretKey::generate(parameters.rlwe(), &mut rng)?;
        let keys = EvaluationKeys::generate(&secret, &plan, &mut rng)?;
        let mut encrypt = |slots: &[Complex64], level, scale| {
            let seeded = encoder.encrypt(&encoder.encode(slots, level, scale)?, &secret, &mut rng)?;
            Ok(seeded.expand(parameters))
        };
        let weights = circuit.encrypt(&network, &mut encrypt)?;
        let inputs = arranged.iter().map(|slots| encrypt(slots, level, scale)).collect::<Result<_, _>>()?;
        let (key_switches, products) = (cost.total_key_switches(), cost.tensors + cost.plaintext_products);
        let fixture = CircuitFixture { circuit, encoder, keys, plan, weights, inputs, key_switches, products };
        let answer = fixture.answer()?;
        let slots = answer.iter().map(|vector| fixture.encoder.decrypt(vector, &secret).map(|slots| slots.to_vec()));
        let slots = slots.collect::<Result<Vec<_>, _>>()?;
        let found = fixture.circuit.scores(&slots)?;
        let exact: Vec<[f64; CLASSES]> = images.iter().map(|image| network.scores(image)).collect();
        let pairs = found.iter().flatten().zip(exact.iter().flatten());
        let found = pairs.map(|(found, exact)| (found - exact).abs()).fold(0.0, larger_error);
        if found.is_nan() || found > TOLERANCE {
            return Err(wrong(C::NAME, found, TOLERANCE));
        }
        Ok(fixture)
    }

    pub(super) fn parameters(&self) -> &CkksParameters {
        self.encoder.parameters()
    }

    /// Seconds of one evaluation.
    pub(super) fn time(&self, stopwatch: Stopwatch<'_>) -> anyhow::Result<f64> {
        stopwatch.seconds(|| self.answer())
    }

    /// Counts and bytes, which do not depend on the machine.
    pub(super) fn counts(&self) -> Vec<(Metric, f64)> {
        let vector = SeededCiphertext::byte_len(self.parameters(), self.circuit.levels());
        vec![
            (KEY_SWITCHES, self.key_switches as f64),
            (PRODUCTS, self.products as f64),
            (LEVELS, self.circuit.levels() as f64),
            (KEYS, self.plan.len() as f64),
            (KEY_WIRE, KeyBundle::byte_len(self.parameters().rlwe(), &self.plan) as f64),
            (QUERY_WIRE, (vector * self.inputs.len()) as f64),
        ]
    }

    fn answer(&self) -> anyhow::Result<Vec<Ciphertext>> {
        self.circuit.evaluate(&Evaluator::new(&self.encoder, &self.keys), &self.weights, &self.inputs)
    }
}
