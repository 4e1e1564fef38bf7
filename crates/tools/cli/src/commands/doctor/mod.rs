//! `unspoken doctor`

mod files;
mod finding;
mod machine;
mod offers;
mod service;

use anyhow::bail;
use finding::{Finding, State, on_one_line};
use serde_json::json;

use crate::commands::serve;
use crate::commands::state_root::StateRoot;

/// Examine this machine, and the service that it is to run
///
/// Takes the flags of `unspoken serve`, so that `doctor` can stand in the place of `serve`. Run it as the user of the
/// service. Without --config and without offers it examines the machine and the keys of its user only. It changes
/// nothing and makes no directory. Each line begins with `ok`, `warning` or `problem`, and says what to do. The exit
/// status is 1 if there is a problem.
///
/// The offers are loaded, as the service loads them, to compare what they need with the memory; that takes the time and
/// the memory that the service takes to start. They are not loaded while a service with the same --data-dir runs.
/// Offers that lock a directory are never loaded.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    serve: serve::Arguments,
    #[command(flatten)]
    state: StateRoot,
    /// Do not load the offers
    #[arg(long)]
    no_load: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut findings = machine::examine();
    let mut seen = Vec::new();
    if arguments.serve.name_a_service() {
        match serve::configuration(&arguments.serve) {
            Ok(config) => {
                findings.extend(arguments.serve.check_log_filter().err().map(|error| Finding::refused("log", error)));
                seen = service::files_of(&config, arguments.serve.config_file());
                findings.extend(service::examine(&config, !arguments.no_load));
            }
            Err(error) => {
                let remedy = "correct the file; docs/service.md has all fields";
                findings.push(Finding::problem("configuration", on_one_line(&error), remedy));
            }
        }
    }
    findings.push(machine::clock(&seen));
    findings.extend(files::client_keys(&arguments.state));
    print(&findings, arguments.json);
    match findings.iter().filter(|finding| finding.state == State::Problem).count() {
        0 => Ok(()),
        1 => bail!("found 1 problem"),
        count => bail!("found {count} problems"),
    }
}

fn print(findings: &[Finding], as_json: bool) {
    let count = |state| findings.iter().filter(|finding| finding.state == state).count();
    if as_json {
        let lines = findings.iter().map(|finding| {
            json!({
                "check": finding.check,
                "state": finding.state.name(),
                "found": finding.found,
                "remedy": finding.remedy,
            })
        });
        let (warnings, problems) = (count(State::Warning), count(State::Problem));
        println!("{}", json!({ "checks": lines.collect::<Vec<_>>(), "warnings": warnings, "problems": problems }));
        return;
    }
    for finding in findings {
        println!("{finding}");
    }
}
