//! `unspoken pir`

mod accept;
mod build;
mod change;
mod compact;
mod declare;
mod explain;
mod get;
mod info;
mod oprf;
mod oprf_key;
mod put;
mod records;
mod shard;
mod upload;
mod verify;

pub use build::link;
pub use records::RecordOptions;

/// Build, change and maintain databases for private retrieval, and retrieve their records
///
/// A database is a directory, created by `build` and served with `serve --pir`. Records can be added, changed
/// and deleted while it is served.
#[derive(clap::Subcommand)]
pub enum Command {
    Build(build::Arguments),
    OprfKey(oprf_key::Arguments),
    Get(get::Arguments),
    Info(info::Arguments),
    Verify(verify::Arguments),
    Put(put::Arguments),
    Set(change::SetArguments),
    Delete(change::DeleteArguments),
    Compact(compact::Arguments),
    Shard(shard::Arguments),
    Declare(declare::Arguments),
    Accept(accept::Arguments),
    Upload(upload::Arguments),
}

/// Runs the command.
pub fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Build(arguments) => build::run(arguments),
        Command::OprfKey(arguments) => oprf_key::run(arguments),
        Command::Get(arguments) => get::run(arguments),
        Command::Info(arguments) => info::run(arguments),
        Command::Verify(arguments) => verify::run(arguments),
        Command::Put(arguments) => put::run(arguments),
        Command::Set(arguments) => change::set(arguments),
        Command::Delete(arguments) => change::delete(arguments),
        Command::Compact(arguments) => compact::run(arguments),
        Command::Shard(arguments) => shard::run(arguments),
        Command::Declare(arguments) => declare::run(arguments),
        Command::Accept(arguments) => accept::run(arguments),
        Command::Upload(arguments) => upload::run(arguments),
    }
}
