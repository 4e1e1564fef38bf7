//! Functions that may branch on data that are marked secret, each with the reason.
//!
//! The cases mark more than is secret: whatever comes from a marked generator is marked, public seeds included, and so
//! is every ciphertext. And a check of a secret has a result that is not secret: whether the caller gets an error. A
//! report in one of these functions is not a finding; it is counted.

use super::valgrind::Report;

/// A function, and why its branches and addresses may depend on marked data.
pub struct Declassified {
    /// Text that the name of the function contains.
    pub function: &'static str,
    /// Why this reveals nothing.
    pub reason: &'static str,
}

const SEED: &str = "expands a public seed by rejection";
const VALID: &str = "one branch on whether all values are valid: the caller gets an error or not";

/// All declassified functions.
pub static DECLASSIFIED: &[Declassified] = &[
    Declassified { function: "fill_uniform", reason: SEED },
    Declassified { function: "select_below", reason: SEED },
    Declassified { function: "check_each", reason: VALID },
    Declassified { function: "check_largest", reason: VALID },
    Declassified { function: "check_bound", reason: VALID },
    Declassified { function: "check_elements", reason: VALID },
    Declassified { function: "check_range", reason: VALID },
    Declassified { function: "check_index", reason: VALID },
    Declassified { function: "check_indices", reason: VALID },
    Declassified { function: "SecretKey::from_bytes", reason: VALID },
];

/// The reason why a report is not a finding, if there is one. Only the innermost function counts, with what is inlined
/// into it: a function that it calls is another one.
pub fn reason(report: &Report) -> Option<&'static Declassified> {
    let inner = &report.frames[..report.innermost];
    DECLASSIFIED.iter().find(|known| inner.iter().any(|frame| frame.contains(known.function)))
}
