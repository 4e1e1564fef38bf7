//! Models of one layer with random weights, and the polynomials for them.

use std::sync::Arc;

use ndarray::{Array1, Array2};
use unspoken_llama::{Circuit, CircuitError, Design, DesignOptions, Margins, Quantity, Sample, calibrate};
use unspoken_llama_model::{Attention, AttentionVectors, Config, LayerWeights, Model, Weights};

/// Bits of each value's range.
const BITS: f64 = 12.0;

/// Degrees of polynomials; the paper's largest is 128. A round of softmax more takes fewer levels than a higher degree.
const DEGREES: [usize; 5] = [7, 15, 31, 63, 127];

/// Margins of all intervals beyond the intervals of the few texts that are run.
const MARGIN: f64 = 1.3;

/// Factor by which margins grow at most where a degree allows it: wider intervals have values that are less precise.
const WIDENING: f64 = 1.5;

/// Rounds of softmax that are tried.
const MAX_ROUNDS: u8 = 4;

/// Texts over which ranges are measured.
const TEXTS: usize = 2;

/// Standard deviations of scores and of gates: with them the degrees are about the degrees of real models.
const SCORE: f64 = 2.5;
const GATE: f64 = 2.5;

/// The norms of embedded tokens lie between `exp(-SPREAD)` and `exp(SPREAD)` times their mean.
const SPREAD: f64 = 0.75;

/// A model, its circuit and its polynomials.
pub(super) struct RandomModel {
    pub(super) model: Arc<Model>,
    pub(super) circuit: Circuit,
    pub(super) design: Design,
    /// Public and private tokens of a text that the ranges have seen.
    pub(super) text: Sample,
}

/// Pseudorandom numbers of the benchmark's data.
pub(super) struct Draws(fastrand::Rng);

impl Draws {
    pub(super) fn new(seed: u64) -> Self {
        Draws(fastrand::Rng::with_seed(seed))
    }

    /// A number of [-1, 1).
    pub(super) fn draw(&mut self) -> f64 {
        2.0 * self.0.f64() - 1.0
    }

    /// A matrix whose products with vectors of mean square 1 have this standard deviation.
    fn matrix(&mut self, rows: usize, columns: usize, deviation: f64) -> Array2<f32> {
        let factor = deviation * (3.0 / columns as f64).sqrt();
        Array2::from_shape_simple_fn((rows, columns), || (factor * self.draw()) as f32)
    }
}

/// Dimensions of a model of one layer.
pub(super) fn config(
    [width, heads, kv_heads, head_width, ffn_width]: [usize; 5],
    vocabulary: usize,
    context: usize,
) -> Config {
    let angle = |pair: usize| 10_000f64.powf(-2.0 * pair as f64 / head_width as f64);
    let rope_frequencies = (0..head_width / 2).map(angle).collect();
    Config {
        width,
        layers: 1,
        heads,
        kv_heads,
        head_width,
        ffn_width,
        vocabulary,
        context,
        norm_epsilon: 1e-5,
        rope_frequencies,
        attention: Attention::default(),
    }
}

impl RandomModel {
    /// A model with these dimensions, and polynomials for texts of `public` public and `private` private tokens.
    pub(super) fn new(config: Config, (public, private): (usize, usize), chunk: usize) -> anyhow::Result<Self> {
        let model = Arc::new(model(config));
        let vocabulary = model.config.vocabulary;
        let mut draws = Draws::new(7);
        let mut text = |count: usize| -> Vec<u32> {
            (0..count).map(|_| ((draws.draw() + 1.0) / 2.0 * vocabulary as f64) as u32).collect()
        };
        let texts: Vec<Sample> = (0..TEXTS).map(|_| Sample { public: text(public), private: text(private) }).collect();
        let (circuit, design) = fit(&model, &texts, chunk)?;
        let text = texts.into_iter().next().unwrap_or(Sample { public: Vec::new(), private: Vec::new() });
        Ok(RandomModel { model, circuit, design, text })
    }
}

fn model(config: Config) -> Model {
    let mut draws = Draws::new(1);
    let [width, query, kv, ffn] = [config.width, config.query_width(), config.kv_width(), config.ffn_width];
    let score = SCORE.sqrt();
    let mut embedding = draws.matrix(config.vocabulary, width, 1.0);
    let root = (width as f32).sqrt();
    for mut row in embedding.rows_mut() {
        let factor = root * (SPREAD * draws.draw()).exp() as f32;
        row.mapv_inplace(|value| factor * value);
    }
    let layer = LayerWeights {
        attention_norm: Array1::ones(width),
        query: draws.matrix(query, width, score),
        key: draws.matrix(kv, width, score),
        value: draws.matrix(kv, width, 1.0),
        output: draws.matrix(width, query, 1.0),
        ffn_norm: Array1::ones(width),
        gate: draws.matrix(ffn, width, GATE),
        up: draws.matrix(ffn, width, 1.0),
        down: draws.matrix(width, ffn, 0.5),
        attention: AttentionVectors::default(),
    };
    let weights = Weights { embedding, layers: vec![layer], norm: Array1::ones(width), head: None };
    Model { config, weights }
}

/// The polynomials, with as few rounds of softmax as its sums allow.
fn fit(model: &Model, texts: &[Sample], chunk: usize) -> anyhow::Result<(Circuit, Design)> {
    let mut rounds = Circuit::ROUNDS;
    loop {
        let circuit = Circuit::new(&model.config).with_rounds(rounds);
        let ranges = calibrate(&circuit, model, texts, chunk, |_| {})?;
        let margins = Margins::all(MARGIN);
        let degrees = DEGREES.to_vec();
        let options = DesignOptions { margins, bits: BITS, widening: WIDENING, degrees, ..DesignOptions::default() };
        match Design::new(&circuit, &ranges, &options) {
            Ok(design) => return Ok((circuit, design)),
            Err(CircuitError::Imprecise { place, .. })
                if rounds < MAX_ROUNDS && matches!(place.quantity, Quantity::SoftmaxFactor(0)) =>
            {
                rounds += 1;
            }
            Err(error) => return Err(error.into()),
        }
    }
}
