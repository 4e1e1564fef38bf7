//! The numbers of a table beside the error of a lookup.

use std::fmt;

/// The numbers of a table beside the bound of the error of a lookup in it, all in the same unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Precision {
    /// Bound of the error of an output, by simulation.
    pub error_bound: f64,
    /// The largest magnitude of an entry.
    pub largest: f64,
    /// Number of differences between entries, or of entries, that can matter: all that are not 0.
    pub differences: usize,
    /// Number of these that are below the bound of the error.
    pub lost: usize,
}

impl Precision {
    /// Compares the `differences` that matter with the bound of the error.
    pub fn new(error_bound: f64, largest: f64, differences: impl Iterator<Item = f64>) -> Self {
        let (mut count, mut lost) = (0, 0);
        for difference in differences.map(f64::abs).filter(|&difference| difference > 0.0) {
            count += 1;
            lost += usize::from(difference < error_bound);
        }
        Precision { error_bound, largest, differences: count, lost }
    }

    /// Whether the error hides a quarter or more of the differences: answers that depend on them may be wrong.
    pub fn is_low(&self) -> bool {
        self.lost > 0 && 4 * self.lost >= self.differences
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Precision { error_bound, largest, differences, lost } = self;
        write!(
            f,
            "the error bound is {error_bound:.1e} and the largest entry {largest:.1e}; {lost} of {differences} \
             differences in the table are below the error bound"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_below_the_error_are_counted() {
        let precision = Precision::new(1e-3, 7.0, [0.0, 5.0, -4e-4, 1e-3, -2.0].into_iter());
        assert_eq!((precision.differences, precision.lost, precision.is_low()), (4, 1, true));
        let text = precision.to_string();
        assert!(text.contains("error bound is 1.0e-3 and the largest entry 7.0e0; 1 of 4 differences"), "{text}");
        assert!(!Precision::new(1e-3, 7.0, [4.0, 1.0, 1.0, 1.0, 1e-4].into_iter()).is_low());
        assert!(!Precision::new(1e-3, 0.0, std::iter::empty()).is_low());
    }
}
