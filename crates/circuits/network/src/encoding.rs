//! How values are scaled into the slots.

use crate::ranges::Interval;

/// Smallest radius of an element before a function, as a part of the largest radius of its value: an element that
/// hardly varies in the calibration rows may vary more in others. With a sixteenth, 33 of 1,024 pictures left the
/// ranges of a ResNet-20 so far that polynomials of degree 62 grew without bound. With a quarter, no value of them is
/// more than 1.2 times outside.
const FLOOR: f64 = 1.0 / 4.0;

/// The slots of a value: element `e` is `middle[e] + radius[e] * slot`, so that slots are from -1 to 1 in the ranges.
#[derive(Clone, Debug, PartialEq)]
pub struct Encoding {
    pub(crate) middle: Vec<f64>,
    pub(crate) radius: Vec<f64>,
}

impl Encoding {
    /// The number in the middle of the range of each element.
    pub fn middle(&self) -> &[f64] {
        &self.middle
    }

    /// Half of the length of the range of each element, with its margin. Positive.
    pub fn radius(&self) -> &[f64] {
        &self.radius
    }

    /// The slot of an element.
    pub(crate) fn slot(&self, element: usize, value: f64) -> f64 {
        (value - self.middle[element]) / self.radius[element]
    }

    /// The element of a slot.
    pub(crate) fn value(&self, element: usize, slot: f64) -> f64 {
        self.middle[element] + self.radius[element] * slot
    }

    /// The range of each element on its own. Radii may be 0; see [`Encoding::separate`] and [`Encoding::floored`].
    pub(crate) fn each(ranges: &[Interval], margin: f64) -> Self {
        let radius = ranges.iter().map(|range| range.radius() * margin).collect();
        Encoding { middle: ranges.iter().map(Interval::middle).collect(), radius }
    }

    /// Ranges around 0 that reach as far as this, for products and for functions that keep factors. Radii may be 0.
    pub(crate) fn symmetric(reaches: &[f64], margin: f64) -> Self {
        let radius = reaches.iter().map(|reach| reach * margin).collect();
        Encoding { middle: vec![0.0; reaches.len()], radius }
    }

    /// One range for all elements.
    pub(crate) fn common(range: Interval, size: usize, margin: f64, around_zero: bool) -> Self {
        let (middle, radius) = if around_zero { (0.0, range.magnitude()) } else { (range.middle(), range.radius()) };
        Encoding { middle: vec![middle; size], radius: vec![radius * margin; size] }.separate()
    }

    /// The same with positive radii, for elements of different units.
    pub(crate) fn separate(mut self) -> Self {
        for (radius, middle) in self.radius.iter_mut().zip(&self.middle) {
            let varies = *radius > middle.abs() * 1e-12 && *radius > f64::MIN_POSITIVE;
            if !varies {
                *radius = if *middle == 0.0 { 1.0 } else { middle.abs() };
            }
        }
        self
    }

    /// The same with radii that are not far below the largest, for elements that are alike.
    pub(crate) fn floored(mut self) -> Self {
        let least = FLOOR * self.radius.iter().copied().fold(0.0, f64::max);
        self.radius.iter_mut().for_each(|radius| *radius = radius.max(least));
        self.separate()
    }

    /// Whether all elements have the same range.
    pub(crate) fn is_uniform(&self) -> bool {
        let same = |list: &[f64]| list.iter().all(|x| *x == list[0]);
        same(&self.middle) && same(&self.radius)
    }

    /// Whether all ranges have 0 in the middle.
    pub(crate) fn is_around_zero(&self) -> bool {
        self.middle.iter().all(|middle| *middle == 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_that_do_not_vary_get_a_radius_that_fits_the_others() {
        let ranges = [(0.0, 0.0), (-1e-6, 1e-6), (2.0, 2.0)].map(|(low, high)| Interval { low, high });
        assert_eq!(Encoding::each(&ranges[..2], 2.0).floored().radius, [2e-6 / 4.0, 2e-6]);
        assert_eq!(Encoding::each(&ranges, 2.0).separate().radius, [1.0, 2e-6, 2.0]);
        assert_eq!(Encoding::symmetric(&[0.0, 0.0], 2.0).floored().radius, [1.0, 1.0]);
        let common = Encoding::common(Interval { low: 1.0, high: 3.0 }, 1, 1.5, false);
        assert_eq!((common.slot(0, 3.5), common.value(0, 1.0)), (1.0, 3.5));
        assert!(!common.is_around_zero() && common.is_uniform());
    }
}
