//! Directories and files, and who may read and write them.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::Access;
use unspoken_files::check_own_directory;

use super::finding::Finding;
use crate::commands::state_root::StateRoot;

/// Permissions of others than owner and group.
const OTHERS: u32 = 0o007;
const OTHERS_WRITE: u32 = 0o002;
const GROUP: u32 = 0o070;
const GROUP_READ: u32 = 0o040;

/// A file that is secret: nobody but its owner may read it; or it belongs to root, and the group of the service may.
pub fn secret(check: &'static str, path: &Path) -> Option<Finding> {
    let metadata = path.metadata().ok()?;
    let mode = mode(&metadata);
    let is_lent = metadata.uid() == 0 && !rustix::process::geteuid().is_root();
    if is_lent && mode & (GROUP | OTHERS) == GROUP_READ {
        return None;
    }
    let found = format!("{} has the mode {mode:04o}", path.display());
    if mode & OTHERS != 0 {
        let remedy = format!("every user of the machine may read or change it: chmod 600 {}", path.display());
        return Some(Finding::problem(check, found, remedy));
    }
    (mode & GROUP != 0).then(|| {
        let remedy = format!("its group may read or change it; unless that is meant: chmod 600 {}", path.display());
        Finding::warning(check, found, remedy)
    })
}

/// A file that everybody may read and only few may change.
pub fn unchangeable(check: &'static str, path: &Path) -> Option<Finding> {
    let mode = mode(&path.metadata().ok()?);
    (mode & OTHERS_WRITE != 0).then(|| {
        let found = format!("{} has the mode {mode:04o}", path.display());
        Finding::problem(check, found, format!("every user may change it: chmod o-w {}", path.display()))
    })
}

/// The directory of a service's state: that it belongs to this user, who may write to it; or can be made.
pub fn state_directory(path: &Path) -> Finding {
    const CHECK: &str = "state";
    let named = path.display();
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return to_be_made(path),
        Err(error) => {
            let remedy = "run doctor as the user of the service, or name another --data-dir";
            return Finding::problem(CHECK, format!("cannot look at {named}: {error}"), remedy);
        }
    };
    if !metadata.is_dir() {
        return Finding::problem(
            CHECK,
            format!("{named} is no directory"),
            "name a directory with --data-dir (data_dir)",
        );
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        let remedy = format!("run doctor as the user of the service; if this is that user: chown USER {named}");
        return Finding::problem(CHECK, format!("{named} belongs to user {}", metadata.uid()), remedy);
    }
    if mode(&metadata) & OTHERS_WRITE != 0 {
        return Finding::problem(CHECK, format!("every user may write to {named}"), format!("chmod 700 {named}"));
    }
    if let Err(error) = check_own_directory(path) {
        return Finding::problem(CHECK, error.to_string(), "name the directory itself with --data-dir (data_dir)");
    }
    if rustix::fs::access(path, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK).is_err() {
        let remedy = "give its owner all permissions (chmod 700), or mount its file system for writing";
        return Finding::problem(CHECK, format!("this user may not write to {named}"), remedy);
    }
    let mode = mode(&metadata);
    if mode & (GROUP | OTHERS) != 0 {
        let remedy = format!("other users may see names and sizes of keys: chmod 700 {named}");
        return Finding::warning(CHECK, format!("{named} has the mode {mode:04o}"), remedy);
    }
    Finding::ok(CHECK, format!("{named} belongs to this user and has the mode {mode:04o}"))
}

/// A directory that the service will make.
fn to_be_made(path: &Path) -> Finding {
    let named = path.display();
    let parent = existing(path);
    match rustix::fs::access(&parent, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Finding::ok("state", format!("{named} will be made in {}", parent.display())),
        Err(error) => Finding::problem(
            "state",
            format!("{named} does not exist, and this user cannot make it in {}: {error}", parent.display()),
            "make it for the user of the service, with the mode 0700",
        ),
    }
}

/// The path, or the nearest directory above it that exists.
pub fn existing(path: &Path) -> PathBuf {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    whole.ancestors().find(|path| path.exists()).map_or_else(|| PathBuf::from("/"), Path::to_path_buf)
}

/// Secret keys of the user of this process, if it has some.
pub fn client_keys(root: &StateRoot) -> Vec<Finding> {
    const CHECK: &str = "own keys";
    let Ok(root) = root.path() else { return Vec::new() };
    if !root.exists() {
        return Vec::new();
    }
    if let Err(error) = check_own_directory(&root) {
        return vec![Finding::problem(CHECK, error.to_string(), "keys in it are not safe: choose another --state-dir")];
    }
    let (mut files, mut bad) = (0, Vec::new());
    let directories = fs::read_dir(&root).into_iter().flatten().flatten().map(|entry| entry.path());
    for directory in directories.filter(|path| path.is_dir()) {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with("secret-") {
                files += 1;
                bad.extend(secret(CHECK, &entry.path()));
            }
        }
    }
    if bad.is_empty() && files > 0 {
        bad.push(Finding::ok(CHECK, format!("{files} secret keys in {} are for this user alone", root.display())));
    }
    bad
}

/// Bytes of a file, or of all files below a directory; links are not followed.
pub fn bytes(path: &Path) -> u64 {
    let Ok(metadata) = fs::symlink_metadata(path) else { return 0 };
    if !metadata.is_dir() {
        return metadata.len();
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| bytes(&entry.path())).fold(0, u64::saturating_add)
}

/// Bytes that this process may still write to the file system of a path.
pub fn free_bytes(path: &Path) -> Option<u64> {
    let system = rustix::fs::statvfs(existing(path)).ok()?;
    Some(system.f_bavail.saturating_mul(system.f_frsize))
}

fn mode(metadata: &Metadata) -> u32 {
    metadata.mode() & 0o777
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::super::finding::State;
    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_secret_file_is_for_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key.pem");
        fs::write(&path, "key").unwrap();
        for (mode, expected) in [(0o600, None), (0o640, Some(State::Warning)), (0o644, Some(State::Problem))] {
            set_mode(&path, mode);
            assert_eq!(secret("key", &path).map(|finding| finding.state), expected, "{mode:o}");
        }
        set_mode(&path, 0o666);
        assert_eq!(unchangeable("key", &path).unwrap().state, State::Problem);
        assert_eq!(secret("key", &dir.path().join("absent")), None);
    }

    #[test]
    fn the_state_directory_is_for_its_owner_and_may_be_absent() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/data");
        let said = state_directory(&path);
        assert!(said.state == State::Ok && !path.exists(), "{said}");
        assert_eq!(existing(&path), dir.path());
        fs::create_dir_all(&path).unwrap();
        for (mode, expected) in [(0o700, State::Ok), (0o755, State::Warning), (0o777, State::Problem)] {
            set_mode(&path, mode);
            let said = state_directory(&path);
            assert_eq!(said.state, expected, "{said}");
        }
        fs::write(path.join("one"), [0u8; 100]).unwrap();
        assert_eq!(bytes(dir.path()), 100);
        assert!(free_bytes(&path.join("more")).is_some());
    }
}
