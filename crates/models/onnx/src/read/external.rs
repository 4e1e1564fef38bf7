//! Numbers of tensors in files beside the model.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};

use crate::error::{Refusal, quoted};
use crate::proto::StringStringEntryProto;

/// The folder of a model, for the files that it names; none for a model that was not read from a file.
pub(crate) struct Folder(Option<PathBuf>);

/// A part of a file.
struct Part<'a> {
    location: &'a str,
    offset: u64,
    length: Option<u64>,
}

impl Folder {
    /// The folder that contains this model.
    pub fn of(model: &Path) -> Folder {
        let parent = model.parent().filter(|parent| !parent.as_os_str().is_empty());
        Folder(Some(parent.unwrap_or(Path::new(".")).to_path_buf()))
    }

    /// No folder.
    pub fn none() -> Folder {
        Folder(None)
    }

    /// Reads the part of a file that a tensor of `needed` bytes names.
    ///
    /// # Errors
    /// If the file is outside the folder or has no such part, or its length is not `needed`.
    pub fn read(&self, entries: &[StringStringEntryProto], needed: u64) -> Result<Vec<u8>, Refusal> {
        let part = part_of(entries)?;
        if part.length.is_some_and(|length| length != needed) {
            return Err(Refusal::broken(
                format!("external data of {} bytes", part.length.unwrap_or_default()),
                format!("{needed} bytes for the tensor's shape and type"),
            ));
        }
        let path = self.inside(part.location)?;
        let failed = |error: std::io::Error| unreadable(part.location, &error.to_string());
        let mut file = File::open(path).map_err(failed)?;
        let held = file.metadata().map_err(failed)?.len();
        if part.offset.checked_add(needed).is_none_or(|end| end > held) {
            return Err(Refusal::new(
                format!("file {} of {held} bytes", quoted(part.location)),
                format!("{needed} bytes from byte {}", part.offset),
                "copy the whole file of external data",
            ));
        }
        file.seek(SeekFrom::Start(part.offset)).map_err(failed)?;
        let mut bytes = Vec::new();
        file.take(needed).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 != needed {
            return Err(unreadable(part.location, "the file became shorter while it was read"));
        }
        Ok(bytes)
    }

    /// The path of a file in the folder.
    fn inside(&self, location: &str) -> Result<PathBuf, Refusal> {
        let outside = || {
            let found = format!("external data in {}", quoted(location));
            let needed = "a file in the folder of the model, by a relative path without `..` and links out of it";
            Refusal::new(found, needed, "write the model and its data into one folder")
        };
        let Some(folder) = &self.0 else {
            let found = format!("external data in {}", quoted(location));
            return Err(Refusal::new(found, "a model without files", "read the model from its file, with `load`"));
        };
        let relative = Path::new(location);
        let plain = relative.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if location.is_empty() || location.contains('\0') || !plain {
            return Err(outside());
        }
        let failed = |error: std::io::Error| unreadable(location, &error.to_string());
        let root = folder.canonicalize().map_err(failed)?;
        let path = root.join(relative).canonicalize().map_err(failed)?;
        if !path.starts_with(&root) {
            return Err(outside());
        }
        // A pipe or a device may block, or never end.
        if path.is_file() { Ok(path) } else { Err(unreadable(location, "this is no regular file")) }
    }
}

/// The part of a file that these entries name.
fn part_of(entries: &[StringStringEntryProto]) -> Result<Part<'_>, Refusal> {
    let mut part = Part { location: "", offset: 0, length: None };
    for entry in entries {
        let number = || {
            let wrong = |_| Refusal::broken(format!("{} {}", entry.key, quoted(&entry.value)), "a number of bytes");
            entry.value.parse::<u64>().map_err(wrong)
        };
        match entry.key.as_str() {
            "location" => part.location = &entry.value,
            "offset" => part.offset = number()?,
            "length" => part.length = Some(number()?),
            other => {
                let found = format!("external data with the key {}", quoted(other));
                let needed = "the keys `location`, `offset` and `length`";
                return Err(Refusal::new(found, needed, "write the model without this key"));
            }
        }
    }
    Ok(part)
}

fn unreadable(location: &str, cause: &str) -> Refusal {
    let found = format!("external data in {}: {cause}", quoted(location));
    Refusal::new(found, "a readable file beside the model", "copy the files of external data beside the model")
}
