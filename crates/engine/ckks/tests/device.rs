//! A server on a device computes the bits of one on the processor.

use std::sync::atomic::AtomicBool;

use unspoken_ckks::{
    Arithmetic, Bootstrap, Bootstrapper, Ciphertext, CkksError, CkksParameters, Complex64, Encoder, Evaluator,
    LinearPlan, LinearTransform, Preset, SeededCiphertext, Simulator, SlotValues, Steps,
};
use unspoken_ring::{Device, SecretRng};
use unspoken_rlwe::{EvaluationKeys, KeyBundle, KeyPlan, KeyStorage, SecretKey};

const PRESET: &str = "insecure_n11_depth9_scale50";
const BOOT: &str = "insecure_n11_boot_depth9_scale50";

fn parameters(preset: &str) -> CkksParameters {
    CkksParameters::new(Preset::find(preset).unwrap().literal().unwrap()).unwrap()
}

/// What a client sends: its keys, and encrypted vectors.
struct Sent {
    keys: Vec<u8>,
    vectors: Vec<Vec<u8>>,
}

impl Sent {
    fn new(preset: &str, plan: &KeyPlan, level: usize) -> Self {
        let parameters = parameters(preset);
        let encoder = Encoder::new(&parameters);
        let mut rng = SecretRng::insecure_from_seed(1);
        let secret = SecretKey::generate(parameters.rlwe(), &mut rng).unwrap();
        let mut keys = Vec::new();
        KeyBundle::write(&secret, plan, &mut rng, &mut keys, |_, _| (), &AtomicBool::new(false)).unwrap();
        let vectors = (1..=2).map(|factor| {
            let value = |i: usize| Complex64::new((factor * i % 7) as f64 / 7.0, (i % 5) as f64 / 9.0);
            let values: Vec<Complex64> = (0..parameters.slots()).map(value).collect();
            let plaintext = encoder.encode(&values, level, parameters.scale()).unwrap();
            encoder.encrypt(&plaintext, &secret, &mut rng).unwrap().to_bytes(&parameters)
        });
        Sent { vectors: vectors.collect(), keys }
    }

    /// The bytes of what a server computes from them, on the processor or on a device; and how many polynomials were
    /// fetched from the device in between.
    fn served(
        &self,
        parameters: &CkksParameters,
        storage: KeyStorage,
        work: impl Fn(&Evaluator<'_>, &[Ciphertext]) -> Result<Vec<Ciphertext>, CkksError>,
    ) -> (Vec<Vec<u8>>, u64) {
        let encoder = Encoder::new(parameters);
        let keys: EvaluationKeys = KeyBundle::read(parameters.rlwe(), storage, &mut self.keys.as_slice()).unwrap();
        let read = |bytes: &Vec<u8>| SeededCiphertext::from_bytes(parameters, bytes).unwrap().expand(parameters);
        let inputs: Vec<Ciphertext> = self.vectors.iter().map(read).collect();
        let before = parameters.ring().fetched_polynomials();
        let results = work(&Evaluator::new(&encoder, &keys), &inputs).unwrap();
        let fetched = parameters.ring().fetched_polynomials() - before;
        let bytes = results.into_iter().map(|mut result| {
            result.fetch(parameters).unwrap();
            result.to_bytes(parameters)
        });
        (bytes.collect(), fetched)
    }

    /// That both compute the same. Returns how many polynomials were fetched.
    fn same(
        &self,
        preset: &str,
        device: &Device,
        work: impl Fn(&Evaluator<'_>, &[Ciphertext]) -> Result<Vec<Ciphertext>, CkksError>,
    ) -> u64 {
        let host = parameters(preset);
        let there = host.on_device(device).unwrap();
        let (wanted, _) = self.served(&host, KeyStorage::Expanded, &work);
        let (found, fetched) = self.served(&there, KeyStorage::Expanded, &work);
        assert!(wanted == found, "other bits");
        fetched
    }
}

/// Products, rotations and a linear transformation.
fn arithmetic<A: Arithmetic>(a: &A, x: &A::Vector, y: &A::Vector) -> Result<Vec<A::Vector>, CkksError> {
    let product = a.multiply(x, y)?;
    let rotated = a.rotate_hoisted(&product, &[1, 2, 5])?;
    let sum = rotated.iter().skip(1).try_fold(rotated[0].clone(), |sum, v| a.add(&sum, v))?;
    let square = a.multiply(&sum, &sum)?;
    Ok(vec![a.rotate(&square, 3)?, a.sub(&sum, &rotated[0])?])
}

fn diagonals(parameters: &CkksParameters, level: usize, input_scale: f64) -> LinearPlan {
    let value = |k: usize, j: usize| Complex64::new((k + j) as f64 / 2048.0, (k * j % 11) as f64 / 11.0);
    let diagonal = |k: usize| (k, (0..parameters.slots()).map(|j| value(k, j)).collect());
    let plan = LinearPlan::new(parameters, (0..20).map(diagonal).collect(), level, input_scale, parameters.scale());
    plan.unwrap().with_steps(Steps::of_babies(5)).unwrap()
}

#[test]
fn a_server_on_a_device_computes_the_same_bits() {
    let device = unspoken_device_shim::device(2 << 30);
    let counter = Simulator::counting(&Encoder::new(&parameters(PRESET)));
    let level = 6;
    let input = counter.encrypt(&[], level, counter.parameters().scale()).unwrap();
    let results = arithmetic(&counter, &input, &input).unwrap();
    let after = counter.level(&results[0]);
    let mut plan = counter.key_plan();
    plan.extend(&diagonals(counter.parameters(), after, 1e15).key_plan());
    let fetched = Sent::new(PRESET, &plan, level).same(PRESET, &device, |evaluator, inputs| {
        let mut results = arithmetic(evaluator, &inputs[0], &inputs[1])?;
        let encoder = evaluator.encoder();
        let transform = LinearTransform::new(encoder, diagonals(encoder.parameters(), after, results[0].scale()))?;
        results.push(transform.apply(evaluator, &results[0])?);
        Ok(results)
    });
    assert_eq!(fetched, 0, "nothing comes from the device before the results");
}

#[test]
fn a_bootstrap_on_a_device_computes_the_same_bits() {
    let device = unspoken_device_shim::device(4 << 30);
    let plan =
        |parameters: &CkksParameters| Bootstrap::new(parameters, parameters.slots(), SlotValues::Complex).unwrap();
    let planned = plan(&parameters(BOOT));
    let sent = Sent::new(BOOT, &planned.key_plan(), planned.input_level());
    let between = std::cell::Cell::new(0);
    sent.same(BOOT, &device, |evaluator, inputs| {
        let encoder = evaluator.encoder();
        let bootstrapper = Bootstrapper::new(encoder, plan(encoder.parameters()))?;
        let first = bootstrapper.refresh(evaluator, &inputs[0])?;
        // Short forms of keys are made at their first use, on the processor.
        let before = encoder.parameters().ring().fetched_polynomials();
        let second = bootstrapper.refresh(evaluator, &inputs[1])?;
        between.set(encoder.parameters().ring().fetched_polynomials() - before);
        Ok(vec![first, second])
    });
    assert_eq!(between.get(), 0, "nothing comes from the device before the results");
}
