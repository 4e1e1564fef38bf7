//! What a service needs to know of a model besides its weights: how it was tamed, and the ranges that its values keep.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use safetensors::tensor::{Dtype, TensorView};
use serde::Serialize;

use crate::config::Config;
use crate::statistics::Statistics;

/// Version of the files.
const FORMAT: u32 = 1;

/// A tamed model, apart from its weights: they are those of the model's file, rotated with the seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Preparation {
    /// Tokens in front of every text.
    pub prefix: Vec<u32>,
    /// Seed of [`rotate`](crate::rotate).
    pub seed: u64,
    /// Factor by which ranges are widened around their centres.
    pub margin: f32,
    /// Ranges over calibration text, behind the prefix and rotated.
    pub statistics: Statistics,
}

/// The content of `preparation.json`.
#[derive(Serialize)]
struct Record<'a> {
    format: u32,
    config: &'a Config,
    prefix: &'a [u32],
    seed: u64,
    margin: f32,
}

impl Preparation {
    /// Writes `preparation.json` and `ranges.safetensors` into a new directory. Ranges of a step have the shape `[2,
    /// coordinates]`: the smallest values, then the largest; scores have a coordinate for each head. Their names are
    /// `layer.step`.
    ///
    /// # Errors
    /// If the directory exists, or writing fails.
    pub fn save(&self, directory: &Path, config: &Config) -> io::Result<()> {
        let Preparation { prefix, seed, margin, statistics } = self;
        let record = Record { format: FORMAT, config, prefix, seed: *seed, margin: *margin };
        let bytes = |range: crate::Range| -> (usize, Vec<u8>) {
            let values = range.least.iter().chain(&range.most);
            (range.least.len(), values.flat_map(|value| value.to_le_bytes()).collect())
        };
        let ranges: Vec<_> =
            statistics.ranges().map(|((layer, step), range)| (format!("{layer}.{step}"), bytes(range))).collect();
        let mut views = Vec::new();
        for (name, (width, bytes)) in &ranges {
            views.push((name, TensorView::new(Dtype::F32, vec![2, *width], bytes).map_err(io::Error::other)?));
        }
        let version = HashMap::from([("format".to_owned(), FORMAT.to_string())]);
        let ranges = safetensors::serialize(views, Some(version)).map_err(io::Error::other)?;
        std::fs::create_dir(directory)?;
        std::fs::write(directory.join("preparation.json"), serde_json::to_vec_pretty(&record)?)?;
        std::fs::write(directory.join("ranges.safetensors"), ranges)
    }
}
