//! Sessions that outlive the process: their entries in a store, as bytes.
//!
//! ```text
//! "usps", version (u16), 0 (u16)
//! identity (32)      of the description, the layout and the places of bootstraps
//! client (16), session (16)
//! written (u64)      milliseconds since 1970
//! chunk (u32)        the chunk that has run last
//! count (u32), public tokens (u32 each)
//! vectors            length (u32) and bytes of each
//! checksum (32)      BLAKE3 of all before
//! ```
//!
//! Numbers are little-endian. Vectors are ciphertexts under the client's secret; the service saw all the rest anyway.
//! Bytes of a store are read like bytes of a client: nothing is allocated before its size is checked.
//!
//! `ChatServer::store_sessions` takes a `SessionStore`. After each pass, before the answer, the server writes the
//! session as one entry: the ids of client and session, the public tokens, the number of the chunk, and the ciphertexts
//! of its keys and values. An entry begins with a version and a hash of the description, the layout and the places of
//! bootstraps, and ends with a checksum. The cache of the public tokens is computed again. When the server starts it
//! compares all checksums. It removes entries that are damaged, of another model, of other options, too old, or too
//! many. It reads the ciphertexts when the client continues, and looks for its id in the entry.
//!
//! So a server that stops in the middle of a pass has the session as it was after the pass before. The client sends the
//! query of the pass once more. A client whose session is gone is told so, and `PrivateGeneration` begins again: it
//! sends the public tokens and then all chunks, at most three times for one text.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::time::{Duration, SystemTime};

use unspoken_ckks::{Ciphertext, CkksParameters, vector_bytes};
use unspoken_encrypted_llama::{PassProgram, Session};
use unspoken_protocol::{CHECKSUM_BYTES, ClientId};
use unspoken_rlwe as rlwe;

use crate::description::Description;
use crate::session_id::SessionId;

/// Where a service stores sessions, so that they outlive it. Entries have names of lower-case letters, digits, `-` and
/// `.`, 72 characters. A service trusts a store to give entries back as they were, or damaged, which the service
/// notices. No other process may use the entries meanwhile.
pub trait SessionStore: Send + Sync {
    /// The names of all entries.
    ///
    /// # Errors
    /// If they cannot be listed.
    fn names(&self) -> io::Result<Vec<String>>;

    /// Opens an entry.
    ///
    /// # Errors
    /// If there is none, or it cannot be opened.
    fn open(&self, name: &str) -> io::Result<Box<dyn Read + Send>>;

    /// Replaces an entry by what `write` writes, or makes it. After a crash it has the old content or the new one.
    ///
    /// # Errors
    /// If it cannot be written; then the old content stays.
    fn replace(&self, name: &str, write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> io::Result<()>;

    /// Removes an entry. One that does not exist is removed.
    ///
    /// # Errors
    /// If it cannot be removed.
    fn remove(&self, name: &str) -> io::Result<()>;
}

const MAGIC: [u8; 4] = *b"usps";
const VERSION: u16 = 2;

/// The end of the names of entries.
const SUFFIX: &str = ".session";

/// The name of the entry of a session.
pub(crate) fn name_of(client: ClientId, session: SessionId) -> String {
    let mut name = String::with_capacity(72);
    for byte in client.to_bytes().into_iter().chain(session.to_bytes()) {
        let _ = write!(name, "{byte:02x}");
    }
    name + SUFFIX
}

/// A session without its vectors.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StoredSession {
    pub client: ClientId,
    pub session: SessionId,
    /// When it was written.
    pub written: SystemTime,
    /// The chunk that has run last.
    pub chunk: u32,
    /// The public tokens, without the prefix.
    pub public: Vec<u32>,
}

/// The form of entries of one server.
#[derive(Clone, Debug)]
pub(crate) struct Format {
    identity: [u8; 32],
}

/// Hashes what is written to it.
struct Hashing<T> {
    inner: T,
    hasher: blake3::Hasher,
}

impl<T> Hashing<T> {
    fn new(inner: T) -> Self {
        Hashing { inner, hasher: blake3::Hasher::new() }
    }
}

impl std::fmt::Write for Hashing<()> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.hasher.update(text.as_bytes());
        Ok(())
    }
}

impl Write for Hashing<&mut dyn Write> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.hasher.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<R: Read> Hashing<R> {
    /// The next `N` bytes.
    fn bytes<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.inner.read_exact(&mut bytes)?;
        self.hasher.update(&bytes);
        Ok(bytes)
    }

    fn number(&mut self) -> io::Result<u32> {
        self.bytes().map(u32::from_le_bytes)
    }

    /// Compares the checksum. Nothing may follow it.
    fn finish(mut self) -> io::Result<()> {
        let mut checksum = [0; CHECKSUM_BYTES];
        self.inner.read_exact(&mut checksum)?;
        // It detects accidents, so the time of the comparison does not matter.
        if *self.hasher.finalize().as_bytes() != checksum {
            return Err(damaged("a wrong checksum"));
        }
        match self.inner.read(&mut [0])? {
            0 => Ok(()),
            _ => Err(damaged("bytes after the checksum")),
        }
    }
}

