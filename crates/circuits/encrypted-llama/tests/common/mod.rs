//! A rotated model, and a pass beside the model in the clear, operation by operation.

#![allow(dead_code)] // Each test binary uses a part.

pub mod run;
pub mod unlike;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use ndarray::{Array1, Array2, Array3, Axis};
use unspoken_ckks::Complex64;
use unspoken_encrypted_llama::{PassArithmetic, PassError, PassEvaluator, PassProgram, RESULT_BOUND, Tensor};
use unspoken_llama::{
    Circuit, Design, DesignOptions, Function, Margins, Place, Quantity, Sample, Shape, Simulated,
    Tensor as ClearTensor, TensorArithmetic, calibrate,
};
use unspoken_llama_files::{LoadedModel, load};
use unspoken_llama_model::{Attention, AttentionVectors, Config, Generation, LayerWeights, Model, Weights, rotate};

pub struct Setting {
    pub circuit: Circuit,
    pub model: Arc<Model>,
    pub design: Design,
    pub held_out: Vec<Sample>,
}

pub const PUBLIC: usize = 40;

/// The model stories260K as it was trained, and its tokenizer.
pub fn stories260k() -> LoadedModel {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../models/stories260K/stories260K.bin");
    load(&path, None).unwrap()
}

/// The first layers of stories260K, with `bits` of precision.
pub fn setting(bits: f64, layers: usize) -> Setting {
    let LoadedModel { mut model, tokenizer } = stories260k();
    let story = |name: &str, animal: &str| -> Sample {
        let prompt = format!("One day, {name} and a {animal} went to the park. They saw");
        let prompt = tokenizer.encode(&prompt).unwrap();
        let told = Generation::new(&model, &prompt, &[]).unwrap().take(90);
        let tokens: Vec<u32> = prompt.iter().copied().chain(told).collect();
        Sample { public: tokens[..PUBLIC].to_vec(), private: tokens[PUBLIC..PUBLIC + 48].to_vec() }
    };
    let stories = |animals: &[&str]| -> Vec<Sample> {
        let names = ["Tom", "Lily", "Sam", "Mia", "Ben", "Anna"];
        animals.iter().flat_map(|animal| names.map(|name| story(name, animal))).collect()
    };
    let (calibration, held_out) = (stories(&["dog", "cat", "bird", "fish", "bear"]), stories(&["frog", "pig"]));
    rotate(&model.config, &mut model.weights, 1);
    model.config.layers = layers;
    model.weights.layers.truncate(layers);
    let circuit = Circuit::new(&model.config).with_rounds(3);
    let ranges = calibrate(&circuit, &model, &calibration, 16, |_| {}).unwrap();
    let margins = Margins { norm: 1.2, softmax: 1.3, score: 1.3, gate: 1.5 };
    let options = DesignOptions { margins, bits, ..DesignOptions::default() };
    let design = Design::new(&circuit, &ranges, &options).unwrap();
    Setting { circuit, model: Arc::new(model), design, held_out }
}

/// A model with random weights whose heads do not fit one vector of the small ring, and whose chunks of 16 tokens do
/// not either.
pub fn wide_heads(vocabulary: usize) -> Setting {
    wide_heads_with(Attention::default(), vocabulary)
}

/// Such a model with this attention.
pub fn wide_heads_with(attention: Attention, vocabulary: usize) -> Setting {
    random(Config {
        width: 128,
        layers: 2,
        heads: 8,
        kv_heads: 4,
        head_width: 32,
        ffn_width: 150,
        vocabulary,
        context: 128,
        norm_epsilon: 1e-5,
        rope_frequencies: (0..16).map(|pair| 0.7f64.powi(pair)).collect(),
        attention,
    })
}

/// A model with random weights whose activations need two vectors of the small ring, but whose queries, keys and values
/// fit one together, and gates and their factors another one.
pub fn narrow_heads() -> Setting {
    random(Config {
        width: 150,
        layers: 2,
        heads: 2,
        kv_heads: 1,
        head_width: 16,
        ffn_width: 60,
        vocabulary: 50,
        context: 128,
        norm_epsilon: 1e-5,
        rope_frequencies: (0..8).map(|pair| 0.5f64.powi(pair)).collect(),
        attention: Attention::default(),
    })
}

