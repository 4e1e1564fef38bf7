//! The journal of a generation: commits since its tables were written.
//!
//! It consists of a header and a frame for each version. A frame consists of a header, cells with their numbers, zeros
//! up to a multiple of 64 bytes, and a trailer. A commit first writes a frame whose trailer is zero and waits until
//! that is durable; then it writes the trailer and waits again. A frame without a trailer was therefore never
//! committed, whatever else it contains, and a frame with a trailer that does not match is damaged. No trailer crosses
//! a sector, so that it is never written in parts.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::cells::open;
use crate::disk::DiskFile;
use crate::error::{DatabaseError, io_error};
use crate::geometry::Geometry;
use crate::manifest::{Files, Manifest};

/// Bytes of the journal's header, of a frame's header and of its trailer; also the alignment of frames.
const BLOCK: usize = 64;

const HEADER_MAGIC: [u8; 8] = *b"UNSPJNL1";

const FRAME_MAGIC: [u8; 8] = *b"UNSPFRM1";

/// Bytes of the number in front of a cell.
const NUMBER_BYTES: usize = 4;

/// Changes of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub version: u64,
    /// Number of records afterwards.
    pub records: u64,
    /// Cells by number, with their new content.
    pub cells: Vec<(u64, Vec<u8>)>,
}

/// Position in a journal, between two frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    offset: u64,
    version: u64,
    /// Hash from the previous frame's trailer, which chains frames.
    link: [u8; 16],
}

/// A journal, open for reading.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    name: String,
    cells: u64,
    cell_bytes: usize,
}

/// What a journal belongs to: the numbers in its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scope {
    /// The generation, or the number of an upload.
    pub id: u64,
    /// The version before the first frame.
    pub version: u64,
    /// Number of cells.
    pub cells: u64,
    pub cell_bytes: usize,
}

impl Scope {
    /// The scope of the journal of a generation.
    pub fn of(manifest: &Manifest, geometry: &Geometry) -> Self {
        let (id, version) = (manifest.generation, manifest.version);
        Scope { id, version, cells: geometry.layout().cells(), cell_bytes: geometry.cell_bytes }
    }

    /// Bytes of the journal's header.
    pub fn header(&self) -> [u8; BLOCK] {
        let numbers = [self.id, self.version, self.cells, self.cell_bytes as u64];
        let mut header = [0; BLOCK];
        header[..8].copy_from_slice(&HEADER_MAGIC);
        let words = header[8..40].chunks_exact_mut(8).zip(numbers);
        words.for_each(|(to, number)| to.copy_from_slice(&number.to_le_bytes()));
        let check = digest(&[&header[..48]]);
        header[48..].copy_from_slice(&check[..16]);
        header
    }

    /// Reads the scope in the header of a journal.
    pub fn read(path: &Path) -> Result<Self, DatabaseError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let corrupted = || DatabaseError::Corrupted { file: name, bytes: 0..BLOCK as u64, what: "its header is wrong" };
        let mut header = [0; BLOCK];
        if let Err(error) = open(path)?.read_exact_at(&mut header, 0) {
            return match error.kind() {
                std::io::ErrorKind::UnexpectedEof => Err(corrupted()),
                _ => Err(io_error("read", path)(error)),
            };
        }
        let mut numbers = [0; 4];
        let words = header[8..40].as_chunks().0.iter();
        numbers.iter_mut().zip(words).for_each(|(number, word)| *number = u64::from_le_bytes(*word));
        let [id, version, cells, cell_bytes] = numbers;
        let scope = Scope { id, version, cells, cell_bytes: cell_bytes as usize };
        if scope.header() == header { Ok(scope) } else { Err(corrupted()) }
    }
}

impl Journal {
    /// Opens the journal of the generation that a manifest names.
    pub fn open(dir: &Path, manifest: &Manifest, geometry: &Geometry) -> Result<(Self, Position), DatabaseError> {
        Self::open_at(&Files::new(dir, manifest.generation).journal, Scope::of(manifest, geometry))
    }

