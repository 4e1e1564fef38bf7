//! Functions of one number.

use serde::{Deserialize, Deserializer, Serialize};

use crate::graph::Tensor;

/// A function that is applied to each number.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Activation {
    /// `max(x, 0)`.
    Relu,
    /// `x` if `x >= 0`, else `slope * x`.
    LeakyRelu {
        /// The slope below zero.
        slope: f32,
    },
    /// `x` if `x >= 0`, else `slope * x`, with a slope that broadcasts to the row.
    PRelu {
        /// The slopes. Rank as the row's.
        slope: Tensor,
    },
    /// `x` if `x >= 0`, else `alpha * (exp(x) - 1)`.
    Elu {
        /// The limit below zero, negated.
        alpha: f32,
    },
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// The hyperbolic tangent.
    Tanh,
    /// The error function.
    Erf,
    /// `x * (1 + erf(x / sqrt(2))) / 2`.
    Gelu,
    /// `x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2`.
    GeluTanh,
    /// `x / (1 + exp(-x))`.
    Silu,
    /// `x * tanh(ln(1 + exp(x)))`.
    Mish,
    /// `x * max(0, min(1, x / 6 + 1 / 2))`.
    HardSwish,
    /// `max(0, min(1, alpha * x + beta))`.
    HardSigmoid {
        /// The slope.
        alpha: f32,
        /// The value at zero.
        beta: f32,
    },
    /// `ln(1 + exp(x))`.
    Softplus,
    /// `max(low, min(high, x))`; `low <= high`. Without a lower limit `low` is -infinity, and `high` infinity without
    /// an upper one.
    Clip {
        /// The least value.
        #[serde(deserialize_with = "low")]
        low: f32,
        /// The greatest value.
        #[serde(deserialize_with = "high")]
        high: f32,
    },
    /// The absolute value.
    Abs,
    /// The exponential function.
    Exp,
    /// The natural logarithm.
    Log,
    /// The square root.
    Sqrt,
    /// `1 / x`.
    Reciprocal,
    /// `x` to a constant power.
    Power {
        /// The exponent.
        exponent: f32,
    },
}

impl Activation {
    /// The function of one number. [`Activation::PRelu`] has one function for each slope, and `slope` is the one here;
    /// other functions ignore it.
    pub fn apply(&self, x: f32, slope: f32) -> f32 {
        let x = f64::from(x);
        let above = |below: f64| if x >= 0.0 { x } else { below };
        let value = match self {
            Activation::Relu => x.max(0.0),
            Activation::LeakyRelu { slope } => above(f64::from(*slope) * x),
            Activation::PRelu { .. } => above(f64::from(slope) * x),
            Activation::Elu { alpha } => above(f64::from(*alpha) * x.exp_m1()),
            Activation::Sigmoid => sigmoid(x),
            Activation::Tanh => x.tanh(),
            Activation::Erf => libm::erf(x),
            Activation::Gelu => x * 0.5 * (1.0 + libm::erf(x * std::f64::consts::FRAC_1_SQRT_2)),
            Activation::GeluTanh => x * 0.5 * (1.0 + (SQRT_2_OVER_PI * (x + GELU_CUBIC * x * x * x)).tanh()),
            Activation::Silu => x * sigmoid(x),
            Activation::Mish => x * softplus(x).tanh(),
            Activation::HardSwish => x * (x / 6.0 + 0.5).clamp(0.0, 1.0),
            Activation::HardSigmoid { alpha, beta } => (f64::from(*alpha) * x + f64::from(*beta)).clamp(0.0, 1.0),
            Activation::Softplus => softplus(x),
            Activation::Clip { low, high } => x.min(f64::from(*high)).max(f64::from(*low)),
            Activation::Abs => x.abs(),
            Activation::Exp => x.exp(),
            Activation::Log => x.ln(),
            Activation::Sqrt => x.sqrt(),
            Activation::Reciprocal => x.recip(),
            Activation::Power { exponent } => x.powf(f64::from(*exponent)),
        };
        value as f32
    }
}

/// The lower limit of JSON, which has null for infinite numbers.
fn low<'de, D: Deserializer<'de>>(json: D) -> Result<f32, D::Error> {
    Ok(Option::deserialize(json)?.unwrap_or(f32::NEG_INFINITY))
}

/// The upper limit of JSON, which has null for infinite numbers.
fn high<'de, D: Deserializer<'de>>(json: D) -> Result<f32, D::Error> {
    Ok(Option::deserialize(json)?.unwrap_or(f32::INFINITY))
}

/// `sqrt(2 / pi)`.
pub(crate) const SQRT_2_OVER_PI: f64 = std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2;
/// The factor of the cube in the approximation of GELU.
pub(crate) const GELU_CUBIC: f64 = 0.044715;

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// `ln(1 + exp(x))` without overflow.
fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn softplus_neither_overflows_nor_loses_small_values() {
        assert_eq!(Activation::Softplus.apply(100.0, 0.0), 100.0);
        assert!((Activation::Softplus.apply(-20.0, 0.0) / 2.061_153_6e-9 - 1.0).abs() < 1e-5);
    }
}
