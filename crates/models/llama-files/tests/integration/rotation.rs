//! Rotation does not change what a model computes.

use std::path::Path;

use ndarray::Array2;
use unspoken_llama_files::{LoadedModel, load};
use unspoken_llama_model::{
    InputError, KvCache, Model, PrefixSearch, Statistics, Step, find_prefix, fold_norms, perplexity, perplexity_after,
    rotate,
};

fn stories() -> LoadedModel {
    load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../models/stories260K/stories260K.bin"), None).unwrap()
}

const TEXT: &str = "Tom and Mia went to the park. They saw a dog with a long tail, and the dog wanted to play ball.";

fn logits(model: &Model, tokens: &[u32]) -> Array2<f32> {
    model.logits(model.forward(tokens, &mut KvCache::new(&model.config), &mut ()).unwrap().view())
}

#[test]
fn folded_norms_and_rotations_keep_the_logits() {
    let LoadedModel { model, tokenizer } = stories();
    let tokens = tokenizer.encode(TEXT).unwrap();
    let expected = logits(&model, &tokens);
    let scale = expected.iter().fold(0.0f32, |most, value| most.max(value.abs()));
    let largest_difference = |model: &Model| {
        (&logits(model, &tokens) - &expected).iter().fold(0.0f32, |most, value| most.max(value.abs())) / scale
    };
    let mut folded = model.clone();
    fold_norms(&mut folded.weights);
    assert!(folded.weights.layers[3].ffn_norm.iter().all(|gain| *gain == 1.0));
    assert!(largest_difference(&folded) < 1e-5, "{}", largest_difference(&folded));
    let mut rotated = model.clone();
    rotate(&rotated.config, &mut rotated.weights, 5);
    assert!(rotated.weights.layers[0].query != folded.weights.layers[0].query);
    assert!(largest_difference(&rotated) < 1e-5, "{}", largest_difference(&rotated));
}

#[test]
fn statistics_cover_every_coordinate_and_head() {
    let LoadedModel { model, tokenizer } = stories();
    let tokens = tokenizer.encode(TEXT).unwrap();
    let mut statistics = Statistics::new();
    for _ in 0..2 {
        model.forward(&tokens, &mut KvCache::new(&model.config), &mut statistics).unwrap();
    }
    let gates = statistics.range(2, Step::Gate).unwrap();
    assert_eq!((gates.least.len(), gates.count), (172, 2 * 172 * tokens.len() as u64));
    assert!(gates.least.iter().zip(&gates.most).all(|(least, most)| least <= most));
    let scores = statistics.range(2, Step::Score).unwrap();
    let rows = tokens.len() as u64;
    assert_eq!((scores.least.len(), scores.count), (8, 2 * 8 * rows * (rows + 1) / 2));
    assert!(statistics.largest(Step::Score) > 1.0);
}

#[test]
fn perplexity_behind_a_prefix_is_that_of_the_whole_text() {
    let LoadedModel { model, tokenizer } = stories();
    let tokens = tokenizer.encode(TEXT).unwrap();
    let whole = perplexity(&model, &tokens, tokens.len()).unwrap();
    let mut seen = 0;
    let mut observer = |layer: usize, step: Step, values: ndarray::ArrayView2<f32>| {
        if (layer, step) == (0, Step::Residual) {
            seen += values.nrows();
        }
    };
    let none = perplexity_after(&model, &[], &[tokens.clone(), tokens.clone()], &mut observer).unwrap();
    assert!((none / whole - 1.0).abs() < 1e-6, "{none} {whole}");
    assert_eq!(seen, 2 * tokens.len());
    // Without the surprise of the first tokens, which are the prefix.
    let behind = perplexity_after(&model, &tokens[..6], &[tokens[6..].to_vec()], &mut ()).unwrap();
    let (rest, first) = ((tokens.len() - 7) as f64, perplexity(&model, &tokens[..7], 7).unwrap());
    assert!((rest * behind.ln() + 6.0 * first.ln() - (rest + 6.0) * whole.ln()).abs() < 1e-3);
    assert!(matches!(perplexity_after(&model, &[1], &[vec![5]], &mut ()), Err(InputError::Empty)));
}

#[test]
fn a_prefix_is_never_worse_than_none() {
    let LoadedModel { model, tokenizer } = stories();
    let text = tokenizer.encode(TEXT).unwrap()[1..].to_vec();
    let none = PrefixSearch { start: vec![], candidates: vec![], outliers: 0, length: 0, gain: 1.0 };
    let some = PrefixSearch { start: vec![1], candidates: vec![1, 2], outliers: 8, length: 3, gain: 1.02 };
    let none = find_prefix(&model, std::slice::from_ref(&text), &none, |_| ()).unwrap();
    let mut tried = vec![];
    let some = find_prefix(&model, &[text], &some, |prefix| tried.push(prefix.clone())).unwrap();
    assert!(none.tokens.is_empty());
    assert!(some.tokens.starts_with(&[1]) && some.tokens.len() <= 3);
    // The start, then at least the two candidates and some of the outliers.
    assert_eq!(tried[0].tokens, [1]);
    assert!(tried.len() > 3 && tried.contains(&some));
    assert!(tried.iter().all(|prefix| some.largest_residual <= 1.02 * prefix.largest_residual));
}
