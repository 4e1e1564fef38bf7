#![doc = include_str!("../README.md")]

mod codec;
mod compact;
mod direct;
mod error;
mod one_hot;
mod reader;

pub use codec::{QueryCodec, QueryForm, QueryShape};
pub use compact::Compact;
pub use direct::Direct;
pub use error::{QueryError, lookup_fault};
pub use one_hot::OneHot;
pub use reader::QueryReader;
