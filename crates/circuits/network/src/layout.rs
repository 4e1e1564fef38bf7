//! Layouts of values in the slots, and the part of a program that client and server share.

use std::sync::Arc;

use ndarray::{Array2, ArrayView2};
use serde::{Deserialize, Serialize};
use unspoken_ckks::Complex64;

use crate::design::MOST_INPUT;
use crate::encoding::Encoding;
use crate::error::NetworkError;

/// The order of the rows of a batch and of the positions of a row in the slots of a vector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Slot `position * batch + row`. Vectors of short values repeat, which saves diagonals.
    #[default]
    Interleaved,
    /// Slot `row * positions + position`. Weights repeat after one row, which saves memory.
    Consecutive,
}

/// How many rows a program takes, and how they lie in the slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Arrangement {
    /// Number of rows of a batch, a power of two.
    pub batch: usize,
    /// The order of rows and positions.
    pub order: Order,
}

impl Arrangement {
    /// Number of slots between a position and the next one of the same row.
    pub(crate) fn stride(self) -> usize {
        match self.order {
            Order::Interleaved => self.batch,
            Order::Consecutive => 1,
        }
    }
}

impl From<usize> for Arrangement {
    /// Interleaved rows.
    fn from(batch: usize) -> Self {
        Arrangement { batch, order: Order::Interleaved }
    }
}

/// The slots of a value.
///
/// A vector has `slots / batch` positions for each row, in one of the two orders. A value with at most so many elements
/// is one vector. If rows are interleaved, it repeats after `period` positions: position `p` has element `p % period`,
/// or 0 if there is none. A longer value has several vectors, one after the other. Values inside a program may have
/// their elements at other places.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    size: usize,
    slots: usize,
    arrangement: Arrangement,
    period: usize,
    vectors: usize,
    /// The place of each element, over all vectors; `None` if places are the numbers of elements.
    places: Option<Arc<[usize]>>,
}

impl Layout {
    /// The layout of `size` elements with the shortest period.
    ///
    /// # Errors
    /// If the size is 0, or slots or batch are no powers of two, or there are more rows than slots.
    pub fn new(size: usize, slots: usize, arrangement: impl Into<Arrangement>) -> Result<Self, NetworkError> {
        let arrangement = arrangement.into();
        let positions = slots / arrangement.batch.max(1);
        let period = match arrangement.order {
            Order::Interleaved => size.checked_next_power_of_two().unwrap_or(usize::MAX).min(positions),
            Order::Consecutive => positions,
        };
        Self::with_period(size, slots, arrangement, period)
    }

    /// The layout of `size` elements that repeats after `period` positions.
    ///
    /// # Errors
    /// As for [`Layout::new`], or if the period is no power of two, or too short or too long, or not all positions of
    /// consecutive rows.
    pub fn with_period(
        size: usize,
        slots: usize,
        arrangement: impl Into<Arrangement>,
        period: usize,
    ) -> Result<Self, NetworkError> {
        const OPERATION: &str = "lay out rows";
        let arrangement = arrangement.into();
        let Arrangement { batch, order } = arrangement;
        if size == 0 || !slots.is_power_of_two() || !batch.is_power_of_two() || batch > slots {
            let found = format!("{size} elements for a batch of {batch} rows in {slots} slots");
            let needed = "one or more elements, powers of two of rows and slots, and at most as many rows as slots";
            return Err(NetworkError::mismatch(OPERATION, found, needed));
        }
        let positions = slots / batch;
        let shortest = if order == Order::Consecutive { positions } else { size.min(positions) };
        if !period.is_power_of_two() || !(shortest..=positions).contains(&period) {
            let found = format!("a period of {period} positions for {size} elements");
            let needed = format!("a power of two from {shortest} to the {positions} positions");
            return Err(NetworkError::mismatch(OPERATION, found, needed));
        }
        Ok(Layout { size, slots, arrangement, period, vectors: size.div_ceil(period), places: None })
    }

    /// The same with these places of its elements, all different.
    pub(crate) fn placed(self, places: &[usize]) -> Self {
        let end = places.iter().max().map_or(1, |last| last + 1);
        Layout { vectors: end.div_ceil(self.period), places: Some(places.into()), ..self }
    }

