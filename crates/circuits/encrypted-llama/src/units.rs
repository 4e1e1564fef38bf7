//! Units of the values of the pass, and the polynomials on values in these units.
//!
//! A vector holds values divided by a unit, so that what is bootstrapped is at most about 1, and that the arguments of
//! polynomials are the variable of their basis, from -1 to 1. Units are constants of a layer, a head or a coordinate;
//! they are factors of weights, of plaintexts and of coefficients, and cost no level.
//!
//! A norm's sum of squares has a factor that costs a level, unlike other units. Polynomials that differ between heads
//! or coordinates are evaluated together (`ckks::evaluate_slots`): every coefficient is a vector. A masked score has
//! the polynomial 0, so masking costs no level either.

use std::f64::consts::SQRT_2;

use unspoken_ckks::{CkksError, Complex64, Polynomial};
use unspoken_llama::{Approximation, Circuit, CircuitError, Design, Interval, Place, Quantity, linear_bias};
use unspoken_llama_model::Model;

/// Values of other text are larger than values of the calibration text. Bootstraps lose little precision beyond 1.
const MARGIN: f64 = 1.2;

/// Units of a layer.
#[derive(Clone, Debug)]
pub(crate) struct LayerUnits {
    pub attention_norm: NormUnits,
    /// Of queries before RoPE, if their heads have no norm.
    pub query: f64,
    /// Of rotated keys.
    pub key: f64,
    /// Norms of each head of queries, and of keys.
    pub head_norms: Option<[HeadNormUnits; 2]>,
    /// The largest absolute value of rotated queries, and of rotated keys in their unit.
    rotated: [f64; 2],
    pub value: f64,
    /// For each head: half the length of the interval of its scores, and the middle over that.
    pub score: Vec<(f64, f64)>,
    /// Polynomials of each head, of scores in their unit.
    pub exponential: Vec<Polynomial>,
    pub rounds: Vec<RoundUnits>,
    /// Inverse units of the inputs of each round, and of the weights after the last one, for each head.
    pub weights: Vec<Vec<f64>>,
    pub ffn_norm: NormUnits,
    /// For each coordinate: the unit of gates, of their factors, and of the products.
    pub gate: Vec<f64>,
    pub up: Vec<f64>,
    pub hidden: Vec<f64>,
    /// Polynomials of each coordinate, of gates in their unit.
    pub silu: Vec<Polynomial>,
}

/// A norm: the argument of its polynomial is `factor * sum of squares + offset`.
#[derive(Clone, Debug)]
pub(crate) struct NormUnits {
    pub factor: f64,
    pub offset: f64,
    pub polynomial: Polynomial,
    /// Unit of the output.
    pub output: f64,
}

/// The norm of each head of queries or keys. The argument of a head's polynomial is `factor * sum of squares` plus the
/// offset of the head.
#[derive(Clone, Debug)]
pub(crate) struct HeadNormUnits {
    /// Units of the input, for each head: in them all heads have the same factor.
    pub input: Vec<f64>,
    pub factor: f64,
    pub offsets: Vec<f64>,
    pub polynomials: Vec<Polynomial>,
    /// Unit of the output, which has no gains.
    pub output: f64,
}

/// A round of softmax: the argument of each head's polynomial is the sum of squares plus an offset.
#[derive(Clone, Debug)]
pub(crate) struct RoundUnits {
    pub offsets: Vec<f64>,
    pub polynomials: Vec<Polynomial>,
}

/// Units of a model.
#[derive(Clone, Debug)]
pub(crate) struct Units {
    /// Of the residual stream, in all layers.
    pub residual: f64,
    pub layers: Vec<LayerUnits>,
    pub last_norm: NormUnits,
    pub logits: f64,
    /// Width of a head.
    pub head_width: usize,
}

/// A polynomial of the variable of its interval, times a factor.
fn on_unit(approximation: &Approximation, index: usize, factor: f64) -> Result<Polynomial, CkksError> {
    let polynomial = approximation.polynomial(index)?;
    let coefficients: Vec<_> = polynomial.coefficients().iter().map(|c| c * factor).collect();
    Polynomial::chebyshev(&coefficients, -1.0, 1.0)
}

fn half(interval: &Interval) -> f64 {
    (interval.high - interval.low) / 2.0
}

fn middle(interval: &Interval) -> f64 {
    (interval.high + interval.low) / 2.0
}

struct Builder<'a> {
    circuit: &'a Circuit,
    design: &'a Design,
    model: Option<&'a Model>,
    residual: f64,
}

