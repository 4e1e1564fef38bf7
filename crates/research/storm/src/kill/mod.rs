//! `unspoken-storm kill`

pub mod database;
pub mod pool;
mod service;

use std::process::{Child, ExitCode};
use std::time::Duration;

use anyhow::Context;

use crate::amount::Amount;
use crate::service::Binary;

/// Kill processes with SIGKILL at random moments, and check that nothing acknowledged is lost and nothing used twice
#[derive(clap::Subcommand)]
pub enum Kill {
    /// Kill owners of a file of precomputed encryptions: no entry is handed out twice. --count counts pairs of kills
    Pool(Amount),
    /// Kill writers of a database (put, delete, compact, build, replace): every acknowledged change is there, the
    /// database is whole, and a reader that stays open follows. --count counts kills
    Database(Amount),
    /// Kill a service while clients upload keys and ask: it is ready again, no acknowledged key is lost, and no answer
    /// is wrong. --count counts kills
    Service(ServiceArguments),
}

#[derive(clap::Args)]
pub struct ServiceArguments {
    #[command(flatten)]
    pub amount: Amount,
    #[command(flatten)]
    pub binary: Binary,
    /// Number of clients
    #[arg(long, default_value_t = 6)]
    pub clients: usize,
}

/// Runs the command.
pub fn run(kill: &Kill) -> anyhow::Result<ExitCode> {
    match kill {
        Kill::Pool(amount) => pool::run(amount),
        Kill::Database(amount) => database::run(amount),
        Kill::Service(arguments) => service::run(arguments),
    }
}

/// How a child ended that was to be killed.
enum End {
    /// By SIGKILL.
    Killed,
    /// By itself, without an error: it had done all its work.
    Done,
    /// With this error.
    Failed(String),
}

/// Kills a child after `life`, and waits for it.
fn kill_after(mut child: Child, life: Duration) -> anyhow::Result<End> {
    std::thread::sleep(life);
    if child.try_wait()?.is_none() {
        child.kill().context("cannot kill a child process")?;
    }
    let output = child.wait_with_output()?;
    Ok(match output.status.code() {
        None => End::Killed,
        Some(0) => End::Done,
        Some(_) => End::Failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    })
}
