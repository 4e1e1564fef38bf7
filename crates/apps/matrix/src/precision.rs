//! The precision of results.
//!
//! `Options::largest` declares the largest entry of the inputs (1 by default). The plan computes bounds of the values
//! of every step in every slot for all such inputs (`Magnitudes` in `unspoken-ckks`). Where a value may exceed its
//! modulus, results stay at a higher level, then the next preset is tried, and otherwise the plan is refused with the
//! step and the excess. A result whose entries cannot exceed the noise of one rounding is refused too.
//! `Secret::encrypt` and `MatrixClient` refuse larger entries, and name their index. `Program::precision` is a bound of
//! the error, by a simulation on the largest inputs (`WorstCase`); `Program::run` and `MatrixServer::new` refuse
//! results whose error may be as large as their entries. A result contains both bounds, and decryption refuses what is
//! beyond them.

use crate::error::MatrixError;

/// Precision of results, for inputs whose entries have absolute values up to
/// [`Signature::largest`](crate::Signature::largest).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Precision {
    /// Bound of the error of a result's entries, by a simulation on the largest inputs: four times its worst error, and
    /// at least sixteen times its root mean square; plus the error of decoding. The mean is over the entries, or over
    /// all slots with no larger values, whichever is larger. A rescaling multiplies a rounding error by the value of
    /// the secret in each slot. Few slots have large values, so few entries may miss them.
    pub error: f64,
    /// Bound of the absolute value of the exact result's entries.
    pub largest: f64,
}

impl Precision {
    /// Refuses results whose error may be as large as their entries.
    pub(crate) fn check(&self, operation: &'static str) -> Result<(), MatrixError> {
        // A result of zeros is exact.
        if self.error < self.largest || self.largest == 0.0 {
            return Ok(());
        }
        let found = format!("a result with entries up to {:.1e} and errors up to {:.1e}", self.largest, self.error);
        let needed = "smaller errors: scale the inputs up, and the result down after decryption; declare the largest \
                      entry of the inputs (largest=); or use a preset with a larger scale";
        Err(MatrixError::Magnitude { operation, found, needed: needed.into() })
    }

    /// No entry of a decrypted result is larger than this.
    pub(crate) fn limit(&self) -> f64 {
        self.largest * (1.0 + 1e-9) + self.error
    }
}
