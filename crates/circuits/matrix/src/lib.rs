#![doc = include_str!("../README.md")]

mod elementwise;
mod encrypted;
mod error;
mod expression;
mod layout;
mod linear;
mod product;
mod reduce;
mod rows;
mod skewed;
mod tile;

pub use elementwise::{add, multiply, scale, subtract};
pub use encrypted::{EncryptedMatrix, decode_tiles, encode_tiles};
pub use error::MatrixError;
pub use expression::{Budget, Expression, Program, plan};
pub use layout::Layout;
pub use linear::{Input, LinearMap};
pub use product::{Estimate, Method, Product, Task, estimates};
pub use reduce::{Axis, Cleaning, MatrixVector, Sum};
pub use rows::{EncryptedRows, RowsProduct};
pub use skewed::{SkewedMatrix, SkewedProduct};
