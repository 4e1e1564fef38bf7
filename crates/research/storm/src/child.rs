//! Child processes of the storms: this program again.

use std::process::{Child, Command, Stdio};

use anyhow::Context;

use crate::{constant_time, kill};

/// What a child process does.
#[derive(clap::Subcommand)]
pub enum Task {
    /// A case of constant-time
    ConstantTime(constant_time::Step),
    /// An owner of a pool file
    Pool(kill::pool::Owner),
    /// A writer of a database
    Database(kill::database::WriterTask),
}

/// Runs a task in this process.
pub fn run_task(task: &Task) -> anyhow::Result<()> {
    match task {
        Task::ConstantTime(step) => constant_time::run_step(step),
        Task::Pool(owner) => kill::pool::run_owner(owner),
        Task::Database(writer) => kill::database::run_writer(writer),
    }
}

fn command(arguments: &[&str]) -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("cannot find this program")?);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
    Ok(command)
}

/// Runs this program with arguments until it ends.
pub fn run(arguments: &[&str]) -> anyhow::Result<()> {
    let output = command(arguments)?.stderr(Stdio::piped()).output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "{}: {}", output.status, text.trim());
    Ok(())
}

/// Starts this program with arguments, to be killed. Its standard error can be read from the child.
pub fn start(arguments: &[&str]) -> anyhow::Result<Child> {
    Ok(command(arguments)?.stderr(Stdio::piped()).spawn()?)
}
