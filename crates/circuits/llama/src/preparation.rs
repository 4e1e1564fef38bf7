//! What a service needs to know of a model besides its weights: how it was tamed, and the polynomials of its circuit.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use serde::{Deserialize, Serialize};
use unspoken_llama_model::Config;

use crate::circuit::Circuit;
use crate::design::{Design, DesignOptions};
use crate::error::CircuitError;
use crate::place::{Place, Quantity};
use crate::ranges::{Interval, Ranges};

/// Version of the files.
const FORMAT: u32 = 2;
const RECORD: &str = "preparation.json";
const RANGES: &str = "ranges.safetensors";

/// Largest size of the file of ranges: those of the largest published models take some hundred megabytes.
const MAX_RANGES_BYTES: u64 = 1 << 32;

/// A tamed model, apart from its weights: they are those of the model's file, rotated with the seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Preparation {
    /// Dimensions of the model.
    pub config: Config,
    /// Tokens in front of every text.
    pub prefix: Vec<u32>,
    /// Seed of [`rotate`](unspoken_llama_model::rotate).
    pub seed: u64,
    /// Rounds of softmax.
    pub rounds: u8,
    /// What the polynomials must reach.
    pub options: DesignOptions,
    /// Ranges over calibration text.
    pub ranges: Ranges,
}

/// The content of `preparation.json`.
#[derive(Serialize, Deserialize)]
struct Record {
    format: u32,
    config: Config,
    prefix: Vec<u32>,
    seed: u64,
    rounds: u8,
    options: DesignOptions,
}

/// A preparation could not be read.
#[derive(Debug, thiserror::Error)]
pub enum PreparationError {
    /// A file could not be read or written.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file has another content.
    #[error("{path}: found {found}, needed {needed}; run `unspoken llama prepare` again", path = path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What was found.
        found: String,
        /// What was needed.
        needed: String,
    },
}

impl Preparation {
    /// The circuit.
    pub fn circuit(&self) -> Circuit {
        Circuit::new(&self.config).with_rounds(self.rounds)
    }

    /// The polynomials.
    ///
    /// # Errors
    /// As for [`Design::new`].
    pub fn design(&self) -> Result<Design, CircuitError> {
        Design::new(&self.circuit(), &self.ranges, &self.options)
    }

    /// Writes `preparation.json` and `ranges.safetensors` into a new directory. The ranges of a place are a tensor
    /// `layer.quantity` of shape `[2, coordinates or groups]`: the smallest values, then the largest.
    ///
    /// # Errors
    /// If the directory exists, or writing fails.
    pub fn save(&self, directory: &Path) -> Result<(), PreparationError> {
        let Preparation { config, prefix, seed, rounds, options, ranges } = self;
        let (config, prefix, options) = (config.clone(), prefix.clone(), options.clone());
        let record = Record { format: FORMAT, config, prefix, seed: *seed, rounds: *rounds, options };
        let json = serde_json::to_vec_pretty(&record).map_err(|error| io_error(directory)(io::Error::other(error)))?;
        let tensors = ranges_bytes(ranges).map_err(io_error(directory))?;
        std::fs::create_dir(directory).map_err(io_error(directory))?;
        for (name, bytes) in [(RECORD, json), (RANGES, tensors)] {
            let path = directory.join(name);
            std::fs::write(&path, bytes).map_err(io_error(&path))?;
        }
        Ok(())
    }

