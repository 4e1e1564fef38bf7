//! The directory of a preparation.

use std::path::Path;

use anyhow::Context;
use unspoken_llama::Preparation;

const RECORD: &str = "preparation.json";
const RANGES: &str = "ranges.safetensors";

/// Largest size of a file: the ranges of the largest published models take some hundred megabytes.
const MAX_BYTES: u64 = 1 << 32;

/// Writes a preparation into a new directory.
pub fn save(preparation: &Preparation, directory: &Path) -> anyhow::Result<()> {
    let files = [(RECORD, preparation.record_bytes()?), (RANGES, preparation.ranges_bytes()?)];
    std::fs::create_dir(directory).with_context(|| format!("--out: cannot make {}", directory.display()))?;
    for (name, bytes) in files {
        let path = directory.join(name);
        std::fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Reads a preparation.
pub fn load(directory: &Path) -> anyhow::Result<Preparation> {
    let (record, ranges) = (read(&directory.join(RECORD))?, read(&directory.join(RANGES))?);
    Preparation::from_bytes(&record, &ranges).with_context(|| format!("--preparation: {}", directory.display()))
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let what = || format!("--preparation: cannot read {}", path.display());
    let size = std::fs::metadata(path).with_context(what)?.len();
    anyhow::ensure!(size <= MAX_BYTES, "{}: found {size} bytes, needed at most {MAX_BYTES}", what());
    std::fs::read(path).with_context(what)
}
