//! Linear maps of activations: where their inputs and outputs lie, and their weights.

use std::ops::Range;

use ndarray::Array2;
use unspoken_ckks::{Bootstrap, CkksError, CoefficientMatrix, DimensionPlaces};
use unspoken_llama::{CircuitError, Place, Quantity, linear_weights};
use unspoken_llama_model::{Config, Model};
use unspoken_rlwe::SmallRing;

use crate::layout::Layout;
use crate::slot_map::SlotMap;
use crate::units::Units;

/// Where inputs and outputs of linear maps of one tensor lie.
pub(crate) struct LinearPlaces {
    /// The dimension of each column, in the vectors of the input.
    inputs: Vec<usize>,
    /// Vectors of each place.
    pub(crate) vectors: Vec<usize>,
    /// Period of the dimensions of the input.
    period: usize,
    /// The dimensions of each place's result, if products on coefficients put the results of all places side by side
    /// into one vector. This vector is bootstrapped instead of one for each place.
    pub(crate) side_by_side: Option<usize>,
}

/// Diagonals of a linear map on slots, at most.
const MAX_DIAGONALS: usize = 256;

/// Linear maps of one tensor.
pub(crate) struct LinearMap {
    places: LinearPlaces,
    /// The row of each dimension of each vector of the outputs, of one place after the other.
    pub(crate) outputs: Vec<Vec<Option<usize>>>,
    /// Weights in the units of inputs and outputs; none of a program that only counts.
    weights: Option<Array2<f32>>,
}

impl LinearPlaces {
    /// The places of the maps `places` of a layer, which have one input.
    pub fn new(config: &Config, layout: &Layout, places: &[Place]) -> Self {
        let first = places.first().map_or(Quantity::Query, |place| place.quantity);
        let inputs: Vec<usize> = match first {
            Quantity::AttentionOutput => {
                let dimension = |column: usize| {
                    let (head, coordinate) = (column / config.head_width, column % config.head_width);
                    let (pair, second) = (coordinate / 2, coordinate % 2);
                    let channel = pair + second * layout.width / 2;
                    let (block, head) = (head / layout.block_heads, head % layout.block_heads);
                    block * layout.dimensions() + head + layout.block_heads * channel
                };
                (0..config.query_width()).map(dimension).collect()
            }
            Quantity::FfnOutput => (0..config.ffn_width).collect(),
            _ => (0..config.width).collect(),
        };
        let period = match first {
            Quantity::AttentionOutput => layout.width * layout.block_heads,
            _ => layout.period(inputs.len()),
        };
        let vectors = places.iter().map(|place| match place.quantity {
            Quantity::Query | Quantity::Key | Quantity::Value => layout.blocks,
            quantity => layout.activation_vectors(width_of(config, quantity)),
        });
        let vectors: Vec<usize> = vectors.collect();
        let periods = places.iter().map(|place| match place.quantity {
            Quantity::Query | Quantity::Key | Quantity::Value => layout.width * layout.block_heads,
            quantity => layout.period(width_of(config, quantity)),
        });
        let longest = periods.max().unwrap_or(layout.dimensions());
        let fit = places.len() * longest <= layout.dimensions() && vectors.iter().all(|count| *count == 1);
        let side_by_side = (fit && places.len() > 1).then_some(longest);
        LinearPlaces { inputs, vectors, period, side_by_side }
    }

    /// Vectors that products on coefficients bootstrap, for each part.
    pub fn on_coefficients(&self) -> usize {
        if self.side_by_side.is_some() { 1 } else { self.vectors.iter().sum() }
    }

    /// Whether [`LinearMap::on_slots`] can compute them: the input is one vector, and the diagonals are not too many to
    /// keep.
    pub fn fit_slots(&self, layout: &Layout) -> bool {
        self.period <= MAX_DIAGONALS && self.inputs.iter().all(|input| *input < layout.dimensions())
    }
}

impl LinearMap {
    /// The maps of the places of a layer, which have one input.
    pub fn new(
        (config, model): (&Config, Option<&Model>),
        layout: &Layout,
        units: &Units,
        places: &[Place],
    ) -> Result<Self, CircuitError> {
        let own = LinearPlaces::new(config, layout, places);
        let (mut rows, mut outputs) = (Vec::new(), Vec::new());
        for place in places {
            outputs.extend(outputs_of(config, layout, place.quantity, rows.len()));
            rows.extend((0..width_of(config, place.quantity)).map(|row| (*place, row)));
        }
        let Some(model) = model else {
            return Ok(LinearMap { places: own, outputs, weights: None });
        };
        let mut weights = Array2::zeros((rows.len(), own.inputs.len()));
        for (index, (place, row)) in rows.iter().enumerate() {
            let source = linear_weights(model, *place)?.row(*row);
            let output = units.of_output(*place, *row);
            for (column, (target, weight)) in weights.row_mut(index).iter_mut().zip(source).enumerate() {
                *target = (f64::from(*weight) * units.of_input(*place, column) / output) as f32;
            }
        }
        Ok(LinearMap { places: own, outputs, weights: Some(weights) })
    }