    /// Opens the journal of a scope.
    pub fn open_at(path: &Path, scope: Scope) -> Result<(Self, Position), DatabaseError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let journal = Journal { file: open(path)?, name, cells: scope.cells, cell_bytes: scope.cell_bytes };
        let expected = scope.header();
        if journal.length()? < BLOCK as u64 || journal.block(0)? != expected {
            return Err(journal.corrupted(0..BLOCK as u64, "its header is wrong"));
        }
        let mut link = [0; 16];
        link.copy_from_slice(&expected[48..]);
        Ok((journal, Position { offset: BLOCK as u64, version: scope.version, link }))
    }

    /// Reads the committed frames after a position. Also returns the position after them.
    pub fn read(&self, from: Position) -> Result<(Vec<Frame>, Position), DatabaseError> {
        let (mut frames, mut position) = (Vec::new(), from);
        while let Some((frame, next)) = self.frame(position)? {
            frames.push(frame);
            position = next;
        }
        Ok((frames, position))
    }

    /// Makes the frames that were read durable. Their version is served only afterwards.
    pub fn sync(&self) -> Result<(), DatabaseError> {
        self.file.sync_data().map_err(io_error("sync", Path::new(&self.name)))
    }

    /// Reads the next frame, if it was committed.
    pub fn frame(&self, from: Position) -> Result<Option<(Frame, Position)>, DatabaseError> {
        let length = self.length()?;
        if length < from.offset {
            return Err(self.corrupted(length..from.offset, "frames that were there are cut off"));
        }
        if length < from.offset + BLOCK as u64 {
            return Ok(None);
        }
        let header = self.block(from.offset)?;
        if header == [0; BLOCK] {
            return self.nothing_after(from.offset, length);
        }
        let bad_header = |what| self.corrupted(from.offset..from.offset + BLOCK as u64, what);
        let [version, records, count] =
            parse_header(&header, &from.link).ok_or_else(|| bad_header("no frame begins"))?;
        if version != from.version + 1 || count > self.cells {
            return Err(bad_header("a frame has a wrong number"));
        }
        let body_bytes = (count * (NUMBER_BYTES + self.cell_bytes) as u64).next_multiple_of(BLOCK as u64);
        let end = from.offset + body_bytes + 2 * BLOCK as u64;
        if length < end {
            return Ok(None);
        }
        let trailer = self.block(end - BLOCK as u64)?;
        let mut body = vec![0; body_bytes as usize];
        self.read_at(&mut body, from.offset + BLOCK as u64)?;
        let digest = digest(&[&header, &body]);
        if digest != trailer {
            return match (is_torn(&trailer, &digest), length == end) {
                (true, true) => Ok(None),
                (true, false) => {
                    Err(self.corrupted(from.offset..end, "a frame was not committed, and others follow it"))
                }
                (false, _) => Err(self.corrupted(from.offset..end, "the hash of a frame is wrong")),
            };
        }
        let cells = self.cells_of(&body, count as usize);
        let cells = cells.ok_or_else(|| self.corrupted(from.offset..end, "a frame has a cell that is not there"))?;
        let mut link = [0; 16];
        link.copy_from_slice(&digest[..16]);
        Ok(Some((Frame { version, records, cells }, Position { offset: end, version, link })))
    }

    fn cells_of(&self, body: &[u8], count: usize) -> Option<Vec<(u64, Vec<u8>)>> {
        let cell = |bytes: &[u8]| {
            let (number, content) = bytes.split_first_chunk()?;
            let number = u64::from(u32::from_le_bytes(*number));
            (number < self.cells).then(|| (number, content.to_vec()))
        };
        body.chunks_exact(NUMBER_BYTES + self.cell_bytes).take(count).map(cell).collect()
    }

    /// Checks that only zeros follow. They are not damage: a file system may extend a file before its content is
    /// written.
    fn nothing_after<T>(&self, offset: u64, length: u64) -> Result<Option<T>, DatabaseError> {
        let mut buffer = vec![0; 1 << 16];
        let mut at = offset;
        while at < length {
            let part = (length - at).min(buffer.len() as u64) as usize;
            self.read_at(&mut buffer[..part], at)?;
            if buffer[..part].iter().any(|&byte| byte != 0) {
                return Err(self.corrupted(offset..length, "a frame is missing, and others follow it"));
            }
            at += part as u64;
        }
        Ok(None)
    }

    fn block(&self, offset: u64) -> Result<[u8; BLOCK], DatabaseError> {
        let mut block = [0; BLOCK];
        self.read_at(&mut block, offset)?;
        Ok(block)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), DatabaseError> {
        self.file.read_exact_at(buffer, offset).map_err(io_error("read", Path::new(&self.name)))
    }

    fn length(&self) -> Result<u64, DatabaseError> {
        Ok(self.file.metadata().map_err(io_error("open", Path::new(&self.name)))?.len())
    }

    fn corrupted(&self, bytes: std::ops::Range<u64>, what: &'static str) -> DatabaseError {
        DatabaseError::Corrupted { file: self.name.clone(), bytes, what }
    }
}

