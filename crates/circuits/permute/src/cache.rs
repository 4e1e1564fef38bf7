//! Plans kept in files, because their search takes seconds.
//!
//! There is one file for each task, at most 256. The name is a hash of everything that the choice depends on, the
//! version of the search and the prices included. A file is not trusted: its plan is run in the clear and priced again,
//! which takes about 10 milliseconds. A plan that does not do the permutation within the limits is searched again and
//! replaced.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use unspoken_files::{Access, create_private_directory, is_temporary_of, replace_file};

use crate::plan::PermutationPlan;
use crate::plan_file::{PlanKey, decode, encode};

/// Suffix of the names of files, after the key.
const SUFFIX: &str = ".plan";

/// Maximum number of bytes of a file. Larger plans are not kept.
const MAX_FILE_BYTES: u64 = 1 << 24;

/// A directory with the plans of earlier searches, one file each. It has at most [`PlanCache::MAX_FILES`] files: the
/// oldest are removed. Only its owner can enter it.
///
/// Files are not trusted. One that is damaged, too large or made for something else is as none, and is replaced. A file
/// that cannot be written is not an error: the plan is searched again next time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanCache {
    directory: PathBuf,
}

impl PlanCache {
    /// Maximum number of files.
    pub const MAX_FILES: usize = 256;

    /// The cache in a directory, which is created when the first plan is kept.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        PlanCache { directory: directory.into() }
    }

    /// Its directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The plan with this key for vectors of `length`, if there is one. It may be of another permutation.
    pub(crate) fn find(&self, key: &PlanKey, length: usize) -> Option<PermutationPlan> {
        let bytes = read(&self.path(key)).ok().flatten()?;
        decode(key, length, &bytes).ok()
    }

    /// Keeps a plan, if it can.
    pub(crate) fn keep(&self, key: &PlanKey, plan: &PermutationPlan) {
        let bytes = encode(key, plan);
        if bytes.len() as u64 <= MAX_FILE_BYTES {
            // A plan that is not kept is searched again.
            let _ = self.write(key, &bytes);
        }
    }

    fn write(&self, key: &PlanKey, bytes: &[u8]) -> io::Result<()> {
        create_private_directory(&self.directory)?;
        let path = self.path(key);
        self.make_room(&path)?;
        replace_file(&path, bytes, Access::Owner)
    }

    /// Removes the oldest files until there is room for one at `path`.
    fn make_room(&self, path: &Path) -> io::Result<()> {
        let mut files: Vec<(SystemTime, PathBuf)> = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let found = entry.path();
            if is_own(&found) && found != path {
                // Another process may have removed it.
                files.extend(entry.metadata().and_then(|data| data.modified()).map(|modified| (modified, found)));
            }
        }
        files.sort();
        let surplus = (files.len() + 1).saturating_sub(Self::MAX_FILES);
        // Where this fails, a later one tries again.
        files.iter().take(surplus).for_each(|(_, file)| drop(fs::remove_file(file)));
        Ok(())
    }

    fn path(&self, key: &PlanKey) -> PathBuf {
        let name: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        self.directory.join(name + SUFFIX)
    }
}

/// Whether a path has the name of a file of a cache, or of a temporary file of one, which only a crash leaves.
fn is_own(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let key: String = name.trim_start_matches('.').chars().take(2 * size_of::<PlanKey>()).collect();
    let target = PathBuf::from(key.clone() + SUFFIX);
    let plain = target.as_os_str() == name || is_temporary_of(&target, name.as_ref());
    plain && key.len() == 2 * size_of::<PlanKey>() && key.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The bytes of a file, if they are not too many. Pipes and devices, which may have no end, are not read.
fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    if !fs::metadata(path)?.is_file() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(Some(bytes).filter(|bytes| bytes.len() as u64 <= MAX_FILE_BYTES))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::diagonals::Packing;
    use crate::plan::Strategy;

    fn plan() -> PermutationPlan {
        PermutationPlan::stages(Strategy::Identity, Packing::Blocks, 4, vec![]).unwrap()
    }

    #[test]
    fn the_oldest_files_make_room_and_others_stay() {
        let directory = tempfile::tempdir().unwrap();
        let cache = PlanCache::new(directory.path());
        let start = SystemTime::now() - Duration::from_secs(1 << 20);
        let place = |path: &Path, age: u64| {
            fs::write(path, b"old").unwrap();
            File::options().write(true).open(path).unwrap().set_modified(start + Duration::from_secs(age)).unwrap();
        };
        let key = |number: usize| -> PlanKey { std::array::from_fn(|i| (number >> (8 * i.min(4))) as u8) };
        let count = PlanCache::MAX_FILES + 20;
        (0..count).for_each(|number| place(&cache.path(&key(number)), number as u64));
        let name = cache.path(&key(0)).file_name().unwrap().to_str().unwrap().to_owned();
        let temporary = directory.path().join(format!(".{name}.aBc123.tmp"));
        place(&temporary, 0);
        let others = ["note.plan", "note", &name.replace(SUFFIX, ".txt"), &format!("x{name}")];
        others.iter().for_each(|other| place(&directory.path().join(other), 0));

        cache.keep(&key(count), &plan());
        let left = |number: usize| cache.path(&key(number)).exists();
        assert_eq!((0..=count).filter(|&number| left(number)).count(), PlanCache::MAX_FILES);
        assert!((0..=20).all(|number| !left(number)) && left(count));
        assert!(!temporary.exists());
        assert!(others.iter().all(|other| directory.path().join(other).exists()));

        // To replace a file, no other one is removed.
        cache.keep(&key(count), &plan());
        assert_eq!((0..=count).filter(|&number| left(number)).count(), PlanCache::MAX_FILES);
        assert_eq!(cache.find(&key(count), 4), Some(plan()));
        assert_eq!(cache.find(&key(count - 1), 4), None);
    }

    #[test]
    fn what_is_no_file_is_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let cache = PlanCache::new(directory.path());
        fs::create_dir(cache.path(&[1; 32])).unwrap();
        assert_eq!(cache.find(&[1; 32], 4), None);
        cache.keep(&[1; 32], &plan());
        assert_eq!(cache.find(&[1; 32], 4), None);
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_can_read_plans() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let cache = PlanCache::new(directory.path().join("plans"));
        cache.keep(&[1; 32], &plan());
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(cache.directory()), mode(&cache.path(&[1; 32]))), (0o700, 0o600));
    }
}
