//! Names and formats of the files of a database.

/// Name of the file.
pub(crate) const MANIFEST: &str = "manifest.json";

/// Name of the file.
pub(crate) const ENCRYPTED_MANIFEST: &str = "encrypted.json";

/// Name of the file.
pub(crate) const UPLOAD: &str = "upload.log";

/// Bytes of the headers of the table file and the cells file: a page, so that the data after it is aligned in memory.
pub(crate) const HEADER_BYTES: u64 = 4096;

/// First bytes of the file of the tables.
pub(crate) const TABLE_MAGIC: [u8; 8] = *b"UNSPTBL1";

/// First bytes of the file of the cells.
pub(crate) const CELLS_MAGIC: [u8; 8] = *b"UNSPCEL1";

/// The piece of a cell that is in a plane. The last one may be shorter than the others.
pub(crate) fn piece(cell: &[u8], piece_bytes: usize, plane: usize) -> &[u8] {
    cell.chunks(piece_bytes).nth(plane).unwrap_or_default()
}
