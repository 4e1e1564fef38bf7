//! Functions of one variable.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use serde::{Deserialize, Deserializer, Serialize};

/// A function that is applied to each element of a value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
#[non_exhaustive]
pub enum Function {
    /// `max(x, 0)`.
    Relu,
    /// `x` for positive `x`, else `slope * x`.
    LeakyRelu {
        /// The slope for negative arguments.
        slope: f64,
    },
    /// `|x|`.
    Abs,
    /// `max(low, min(high, x))`. Without a lower limit `low` is -infinity, and `high` infinity without an upper one.
    Clip {
        /// The smallest value.
        #[serde(deserialize_with = "low")]
        low: f64,
        /// The largest value.
        #[serde(deserialize_with = "high")]
        high: f64,
    },
    /// `max(0, min(1, slope * x + offset))`. PyTorch has a slope of 1/6, ONNX by default 0.2; both have an offset of
    /// 1/2.
    HardSigmoid {
        /// The slope in the middle.
        slope: f64,
        /// The value at 0.
        offset: f64,
    },
    /// `x * max(0, min(1, x / 6 + 1/2))`.
    HardSwish,
    /// `x` for positive `x`, else `alpha * (exp(x) - 1)`.
    Elu {
        /// The limit for negative arguments, with the other sign.
        alpha: f64,
    },
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// The hyperbolic tangent.
    Tanh,
    /// The error function.
    Erf,
    /// `x Phi(x)`, with the distribution function `Phi` of the normal distribution.
    Gelu,
    /// The approximation of [`Function::Gelu`] by a hyperbolic tangent.
    GeluTanh,
    /// `x / (1 + exp(-x))`.
    Silu,
    /// `ln(1 + exp(x))`.
    Softplus,
    /// `x tanh(ln(1 + exp(x)))`.
    Mish,
    /// The exponential function.
    Exp,
    /// The natural logarithm, of positive arguments.
    Log,
    /// The square root, of positive arguments.
    Root,
    /// `1 / sqrt(x)`, of positive arguments.
    InverseRoot,
    /// `1 / x`, of positive arguments.
    Reciprocal,
    /// `x^n`, computed exactly by products, for `n` of at least 1.
    Power(u32),
}

/// The lower limit of JSON, which has null for infinite numbers.
fn low<'de, D: Deserializer<'de>>(json: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(json)?.unwrap_or(f64::NEG_INFINITY))
}

/// The upper limit of JSON, which has null for infinite numbers.
fn high<'de, D: Deserializer<'de>>(json: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(json)?.unwrap_or(f64::INFINITY))
}

impl Function {
    /// Its value at `x`.
    pub fn value(self, x: f64) -> f64 {
        match self {
            Function::Relu => x.max(0.0),
            Function::LeakyRelu { slope } => x * if x > 0.0 { 1.0 } else { slope },
            Function::Abs => x.abs(),
            Function::Clip { low, high } => x.min(high).max(low),
            Function::HardSigmoid { slope, offset } => (slope * x + offset).clamp(0.0, 1.0),
            Function::HardSwish => x * (x / 6.0 + 0.5).clamp(0.0, 1.0),
            Function::Elu { alpha } => {
                if x > 0.0 {
                    x
                } else {
                    alpha * x.exp_m1()
                }
            }
            Function::Sigmoid => sigmoid(x),
            Function::Tanh => x.tanh(),
            Function::Erf => libm::erf(x),
            Function::Gelu => 0.5 * x * (1.0 + libm::erf(x * FRAC_1_SQRT_2)),
            Function::GeluTanh => x * sigmoid(2.0 * (2.0 / PI).sqrt() * (x + 0.044715 * x * x * x)),
            Function::Silu => x * sigmoid(x),
            Function::Softplus => softplus(x),
            Function::Mish => x * softplus(x).tanh(),
            Function::Exp => x.exp(),
            Function::Log => x.ln(),
            Function::Root => x.sqrt(),
            Function::InverseRoot => x.sqrt().recip(),
            Function::Reciprocal => x.recip(),
            Function::Power(n) => x.powi(n as i32),
        }
    }

    /// Whether `f(r x) = g(r) f(x)` for all positive `r`: then elements of different ranges share one polynomial.
    pub(crate) fn is_homogeneous(self) -> bool {
        matches!(self, Function::Relu | Function::LeakyRelu { .. } | Function::Abs | Function::Power(_))
    }

    /// Whether it has only positive arguments.
    pub(crate) fn is_of_positive(self) -> bool {
        matches!(self, Function::Log | Function::Root | Function::InverseRoot | Function::Reciprocal)
    }

    /// Whether its slope jumps, so that polynomials converge slowly.
    pub(crate) fn has_kink(self) -> bool {
        use Function::{Abs, Clip, Elu, HardSigmoid, HardSwish, LeakyRelu, Relu};
        matches!(self, Relu | LeakyRelu { .. } | Abs | Clip { .. } | HardSigmoid { .. } | HardSwish | Elu { .. })
    }

    /// Whether its parameters are numbers it can have. The error is what is needed.
    pub(crate) fn check(self) -> Result<(), &'static str> {
        let (valid, needed) = match self {
            Function::LeakyRelu { slope } => (slope.is_finite(), "a finite slope"),
            Function::Elu { alpha } => (alpha.is_finite(), "a finite alpha"),
            Function::HardSigmoid { slope, offset } => {
                (slope.is_finite() && offset.is_finite(), "a finite slope and offset")
            }
            Function::Clip { low, high } => (low < high, "a low end below the high end"),
            Function::Power(n) => ((1..=MOST_POWER).contains(&n), "an exponent from 1 to 64"),
            _ => (true, ""),
        };
        if valid { Ok(()) } else { Err(needed) }
    }
}

/// Largest exponent: more levels than any parameters have for the powers above.
const MOST_POWER: u32 = 64;

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
    fn values_are_those_of_the_definitions() {
        for (function, x, expected) in [
            (Function::Relu, -2.0, 0.0),
            (Function::LeakyRelu { slope: 0.1 }, -2.0, -0.2),
            (Function::Clip { low: -1.0, high: 6.0 }, 7.0, 6.0),
            (Function::HardSigmoid { slope: 0.2, offset: 0.5 }, 1.0, 0.7),
            (Function::HardSwish, 1.0, 2.0 / 3.0),
            (Function::Elu { alpha: 1.0 }, -1.0, -0.6321205588285577),
            (Function::Sigmoid, 2.0, 0.8807970779778823),
            (Function::Erf, 0.5, 0.5204998778130465),
            (Function::Gelu, 1.0, 0.8413447460685429),
            (Function::GeluTanh, 1.0, 0.8411919906082768),
            (Function::Silu, 2.0, 1.7615941559557646),
            (Function::Softplus, -800.0, 0.0),
            (Function::Softplus, 1.0, 1.3132616875182228),
            (Function::Power(3), -2.0, -8.0),
        ] {
            assert!((function.value(x) - expected).abs() < 1e-12, "{function:?}: {}", function.value(x));
        }
        assert!(Function::Power(0).check().is_err() && Function::Clip { low: 1.0, high: 1.0 }.check().is_err());
    }
}
