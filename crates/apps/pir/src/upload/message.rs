//! Serialisation of upload requests and their replies, as `retrieve.proto` describes them.

use unspoken_pir_scheme::{EncryptedEntry, Tables, Upload, UploadState, WRITE_KEY_BYTES};
use zeroize::Zeroizing;

use crate::description::Description;
use crate::error::PirError;
use crate::frame::CHECKSUM_BYTES;
use crate::message::{append_checksum, checked};

/// Bytes before the entries of a chunk: the write key, the operation, the upload, its base and a number.
const HEAD_BYTES: usize = WRITE_KEY_BYTES + 1 + 3 * size_of::<u64>();

/// Bytes of the number of an entry.
const NUMBER_BYTES: usize = size_of::<u32>();

/// Bytes of the entries of a chunk, unless one entry has more.
const CHUNK_BYTES: usize = 1 << 20;

/// Bytes of a reply.
pub(super) const REPLY_BYTES: usize = 5 * size_of::<u64>() + CHECKSUM_BYTES;

/// Context of the checksum, by which upload requests differ from queries.
const CONTEXT: &str = "unspoken 2026 upload of encrypted entries";

/// An upload request, with entries as slices of the bytes that were read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum UploadRequest<'a> {
    /// Asks how far the database has come.
    State,
    /// Stores entries.
    Chunk {
        /// The upload.
        upload: Upload,
        /// Number of the chunk.
        chunk: u64,
        /// Entries by number.
        entries: Vec<(u64, &'a [u8])>,
    },
    /// Commits an upload.
    Commit {
        /// The upload.
        upload: Upload,
        /// Number of its chunks.
        chunks: u64,
    },
}

/// Maximum number of entries in a chunk.
pub(super) fn most_entries(tables: &Tables) -> usize {
    (CHUNK_BYTES / (NUMBER_BYTES + EncryptedEntry::byte_len(tables))).max(1)
}

/// Length in bytes of a request with `entries` entries.
pub(super) fn request_bytes(tables: &Tables, entries: usize) -> usize {
    HEAD_BYTES + entries * (NUMBER_BYTES + EncryptedEntry::byte_len(tables)) + CHECKSUM_BYTES
}

fn checksum(content: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut checksum = [0; CHECKSUM_BYTES];
    blake3::Hasher::new_derive_key(CONTEXT).update(content).finalize_xof().fill(&mut checksum);
    checksum
}

/// Whether bytes are an undamaged upload request.
pub(super) fn is_upload(bytes: &[u8]) -> bool {
    bytes.split_last_chunk().is_some_and(|(content, found)| checksum(content) == *found)
}

/// Serialises a request. It contains the write key.
pub(super) fn write_request(write_key: &[u8; WRITE_KEY_BYTES], request: &UploadRequest<'_>) -> Vec<u8> {
    let none = Upload { id: 0, base: 0 };
    let (operation, upload, number, entries) = match request {
        UploadRequest::State => (0, none, 0, [].as_slice()),
        UploadRequest::Chunk { upload, chunk, entries } => (1, *upload, *chunk, entries.as_slice()),
        UploadRequest::Commit { upload, chunks } => (2, *upload, *chunks, [].as_slice()),
    };
    let mut bytes = write_key.to_vec();
    bytes.push(operation);
    [upload.id, upload.base, number].iter().for_each(|number| bytes.extend(number.to_le_bytes()));
    for (number, entry) in entries {
        bytes.extend((*number as u32).to_le_bytes());
        bytes.extend_from_slice(entry);
    }
    bytes.extend(checksum(&bytes));
    bytes
}

/// Reads a request from untrusted bytes: the write key that it has, and what it asks for. The content of entries is not
/// checked.
///
/// # Errors
/// If it is damaged, has another length, has too many entries, or asks for something unknown.
pub(super) fn read_request<'a>(
    tables: &Tables,
    bytes: &'a [u8],
) -> Result<(Zeroizing<[u8; WRITE_KEY_BYTES]>, UploadRequest<'a>), PirError> {
    let found = bytes.len();
    let wrong = || {
        let needed = format!("a key, an operation, three numbers, and up to {} entries", most_entries(tables));
        PirError::mismatch("upload request", format!("{found} bytes"), needed)
    };
    let (content, _) = bytes.split_last_chunk::<CHECKSUM_BYTES>().filter(|_| is_upload(bytes)).ok_or_else(wrong)?;
    let (write_key, content) = content.split_first_chunk::<WRITE_KEY_BYTES>().ok_or_else(wrong)?;
    let (operation, content) = content.split_first().ok_or_else(wrong)?;
    let (numbers, rest) = content.split_first_chunk::<24>().ok_or_else(wrong)?;
    let [id, base, number] = words(numbers);
    let upload = Upload { id, base };
    let request = match (*operation, rest) {
        (0, []) if [id, base, number] == [0; 3] => UploadRequest::State,
        (1, entries) => {
            UploadRequest::Chunk { upload, chunk: number, entries: read_entries(tables, entries).ok_or_else(wrong)? }
        }
        (2, []) => UploadRequest::Commit { upload, chunks: number },
        _ => return Err(wrong()),
    };
    Ok((Zeroizing::new(*write_key), request))
}

fn read_entries<'a>(tables: &Tables, bytes: &'a [u8]) -> Option<Vec<(u64, &'a [u8])>> {
    let each = NUMBER_BYTES + EncryptedEntry::byte_len(tables);
    if !bytes.len().is_multiple_of(each) || bytes.len() / each > most_entries(tables) {
        return None;
    }
    let entry = |bytes: &'a [u8]| {
        let (number, entry) = bytes.split_first_chunk()?;
        Some((u64::from(u32::from_le_bytes(*number)), entry))
    };
    bytes.chunks_exact(each).map(entry).collect()
}

/// Numbers of 8 bytes.
fn words<const WORDS: usize>(bytes: &[u8]) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    words.iter_mut().zip(bytes.as_chunks().0).for_each(|(word, bytes)| *word = u64::from_le_bytes(*bytes));
    words
}

/// Serialises a reply.
pub(super) fn write_reply(description: &Description, state: UploadState) -> Vec<u8> {
    let UploadState { version, upload, chunks } = state;
    let mut bytes = version.to_le_bytes().to_vec();
    bytes.extend(description.layout_id());
    [upload.id, upload.base, chunks].iter().for_each(|number| bytes.extend(number.to_le_bytes()));
    append_checksum(&mut bytes);
    bytes
}

/// Reads a reply from untrusted bytes.
///
/// # Errors
/// If it is damaged, has another length, or is of a database with another layout.
pub(super) fn read_reply(description: &Description, bytes: &[u8]) -> Result<UploadState, PirError> {
    let content = checked(bytes)?;
    if bytes.len() != REPLY_BYTES {
        return Err(PirError::mismatch("reply", format!("{} bytes", bytes.len()), format!("{REPLY_BYTES} bytes")));
    }
    let [version, layout, id, base, chunks] = words(content);
    if layout.to_le_bytes() != description.layout_id() {
        let needed = "one of the description's; connect again";
        return Err(PirError::mismatch("reply", "one of another layout of the records", needed));
    }
    Ok(UploadState { version, upload: Upload { id, base }, chunks })
}