    /// A weight; if it is not known, one that differs from others, so that no diagonal takes less memory than those of
    /// weights.
    fn weight(&self, row: usize, column: usize) -> f64 {
        let mixed = || ((row << 20 ^ column) as u32).wrapping_mul(0x9e37_79b9);
        self.weights.as_ref().map_or_else(|| 1.0 + f64::from(mixed()), |weights| f64::from(weights[(row, column)]))
    }

    /// The map of slots for a vector of the outputs.
    pub fn on_slots(&self, layout: &Layout, vector: usize) -> SlotMap {
        let (period, inputs) = (self.places.period, &self.places.inputs);
        let mut columns = vec![None; period];
        inputs.iter().enumerate().for_each(|(column, input)| columns[*input] = Some(column));
        let outputs = &self.outputs[vector];
        SlotMap::new(layout.slots, |slot, take| {
            let (token, dimension) = (slot % layout.tokens, slot / layout.tokens);
            let Some(row) = outputs[dimension] else { return };
            for turn in 0..period {
                if let Some(column) = columns[(dimension + turn) % period] {
                    let source = token + layout.tokens * ((dimension + turn) % layout.dimensions());
                    take(source, self.weight(row, column));
                }
            }
        })
    }

    /// The matrix for a product on coefficients, which gives some vectors of the outputs.
    pub fn on_coefficients(
        &self,
        plan: &Bootstrap,
        small: &SmallRing,
        vectors: Range<usize>,
    ) -> Result<CoefficientMatrix, CkksError> {
        let all: Vec<Option<usize>> = match self.places.side_by_side {
            Some(period) => self.outputs.iter().flat_map(|rows| &rows[..period]).copied().collect(),
            None => self.outputs[vectors].concat(),
        };
        let mut rows: Vec<usize> = all.iter().flatten().copied().collect();
        rows.sort_unstable();
        rows.dedup();
        let outputs: Vec<Option<usize>> = all.into_iter().map(|row| rows.binary_search(&row?).ok()).collect();
        let places = DimensionPlaces { inputs: &self.places.inputs, outputs: &outputs };
        match self.weights {
            Some(_) => CoefficientMatrix::new(plan, small, &places, rows.len(), |row, c| self.weight(rows[row], c)),
            None => CoefficientMatrix::counted(plan, small, &places, rows.len()),
        }
    }
}

/// The row of each dimension of each vector of a place, with rows from `first` on.
pub(crate) fn outputs_of(
    config: &Config,
    layout: &Layout,
    quantity: Quantity,
    first: usize,
) -> Vec<Vec<Option<usize>>> {
    let dimensions = layout.dimensions();
    match quantity {
        Quantity::Query | Quantity::Key | Quantity::Value => {
            let group = if quantity == Quantity::Query { 1 } else { config.group() };
            let row = |block: usize, dimension: usize| {
                let head = block * layout.block_heads + dimension % layout.block_heads;
                let coordinate = layout.coordinate(dimension / layout.block_heads % layout.width)?;
                (head < config.heads).then_some(first + head / group * config.head_width + coordinate)
            };
            (0..layout.blocks).map(|block| (0..dimensions).map(|d| row(block, d)).collect()).collect()
        }
        _ => {
            let width = width_of(config, quantity);
            let period = layout.period(width);
            let row = |vector: usize, dimension: usize| {
                let row = vector * dimensions + dimension % period;
                (row < width).then_some(first + row)
            };
            let vectors = layout.activation_vectors(width);
            (0..vectors).map(|vector| (0..dimensions).map(|d| row(vector, d)).collect()).collect()
        }
    }
}

/// Width of activations.
pub(crate) fn width_of(config: &Config, quantity: Quantity) -> usize {
    match quantity {
        Quantity::Query => config.query_width(),
        Quantity::Key | Quantity::Value => config.kv_width(),
        Quantity::Gate | Quantity::Up | Quantity::Silu | Quantity::Hidden => config.ffn_width,
        Quantity::Logits => config.vocabulary,
        _ => config.width,
    }
}

impl Units {
    /// The unit of the result of a linear map in a row.
    pub(crate) fn of_output(&self, place: Place, row: usize) -> f64 {
        match place.quantity {
            Quantity::Logits => self.logits,
            Quantity::AttentionOutput | Quantity::FfnOutput => self.residual,
            _ => {
                let layer = &self.layers[place.layer];
                match place.quantity {
                    Quantity::Query => layer.of_queries(row / self.head_width),
                    Quantity::Key => layer.of_keys(row / self.head_width),
                    Quantity::Value => layer.value,
                    Quantity::Gate => layer.gate[row],
                    _ => layer.up[row],
                }
            }
        }
    }

    /// The unit of the input of a linear map in a column.
    fn of_input(&self, place: Place, column: usize) -> f64 {
        match place.quantity {
            Quantity::Logits => self.last_norm.output,
            Quantity::AttentionOutput => self.layers[place.layer].value,
            Quantity::FfnOutput => self.layers[place.layer].hidden[column],
            Quantity::Gate | Quantity::Up => self.layers[place.layer].ffn_norm.output,
            _ => self.layers[place.layer].attention_norm.output,
        }
    }
}
