//! The Benes network of any permutation, and its collapsed forms.
//!
//! Sources: Benes, "Optimal rearrangeable multistage connecting networks" (1964); collapsing levels: Halevi and Shoup,
//! "Algorithms in HElib" (CRYPTO 2014), section 4. A level exchanges entries whose positions differ in one bit: its
//! shifts are 0 and plus or minus that power of two. From the outside in, levels use the bits from the highest down, so
//! the remaining permutation after some levels is a permutation within blocks.

use crate::error::{PermuteError, shape};
use crate::permutation::Permutation;

const OPERATION: &str = "route a Benes network";

/// The `2 log2 n - 1` levels of the network of a permutation whose length `n` is a power of two, in the order they are
/// applied. Level `l` of the first half exchanges bit `log2 n - 1 - l`; the second half is its mirror image. The
/// routing of each loop starts with an entry that stays, so that entries which the permutation leaves in place stay in
/// place on every level.
///
/// # Errors
/// If the length is not a power of two.
pub fn levels(permutation: &Permutation) -> Result<Vec<Permutation>, PermuteError> {
    let n = permutation.len();
    if !n.is_power_of_two() {
        return Err(shape(OPERATION, format!("length {n}"), "a power of two; pad it"));
    }
    let mut inner = permutation.clone();
    let (mut inward, mut outward) = (Vec::new(), Vec::new());
    let mut size = n;
    while size > 2 {
        let (first, middle, last) = peel(&inner, size);
        inward.push(first);
        outward.push(last);
        inner = middle;
        size /= 2;
    }
    if size == 2 {
        inward.push(inner);
    }
    inward.extend(outward.into_iter().rev());
    Ok(inward)
}

/// The collapsed network, whose factors merge the levels of a group of bits. Groups are taken from the highest bit
/// down; each of the first `groups.len() - 1` groups gives one factor on the way in and one on the way out, and the
/// last group gives the middle factor. There are always `2 groups.len() - 1` factors, also if some are the identity.
///
/// # Errors
/// If the groups do not add up to `log2` of the length, or a group is empty.
pub fn collapsed(permutation: &Permutation, groups: &[u32]) -> Result<Vec<Permutation>, PermuteError> {
    collapsed_levels(&levels(permutation)?, groups)
}

/// As [`collapsed`], from the levels of the network.
pub(crate) fn collapsed_levels(levels: &[Permutation], groups: &[u32]) -> Result<Vec<Permutation>, PermuteError> {
    let bits: u32 = groups.iter().sum();
    if 2 * bits as usize != levels.len() + 1 || groups.contains(&0) {
        let found = format!("groups of {groups:?} bits for {} levels", levels.len());
        return Err(shape(OPERATION, found, "groups that add up to the bits of the length"));
    }
    let (mut start, count) = (0, levels.len());
    let (mut inward, mut outward) = (Vec::new(), Vec::new());
    let merge = |range: std::ops::Range<usize>| {
        let (first, rest) = levels[range].split_first().ok_or_else(|| shape(OPERATION, "no levels", "some"))?;
        rest.iter().try_fold(first.clone(), |product, level| product.then(level))
    };
    let outer = groups.len().saturating_sub(1);
    for &group in &groups[..outer] {
        let end = start + group as usize;
        inward.push(merge(start..end)?);
        outward.push(merge(count - end..count - start)?);
        start = end;
    }
    if start < count - start {
        inward.push(merge(start..count - start)?);
    }
    inward.extend(outward.into_iter().rev());
    Ok(inward)
}

