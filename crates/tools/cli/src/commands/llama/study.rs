//! A model with and without prefix and rotation, on the same texts.

use ndarray::{Array2, ArrayView1, Zip};
use unspoken_llama_model::{InputError, KvCache, Model, Statistics, Step, perplexity_after, rotate};

/// What texts show of a model and its rotated forms.
pub struct Study {
    /// The model as it is, after a prefix, rotated, and both.
    pub variants: [Variant; 4],
    /// How far rotations change the logits of the first text after the prefix: the largest difference over the largest
    /// absolute logit.
    pub logit_error: f64,
    /// Share of positions of that text where the most likely token stays the same.
    pub same_top_token: f64,
}

/// One form of a model.
pub struct Variant {
    pub name: &'static str,
    /// Ranges over the texts. Tokens of the prefix are not seen; without a prefix, the token for the begin is.
    pub statistics: Statistics,
    pub perplexity: f64,
}

/// A row of a table: the largest absolute value of these steps.
pub struct Row {
    pub name: &'static str,
    steps: &'static [Step],
}

/// Table 1: inputs of the functions.
pub const INPUTS: [Row; 3] = [
    Row { name: "softmax", steps: &[Step::Score] },
    Row { name: "silu", steps: &[Step::Gate] },
    Row { name: "rmsnorm", steps: &[Step::Residual, Step::MiddleResidual] },
];

/// Table 2: outputs of the linear maps.
pub const OUTPUTS: [Row; 3] = [
    Row { name: "down-proj", steps: &[Step::FfnOutput] },
    Row { name: "o-proj", steps: &[Step::AttentionOutput] },
    Row { name: "v-proj", steps: &[Step::Value] },
];

impl Row {
    /// The largest absolute value over all layers and texts.
    pub fn largest(&self, variant: &Variant) -> f32 {
        self.steps.iter().map(|step| variant.statistics.largest(*step)).fold(0.0, f32::max)
    }
}

impl Study {
    /// Runs the texts. The model is rotated in its place, because two copies of a large one may not fit the memory.
    pub fn new(
        mut model: Model,
        begin: Option<u32>,
        prefix: &[u32],
        texts: &[Vec<u32>],
        seed: u64,
    ) -> Result<Self, InputError> {
        let begin: Vec<u32> = begin.into_iter().collect();
        let original = after_begin("original", &model, &begin, texts)?;
        let prefixed = after_prefix("prefix", &model, prefix, texts, Statistics::new())?;
        let logits_before = logits(&model, prefix, &texts[0])?;
        rotate(&model.config, &mut model.weights, seed);
        let rotated = after_begin("rotation", &model, &begin, texts)?;
        let both = after_prefix("prefix and rotation", &model, prefix, texts, Statistics::new())?;
        let logits_after = logits(&model, prefix, &texts[0])?;
        Ok(Study {
            variants: [original, prefixed, rotated, both],
            logit_error: relative_difference(&logits_before, &logits_after),
            same_top_token: same_top(&logits_before, &logits_after),
        })
    }
}

/// Texts after the token for the begin of a text, which is seen as well.
fn after_begin(name: &'static str, model: &Model, begin: &[u32], texts: &[Vec<u32>]) -> Result<Variant, InputError> {
    let mut statistics = Statistics::new();
    if !begin.is_empty() {
        model.forward(begin, &mut KvCache::new(&model.config), &mut statistics)?;
    }
    after_prefix(name, model, begin, texts, statistics)
}

/// Texts after a prefix.
fn after_prefix(
    name: &'static str,
    model: &Model,
    prefix: &[u32],
    texts: &[Vec<u32>],
    mut statistics: Statistics,
) -> Result<Variant, InputError> {
    let perplexity = perplexity_after(model, prefix, texts, &mut statistics)?;
    Ok(Variant { name, statistics, perplexity })
}

/// Logits of a text after a prefix: a row for each token.
fn logits(model: &Model, prefix: &[u32], text: &[u32]) -> Result<Array2<f32>, InputError> {
    let normed = model.forward(text, &mut model.prefix_cache(prefix)?, &mut ())?;
    Ok(model.logits(normed.view()))
}

/// The largest difference over the largest absolute value.
fn relative_difference(before: &Array2<f32>, after: &Array2<f32>) -> f64 {
    let largest = before.iter().fold(0.0f32, |most, value| most.max(value.abs()));
    let difference = Zip::from(before).and(after).fold(0.0f32, |most, a, b| most.max((a - b).abs()));
    f64::from(difference) / f64::from(largest)
}

/// Share of rows whose largest entry is at the same place.
fn same_top(before: &Array2<f32>, after: &Array2<f32>) -> f64 {
    let top = |row: ArrayView1<f32>| row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map(|(place, _)| place);
    let same = before.rows().into_iter().zip(after.rows()).filter(|(a, b)| top(*a) == top(*b)).count();
    same as f64 / before.nrows() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logits_are_compared_by_value_and_by_place() {
        let before = ndarray::array![[1.0, -4.0, 2.0], [0.5, 0.0, 3.0]];
        assert_eq!((relative_difference(&before, &before), same_top(&before, &before)), (0.0, 1.0));
        let after = ndarray::array![[3.0, -4.0, 2.0], [0.5, 0.0, 3.0]];
        assert_eq!((relative_difference(&before, &after), same_top(&before, &after)), (0.5, 0.5));
    }
}
