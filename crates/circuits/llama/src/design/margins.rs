//! How much wider intervals are than the ranges of calibration text.

use serde::{Deserialize, Serialize};

use crate::place::{Place, Quantity};

/// A value for each kind of argument: by default the factor by which its intervals are wider than the ranges of
/// calibration text.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Margins<T = f64> {
    /// Mean squares in norms: the length of the interval of logarithms is multiplied.
    pub norm: T,
    /// Sums of squares in softmax: the length of the interval of logarithms is multiplied.
    pub softmax: T,
    /// Scores: the length is multiplied.
    pub score: T,
    /// Gates: the largest absolute value is multiplied.
    pub gate: T,
}

/// A margin that text needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Needed {
    /// The margin, at least 1.
    pub margin: f64,
    /// The place that needs it; none if it is 1.
    pub place: Option<Place>,
}

impl Default for Margins {
    fn default() -> Self {
        Margins::all(1.25)
    }
}

impl<T: Copy> Margins<T> {
    /// The same value for all.
    pub fn all(value: T) -> Self {
        Margins { norm: value, softmax: value, score: value, gate: value }
    }

    /// The results of a function.
    pub fn map<U>(&self, function: impl Fn(T) -> U) -> Margins<U> {
        let Margins { norm, softmax, score, gate } = *self;
        Margins { norm: function(norm), softmax: function(softmax), score: function(score), gate: function(gate) }
    }

    /// Names and values.
    pub fn named(&self) -> [(&'static str, T); 4] {
        [("norm", self.norm), ("softmax", self.softmax), ("score", self.score), ("gate", self.gate)]
    }

    /// The value for the kind of an argument.
    pub(super) fn of(&mut self, argument: Quantity) -> &mut T {
        match argument {
            Quantity::SoftmaxSquare(_) => &mut self.softmax,
            Quantity::Score => &mut self.score,
            Quantity::Gate => &mut self.gate,
            _ => &mut self.norm,
        }
    }
}
