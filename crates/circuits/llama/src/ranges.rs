//! Ranges of the values of the circuit over text.

use std::collections::BTreeMap;

use ndarray::Axis;
use ndarray::parallel::prelude::*;
use unspoken_llama_model::Config;

use crate::clear::Watch;
use crate::place::{Place, Quantity};
use crate::tensor::Tensor;

/// Smallest and largest values of each place: of each coordinate of activations, and of each group of scores, weights
/// and factors. A [`Watch`] that may see many passes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ranges {
    places: BTreeMap<Place, Vec<Interval>>,
}

/// The values from `low` to `high`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Smallest value.
    pub low: f64,
    /// Largest value.
    pub high: f64,
}

impl Interval {
    const EMPTY: Interval = Interval { low: f64::INFINITY, high: f64::NEG_INFINITY };

    /// The largest absolute value.
    pub fn largest(&self) -> f64 {
        self.low.abs().max(self.high.abs())
    }

    /// Whether a value is inside.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// The logarithms of positive values.
    pub(crate) fn logarithms(&self) -> Self {
        Interval { low: self.low.ln(), high: self.high.ln() }
    }

    /// Whether both ends are finite and in order.
    pub(crate) fn is_valid(&self) -> bool {
        self.low.is_finite() && self.high.is_finite() && self.low <= self.high
    }

    /// The same centre, and `factor` times the length.
    pub(crate) fn widened(&self, factor: f64) -> Self {
        let (centre, half) = ((self.low + self.high) / 2.0, factor * (self.high - self.low) / 2.0);
        Interval { low: centre - half, high: centre + half }
    }

    /// The factor by which this interval must be widened to hold another one.
    pub(crate) fn margin(&self, other: &Interval) -> f64 {
        let (centre, half) = ((self.low + self.high) / 2.0, (self.high - self.low) / 2.0);
        (centre - other.low).max(other.high - centre) / half.max(f64::MIN_POSITIVE)
    }

    /// A value that is not finite makes the interval invalid for good.
    fn add(&mut self, value: f64) {
        if !value.is_finite() || self.low.is_nan() {
            *self = Interval { low: f64::NAN, high: f64::NAN };
            return;
        }
        self.low = self.low.min(value);
        self.high = self.high.max(value);
    }
}

impl Ranges {
    /// No values.
    pub fn new() -> Self {
        Self::default()
    }

    /// The ranges of a place: for each coordinate, or for each group ([`Quantity::by_coordinate`]).
    pub fn of(&self, place: Place) -> Option<&[Interval]> {
        self.places.get(&place).map(Vec::as_slice)
    }

    /// The largest absolute value of a place.
    pub fn largest(&self, place: Place) -> Option<f64> {
        Some(self.of(place)?.iter().map(Interval::largest).fold(0.0, f64::max))
    }

    /// The first place with a value that was not finite.
    pub(crate) fn invalid(&self) -> Option<Place> {
        let invalid = |intervals: &Vec<Interval>| !intervals.iter().all(Interval::is_valid);
        self.places.iter().find(|(_, intervals)| invalid(intervals)).map(|(place, _)| *place)
    }

    /// All places that were seen.
    pub fn places(&self) -> impl Iterator<Item = Place> + '_ {
        self.places.keys().copied()
    }

    /// Adds the ranges of other text.
    pub fn merge(&mut self, other: &Ranges) {
        for (place, intervals) in &other.places {
            let own = self.places.entry(*place).or_insert_with(|| vec![Interval::EMPTY; intervals.len()]);
            for (own, more) in own.iter_mut().zip(intervals) {
                own.add(more.low);
                own.add(more.high);
            }
        }
    }

    /// Sets the ranges of a place.
    pub(crate) fn set(&mut self, place: Place, intervals: Vec<Interval>) {
        self.places.insert(place, intervals);
    }

    /// Multiplies the ranges of a place, group by group.
    pub(crate) fn multiply(&mut self, place: Place, factors: &[f64]) {
        if let Some(intervals) = self.places.get_mut(&place) {
            for (interval, factor) in intervals.iter_mut().zip(factors) {
                *interval = Interval { low: interval.low * factor, high: interval.high * factor };
            }
        }
    }
}

impl Quantity {
    /// Whether each coordinate has its own range and polynomial, as for activations. Scores, weights and factors have
    /// one for each head, or a single one.
    pub fn by_coordinate(&self) -> bool {
        !matches!(
            self,
            Quantity::AttentionNormSquare
                | Quantity::AttentionNormFactor
                | Quantity::QueryNormSquare
                | Quantity::QueryNormFactor
                | Quantity::KeyNormSquare
                | Quantity::KeyNormFactor
                | Quantity::Score
                | Quantity::Exponential
                | Quantity::SoftmaxSquare(_)
                | Quantity::SoftmaxFactor(_)
                | Quantity::SoftmaxScaled(_)
                | Quantity::SoftmaxWeight(_)
                | Quantity::FfnNormSquare
                | Quantity::FfnNormFactor
                | Quantity::LastNormSquare
                | Quantity::LastNormFactor
        )
    }
}

impl Quantity {
    /// Number of ranges of a place: of coordinates, or of groups.
    pub(crate) fn count(&self, config: &Config) -> usize {
        match self {
            Quantity::Query | Quantity::QueryNorm | Quantity::RotatedQuery | Quantity::Attention => {
                config.query_width()
            }
            Quantity::Key | Quantity::KeyNorm | Quantity::RotatedKey | Quantity::Value => config.kv_width(),
            Quantity::QueryNormSquare | Quantity::QueryNormFactor => config.heads,
            Quantity::KeyNormSquare | Quantity::KeyNormFactor => config.kv_heads,
            Quantity::Gate | Quantity::Up | Quantity::Silu | Quantity::Hidden => config.ffn_width,
            Quantity::Logits => config.vocabulary,
            Quantity::Score
            | Quantity::Exponential
            | Quantity::SoftmaxSquare(_)
            | Quantity::SoftmaxFactor(_)
            | Quantity::SoftmaxScaled(_)
            | Quantity::SoftmaxWeight(_) => config.heads,
            _ if self.by_coordinate() => config.width,
            _ => 1,
        }
    }

    /// Whether it is a mean or a sum of squares.
    pub(crate) fn is_square(&self) -> bool {
        matches!(
            self,
            Quantity::AttentionNormSquare
                | Quantity::QueryNormSquare
                | Quantity::KeyNormSquare
                | Quantity::SoftmaxSquare(_)
                | Quantity::FfnNormSquare
                | Quantity::LastNormSquare
        )
    }
}

impl Watch for Ranges {
    fn see(&mut self, place: Place, tensor: &Tensor) {
        let by_coordinate = place.quantity.by_coordinate();
        let masked = place.quantity == Quantity::Score;
        let shape = tensor.shape();
        let count = if by_coordinate { shape.width } else { shape.groups };
        let intervals = self.places.entry(place).or_insert_with(|| vec![Interval::EMPTY; count]);
        if by_coordinate {
            for row in tensor.0.lanes(Axis(2)) {
                row.iter().zip(intervals.iter_mut()).for_each(|(value, interval)| interval.add(f64::from(*value)));
            }
        } else {
            tensor.0.axis_iter(Axis(0)).into_par_iter().zip(intervals).for_each(|(values, interval)| {
                let unmasked = values.iter().filter(|value| !masked || **value != f32::NEG_INFINITY);
                unmasked.for_each(|value| interval.add(f64::from(*value)));
            });
        }
    }
}
