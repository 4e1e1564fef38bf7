//! What a design must reach.

use serde::{Deserialize, Serialize};

use super::margins::Margins;

/// What a design must reach.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DesignOptions {
    /// Precision of the circuit in bits of each value's range. Polynomials get two bits more: inverse square roots
    /// relative to the value, exponentials relative to the largest of a head, SiLU relative to the largest of a layer,
    /// in the root of the mean square over its coordinates.
    pub bits: f64,
    /// Margins of the intervals beyond the ranges of calibration text, at least.
    pub margins: Margins,
    /// Factor by which margins grow at most: intervals are widened as long as the degree stays precise enough.
    pub widening: f64,
    /// Maximum number of tokens of a session, public and private: no sum of squares of weights is smaller than its
    /// inverse. Without it, the context of the model.
    pub tokens: Option<usize>,
    /// Degrees to choose from, in rising order. A polynomial of degree `2^j - 1` uses `j` levels.
    pub degrees: Vec<usize>,
}

/// Bounds of options that are read from a file.
const MAX_BITS: f64 = 60.0;
const MAX_FACTOR: f64 = 1e6;
const MAX_DEGREE: usize = 511;
const MAX_DEGREES: usize = 64;

impl DesignOptions {
    /// Checks options that were read from a file.
    ///
    /// # Errors
    /// What was found and what was needed.
    pub fn check(&self) -> Result<(), (String, String)> {
        if !(self.bits > 0.0 && self.bits <= MAX_BITS) {
            return Err((format!("{} bits", self.bits), format!("more than 0, at most {MAX_BITS}")));
        }
        let margins = self.margins.named().map(|(_, margin)| margin);
        for factor in margins.into_iter().chain([self.widening]) {
            if !(1.0..=MAX_FACTOR).contains(&factor) {
                return Err((format!("a margin or widening of {factor}"), format!("1 to {MAX_FACTOR}")));
            }
        }
        let rising = self.degrees.windows(2).all(|pair| pair[0] < pair[1]);
        let bounded = self.degrees.iter().all(|degree| (1..=MAX_DEGREE).contains(degree));
        if self.degrees.is_empty() || self.degrees.len() > MAX_DEGREES || !rising || !bounded {
            let needed = format!("1 to {MAX_DEGREES} rising degrees from 1 to {MAX_DEGREE}");
            return Err((format!("{} degrees", self.degrees.len()), needed));
        }
        match self.tokens {
            Some(0) => Err(("sessions of 0 tokens".into(), "at least 1".into())),
            _ => Ok(()),
        }
    }
}

impl Default for DesignOptions {
    fn default() -> Self {
        DesignOptions {
            bits: 14.0,
            margins: Margins::default(),
            widening: 3.0,
            tokens: None,
            degrees: vec![7, 15, 31, 63, 127, 255],
        }
    }
}
