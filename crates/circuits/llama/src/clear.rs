//! The circuit in 32-bit floating point.

use ndarray::linalg::general_mat_mul;
use ndarray::parallel::prelude::*;
use ndarray::{Array2, Array3, Axis, Zip, s};
use unspoken_llama_model::{KvCache, Model, linear, rotate_positions};

use crate::arithmetic::{Function, Shape, TensorArithmetic};
use crate::circuit::Circuit;
use crate::error::CircuitError;
use crate::place::{Place, Quantity};
use crate::tensor::Tensor;

/// Sees the values of a circuit in the clear, on the thread that runs it.
pub trait Watch {
    /// Called with each result.
    fn see(&mut self, place: Place, tensor: &Tensor);
}

/// Sees nothing.
impl Watch for () {
    fn see(&mut self, _: Place, _: &Tensor) {}
}

/// The circuit in 32-bit floating point, with the functions themselves. Its shifts of scores are 0.
pub struct Clear<'a, W> {
    model: &'a Model,
    public: &'a KvCache,
    rounds: u8,
    watch: W,
}

/// Keys and values of a layer: those of the public prefix, and private ones.
#[derive(Clone, Debug)]
pub struct ClearCache {
    layer: usize,
    /// For each key head `tokens x head_width`.
    keys: Vec<Array2<f32>>,
    values: Vec<Array2<f32>>,
}

impl<'a, W: Watch> Clear<'a, W> {
    /// Arithmetic for a model without gains in its norms ([`fold_norms`](unspoken_llama_model::fold_norms)), behind the
    /// public prefix in a cache.
    pub fn new(model: &'a Model, public: &'a KvCache, circuit: &Circuit, watch: W) -> Self {
        Clear { model, public, rounds: circuit.rounds(), watch }
    }

    /// What watched the values.
    pub fn into_watch(self) -> W {
        self.watch
    }

    fn seen(&mut self, place: Place, tensor: Array3<f32>) -> Result<Tensor, CircuitError> {
        let tensor = Tensor(tensor);
        self.watch.see(place, &tensor);
        Ok(tensor)
    }
}

impl<W: Watch> TensorArithmetic for Clear<'_, W> {
    type Tensor = Tensor;
    type Cache = ClearCache;
    type Error = CircuitError;

    fn public_tokens(&self) -> usize {
        self.public.len()
    }

    fn shape(&self, tensor: &Tensor) -> Shape {
        tensor.shape()
    }

    fn cache(&mut self, layer: usize) -> Result<ClearCache, CircuitError> {
        Ok(empty_cache(self.model, layer))
    }

    fn append(&mut self, cache: &mut ClearCache, keys: Tensor, values: Tensor) -> Result<(), CircuitError> {
        append(self.model, cache, &keys, &values);
        Ok(())
    }

    fn linear(&mut self, input: &Tensor, place: Place) -> Result<Tensor, CircuitError> {
        let product = linear(input.rows(), weights(self.model, place)?);
        self.seen(place, product.insert_axis(Axis(0)))
    }

    fn rope(&mut self, input: &Tensor, position: usize, place: Place) -> Result<Tensor, CircuitError> {
        self.seen(place, rope(self.model, input, position))
    }

    fn scores(&mut self, queries: &Tensor, cache: &ClearCache, place: Place) -> Result<Tensor, CircuitError> {
        self.seen(place, scores(self.model, self.public, queries, cache))
    }

    fn attend(&mut self, weights: &Tensor, cache: &ClearCache, place: Place) -> Result<Tensor, CircuitError> {
        self.seen(place, attend(self.model, self.public, weights, cache))
    }

    fn function(&mut self, function: Function, input: &Tensor, place: Place) -> Result<Tensor, CircuitError> {
        let divisor = f32::from(1u16 << self.rounds);
        let mut result = input.0.clone();
        match function {
            Function::InverseSqrt => result.par_mapv_inplace(|x| x.sqrt().recip()),
            Function::Exponential => result.par_mapv_inplace(|x| (x / divisor).exp()),
            Function::Silu => result.par_mapv_inplace(|x| x / (1.0 + (-x).exp())),
        }
        self.seen(place, result)
    }

    fn sum_squares(&mut self, input: &Tensor, factor: f64, offset: f64, place: Place) -> Result<Tensor, CircuitError> {
        self.seen(place, sum_squares(input, factor, offset))
    }

    fn scale(&mut self, input: &Tensor, factors: &Tensor, place: Place) -> Result<Tensor, CircuitError> {
        self.seen(place, &input.0 * &factors.0)
    }

    fn multiply(&mut self, a: &Tensor, b: &Tensor, place: Place) -> Result<Tensor, CircuitError> {
        self.seen(place, &a.0 * &b.0)
    }

    fn square(&mut self, input: &Tensor, place: Place) -> Result<Tensor, CircuitError> {
        self.seen(place, &input.0 * &input.0)
    }

    fn add(&mut self, a: &Tensor, b: &Tensor, place: Place) -> Result<Tensor, CircuitError> {
        self.seen(place, &a.0 + &b.0)
    }
}

/// A cache without private tokens.
pub(crate) fn empty_cache(model: &Model, layer: usize) -> ClearCache {
    let heads = || vec![Array2::zeros((0, model.config.head_width)); model.config.kv_heads];
    ClearCache { layer, keys: heads(), values: heads() }
}

/// Appends keys and values, all heads side by side.
pub(crate) fn append(model: &Model, cache: &mut ClearCache, keys: &Tensor, values: &Tensor) {
    let width = model.config.head_width;
    for (heads, new) in [(&mut cache.keys, keys), (&mut cache.values, values)] {
        for (head, new) in heads.iter_mut().zip(new.rows().axis_chunks_iter(Axis(1), width)) {
            head.append(Axis(0), new).expect("a head has one width");
        }
    }
}

/// The matrix of a linear map.
pub(crate) fn weights(model: &Model, place: Place) -> Result<&Array2<f32>, CircuitError> {
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

pub(crate) fn rope(model: &Model, input: &Tensor, position: usize) -> Array3<f32> {
    let mut rows = input.rows().to_owned();
    rotate_positions(&model.config, position, &mut rows);
    rows.insert_axis(Axis(0))
}

/// Scores of all heads. Those of later tokens are `-inf`.
pub(crate) fn scores(model: &Model, public: &KvCache, queries: &Tensor, cache: &ClearCache) -> Array3<f32> {
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
pub(crate) fn attend(model: &Model, public: &KvCache, weights: &Tensor, cache: &ClearCache) -> Array3<f32> {
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

pub(crate) fn sum_squares(input: &Tensor, factor: f64, offset: f64) -> Array3<f32> {
    let sum = |row: ndarray::ArrayView1<f32>| row.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>();
    let (groups, tokens, _) = input.0.dim();
    let mut sums = Array3::zeros((groups, tokens, 1));
    Zip::from(sums.lanes_mut(Axis(2)))
        .and(input.0.lanes(Axis(2)))
        .for_each(|mut value, row| value[0] = (factor * sum(row) + offset) as f32);
    sums
}
