//! What a service needs to know of a model besides its weights: how it was rotated, and the polynomials of its circuit.

use std::collections::HashMap;

use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensorError, SafeTensors};
use serde::{Deserialize, Serialize};
use unspoken_llama_model::{Config, Model, rotate};

use crate::circuit::Circuit;
use crate::design::{Design, DesignOptions};
use crate::error::CircuitError;
use crate::place::{Place, Quantity};
use crate::ranges::{Interval, Ranges};

/// Version of the files.
const FORMAT: u32 = 3;

/// A rotated model without its weights. These are the weights of the model's file, rotated with the seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Preparation {
    /// Dimensions of the model.
    pub config: Config,
    /// Sum of the weights of the model as it was loaded ([`Weights::digest`](unspoken_llama_model::Weights::digest)).
    pub weights: [u8; 32],
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
    /// Fewest public tokens that calibration had in front of private ones, without the prefix: fewer may leave the
    /// ranges. `None` in preparations that earlier versions made, which did not write it.
    pub least_public: Option<usize>,
}

/// The content of `preparation.json`.
#[derive(Serialize, Deserialize)]
struct Record {
    format: u32,
    config: Config,
    /// In hexadecimal.
    weights: String,
    prefix: Vec<u32>,
    seed: u64,
    rounds: u8,
    options: DesignOptions,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    least_public: Option<usize>,
}

/// The bytes are no preparation, or a preparation of another model.
#[derive(Debug, thiserror::Error)]
#[error("found {found}, needed {needed}; run `unspoken llama prepare` again")]
pub struct PreparationError {
    found: String,
    needed: String,
}

impl PreparationError {
    fn new(found: impl Into<String>, needed: impl Into<String>) -> Self {
        PreparationError { found: found.into(), needed: needed.into() }
    }
}

impl Preparation {
    /// Names of the files with [`record_bytes`](Self::record_bytes) and with [`ranges_bytes`](Self::ranges_bytes).
    pub const FILES: [&str; 2] = ["preparation.json", "ranges.safetensors"];

    /// The circuit.
    pub fn circuit(&self) -> Circuit {
        Circuit::new(&self.config).with_rounds(self.rounds)
    }

    /// The rotated model: rotated as it was prepared.
    ///
    /// # Errors
    /// If the preparation belongs to a model with other dimensions or weights.
    pub fn rotated(&self, mut model: Model) -> Result<Model, PreparationError> {
        if model.config != self.config {
            let shape = |config: &Config| {
                let Config { layers, width, heads, vocabulary, context, .. } = config;
                format!("{layers} layers of width {width}, {heads} heads, {vocabulary} tokens, a context of {context}")
            };
            let found = format!("a model with other dimensions or constants ({})", shape(&model.config));
            return Err(PreparationError::new(found, format!("the one that was prepared ({})", shape(&self.config))));
        }
        let [found, needed] = [model.weights.digest(), self.weights].map(|sum| blake3::Hash::from(sum).to_hex());
        if found != needed {
            let needed = format!("those that were prepared, with the BLAKE3 sum {needed}");
            return Err(PreparationError::new(format!("weights with the BLAKE3 sum {found}"), needed));
        }
        rotate(&model.config, &mut model.weights, self.seed);
        Ok(model)
    }

    /// The polynomials.
    ///
    /// # Errors
    /// As for [`Design::new`].
    pub fn design(&self) -> Result<Design, CircuitError> {
        Design::new(&self.circuit(), &self.ranges, &self.options)
    }

    /// All but the ranges, as JSON.
    ///
    /// # Errors
    /// None for options that [`DesignOptions::check`] accepts.
    pub fn record_bytes(&self) -> serde_json::Result<Vec<u8>> {
        let Preparation { config, prefix, seed, rounds, options, least_public, .. } = self;
        serde_json::to_vec_pretty(&Record {
            format: FORMAT,
            config: config.clone(),
            weights: blake3::Hash::from(self.weights).to_string(),
            prefix: prefix.clone(),
            seed: *seed,
            rounds: *rounds,
            options: options.clone(),
            least_public: *least_public,
        })
    }

    /// The ranges as safetensors. The ranges of a place are a tensor `layer.quantity` of shape `[2, coordinates or
    /// groups]`: the smallest values, then the largest.
    ///
    /// # Errors
    /// None for ranges of fewer than 2^60 values.
    pub fn ranges_bytes(&self) -> Result<Vec<u8>, SafeTensorError> {
        ranges_bytes(&self.ranges)
    }