/// A model with random weights whose activations need two vectors of the small ring, and its many narrow heads, too.
pub fn many_heads() -> Setting {
    random(Config {
        width: 150,
        layers: 2,
        heads: 32,
        kv_heads: 8,
        head_width: 8,
        ffn_width: 150,
        vocabulary: 50,
        context: 128,
        norm_epsilon: 1e-5,
        rope_frequencies: (0..4).map(|pair| 0.6f64.powi(pair)).collect(),
        attention: Attention::default(),
    })
}

/// A model with random weights, this attention, and heads of this width.
pub fn other_attention(attention: Attention, head_width: usize) -> Setting {
    random(Config {
        width: 64,
        layers: 2,
        heads: 4,
        kv_heads: 2,
        head_width,
        ffn_width: 96,
        vocabulary: 50,
        context: 128,
        norm_epsilon: 1e-6,
        rope_frequencies: (0..head_width as i32 / 2).map(|pair| 0.5f64.powi(pair)).collect(),
        attention,
    })
}

fn random(config: Config) -> Setting {
    let mut state = 1u64;
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    let mut matrix = |rows: usize, columns: usize, gain: f32| {
        Array2::from_shape_simple_fn((rows, columns), || gain * draw() / (columns as f32).sqrt())
    };
    let Config { width, ffn_width: ffn, .. } = config;
    let (queries, keys) = (config.query_width(), config.kv_width());
    let layer = |matrix: &mut dyn FnMut(usize, usize, f32) -> Array2<f32>| LayerWeights {
        attention_norm: Array1::ones(width),
        query: matrix(queries, width, 1.5),
        key: matrix(keys, width, 1.5),
        value: matrix(keys, width, 1.0),
        output: matrix(width, queries, 2.0),
        ffn_norm: Array1::ones(width),
        gate: matrix(ffn, width, 2.0),
        up: matrix(ffn, width, 1.0),
        down: matrix(width, ffn, 2.0),
        attention: vectors(&config, matrix),
    };
    let layers = vec![layer(&mut matrix), layer(&mut matrix)];
    let embedding = matrix(config.vocabulary, width, 12.0);
    let weights = Weights { embedding, layers, norm: Array1::ones(width), head: None };
    let model = Model { config, weights };
    let text = |seed: usize| -> Sample {
        let token = |i: usize| ((i * i * (7 + seed) + 13 * i + seed * seed) % 50) as u32;
        Sample { public: (0..20).map(token).collect(), private: (20..68).map(token).collect() }
    };
    let (calibration, held_out): (Vec<_>, Vec<_>) = ((0..24).map(text).collect(), (24..26).map(text).collect());
    let circuit = Circuit::new(&model.config).with_rounds(2);
    let ranges = calibrate(&circuit, &model, &calibration, 16, |_| {}).unwrap();
    let margins = Margins { norm: 1.3, softmax: 1.5, score: 1.5, gate: 1.5 };
    let options = DesignOptions { margins, bits: 12.0, ..DesignOptions::default() };
    let design = Design::new(&circuit, &ranges, &options).unwrap();
    Setting { circuit, model: Arc::new(model), design, held_out }
}

/// Random vectors of attention, as the configuration says.
fn vectors(config: &Config, matrix: &mut dyn FnMut(usize, usize, f32) -> Array2<f32>) -> AttentionVectors {
    let mut vector = |has: bool, length: usize| has.then(|| matrix(length, 1, 1.0).remove_axis(Axis(1)));
    let Attention { input_biases, output_bias, head_norms, .. } = config.attention;
    AttentionVectors {
        query_bias: vector(input_biases, config.query_width()),
        key_bias: vector(input_biases, config.kv_width()),
        value_bias: vector(input_biases, config.kv_width()),
        output_bias: vector(output_bias, config.width),
        query_norm: vector(head_norms, config.head_width).map(|vector| 1.5 + vector),
        key_norm: vector(head_norms, config.head_width).map(|vector| 1.5 + vector),
    }
}

/// The setting that most tests use.
pub fn shared() -> &'static Setting {
    static SETTING: OnceLock<Setting> = OnceLock::new();
    SETTING.get_or_init(|| setting(12.0, 5))
}