/// The largest absolute value that a linear map gives before its bias is added; 0 without a bias.
fn without_bias(design: &Design, model: Option<&Model>, place: Place) -> f64 {
    let bias = model.and_then(|model| linear_bias(model, place));
    let ranges = design.ranges().of(place).unwrap_or_default();
    let before = bias.into_iter().flatten().zip(ranges).map(|(bias, range)| {
        let bias = f64::from(*bias);
        Interval { low: range.low - bias, high: range.high - bias }.largest()
    });
    before.fold(0.0, f64::max)
}

impl Units {
    /// Units for the ranges of a design, for the embedding and the biases of a model.
    pub fn new(circuit: &Circuit, design: &Design, model: Option<&Model>) -> Result<Self, CircuitError> {
        let layers = circuit.config().layers;
        let embedding = model.into_iter().flat_map(|model| &model.weights.embedding);
        let mut residual = f64::from(embedding.fold(0.0f32, |most, value| most.max(value.abs())));
        for layer in 0..=layers {
            residual = residual.max(without_bias(design, model, Place::new(layer, Quantity::AttentionOutput)));
            for quantity in [Quantity::Residual, Quantity::MiddleResidual] {
                let seen = design.ranges().largest(Place::new(layer, quantity));
                residual = residual.max(seen.unwrap_or(0.0));
            }
        }
        let builder = Builder { circuit, design, model, residual: MARGIN * residual };
        Ok(Units {
            residual: builder.residual,
            layers: (0..layers).map(|layer| builder.layer(layer)).collect::<Result<_, _>>()?,
            last_norm: builder
                .norm(layers, [Quantity::LastNormSquare, Quantity::LastNormFactor, Quantity::LastNorm])?,
            logits: builder.largest(Place::new(layers, Quantity::Logits))?,
            head_width: circuit.config().head_width,
        })
    }
}

