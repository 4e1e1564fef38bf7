//! Inner sums: sums of slots whose indices form an arithmetic progression.

use unspoken_rlwe::{KeyKind, KeyPlan, galois};

use crate::error::CkksError;
use crate::parameters::CkksParameters;

/// The sum of a vector's rotations by `stride * (e - skip)` for all `e` below `count`.
///
/// One stage sums `radix` rotations with one digit decomposition and one division, in place of `log2 radix` doublings.
/// A larger radix needs fewer stages and more keys: `radix - 1` per stage. `skip` needs no extra rotation, because each
/// stage shifts by its own digit of `skip`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InnerSum {
    /// The rotations that each stage sums, in the order of the stages.
    pub(crate) stages: Vec<Vec<i64>>,
}

impl InnerSum {
    /// The radix of [`InnerSum::new`]: a stage of four rotations takes less time than two doublings.
    pub const RADIX: usize = 4;

    /// Sums `count` slots that are `stride` apart: each slot and the `count - 1` slots after it.
    ///
    /// # Errors
    /// If `count` is not a power of two.
    pub fn new(stride: i64, count: usize) -> Result<Self, CkksError> {
        Self::with_radix(stride, count, 0, Self::RADIX)
    }

    /// Sums `count` slots that are `stride` apart: each slot, `skip` slots before it, and `count - skip - 1` slots
    /// after it. Each stage sums at most `radix` rotations.
    ///
    /// # Errors
    /// If `count` is not a power of two, `radix` is not a power of two of at least 2, or `skip` is not below `count`.
    pub fn with_radix(stride: i64, count: usize, skip: usize, radix: usize) -> Result<Self, CkksError> {
        let refuse = |found, needed: &str| CkksError::Shape { operation: "inner sum", found, needed: needed.into() };
        if !count.is_power_of_two() {
            return Err(refuse(count, "a number of slots that is a power of two"));
        }
        if !radix.is_power_of_two() || radix < 2 {
            return Err(refuse(radix, "a radix that is a power of two and at least 2"));
        }
        if skip >= count {
            return Err(refuse(skip, "a skip below the number of summed slots"));
        }
        let mut stages = Vec::new();
        let mut summed = 1;
        while summed < count {
            let terms = radix.min(count / summed);
            let skipped = (skip / summed % terms) as i64;
            let rotation = |e: usize| (e as i64 - skipped) * summed as i64 * stride;
            stages.push((0..terms).map(rotation).collect());
            summed *= terms;
        }
        Ok(InnerSum { stages })
    }

    /// The keys that [`InnerSum::apply`] needs for vectors at `level`.
    pub fn key_plan(&self, parameters: &CkksParameters, level: usize) -> KeyPlan {
        let (ring, basis) = (parameters.ring(), parameters.basis(level));
        let mut plan = KeyPlan::new();
        for &steps in self.stages.iter().flatten() {
            let element = galois::rotation(ring, steps);
            if element != 1 {
                plan.require_over(KeyKind::Galois { element }, basis);
            }
        }
        plan
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn stages_reach_every_multiple_once() {
        for (count, radix) in [(1, 2), (2, 4), (8, 2), (8, 4), (16, 8), (32, 8), (64, 4)] {
            for skip in 0..count {
                let sum = InnerSum::with_radix(-5, count, skip, radix).unwrap();
                let all = sum.stages.iter().fold(vec![0], |all, stage| {
                    all.iter().flat_map(|&a: &i64| stage.iter().map(move |s| a + s)).collect()
                });
                let expected: BTreeSet<i64> = (0..count).map(|e| -5 * (e as i64 - skip as i64)).collect();
                assert_eq!(all.len(), count);
                assert_eq!(all.into_iter().collect::<BTreeSet<_>>(), expected, "{count} {radix} {skip}");
            }
        }
    }

    #[test]
    fn sums_that_are_none_are_refused() {
        assert!(InnerSum::new(1, 3).is_err() && InnerSum::new(1, 0).is_err());
        assert!(InnerSum::with_radix(1, 4, 4, 2).is_err() && InnerSum::with_radix(1, 4, 0, 3).is_err());
        assert!(InnerSum::with_radix(1, 4, 0, 1).is_err());
    }
}