/// Splits off the outermost levels of a permutation within blocks of `size`. Returns exchanges of entries half a block
/// apart, a permutation within half blocks, and the final exchanges of entries half a block apart.
fn peel(permutation: &Permutation, size: usize) -> (Permutation, Permutation, Permutation) {
    let (n, half) = (permutation.len(), size / 2);
    let source = permutation.source();
    let target = permutation.inverse();
    let partner = |position: usize| position ^ half;
    // By position in the result: whether its entry passes through the upper half.
    let mut upper: Vec<Option<bool>> = vec![None; n];
    for start in 0..n {
        let (mut position, mut up) = (start, source[start] as usize & half != 0);
        while upper[position].is_none() {
            upper[position] = Some(up);
            // The other entry of this pair of the result passes through the other half. That forces the entry which
            // shares an input pair with it.
            let other = partner(position);
            upper[other] = Some(!up);
            position = target.source()[partner(source[other] as usize)] as usize;
            up = upper[other].is_some_and(|other| !other);
        }
    }
    let (mut first, mut middle, mut last) = (vec![0; n], vec![0; n], vec![0; n]);
    for position in 0..n {
        let through = if upper[position].unwrap_or(false) { half } else { 0 };
        let from = source[position] as usize;
        let (entered, left) = (from & !half | through, position & !half | through);
        first[entered] = from as u32;
        middle[left] = entered as u32;
        last[position] = left as u32;
    }
    (Permutation::trusted(first), Permutation::trusted(middle), Permutation::trusted(last))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::diagonals::{Diagonals, Shifts};
    use crate::factors::to_depth;

    fn check(permutation: &Permutation) {
        let levels = levels(permutation).unwrap();
        let bits = permutation.len().ilog2() as usize;
        assert_eq!(levels.len(), 2 * bits - 1);
        assert_eq!(&to_depth(&levels, 1).unwrap()[0], permutation);
        for (l, level) in levels.iter().enumerate() {
            let bit = bits - 1 - l.min(levels.len() - 1 - l);
            assert!(level.distances().all(|shift| shift == 0 || shift.abs() == 1 << bit));
        }
    }

    /// Heap's algorithm.
    pub(crate) fn for_each_permutation(n: usize, mut visit: impl FnMut(&Permutation)) {
        let mut source: Vec<u32> = (0..n as u32).collect();
        let mut state = vec![0usize; n];
        visit(&Permutation::new(source.clone()).unwrap());
        let mut i = 1;
        while i < n {
            if state[i] < i {
                source.swap(if i % 2 == 0 { 0 } else { state[i] }, i);
                visit(&Permutation::new(source.clone()).unwrap());
                state[i] += 1;
                i = 1;
            } else {
                state[i] = 0;
                i += 1;
            }
        }
    }

    #[test]
    fn every_permutation_of_four_and_eight() {
        for n in [2usize, 4, 8] {
            let mut count = 0;
            for_each_permutation(n, |permutation| {
                check(permutation);
                count += 1;
            });
            assert_eq!(count, (1..=n).product::<usize>());
        }
    }

    #[test]
    fn random_ones_of_real_lengths_collapse_to_any_groups() {
        for log2 in [9u32, 12, 15] {
            let permutation = Permutation::random(1 << log2, 7).unwrap();
            check(&permutation);
            for groups in [vec![log2], vec![3; log2 as usize / 3], vec![log2 - 4, 4], vec![1; log2 as usize]] {
                let factors = collapsed(&permutation, &groups).unwrap();
                assert_eq!(factors.len(), 2 * groups.len() - 1);
                assert_eq!(to_depth(&factors, 1).unwrap()[0], permutation);
                let (mut high, middle) = (log2, factors.len() / 2);
                for (g, &bits) in groups.iter().enumerate() {
                    high -= bits;
                    for factor in [&factors[g], &factors[2 * middle - g]] {
                        let diagonals = Diagonals::new(factor, Shifts::Exact).len();
                        assert!(diagonals < 2 << bits);
                        assert!(factor.distances().all(|shift| shift % (1 << high) == 0));
                    }
                }
            }
        }
        assert!(collapsed(&Permutation::identity(8).unwrap(), &[2]).is_err());
        assert!(collapsed(&Permutation::identity(8).unwrap(), &[3, 0]).is_err());
        assert!(levels(&Permutation::identity(6).unwrap()).is_err());
    }

    #[test]
    fn what_stays_is_not_moved_on_the_way() {
        let swap = Permutation::swap(256, 3, 200).unwrap();
        let moved: usize =
            levels(&swap).unwrap().iter().map(|level| level.distances().filter(|&shift| shift != 0).count()).sum();
        assert!(moved <= 4 * 15, "{moved} moves");
        assert!(levels(&Permutation::identity(256).unwrap()).unwrap().iter().all(Permutation::is_identity));
    }
}