/// A result, with its largest value, largest error and root mean square error.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub place: Place,
    pub largest: f64,
    pub worst: f64,
    pub rms: f64,
}

/// Runs a pass beside the model in floating point with the same polynomials, and compares each result.
pub struct Beside<'a, M: PassEvaluator> {
    pub pass: PassArithmetic<'a, M>,
    pub program: &'a PassProgram,
    pub clear: Simulated<'a>,
    /// Public tokens, chunk, and chunks of the session.
    pub place: (usize, usize, usize),
    /// The slots of a vector.
    pub decrypt: &'a dyn Fn(&M::Vector) -> Vec<Complex64>,
    pub rows: Vec<Row>,
}

type Both<V, C> = (V, C);

impl<M> Beside<'_, M>
where
    M: PassEvaluator + Sync,
    M::Arithmetic: Sync,
{
    fn compare(&mut self, place: Place, own: &Tensor<M::Vector>, clear: &ClearTensor) {
        let vectors = own.vectors();
        let slots: Vec<Vec<Complex64>> = vectors.iter().map(|vector| (self.decrypt)(vector)).collect();
        let slots: Vec<&[Complex64]> = slots.iter().map(Vec::as_slice).collect();
        let Some(found) = self.program.decode(place, &slots, self.place) else { return };
        let clear: Array3<f64> = clear.values().mapv(|value| if value.is_finite() { f64::from(value) } else { 0.0 });
        assert_eq!(found.dim(), clear.dim(), "{place}");
        let largest = clear.iter().fold(0.0f64, |most, value| most.max(value.abs()));
        let errors: Vec<f64> = found.iter().zip(&clear).map(|(found, clear)| (found - clear).abs()).collect();
        let worst = errors.iter().fold(0.0f64, |most, error| most.max(*error));
        let rms = (errors.iter().map(|error| error * error).sum::<f64>() / errors.len() as f64).sqrt();
        self.rows.push(Row { place, largest, worst, rms });
    }
}

impl<'a, M> Beside<'a, M>
where
    M: PassEvaluator + Sync,
    M::Arithmetic: Sync,
{
    /// Runs one chunk of tokens.
    pub fn run(mut self, setting: &Setting, input: Vec<M::Vector>, tokens: &[u32]) -> (Vec<Row>, usize) {
        let rows = setting.model.embed(tokens);
        let input = (self.pass.input(input), ClearTensor::activations(rows));
        let mut session = setting.circuit.session(&mut self).unwrap();
        let normed = setting.circuit.pass(&mut self, &mut session, input).unwrap();
        let result = match self.program.result().quantity {
            Quantity::Logits => setting.circuit.logits(&mut self, &normed).unwrap(),
            _ => normed,
        };
        let checked = self.pass.checked(result.0.into_vectors()).unwrap();
        for vector in &checked[..self.program.layout().parts] {
            let unit = self.pass.check_limit() / RESULT_BOUND;
            let slots = (self.decrypt)(vector);
            let check = slots.iter().map(|slot| unit * slot.im);
            // Arguments are in their intervals, most of them far from the ends: squares are as often small as large.
            let (most, mean) = (check.clone().fold(0.0, f64::max), check.clone().sum::<f64>() / check.len() as f64);
            let terms = self.pass.check_terms() as f64;
            assert!(most < terms && (0.2..0.8).contains(&(mean / terms)), "{most} {mean} {terms}");
        }
        (self.rows, self.pass.bootstraps())
    }
}