/// Appends a frame at a position, durably, and returns the position after it.
pub(crate) fn append(file: &DiskFile, from: Position, frame: &Frame) -> Result<Position, DatabaseError> {
    let mut bytes = vec![0; BLOCK];
    bytes[..8].copy_from_slice(&FRAME_MAGIC);
    bytes[8..16].copy_from_slice(&frame.version.to_le_bytes());
    bytes[16..24].copy_from_slice(&frame.records.to_le_bytes());
    bytes[24..32].copy_from_slice(&(frame.cells.len() as u64).to_le_bytes());
    bytes[32..48].copy_from_slice(&from.link);
    let check = digest(&[&bytes[..48]]);
    bytes[48..].copy_from_slice(&check[..16]);
    for (number, cell) in &frame.cells {
        bytes.extend_from_slice(&(*number as u32).to_le_bytes());
        bytes.extend_from_slice(cell);
    }
    bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    let digest = digest(&[&bytes]);
    let trailer_at = from.offset + bytes.len() as u64;
    bytes.extend_from_slice(&[0; BLOCK]);
    file.write_at(&bytes, from.offset)?;
    file.sync()?;
    file.write_at(&digest, trailer_at)?;
    file.sync()?;
    let mut link = [0; 16];
    link.copy_from_slice(&digest[..16]);
    Ok(Position { offset: trailer_at + BLOCK as u64, version: frame.version, link })
}

impl Position {
    /// Offset of the content of a cell of the frame after this position.
    pub fn cell_at(&self, cell: usize, cell_bytes: usize) -> u64 {
        self.offset + (BLOCK + cell * (NUMBER_BYTES + cell_bytes) + NUMBER_BYTES) as u64
    }

    /// Bytes of the journal up to this position.
    pub fn bytes(&self) -> u64 {
        self.offset
    }

    /// Version of the last frame before this position.
    pub fn version(&self) -> u64 {
        self.version
    }
}

/// Upper bound on the versions in a journal, even if it is damaged.
pub(crate) fn most_versions(dir: &Path, manifest: &Manifest) -> Result<u64, DatabaseError> {
    let path = Files::new(dir, manifest.generation).journal;
    let bytes = match std::fs::metadata(&path) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => 0,
        Err(error) => return Err(io_error("open", &path)(error)),
    };
    Ok(manifest.version + bytes / (2 * BLOCK as u64))
}

/// Whether a trailer was not written, or only in part. Damage of a few bits does not look like this.
fn is_torn(trailer: &[u8; BLOCK], whole: &[u8; BLOCK]) -> bool {
    let torn_at = |at: usize| trailer[..at] == whole[..at] && trailer[at..].iter().all(|&byte| byte == 0);
    (0..BLOCK).step_by(8).any(torn_at)
}

/// Version, records and number of cells in the header of a frame.
fn parse_header(header: &[u8; BLOCK], link: &[u8; 16]) -> Option<[u64; 3]> {
    let whole = header[..8] == FRAME_MAGIC && header[32..48] == *link && header[48..] == digest(&[&header[..48]])[..16];
    let number = |at: usize| Some(u64::from_le_bytes(*header.get(at..)?.first_chunk()?));
    whole.then_some([number(8)?, number(16)?, number(24)?])
}

fn digest(parts: &[&[u8]]) -> [u8; BLOCK] {
    let mut hasher = blake3::Hasher::new();
    parts.iter().for_each(|part| _ = hasher.update(part));
    let mut digest = [0; BLOCK];
    hasher.finalize_xof().fill(&mut digest);
    digest
}
