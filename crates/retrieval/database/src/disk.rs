//! All changes to files go through here, so that tests can stop them at any step.

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

/// A file that is written.
#[derive(Debug)]
pub(crate) struct DiskFile {
    file: File,
    path: PathBuf,
    #[cfg(test)]
    disk: Disk,
}

impl Disk {
    /// A new file, readable and writable.
    pub fn create(&self, path: &Path) -> Result<DiskFile, DatabaseError> {
        #[cfg(test)]
        self.log(|| Step::Create(path.into()));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path);
        Ok(self.wrap(file.map_err(io_error("create", path))?, path))
    }

    /// A file that is there.
    pub fn open(&self, path: &Path) -> Result<DiskFile, DatabaseError> {
        let file = OpenOptions::new().read(true).write(true).open(path);
        Ok(self.wrap(file.map_err(io_error("open for writing", path))?, path))
    }

    /// Replaces one file or directory by another.
    pub fn rename(&self, from: &Path, to: &Path) -> Result<(), DatabaseError> {
        #[cfg(test)]
        self.log(|| Step::Rename(from.into(), to.into()));
        fs::rename(from, to).map_err(io_error("rename to", to))
    }

    /// Replaces the content of a file, all or nothing, durably.
    pub fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), DatabaseError> {
        #[cfg(test)]
        self.log_replacement(path, bytes);
        unspoken_files::replace_file(path, bytes, Access::Umask).map_err(io_error("replace", path))
    }

    /// Removes a file, if it is there.
    pub fn remove(&self, path: &Path) -> Result<(), DatabaseError> {
        #[cfg(test)]
        self.log(|| Step::Remove(path.into()));
        match fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io_error("remove", path)(error)),
            _ => Ok(()),
        }
    }

    /// A new directory.
    pub fn create_dir(&self, path: &Path) -> Result<(), DatabaseError> {
        #[cfg(test)]
        self.log(|| Step::CreateDir(path.into()));
        fs::create_dir(path).map_err(io_error("create the directory", path))
    }

    /// Makes what was created, renamed and removed in a directory durable.
    pub fn sync_dir(&self, path: &Path) -> Result<(), DatabaseError> {
        #[cfg(test)]
        self.log(|| Step::SyncDir(path.into()));
        unspoken_files::sync_directory(path).map_err(io_error("sync the directory", path))
    }

    /// The steps of [`unspoken_files::replace_file`], as its README lists them.
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

    /// Cuts it off, or lengthens it by zeros.
    pub fn set_len(&self, bytes: u64) -> Result<(), DatabaseError> {
        #[cfg(test)]
        self.disk.log(|| Step::SetLen(self.path.clone(), bytes));
        self.file.set_len(bytes).map_err(io_error("set the length of", &self.path))
    }

    /// Makes its content durable.
    pub fn sync(&self) -> Result<(), DatabaseError> {
        #[cfg(test)]
        self.disk.log(|| Step::Sync(self.path.clone()));
        self.file.sync_data().map_err(io_error("sync", &self.path))
    }

    /// For reading.
    pub fn file(&self) -> &File {
        &self.file
    }
}
