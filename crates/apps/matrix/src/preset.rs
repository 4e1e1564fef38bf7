//! Presets by name, each built once.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use unspoken_ckks::{CkksParameters, Encoder, Preset};
use unspoken_protocol::ParameterFamily;

use crate::error::MatrixError;

/// A built preset. Cheap to clone.
#[derive(Clone)]
pub(crate) struct BuiltPreset(Encoder);

/// The presets built so far.
static BUILT: Mutex<BTreeMap<&'static str, Encoder>> = Mutex::new(BTreeMap::new());

impl ParameterFamily for BuiltPreset {
    type Parameters = BuiltPreset;
    type Error = MatrixError;

    fn build(name: &str) -> Result<BuiltPreset, MatrixError> {
        BuiltPreset::find(name)
    }

    fn fingerprint(preset: &BuiltPreset) -> [u8; 16] {
        preset.parameters().rlwe().fingerprint().0
    }

    fn is_insecure(preset: &BuiltPreset) -> bool {
        preset.parameters().rlwe().is_insecure()
    }
}

impl BuiltPreset {
    pub(crate) fn find(name: &str) -> Result<Self, MatrixError> {
        let preset = Preset::find(name)?;
        // The map stays consistent even if a thread panicked.
        let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(encoder) = built.get(preset.name) {
            return Ok(BuiltPreset(encoder.clone()));
        }
        let encoder = Encoder::new(&preset.build()?);
        built.insert(preset.name, encoder.clone());
        Ok(BuiltPreset(encoder))
    }

    pub(crate) fn encoder(&self) -> &Encoder {
        &self.0
    }

    pub(crate) fn parameters(&self) -> &CkksParameters {
        self.0.parameters()
    }

    /// Returns an error if `other` is of another preset.
    pub(crate) fn check_same(
        &self,
        operation: &'static str,
        what: &str,
        other: &BuiltPreset,
    ) -> Result<(), MatrixError> {
        let (own, found) = (self.parameters(), other.parameters());
        if own.rlwe().fingerprint() == found.rlwe().fingerprint() {
            return Ok(());
        }
        let needed = format!("those of preset '{}', which the program was planned for", own.name());
        Err(MatrixError::mismatch(operation, format!("{what} of preset '{}'", found.name()), needed))
    }
}
