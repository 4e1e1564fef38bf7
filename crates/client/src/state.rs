//! What a client keeps on disk between runs: its secret key, and which bundle the service has.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

/// A private directory for one client of one application of one service.
///
/// `secret.key` holds the secret key: whoever reads it reads every query. The directory is readable by its owner alone.
#[derive(Clone, Debug)]
pub struct StateDir {
    path: PathBuf,
}

impl StateDir {
    /// Opens or makes the directory for an application of a service below `root`.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn open(root: &Path, url: &str, application: &str) -> io::Result<Self> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(url.trim_end_matches('/').as_bytes());
        hasher.update(&[0]);
        hasher.update(application.as_bytes());
        let name = hasher.finalize().to_hex();
        let path = root.join(&name.as_str()[..32]);
        private_dir(&path)?;
        Ok(Self { path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn secret(&self) -> io::Result<Option<Vec<u8>>> {
        read_if_there(&self.path.join("secret.key"))
    }

    /// The description the keys were made for, and the id of the bundle at the service.
    pub(crate) fn uploaded(&self) -> io::Result<Option<(Vec<u8>, String)>> {
        let description = read_if_there(&self.path.join("description"))?;
        let id = read_if_there(&self.path.join("key.id"))?;
        Ok(description.zip(id.map(|id| String::from_utf8_lossy(&id).into_owned())))
    }

    pub(crate) fn store_secret(&self, secret: &[u8]) -> io::Result<()> {
        // Bundles of an earlier secret are of no use to this one.
        for name in ["key.id", "description", "upload.keys"] {
            match fs::remove_file(self.path.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        write_private(&self.path.join("secret.key"), secret)
    }

    pub(crate) fn store_upload(&self, description: &[u8], id: &str) -> io::Result<()> {
        write_private(&self.path.join("description"), description)?;
        write_private(&self.path.join("key.id"), id.as_bytes())
    }

    /// A new private file for the bundle while it is made and sent.
    pub(crate) fn bundle_path(&self) -> PathBuf {
        self.path.join("upload.keys")
    }
}

/// Makes a directory only its owner can enter.
pub(crate) fn private_dir(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Makes (or empties) a file only its owner can read.
pub(crate) fn private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Writes all or nothing: a temporary file, then a rename.
fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let mut file = private_file(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(temporary, path)
}

fn read_if_there(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
