//! Answers that a service sends while it computes them.

use serde::Serialize;
use unspoken_wire::{AnswerFrame, AnswerReader};
use wasm_bindgen::prelude::*;

use crate::failure::Failure;
use crate::values::written;

#[wasm_bindgen(typescript_custom_section)]
const TYPES: &str = r#"
/** One part of an answer that is sent while it is computed. The last one is a problem or the answer. */
export type AnswerFrame =
  | { progress: { done: number; total: number } }
  | { problem: { code: string; status: number; message: string; remedy: string; retryAfterSeconds: number } }
  | { answer: Uint8Array };
"#;

/// Reads an answer with the media type `application/x-unspoken-progress`, in pieces of any length.
#[wasm_bindgen]
pub struct AnswerStream(AnswerReader);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Frame<'a> {
    Progress {
        done: u32,
        total: u32,
    },
    #[serde(rename_all = "camelCase")]
    Problem {
        code: &'a str,
        status: u32,
        message: &'a str,
        remedy: &'a str,
        retry_after_seconds: u32,
    },
    Answer(&'a serde_bytes::Bytes),
}

impl<'a> From<&'a AnswerFrame> for Frame<'a> {
    fn from(frame: &'a AnswerFrame) -> Self {
        match frame {
            AnswerFrame::Progress(progress) => Frame::Progress { done: progress.done, total: progress.total },
            AnswerFrame::Problem(problem) => Frame::Problem {
                code: &problem.code,
                status: problem.status,
                message: &problem.message,
                remedy: &problem.remedy,
                retry_after_seconds: problem.retry_after_seconds,
            },
            AnswerFrame::Answer(bytes) => Frame::Answer(serde_bytes::Bytes::new(bytes)),
        }
    }
}

#[wasm_bindgen]
impl AnswerStream {
    /// A reader of an answer of at most `most_bytes` bytes.
    #[wasm_bindgen(constructor)]
    pub fn new(most_bytes: usize) -> Self {
        AnswerStream(AnswerReader::new(most_bytes))
    }

    /// The parts that a piece completes, in their order. Not to be called again after an error.
    ///
    /// # Errors
    /// If the bytes are no such stream, a part is longer than it may be, or something follows the last one.
    #[wasm_bindgen(unchecked_return_type = "AnswerFrame[]")]
    pub fn push(&mut self, mut piece: &[u8]) -> Result<JsValue, JsValue> {
        let mut frames = Vec::new();
        while !piece.is_empty() {
            let frame = self.0.read(&mut piece).map_err(|error| Failure::Argument {
                what: "answer",
                found: error.to_string(),
                needed: "progress, then an answer or a problem; do not trust this service".into(),
            })?;
            frames.extend(frame);
        }
        written(&frames.iter().map(Frame::from).collect::<Vec<_>>())
    }
}
