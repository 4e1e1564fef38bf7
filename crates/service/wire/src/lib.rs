//! Versioned messages between client and server, and their limits.
//!
//! [`v1`] contains the messages, generated from `proto/unspoken/v1/service.proto`. [`decode`] decodes untrusted bytes:
//! it checks their length first; [`decode_json`] does so for JSON. [`ProblemCode`] lists the reasons for which a server
//! refuses a request. [`http`] contains the paths, header names and media types that both sides use. [`AnswerReader`]
//! reads an answer that is sent while it is computed.
//!
//! ```
//! use unspoken_wire::{MAX_CONTROL_BYTES, Message, decode, v1::KeyDeclaration};
//!
//! let declaration = KeyDeclaration {
//!     application: "classify/spam".into(),
//!     key_format: 1,
//!     length: 1 << 30,
//!     blake3: vec![7; 32],
//! };
//! let bytes = declaration.encode_to_vec();
//! assert_eq!(decode::<KeyDeclaration>(&bytes, MAX_CONTROL_BYTES)?, declaration);
//! assert!(decode::<KeyDeclaration>(&bytes, 10).is_err());
//! # Ok::<(), unspoken_wire::WireError>(())
//! ```

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
