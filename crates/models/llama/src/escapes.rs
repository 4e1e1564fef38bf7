//! How often and how far values of held-out text leave the ranges of calibration text.
//!
//! A polynomial in place of a function is right on an interval only. The interval is the range of calibration text,
//! widened by a margin; held-out text shows which margin is enough.

use std::collections::BTreeMap;

use ndarray::ArrayView2;

use crate::observe::{Observer, Step};
use crate::statistics::{Range, Statistics};

/// Margins that are counted: factors by which intervals are widened around their centres.
pub const MARGINS: [f32; 8] = [1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 4.0, 8.0];

/// Which values of one layer and step share an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Those of one coordinate, or of one head for scores.
    Coordinate,
    /// All.
    Step,
}

/// Counts the values of held-out text outside the ranges of calibration text. An [`Observer`] that may see many passes.
#[derive(Clone, Debug)]
pub struct Escapes {
    intervals: BTreeMap<(usize, Step), Vec<Interval>>,
    counts: BTreeMap<Step, EscapeCount>,
    /// Which head the next scores belong to.
    head: usize,
}

/// What was seen at one step, over all layers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EscapeCount {
    /// Number of values.
    pub values: u64,
    /// Number of values outside the intervals, for each of [`MARGINS`].
    pub beyond: [u64; MARGINS.len()],
    /// The margin that would hold all values.
    pub needed: f32,
}

/// Values of at most `half_width` from `centre`.
#[derive(Clone, Copy, Debug)]
struct Interval {
    centre: f32,
    half_width: f32,
}

impl Interval {
    fn new(least: f32, most: f32) -> Self {
        let (centre, half_width) = ((least + most) / 2.0, (most - least) / 2.0);
        // A value that was always the same has an interval, too.
        Interval { centre, half_width: half_width.max(centre.abs() * f32::EPSILON).max(f32::MIN_POSITIVE) }
    }

    /// The margin that holds a value.
    fn margin(&self, value: f32) -> f32 {
        (value - self.centre).abs() / self.half_width
    }
}

impl Escapes {
    /// No values yet. Steps that `calibration` has not seen are not counted.
    pub fn new(calibration: &Statistics, sharing: Sharing) -> Self {
        let intervals = calibration.ranges().map(|(place, range)| (place, intervals(&range, sharing))).collect();
        Escapes { intervals, counts: BTreeMap::new(), head: 0 }
    }

    /// What was seen at each step.
    pub fn counts(&self) -> impl Iterator<Item = (Step, EscapeCount)> + '_ {
        self.counts.iter().map(|(step, count)| (*step, *count))
    }

    /// The smallest of [`MARGINS`] that holds all values, if one does.
    pub fn margin(&self) -> Option<f32> {
        let holds = |place: &usize| self.counts.values().all(|count| count.beyond[*place] == 0);
        (0..MARGINS.len()).find(holds).map(|place| MARGINS[place])
    }
}

fn intervals(range: &Range, sharing: Sharing) -> Vec<Interval> {
    match sharing {
        Sharing::Coordinate => range.least.iter().zip(&range.most).map(|(a, b)| Interval::new(*a, *b)).collect(),
        Sharing::Step => {
            let least = range.least.iter().copied().fold(f32::INFINITY, f32::min);
            let most = range.most.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            vec![Interval::new(least, most); range.least.len()]
        }
    }
}

impl Observer for Escapes {
    fn observe(&mut self, layer: usize, step: Step, values: ArrayView2<f32>) {
        let head = self.head;
        self.head = if step == Step::Score { head + 1 } else { 0 };
        let Some(intervals) = self.intervals.get(&(layer, step)) else { return };
        let count = self.counts.entry(step).or_default();
        for row in values.rows() {
            for (coordinate, value) in row.iter().enumerate() {
                // A matrix of scores is that of one head; masked scores are not values.
                let (place, seen) = if step == Step::Score { (head, value.is_finite()) } else { (coordinate, true) };
                if let Some(interval) = intervals.get(place).filter(|_| seen) {
                    count.add(interval.margin(*value));
                }
            }
        }
    }
}

impl EscapeCount {
    fn add(&mut self, margin: f32) {
        self.values += 1;
        self.needed = self.needed.max(margin);
        // Most values are inside.
        if margin > MARGINS[0] {
            for (beyond, limit) in self.beyond.iter_mut().zip(MARGINS) {
                *beyond += u64::from(margin > limit);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    fn calibration() -> Statistics {
        let mut statistics = Statistics::new();
        statistics.observe(0, Step::Gate, array![[0.0, 10.0], [2.0, 30.0]].view());
        statistics.observe(1, Step::Score, array![[-1.0, f32::NEG_INFINITY], [1.0, 0.0]].view());
        statistics.observe(1, Step::Score, array![[-4.0, f32::NEG_INFINITY], [4.0, 0.0]].view());
        statistics
    }

    fn seen(sharing: Sharing, pass: impl Fn(&mut Escapes)) -> Escapes {
        let mut escapes = Escapes::new(&calibration(), sharing);
        pass(&mut escapes);
        escapes
    }

    #[test]
    fn values_are_compared_with_the_range_of_their_coordinate() {
        // The first coordinate has centre 1 and half width 1; 2.9 needs a margin of 1.9.
        let held_out = array![[2.9, 20.0], [1.0, 30.0]];
        let escapes = seen(Sharing::Coordinate, |escapes| escapes.observe(0, Step::Gate, held_out.view()));
        let (step, count) = escapes.counts().next().unwrap();
        assert_eq!((step, count.values, count.beyond), (Step::Gate, 4, [1, 1, 1, 1, 0, 0, 0, 0]));
        assert!((count.needed - 1.9).abs() < 1e-6);
        assert_eq!(escapes.margin(), Some(2.0));
        // The common range has 0 to 30.
        let escapes = seen(Sharing::Step, |escapes| escapes.observe(0, Step::Gate, held_out.view()));
        assert_eq!(escapes.margin(), Some(1.0));
        let escapes = seen(Sharing::Step, |escapes| escapes.observe(0, Step::Gate, array![[1e6, 0.0]].view()));
        assert_eq!(escapes.margin(), None);
    }

    #[test]
    fn scores_are_compared_with_the_range_of_their_head() {
        let head = array![[2.0, f32::NEG_INFINITY]];
        let escapes = seen(Sharing::Coordinate, |escapes| {
            escapes.observe(1, Step::Score, head.view());
            escapes.observe(1, Step::Score, head.view());
            escapes.observe(1, Step::Attention, head.view());
            escapes.observe(1, Step::Score, head.view());
        });
        let counts: Vec<_> = escapes.counts().collect();
        assert_eq!(counts.len(), 1, "a step without a range is not counted");
        assert_eq!((counts[0].1.values, counts[0].1.beyond[0]), (3, 2));
    }
}
