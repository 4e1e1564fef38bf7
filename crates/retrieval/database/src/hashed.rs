//! Small files that contain their own hash.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::disk::Disk;
use crate::error::{DatabaseError, io_error};

/// Maximum bytes of a manifest. A typical one has a few hundred.
const MAX_BYTES: u64 = 64 << 10;

/// A manifest file: the content and its hash.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sealed<M> {
    manifest: M,
    blake3: String,
}

/// Reads a manifest of a type from its file in a directory, and checks its hash. The file may be of a format that is
/// newer than `newest`, which this program does not read.
pub(crate) fn read_sealed<M: Serialize + DeserializeOwned>(
    dir: &Path,
    name: &str,
    newest: u32,
) -> Result<M, DatabaseError> {
    let path = dir.join(name);
    let mut bytes = Vec::new();
    match File::open(&path) {
        Ok(file) => file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(io_error("read", &path))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(DatabaseError::Missing { dir: dir.into() });
        }
        Err(error) => return Err(io_error("open", &path)(error)),
    };
    let corrupted = |what| DatabaseError::Corrupted { file: name.into(), bytes: 0..bytes.len() as u64, what };
    let Ok(sealed) = serde_json::from_slice::<Sealed<M>>(&bytes) else {
        let json = serde_json::from_slice::<serde_json::Value>(&bytes).ok();
        let format = json.as_ref().and_then(|json| json.pointer("/manifest/format")?.as_u64());
        let newer = format.filter(|&found| found > newest.into());
        return Err(newer.map_or_else(|| corrupted("it is no manifest"), |found| other_format(found, newest)));
    };
    match render(&sealed.manifest)?.as_bytes() == bytes {
        true => Ok(sealed.manifest),
        false => Err(corrupted("its hash is wrong")),
    }
}

/// Replaces a manifest in a directory, atomically and durably.
pub(crate) fn publish_sealed(
    manifest: &impl Serialize,
    disk: &Disk,
    dir: &Path,
    name: &str,
) -> Result<(), DatabaseError> {
    disk.replace(&dir.join(name), render(manifest)?.as_bytes())
}

/// The error of a format that this program does not read.
pub(crate) fn other_format(found: u64, newest: u32) -> DatabaseError {
    let (found, needed) = (found.to_string(), format!("1 to {newest}"));
    DatabaseError::Format { what: "format", found, needed }
}

fn render(manifest: &impl Serialize) -> Result<String, DatabaseError> {
    let failed = |error: serde_json::Error| DatabaseError::Source(error.into());
    let blake3 = blake3::hash(&serde_json::to_vec(manifest).map_err(failed)?).to_string();
    Ok(serde_json::to_string_pretty(&Sealed { manifest, blake3 }).map_err(failed)? + "\n")
}
