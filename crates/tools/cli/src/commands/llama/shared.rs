//! What a preparation found, in one file that others can use with the same weights.

use std::path::Path;

use anyhow::Context;
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use serde_json::Value;
use unspoken_llama::Preparation;

/// Name of the file in the directory of a preparation.
pub const FILE: &str = "calibration.safetensors";

/// Names of its parts: the files of a preparation, a byte for each token that says whether it ran, and what the command
/// printed.
const PARTS: [&str; 4] = [Preparation::FILES[0], Preparation::FILES[1], "covered", "report.json"];

/// Largest size of the file.
const MAX_BYTES: u64 = 1 << 30;

/// A calibration.
pub struct Shared {
    /// Prefix, seed of the rotations, margins, precision and ranges. The polynomials follow from them.
    pub preparation: Preparation,
    /// Tokens that calibration ran, in rising order.
    pub covered: Vec<u32>,
    /// What `prepare --json` printed.
    pub report: Value,
}

impl Shared {
    /// Writes the file into the directory of a preparation.
    pub fn save(&self, directory: &Path) -> anyhow::Result<()> {
        let path = directory.join(FILE);
        let bytes = self.to_bytes().with_context(|| format!("cannot write {}", path.display()))?;
        std::fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))
    }

    fn to_bytes(&self) -> anyhow::Result<Vec<u8>> {
        let mut covered = vec![0u8; self.preparation.config.vocabulary];
        for token in &self.covered {
            if let Some(byte) = covered.get_mut(*token as usize) {
                *byte = 1;
            }
        }
        let record = self.preparation.record_bytes()?;
        let parts = [record, self.preparation.ranges_bytes()?, covered, serde_json::to_vec(&self.report)?];
        let mut views = Vec::new();
        for (name, bytes) in PARTS.into_iter().zip(&parts) {
            views.push((name, TensorView::new(Dtype::U8, vec![bytes.len()], bytes)?));
        }
        Ok(safetensors::serialize(views, None)?)
    }

    /// Reads the file.
    pub fn load(path: &Path) -> anyhow::Result<Self> {
        let what = || format!("--calibration: cannot read {}", path.display());
        let size = std::fs::metadata(path).with_context(what)?.len();
        anyhow::ensure!(size <= MAX_BYTES, "{}: found {size} bytes, needed at most {MAX_BYTES}", what());
        let bytes = std::fs::read(path).with_context(what)?;
        Shared::from_bytes(&bytes).with_context(|| {
            format!("{}; needed the file {FILE} of a directory of `unspoken llama prepare --out`", what())
        })
    }

    fn from_bytes(bytes: &[u8]) -> anyhow::Result<Self> {
        let file = SafeTensors::deserialize(bytes)?;
        let part = |name: &str| -> anyhow::Result<&[u8]> {
            let view = file.tensor(name).with_context(|| format!("found no part {name}"))?;
            anyhow::ensure!(view.dtype() == Dtype::U8, "found {name} of type {:?}, needed bytes", view.dtype());
            Ok(view.data())
        };
        let preparation = Preparation::from_bytes(part(PARTS[0])?, part(PARTS[1])?)?;
        let covered = part(PARTS[2])?;
        let vocabulary = preparation.config.vocabulary;
        anyhow::ensure!(
            covered.len() == vocabulary,
            "found {} tokens that ran or not, needed {vocabulary}: one byte for each",
            covered.len()
        );
        let covered = (0u32..).zip(covered).filter(|(_, ran)| **ran != 0).map(|(token, _)| token).collect();
        Ok(Shared { preparation, covered, report: serde_json::from_slice(part(PARTS[3])?)? })
    }
}
