//! The circuit in 32-bit floating point, with functions that are left open.

use ndarray::linalg::general_mat_mul;
use ndarray::parallel::prelude::*;
use ndarray::{Array1, Array2, Array3, Axis, Zip, s};
use unspoken_llama_model::{KvCache, Model, linear, rotate_positions, with_bias};

use crate::arithmetic::{Function, Shape, TensorArithmetic};
use crate::error::CircuitError;
use crate::place::{Place, Quantity};
use crate::tensor::Tensor;

/// What an arithmetic in floating point does besides sums and products.
pub trait Steps {
    /// A function of each value.
    fn function(&mut self, function: Function, input: &Tensor, place: Place) -> Result<Array3<f32>, CircuitError>;

    /// Called with the values of each operation. Gives its result.
    fn result(&mut self, values: Array3<f32>, place: Place) -> Result<Tensor, CircuitError>;
}

/// Arithmetic in 32-bit floating point: [`Clear`](crate::Clear) and [`Simulated`](crate::Simulated).
pub struct FloatArithmetic<'a, S> {
    pub(crate) model: &'a Model,
    pub(crate) public: &'a KvCache,
    pub(crate) steps: S,
}

/// Keys and values of the private tokens of a layer.
#[derive(Clone, Debug)]
pub struct FloatCache {
    layer: usize,
    /// For each key head `tokens x head_width`.
    keys: Vec<Array2<f32>>,
    values: Vec<Array2<f32>>,
}

impl<S: Steps> TensorArithmetic for FloatArithmetic<'_, S> {
    type Tensor = Tensor;
    type Cache = FloatCache;
    type Error = CircuitError;

    fn public_tokens(&self) -> usize {
        self.public.len()
    }

    fn shape(&self, tensor: &Tensor) -> Shape {
        tensor.shape()
    }

    fn cache(&mut self, layer: usize) -> Result<FloatCache, CircuitError> {
        let heads = || vec![Array2::zeros((0, self.model.config.head_width)); self.model.config.kv_heads];
        Ok(FloatCache { layer, keys: heads(), values: heads() })
    }

    fn append(&mut self, cache: &mut FloatCache, keys: Tensor, values: Tensor) -> Result<(), CircuitError> {
        let width = self.model.config.head_width;
        for (heads, new) in [(&mut cache.keys, keys), (&mut cache.values, values)] {
            for (head, new) in heads.iter_mut().zip(new.rows().axis_chunks_iter(Axis(1), width)) {
                head.append(Axis(0), new).expect("a head has one width");
            }
        }
        Ok(())
    }

    fn linear(&mut self, input: &Tensor, place: Place) -> Result<Tensor, CircuitError> {
        let product = linear(input.rows(), linear_weights(self.model, place)?);
        let product = with_bias(product, linear_bias(self.model, place));
        self.steps.result(product.insert_axis(Axis(0)), place)
    }

    fn rope(&mut self, input: &Tensor, position: usize, place: Place) -> Result<Tensor, CircuitError> {
        let mut rows = input.rows().to_owned();
        if let Some(gains) = head_gains(self.model, place) {
            rows.axis_chunks_iter_mut(Axis(1), gains.len()).for_each(|mut head| head *= gains);
        }
        rotate_positions(&self.model.config, place.layer, position, &mut rows);
        self.steps.result(rows.insert_axis(Axis(0)), place)
    }

    fn scores(&mut self, queries: &Tensor, cache: &FloatCache, place: Place) -> Result<Tensor, CircuitError> {
        self.steps.result(scores(self.model, self.public, queries, cache), place)
    }

    fn attend(&mut self, weights: &Tensor, cache: &FloatCache, place: Place) -> Result<Tensor, CircuitError> {
        self.steps.result(attend(self.model, self.public, weights, cache), place)
    }

    fn function(&mut self, function: Function, input: &Tensor, place: Place) -> Result<Tensor, CircuitError> {
        let values = self.steps.function(function, input, place)?;
        self.steps.result(values, place)
    }

    fn sum_squares(&mut self, input: &Tensor, factor: f64, offset: f64, place: Place) -> Result<Tensor, CircuitError> {
        let groups = match place.quantity {
            Quantity::QueryNormSquare => self.model.config.heads,
            Quantity::KeyNormSquare => self.model.config.kv_heads,
            _ => return self.steps.result(sum_squares(&input.0, factor, offset), place),
        };
        self.steps.result(sum_squares(&input.split(groups), factor, offset), place)
    }

    fn scale(&mut self, input: &Tensor, factors: &Tensor, place: Place) -> Result<Tensor, CircuitError> {
        let groups = factors.shape().groups;
        if groups == input.shape().groups {
            return self.steps.result(&input.0 * &factors.0, place);
        }
        let scaled = input.split(groups) * &factors.0;
        let (_, tokens, width) = scaled.dim();
        let of = |(_, token, i): (usize, usize, usize)| scaled[(i / width, token, i % width)];
        self.steps.result(Array3::from_shape_fn((1, tokens, groups * width), of), place)
    }

    fn multiply(&mut self, a: &Tensor, b: &Tensor, place: Place) -> Result<Tensor, CircuitError> {
        self.steps.result(&a.0 * &b.0, place)
    }

    fn square(&mut self, input: &Tensor, place: Place) -> Result<Tensor, CircuitError> {
        self.steps.result(&input.0 * &input.0, place)
    }

    fn add(&mut self, a: &Tensor, b: &Tensor, place: Place) -> Result<Tensor, CircuitError> {
        self.steps.result(&a.0 + &b.0, place)
    }
}

