//! How calls end, as values that Ray passes between processes.

use std::io;

use unspoken_server::ApplicationError;

/// How a call ended that a client caused: the name, and the answer or the text of the error.
pub(super) type Outcome = (&'static str, Vec<u8>, u32);

pub(super) fn outcome(result: Result<Vec<u8>, ApplicationError>) -> Outcome {
    let (name, wait) = match &result {
        Ok(_) => ("answer", 0),
        Err(ApplicationError::Malformed(_)) => ("malformed", 0),
        Err(ApplicationError::DoesNotFit(_)) => ("does not fit", 0),
        Err(ApplicationError::Refused { .. }) => ("refused", 0),
        Err(ApplicationError::Busy(_)) => ("busy", 0),
        Err(ApplicationError::Exhausted { wait_seconds, .. }) => ("exhausted", *wait_seconds),
        Err(ApplicationError::Cancelled) => ("cancelled", 0),
        Err(ApplicationError::Read(_)) => ("read", 0),
        Err(_) => ("internal", 0),
    };
    let bytes = result.unwrap_or_else(|error| text_of(&error).into_bytes());
    (name, bytes, wait)
}

/// The text of an error; for a refusal, the remedy in a line behind it.
fn text_of(error: &ApplicationError) -> String {
    match error {
        ApplicationError::Refused { text, remedy } => format!("{text}\n{remedy}"),
        other => other.to_string(),
    }
}

/// An [`Outcome`] from a Python object.
pub(super) type FarOutcome = (String, Vec<u8>, u32);

/// What [`outcome`] wrote, on the other side.
pub(super) fn of_outcome((name, bytes, wait_seconds): FarOutcome) -> Result<Vec<u8>, ApplicationError> {
    if name == "answer" {
        return Ok(bytes);
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Err(match name.as_str() {
        "malformed" => ApplicationError::Malformed(text),
        "does not fit" => ApplicationError::DoesNotFit(text),
        "refused" => {
            let (text, remedy) = text.rsplit_once('\n').unwrap_or((&text, "read what was found"));
            ApplicationError::Refused { text: text.into(), remedy: remedy.into() }
        }
        "busy" => ApplicationError::Busy(text),
        "exhausted" => ApplicationError::Exhausted { text, wait_seconds },
        "cancelled" => ApplicationError::Cancelled,
        "read" => ApplicationError::Read(io::Error::other(text)),
        _ => ApplicationError::Internal(text),
    })
}