    /// Reads what [`record_bytes`](Self::record_bytes) and [`ranges_bytes`](Self::ranges_bytes) gave.
    ///
    /// # Errors
    /// If the bytes have another version, or their numbers are out of bounds.
    pub fn from_bytes(record: &[u8], ranges: &[u8]) -> Result<Self, PreparationError> {
        let record: Record = serde_json::from_slice(record)
            .map_err(|error| PreparationError::new(error.to_string(), "a record of a preparation"))?;
        record.check()?;
        let Record { config, weights, prefix, seed, rounds, options, least_public, .. } = record;
        let weights = blake3::Hash::from_hex(&weights)
            .map_err(|error| PreparationError::new(format!("a sum of weights: {error}"), "64 hexadecimal digits"))?;
        let ranges = read_ranges(ranges).map_err(|found| PreparationError::new(found, "ranges of a model's values"))?;
        check_ranges(&ranges, &config)?;
        Ok(Preparation { config, weights: weights.into(), prefix, seed, rounds, options, ranges, least_public })
    }
}

impl Record {
    fn check(&self) -> Result<(), PreparationError> {
        let wrong = |(found, needed): (String, String)| PreparationError::new(found, needed);
        if self.format != FORMAT {
            return Err(PreparationError::new(format!("format {}", self.format), format!("format {FORMAT}")));
        }
        if !(1..=Circuit::MAX_ROUNDS).contains(&self.rounds) {
            let needed = format!("1 to {} rounds of softmax", Circuit::MAX_ROUNDS);
            return Err(PreparationError::new(self.rounds.to_string(), needed));
        }
        self.config.check().map_err(wrong)?;
        self.options.check().map_err(wrong)?;
        let room = self.options.tokens.unwrap_or(self.config.context).saturating_sub(self.prefix.len());
        if let Some(least) = self.least_public.filter(|least| *least >= room) {
            let needed = format!("fewer than {room}, so that private ones fit after them");
            return Err(PreparationError::new(format!("{least} public tokens at least"), needed));
        }
        let vocabulary = self.config.vocabulary;
        match self.prefix.iter().find(|token| **token as usize >= vocabulary) {
            Some(token) => {
                Err(PreparationError::new(format!("token {token} in the prefix"), format!("tokens below {vocabulary}")))
            }
            None => Ok(()),
        }
    }
}

fn ranges_bytes(ranges: &Ranges) -> Result<Vec<u8>, SafeTensorError> {
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
        views.push((name, TensorView::new(Dtype::F64, vec![2, *count], bytes)?));
    }
    let version = HashMap::from([("format".to_owned(), FORMAT.to_string())]);
    safetensors::serialize(views, Some(version))
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

/// Checks that the places are the places of the model, with an interval for each coordinate or group, and that mean
/// squares and sums of squares are positive.
fn check_ranges(ranges: &Ranges, config: &Config) -> Result<(), PreparationError> {
    for place in ranges.places() {
        let (found, needed) = (ranges.of(place).map_or(0, <[Interval]>::len), place.quantity.count(config));
        if place.layer > config.layers || found != needed {
            let found = format!("{found} ranges of {place}");
            return Err(PreparationError::new(found, format!("{needed}, in layers 0 to {}", config.layers)));
        }
        let positive = ranges.of(place).is_some_and(|intervals| intervals.iter().all(|interval| interval.low > 0.0));
        if place.quantity.is_square() && !positive {
            return Err(PreparationError::new(format!("{place} with values below 0 or 0"), "positive ones"));
        }
    }
    Ok(())
}

fn place_of(name: &str) -> Option<Place> {
    let (layer, quantity) = name.split_once('.')?;
    let quantity = Quantity::all(Circuit::MAX_ROUNDS).find(|known| known.to_string() == quantity)?;
    let place = Place::new(layer.parse().ok()?, quantity);
    // One name for each place: no leading zeros and signs.
    (format!("{}.{}", place.layer, place.quantity) == name).then_some(place)
}

