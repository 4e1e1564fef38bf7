#![doc = include_str!("../README.md")]

mod arithmetic;
mod attention;
mod compute;
mod count;
mod decode;
mod error;
mod evaluator;
mod explain;
mod layout;
mod linear;
mod lookup;
mod ops;
mod packing;
mod part;
mod place;
mod program;
mod public;
mod requirements;
mod session;
mod slot_map;
mod spread;
mod units;

pub use arithmetic::{PassArithmetic, Tensor};
pub use count::{CountedPass, Dimensions};
pub use error::PassError;
pub use evaluator::{EncryptedEvaluator, PassEvaluator, SimulatedEvaluator};
pub use explain::{ExplainedStep, Work};
pub use layout::{Columns, Key, Layout};
pub use lookup::{EmbeddingLookup, TokenEncoding};
pub use part::{Part, PartTask, PassPlace};
pub use place::Placed;
pub use program::{PassProgram, PassResult, WEIGHT_BITS};
pub use public::Public;
pub use requirements::Requirements;
pub use session::Session;
pub use spread::{Helpers, SimulatedProcesses, SpreadTimes};
