//! Errors of this crate.

use crate::place::Place;

/// A circuit could not be run or designed.
#[derive(Debug, thiserror::Error)]
pub enum CircuitError {
    /// The model has no weights for a linear map.
    #[error("{place}: found no weights, needed those of a linear map of this model; use the model of the circuit")]
    NoWeights {
        /// The linear map.
        place: Place,
    },
    /// Options of a design are out of bounds.
    #[error("found {found}, needed {needed}")]
    Options {
        /// What was found.
        found: String,
        /// What was needed.
        needed: String,
    },
    /// A value is not finite.
    #[error(
        "{place}: found a value that is not finite, needed finite ones; scores above about 44 times 2^k overflow in \
         calibration, with k rounds of softmax: use more rounds, or another model"
    )]
    NotFinite {
        /// The value.
        place: Place,
    },
    /// Calibration has not seen a value.
    #[error("{place}: found no range, needed one from calibration; calibrate with the same model and circuit")]
    NoRange {
        /// The value.
        place: Place,
    },
    /// No polynomial of the allowed degrees is precise enough on the interval that the values need.
    #[error(
        "{place}: found arguments from {low:.3e} to {high:.3e} in group or coordinate {index}, needed {bits} bits \
         there; degree {degree}, the largest allowed, gives {found:.1} bits; use a longer prefix, a longer public \
         text, a smaller margin, more rounds of softmax, or fewer bits"
    )]
    Imprecise {
        /// The function's result.
        place: Place,
        /// Group or coordinate whose interval is too wide.
        index: usize,
        /// Smallest argument, margin included.
        low: f64,
        /// Largest argument, margin included.
        high: f64,
        /// The largest allowed degree.
        degree: usize,
        /// Precision that was asked for.
        bits: f64,
        /// Precision at the largest degree.
        found: f64,
    },
    /// A polynomial could not be made.
    #[error(transparent)]
    Polynomial(#[from] unspoken_ckks::CkksError),
    /// Tokens do not fit the model.
    #[error(transparent)]
    Input(#[from] unspoken_llama_model::InputError),
}