impl Builder<'_> {
    fn approximation(&self, place: Place) -> Result<&Approximation, CircuitError> {
        self.design.approximation(place).ok_or(CircuitError::NoRange { place })
    }

    /// The unit of a whole tensor.
    fn largest(&self, place: Place) -> Result<f64, CircuitError> {
        let largest = self.design.ranges().largest(place).ok_or(CircuitError::NoRange { place })?;
        Ok((MARGIN * largest).max(f64::MIN_POSITIVE))
    }

    /// The unit of the result of a linear map, which must hold what the map gives before its bias is added, too.
    fn of_map(&self, place: Place) -> Result<f64, CircuitError> {
        Ok(self.largest(place)?.max(MARGIN * without_bias(self.design, self.model, place)))
    }

    /// The unit of each coordinate.
    fn of_coordinates(&self, place: Place) -> Result<Vec<f64>, CircuitError> {
        let ranges = self.design.ranges().of(place).ok_or(CircuitError::NoRange { place })?;
        let largest = ranges.iter().map(Interval::largest).fold(0.0, f64::max);
        // A coordinate that hardly moved in calibration may move in other text.
        let unit = |range: &Interval| (MARGIN * range.largest()).max(largest / 32.0).max(f64::MIN_POSITIVE);
        Ok(ranges.iter().map(unit).collect())
    }

    fn norm(&self, layer: usize, [_, factor, output]: [Quantity; 3]) -> Result<NormUnits, CircuitError> {
        let config = self.circuit.config();
        let approximation = self.approximation(Place::new(layer, factor))?;
        let interval = approximation.intervals()[0];
        let output = self.largest(Place::new(layer, output))?;
        let (half, middle) = (half(&interval), middle(&interval));
        Ok(NormUnits {
            factor: self.residual * self.residual / (config.width as f64 * half),
            offset: (f64::from(config.norm_epsilon) - middle) / half,
            polynomial: on_unit(approximation, 0, self.residual / output)?,
            output,
        })
    }

    fn head_norm(&self, layer: usize, [input, factor, output]: [Quantity; 3]) -> Result<HeadNormUnits, CircuitError> {
        let config = self.circuit.config();
        let width = config.head_width;
        let at = |quantity| Place::new(layer, quantity);
        let approximation = self.approximation(at(factor))?;
        let intervals = approximation.intervals();
        // The unit of a head in which the sum of squares itself is the argument.
        let whole: Vec<f64> = intervals.iter().map(|interval| (width as f64 * half(interval)).sqrt()).collect();
        let bias = self.model.and_then(|model| linear_bias(model, at(input)));
        let ranges = self.design.ranges().of(at(input)).ok_or(CircuitError::NoRange { place: at(input) })?;
        let mut share = f64::MIN_POSITIVE;
        for (row, range) in ranges.iter().enumerate() {
            let bias = bias.map_or(0.0, |bias| f64::from(bias[row]));
            let before = Interval { low: range.low - bias, high: range.high - bias };
            share = share.max(MARGIN * range.largest().max(before.largest()) / whole[row / width]);
        }
        let input: Vec<f64> = whole.iter().map(|unit| share * unit).collect();
        let output = self.largest(at(output))?;
        let polynomials = input.iter().enumerate().map(|(head, unit)| on_unit(approximation, head, unit / output));
        let offset = |interval: &Interval| (f64::from(config.norm_epsilon) - middle(interval)) / half(interval);
        Ok(HeadNormUnits {
            factor: share * share,
            offsets: intervals.iter().map(offset).collect(),
            polynomials: polynomials.collect::<Result<_, _>>()?,
            input,
            output,
        })
    }

    fn layer(&self, layer: usize) -> Result<LayerUnits, CircuitError> {
        let at = |quantity| Place::new(layer, quantity);
        let (heads, rounds) = (self.circuit.config().heads, self.circuit.rounds());
        let scores = self.approximation(at(Quantity::Exponential))?;
        let sums: Vec<&Approximation> = (0..rounds)
            .map(|round| self.approximation(at(Quantity::SoftmaxFactor(round))))
            .collect::<Result<_, _>>()?;
        // The factor of the inputs of a round for which the interval of their sum of squares has length 2.
        let input = |round: usize, head: usize| match sums.get(round) {
            Some(sums) => half(&sums.intervals()[head]).sqrt().recip(),
            None => 1.0,
        };
        let exponential =
            (0..heads).map(|head| on_unit(scores, head, input(0, head))).collect::<Result<Vec<_>, _>>()?;
        let round = |round: usize| -> Result<RoundUnits, CircuitError> {
            let offset = |interval: &Interval| -middle(interval) / half(interval);
            let factor = |head: usize| input(round + 1, head).sqrt() / input(round, head);
            let polynomials = (0..heads).map(|head| on_unit(sums[round], head, factor(head)));
            let offsets = sums[round].intervals().iter().map(offset).collect();
            Ok(RoundUnits { offsets, polynomials: polynomials.collect::<Result<_, _>>()? })
        };
        let weights = (0..=usize::from(rounds)).map(|round| (0..heads).map(|head| input(round, head)).collect());
        let weights = weights.collect();
        let silu = self.approximation(at(Quantity::Silu))?;
        let gate: Vec<f64> = silu.intervals().iter().map(Interval::largest).collect();
        let (up, hidden) = (self.of_coordinates(at(Quantity::Up))?, self.of_coordinates(at(Quantity::Hidden))?);
        let silu = (0..gate.len()).map(|i| on_unit(silu, i, up[i] / hidden[i])).collect::<Result<_, _>>()?;
        let (query, mut key) = (self.of_map(at(Quantity::Query))?, self.of_map(at(Quantity::Key))?);
        // A turn makes a coordinate larger by the root of 2 at most.
        let (mut rotated, mut head_norms) = ([SQRT_2 / MARGIN * query, SQRT_2 / MARGIN], None);
        if self.circuit.config().attention.head_norms {
            key = self.largest(at(Quantity::RotatedKey))?;
            rotated = [self.largest(at(Quantity::RotatedQuery))? / MARGIN, MARGIN.recip()];
            head_norms = Some([
                self.head_norm(layer, [Quantity::Query, Quantity::QueryNormFactor, Quantity::QueryNorm])?,
                self.head_norm(layer, [Quantity::Key, Quantity::KeyNormFactor, Quantity::KeyNorm])?,
            ]);
        }
        Ok(LayerUnits {
            attention_norm: self
                .norm(layer, [Quantity::AttentionNormSquare, Quantity::AttentionNormFactor, Quantity::AttentionNorm])?,
            query,
            key,
            head_norms,
            rotated,
            value: self.of_map(at(Quantity::Value))?,
            score: scores.intervals().iter().map(|i| (half(i), middle(i) / half(i))).collect(),
            exponential,
            rounds: (0..usize::from(rounds)).map(round).collect::<Result<_, _>>()?,
            weights,
            ffn_norm: self.norm(layer, [Quantity::FfnNormSquare, Quantity::FfnNormFactor, Quantity::FfnNorm])?,
            gate,
            up,
            hidden,
            silu,
        })
    }
}

impl LayerUnits {
    /// The unit of the map to queries, of a head.
    pub fn of_queries(&self, head: usize) -> f64 {
        self.head_norms.as_ref().map_or(self.query, |norms| norms[0].input[head])
    }

    /// The unit of the map to keys, of a head of keys.
    pub fn of_keys(&self, head: usize) -> f64 {
        self.head_norms.as_ref().map_or(self.key, |norms| norms[1].input[head])
    }
}

impl Units {
    /// The norm of each head of a place; `None` if it is none of such a norm.
    pub fn head_norm(&self, place: Place) -> Option<&HeadNormUnits> {
        let [queries, keys] = self.layers.get(place.layer)?.head_norms.as_ref()?;
        match place.quantity {
            Quantity::QueryNormSquare | Quantity::QueryNormFactor => Some(queries),
            Quantity::KeyNormSquare | Quantity::KeyNormFactor => Some(keys),
            _ => None,
        }
    }

