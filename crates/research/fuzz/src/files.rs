//! Inputs that hold several files of a directory, one after the other.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

/// A temporary directory, removed when dropped; in memory if the machine has a memory file system.
pub struct Directory(TempDir);

impl Directory {
    /// An empty directory.
    pub fn empty() -> Self {
        let memory = Path::new("/dev/shm");
        let made = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
        Directory(made.expect("a directory"))
    }

    /// A directory with these files, whose contents are taken from an input.
    pub fn of(data: &[u8], names: &[&str]) -> Self {
        let directory = Self::empty();
        for (name, bytes) in names.iter().zip(split(data, names.len())) {
            fs::write(directory.path().join(name), bytes).expect("writes");
        }
        directory
    }

    /// Path of the directory.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

/// Splits an input into its files: each follows its length (u32); missing bytes give empty files.
fn split(mut data: &[u8], count: usize) -> Vec<&[u8]> {
    let mut files = Vec::new();
    while files.len() < count {
        let (length, rest) = data.split_first_chunk::<4>().unwrap_or((&[0; 4], &[]));
        let (file, rest) = rest.split_at(rest.len().min(u32::from_le_bytes(*length) as usize));
        files.push(file);
        data = rest;
    }
    files
}

/// The files of an input as copies that can be changed.
pub fn copied(data: &[u8], count: usize) -> Vec<Vec<u8>> {
    split(data, count).into_iter().map(<[u8]>::to_vec).collect()
}

/// Joins several files to one input.
pub fn join<'a>(files: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    files.flat_map(|file| [&(file.len() as u32).to_le_bytes(), file].concat()).collect()
}

/// Repairs the lengths of the files, and in each JSON file the checksum of the weights file that follows.
pub fn repair(data: &mut Vec<u8>, names: &[&str]) {
    let mut files = copied(data, names.len());
    for pair in files.chunks_exact_mut(2) {
        let sum = blake3::hash(&pair[1]);
        repair_sum(&mut pair[0], "weights_blake3", &sum);
    }
    *data = join(files.iter().map(Vec::as_slice));
}

/// Writes a checksum to a field of a JSON file, if it has the field.
pub fn repair_sum(json: &mut [u8], field: &str, sum: &blake3::Hash) {
    let (key, sum) = (format!("\"{field}\": \""), sum.to_hex());
    let start = json.windows(key.len()).position(|window| window == key.as_bytes()).map(|at| at + key.len());
    if let Some(field) = start.and_then(|start| json.get_mut(start..start + sum.len())) {
        field.copy_from_slice(sum.as_bytes());
    }
}
