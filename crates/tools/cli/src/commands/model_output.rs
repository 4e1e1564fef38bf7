//! Where training writes a model.

use std::path::{Path, PathBuf};

use anyhow::Context;

/// Where a command writes what it trained.
#[derive(clap::Args)]
pub struct ModelOutput {
    /// Where to write the result: a directory, or a file for a head. It must not exist, or be an empty directory
    #[arg(long)]
    out: PathBuf,
    /// Replace what is at --out
    #[arg(long)]
    replace: bool,
}

impl ModelOutput {
    /// The path, after checking that nothing there is overwritten unless that was asked for. Call it before the work.
    pub fn checked(&self) -> anyhow::Result<&Path> {
        let path = self.out.as_path();
        let taken = match path.read_dir() {
            Ok(mut entries) => entries.next().is_some(),
            Err(_) => path.try_exists().with_context(|| format!("--out: cannot look for {}", path.display()))?,
        };
        anyhow::ensure!(
            self.replace || !taken,
            "--out: {} exists; name another place, or replace what is there with --replace",
            path.display()
        );
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_exists_is_replaced_only_on_request() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        let output = |path: &Path, replace| ModelOutput { out: path.to_owned(), replace };
        assert!(output(folder.path(), false).checked().is_ok(), "an empty directory");
        assert!(output(&file, false).checked().is_ok());
        std::fs::write(&file, "taken").unwrap();
        for path in [folder.path(), &file] {
            let error = output(path, false).checked().unwrap_err().to_string();
            assert!(error.contains("exists; name another place") && error.contains("--replace"), "{error}");
            assert_eq!(output(path, true).checked().unwrap(), path);
        }
    }
}
