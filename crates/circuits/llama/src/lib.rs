#![doc = include_str!("../README.md")]

mod arithmetic;
mod circuit;
mod place;
mod record;

pub use arithmetic::{Function, Shape, TensorArithmetic};
pub use circuit::{Circuit, Session};
pub use place::{Place, Quantity};
pub use record::{Node, Operation, RecordedCache, Recorder};
