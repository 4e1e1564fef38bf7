//! `unspoken pir accept`

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use anyhow::Context;
use unspoken_database::{Declaration, EncryptedStore};

use crate::interrupt;

/// Maximum bytes of a declaration. A typical one has a few hundred.
const MAX_BYTES: u64 = 64 << 10;

/// Make room for an encrypted database that its owner will upload
///
/// For the owner of a service. Makes a directory of the size that the declaration says, filled with zeros. `unspoken
/// serve --offer pir-encrypted:NAME=DIR` serves it. Only the owner of the declaration can write to it, and never more
/// than was declared.
#[derive(clap::Args)]
pub struct Arguments {
    /// File made by `unspoken pir declare`
    declaration: PathBuf,
    /// Directory to make
    directory: PathBuf,
    /// Refuse a declaration that needs more MB of disk, including that for uploads
    #[arg(long, value_name = "MB", default_value_t = 16_384)]
    most: u64,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let path = &arguments.declaration;
    let failed = || format!("cannot read {}", path.display());
    let mut bytes = Vec::new();
    let file = File::open(path).with_context(failed)?;
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).with_context(failed)?;
    anyhow::ensure!(bytes.len() as u64 <= MAX_BYTES, "{} is no declaration: it is too long", path.display());
    let declaration = Declaration::from_bytes(&bytes).with_context(|| format!("{} is refused", path.display()))?;
    let (stored, most) = (declaration.disk_bytes()?, declaration.most_disk_bytes()?);
    anyhow::ensure!(
        most <= arguments.most.saturating_mul(1_000_000),
        "the database needs {stored} bytes, and up to {most} bytes during an upload; allow it with --most MB"
    );
    let cancel = interrupt::on_ctrl_c()?;
    EncryptedStore::create(&arguments.directory, &declaration, cancel.flag())?;
    println!("made        {}, {stored} bytes", arguments.directory.display());
    println!("serve it    unspoken serve --offer pir-encrypted:NAME={}", arguments.directory.display());
    Ok(())
}