    /// Number of elements of a row.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Number of slots of a vector.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Number of rows of a batch.
    pub fn batch(&self) -> usize {
        self.arrangement.batch
    }

    /// The number and the order of rows.
    pub fn arrangement(&self) -> Arrangement {
        self.arrangement
    }

    /// Number of positions after which vectors repeat.
    pub fn period(&self) -> usize {
        self.period
    }

    /// Number of positions of a vector.
    pub fn positions(&self) -> usize {
        self.slots / self.arrangement.batch
    }

    /// Number of vectors.
    pub fn vectors(&self) -> usize {
        self.vectors
    }

    /// The slot of a position and a row.
    pub fn slot(&self, position: usize, row: usize) -> usize {
        match self.arrangement.order {
            Order::Interleaved => position * self.arrangement.batch + row,
            Order::Consecutive => row * self.positions() + position,
        }
    }

    /// Number of slots between a position and the next one of the same row.
    pub(crate) fn stride(&self) -> usize {
        self.arrangement.stride()
    }

    /// The place of an element, over all vectors.
    pub(crate) fn linear(&self, element: usize) -> usize {
        self.places.as_ref().map_or(element, |places| places[element])
    }

    /// The elements of a vector, each with its position in the first period.
    pub(crate) fn elements(&self, vector: usize) -> Vec<(usize, usize)> {
        let here = |element: &usize| self.linear(*element) / self.period == vector;
        (0..self.size).filter(here).map(|element| (element, self.linear(element) % self.period)).collect()
    }

    /// One period of slots with `values` at these positions in all rows, and `empty` elsewhere.
    pub(crate) fn in_all_rows<T: Clone>(&self, values: impl IntoIterator<Item = (usize, T)>, empty: T) -> Vec<T> {
        let each = self.stride();
        let mut filled = vec![empty; self.period * each];
        for (position, value) in values {
            filled[position * each..][..each].fill(value);
        }
        filled
    }
}

/// An input or an output of a program: its layout and the ranges of its elements, which client and server share.
#[derive(Clone, Debug, PartialEq)]
pub struct Port {
    name: String,
    layout: Layout,
    encoding: Encoding,
    bound: f64,
}

/// The first element that is far outside, if not all are near. The check for constant time knows this function by its
/// name.
#[inline(never)]
fn check_each_near<I: Iterator<Item = (usize, usize)>>(
    all_near: bool,
    elements: impl Fn() -> I,
    is_near: impl Fn((usize, usize)) -> bool,
) -> Result<(), (usize, usize)> {
    if all_near { Ok(()) } else { elements().find(|element| !is_near(*element)).map_or(Ok(()), Err) }
}

/// The rows of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The rows: rows x elements.
    pub values: Array2<f64>,
    /// Numbers of rows with a value that is too large for rows in the calibrated ranges: polynomials grew outside
    /// their intervals. Not every row outside is found so; [`Port::outside`] finds rows before they are sent.
    pub outside: Vec<usize>,
}

impl Port {
    /// A port with these ranges: element `e` is `middle[e] + radius[e] * slot`. Slots are at most `bound`.
    ///
    /// # Errors
    /// If the lengths are not the size of the layout, or a number is not finite, or a radius or the bound is not
    /// positive.
    pub fn new(
        name: &str,
        layout: Layout,
        middle: Vec<f64>,
        radius: Vec<f64>,
        bound: f64,
    ) -> Result<Self, NetworkError> {
        let lengths = middle.len() == layout.size && radius.len() == layout.size;
        let positive = |x: f64| x > 0.0 && x.is_finite();
        if !lengths || !middle.iter().all(|x| x.is_finite()) || !radius.iter().all(|x| positive(*x)) || !positive(bound)
        {
            let found = format!("{} middles and {} radii for '{name}', bound {bound}", middle.len(), radius.len());
            let needed = format!("{} finite middles and positive radii, and a positive bound", layout.size);
            return Err(NetworkError::mismatch("make a port", found, needed));
        }
        Ok(Port { name: name.into(), layout, encoding: Encoding { middle, radius }, bound })
    }

