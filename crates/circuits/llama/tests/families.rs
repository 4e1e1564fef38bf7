//! Models of other families, prepared and simulated: small ones with random weights, whose logits the tests of
//! `unspoken-llama-files` compare with those of transformers.

use std::path::Path;

use unspoken_ckks::Preset;
use unspoken_llama::{
    Circuit, DesignOptions, EngineNoise, Margins, Noise, Place, Preparation, Quantity, Sample, Simulation, calibrate,
};
use unspoken_llama_files::load;
use unspoken_llama_model::{Model, rotate};

fn model_of(family: &str) -> Model {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/llama-files/tests/families");
    load(&folder.join(family), None).unwrap().model
}

/// Texts of random tokens.
fn texts(vocabulary: usize, seeds: std::ops::Range<usize>) -> Vec<Sample> {
    let text = |seed: usize| {
        let token = |i: usize| ((i * i * (7 + seed) + 13 * i + seed * seed) % vocabulary) as u32;
        Sample { public: (0..20).map(token).collect(), private: (20..60).map(token).collect() }
    };
    seeds.map(text).collect()
}

/// Prepares a model, reads the preparation as it was written, and simulates it.
fn prepare(family: &str, places: &[Quantity]) {
    let stored = model_of(family);
    let (config, weights, seed, rounds) = (stored.config.clone(), stored.weights.digest(), 3, 4);
    let mut model = stored.clone();
    rotate(&config, &mut model.weights, seed);
    let circuit = Circuit::new(&config).with_rounds(rounds);
    let ranges = calibrate(&circuit, &model, &texts(config.vocabulary, 0..40), 8, |_| {}).unwrap();
    let margins = Margins { norm: 1.3, softmax: 1.6, score: 1.5, gate: 1.5 };
    let options = DesignOptions { margins, tokens: Some(64), ..DesignOptions::default() };
    let (prefix, least_public) = (Vec::new(), Some(20));
    let written = Preparation { config, weights, prefix, seed, rounds, options, ranges, least_public };
    let (record, ranges) = (written.record_bytes().unwrap(), written.ranges_bytes().unwrap());
    let read = Preparation::from_bytes(&record, &ranges).unwrap();
    assert_eq!(read, written);

    let served = read.rotated(stored).unwrap();
    let (circuit, design) = (read.circuit(), read.design().unwrap());
    for quantity in places {
        assert!(design.approximation(Place::new(1, *quantity)).is_some(), "{quantity}");
    }
    let parameters = Preset::find("n16_boot_depth15_scale40").unwrap().build().unwrap();
    let engine = EngineNoise::new(&parameters, 40.0, 18.0, &design).unwrap();
    let noises = [Noise::None, Noise::Bits(14.0), Noise::Engine(engine)];
    let simulation = Simulation { circuit: &circuit, model: &model, served: &served, design: &design, chunk: 8 };
    let held_out = texts(read.config.vocabulary, 40..44);
    let results = simulation.compare(&noises, &held_out, |_| {}).unwrap();
    for result in &results[1..] {
        println!(
            "{family}: {} escaped, agreement {}, error {}",
            result.escaped(),
            result.agreement(),
            result.logit_error
        );
        assert_eq!(result.escaped(), 0);
        assert!(result.agreement() > 0.98 && result.divergence() < 1e-3, "{result:?}");
    }
    // The record of a model with another attention is not that of this one.
    let plain = String::from_utf8(record).unwrap();
    for part in ["input_biases", "head_norms"] {
        let (from, to) = (format!("\"{part}\": true"), format!("\"{part}\": false"));
        if plain.contains(&from) {
            let other = Preparation::from_bytes(plain.replace(&from, &to).as_bytes(), &ranges).unwrap();
            let error = other.rotated(model_of(family)).unwrap_err().to_string();
            assert!(error.contains("other dimensions or constants"), "{error}");
        }
    }
}

#[test]
fn a_model_of_qwen2_is_prepared_and_simulated() {
    prepare("qwen2", &[]);
}

#[test]
fn a_model_of_qwen3_is_prepared_and_simulated() {
    prepare("qwen3", &[Quantity::QueryNormFactor, Quantity::KeyNormFactor]);
}

#[test]
fn a_model_of_llama_with_all_biases_is_prepared_and_simulated() {
    prepare("llama-biases", &[]);
}

#[test]
fn a_model_of_smollm3_is_prepared_and_simulated() {
    prepare("smollm3", &[]);
}
