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
mod short_compact;
mod small;

pub use choice::{Attempt, LookupCandidate, LookupChoice};
pub use codec::{QueryCodec, QueryForm};
pub use compact::Compact;
pub use description::{IndexDescription, IndexFields};
pub use direct::Direct;
pub use error::{QueryError, lookup_error_kind};
pub use forms::{SmallForms, SmallOffer};
pub use one_hot::OneHot;
pub use reader::QueryReader;
pub use shape::QueryShape;
pub use short_compact::ShortCompact;
pub use small::{SmallAnswer, SmallQuery};