impl<M> TensorArithmetic for Beside<'_, M>
where
    M: PassEvaluator + Sync,
    M::Arithmetic: Sync,
{
    type Tensor = Both<Tensor<M::Vector>, ClearTensor>;
    type Cache = (usize, unspoken_llama::FloatCache);
    type Error = PassError;

    fn public_tokens(&self) -> usize {
        self.pass.public_tokens()
    }

    fn shape(&self, tensor: &Self::Tensor) -> Shape {
        self.clear.shape(&tensor.1)
    }

    fn cache(&mut self, layer: usize) -> Result<Self::Cache, PassError> {
        Ok((self.pass.cache(layer)?, self.clear.cache(layer)?))
    }

    fn append(&mut self, cache: &mut Self::Cache, keys: Self::Tensor, values: Self::Tensor) -> Result<(), PassError> {
        self.pass.append(&mut cache.0, keys.0, values.0)?;
        Ok(self.clear.append(&mut cache.1, keys.1, values.1)?)
    }

    fn linear(&mut self, input: &Self::Tensor, place: Place) -> Result<Self::Tensor, PassError> {
        Ok(self.linears(input, &[place])?.remove(0))
    }

    fn linears(&mut self, input: &Self::Tensor, places: &[Place]) -> Result<Vec<Self::Tensor>, PassError> {
        let own = self.pass.linears(&input.0, places)?;
        let clear = self.clear.linears(&input.1, places)?;
        for ((place, own), clear) in places.iter().zip(&own).zip(&clear) {
            self.compare(*place, own, clear);
        }
        Ok(own.into_iter().zip(clear).collect())
    }

    fn rope(&mut self, input: &Self::Tensor, position: usize, place: Place) -> Result<Self::Tensor, PassError> {
        let result = (self.pass.rope(&input.0, position, place)?, self.clear.rope(&input.1, position, place)?);
        self.compare(place, &result.0, &result.1);
        Ok(result)
    }

    fn scores(&mut self, queries: &Self::Tensor, cache: &Self::Cache, place: Place) -> Result<Self::Tensor, PassError> {
        let own = self.pass.scores(&queries.0, &cache.0, place)?;
        let clear = self.clear.scores(&queries.1, &cache.1, place)?;
        self.compare(place, &own, &clear);
        Ok((own, clear))
    }

    fn attend(&mut self, weights: &Self::Tensor, cache: &Self::Cache, place: Place) -> Result<Self::Tensor, PassError> {
        let own = self.pass.attend(&weights.0, &cache.0, place)?;
        let clear = self.clear.attend(&weights.1, &cache.1, place)?;
        self.compare(place, &own, &clear);
        Ok((own, clear))
    }

    fn function(&mut self, function: Function, input: &Self::Tensor, place: Place) -> Result<Self::Tensor, PassError> {
        let own = self.pass.function(function, &input.0, place)?;
        let clear = self.clear.function(function, &input.1, place)?;
        self.compare(place, &own, &clear);
        Ok((own, clear))
    }

    fn sum_squares(
        &mut self,
        input: &Self::Tensor,
        factor: f64,
        offset: f64,
        place: Place,
    ) -> Result<Self::Tensor, PassError> {
        let own = self.pass.sum_squares(&input.0, factor, offset, place)?;
        Ok((own, self.clear.sum_squares(&input.1, factor, offset, place)?))
    }

    fn scale(&mut self, input: &Self::Tensor, factors: &Self::Tensor, place: Place) -> Result<Self::Tensor, PassError> {
        let own = self.pass.scale(&input.0, &factors.0, place)?;
        let clear = self.clear.scale(&input.1, &factors.1, place)?;
        self.compare(place, &own, &clear);
        Ok((own, clear))
    }

    fn multiply(&mut self, a: &Self::Tensor, b: &Self::Tensor, place: Place) -> Result<Self::Tensor, PassError> {
        let result = (self.pass.multiply(&a.0, &b.0, place)?, self.clear.multiply(&a.1, &b.1, place)?);
        self.compare(place, &result.0, &result.1);
        Ok(result)
    }

    fn square(&mut self, input: &Self::Tensor, place: Place) -> Result<Self::Tensor, PassError> {
        let result = (self.pass.square(&input.0, place)?, self.clear.square(&input.1, place)?);
        self.compare(place, &result.0, &result.1);
        Ok(result)
    }

    fn add(&mut self, a: &Self::Tensor, b: &Self::Tensor, place: Place) -> Result<Self::Tensor, PassError> {
        let result = (self.pass.add(&a.0, &b.0, place)?, self.clear.add(&a.1, &b.1, place)?);
        self.compare(place, &result.0, &result.1);
        Ok(result)
    }
}

/// Prints rows.
pub fn print(rows: &[Row]) {
    for Row { place, largest, worst, rms } in rows {
        println!(
            "{:<34} largest {largest:9.4} worst {worst:.2e} rms {rms:.2e} bits {:.1} {:.1}",
            place.to_string(),
            (largest / worst).log2(),
            (largest / rms).log2()
        );
    }
}
