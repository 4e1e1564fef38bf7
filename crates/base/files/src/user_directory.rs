//! Where the files of a user are.

use std::ffi::OsString;
use std::path::PathBuf;

/// The directory that a variable of the XDG Base Directory Specification names, or the usual one below the user's home
/// directory. As the specification says, an empty variable is as one that is not set, and a relative path is ignored:
/// files must not land wherever a program runs. `None` if there is no absolute path.
pub fn user_directory(variable: Option<OsString>, home: Option<PathBuf>, usual: &str) -> Option<PathBuf> {
    let named = variable.map(PathBuf::from).filter(|named| named.is_absolute());
    named.or_else(|| home.filter(|home| home.is_absolute()).map(|home| home.join(usual)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_absolute_paths_count() {
        let found = |variable: Option<&str>, home: Option<&str>| {
            user_directory(variable.map(Into::into), home.map(Into::into), ".cache")
        };
        for (variable, home, expected) in [
            (Some("/cache"), Some("/home/ann"), Some("/cache")),
            (None, Some("/home/ann"), Some("/home/ann/.cache")),
            (Some(""), Some("/home/ann"), Some("/home/ann/.cache")),
            (Some("cache"), Some("/home/ann"), Some("/home/ann/.cache")),
            (Some("/cache"), None, Some("/cache")),
            (None, None, None),
            (Some(""), Some(""), None),
            (Some("cache"), Some("home"), None),
        ] {
            assert_eq!(found(variable, home), expected.map(PathBuf::from), "{variable:?} {home:?}");
        }
    }
}
