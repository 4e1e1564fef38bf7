//! Tests of replacing files and of their permissions.

use std::ffi::OsStr;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::{fs, io};

use unspoken_files::{
    Access, create_private_directory, create_private_file, is_temporary_of, replace_file, sync_parent,
};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_file_is_created_then_replaced_and_nothing_else_is_left() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state");
    for bytes in [b"first".as_slice(), b"", b"the third one"] {
        replace_file(&path, bytes, Access::Owner).unwrap();
        assert_eq!(fs::read(&path).unwrap(), bytes);
        assert_eq!(names(directory.path()), ["state"]);
    }
}

#[test]
fn the_new_file_has_the_permissions_asked_for_whatever_the_old_one_had() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state");
    replace_file(&path, b"public", Access::Umask).unwrap();
    // The umask of the process determines the mode; compare with a file created normally.
    fs::write(directory.path().join("ordinary"), b"").unwrap();
    assert_eq!(mode(&path), mode(&directory.path().join("ordinary")));
    replace_file(&path, b"secret", Access::Owner).unwrap();
    assert_eq!(mode(&path), 0o600);
}

#[test]
fn links_are_replaced_and_not_followed() {
    let directory = tempfile::tempdir().unwrap();
    let (victim, path) = (directory.path().join("victim"), directory.path().join("state"));
    fs::write(&victim, b"untouched").unwrap();
    symlink(&victim, &path).unwrap();
    replace_file(&path, b"mine", Access::Owner).unwrap();
    assert!(!fs::symlink_metadata(&path).unwrap().is_symlink());
    assert_eq!(fs::read(&path).unwrap(), b"mine");

    let private = directory.path().join("private");
    symlink(&victim, &private).unwrap();
    drop(create_private_file(&private).unwrap());
    assert!(!fs::symlink_metadata(&private).unwrap().is_symlink());
    assert_eq!((mode(&private), fs::read(&victim).unwrap()), (0o600, b"untouched".to_vec()));
}

#[test]
fn a_replacement_that_fails_leaves_the_old_file_and_no_temporary() {
    let directory = tempfile::tempdir().unwrap();
    // A directory cannot be replaced by a file.
    let path = directory.path().join("occupied");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("inside"), b"kept").unwrap();
    assert!(replace_file(&path, b"new", Access::Owner).is_err());
    assert_eq!(names(directory.path()), ["occupied"]);
    assert_eq!(fs::read(path.join("inside")).unwrap(), b"kept");

    let missing = replace_file(&directory.path().join("no/such/file"), b"x", Access::Owner).unwrap_err();
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    let nameless = replace_file(Path::new("/"), b"x", Access::Owner).unwrap_err();
    assert_eq!(nameless.kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn temporaries_are_recognised_and_other_files_are_not() {
    let path = Path::new("somewhere/manifest.json");
    for temporary in [".manifest.json.a8Zq01.tmp", ".manifest.json.x.tmp"] {
        assert!(is_temporary_of(path, OsStr::new(temporary)), "{temporary}");
    }
    for other in [
        "manifest.json",
        ".manifest.json.tmp",
        ".manifest.json..tmp",
        ".other.json.a8Zq01.tmp",
        ".manifest.json.a.b.tmp",
    ] {
        assert!(!is_temporary_of(path, OsStr::new(other)), "{other}");
    }
}

#[test]
fn a_private_directory_is_made_private_if_it_was_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a/b");
    create_private_directory(&path).unwrap();
    assert_eq!(mode(&path), 0o700);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    create_private_directory(&path).unwrap();
    assert_eq!(mode(&path), 0o700);
    sync_parent(&path).unwrap();
    sync_parent(Path::new("a-file-in-the-current-directory")).unwrap();
}

#[test]
fn a_private_directory_is_no_link_and_of_this_user() {
    let directory = tempfile::tempdir().unwrap();
    let (target, link) = (directory.path().join("target"), directory.path().join("link"));
    fs::create_dir(&target).unwrap();
    fs::set_permissions(&target, fs::Permissions::from_mode(0o755)).unwrap();
    symlink(&target, &link).unwrap();
    for path in [link.clone(), link.join("")] {
        let error = create_private_directory(&path).unwrap_err();
        assert!(error.to_string().contains("a symbolic link"), "{error}");
    }
    assert_eq!(mode(&target), 0o755);
    // Root can give a directory away and could still change its mode; others meet one of root.
    let theirs = if std::os::unix::fs::chown(&target, Some(12_345), None).is_ok() { &target } else { Path::new("/") };
    let before = mode(theirs);
    let error = create_private_directory(theirs).unwrap_err();
    assert!(error.to_string().contains("a directory of user"), "{error}");
    assert_eq!(mode(theirs), before);
}
