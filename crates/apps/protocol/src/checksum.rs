//! Checksums of messages. They detect damage in transit and on disk, which ciphertexts do not show. They are no defence
//! against changes on purpose.
//!
//! Every description, query and answer ends with a checksum of all bytes before it, which is compared before anything
//! is decoded: a changed bit in a ciphertext would decrypt to other numbers without a sign. Key bundles have no
//! checksum of their own: a service compares the hash that the client declared, after the upload and whenever it loads
//! a bundle.

use crate::error::ProtocolError;

/// Bytes of a checksum.
pub const CHECKSUM_BYTES: usize = 32;

/// Number of the last field of a description, its checksum.
const DESCRIPTION_TAG: u32 = 15;

/// Protobuf wire type of a field of bytes.
const BYTES_FIELD: u32 = 2;

/// Appends the BLAKE3 hash of the bytes.
pub fn append_checksum(bytes: &mut Vec<u8>) {
    let hash = blake3::hash(bytes);
    bytes.extend(hash.as_bytes());
}

/// The bytes before the checksum, after a comparison with it. `what` names the message.
///
/// # Errors
/// [`ProtocolError::Damaged`] if they do not match, or there are too few bytes.
pub fn checked<'a>(what: &'static str, bytes: &'a [u8]) -> Result<&'a [u8], ProtocolError> {
    match bytes.split_last_chunk::<CHECKSUM_BYTES>() {
        // Checksums detect accidents, so the time of the comparison does not matter.
        Some((content, checksum)) if blake3::hash(content).as_bytes() == checksum => Ok(content),
        _ => Err(ProtocolError::Damaged { what }),
    }
}

/// Appends the BLAKE3 hash of an encoded protobuf message as its last field, with a tag below 16.
pub fn append_checksum_field(message: &mut Vec<u8>, tag: u32) {
    let hash = blake3::hash(message);
    message.extend(field_front(tag));
    message.extend(hash.as_bytes());
}

/// The fields before the checksum field, after a comparison with it. `what` names the message.
///
/// # Errors
/// [`ProtocolError::Damaged`] if they do not match, or the last field is no checksum.
pub fn checked_fields<'a>(what: &'static str, message: &'a [u8], tag: u32) -> Result<&'a [u8], ProtocolError> {
    let damaged = ProtocolError::Damaged { what };
    match message.split_last_chunk::<CHECKSUM_BYTES>() {
        Some((front, checksum)) => match front.strip_suffix(&field_front(tag)) {
            Some(content) if blake3::hash(content).as_bytes() == checksum => Ok(content),
            _ => Err(damaged),
        },
        None => Err(damaged),
    }
}

/// Appends the checksum of a description, as its last field.
pub fn append_description_checksum(description: &mut Vec<u8>) {
    append_checksum_field(description, DESCRIPTION_TAG);
}

/// The fields of a description before its checksum, after a comparison with it. A description of another version than
/// `version`, which `version_of` reads, may have none: its own error is more useful than one about the checksum.
///
/// # Errors
/// [`ProtocolError::Damaged`] if the checksum does not match.
pub fn checked_description(
    description: &[u8],
    version: u32,
    version_of: impl FnOnce(&[u8]) -> Option<u32>,
) -> Result<&[u8], ProtocolError> {
    match checked_fields("description", description, DESCRIPTION_TAG) {
        Err(_) if !has_checksum(description) && version_of(description).is_some_and(|found| found != version) => {
            Ok(description)
        }
        checked => checked,
    }
}

/// Whether a description ends with a checksum that does not match.
pub(crate) fn is_damaged(description: &[u8]) -> bool {
    has_checksum(description) && checked_fields("description", description, DESCRIPTION_TAG).is_err()
}

/// Whether a description ends with a field for a checksum.
fn has_checksum(description: &[u8]) -> bool {
    let front = description.len().saturating_sub(2 + CHECKSUM_BYTES);
    description[front..].starts_with(&field_front(DESCRIPTION_TAG)[..1])
}

/// Key and length of the checksum field.
fn field_front(tag: u32) -> [u8; 2] {
    [(tag << 3 | BYTES_FIELD) as u8, CHECKSUM_BYTES as u8]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_detected_everywhere() {
        let mut plain = vec![1, 2, 3];
        append_checksum(&mut plain);
        assert_eq!(checked("a file", &plain).unwrap(), [1, 2, 3]);
        let mut fields = vec![8, 1];
        append_checksum_field(&mut fields, 15);
        assert_eq!(checked_fields("a file", &fields, 15).unwrap(), [8, 1]);
        assert!(checked_fields("a file", &fields, 14).is_err());
        for bit in 0..8 * plain.len() {
            let mut damaged = plain.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let error = checked("a file", &damaged).unwrap_err().to_string();
            assert!(error.starts_with("a file: found damaged bytes"), "{error}");
        }
        for bit in 0..8 * fields.len() {
            let mut damaged = fields.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(checked_fields("a file", &damaged, 15).is_err(), "{bit}");
        }
        for length in 0..plain.len() {
            assert!(checked("a file", &plain[..length]).is_err());
        }
    }

    #[test]
    fn a_description_without_a_checksum_is_of_an_earlier_version_or_damaged() {
        let bare = vec![8, 1];
        assert_eq!(checked_description(&bare, 2, |_| Some(1)).unwrap(), bare);
        for version in [None, Some(2)] {
            assert!(checked_description(&bare, 2, |_| version).is_err());
        }
        let mut sound = bare.clone();
        append_description_checksum(&mut sound);
        assert_eq!(checked_description(&sound, 2, |_| Some(1)).unwrap(), bare);
        // The version is not believed before the checksum.
        sound[1] = 3;
        assert!(checked_description(&sound, 2, |_| Some(3)).is_err());
    }
}
