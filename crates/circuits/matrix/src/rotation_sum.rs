//! Sums of a vector with itself, rotated by all multiples of a step: `log2 radix` doublings at a time.

use unspoken_ckks::{Arithmetic, CkksError};

/// Rotations by `offset + step * e` for all `e` below a power of two, in stages: each stage is a sum of rotations.
#[derive(Clone, Debug)]
pub(crate) struct RotationSum {
    stages: Vec<Vec<i64>>,
}

impl RotationSum {
    /// Sums the rotations to the left by `step * (e - skip)` for `e` in `0..count`, in stages of at most `radix`.
    ///
    /// `skip` must be below `count`. As each stage shifts by its own digit of `skip`, no further rotation is needed.
    pub(crate) fn new(step: i64, count: usize, skip: usize, radix: usize) -> Self {
        let mut stages = Vec::new();
        let mut stride = 1;
        while stride < count {
            let digits = radix.min(count / stride);
            let digit = (skip / stride % digits) as i64;
            let rotation = |e: usize| (e as i64 - digit) * stride as i64 * step;
            stages.push((0..digits).map(rotation).collect());
            stride *= digits;
        }
        RotationSum { stages }
    }

    /// The sum, at the level of `a`.
    pub(crate) fn apply<A: Arithmetic>(&self, arithmetic: &A, a: &A::Vector) -> Result<A::Vector, CkksError> {
        sum(arithmetic, a.clone(), &self.stages)
    }

    /// The sum, one level below `a`: the rescale is part of the first stage.
    pub(crate) fn apply_rescale<A: Arithmetic>(&self, arithmetic: &A, a: &A::Vector) -> Result<A::Vector, CkksError> {
        match self.stages.split_first() {
            Some((first, rest)) => sum(arithmetic, arithmetic.sum_rotations_rescale(a, first)?, rest),
            None => arithmetic.rescale(a),
        }
    }
}

fn sum<A: Arithmetic>(arithmetic: &A, a: A::Vector, stages: &[Vec<i64>]) -> Result<A::Vector, CkksError> {
    stages.iter().try_fold(a, |sum, steps| arithmetic.sum_rotations(&sum, steps))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn stages_reach_every_multiple_once() {
        for (count, radix) in [(1, 2), (2, 4), (8, 2), (8, 4), (16, 8), (32, 8), (64, 4)] {
            for skip in 0..count {
                let rotation_sum = RotationSum::new(-5, count, skip, radix);
                let all = rotation_sum.stages.iter().fold(vec![0], |all, stage| {
                    all.iter().flat_map(|&a: &i64| stage.iter().map(move |s| a + s)).collect()
                });
                let expected: BTreeSet<i64> = (0..count).map(|e| -5 * (e as i64 - skip as i64)).collect();
                assert_eq!(all.len(), count);
                assert_eq!(all.into_iter().collect::<BTreeSet<_>>(), expected, "{count} {radix} {skip}");
            }
        }
    }
}
