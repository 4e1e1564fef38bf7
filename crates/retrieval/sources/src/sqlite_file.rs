//! A SQLite file, and whether it has a write-ahead log.
//!
//! SQLite reads a file with such a log through an index in shared memory. It makes this index beside the file and
//! leaves it there, and cannot make it in a directory that is not writable. A file with an empty log needs no index: it
//! is opened as a file that does not change, and a check at the end confirms that it has not changed.

use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Place in the header of the version that a reader needs, and the version of files with a write-ahead log.
const READ_VERSION: usize = 19;
const WITH_LOG: u8 = 2;

/// A file, with what is known about its log.
pub(crate) struct File {
    /// Without links: the log is beside the file that a link leads to.
    path: PathBuf,
    /// The state of the file when it was opened as a file that does not change.
    unchanging: Option<Stamp>,
    /// Whether there is a log that must be read.
    logged: bool,
}

/// Changes with the content of a file.
#[derive(PartialEq, Eq)]
struct Stamp {
    bytes: u64,
    modified: Option<SystemTime>,
}

impl Stamp {
    fn new(metadata: &Metadata) -> Self {
        Stamp { bytes: metadata.len(), modified: metadata.modified().ok() }
    }
}

impl File {
    /// Looks at a file.
    pub(crate) fn find(path: &Path) -> io::Result<Self> {
        let path = fs::canonicalize(path)?;
        let stamp = Stamp::new(&fs::metadata(&path)?);
        let mut header = Vec::new();
        fs::File::open(&path)?.take(READ_VERSION as u64 + 1).read_to_end(&mut header)?;
        if header.get(READ_VERSION) != Some(&WITH_LOG) {
            return Ok(File { path, unchanging: None, logged: false });
        }
        let mut log = path.clone().into_os_string();
        log.push("-wal");
        let logged = match fs::metadata(log) {
            Ok(metadata) => metadata.len() > 0,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(error),
        };
        Ok(File { path, unchanging: (!logged).then_some(stamp), logged })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The name by which SQLite opens it as a file that does not change, if its log is empty.
    pub(crate) fn unchanging(&self) -> Option<OsString> {
        self.unchanging.as_ref().map(|_| {
            let mut name = String::from("file:");
            for &byte in self.path.as_os_str().as_encoded_bytes() {
                match byte {
                    b'/' | b'-' | b'_' | b'.' => name.push(byte.into()),
                    _ if byte.is_ascii_alphanumeric() => name.push(byte.into()),
                    _ => name.push_str(&format!("%{byte:02x}")),
                }
            }
            name.push_str("?immutable=1");
            name.into()
        })
    }

    /// What is needed where the file cannot be opened, and what to do.
    pub(crate) fn needed(&self) -> &'static str {
        match self.logged {
            true => {
                "a SQLite database that can be read; this one has a write-ahead log beside it, whose changes can only \
                 be read where its directory can be written: end the program that writes it, or copy the file and \
                 its -wal to another directory"
            }
            false => "a SQLite database that can be read; check the file",
        }
    }

    /// After the last row: an error if the file was opened as one that does not change, and has changed.
    pub(crate) fn check_unchanged(&self) -> io::Result<()> {
        match &self.unchanging {
            Some(stamp) if *stamp != Stamp::new(&fs::metadata(&self.path)?) => {
                Err(io::Error::other("another program changed it meanwhile; read it again"))
            }
            _ => Ok(()),
        }
    }
}
