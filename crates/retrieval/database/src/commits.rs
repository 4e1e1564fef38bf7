//! The commits of a generation, as the one who writes them sees them: the journal, open for appending, and the number
//! of the newest version beside it.
//!
//! A commit writes a frame without its trailer, waits until that is durable, writes the trailer, and waits again. Then
//! it replaces `newest-G.txt`. Readers read that file before the journal, so they never see a number whose frame is not
//! there, unless the journal has lost it. A reader waits until a frame is durable before it serves it, so that a power
//! failure cannot take back a version that was served.

use std::path::{Path, PathBuf};

use crate::disk::{Disk, DiskFile};
use crate::error::DatabaseError;
use crate::journal::{Frame, Journal, Position, Scope, append};
use crate::manifest::Files;
use crate::newest::Newest;

/// A journal that one writer appends commits to.
#[derive(Debug)]
pub(crate) struct Commits {
    disk: Disk,
    dir: PathBuf,
    generation: u64,
    journal: DiskFile,
    position: Position,
}

impl Commits {
    /// Opens the journal of a generation, whose number is the scope's id, and returns its frames. Removes an
    /// uncommitted frame, makes the committed ones durable, and records the newest version if a crash came before.
    pub fn open(disk: &Disk, dir: &Path, scope: Scope) -> Result<(Self, Vec<Frame>), DatabaseError> {
        let generation = scope.id;
        let newest = Newest::read(dir, (generation, scope.version))?;
        let path = Files::new(dir, generation).journal;
        let (reader, start) = Journal::open_at(&path, scope)?;
        let (frames, position) = reader.read(start)?;
        newest.check(dir, position)?;
        let journal = disk.open(&path)?;
        journal.set_len(position.bytes())?;
        journal.sync()?;
        if position.version() > newest.version() {
            Newest::record(disk, dir, generation, position.version())?;
        }
        Ok((Commits { disk: disk.clone(), dir: dir.into(), generation, journal, position }, frames))
    }

    /// Appends a frame, durably, and records its version. After an error, the state on disk is unknown.
    pub fn append(&mut self, frame: &Frame) -> Result<(), DatabaseError> {
        self.position = append(&self.journal, self.position, frame)?;
        Newest::record(&self.disk, &self.dir, self.generation, frame.version)
    }

    /// The version of the last frame, or the version of the generation.
    pub fn version(&self) -> u64 {
        self.position.version()
    }

    /// Bytes of the journal.
    pub fn bytes(&self) -> u64 {
        self.position.bytes()
    }
}
