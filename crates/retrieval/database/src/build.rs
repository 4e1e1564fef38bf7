//! Building databases.
//!
//! Building writes to a hidden directory beside the target, `.NAME.building-NUMBER`, and renames it. A crash leaves
//! that directory behind. It is locked while it is written, and the next build of the database removes directories that
//! are not locked. Replacing a database writes the next generation into its directory; the old generation is current
//! until the manifest is renamed. A compaction is a replacement, too.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use unspoken_pir_scheme::dense::MaskSeed;
use unspoken_pir_scheme::layout::{BUCKET_OVERHEAD, Bucket, KeysPlan, Tag};
use unspoken_pir_scheme::{Layout, PirParameters, Preset, SchemeError, TableKind, Tables};

use crate::disk::Disk;
use crate::error::{DatabaseError, io_error};
use crate::geometry::Geometry;
use crate::journal::most_versions;
use crate::lock::Lock;
use crate::manifest::{Manifest, SealingId, sweep};
use crate::newest::Newest;
use crate::place::{Buckets, Random, place};
use crate::progress::{Monitor, Phase, Progress};
use crate::records::{Collected, Duplicates, Record, Strings};
use crate::store::Plan;

/// Number of layouts that are tried. Each has a tenth more room than the one before.
const ATTEMPTS: usize = 12;

/// Number of the seed of masks: the first after the seeds of the attempts.
const MASKS_SEED: usize = ATTEMPTS;

/// Options for building a database.
#[derive(Clone, Debug)]
pub struct Builder {
    /// The parameters.
    pub preset: Preset,
    /// The kind of the tables.
    pub tables: TableKind,
    /// Buckets that a record with a key may be in: 1 to 3. A query reads all of them.
    pub candidates: u32,
    /// Handling of two records with the same key.
    pub duplicates: Duplicates,
    /// Minimum number of records to make room for.
    pub capacity: u64,
    /// Minimum length of the longest record to make room for, in bytes.
    pub longest: usize,
    /// Whether an existing database is replaced. It is served until the new one is complete.
    pub replace: bool,
    /// The sealing of the records, if they are sealed. It is stored; sealing them is up to the caller.
    pub sealing: Option<SealingId>,
    /// Seed of the hashes that map keys to tags and buckets, and of the public masks of dense tables; random if `None`.
    /// A database that is replaced by one with dense tables keeps its masks.
    pub seed: Option<[u8; 16]>,
}

/// Summary of a new database.
#[derive(Clone, Debug, PartialEq)]
pub struct Built {
    /// Layout of records in cells, and of cells in tables.
    pub tables: Tables,
    /// Number of records.
    pub records: u64,
    /// Number of records that were left out because another one has the same key.
    pub dropped: u64,
    /// Bytes of all values.
    pub value_bytes: u64,
    /// Bytes of the cells.
    pub cells_bytes: u64,
    /// Bytes of the tables.
    pub table_bytes: u64,
    /// Version of the database.
    pub version: u64,
}

/// Placement of values in buckets.
struct Placed {
    layout: Layout,
    tags: Vec<Tag>,
    /// Numbers of the values, by entry.
    values: Vec<usize>,
    bytes: Vec<usize>,
    /// Numbers of the entries, by bucket.
    buckets: Vec<Vec<u32>>,
    used: Vec<usize>,
}

impl Builder {
    /// Options with transformed tables and two candidates for each key: duplicates are refused, there is no room for
    /// more records, nothing is replaced.
    pub fn new(preset: Preset) -> Self {
        let duplicates = Duplicates::Refuse;
        let tables = TableKind::default();
        Builder {
            preset,
            tables,
            candidates: 2,
            duplicates,
            capacity: 0,
            longest: 0,
            replace: false,
            sealing: None,
            seed: None,
        }
    }

