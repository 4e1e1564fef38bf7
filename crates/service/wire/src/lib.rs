#![doc = include_str!("../README.md")]

mod check;
mod decode;
pub mod http;
mod json;
mod problem;
mod stream;

pub use check::{CheckedDeclaration, is_application_name};
pub use decode::{MAX_CONTROL_BYTES, WireError, decode, decode_json};
pub use problem::ProblemCode;
pub use prost::Message;
pub use stream::{AnswerFrame, AnswerReader, answer_front, problem_frame, progress_frame};

/// Version 1 of the messages. Fields are documented in the schema.
#[allow(missing_docs)]
pub mod v1 {
    include!(concat!(env!("OUT_DIR"), "/unspoken.v1.rs"));
}
