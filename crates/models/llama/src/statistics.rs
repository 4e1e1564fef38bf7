//! Ranges of values over text.

use std::collections::BTreeMap;

use ndarray::ArrayView2;
use serde::{Deserialize, Serialize};

use crate::observe::{Observer, Step};

/// Ranges of the values of each layer and step. An [`Observer`] that may see many passes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statistics {
    ranges: BTreeMap<(usize, Step), Vec<Range>>,
    /// Which head the next scores belong to.
    head: usize,
}

/// Smallest and largest values that were seen, for each coordinate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Range {
    /// Smallest values.
    pub least: Vec<f32>,
    /// Largest values.
    pub most: Vec<f32>,
    /// Number of values that were seen, of all coordinates.
    pub count: u64,
}

impl Range {
    fn empty(width: usize) -> Self {
        Range { least: vec![f32::INFINITY; width], most: vec![f32::NEG_INFINITY; width], count: 0 }
    }

    /// The largest absolute value of all coordinates.
    pub fn largest(&self) -> f32 {
        self.least.iter().chain(&self.most).fold(0.0, |most, value| most.max(value.abs()))
    }

    fn add(&mut self, coordinate: usize, value: f32) {
        self.least[coordinate] = self.least[coordinate].min(value);
        self.most[coordinate] = self.most[coordinate].max(value);
        self.count += 1;
    }
}

impl Statistics {
    /// No values.
    pub fn new() -> Self {
        Self::default()
    }

    /// The range of a step of a layer: of each coordinate; for [`Step::Score`] of each head.
    pub fn range(&self, layer: usize, step: Step) -> Option<Range> {
        let parts = self.ranges.get(&(layer, step))?;
        let mut range = Range { least: vec![], most: vec![], count: 0 };
        for part in parts {
            range.least.extend(&part.least);
            range.most.extend(&part.most);
            range.count += part.count;
        }
        Some(range)
    }

    /// The ranges of all layers and steps.
    pub fn ranges(&self) -> impl Iterator<Item = ((usize, Step), Range)> + '_ {
        self.ranges.keys().filter_map(|&(layer, step)| Some(((layer, step), self.range(layer, step)?)))
    }

    /// The largest absolute value of a step over all layers.
    pub fn largest(&self, step: Step) -> f32 {
        let parts = self.ranges.iter().filter(|((_, seen), _)| *seen == step).flat_map(|(_, parts)| parts);
        parts.map(Range::largest).fold(0.0, f32::max)
    }

    /// Number of layers that were seen, the head included.
    pub fn layers(&self) -> usize {
        self.ranges.keys().map(|(layer, _)| layer + 1).max().unwrap_or(0)
    }
}

impl Observer for Statistics {
    fn observe(&mut self, layer: usize, step: Step, values: ArrayView2<f32>) {
        if step == Step::Score {
            self.observe_scores(layer, values);
            return;
        }
        self.head = 0;
        let ranges = self.ranges.entry((layer, step)).or_insert_with(|| vec![Range::empty(values.ncols())]);
        for row in values.rows() {
            for (coordinate, value) in row.iter().enumerate() {
                ranges[0].add(coordinate, *value);
            }
        }
    }
}

impl Statistics {
    /// Scores come head by head; masked ones are not values.
    fn observe_scores(&mut self, layer: usize, values: ArrayView2<f32>) {
        let heads = self.ranges.entry((layer, Step::Score)).or_default();
        if heads.len() == self.head {
            heads.push(Range::empty(1));
        }
        for value in values.iter().filter(|value| value.is_finite()) {
            heads[self.head].add(0, *value);
        }
        self.head += 1;
    }
}
