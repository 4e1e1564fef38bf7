//! Results of measured operations that are wrong.

use std::fmt::Display;

use anyhow::Context;
use tempfile::TempDir;

/// The message where the module for browsers is not built.
pub(crate) const NO_MODULE: &str = "there is no module for browsers; needed Node.js 20 or newer, and 'make web'";

/// The error of an operation whose result is off by `found`, needed at most `needed`: its timing is not reported.
pub(crate) fn wrong(case: impl Display, found: f64, needed: f64) -> anyhow::Error {
    anyhow::anyhow!(
        "{case}: the result is off by {found:e}, needed at most {needed:e}; this is a bug, please report it"
    )
}

/// The message where the system refuses a temporary file or directory.
pub(crate) const NO_FOLDER: &str = "cannot create a temporary file; set TMPDIR to a directory with room";

/// A temporary directory.
pub(crate) fn folder() -> anyhow::Result<TempDir> {
    tempfile::tempdir().context(NO_FOLDER)
}

/// The larger of two errors; NaN if one of them is NaN, so that no comparison with a tolerance accepts it.
pub(crate) fn larger_error(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

#[cfg(test)]
mod tests {
    use super::larger_error;

    #[test]
    fn a_nan_is_never_within_a_tolerance() {
        let largest = |errors: &[f64]| errors.iter().copied().fold(0.0, larger_error);
        assert_eq!(largest(&[1.0, 3.0, 2.0]), 3.0);
        assert!(largest(&[1.0, f64::NAN, 2.0]).is_nan() && largest(&[f64::NAN]).is_nan());
    }
}
