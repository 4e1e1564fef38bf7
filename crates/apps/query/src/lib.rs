#![doc = include_str!("../README.md")]

mod choice;
mod codec;
mod compact;
mod description;
mod direct;
mod error;
mod forms;
mod one_hot;
mod reader;
mod shape;
mod short;
mod short_compact;

pub use choice::{Attempt, LookupCandidate, LookupChoice};
pub use codec::{QueryCodec, QueryForm};
pub use compact::Compact;
pub use description::{IndexDescription, IndexFields};
pub use direct::Direct;
pub use error::{QueryError, lookup_error_kind};
pub use forms::{ShortForms, ShortOffer};
pub use one_hot::OneHot;
pub use reader::QueryReader;
pub use shape::QueryShape;
pub use short::{ShortAnswer, ShortQuery};
pub use short_compact::ShortCompact;
