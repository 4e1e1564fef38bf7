#![doc = include_str!("../README.md")]

mod text;
mod user_directory;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use tempfile::NamedTempFile;
pub use text::{BYTE_ORDER_MARK, TextError, TextLines, decode_text, read_text};
pub use user_directory::user_directory;

/// Permissions of a file that [`replace_file`] writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Readable by its owner only (mode 0600).
    Owner,
    /// As the umask of the process allows (mode 0666 minus the umask).
    Umask,
}

/// Suffix of the names of temporary files.
const TEMPORARY_SUFFIX: &str = ".tmp";

/// Replaces the content of a file, atomically: after a crash it has the old content or the new. A missing file is
/// created; a missing directory is an error. A symbolic link is replaced, not followed.
///
/// When this function returns, content and name are durable.
///
/// # Errors
/// The error of the operating system, with its [`io::ErrorKind`]. The old content stays, unless only the last step
/// failed, the sync of the directory: then the file has the new content, which a power failure may revert.
pub fn replace_file(path: &Path, bytes: &[u8], access: Access) -> io::Result<()> {
    replace_file_with(path, access, |file| file.write_all(bytes))
}

/// Like [`replace_file`], with content that `write` writes, for content that should not be in memory as a whole.
///
/// # Errors
/// As for [`replace_file`], and the errors of `write`; the old content then stays.
pub fn replace_file_with(
    path: &Path,
    access: Access,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut file = create_temporary(path, access)?;
    let mut buffer = BufWriter::new(file.as_file_mut());
    write(&mut buffer)?;
    buffer.flush()?;
    drop(buffer);
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    sync_parent(path)
}

/// Creates a temporary file beside `path`, which is removed when dropped.
fn create_temporary(path: &Path, access: Access) -> io::Result<NamedTempFile> {
    let name = path.file_name().ok_or_else(|| no_file_name(path))?;
    let prefix = temporary_prefix(name);
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix).suffix(TEMPORARY_SUFFIX);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = match access {
            Access::Owner => 0o600,
            Access::Umask => 0o666,
        };
        builder.permissions(fs::Permissions::from_mode(mode));
    }
    #[cfg(not(unix))]
    let _ = access;
    builder.tempfile_in(parent(path))
}

/// Whether a file name names a temporary file of [`replace_file`] for `path`. Temporary files that no process is
/// writing were left by a crash and can be removed.
pub fn is_temporary_of(path: &Path, name: &OsStr) -> bool {
    let Some(target) = path.file_name() else { return false };
    let (name, prefix) = (name.as_encoded_bytes(), temporary_prefix(target));
    name.strip_prefix(prefix.as_encoded_bytes()).is_some_and(|rest| {
        let random = rest.strip_suffix(TEMPORARY_SUFFIX.as_bytes());
        random.is_some_and(|random| !random.is_empty() && random.iter().all(u8::is_ascii_alphanumeric))
    })
}

/// Creates an empty file that only its owner can read, in place of a file or a symbolic link of that name.
///
/// # Errors
/// The error of the operating system.
pub fn create_private_file(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Creates a directory and its parents, and lets only its owner enter it (mode 0700). An existing directory gets this
/// mode, too. The last name of the path must not be a symbolic link.
///
/// # Errors
/// The error of the operating system; [`io::ErrorKind::PermissionDenied`] if the directory does not belong to the user
/// of the process, root included, or if the path ends with a symbolic link.
pub fn create_private_directory(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
        builder.mode(0o700).create(path)?;
        open_own_directory(path)?.set_permissions(fs::Permissions::from_mode(0o700))
    }
    #[cfg(not(unix))]
    builder.create(path)
}

/// Refuses a directory that another user prepared. The directory must belong to the user of the process, root included,
/// and only that user and the user's group may write to it. A symbolic link at the end of the path must belong to that
/// user or to root.
///
/// # Errors
/// The error of the operating system, or [`io::ErrorKind::PermissionDenied`], which says what was found.
pub fn check_own_directory(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        const WRITABLE_BY_ALL: u32 = 0o002;
        let user = rustix::process::geteuid().as_raw();
        let plain: std::path::PathBuf = path.components().collect();
        let link = fs::symlink_metadata(&plain)?;
        if link.is_symlink() && ![user, 0].contains(&link.uid()) {
            return Err(not_own(path, &format!("a symbolic link of user {}, not {user}", link.uid())));
        }
        let directory = fs::metadata(&plain)?;
        if !directory.is_dir() {
            return Err(io::Error::new(io::ErrorKind::NotADirectory, format!("{}: not a directory", path.display())));
        }
        if directory.uid() != user {
            return Err(not_own(path, &format!("a directory of user {}, not {user}", directory.uid())));
        }
        if directory.mode() & WRITABLE_BY_ALL != 0 {
            return Err(not_own(path, "a directory that every user may write to"));
        }
    }
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

/// Opens a file to lock, which is created if missing. A symbolic link in its place is refused, not followed.
///
/// # Errors
/// The error of the operating system.
pub fn open_lock_file(path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    {
        use rustix::fs::{Mode, OFlags};
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => Ok(File::from(file)),
            Err(rustix::io::Errno::LOOP) => {
                let found = format!("{}: found a symbolic link, needed a file; remove it", path.display());
                Err(io::Error::new(io::ErrorKind::PermissionDenied, found))
            }
            Err(error) => Err(error.into()),
        }
    }
    #[cfg(not(unix))]
    OpenOptions::new().create(true).truncate(false).write(true).open(path)
}

#[cfg(unix)]
fn not_own(path: &Path, found: &str) -> io::Error {
    let needed = "a directory of the user as whom this process runs; name another one, or remove it";
    io::Error::new(io::ErrorKind::PermissionDenied, format!("{}: found {found}, needed {needed}", path.display()))
}

/// Opens a directory of the effective user, and follows no symbolic link at the end of the path.
#[cfg(unix)]
fn open_own_directory(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::MetadataExt;

    use rustix::fs::{Mode, OFlags};

    // Without a slash at the end, which would follow a link.
    let plain: std::path::PathBuf = path.components().collect();
    if fs::symlink_metadata(&plain)?.is_symlink() {
        return Err(not_own(path, "a symbolic link"));
    }
    // The flags refuse a link that has taken the directory's place since.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = File::from(rustix::fs::open(&plain, flags, Mode::empty())?);
    let (owner, user) = (directory.metadata()?.uid(), rustix::process::geteuid().as_raw());
    if owner != user {
        return Err(not_own(path, &format!("a directory of user {owner}, not {user}")));
    }
    Ok(directory)
}

/// Makes changes of names in a directory durable: created, renamed and removed files. Does nothing on operating systems
/// that cannot open directories.
///
/// # Errors
/// The error of the operating system.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    File::open(path)?.sync_all()?;
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

/// [`sync_directory`] of the directory that contains a path.
///
/// # Errors
/// The error of the operating system.
pub fn sync_parent(path: &Path) -> io::Result<()> {
    sync_directory(parent(path))
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn temporary_prefix(name: &OsStr) -> OsString {
    let mut prefix = OsString::from(".");
    prefix.push(name);
    prefix.push(".");
    prefix
}

fn no_file_name(path: &Path) -> io::Error {
    let message = format!("replace {}: the path ends with no file name; give one", path.display());
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_temporary_file_is_recognised() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("manifest.json");
        for access in [Access::Owner, Access::Umask] {
            let temporary = create_temporary(&path, access).unwrap();
            let name = temporary.path().file_name().unwrap();
            assert!(is_temporary_of(&path, name), "{name:?}");
            assert_eq!(temporary.path().parent(), path.parent());
        }
    }
}
