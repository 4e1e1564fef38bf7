//! Functions that may branch on data that are marked secret, each with the reason.
//!
//! The cases mark more than is secret: whatever comes from a marked generator is marked, public seeds included, and so
//! is every ciphertext. A report whose innermost frames are in one of these functions is not a finding; it is counted.

use super::valgrind::Report;

/// A function, and why its branches and addresses may depend on marked data.
pub struct Declassified {
    /// Text that the name of the function contains.
    pub function: &'static str,
    /// Why this reveals nothing.
    pub reason: &'static str,
}

/// Frames of a report in which a declassified function counts: it may call small functions of the standard library.
const DEPTH: usize = 3;

/// All declassified functions.
pub static DECLASSIFIED: &[Declassified] = &[
    Declassified { function: "fill_uniform", reason: "expands a public seed by rejection" },
    Declassified { function: "select_below", reason: "expands a public seed by rejection" },
];

/// The reason why a report is not a finding, if there is one.
pub fn reason(report: &Report) -> Option<&'static Declassified> {
    let inner = &report.frames[..report.frames.len().min(DEPTH)];
    DECLASSIFIED.iter().find(|known| inner.iter().any(|frame| frame.contains(known.function)))
}
