//! The kind of an application: the first field of every description, which clients of every version can read.

use prost::encoding::{WireType, decode_varint, encode_key, encode_varint};

use crate::checksum::is_damaged;
use crate::error::ProtocolError;

/// Number of the protobuf field. No description has another field with it.
const KIND_TAG: u32 = 18;

/// First bytes of every description: the key of the field, a number of two bytes.
const KIND_KEY: [u8; 2] = [0x80 | (KIND_TAG << 3) as u8 | WireType::LengthDelimited as u8, (KIND_TAG >> 4) as u8];

/// Longest kind, in bytes.
const MAX_KIND_BYTES: usize = 32;

/// Kind of an application, and version of its protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// For instance "classify": 1 to 32 lower-case letters and hyphens.
    pub kind: &'static str,
    /// Raised whenever older clients cannot understand the service.
    pub version: u32,
}

impl Protocol {
    /// The first bytes of a description, before all other fields.
    pub fn first_field(self) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode_key(KIND_TAG, WireType::LengthDelimited, &mut bytes);
        encode_varint(self.kind.len() as u64, &mut bytes);
        bytes.extend(self.kind.as_bytes());
        bytes
    }

    /// Refuses the description of an application of another kind. Besides the checksum at the end, no byte after the
    /// kind is read, so that the kind of a newer or older application is still known.
    ///
    /// # Errors
    /// If the untrusted bytes are damaged, or begin with another kind, or with none.
    pub fn check_kind(self, description: &[u8]) -> Result<(), ProtocolError> {
        if is_damaged(description) {
            return Err(ProtocolError::Damaged { what: "description" });
        }
        let needed = format!("one of kind {}", self.kind);
        match application_kind(description) {
            Some(kind) if kind == self.kind => Ok(()),
            Some(kind) => Err(ProtocolError::mismatch("description", format!("one of kind {kind}"), needed)),
            None => {
                let needed = format!("{needed}; update the service, or check its address");
                Err(ProtocolError::mismatch("description", "one that does not begin with a kind", needed))
            }
        }
    }
}

/// The kind at the start of a description of untrusted bytes, if there is one and the bytes are not damaged.
pub fn application_kind(description: &[u8]) -> Option<&str> {
    if is_damaged(description) {
        return None;
    }
    let mut rest = description.strip_prefix(&KIND_KEY)?;
    let length = usize::try_from(decode_varint(&mut rest).ok()?).ok()?;
    let kind = rest.get(..length).filter(|kind| (1..=MAX_KIND_BYTES).contains(&kind.len()))?;
    // Nothing else may reach a terminal or a log.
    let plain = kind.iter().all(|byte| byte.is_ascii_lowercase() || *byte == b'-');
    std::str::from_utf8(kind).ok().filter(|_| plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLASSIFY: Protocol = Protocol { kind: "classify", version: 3 };

    #[test]
    fn the_kind_is_read_whatever_follows() {
        for rest in [&[][..], &[8, 3], &[0xff; 40], b"no protobuf message"] {
            let bytes = [&CLASSIFY.first_field(), rest].concat();
            assert_eq!(application_kind(&bytes), Some("classify"));
            CLASSIFY.check_kind(&bytes).unwrap();
            let error = Protocol { kind: "embed", version: 3 }.check_kind(&bytes).unwrap_err().to_string();
            assert_eq!(error, "description: found one of kind classify, needed one of kind embed");
        }
    }

    #[test]
    fn what_is_no_kind_is_refused() {
        let named = |kind: &[u8]| [&KIND_KEY[..], &[kind.len() as u8], kind].concat();
        let long = named(&[b'k'; MAX_KIND_BYTES + 1]);
        for bytes in [
            &[][..],
            &[8, 3],
            &KIND_KEY[..1],
            &KIND_KEY,
            &[KIND_KEY[0], KIND_KEY[1], 9, b'a'],
            &named(b""),
            &named(b"\x1b[2J"),
            &long,
        ] {
            assert_eq!(application_kind(bytes), None, "{bytes:?}");
            let error = CLASSIFY.check_kind(bytes).unwrap_err().to_string();
            assert!(error.contains("needed one of kind classify; update the service"), "{error}");
        }
        assert_eq!(application_kind(&named(&[b'k'; MAX_KIND_BYTES])), Some(&*"k".repeat(MAX_KIND_BYTES)));
    }
}
