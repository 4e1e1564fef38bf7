//! The number of the newest version of a generation, in a file of its own beside the journal. A journal that was cut
//! off between two frames looks like one with fewer commits; this number tells them apart.
//!
//! If the number is above the last version of the journal, versions are lost, and opening fails with both numbers. A
//! missing file is not an error: databases of earlier releases have none.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use crate::disk::Disk;
use crate::error::{DatabaseError, io_error};
use crate::journal::Position;
use crate::manifest::Files;

/// Maximum bytes of the file. It has about 90.
const MAX_BYTES: u64 = 256;

/// The newest version that was committed, as far as recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Newest {
    generation: u64,
    version: u64,
}

impl Newest {
    /// Reads the newest version of a generation: `version`, the version of its tables, if none is recorded.
    ///
    /// Read it before the journal: a commit writes its frame first, and then this number.
    pub fn read(dir: &Path, (generation, version): (u64, u64)) -> Result<Self, DatabaseError> {
        let path = Files::new(dir, generation).newest;
        let unrecorded = Newest { generation, version };
        let mut bytes = Vec::new();
        match File::open(&path) {
            Ok(file) => file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(io_error("read", &path))?,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(unrecorded),
            Err(error) => return Err(io_error("open", &path)(error)),
        };
        let number = bytes.split(|&byte| byte == b' ').next().and_then(|number| str::from_utf8(number).ok());
        let recorded = number.and_then(|number| number.parse().ok()).map(|version| Newest { version, ..unrecorded });
        let sound = recorded.filter(|newest| newest.render().as_bytes() == bytes);
        sound.ok_or_else(|| DatabaseError::Corrupted {
            file: name(&path),
            bytes: 0..bytes.len() as u64,
            what: "its hash is wrong",
        })
    }

    /// The newest version.
    pub fn version(self) -> u64 {
        self.version
    }

    /// Checks that the journal has been read up to this version.
    pub fn check(self, dir: &Path, journal: Position) -> Result<(), DatabaseError> {
        if journal.version() >= self.version {
            return Ok(());
        }
        let files = Files::new(dir, self.generation);
        Err(DatabaseError::VersionsLost {
            file: name(&files.journal),
            found: journal.version(),
            needed: self.version,
            record: name(&files.newest),
        })
    }

    /// Records the newest version, atomically and durably.
    pub fn record(disk: &Disk, dir: &Path, generation: u64, version: u64) -> Result<(), DatabaseError> {
        let newest = Newest { generation, version };
        disk.replace(&Files::new(dir, generation).newest, newest.render().as_bytes())
    }

    fn render(self) -> String {
        let Newest { generation, version } = self;
        let hash = blake3::hash(format!("newest version {version} of generation {generation}").as_bytes());
        format!("{version} {hash}\n")
    }
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
