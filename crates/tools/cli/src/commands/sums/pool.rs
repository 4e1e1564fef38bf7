//! Pools of encryptions of zero in files, for many contributions.

use std::path::{Path, PathBuf};

use anyhow::Context;
use unspoken_encrypt::{ClientKey, PoolFile, PoolPaths, PoolShape};
use unspoken_files::{Access, replace_file};
use unspoken_ring::SecretRng;
use unspoken_sums::Description;
use zeroize::Zeroizing;

/// A pool in a file, with the key that seals the file beside it. Both are made if missing.
pub fn in_file(description: &Description, path: &Path, capacity: u32) -> anyhow::Result<PoolFile> {
    let (key, basis) = description.client_key();
    let (paths, shape) = (PoolPaths::beside(path), PoolShape { basis, capacity });
    let opened = match path.try_exists().with_context(|| format!("--pool: cannot look for {}", path.display()))? {
        true => open(&paths, key, shape),
        false => create(&paths, key, shape),
    };
    opened.with_context(|| {
        format!(
            "--pool: cannot use {}; a pool belongs to one collection and has always as many entries: name another file",
            path.display()
        )
    })
}

fn create(paths: &PoolPaths, key: ClientKey, shape: PoolShape) -> anyhow::Result<PoolFile> {
    let mut sealing = Zeroizing::new([0; 32]);
    SecretRng::from_os()?.fill(sealing.as_mut_slice());
    replace_file(&key_path(paths), sealing.as_slice(), Access::Owner)?;
    Ok(PoolFile::create(paths, &sealing, key, shape)?)
}

fn open(paths: &PoolPaths, key: ClientKey, shape: PoolShape) -> anyhow::Result<PoolFile> {
    let path = key_path(paths);
    let bytes = std::fs::read(&path).map(Zeroizing::new).with_context(|| format!("cannot read {}", path.display()))?;
    let found = bytes.len();
    let sealing = bytes.as_slice().try_into().map(Zeroizing::new);
    let sealing = sealing.with_context(|| format!("{} has {found} bytes, needed 32", path.display()))?;
    Ok(PoolFile::open(paths, &sealing, key, shape)?)
}

/// The file of the sealing key.
fn key_path(paths: &PoolPaths) -> PathBuf {
    paths.entries.with_added_extension("key")
}