fn damaged(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

impl Format {
    /// The form of entries of a server with this description and program.
    pub fn new(description: &Description, program: &PassProgram) -> Self {
        let mut hashing = Hashing::new(());
        let bytes = description.to_bytes();
        hashing.hasher.update(&(bytes.len() as u64).to_le_bytes()).update(&bytes);
        // Writing to a hasher does not fail.
        let _ = write!(hashing, "{:?}", program.session_format());
        Format { identity: *hashing.hasher.finalize().as_bytes() }
    }

    /// Writes a session, one vector after the other.
    pub fn write(
        &self,
        stored: &StoredSession,
        vectors: &Session<Ciphertext>,
        parameters: &CkksParameters,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let mut out = Hashing::new(out);
        out.write_all(&MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        out.write_all(&[0; 2])?;
        out.write_all(&self.identity)?;
        out.write_all(&stored.client.to_bytes())?;
        out.write_all(&stored.session.to_bytes())?;
        let written = stored.written.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        out.write_all(&(written.as_millis() as u64).to_le_bytes())?;
        out.write_all(&stored.chunk.to_le_bytes())?;
        out.write_all(&(stored.public.len() as u32).to_le_bytes())?;
        for token in &stored.public {
            out.write_all(&token.to_le_bytes())?;
        }
        for vector in vectors.vectors() {
            let bytes = vector.fetched(parameters).map_err(io::Error::other)?.to_bytes(parameters);
            out.write_all(&(bytes.len() as u32).to_le_bytes())?;
            out.write_all(&bytes)?;
        }
        let checksum = *out.hasher.finalize().as_bytes();
        out.inner.write_all(&checksum)
    }

    /// Reads everything in front of the vectors.
    fn read_front<R: Read>(&self, input: &mut Hashing<R>, description: &Description) -> io::Result<StoredSession> {
        if input.bytes()? != MAGIC {
            return Err(damaged("another kind of file"));
        }
        let version = u16::from_le_bytes(input.bytes()?);
        if version != VERSION || input.bytes()? != [0; 2] {
            return Err(damaged(format!("version {version}, needed {VERSION}")));
        }
        if input.bytes()? != self.identity {
            return Err(damaged("a session of another model, other options or another version"));
        }
        let (client, session) = (ClientId::new(input.bytes()?), SessionId::new(input.bytes()?));
        let time = u64::from_le_bytes(input.bytes()?);
        let written = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(time));
        let written = written.ok_or_else(|| damaged(format!("a time of {time} ms")))?;
        let (chunk, count) = (input.number()?, input.number()?);
        if count as usize > description.most_public_tokens() {
            return Err(damaged(format!("{count} public tokens")));
        }
        let public = (0..count).map(|_| input.number()).collect::<io::Result<Vec<u32>>>()?;
        let chunks = description.chunks_after(description.prefix() + public.len());
        if chunk as usize >= chunks {
            return Err(damaged(format!("chunk {chunk}, needed one below {chunks}")));
        }
        Ok(StoredSession { client, session, written, chunk, public })
    }

    /// Reads an entry without decoding its vectors, and compares its checksum. `most_bytes` bounds its length.
    pub fn check(&self, input: impl Read, description: &Description, most_bytes: u64) -> io::Result<StoredSession> {
        let mut input = Hashing::new(input);
        let stored = self.read_front(&mut input, description)?;
        let (mut rest, mut buffer, mut bytes) = (Vec::new(), vec![0; 1 << 16], 0);
        // The last bytes are the checksum.
        loop {
            let count = match input.inner.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            bytes += count as u64;
            if bytes > most_bytes {
                return Err(damaged(format!("more than {most_bytes} bytes")));
            }
            rest.extend_from_slice(&buffer[..count]);
            let content = rest.len().saturating_sub(CHECKSUM_BYTES);
            input.hasher.update(&rest[..content]);
            rest.drain(..content);
        }
        Hashing { inner: rest.as_slice(), hasher: input.hasher }.finish()?;
        Ok(stored)
    }

    /// Reads an entry with its vectors, which may take at most `most_bytes` bytes of memory.
    pub fn read(
        &self,
        input: impl Read,
        description: &Description,
        program: &PassProgram,
        most_bytes: u64,
    ) -> io::Result<(StoredSession, Session<Ciphertext>)> {
        let mut input = Hashing::new(input);
        let stored = self.read_front(&mut input, description)?;
        let parameters = description.parameters();
        let before = description.prefix() + stored.public.len();
        let mut left = most_bytes;
        let next = || -> io::Result<Ciphertext> {
            let length = input.number()? as usize;
            if length > longest(parameters) {
                return Err(damaged(format!("a vector of {length} bytes")));
            }
            let mut bytes = vec![0; length];
            input.inner.read_exact(&mut bytes)?;
            input.hasher.update(&bytes);
            let vector = Ciphertext::from_bytes(parameters, &bytes).map_err(|error| damaged(error.to_string()))?;
            if length != vector_length(parameters, vector.level()) {
                return Err(damaged("a vector of more than two components"));
            }
            let level = vector.level();
            left = left
                .checked_sub(vector_bytes(parameters, level))
                .ok_or_else(|| damaged(format!("vectors of more than {most_bytes} bytes")))?;
            Ok(vector)
        };
        let session = program.restore((before, description.chunks_after(before)), stored.chunk as usize, next)?;
        input.finish()?;
        Ok((stored, session))
    }
}

/// Bytes of a serialised vector at a level.
fn vector_length(parameters: &CkksParameters, level: usize) -> usize {
    size_of::<f64>() + rlwe::Ciphertext::byte_len(parameters.rlwe(), parameters.basis(level))
}

/// Bytes of the longest serialised vector.
fn longest(parameters: &CkksParameters) -> usize {
    vector_length(parameters, parameters.max_level())
}
