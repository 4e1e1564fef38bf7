//! Sums of slots that lie in an arithmetic progression.

use unspoken_ckks::{Arithmetic, CkksError};

/// Rotations added in one step: hoisted, and divided once.
const RADIX: usize = 4;

/// Sums `count` (a power of two) slots that are `stride` apart, into every slot that has so many after it: four at a
/// time, with one raise of digits and one division for each four.
pub(crate) fn sum_strided<A: Arithmetic>(
    arithmetic: &A,
    a: &A::Vector,
    stride: usize,
    count: usize,
) -> Result<A::Vector, CkksError> {
    let (mut sum, mut stride, mut left) = (a.clone(), stride, count);
    while left > 1 {
        let radix = left.min(RADIX);
        let steps: Vec<i64> = (0..radix).map(|i| (i * stride) as i64).collect();
        sum = arithmetic.sum_rotations(&sum, &steps)?;
        (stride, left) = (stride * radix, left / radix);
    }
    Ok(sum)
}
