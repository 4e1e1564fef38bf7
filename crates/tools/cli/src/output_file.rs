//! Files that commands write at their end and check at their start.

use std::fs::{File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use tempfile::NamedTempFile;

/// A file to write. Nothing is at its path before [`OutputFile::write`], and it is then written whole or not at all.
pub struct OutputFile {
    path: PathBuf,
    target: Target,
}

enum Target {
    /// A temporary file beside the path, which is removed unless it is written.
    New(NamedTempFile),
    /// The same, for a path with a file that is to be overwritten.
    Overwrite(NamedTempFile),
    /// Not a regular file: a pipe or a device.
    Special(File),
}

impl OutputFile {
    /// Checks that the file can be written: its directory exists and is writable, and no file is overwritten unless
    /// `overwrite`. Pipes and devices may exist. `flag` is the command's flag that names the path.
    pub fn open(flag: &str, path: &Path, overwrite: bool) -> anyhow::Result<Self> {
        // A link is followed, so that it stays one.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let failed = || format!("{flag}: cannot write {}", path.display());
        let target = match path.metadata() {
            Ok(metadata) if metadata.is_dir() => {
                anyhow::bail!("{flag}: {} is a directory; name a file in it", path.display())
            }
            Ok(metadata) if !metadata.is_file() => {
                Target::Special(File::options().write(true).open(&path).with_context(failed)?)
            }
            Ok(_) if !overwrite => {
                anyhow::bail!("{flag}: {} exists; name another file, or overwrite it with --force", path.display())
            }
            Ok(_) => Target::Overwrite(beside(&path).with_context(failed)?),
            Err(_) => Target::New(beside(&path).with_context(failed)?),
        };
        Ok(Self { path, target })
    }

    /// Writes the file.
    pub fn write(self, bytes: &[u8]) -> anyhow::Result<()> {
        let failed = || format!("cannot write {}", self.path.display());
        let written = match self.target {
            Target::Special(mut file) => file.write_all(bytes),
            Target::New(mut file) => {
                file.write_all(bytes).and_then(|()| Ok(file.persist_noclobber(&self.path).map(drop)?))
            }
            Target::Overwrite(mut file) => {
                file.write_all(bytes).and_then(|()| Ok(file.persist(&self.path).map(drop)?))
            }
        };
        written.with_context(failed)
    }
}

/// A temporary file in the directory of a path, with the permissions that the umask allows.
fn beside(path: &Path) -> std::io::Result<NamedTempFile> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    tempfile::Builder::new().prefix(".unspoken-").permissions(Permissions::from_mode(0o666)).tempfile_in(parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_checked_at_the_start_and_written_whole() {
        let directory = tempfile::tempdir().unwrap();
        let (path, link) = (directory.path().join("record"), directory.path().join("link"));
        let open = |path: &Path, overwrite| OutputFile::open("--out", path, overwrite);
        let names = || std::fs::read_dir(directory.path()).unwrap().count();
        // Dropped without being written: nothing is left.
        drop(open(&path, false).unwrap());
        assert_eq!(names(), 0);
        open(&path, false).unwrap().write(b"first").unwrap();
        assert_eq!((std::fs::read(&path).unwrap(), names()), (b"first".to_vec(), 1));
        let refused = open(&path, false).err().unwrap().to_string();
        assert!(refused.contains("--out") && refused.contains("exists") && refused.contains("--force"), "{refused}");
        std::os::unix::fs::symlink("record", &link).unwrap();
        open(&link, true).unwrap().write(b"second").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"second");
        assert!(link.symlink_metadata().unwrap().is_symlink());
        // Created by someone else meanwhile.
        let other = directory.path().join("other");
        let out = open(&other, false).unwrap();
        std::fs::write(&other, "theirs").unwrap();
        assert!(out.write(b"mine").is_err());
        assert_eq!((std::fs::read(&other).unwrap(), names()), (b"theirs".to_vec(), 3));
        for (path, part) in [(directory.path().to_owned(), "is a directory"), ("/nowhere/a".into(), "cannot write")] {
            let refused = format!("{:#}", open(&path, true).err().unwrap());
            assert!(refused.contains(part), "{refused}");
        }
        open(Path::new("/dev/null"), false).unwrap().write(b"x").unwrap();
    }
}
