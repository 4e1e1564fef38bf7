//! Damaged messages, for the tests of all applications.

use unspoken_protocol::{append_description_checksum, checked_description};

/// Bytes at both ends of a message of which every bit is flipped.
const ENDS: usize = 150;
/// Number of bytes in between. One bit of each is flipped.
const BETWEEN: usize = 400;

/// A name, the bytes of a message, and its reader.
pub type Row<'a> = (&'a str, Vec<u8>, &'a dyn Fn(&[u8]) -> Result<(), String>);

/// Checks that every message is read as it is, and that it is refused as damaged if a bit is flipped anywhere.
pub fn assert_damage_is_refused(messages: &[Row<'_>]) {
    for (name, bytes, read) in messages {
        read(bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        let stride = (bytes.len() / BETWEEN).max(1) | 1;
        let near_an_end = |position: usize| position < ENDS || position + ENDS >= bytes.len();
        for position in (0..bytes.len()).filter(|position| near_an_end(*position) || position % stride == 0) {
            let bits = if near_an_end(position) { 0..8 } else { position % 8..position % 8 + 1 };
            for bit in bits {
                let mut damaged = bytes.clone();
                damaged[position] ^= 1 << bit;
                let error = read(&damaged).expect_err(name);
                assert!(error.contains("damaged"), "{name}, bit {bit} of byte {position}: {error}");
            }
        }
    }
}

/// A description with more fields, and a checksum of its own. The last value of a field counts.
#[allow(dead_code, reason = "not every test adds fields")]
pub fn with_fields(description: &[u8], fields: &[u8]) -> Vec<u8> {
    let mut changed = checked_description(description, 0, |_| None).unwrap().to_vec();
    changed.extend(fields);
    append_description_checksum(&mut changed);
    changed
}
