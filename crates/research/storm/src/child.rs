//! Child processes of the storms: this program again.

use std::process::{Child, Command, Stdio};

use anyhow::Context;

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