#[cfg(test)]
mod tests {
    use unspoken_llama_model::Attention;

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
            attention: Attention::default(),
        };
        let mut ranges = Ranges::new();
        for (number, quantity) in Quantity::all(Circuit::ROUNDS).enumerate() {
            let low = if quantity.is_square() { 0.1 } else { -1.0 };
            let interval = |i: usize| Interval { low, high: (number + i) as f64 + 0.3 };
            ranges.set(Place::new(number % 2, quantity), (0..quantity.count(&config)).map(interval).collect());
        }
        let (weights, options) = ([0xab; 32], DesignOptions::default());
        Preparation { config, weights, prefix: vec![3, 4], seed: 9, rounds: 2, options, ranges, least_public: Some(5) }
    }

    fn bytes() -> (String, Vec<u8>) {
        let preparation = preparation();
        (String::from_utf8(preparation.record_bytes().unwrap()).unwrap(), preparation.ranges_bytes().unwrap())
    }

    #[test]
    fn a_preparation_is_read_as_it_was_written() {
        let (record, ranges) = bytes();
        assert_eq!(Preparation::from_bytes(record.as_bytes(), &ranges).unwrap(), preparation());
        // One that an earlier version wrote.
        let earlier = record.replace(",\n  \"least_public\": 5", "");
        assert_ne!(earlier, record);
        let read = Preparation::from_bytes(earlier.as_bytes(), &ranges).unwrap();
        assert_eq!(read, Preparation { least_public: None, ..preparation() });
    }

    #[test]
    fn numbers_are_read_to_the_last_bit() {
        let mut written = preparation();
        let head_width = 128;
        written.config.heads = 1;
        written.config.kv_heads = 1;
        written.config.head_width = head_width;
        written.config.rope_frequencies =
            (0..head_width / 2).map(|pair| 500_000f64.powf(-2.0 * pair as f64 / head_width as f64)).collect();
        written.options.margins.score = 1.467_893_809_707_729_9;
        written.ranges = Ranges::new();
        let read = Preparation::from_bytes(&written.record_bytes().unwrap(), &written.ranges_bytes().unwrap()).unwrap();
        assert_eq!(read, written);
    }

    #[test]
    fn damaged_bytes_are_refused_with_what_was_found() {
        let (record, ranges) = bytes();
        let refused = |record: &str, ranges: &[u8], found: &str| {
            let error = Preparation::from_bytes(record.as_bytes(), ranges).unwrap_err().to_string();
            assert!(error.contains(found), "{found}: {error}");
        };
        for (from, to, found) in [
            ("\"format\": 3", "\"format\": 2", "format 2"),
            ("abababab\"", "abababax\"", "sum of weights: invalid hex character"),
            ("abababab\"", "ababab\"", "sum of weights"),
            ("\"rounds\": 2", "\"rounds\": 9", "1 to 8 rounds"),
            ("\"heads\": 2", "\"heads\": 0", "number of heads 0"),
            ("\"norm\": 1.25", "\"norm\": 0.5", "margin or widening of 0.5"),
            ("\"widening\": 3.0", "\"widening\": 1e300", "margin or widening"),
            ("255", "100000", "rising degrees from 1 to 511"),
            ("\"vocabulary\": 20", "\"vocabulary\": 4", "token 4 in the prefix"),
            ("\"least_public\": 5", "\"least_public\": 62", "62 public tokens at least"),
        ] {
            assert!(record.contains(from), "{from}: {record}");
            refused(&record.replace(from, to), &ranges, found);
        }
        refused(&record[..40], &ranges, "EOF");
        let with = |place: Place, intervals: Vec<Interval>| {
            let mut other = preparation();
            other.ranges.set(place, intervals);
            other.ranges_bytes().unwrap()
        };
        let interval = Interval { low: 0.5, high: 2.0 };
        for count in [0, 11, 13] {
            let ranges = with(Place::new(0, Quantity::Gate), vec![interval; count]);
            refused(&record, &ranges, &format!("{count} ranges of layer 0, gate"));
        }
        refused(&record, &with(Place::new(2, Quantity::Gate), vec![interval; 12]), "layer 2, gate");
        let negative = Interval { low: -0.5, high: 2.0 };
        refused(&record, &with(Place::new(0, Quantity::SoftmaxSquare(0)), vec![negative; 2]), "below 0 or 0");
        refused(&record, &ranges[..ranges.len() - 1], "found");
        let mut renamed = ranges.clone();
        let place = ranges.windows(7).position(|part| part == b"0.query").unwrap();
        renamed[place..place + 7].copy_from_slice(b"0.quarz");
        refused(&record, &renamed, "0.quarz");
        let mut infinite = ranges.clone();
        infinite[ranges.len() - 8..].copy_from_slice(&f64::INFINITY.to_le_bytes());
        refused(&record, &infinite, "not finite");
    }
}
