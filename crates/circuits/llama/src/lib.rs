#![doc = include_str!("../README.md")]

mod approximation;
mod arithmetic;
mod circuit;
mod clear;
mod compare;
mod design;
mod error;
mod float;
mod noise;
mod pass;
mod place;
mod preparation;
mod ranges;
mod simulated;
mod tensor;
mod vocabulary;

pub use approximation::{Approximation, Escapes};
pub use arithmetic::{Function, Shape, TensorArithmetic};
pub use circuit::Circuit;
pub use clear::{Clear, Exact, Watch};
pub use compare::{Comparison, Sample, Simulation, calibrate};
pub use design::{Degrees, Design, DesignOptions, Margins, Needed};
pub use error::CircuitError;
pub use float::{FloatArithmetic, FloatCache, Steps, head_gains, linear_bias, linear_weights};
pub use noise::{EngineNoise, Noise};
pub use pass::Session;
pub use place::{Place, Quantity};
pub use preparation::{Preparation, PreparationError};
pub use ranges::{Interval, Ranges};
pub use simulated::{Noisy, Simulated};
pub use tensor::Tensor;
pub use vocabulary::vocabulary_windows;
