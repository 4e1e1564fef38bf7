//! Ranges of the values of a network, from calibration rows.

use ndarray::{Array2, ArrayView2};

use crate::encoding::Encoding;
use crate::error::NetworkError;
use crate::network::{Network, Step, ValueId};

const OPERATION: &str = "calibrate a network";

/// Bins of a histogram.
pub(crate) const BINS: usize = 512;

/// The ranges of all values of a network on calibration rows, and how the arguments of functions are distributed.
#[derive(Clone, Debug)]
pub struct Ranges {
    rows: usize,
    /// For each value and element.
    bounds: Vec<Vec<Interval>>,
    /// Root mean squares, for each value and element.
    typical: Vec<Vec<f64>>,
    /// For each value that is an argument of a function with a kink.
    histograms: Vec<Option<Histograms>>,
    constant_inputs: Vec<(String, Vec<usize>)>,
}

/// A closed interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The smallest number.
    pub low: f64,
    /// The largest number.
    pub high: f64,
}

/// The distribution of the elements of a value, in bins of equal width.
#[derive(Clone, Debug)]
pub(crate) struct Histograms {
    /// Each element divided by its radius around 0, without its margin: from -1 to 1.
    pub(crate) symmetric: Vec<f64>,
    /// All elements on the interval that has them all.
    pub(crate) common: Vec<f64>,
}

impl Interval {
    /// An interval without numbers, to which [`Interval::join`] adds.
    pub(crate) const EMPTY: Interval = Interval { low: f64::INFINITY, high: f64::NEG_INFINITY };

    /// The largest magnitude.
    pub fn magnitude(&self) -> f64 {
        self.low.abs().max(self.high.abs())
    }

    /// The number in the middle.
    pub fn middle(&self) -> f64 {
        (self.low + self.high) / 2.0
    }

