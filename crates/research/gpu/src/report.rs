//! Lines of JSON, printed as they are known, and kept.

use std::io::Write;
use std::path::PathBuf;

use serde_json::Value;

pub struct Report {
    out: Option<PathBuf>,
    lines: Vec<Value>,
    /// Lines that say that something differs.
    differences: usize,
}

impl Report {
    pub fn new(out: Option<PathBuf>) -> Self {
        Report { out, lines: Vec::new(), differences: 0 }
    }

    /// Prints a line and keeps it. The file has all lines so far, however the program ends.
    pub fn line(&mut self, line: Value) -> anyhow::Result<()> {
        self.differences += usize::from(line["same"] == false);
        writeln!(std::io::stdout(), "{line}")?;
        self.lines.push(line);
        if let Some(path) = &self.out {
            std::fs::write(path, serde_json::to_vec_pretty(&self.lines)?)?;
        }
        Ok(())
    }

    /// An error if something differed.
    pub fn finish(self) -> anyhow::Result<()> {
        anyhow::ensure!(
            self.differences == 0,
            "{} comparisons found other bits than the processor's",
            self.differences
        );
        Ok(())
    }
}
