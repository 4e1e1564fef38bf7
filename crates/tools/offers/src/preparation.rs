//! The directory of a preparation.

use std::path::{Path, PathBuf};

use anyhow::Context;
use unspoken_llama::Preparation;

/// Largest sizes of the files: the ranges of the largest published models take some hundred megabytes.
const MAX_RECORD_BYTES: u64 = 1 << 20;
const MAX_RANGES_BYTES: u64 = 1 << 30;

/// The directory with the client's half, within the directory of a preparation.
pub fn client_directory(directory: &Path) -> PathBuf {
    directory.join("client")
}

/// Makes the directory of a preparation, before the long work.
pub fn make(directory: &Path) -> anyhow::Result<()> {
    std::fs::create_dir(directory).with_context(|| format!("--out: cannot make {}", directory.display()))
}

/// Writes a preparation into its directory.
pub fn save(preparation: &Preparation, directory: &Path) -> anyhow::Result<()> {
    let contents = [preparation.record_bytes()?, preparation.ranges_bytes()?];
    for (name, bytes) in Preparation::FILES.into_iter().zip(contents) {
        let path = directory.join(name);
        std::fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Reads a preparation.
pub fn load(directory: &Path) -> anyhow::Result<Preparation> {
    let [record, ranges] = Preparation::FILES.map(|name| directory.join(name));
    let (record, ranges) = (read(&record, MAX_RECORD_BYTES)?, read(&ranges, MAX_RANGES_BYTES)?);
    Preparation::from_bytes(&record, &ranges).with_context(|| format!("--preparation: {}", directory.display()))
}

fn read(path: &Path, most: u64) -> anyhow::Result<Vec<u8>> {
    let what = || {
        format!(
            "cannot read {}; needed the directory of `unspoken llama prepare --out`, not the client's",
            path.display()
        )
    };
    let size = std::fs::metadata(path).with_context(what)?.len();
    anyhow::ensure!(size <= most, "{}: found {size} bytes, needed at most {most}", what());
    std::fs::read(path).with_context(what)
}