/// The matrix of the linear map of a place: a row for each output.
///
/// # Errors
/// [`CircuitError::NoWeights`] if the place is no linear map of the model.
pub fn linear_weights(model: &Model, place: Place) -> Result<&Array2<f32>, CircuitError> {
    if place.quantity == Quantity::Logits {
        return Ok(model.weights.head());
    }
    let layer = model.weights.layers.get(place.layer).ok_or(CircuitError::NoWeights { place })?;
    Ok(match place.quantity {
        Quantity::Query => &layer.query,
        Quantity::Key => &layer.key,
        Quantity::Value => &layer.value,
        Quantity::AttentionOutput => &layer.output,
        Quantity::Gate => &layer.gate,
        Quantity::Up => &layer.up,
        Quantity::FfnOutput => &layer.down,
        _ => return Err(CircuitError::NoWeights { place }),
    })
}

/// The bias of the linear map of a place, if it has one.
pub fn linear_bias(model: &Model, place: Place) -> Option<&Array1<f32>> {
    let vectors = &model.weights.layers.get(place.layer)?.attention;
    match place.quantity {
        Quantity::Query => vectors.query_bias.as_ref(),
        Quantity::Key => vectors.key_bias.as_ref(),
        Quantity::Value => vectors.value_bias.as_ref(),
        Quantity::AttentionOutput => vectors.output_bias.as_ref(),
        _ => None,
    }
}

/// The gains of the norm of each head of rotated queries or keys, if it has one: `head_width`.
pub fn head_gains(model: &Model, place: Place) -> Option<&Array1<f32>> {
    let vectors = &model.weights.layers.get(place.layer)?.attention;
    match place.quantity {
        Quantity::RotatedQuery => vectors.query_norm.as_ref(),
        Quantity::RotatedKey => vectors.key_norm.as_ref(),
        _ => None,
    }
}

/// Scores of all heads. Scores with later tokens are `-inf`.
fn scores(model: &Model, public: &KvCache, queries: &Tensor, cache: &FloatCache) -> Array3<f32> {
    let config = &model.config;
    let (tokens, private) = (queries.shape().tokens, cache.keys[0].nrows());
    let earlier = public.len() + private - tokens;
    let root = (config.head_width as f32).sqrt().recip();
    let mut scores = Array3::zeros((config.heads, tokens, public.len() + private));
    scores.axis_iter_mut(Axis(0)).into_par_iter().enumerate().for_each(|(head, mut scores)| {
        let columns = head * config.head_width..(head + 1) * config.head_width;
        let queries = queries.rows();
        let queries = queries.slice(s![.., columns]);
        let kv = head / config.group();
        let (mut first, mut last) = scores.view_mut().split_at(Axis(1), public.len());
        general_mat_mul(root, &queries, &public.keys(cache.layer, kv).t(), 0.0, &mut first);
        general_mat_mul(root, &queries, &cache.keys[kv].t(), 0.0, &mut last);
        for (row, mut scores) in scores.rows_mut().into_iter().enumerate() {
            scores.slice_mut(s![earlier + row + 1..]).fill(f32::NEG_INFINITY);
        }
    });
    scores
}

/// Weighted sums of the values, all heads side by side.
fn attend(model: &Model, public: &KvCache, weights: &Tensor, cache: &FloatCache) -> Array3<f32> {
    let config = &model.config;
    let mut sums = Array2::zeros((weights.shape().tokens, config.query_width()));
    sums.axis_chunks_iter_mut(Axis(1), config.head_width).into_par_iter().enumerate().for_each(|(head, mut sums)| {
        let kv = head / config.group();
        let (first, last) = weights.group(head).split_at(Axis(1), public.len());
        general_mat_mul(1.0, &first, &public.values(cache.layer, kv), 0.0, &mut sums);
        general_mat_mul(1.0, &last, &cache.values[kv], 1.0, &mut sums);
    });
    sums.insert_axis(Axis(0))
}

fn sum_squares(input: &Array3<f32>, factor: f64, offset: f64) -> Array3<f32> {
    let sum = |row: ndarray::ArrayView1<f32>| row.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>();
    let (groups, tokens, _) = input.dim();
    let mut sums = Array3::zeros((groups, tokens, 1));
    Zip::from(sums.lanes_mut(Axis(2)))
        .and(input.lanes(Axis(2)))
        .for_each(|mut value, row| value[0] = (factor * sum(row) + offset) as f32);
    sums
}
