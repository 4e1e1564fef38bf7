//! Structured logs on standard error. They contain names, sizes and times; never tokens, bodies or keys.

use std::io::IsTerminal;

use serde::{Deserialize, Serialize};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, fmt};

use crate::error::ServerError;

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Text for human readers.
    #[default]
    Text,
    /// One JSON object per line, for machines.
    Json,
}

/// Starts logging for the whole process. `filter` is a level or a list such
/// as `info,unspoken_server=debug`.
///
/// # Errors
/// [`ServerError::Log`] if the filter is invalid or a log was started before.
pub fn init_logging(format: LogFormat, filter: &str) -> Result<(), ServerError> {
    let filter = parsed(filter)?;
    // Colours are for a terminal, not for a file.
    let lines = fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal());
    let started = match format {
        LogFormat::Text => lines.finish().try_init(),
        LogFormat::Json => lines.json().flatten_event(true).finish().try_init(),
    };
    started.map_err(|error| ServerError::Log(error.into()))
}

/// Whether this is a filter for [`init_logging`].
///
/// # Errors
/// [`ServerError::Log`], if it is none.
pub fn check_log_filter(filter: &str) -> Result<(), ServerError> {
    parsed(filter).map(drop)
}

fn parsed(filter: &str) -> Result<EnvFilter, ServerError> {
    EnvFilter::try_new(filter).map_err(|error| ServerError::Log(error.into()))
}
