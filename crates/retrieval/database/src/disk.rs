//! Wrapper of the file system. All changes to files go through it, so that tests can stop them at any step.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use unspoken_files::Access;

#[cfg(test)]
use crate::crash::{Log, Step};
use crate::error::{DatabaseError, io_error};

/// The file system.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    #[cfg(test)]
    pub(crate) log: Option<std::sync::Arc<Log>>,
}

/// A file that is open for writing.
#[derive(Debug)]
pub(crate) struct DiskFile {
    file: File,
    path: PathBuf,
    #[cfg(test)]
    disk: Disk,
}

impl Disk {
    /// Creates a file, readable and writable.
    pub fn create(&self, path: &Path) -> Result<DiskFile, DatabaseError> {
        #[cfg(test)]
        self.log(|| Step::Create(path.into()));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path);
        Ok(self.wrap(file.map_err(io_error("create", path))?, path))
    }

    /// Opens an existing file, readable and writable.
    pub fn open(&self, path: &Path) -> Result<DiskFile, DatabaseError> {
        let file = OpenOptions::new().read(true).write(true).open(path);
        Ok(self.wrap(file.map_err(io_error("open for writing", path))?, path))
    }

    /// Renames a file or directory, replacing the target.
    pub fn rename(&self, from: &Path, to: &Path) -> Result<(), DatabaseError> {
        #[cfg(test)]
        self.log(|| Step::Rename(from.into(), to.into()));
        fs::rename(from, to).map_err(io_error("rename to", to))
    }

    /// Replaces the content of a file, atomically and durably.
    pub fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), DatabaseError> {
        #[cfg(test)]
        self.log_replacement(path, bytes);
        unspoken_files::replace_file(path, bytes, Access::Umask).map_err(io_error("replace", path))
    }

    /// Removes a file, if it exists.
    pub fn remove(&self, path: &Path) -> Result<(), DatabaseError> {
        #[cfg(test)]
        self.log(|| Step::Remove(path.into()));
        match fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io_error("remove", path)(error)),
            _ => Ok(()),
        }
    }

    /// Creates a directory.
    pub fn create_dir(&self, path: &Path) -> Result<(), DatabaseError> {
        #[cfg(test)]
        self.log(|| Step::CreateDir(path.into()));
        fs::create_dir(path).map_err(io_error("create the directory", path))
    }

    /// Makes changes of names in a directory durable.
    pub fn sync_dir(&self, path: &Path) -> Result<(), DatabaseError> {
        #[cfg(test)]
        self.log(|| Step::SyncDir(path.into()));
        unspoken_files::sync_directory(path).map_err(io_error("sync the directory", path))
    }

    /// Logs the steps of [`unspoken_files::replace_file`], as its README lists them.
    #[cfg(test)]
    fn log_replacement(&self, path: &Path, bytes: &[u8]) {
        let (name, directory) = (path.file_name().unwrap(), path.parent().unwrap());
        let temporary = directory.join(format!(".{}.crash0.tmp", name.to_str().unwrap()));
        assert!(unspoken_files::is_temporary_of(path, temporary.file_name().unwrap()));
        self.log(|| Step::Create(temporary.clone()));
        self.log(|| Step::Write(temporary.clone(), 0, bytes.to_vec()));
        self.log(|| Step::Sync(temporary.clone()));
        self.log(|| Step::Rename(temporary.clone(), path.into()));
        self.log(|| Step::SyncDir(directory.into()));
    }

    fn wrap(&self, file: File, path: &Path) -> DiskFile {
        DiskFile {
            file,
            path: path.into(),
            #[cfg(test)]
            disk: self.clone(),
        }
    }

    #[cfg(test)]
    fn log(&self, step: impl FnOnce() -> Step) {
        if let Some(log) = &self.log {
            log.push(step());
        }
    }
}

impl DiskFile {
    /// Writes at an offset. May be called from several threads.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), DatabaseError> {
        #[cfg(test)]
        self.disk.log(|| Step::Write(self.path.clone(), offset, bytes.to_vec()));
        self.file.write_all_at(bytes, offset).map_err(io_error("write", &self.path))
    }

    /// Truncates the file, or extends it by zeros.
    pub fn set_len(&self, bytes: u64) -> Result<(), DatabaseError> {
        #[cfg(test)]
        self.disk.log(|| Step::SetLen(self.path.clone(), bytes));
        self.file.set_len(bytes).map_err(io_error("set the length of", &self.path))
    }

    /// Makes the content of the file durable.
    pub fn sync(&self) -> Result<(), DatabaseError> {
        #[cfg(test)]
        self.disk.log(|| Step::Sync(self.path.clone()));
        self.file.sync_data().map_err(io_error("sync", &self.path))
    }

    /// The open file, for reading.
    pub fn file(&self) -> &File {
        &self.file
    }
}
