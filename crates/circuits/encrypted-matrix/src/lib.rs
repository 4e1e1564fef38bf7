#![doc = include_str!("../README.md")]

mod blocks;
mod elementwise;
mod encrypted;
mod error;
mod graph;
mod indices;
mod layout;
mod linear;
mod permuted;
mod product;
mod reduce;
mod tile;

pub use elementwise::{add, multiply, scale, subtract};
pub use encrypted::{EncryptedMatrix, decode_tiles, encode_tiles};
pub use error::EncryptedMatrixError;
pub use graph::{
    Budget, Graph, MatrixProgram, Node, Operation, OperationKind, Payload, PayloadKind, StepOverflow, ValueBounds, plan,
};
pub use layout::Layout;
pub use linear::{LinearMap, Operand};
pub use permuted::VectorPermutation;
pub use product::{Estimate, Method, Product, ProductTask, estimates};
pub use reduce::{Axis, MatrixVector, Sum, TileMask};
pub use tile::Term;
pub use unspoken_permute::PlanCache;