    /// Builds a database of all records in the directory `dir`. Records with keys are read by key, records without keys
    /// by their number. Values are held in memory meanwhile; tables are not.
    ///
    /// A crash leaves the previous state, and files or a hidden directory beside it that are not a database. The next
    /// build of a database in `dir` removes them.
    ///
    /// # Errors
    /// If a record cannot be read or does not fit, two records have the same key, `dir` exists, or writing fails;
    /// [`DatabaseError::Cancelled`] soon after `cancel` is set.
    pub fn build<E>(
        &self,
        dir: impl AsRef<Path>,
        records: impl IntoIterator<Item = Result<Record, E>>,
        mut progress: impl FnMut(Progress),
        cancel: &AtomicBool,
    ) -> Result<Built, DatabaseError>
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.build_on(&Disk::default(), dir.as_ref(), records, &mut Monitor { progress: &mut progress, cancel })
    }

    pub(crate) fn build_on<E>(
        &self,
        disk: &Disk,
        dir: &Path,
        records: impl IntoIterator<Item = Result<Record, E>>,
        monitor: &mut Monitor<'_>,
    ) -> Result<Built, DatabaseError>
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let parameters = self.preset.build()?;
        let target = Target::find(disk, dir, self.replace, self.sealing)?;
        let longest = |by_key| Layout::longest_record(&parameters, self.tables, by_key);
        let collected = Collected::read(records, self.duplicates, longest, monitor)?;
        let masks = self.masks(&target)?;
        match &collected.keys {
            _ if collected.values.len() == 0 => Err(DatabaseError::Empty),
            None => {
                let lengths = collected.values.lengths();
                let layout = Layout::for_index(&parameters, self.tables, lengths, (self.capacity, self.longest))?;
                let cell = |number: u64, to: &mut Vec<u8>| {
                    // After the last record there are zeros: an absent record, or an empty one.
                    if number < collected.values.len() as u64 {
                        to.extend(layout.cell(Some(collected.values.get(number as usize)))?);
                    }
                    Ok(())
                };
                let geometry = Geometry::new(&parameters, layout, self.tables, masks)?;
                target.store(disk, (&geometry, self.sealing), &collected, cell, monitor)
            }
            Some(_) => {
                let placed = self.place_all(&parameters, &collected, monitor)?;
                let cell = |number: u64, to: &mut Vec<u8>| {
                    to.extend(placed.bucket(number, &collected.values)?);
                    Ok(())
                };
                let geometry = Geometry::new(&parameters, placed.layout, self.tables, masks)?;
                target.store(disk, (&geometry, self.sealing), &collected, cell, monitor)
            }
        }
    }

    /// Plans buckets and finds one for each record. Tries again with more room and another seed if that fails.
    fn place_all(
        &self,
        parameters: &PirParameters,
        collected: &Collected,
        monitor: &mut Monitor<'_>,
    ) -> Result<Placed, DatabaseError> {
        let keys = collected.keys.iter().flatten().map(|(key, &value)| (key.as_slice(), value));
        let keys: Vec<(&[u8], usize)> = keys.collect();
        let plan = KeysPlan::new(self.tables, self.candidates, [0; 16]);
        let mut plan = KeysPlan { keys: self.capacity, longest: self.longest, ..plan };
        for attempt in 0..ATTEMPTS {
            plan.seed = self.seed_of(attempt)?;
            let lengths = keys.iter().map(|&(_, value)| collected.values.get(value).len());
            let layout = Layout::for_keys(parameters, lengths, &plan)?;
            if let Some(placed) = Placed::place(layout, &keys, &collected.values, &plan.seed, monitor)? {
                return Ok(placed);
            }
            plan.load /= 1.1;
        }
        Err(DatabaseError::Full { what: "no arrangement in buckets was found" })
    }

    /// The seed of the masks of dense tables: the seed of the replaced database, or a new seed. With the same seed and
    /// the same kind of tables clients need not read the description again.
    fn masks(&self, target: &Target) -> Result<Option<MaskSeed>, DatabaseError> {
        match (self.tables, target.masks) {
            (kind, _) if !kind.is_dense() => Ok(None),
            (_, None) => Ok(Some(MaskSeed(self.seed_of(MASKS_SEED)?))),
            (_, masks) => Ok(masks),
        }
    }

    /// The seed with this number: first the seeds of the attempts to place the records, then [`MASKS_SEED`].
    fn seed_of(&self, number: usize) -> Result<[u8; 16], DatabaseError> {
        let mut seed = [0; 16];
        match self.seed {
            Some(first) if number == 0 => seed = first,
            Some(first) => Random::new(&[&first[..], &[number as u8]].concat()).fill(&mut seed),
            None => getrandom::fill(&mut seed).map_err(|error| DatabaseError::Source(error.to_string().into()))?,
        }
        Ok(seed)
    }
}