    /// Half of the length.
    pub fn radius(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// The smallest interval with both.
    pub(crate) fn join(self, other: Interval) -> Interval {
        Interval { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    /// The smallest interval with all of them.
    pub(crate) fn of(intervals: &[Interval]) -> Interval {
        intervals.iter().fold(Interval::EMPTY, |all, one| all.join(*one))
    }
}

impl Ranges {
    /// Runs the network on calibration rows: one table (rows x elements) for each input.
    ///
    /// # Errors
    /// If the tables do not fit, or a row has a value that is no finite number, in an input or in a step.
    pub fn of(network: &Network, inputs: &[ArrayView2<'_, f64>]) -> Result<Self, NetworkError> {
        let rows = network.check_rows(inputs)?;
        for (table, (name, _)) in inputs.iter().zip(network.inputs()) {
            if let Some(((row, column), value)) = table.indexed_iter().find(|(_, value)| !value.is_finite()) {
                let found = format!("{value} in row {row}, column {column} of input '{name}'");
                return Err(NetworkError::mismatch(OPERATION, found, "finite numbers; remove the row or fill it"));
            }
        }
        let chunks = network.observe(inputs, chunk_bounds)?;
        let mut bounds: Vec<Vec<Interval>> = network.sizes.iter().map(|&size| vec![Interval::EMPTY; size]).collect();
        let mut typical: Vec<Vec<f64>> = network.sizes.iter().map(|&size| vec![0.0; size]).collect();
        for chunk in chunks {
            let own = bounds.iter_mut().flatten().zip(typical.iter_mut().flatten());
            for ((bounds, typical), (more, squares)) in own.zip(chunk?.into_iter().flatten()) {
                *bounds = bounds.join(more);
                *typical += squares;
            }
        }
        typical.iter_mut().flatten().for_each(|squares| *squares = (*squares / rows as f64).sqrt());
        let histograms = histograms(network, inputs, &bounds, &typical)?;
        let constant_inputs = constant_inputs(network, &bounds);
        Ok(Ranges { rows, bounds, typical, histograms, constant_inputs })
    }

    /// Number of calibration rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The range of each element of a value.
    ///
    /// # Panics
    /// If the value belongs to another network.
    pub fn of_value(&self, value: ValueId) -> &[Interval] {
        &self.bounds[value.index()]
    }

    /// How far from 0 each element of a value may be in other rows.
    ///
    /// An element is at least as far as in the calibration rows. Elements that are distributed alike have about the
    /// same ratio of the farthest to the root mean square in many rows, but not in few: so all elements get the largest
    /// ratio of the value, up to twice their own.
    pub(crate) fn reaches(&self, value: ValueId) -> Vec<f64> {
        reaches(&self.bounds[value.index()], &self.typical[value.index()])
    }

    /// Inputs with elements that are the same in all calibration rows, and the numbers of these elements: the network
    /// may be wrong on rows with other values there.
    pub fn constant_inputs(&self) -> &[(String, Vec<usize>)] {
        &self.constant_inputs
    }

    /// All numbers of these ranges, for a file.
    pub fn to_numbers(&self) -> Vec<f64> {
        let bounds = self.bounds.iter().flatten().flat_map(|range| [range.low, range.high]);
        let histograms = self.histograms.iter().flatten();
        let bins = histograms.flat_map(|one| one.symmetric.iter().chain(&one.common).copied());
        let typical = self.typical.iter().flatten().copied();
        std::iter::once(self.rows as f64).chain(bounds).chain(typical).chain(bins).collect()
    }

    /// The ranges of a network from their numbers.
    ///
    /// # Errors
    /// If these are not the numbers of ranges of this network.
    pub fn from_numbers(network: &Network, numbers: &[f64]) -> Result<Self, NetworkError> {
        const OPERATION: &str = "read ranges";
        let wanted = has_histogram(network);
        let bins = 2 * BINS * wanted.iter().filter(|wanted| **wanted).count();
        let values = network.sizes.iter().try_fold(0usize, |sum, size| sum.checked_add(*size));
        let values = values.filter(|values| *values < numbers.len()).unwrap_or(numbers.len());
        let needed = 1 + 3 * values + bins;
        if numbers.len() != needed || numbers.iter().any(|number| !number.is_finite()) {
            let found = format!("{} numbers", numbers.len());
            return Err(NetworkError::mismatch(OPERATION, found, format!("{needed} finite ones")));
        }
        let (bounds, rest) = numbers[1..].split_at(2 * values);
        let (typical, bins) = rest.split_at(values);
        let mut pairs = bounds.chunks_exact(2).map(|pair| Interval { low: pair[0], high: pair[1] });
        let bounds: Vec<Vec<Interval>> =
            network.sizes.iter().map(|&size| pairs.by_ref().take(size).collect()).collect();
        if let Some(range) = bounds.iter().flatten().find(|range| range.low > range.high) {
            return Err(NetworkError::mismatch(OPERATION, format!("{range:?}"), "a low end below the high end"));
        }
        let mut typical = typical.iter().copied();
        let typical = network.sizes.iter().map(|&size| typical.by_ref().take(size).collect()).collect();
        let mut bins = bins.chunks_exact(BINS).map(<[f64]>::to_vec);
        let mut next = || bins.next().unwrap_or_default();
        let histograms = wanted.iter().map(|wanted| wanted.then(|| Histograms { symmetric: next(), common: next() }));
        let histograms = histograms.collect();
        let constant_inputs = constant_inputs(network, &bounds);
        Ok(Ranges { rows: numbers[0] as usize, bounds, typical, histograms, constant_inputs })
    }

    pub(crate) fn histograms(&self, value: ValueId) -> Option<&Histograms> {
        self.histograms[value.index()].as_ref()
    }

    /// Checks that these are the ranges of a network with these sizes of values.
    pub(crate) fn check(&self, sizes: &[usize]) -> Result<(), NetworkError> {
        if self.bounds.iter().map(Vec::len).eq(sizes.iter().copied()) {
            return Ok(());
        }
        let found = format!("ranges of {} values", self.bounds.len());
        let needed = format!("the ranges of this network with {} values, also after it is fused", sizes.len());
        Err(NetworkError::mismatch("design a program", found, needed))
    }
}

/// The range and the sum of squares of each element of all values, for some rows.
fn chunk_bounds(first: usize, values: &[Array2<f64>]) -> Result<Vec<Vec<(Interval, f64)>>, NetworkError> {
    let of_value = |(step, table): (usize, &Array2<f64>)| {
        let mut bounds = vec![(Interval::EMPTY, 0.0); table.ncols()];
        for ((row, column), &x) in table.indexed_iter() {
            if !x.is_finite() {
                let found = format!("{x} in element {column} of value {step} for row {}", first + row);
                return Err(NetworkError::mismatch(OPERATION, found, "finite values; scale inputs or weights down"));
            }
            let (bounds, squares) = &mut bounds[column];
            *bounds = bounds.join(Interval { low: x, high: x });
            *squares += x * x;
        }
        Ok(bounds)
    };
    values.iter().enumerate().map(of_value).collect()
}

/// See [`Ranges::reaches`].
fn reaches(bounds: &[Interval], typical: &[f64]) -> Vec<f64> {
    let ratio = |(bounds, typical): (&Interval, &f64)| if *typical > 0.0 { bounds.magnitude() / typical } else { 0.0 };
    let largest = bounds.iter().zip(typical).map(ratio).fold(0.0, f64::max);
    let reach = |(bounds, typical): (&Interval, &f64)| {
        let own = bounds.magnitude();
        (largest * typical).clamp(own, 2.0 * own)
    };
    bounds.iter().zip(typical).map(reach).collect()
}

/// The elements of inputs that never vary.
fn constant_inputs(network: &Network, bounds: &[Vec<Interval>]) -> Vec<(String, Vec<usize>)> {
    let constant = |(name, value): (&str, ValueId)| {
        let of_input = &bounds[value.index()];
        let constant: Vec<usize> = (0..of_input.len()).filter(|&i| of_input[i].radius() == 0.0).collect();
        (name.to_string(), constant)
    };
    network.inputs().into_iter().map(constant).filter(|(_, list)| !list.is_empty()).collect()
}

/// For each value whether it is an argument of a function with a kink.
fn has_histogram(network: &Network) -> Vec<bool> {
    let mut wanted = vec![false; network.steps.len()];
    for step in &network.steps {
        if let Step::Function { input, function } = step {
            wanted[input.index()] |= function.has_kink();
        }
    }
    wanted
}

/// The distributions of the arguments of functions with kinks.
fn histograms(
    network: &Network,
    inputs: &[ArrayView2<'_, f64>],
    bounds: &[Vec<Interval>],
    typical: &[Vec<f64>],
) -> Result<Vec<Option<Histograms>>, NetworkError> {
    let wanted = has_histogram(network);
    let empty = || Histograms { symmetric: vec![0.0; BINS], common: vec![0.0; BINS] };
    let none = || wanted.iter().map(|wanted| wanted.then(empty)).collect::<Vec<_>>();
    if wanted.iter().all(|wanted| !wanted) {
        return Ok(none());
    }
    // The radii of the slots, without their margin.
    let radii = |(bounds, typical): (&Vec<Interval>, &Vec<f64>)| {
        Encoding::symmetric(&reaches(bounds, typical), 1.0).floored().radius
    };
    let radii: Vec<Vec<f64>> = bounds.iter().zip(typical).map(radii).collect();
    let count = |_: usize, values: &[Array2<f64>]| {
        let mut counts = none();
        for (((counts, bounds), radii), table) in counts.iter_mut().zip(bounds).zip(&radii).zip(values) {
            if let Some(counts) = counts {
                counts.add(&Interval::of(bounds), radii, table);
            }
        }
        counts
    };
    let mut sums = none();
    for part in network.observe(inputs, count)? {
        for (sum, part) in sums.iter_mut().flatten().zip(part.into_iter().flatten()) {
            sum.symmetric.iter_mut().zip(part.symmetric).for_each(|(sum, count)| *sum += count);
            sum.common.iter_mut().zip(part.common).for_each(|(sum, count)| *sum += count);
        }
    }
    Ok(sums)
}

impl Histograms {
    fn add(&mut self, all: &Interval, radii: &[f64], table: &Array2<f64>) {
        let (middle, radius) = (all.middle(), all.radius());
        for ((_, column), &x) in table.indexed_iter() {
            self.symmetric[bin(x / radii[column])] += 1.0;
            if radius > 0.0 {
                self.common[bin((x - middle) / radius)] += 1.0;
            }
        }
    }
}

/// The bin of a number from -1 to 1.
fn bin(unit: f64) -> usize {
    (((unit + 1.0) / 2.0 * BINS as f64) as usize).min(BINS - 1)
}
