//! Standard output whose reader may go away, as in `unspoken pir get ... | head`.
//!
//! Rust ignores SIGPIPE, and sockets need that: a lost connection must be an error and not the end of the process. So
//! the standard macros panic when they write to a closed pipe. The macros of this module unwind without a message
//! instead, so that child processes and unfinished files are cleaned up, and [`run`] then ends the process as SIGPIPE
//! does.

use std::fmt;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use anyhow::Context;

/// Takes the place of the standard macro in this crate.
macro_rules! println {
    () => { $crate::output::write(format_args!("\n")) };
    ($($text:tt)*) => { $crate::output::write(format_args!("{}\n", format_args!($($text)*))) };
}

/// Takes the place of the standard macro in this crate.
macro_rules! print {
    ($($text:tt)*) => { $crate::output::write(format_args!($($text)*)) };
}

/// Unwinding because standard output cannot be written.
struct Failed(io::Error);

/// Writes to standard output. Unwinds to [`run`] if that fails.
pub fn write(text: fmt::Arguments<'_>) {
    if let Err(error) = io::stdout().lock().write_fmt(text) {
        resume_unwind(Box::new(Failed(error)));
    }
}

/// Runs a command. If the reader of standard output has gone, the process ends quietly, as by SIGPIPE.
pub fn run(command: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    let written = |result: io::Result<()>| result.context("cannot write to standard output");
    let result = catch_unwind(AssertUnwindSafe(command)).unwrap_or_else(|panic| match panic.downcast::<Failed>() {
        Ok(failed) => written(Err(failed.0)),
        Err(panic) => resume_unwind(panic),
    });
    match result.and_then(|()| written(io::stdout().flush())) {
        Err(error) if is_closed_pipe(&error) => end(),
        result => result,
    }
}

/// Whether the error comes from a closed pipe. Errors of sockets are not `io::Error`s here.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref().is_some_and(|error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Ends the process as one that does not ignore SIGPIPE.
fn end() -> ! {
    sigpipe::reset();
    // The signal comes with this write to the closed pipe.
    let _ = io::stdout().write_all(b"\n").and_then(|()| io::stdout().flush());
    std::process::exit(141)
}