    pub(crate) fn of(name: &str, layout: Layout, encoding: &Encoding, bound: f64) -> Self {
        Port { name: name.into(), layout, encoding: encoding.clone(), bound }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The ranges of its elements.
    pub fn encoding(&self) -> &Encoding {
        &self.encoding
    }

    /// Bound of its slots for rows in the calibrated ranges.
    pub fn bound(&self) -> f64 {
        self.bound
    }

    /// Numbers of rows with an element outside the range of the calibration rows with its margin. The program may be
    /// wrong for them.
    pub fn outside(&self, rows: ArrayView2<'_, f64>) -> Vec<usize> {
        let is_inside = |(element, x): (usize, &f64)| self.encoding.slot(element, *x).abs() <= 1.0;
        let is_outside = |row: &usize| !rows.row(*row).iter().take(self.layout.size).enumerate().all(is_inside);
        (0..rows.nrows()).filter(is_outside).collect()
    }

    /// The slots of each vector for up to a batch of rows (rows x elements), as many as repeat. Slots without a row are
    /// 0.
    ///
    /// # Errors
    /// If there are no rows or too many, their length does not fit, or a value is not finite, or more than
    /// [`MOST_INPUT`] times as far from the middle of its range as the ends. The message has no values.
    pub fn arrange(&self, rows: ArrayView2<'_, f64>) -> Result<Vec<Vec<Complex64>>, NetworkError> {
        const OPERATION: &str = "arrange rows";
        let (size, batch) = (self.layout.size, self.layout.batch());
        if rows.nrows() == 0 || rows.nrows() > batch || rows.ncols() != size {
            let found = format!("{} rows of {} elements for '{}'", rows.nrows(), rows.ncols(), self.name);
            return Err(NetworkError::mismatch(OPERATION, found, format!("1 to {batch} rows of {size} elements")));
        }
        let slot = |(row, element): (usize, usize)| self.encoding.slot(element, rows[(row, element)]);
        let is_near = |index: (usize, usize)| slot(index).abs() <= MOST_INPUT;
        // All of them, whatever they are: one branch at the end.
        let all_near = rows.indexed_iter().fold(true, |all, (index, _)| all & is_near(index));
        if let Err((row, element)) = check_each_near(all_near, || rows.indexed_iter().map(|(index, _)| index), is_near)
        {
            let found = format!("row {row} with element {element} of '{}' far outside its range", self.name);
            let needed = format!("within {MOST_INPUT} times the calibrated range; calibrate with such rows");
            return Err(NetworkError::mismatch(OPERATION, found, needed));
        }
        let vector = |vector: usize| {
            let mut slots = vec![Complex64::default(); self.layout.period * batch];
            for (element, position) in self.layout.elements(vector) {
                (0..rows.nrows()).for_each(|row| slots[self.layout.slot(position, row)] = slot((row, element)).into());
            }
            slots
        };
        Ok((0..self.layout.vectors()).map(vector).collect())
    }

    /// The first `count` rows of an answer, from the slots of its vectors.
    ///
    /// # Errors
    /// If the number of vectors or of slots is wrong, or `count` is above the batch.
    pub fn read<S: AsRef<[Complex64]>>(&self, vectors: &[S], count: usize) -> Result<Answer, NetworkError> {
        let Layout { size, slots, period, .. } = self.layout;
        let batch = self.layout.batch();
        let wrong = vectors.iter().find(|vector| vector.as_ref().len() != slots);
        if vectors.len() != self.layout.vectors() || wrong.is_some() || count > batch {
            let found = format!("{count} rows in {} vectors", vectors.len());
            let needed = format!("at most {batch} rows in {} vectors of {slots} slots", self.layout.vectors());
            return Err(NetworkError::mismatch("read rows", found, needed));
        }
        let slot = |(row, element): (usize, usize)| {
            let place = self.layout.linear(element);
            vectors[place / period].as_ref()[self.layout.slot(place % period, row)].re
        };
        let values = Array2::from_shape_fn((count, size), |index| self.encoding.value(index.1, slot(index)));
        // Errors are far below one twentieth of a range.
        let most = 1.05 * self.bound;
        let is_outside =
            |row: &usize| (0..size).map(|element| slot((*row, element))).any(|slot| slot.is_nan() || slot.abs() > most);
        Ok(Answer { values, outside: (0..count).filter(is_outside).collect() })
    }
}
