#![doc = include_str!("../README.md")]

mod encrypted;
mod error;
mod layout;
mod product;
mod tile;

pub use encrypted::{EncryptedMatrix, decode_tiles, encode_tiles};
pub use error::MatrixError;
pub use layout::Layout;
pub use product::{Estimate, Method, Product, Task, estimates};
