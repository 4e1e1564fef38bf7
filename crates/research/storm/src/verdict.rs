//! The result of a command: one line for people or one line of JSON, and the exit status.

use std::process::ExitCode;

use serde_json::{Map, Value};

/// The result of a command.
#[derive(Debug)]
pub struct Verdict {
    command: &'static str,
    /// What was counted, in the order in which it is printed.
    numbers: Vec<(&'static str, Value)>,
    /// What is wrong, one line each.
    findings: Vec<String>,
}

impl Verdict {
    /// A result without findings.
    pub fn new(command: &'static str) -> Self {
        Verdict { command, numbers: Vec::new(), findings: Vec::new() }
    }

    /// Adds a number to the report.
    pub fn number(&mut self, name: &'static str, value: impl Into<Value>) {
        self.numbers.push((name, value.into()));
    }

    /// Adds a finding: the command fails.
    pub fn finding(&mut self, what: impl Into<String>) {
        self.findings.push(what.into());
    }

    /// Whether there are no findings.
    pub fn passed(&self) -> bool {
        self.findings.is_empty()
    }

    /// Prints the findings and the verdict. Returns the exit status: 0 without findings, 1 with findings.
    pub fn print(&self, json: bool) -> ExitCode {
        if json {
            let mut line = Map::new();
            line.insert("command".into(), self.command.into());
            line.insert("passed".into(), self.passed().into());
            line.extend(self.numbers.iter().map(|(name, value)| ((*name).into(), value.clone())));
            line.insert("findings".into(), self.findings.clone().into());
            println!("{}", Value::Object(line));
        } else {
            self.findings.iter().for_each(|finding| println!("{}: finding: {finding}", self.command));
            let numbers: Vec<String> = self.numbers.iter().map(|(name, value)| format!("{name} {value}")).collect();
            let result = if self.passed() { "passed" } else { "FAILED" };
            println!("{}: {result}: {}", self.command, numbers.join(", "));
        }
        if self.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