impl Placed {
    /// Finds a bucket for each record, the longest records first. Returns `None` if that fails, or if two keys have the
    /// same tag.
    fn place(
        layout: Layout,
        keys: &[(&[u8], usize)],
        values: &Strings,
        seed: &[u8; 16],
        monitor: &mut Monitor<'_>,
    ) -> Result<Option<Self>, DatabaseError> {
        let tagged = keys.iter().map(|&(key, value)| Ok((layout.tag(key)?, value)));
        let mut tagged: Vec<(Tag, usize)> = tagged.collect::<Result<_, SchemeError>>()?;
        tagged.sort_unstable();
        if tagged.windows(2).any(|pair| matches!(pair, [(a, _), (b, _)] if a == b)) {
            return Ok(None);
        }
        let length = |value: usize| Bucket::entry_bytes(values.get(value).len());
        tagged.sort_by_key(|&(_, value)| std::cmp::Reverse(length(value)));
        let (tags, values): (Vec<Tag>, Vec<usize>) = tagged.into_iter().unzip();
        let bytes = values.iter().map(|&value| length(value)).collect();
        let cells = layout.cells() as usize;
        let (buckets, used) = (vec![Vec::new(); cells], vec![BUCKET_OVERHEAD; cells]);
        let mut placed = Placed { layout, tags, values, bytes, buckets, used };
        let mut random = Random::new(seed);
        for entry in 0..placed.tags.len() {
            if !place(&mut placed, entry as u32, &mut random)? {
                return Ok(None);
            }
            if entry % (1 << 14) == 0 {
                monitor.at(Phase::Place, entry as u64, Some(placed.tags.len() as u64))?;
            }
        }
        Ok(Some(placed))
    }

    /// The bytes of a bucket.
    fn bucket(&self, number: u64, values: &Strings) -> Result<Vec<u8>, DatabaseError> {
        let mut bucket = Bucket::default();
        for &entry in self.buckets.get(number as usize).into_iter().flatten() {
            if let (Some(&tag), Some(&value)) = (self.tags.get(entry as usize), self.values.get(entry as usize)) {
                bucket.insert(tag, values.get(value).to_vec());
            }
        }
        Ok(bucket.to_bytes(self.layout.cell_bytes())?)
    }
}

impl Buckets for Placed {
    type Entry = u32;

    fn bytes(&self, entry: &u32) -> usize {
        self.bytes[*entry as usize]
    }

    fn candidates(&self, entry: &u32) -> Result<Vec<u64>, DatabaseError> {
        Ok(self.layout.buckets_of(self.tags[*entry as usize])?)
    }

    fn room(&mut self, bucket: u64) -> Result<usize, DatabaseError> {
        Ok(self.layout.cell_bytes().saturating_sub(self.used[bucket as usize]))
    }

    fn put(&mut self, bucket: u64, entry: u32) -> Result<(), DatabaseError> {
        self.used[bucket as usize] += self.bytes[entry as usize];
        self.buckets[bucket as usize].push(entry);
        Ok(())
    }

    fn take(&mut self, bucket: u64, any: u64) -> Result<Option<u32>, DatabaseError> {
        let entries = &mut self.buckets[bucket as usize];
        if entries.is_empty() {
            return Ok(None);
        }
        let entry = entries.swap_remove((any % entries.len() as u64) as usize);
        self.used[bucket as usize] -= self.bytes[entry as usize];
        Ok(Some(entry))
    }
}

/// Target of a build: a new directory under a temporary name, or new files in the directory of an existing database.
pub(crate) struct Target {
    dir: PathBuf,
    /// Held while a database is replaced.
    lock: Option<Lock>,
    generation: u64,
    version: u64,
    /// The seed of the masks of a database that is replaced, if it has masks of its own.
    masks: Option<MaskSeed>,
}

