//! How calls end, as values that Ray passes between processes.

use std::io;

use unspoken_protocol::{ErrorKind, PlainError};

/// How a call ended that a client caused: the name, and the answer or the text of the error.
pub(super) type Outcome = (&'static str, Vec<u8>, u32);

pub(super) fn outcome(result: Result<Vec<u8>, PlainError>) -> Outcome {
    let PlainError { kind, text } = match result {
        Ok(bytes) => return ("answer", bytes, 0),
        Err(error) => error,
    };
    let (name, text, wait) = match kind {
        ErrorKind::Malformed => ("malformed", text, 0),
        ErrorKind::Mismatch => ("does not fit", text, 0),
        // The remedy is in a line after the text.
        ErrorKind::Refused { remedy } => ("refused", format!("{text}\n{remedy}"), 0),
        ErrorKind::Busy => ("busy", text, 0),
        ErrorKind::Exhausted { wait_seconds } => ("exhausted", text, wait_seconds),
        ErrorKind::Cancelled => ("cancelled", "cancelled".to_owned(), 0),
        ErrorKind::Io(_) => ("read", format!("read the key bundle: {text}"), 0),
        ErrorKind::Unreadable | ErrorKind::Internal => ("internal", text, 0),
    };
    (name, text.into_bytes(), wait)
}

/// An [`Outcome`] from a Python object.
pub(super) type FarOutcome = (String, Vec<u8>, u32);

/// What [`outcome`] wrote, on the other side.
pub(super) fn of_outcome((name, bytes, wait_seconds): FarOutcome) -> Result<Vec<u8>, PlainError> {
    if name == "answer" {
        return Ok(bytes);
    }
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    let kind = match name.as_str() {
        "malformed" => ErrorKind::Malformed,
        "does not fit" => ErrorKind::Mismatch,
        "refused" => {
            let remedy = match text.rfind('\n') {
                Some(end) => text.split_off(end)[1..].to_owned(),
                None => "read what was found".to_owned(),
            };
            ErrorKind::Refused { remedy: remedy.into() }
        }
        "busy" => ErrorKind::Busy,
        "exhausted" => ErrorKind::Exhausted { wait_seconds },
        "cancelled" => ErrorKind::Cancelled,
        "read" => ErrorKind::Io(io::ErrorKind::Other),
        _ => ErrorKind::Internal,
    };
    Err(PlainError { kind, text })
}