    /// The polynomials that replace the function of a place; `None` if the place is none of a function.
    pub fn polynomials(&self, place: Place) -> Option<&[Polynomial]> {
        let layer = || self.layers.get(place.layer);
        Some(match place.quantity {
            Quantity::Exponential => &layer()?.exponential,
            Quantity::Silu => &layer()?.silu,
            Quantity::SoftmaxFactor(round) => &layer()?.rounds.get(usize::from(round))?.polynomials,
            Quantity::AttentionNormFactor => std::slice::from_ref(&layer()?.attention_norm.polynomial),
            Quantity::QueryNormFactor | Quantity::KeyNormFactor => &self.head_norm(place)?.polynomials,
            Quantity::FfnNormFactor => std::slice::from_ref(&layer()?.ffn_norm.polynomial),
            Quantity::LastNormFactor => std::slice::from_ref(&self.last_norm.polynomial),
            _ => return None,
        })
    }

    /// The norm of a place; that before the head for places that are none.
    pub fn norm(&self, place: Place) -> &NormUnits {
        match place.quantity {
            Quantity::AttentionNormSquare | Quantity::AttentionNormFactor => &self.layers[place.layer].attention_norm,
            Quantity::FfnNormSquare | Quantity::FfnNormFactor => &self.layers[place.layer].ffn_norm,
            _ => &self.last_norm,
        }
    }
}

/// Largest absolute value in a bootstrap: the error of its sine grows with the cube of the values.
const LARGEST_REFRESHED: f64 = 1.5;

impl Units {
    /// Whether the values of a place, in their unit, are small enough for a bootstrap.
    pub fn can_refresh(&self, place: Place) -> bool {
        self.bound(place) <= LARGEST_REFRESHED
    }

    /// Levels of the products between the values of a place and the first values that are small enough for a bootstrap.
    pub fn levels_to_refresh(&self, place: Place) -> usize {
        if self.can_refresh(place) {
            return 0;
        }
        let rounds = self.layers.get(place.layer).map_or(0, |layer| layer.rounds.len());
        let scaled = |round: u8| (usize::from(round) < rounds).then_some(Quantity::SoftmaxScaled(round));
        let product = match place.quantity {
            Quantity::Exponential => scaled(0),
            Quantity::SoftmaxFactor(round) => scaled(round),
            Quantity::SoftmaxScaled(round) => Some(Quantity::SoftmaxWeight(round)),
            Quantity::SoftmaxWeight(round) => scaled(round + 1),
            // Sums, scores and outputs of norms are small.
            _ => None,
        };
        1 + product.map_or(0, |quantity| self.levels_to_refresh(Place::new(place.layer, quantity)))
    }

    /// A bound of the values of a place, in their unit, in text like the calibration text.
    fn bound(&self, place: Place) -> f64 {
        let Some(layer) = self.layers.get(place.layer) else {
            return match place.quantity {
                Quantity::LastNormFactor => largest(std::slice::from_ref(&self.last_norm.polynomial)),
                _ => 1.0,
            };
        };
        match place.quantity {
            Quantity::AttentionNormFactor => largest(std::slice::from_ref(&layer.attention_norm.polynomial)),
            Quantity::FfnNormFactor => largest(std::slice::from_ref(&layer.ffn_norm.polynomial)),
            Quantity::QueryNormFactor | Quantity::KeyNormFactor => {
                self.head_norm(place).map_or(1.0, |norm| largest(&norm.polynomials))
            }
            Quantity::RotatedKey => layer.rotated[1],
            Quantity::RotatedQuery => {
                layer.score.iter().fold(0.0, |most: f64, (half, _)| most.max(half.recip()))
                    * (layer.rotated[0] * layer.key / (self.head_width as f64).sqrt())
            }
            Quantity::Exponential => largest(&layer.exponential),
            Quantity::SoftmaxFactor(round) => largest(&layer.rounds[usize::from(round)].polynomials),
            Quantity::SoftmaxScaled(round) => most(&layer.weights[usize::from(round) + 1]).sqrt(),
            Quantity::SoftmaxWeight(round) => most(&layer.weights[usize::from(round) + 1]),
            Quantity::Silu => largest(&layer.silu),
            _ => 1.0,
        }
    }
}

/// The largest absolute value of polynomials on [-1, 1], at a few places.
fn largest(polynomials: &[Polynomial]) -> f64 {
    let at = |polynomial: &Polynomial| {
        let values = (0..=16).map(|place| polynomial.at(Complex64::from(f64::from(place) / 8.0 - 1.0)).re.abs());
        values.fold(0.0, f64::max)
    };
    polynomials.iter().map(at).fold(0.0, f64::max)
}

fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}
