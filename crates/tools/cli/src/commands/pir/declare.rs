//! `unspoken pir declare`

use std::path::PathBuf;

use anyhow::Context;
use unspoken_client::{ServiceClient, StateDir};
use unspoken_database::{Database, Declaration};
use unspoken_pir::{Description, PirOptions, UploadClient};
use unspoken_pir_scheme::{DatabaseVersion, Mode};

use crate::commands::connection::Connection;
use crate::commands::state_root::StateRoot;
use crate::interrupt;
use crate::output_file::OutputFile;

/// Declare an encrypted database to the owner of a service
///
/// Writes a small file for the owner of the service, who runs `unspoken pir accept` with it. It has the number and the
/// size of the cells, and a hash by which the service recognises uploads of yours. It is not secret. The database must
/// have encrypted tables (`unspoken pir build --tables encrypted`). The secret key that will encrypt it is made and
/// stored in the state directory, if there is none for this service yet. Nothing is sent.
#[derive(clap::Args)]
pub struct Arguments {
    /// Directory of the database
    database: PathBuf,
    #[command(flatten)]
    connection: Connection,
    /// Name that the service will offer it under
    #[arg(long, alias = "app")]
    application: String,
    #[command(flatten)]
    state: StateRoot,
    /// The file
    #[arg(long)]
    out: PathBuf,
    /// Overwrite the file of --out
    #[arg(long)]
    force: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let out = OutputFile::open("--out", &arguments.out, arguments.force)?;
    let cancel = interrupt::on_ctrl_c()?;
    let database = Database::open(&arguments.database)?;
    let tables = database.snapshot().tables().clone();
    let transport = arguments.connection.open()?;
    let root = arguments.state.path()?;
    let state = StateDir::open(&root, transport.url(), &arguments.application)
        .with_context(|| format!("cannot use {}", root.display()))?;
    let options = PirOptions::new(Mode::Packed, state.clone());
    let owner = ServiceClient::<UploadClient>::open_half(Description::new(&tables)?, options, &state, &cancel)?;
    let declaration = Declaration::new(&tables, owner.write_key())?;
    out.write(&declaration.to_bytes()?)?;
    println!("written     {}", arguments.out.display());
    let (stored, most) = (declaration.disk_bytes()?, declaration.most_disk_bytes()?);
    println!("on disk     {stored} bytes at the service, up to {most} bytes during an upload");
    println!("next        the owner of the service runs `unspoken pir accept`, you then `unspoken pir upload`");
    Ok(())
}