    /// Reads what [`save`](Self::save) wrote.
    ///
    /// # Errors
    /// If a file cannot be read, or is not one of this version.
    pub fn load(directory: &Path) -> Result<Self, PreparationError> {
        let path = directory.join(RECORD);
        let bytes = std::fs::read(&path).map_err(io_error(&path))?;
        let record: Record = serde_json::from_slice(&bytes)
            .map_err(|error| content(&path, error.to_string(), "a record of a preparation"))?;
        if record.format != FORMAT {
            return Err(content(&path, format!("format {}", record.format), &format!("format {FORMAT}")));
        }
        let Record { config, prefix, seed, rounds, options, .. } = record;
        if !(1..=Circuit::MAX_ROUNDS).contains(&rounds) {
            let needed = format!("1 to {} rounds of softmax", Circuit::MAX_ROUNDS);
            return Err(content(&path, format!("{rounds}"), &needed));
        }
        let path = directory.join(RANGES);
        let size = std::fs::metadata(&path).map_err(io_error(&path))?.len();
        if size > MAX_RANGES_BYTES {
            return Err(content(&path, format!("{size} bytes"), &format!("at most {MAX_RANGES_BYTES}")));
        }
        let bytes = std::fs::read(&path).map_err(io_error(&path))?;
        let ranges = read_ranges(&bytes).map_err(|found| content(&path, found, "ranges of a model's values"))?;
        Ok(Preparation { config, prefix, seed, rounds, options, ranges })
    }
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> PreparationError {
    let path = path.to_owned();
    move |source| PreparationError::Io { path, source }
}

fn content(path: &Path, found: impl Into<String>, needed: &str) -> PreparationError {
    PreparationError::Content { path: path.to_owned(), found: found.into(), needed: needed.into() }
}

fn ranges_bytes(ranges: &Ranges) -> io::Result<Vec<u8>> {
    let tensors: Vec<(String, usize, Vec<u8>)> = ranges
        .places()
        .filter_map(|place| Some((place, ranges.of(place)?)))
        .map(|(place, intervals)| {
            let lows = intervals.iter().map(|interval| interval.low);
            let values = lows.chain(intervals.iter().map(|interval| interval.high));
            let bytes = values.flat_map(f64::to_le_bytes).collect();
            (format!("{}.{}", place.layer, place.quantity), intervals.len(), bytes)
        })
        .collect();
    let mut views = Vec::new();
    for (name, count, bytes) in &tensors {
        views.push((name, TensorView::new(Dtype::F64, vec![2, *count], bytes).map_err(io::Error::other)?));
    }
    let version = HashMap::from([("format".to_owned(), FORMAT.to_string())]);
    safetensors::serialize(views, Some(version)).map_err(io::Error::other)
}

/// The error says what was found.
fn read_ranges(bytes: &[u8]) -> Result<Ranges, String> {
    let tensors = SafeTensors::deserialize(bytes).map_err(|error| error.to_string())?;
    let mut ranges = Ranges::new();
    for (name, view) in tensors.iter() {
        let place = place_of(name).ok_or_else(|| format!("a tensor with the name {name}"))?;
        let (Dtype::F64, [2, count]) = (view.dtype(), view.shape()) else {
            return Err(format!("{name} of type {:?} and shape {:?}", view.dtype(), view.shape()));
        };
        let values: Vec<f64> =
            view.data().chunks_exact(8).map(|bytes| f64::from_le_bytes(bytes.try_into().expect("8 bytes"))).collect();
        let (lows, highs) = values.split_at(*count);
        let interval = |(&low, &high): (&f64, &f64)| Interval { low, high };
        let intervals: Vec<Interval> = lows.iter().zip(highs).map(interval).collect();
        if intervals.iter().any(|interval| !interval.is_valid()) {
            return Err(format!("{name} with an interval that is empty or not finite"));
        }
        ranges.set(place, intervals);
    }
    Ok(ranges)
}

fn place_of(name: &str) -> Option<Place> {
    let (layer, quantity) = name.split_once('.')?;
    let quantity = Quantity::all(Circuit::MAX_ROUNDS).find(|known| known.to_string() == quantity)?;
    Some(Place::new(layer.parse().ok()?, quantity))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preparation() -> Preparation {
        let config = Config {
            width: 8,
            layers: 1,
            heads: 2,
            kv_heads: 1,
            head_width: 4,
            ffn_width: 12,
            vocabulary: 20,
            context: 64,
            norm_epsilon: 1e-5,
            rope_frequencies: vec![1.0, 0.5],
        };
        let mut ranges = Ranges::new();
        for (number, quantity) in Quantity::all(Circuit::MAX_ROUNDS).enumerate() {
            let interval = |i: usize| Interval { low: -(i as f64), high: number as f64 + 0.1 };
            ranges.set(Place::new(number % 2, quantity), (0..3).map(interval).collect());
        }
        Preparation { config, prefix: vec![3, 4], seed: 9, rounds: 2, options: DesignOptions::default(), ranges }
    }

    #[test]
    fn a_preparation_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("prepared");
        preparation().save(&directory).unwrap();
        assert_eq!(Preparation::load(&directory).unwrap(), preparation());
        assert!(preparation().save(&directory).is_err(), "an existing directory is kept");
    }

    #[test]
    fn damaged_files_are_refused_with_what_was_found() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("prepared");
        preparation().save(&directory).unwrap();
        let refused = |name: &str, bytes: &[u8], found: &str| {
            let path = directory.join(name);
            let before = std::fs::read(&path).unwrap();
            std::fs::write(&path, bytes).unwrap();
            let error = Preparation::load(&directory).unwrap_err().to_string();
            assert!(error.contains(found) && error.contains(name), "{error}");
            std::fs::write(&path, before).unwrap();
        };
        let json = std::fs::read_to_string(directory.join(RECORD)).unwrap();
        refused(RECORD, json.replace("\"format\": 2", "\"format\": 1").as_bytes(), "format 1");
        refused(RECORD, json.replace("\"rounds\": 2", "\"rounds\": 9").as_bytes(), "1 to 8 rounds");
        refused(RECORD, &json.as_bytes()[..40], "EOF");
        let tensors = std::fs::read(directory.join(RANGES)).unwrap();
        refused(RANGES, &tensors[..tensors.len() - 1], "found");
        let renamed = |from: &str, to: &str| -> Vec<u8> {
            let place = tensors.windows(from.len()).position(|part| part == from.as_bytes()).unwrap();
            let mut tensors = tensors.clone();
            tensors[place..place + to.len()].copy_from_slice(to.as_bytes());
            tensors
        };
        refused(RANGES, &renamed("0.query", "0.quarz"), "0.quarz");
        let mut infinite = tensors.clone();
        let end = infinite.len();
        infinite[end - 8..].copy_from_slice(&f64::INFINITY.to_le_bytes());
        refused(RANGES, &infinite, "not finite");
    }
}
