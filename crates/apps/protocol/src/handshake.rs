//! The handshake: version and parameters of every description, and their check.

use unspoken_ckks::{CkksParameters, Preset};

use crate::error::ProtocolError;

/// Longest name of a preset, in bytes.
const MAX_PRESET_BYTES: usize = 64;

/// A family of named parameter sets.
pub trait ParameterFamily {
    /// A parameter set, built and checked.
    type Parameters;
    /// Errors of building a parameter set.
    type Error: From<ProtocolError>;

    /// Builds the parameter set with this name.
    ///
    /// # Errors
    /// If there is no such name, or it cannot be built.
    fn build(name: &str) -> Result<Self::Parameters, Self::Error>;

    /// Identifies the numbers of a parameter set.
    fn fingerprint(parameters: &Self::Parameters) -> [u8; 16];

    /// Whether a parameter set is for tests only.
    fn is_insecure(parameters: &Self::Parameters) -> bool;
}

/// The CKKS presets.
pub struct CkksPresets;

impl ParameterFamily for CkksPresets {
    type Parameters = CkksParameters;
    type Error = ProtocolError;

    fn build(name: &str) -> Result<CkksParameters, ProtocolError> {
        Ok(Preset::find(name)?.build()?)
    }

    fn fingerprint(parameters: &CkksParameters) -> [u8; 16] {
        parameters.rlwe().fingerprint().0
    }

    fn is_insecure(parameters: &CkksParameters) -> bool {
        parameters.rlwe().is_insecure()
    }
}

/// Common fields of every description: the version of the application's protocol, and the parameter set. All of it is
/// untrusted until [`Handshake::accept`].
#[derive(Clone, Copy, Debug)]
pub struct Handshake<'a> {
    /// Version of the application's protocol.
    pub version: u32,
    /// Name of the parameter set.
    pub preset: &'a str,
    /// Fingerprint of the numbers of the parameter set.
    pub fingerprint: &'a [u8],
}

impl Handshake<'_> {
    /// Checks the other side's handshake and builds its parameters. Insecure parameters, which are for tests, are
    /// refused unless `accept_insecure`.
    ///
    /// # Errors
    /// If the version differs, or the preset is unknown, insecure without `accept_insecure`, or has other numbers in
    /// this build.
    pub fn accept<F: ParameterFamily>(self, version: u32, accept_insecure: bool) -> Result<F::Parameters, F::Error> {
        let refuse = |what, found: String, needed: String| Err(ProtocolError::mismatch(what, found, needed).into());
        if self.version != version {
            let needed = format!("version {version}; update the older side");
            return refuse("protocol", format!("version {}", self.version), needed);
        }
        if self.preset.len() > MAX_PRESET_BYTES {
            let found = format!("a name of {} bytes", self.preset.len());
            return refuse("preset", found, format!("at most {MAX_PRESET_BYTES}"));
        }
        let parameters = F::build(self.preset)?;
        if F::is_insecure(&parameters) && !accept_insecure {
            return refuse("preset", self.preset.into(), "a secure one".into());
        }
        if self.fingerprint != F::fingerprint(&parameters) {
            let found = format!("other numbers under the name {}", self.preset);
            return refuse("preset", found, "the same release on both sides".into());
        }
        Ok(parameters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_checked() {
        let preset = "insecure_n11_depth9_scale50";
        let parameters = CkksPresets::build(preset).unwrap();
        let fingerprint = CkksPresets::fingerprint(&parameters);
        let sound = Handshake { version: 3, preset, fingerprint: &fingerprint };
        let accept = |handshake: Handshake<'_>, insecure| handshake.accept::<CkksPresets>(3, insecure).map(drop);
        accept(sound, true).unwrap();
        let name = "n".repeat(MAX_PRESET_BYTES + 1);
        for (handshake, insecure, part) in [
            (Handshake { version: 4, ..sound }, true, "update the older side"),
            (Handshake { preset: "n1", ..sound }, true, "n1"),
            (Handshake { preset: &name, ..sound }, true, "a name of 65 bytes"),
            (Handshake { fingerprint: &[0; 16], ..sound }, true, "same release"),
            (sound, false, "a secure one"),
        ] {
            let error = accept(handshake, insecure).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
