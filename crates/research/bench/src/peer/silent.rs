//! Programs for retrieval without a hint that the client downloads: InsPIRe's (github.com/google/private-membership)
//! and YPIR's (github.com/menonsamir/ypir), if the user has installed them as `.peers/inspire/inspire` and
//! `.peers/ypir/run`. Both answer on one thread, time themselves, check the records they find, and write a report.

use std::fs;
use std::process::{Command, Stdio};

use serde::Deserialize;

use super::failure;
use crate::harness::Harness;

/// A program.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SilentRetrieval {
    /// InsPIRe, for records of 256 bytes.
    Inspire,
    /// YPIR with SimplePIR, whose records have 3,584 bytes: several of ours. The number of records in its tables is a
    /// power of two; we take the next lower power, which has seven eighths of our bytes.
    Ypir,
}

/// Bytes of YPIR's records.
const YPIR_RECORD: u64 = 28_672 / 8;

/// What a program reports.
#[derive(Debug, Deserialize)]
pub(crate) struct SilentReport {
    online: Online,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Online {
    upload_bytes: u64,
    download_bytes: u64,
    #[serde(rename = "allServerTimesMs")]
    server_times_ms: Vec<f64>,
}

impl SilentRetrieval {
    pub(crate) const ALL: [SilentRetrieval; 2] = [SilentRetrieval::Inspire, SilentRetrieval::Ypir];

    /// The name in rows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            SilentRetrieval::Inspire => "InsPIRe's program",
            SilentRetrieval::Ypir => "YPIR's program",
        }
    }

    fn program(self) -> &'static str {
        match self {
            SilentRetrieval::Inspire => ".peers/inspire/inspire",
            SilentRetrieval::Ypir => ".peers/ypir/run",
        }
    }

    /// Arguments for a table of `bytes` bytes in records of `record` bytes.
    fn arguments(self, bytes: u64, record: u64, trials: usize, report: &str) -> Vec<String> {
        match self {
            SilentRetrieval::Inspire => {
                // Of the powers of two, about the fastest here at 256 MB. Not compared at 1 GB.
                let rows = 1u64 << (bytes.ilog2().div_ceil(2) - 1);
                let numbers = [bytes / record, 8 * record, rows, trials as u64].map(|number| number.to_string());
                let options = ["--num-items", "--item-size-bits", "--dim0", "--trials"].map(str::to_owned);
                let report = ["--out-report-json".to_owned(), report.to_owned()];
                options.into_iter().zip(numbers).flat_map(|(option, number)| [option, number]).chain(report).collect()
            }
            SilentRetrieval::Ypir => {
                // It rounds up to a power of two.
                let records = 1u64 << (bytes / YPIR_RECORD).ilog2();
                let numbers = [records, 8 * YPIR_RECORD, 1, trials as u64];
                let report = [report.to_owned(), "--is-simplepir".to_owned()];
                numbers.iter().map(u64::to_string).chain(report).collect()
            }
        }
    }

    /// Runs the program, which answers on one thread; `None` if it is missing or peers are disabled.
    pub(crate) fn measure(
        self,
        harness: &mut Harness<'_>,
        bytes: u64,
        record: u64,
        trials: usize,
    ) -> anyhow::Result<Option<SilentReport>> {
        let path = harness.options.root.join(self.program());
        if !harness.options.peers || !path.exists() {
            harness.progress(format!("{} is not measured: no {}", self.name(), path.display()));
            return Ok(None);
        }
        harness.progress(format!("{}: preparation takes minutes", self.name()));
        let folder = tempfile::tempdir().map_err(|error| failure(self.name(), error.to_string()))?;
        let report = folder.path().join("report.json");
        let done = Command::new(&path)
            .args(self.arguments(bytes, record, trials, &report.to_string_lossy()))
            .stdin(Stdio::null())
            .output()
            .map_err(|error| failure(self.name(), format!("cannot start: {error}")))?;
        if !done.status.success() {
            return Err(failure(self.name(), format!("it ended with {}", done.status)));
        }
        let report = fs::read(report).map_err(|error| failure(self.name(), format!("no report: {error}")))?;
        self.read(&report, trials).map(Some)
    }

    fn read(self, report: &[u8], trials: usize) -> anyhow::Result<SilentReport> {
        let report: SilentReport =
            serde_json::from_slice(report).map_err(|error| failure(self.name(), format!("its report: {error}")))?;
        match report.online.server_times_ms.len() {
            found if found == trials => Ok(report),
            found => Err(failure(self.name(), format!("{found} trials, needed {trials}"))),
        }
    }
}

impl SilentReport {
    /// Seconds of the answers.
    pub(crate) fn answers(&self) -> Vec<f64> {
        self.online.server_times_ms.iter().map(|ms| ms / 1e3).collect()
    }

    /// Bytes of a query, keys included.
    pub(crate) fn query_bytes(&self) -> u64 {
        self.online.upload_bytes
    }

    /// Bytes of a response.
    pub(crate) fn response_bytes(&self) -> u64 {
        self.online.download_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"{"specs": {"label": ""}, "offline": {"uploadBytes": 0, "encodeTimeMs": 12698,
        "serverTimeMs": 77359}, "online": {"uploadBytes": 229376, "downloadBytes": 12288, "serverTimeMs": 158,
        "allServerTimesMs": [159, 157]}}"#;

    #[test]
    fn reports_are_understood() {
        let report = SilentRetrieval::Inspire.read(REPORT.as_bytes(), 2).unwrap();
        assert_eq!(report.answers(), vec![0.159, 0.157]);
        assert_eq!((report.query_bytes(), report.response_bytes()), (229_376, 12_288));
        for other in [REPORT.replace("157", ""), REPORT.replace("uploadBytes\": 229376", "upload\": 1"), String::new()]
        {
            assert!(SilentRetrieval::Inspire.read(other.as_bytes(), 2).is_err());
        }
        assert!(SilentRetrieval::Inspire.read(REPORT.as_bytes(), 3).is_err());
    }

    #[test]
    fn programs_get_the_sizes_of_the_table() {
        let inspire = SilentRetrieval::Inspire.arguments(256 << 20, 256, 5, "r").join(" ");
        let needed = "--num-items 1048576 --item-size-bits 2048 --dim0 8192 --trials 5 --out-report-json r";
        assert_eq!(inspire, needed);
        let ypir = SilentRetrieval::Ypir.arguments(256 << 20, 256, 5, "r").join(" ");
        assert_eq!(ypir, "65536 28672 1 5 r --is-simplepir");
    }
}
