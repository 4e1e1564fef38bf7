//! Where a client keeps its secret keys.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use unspoken_files::user_directory;

/// Directory of the client's secret keys.
#[derive(Clone, clap::Args)]
pub struct StateRoot {
    /// Directory of the secret keys [default: unspoken in $XDG_DATA_HOME, or in ~/.local/share]
    #[arg(long, value_name = "DIR", env = "UNSPOKEN_STATE")]
    state_dir: Option<OsString>,
}

impl StateRoot {
    /// The directory, which may not exist yet.
    ///
    /// # Errors
    /// If none is given and the environment names no place for it: keys must not land wherever the command runs.
    pub fn path(&self) -> anyhow::Result<PathBuf> {
        chosen(self.state_dir.as_deref(), std::env::var_os("XDG_DATA_HOME"), std::env::home_dir())
    }
}

/// The directory that is given, or the usual one.
fn chosen(given: Option<&OsStr>, data: Option<OsString>, home: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    if let Some(given) = given.filter(|given| !given.is_empty()) {
        return Ok(given.into());
    }
    match user_directory(data, home, ".local/share") {
        Some(parent) => Ok(parent.join("unspoken")),
        None => anyhow::bail!(
            "found no directory for the secret keys: XDG_DATA_HOME names no absolute path, and the user has no home \
             directory; name one with --state-dir DIR (or UNSPOKEN_STATE)"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_never_land_where_the_command_runs() {
        let chosen = |given: Option<&str>, data: Option<&str>, home: Option<&str>| {
            chosen(given.map(OsStr::new), data.map(Into::into), home.map(Into::into))
        };
        for (given, data, home, expected) in [
            (Some("keys"), Some("/data"), Some("/home/ann"), "keys"),
            (None, Some("/data"), Some("/home/ann"), "/data/unspoken"),
            (None, None, Some("/home/ann"), "/home/ann/.local/share/unspoken"),
            (Some(""), Some(""), Some("/home/ann"), "/home/ann/.local/share/unspoken"),
            (None, Some("data"), Some("/home/ann"), "/home/ann/.local/share/unspoken"),
        ] {
            assert_eq!(chosen(given, data, home).unwrap(), PathBuf::from(expected));
        }
        for (data, home) in [(None, None), (Some(""), Some("")), (Some("data"), Some("home"))] {
            let error = chosen(None, data, home).unwrap_err().to_string();
            assert!(error.contains("--state-dir"), "{error}");
        }
    }
}
