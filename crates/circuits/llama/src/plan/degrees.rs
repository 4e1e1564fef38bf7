//! Degrees of polynomials.

use std::collections::BTreeMap;

use crate::arithmetic::Function;
use crate::design::Design;
use crate::place::{Place, Quantity};

/// Degrees of the polynomials that replace functions, by function and place.
#[derive(Clone, Debug, PartialEq)]
pub struct Degrees {
    /// Degree of the exponential function at every place without a degree of its own.
    pub exponential: usize,
    /// Degree of SiLU.
    pub silu: usize,
    /// Degree of the inverse square root in norms.
    pub norm: usize,
    /// Degrees of the inverse square root in the rounds of softmax. Rounds after the last one have the last degree.
    pub softmax: Vec<usize>,
    /// Degrees of single places, which come before the others.
    pub places: BTreeMap<Place, usize>,
}

impl Default for Degrees {
    /// The paper's exponential (15) and last round (its 128 as 127, which has the same depth); 63 for SiLU and norms;
    /// 31 for the first round, which need not be accurate (Section 4.4).
    fn default() -> Self {
        Degrees { exponential: 15, silu: 63, norm: 63, softmax: vec![31, 127], places: BTreeMap::new() }
    }
}

impl Degrees {
    /// The degrees of a design.
    pub fn of_design(design: &Design) -> Self {
        let degrees = design.approximations().map(|(place, approximation)| (place, approximation.degree()));
        Degrees { places: degrees.collect(), ..Degrees::default() }
    }

    /// The degree of a function at a place.
    pub fn of(&self, function: Function, place: Place) -> usize {
        let round = |round: u8| self.softmax.get(usize::from(round)).or(self.softmax.last()).copied();
        let general = match (function, place.quantity) {
            (Function::Exponential, _) => self.exponential,
            (Function::Silu, _) => self.silu,
            (Function::InverseSqrt, Quantity::SoftmaxFactor(number)) => round(number).unwrap_or(self.norm),
            (Function::InverseSqrt, _) => self.norm,
        };
        self.places.get(&place).copied().unwrap_or(general)
    }
}

/// Levels that a polynomial of a degree takes: `ceil(log2(degree + 1))`. The affine map of its interval is part of the
/// operation before it.
pub(super) fn depth(degree: usize) -> usize {
    (degree + 1).next_power_of_two().trailing_zeros() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_with_its_own_degree_comes_before_its_function() {
        let place = |quantity| Place::new(3, quantity);
        let mut degrees = Degrees::default();
        let last = place(Quantity::SoftmaxFactor(1));
        assert_eq!(degrees.of(Function::InverseSqrt, place(Quantity::SoftmaxFactor(0))), 31);
        assert_eq!(degrees.of(Function::InverseSqrt, last), 127);
        assert_eq!(degrees.of(Function::InverseSqrt, place(Quantity::SoftmaxFactor(2))), 127);
        assert_eq!(degrees.of(Function::InverseSqrt, place(Quantity::FfnNormFactor)), 63);
        degrees.places.insert(last, 255);
        assert_eq!(degrees.of(Function::InverseSqrt, last), 255);
        assert_eq!([15, 16, 63, 127, 128].map(depth), [4, 5, 6, 7, 8]);
    }
}
