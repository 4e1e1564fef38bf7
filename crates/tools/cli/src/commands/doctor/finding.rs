//! What an examination finds.

use std::fmt;

use crate::reasons;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// As it should be.
    Ok,
    /// The service starts, but not as its operator may expect.
    Warning,
    /// The service does not start, fails later, or is not safe.
    Problem,
}

impl State {
    /// `ok`, `warning` or `problem`.
    pub fn name(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Warning => "warning",
            State::Problem => "problem",
        }
    }
}

/// One line of the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub state: State,
    /// What was examined, such as "memory".
    pub check: &'static str,
    /// What was found.
    pub found: String,
    /// What to do, unless all is well or the text says it.
    pub remedy: Option<String>,
}

impl Finding {
    /// All is well.
    pub fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Finding { state: State::Ok, check, found: found.into(), remedy: None }
    }

    /// A problem whose text says what to do, as errors of the service do.
    pub fn refused(check: &'static str, error: impl Into<anyhow::Error>) -> Self {
        Finding { state: State::Problem, check, found: on_one_line(&error.into()), remedy: None }
    }

    /// The service starts, but not as its operator may expect.
    pub fn warning(check: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Finding { state: State::Warning, check, found: found.into(), remedy: Some(remedy.into()) }
    }

    /// The service does not start, fails later, or is not safe.
    pub fn problem(check: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Finding { state: State::Problem, check, found: found.into(), remedy: Some(remedy.into()) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { state, check, found, remedy } = self;
        write!(f, "{:7}  {check:13}  {found}", state.name())?;
        match remedy {
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}

/// An error with its causes, without line breaks.
pub fn on_one_line(error: &anyhow::Error) -> String {
    reasons(error).lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Bytes for people.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{:.1} KB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}