impl Target {
    /// The target in `dir`. If there is a database, it is replaced, or it is an error. A sealed one is only replaced by
    /// one with the same sealing.
    pub(crate) fn find(
        disk: &Disk,
        dir: &Path,
        replace: bool,
        sealing: Option<SealingId>,
    ) -> Result<Self, DatabaseError> {
        let target = |lock, (generation, version), masks| Target { dir: dir.into(), lock, generation, version, masks };
        remove_unfinished(dir)?;
        let empty = match fs::read_dir(dir) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
            Err(error) => return Err(io_error("open the directory", dir)(error)),
            Ok(mut entries) => entries.next().is_none(),
        };
        if empty {
            return Ok(target(None, (0, 0), None));
        }
        if !replace {
            return Err(DatabaseError::Exists { dir: dir.into() });
        }
        let lock = Lock::take(dir)?;
        let manifest = Manifest::read(dir)?;
        // Services would serve the records of a sealed database as they are.
        if manifest.sealing.is_some() && manifest.sealing != sealing {
            return Err(DatabaseError::Sealed { dir: dir.into() });
        }
        sweep(disk, dir, manifest.generation)?;
        // Continue after all version numbers that the journal may contain, so that a client never sees one number for
        // two contents.
        let recorded = Newest::read(dir, (manifest.generation, manifest.version)).map_or(0, Newest::version);
        let version = most_versions(dir, &manifest)?.max(recorded);
        Ok(target(Some(lock), (manifest.generation, version), manifest.masks))
    }

    /// Writes all files and makes them the database.
    fn store(
        self,
        disk: &Disk,
        (geometry, sealing): (&Geometry, Option<SealingId>),
        collected: &Collected,
        mut cell: impl FnMut(u64, &mut Vec<u8>) -> Result<(), DatabaseError>,
        monitor: &mut Monitor<'_>,
    ) -> Result<Built, DatabaseError> {
        let records = collected.keys.as_ref().map_or(collected.values.len(), |keys| keys.len()) as u64;
        let (generation, version) = (self.generation + 1, self.version + 1);
        let (dir, _lock) = self.enter(disk)?;
        let plan = Plan { disk, dir: &dir, geometry, sealing, generation, version, records };
        let stored = plan.write(&mut cell, monitor).and_then(|manifest| {
            manifest.publish(disk, &dir)?;
            self.leave(disk, &dir, generation)
        });
        if let Err(error) = stored {
            self.abandon(&dir);
            return Err(error);
        }
        let value_bytes = match &collected.keys {
            None => collected.values.lengths().sum::<usize>() as u64,
            Some(keys) => keys.values().map(|&value| collected.values.get(value).len() as u64).sum(),
        };
        let (cells_bytes, table_bytes) = (geometry.cells_bytes(), geometry.table_bytes());
        let tables = geometry.tables.clone();
        Ok(Built { tables, records, dropped: collected.dropped, value_bytes, cells_bytes, table_bytes, version })
    }

    /// Creates the directory to write to. A new directory is locked until the build ends, so that other builds can tell
    /// it from a directory that a killed process has left.
    pub(crate) fn enter(&self, disk: &Disk) -> Result<(PathBuf, Option<Lock>), DatabaseError> {
        if self.lock.is_some() {
            return Ok((self.dir.clone(), None));
        }
        let mut number = [0; 8];
        getrandom::fill(&mut number).map_err(|error| DatabaseError::Source(error.to_string().into()))?;
        let name = format!("{}{:016x}", unfinished_prefix(&self.dir), u64::from_le_bytes(number));
        let hidden = self.dir.with_file_name(name);
        disk.create_dir(&hidden)?;
        let lock = Lock::take(&hidden)?;
        Ok((hidden, Some(lock)))
    }

    /// Publishes the files in the directory as the database.
    pub(crate) fn leave(&self, disk: &Disk, written: &Path, generation: u64) -> Result<(), DatabaseError> {
        if self.lock.is_some() {
            return sweep(disk, &self.dir, generation);
        }
        disk.rename(written, &self.dir)?;
        disk.sync_dir(parent(&self.dir))
    }

    /// Removes the files written before an error.
    pub(crate) fn abandon(&self, written: &Path) {
        if self.lock.is_none() {
            _ = fs::remove_dir_all(written);
        }
    }
}

/// Prefix of the names of directories in which new databases for `dir` are built.
fn unfinished_prefix(dir: &Path) -> String {
    format!(".{}.building-", dir.file_name().unwrap_or_default().to_string_lossy())
}

fn parent(dir: &Path) -> &Path {
    dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Removes the directories that killed builds of the database in `dir` have left. Keeps the directories of running
/// builds, which are locked, and empty directories, which may belong to a build that has not locked them yet.
fn remove_unfinished(dir: &Path) -> Result<(), DatabaseError> {
    let (prefix, parent) = (unfinished_prefix(dir), parent(dir));
    let entries = match fs::read_dir(parent) {
        Ok(entries) => entries,
        // Creating a directory there reports the error.
        Err(_) => return Ok(()),
    };
    for entry in entries {
        let entry = entry.map_err(io_error("list", parent))?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(&prefix));
        let ours = number.is_some_and(|number| number.len() == 16 && u64::from_str_radix(number, 16).is_ok());
        if !ours || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let path = entry.path();
        if !fs::read_dir(&path).is_ok_and(|mut files| files.next().is_some()) {
            continue;
        }
        // A build that ends at this moment has renamed or removed it.
        if let Ok(_lock) = Lock::take(&path) {
            _ = fs::remove_dir_all(&path);
        }
    }
    Ok(())
}
