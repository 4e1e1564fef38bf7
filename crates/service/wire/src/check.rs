//! Checks that a schema cannot express.

use crate::WireError;
use crate::v1::KeyDeclaration;

/// Longest application name, in bytes.
const MAX_NAME_BYTES: usize = 120;

/// Whether `name` is valid as an application's name in a URL: segments of `a-z 0-9 . _ -` that begin with a letter or
/// digit, joined by `/`, at most 120 bytes.
///
/// ```
/// use unspoken_wire::is_application_name;
/// assert!(is_application_name("classify/spam"));
/// assert!(!is_application_name("classify/../keys"));
/// ```
pub fn is_application_name(name: &str) -> bool {
    let segment_ok = |segment: &str| {
        let bytes = segment.as_bytes();
        bytes.first().is_some_and(|&b| b.is_ascii_lowercase() || b.is_ascii_digit())
            && bytes.iter().all(|&b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b))
    };
    name.len() <= MAX_NAME_BYTES && name.split('/').all(segment_ok)
}

/// A [`KeyDeclaration`] whose fields were checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedDeclaration {
    /// Name of the application; see [`is_application_name`].
    pub application: String,
    /// Version of the application's key bundle format.
    pub key_format: u32,
    /// Length of the bundle in bytes, at least 1.
    pub length: u64,
    /// BLAKE3 hash of the bundle.
    pub blake3: [u8; 32],
}

impl TryFrom<KeyDeclaration> for CheckedDeclaration {
    type Error = WireError;

    fn try_from(raw: KeyDeclaration) -> Result<Self, WireError> {
        let bad = |field, found: String, needed| WireError::Field { message: "KeyDeclaration", field, found, needed };
        if !is_application_name(&raw.application) {
            let found = raw.application.chars().take(40).collect::<String>();
            return Err(bad("application", format!("{found:?}"), "a name such as classify/spam"));
        }
        if raw.length == 0 {
            return Err(bad("length", "0".into(), "the bytes of the bundle, at least 1"));
        }
        let blake3 = <[u8; 32]>::try_from(raw.blake3.as_slice())
            .map_err(|_| bad("blake3", format!("{} bytes", raw.blake3.len()), "32 bytes"))?;
        Ok(Self { application: raw.application, key_format: raw.key_format, length: raw.length, blake3 })
    }
}
