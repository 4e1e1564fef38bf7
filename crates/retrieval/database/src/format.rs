//! Names and formats of the files of a database.
//!
//! ```text
//! DIR/manifest.json    parameters, layout, the seed of the masks of dense tables, the current generation G, the hash
//!                      of sums-G.bin; replaced with each generation
//! DIR/table-G.bin      words of all planes, in the order of sums: 16 bytes for each byte of a cell; mapped. Of dense
//!                      tables: for each plane the bytes of all groups, then their packings, 33 MB each
//! DIR/cells-G.bin      the cells that the words encode; mapped
//! DIR/sums-G.bin       BLAKE3 of every 16 MiB of both
//! DIR/journal-G.log    commits since: a frame for each version
//! DIR/newest-G.txt     the number of the newest version in the journal; replaced after each commit
//! DIR/writer.lock      locked by the writer
//! ```
//! A version consists of a generation and the frames of its journal. For each entry of the tables that frames have
//! changed, a reader keeps the difference. Sums over rows are linear, so an answer adds the products with these
//! differences to the sum over the mapped words. Each changed entry (`Snapshot::changed_entries`) costs memory (16 KB)
//! and a product. When the changed entries are a per cent of the table, call `Writer::compact`. It writes the next
//! generation with all changes in it and an empty journal.
//!
//! A service stores a database of encrypted entries (`EncryptedStore`) without tables: the files have entries in the
//! place of cells, and `encrypted.json` and `upload.log` in addition.

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
