//! The padding of records and cells.

/// Whether all bytes are zero. Reads all of them: where the first other byte is must not show in the time.
pub(super) fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().fold(0, |seen, byte| seen | byte) == 0
}
