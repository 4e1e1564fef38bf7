//! `unspoken compile` and `unspoken ask`: models that owners bring.

pub mod ask;
pub mod compile;
mod tables;
