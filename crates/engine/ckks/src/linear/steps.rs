//! The split of the diagonals of a linear transformation into baby steps and giant steps.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use unspoken_ring::HELD_IMAGES;

/// Most sums, one for each giant step of each result, that are held at the same time. For more results, inputs are
/// rotated again.
const MOST_SUMS: usize = 64;

/// The split of diagonals into baby steps and giant steps: `k = difference * i` (modulo the slots), and `i - first =
/// giant * babies + baby`. Baby steps rotate by `difference * (first + baby)`, all from one digit decomposition. Giant
/// steps rotate by multiples of `difference * babies`.
///
/// Diagonals in an arithmetic progression of `count` terms need `babies + 1` keys and `babies + count / babies`
/// rotations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    /// Distance between neighbouring diagonals. Every diagonal must be a multiple of it modulo the slots.
    pub difference: usize,
    /// Number of the first diagonal, in units of the difference. May be negative.
    pub first: i64,
    /// Number of baby steps, at least 1.
    pub babies: usize,
}

/// What a linear transformation, or sums of some, consist of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepCounts {
    /// Number of inputs, each of which is decomposed once.
    pub inputs: usize,
    /// Number of results, each of which is divided once.
    pub outputs: usize,
    /// Number of diagonals.
    pub diagonals: usize,
    /// Number of baby steps that rotate, over all inputs.
    pub babies: usize,
    /// Number of giant steps that rotate, over all results.
    pub giants: usize,
    /// Number of additions of undivided sums of several inputs.
    pub additions: usize,
}

impl Steps {
    /// Steps for diagonals numbered from 0, one apart.
    pub const fn of_babies(babies: usize) -> Self {
        Steps { difference: 1, first: 0, babies }
    }

    /// What a transformation with these diagonals, which are all different, consists of. Diagonals that are no
    /// multiples of the difference count, but have no steps.
    pub fn counts(&self, diagonals: &[usize], slots: usize) -> StepCounts {
        let offsets = Offsets::new(self, slots);
        let babies_at_most = self.babies.min(offsets.period);
        let (mut babies, mut giants) = (Set::new(babies_at_most), Set::new(offsets.period.div_ceil(self.babies)));
        for offset in diagonals.iter().filter_map(|&k| offsets.of(k)) {
            babies.insert(offset % self.babies);
            giants.insert(offset / self.babies);
        }
        // The first giant step and the baby step of diagonal 0 do not rotate.
        giants.remove(0);
        offsets.of(0).filter(|&baby| baby < babies_at_most).iter().for_each(|&baby| babies.remove(baby));
        StepCounts {
            inputs: 1,
            outputs: 1,
            diagonals: diagonals.len(),
            babies: babies.len(),
            giants: giants.len(),
            additions: 0,
        }
    }

    /// What sums of transformations consist of ([`Arithmetic::linear_sums`](crate::Arithmetic::linear_sums)): for each
    /// result, numbers of inputs and the diagonals of their transformations.
    pub fn counts_of_sums(&self, rows: &[Vec<(usize, Vec<usize>)>], slots: usize) -> StepCounts {
        let split = |diagonals: &Vec<usize>| diagonals.iter().filter_map(|&k| self.split(k, slots)).collect();
        let rows = rows.iter().map(|row| row.iter().map(|(input, diagonals)| (*input, split(diagonals))).collect());
        counts(self, slots, &groups(rows))
    }

    /// The giant and the baby number of diagonal `k`, or `None` if `k` is not a multiple of the difference.
    pub(crate) fn split(&self, k: usize, slots: usize) -> Option<(usize, usize)> {
        let offset = Offsets::new(self, slots).of(k)?;
        Some((offset / self.babies, offset % self.babies))
    }

    /// The rotation of a baby number.
    pub(crate) fn baby(&self, baby: usize, slots: usize) -> usize {
        rotation(self.difference, self.first + baby as i64, slots)
    }

    /// The rotation of a giant number, or of the difference of two.
    pub(crate) fn giant(&self, giant: usize, slots: usize) -> usize {
        rotation(self.difference, (giant * self.babies) as i64, slots)
    }
}

/// The steps of a group of results of sums, which are computed together.
pub(super) struct Group {
    /// The numbers of the results.
    pub(super) rows: Range<usize>,
    /// The baby numbers of each input in use.
    pub(super) babies: BTreeMap<usize, BTreeSet<usize>>,
    /// The giant numbers of each result.
    pub(super) giants: Vec<BTreeSet<usize>>,
    /// Number of pairs of an input and a sum.
    pairs: usize,
    diagonals: usize,
}

impl Group {
    /// The numbers of inputs that are lifted and multiplied at the same time: those with so few rotations that all are
    /// held share what is read of the sums. If diagonals are streamed, inputs come one after the other, for the sake of
    /// memory.
    pub(super) fn parts(&self, is_streamed: bool) -> Vec<Vec<usize>> {
        let most = if is_streamed { 1 } else { HELD_IMAGES };
        let mut parts: Vec<Vec<usize>> = Vec::new();
        let mut images = usize::MAX;
        for (&input, babies) in &self.babies {
            images = images.saturating_add(babies.len());
            match parts.last_mut().filter(|_| images <= most) {
                Some(part) => part.push(input),
                None => {
                    images = babies.len();
                    parts.push(vec![input]);
                }
            }
        }
        parts
    }

    /// Number of rotated inputs of a part.
    pub(super) fn images(&self, part: &[usize]) -> usize {
        part.iter().map(|input| self.babies[input].len()).sum()
    }
}

/// Groups of results whose sums are held at the same time. Each result has numbers of inputs, and the giant and baby
/// numbers of the diagonals of their transformations.
pub(super) fn groups(rows: impl Iterator<Item = Vec<(usize, Vec<(usize, usize)>)>>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut held = usize::MAX;
    for (number, row) in rows.enumerate() {
        let giants: BTreeSet<usize> = row.iter().flat_map(|(_, split)| split).map(|(giant, _)| *giant).collect();
        if held.saturating_add(giants.len()) > MOST_SUMS {
            let rows = number..number;
            groups.push(Group { rows, babies: BTreeMap::new(), giants: Vec::new(), pairs: 0, diagonals: 0 });
            held = 0;
        }
        held += giants.len();
        if let Some(group) = groups.last_mut() {
            group.rows.end = number + 1;
            group.giants.push(giants);
            for (input, split) in row {
                group.pairs += split.iter().map(|(giant, _)| giant).collect::<BTreeSet<_>>().len();
                group.diagonals += split.len();
                group.babies.entry(input).or_default().extend(split.iter().map(|(_, baby)| baby));
            }
        }
    }
    groups
}

/// What these groups consist of.
pub(super) fn counts(steps: &Steps, slots: usize, groups: &[Group]) -> StepCounts {
    let mut counts = StepCounts::default();
    for Group { babies, giants, pairs, diagonals, .. } in groups {
        counts.inputs += babies.len();
        counts.outputs += giants.len();
        counts.babies += babies.values().flatten().filter(|&&baby| steps.baby(baby, slots) != 0).count();
        counts.giants += giants.iter().flatten().filter(|&&giant| giant != 0).count();
        counts.additions += pairs - giants.iter().map(BTreeSet::len).sum::<usize>();
        counts.diagonals += diagonals;
    }
    counts
}

/// `difference * count` modulo the slots.
fn rotation(difference: usize, count: i64, slots: usize) -> usize {
    (difference as i128 * i128::from(count)).rem_euclid(slots as i128) as usize
}

/// The numbers of diagonals, counted from the first.
struct Offsets {
    /// Number of factors 2 of the difference.
    twos: u32,
    /// The inverse of the rest of the difference.
    inverse: usize,
    /// Number of different multiples of the difference, a power of two.
    period: usize,
    first: i64,
}

impl Offsets {
    fn new(steps: &Steps, slots: usize) -> Self {
        // The number of slots is a power of two. The difference is a power of two times an odd factor, which is
        // invertible.
        let twos = steps.difference.trailing_zeros().min(slots.trailing_zeros());
        let (period, odd) = (slots >> twos, steps.difference >> twos);
        // Newton's iteration: each step doubles the number of correct bits, starting from three (odd^2 = 1 modulo 8).
        let inverse = (0..5).fold(odd, |x, _| x.wrapping_mul(2usize.wrapping_sub(odd.wrapping_mul(x))));
        Offsets { twos, inverse, period, first: steps.first }
    }

    /// The number of diagonal `k` from the first, or `None` if `k` is not a multiple of the difference.
    fn of(&self, k: usize) -> Option<usize> {
        if k & ((1 << self.twos) - 1) != 0 {
            return None;
        }
        let index = (k >> self.twos).wrapping_mul(self.inverse) & (self.period - 1);
        Some((index as i64 - self.first).rem_euclid(self.period as i64) as usize)
    }
}

/// A set of numbers below a bound, as bits.
struct Set(Vec<u64>);

impl Set {
    fn new(bound: usize) -> Self {
        Set(vec![0; bound.div_ceil(64)])
    }

    fn insert(&mut self, number: usize) {
        self.0[number / 64] |= 1 << (number % 64);
    }

    fn remove(&mut self, number: usize) {
        self.0[number / 64] &= !(1 << (number % 64));
    }

    fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_those_of_the_steps_that_rotate() {
        let slots = 64;
        for difference in [1, 2, 3, 6, 12, 32, 63] {
            for (first, babies) in [(0, 1), (-5, 3), (-5, 8), (4, 5), (-40, 64), (3, 64)] {
                let steps = Steps { difference, first, babies };
                let all: Vec<usize> = (0..slots).filter(|k| steps.split(*k, slots).is_some()).collect();
                for diagonals in [&all[..], &all[1..], &all[all.len() / 2..], &all[..1]] {
                    let (giants, numbers): (BTreeSet<usize>, BTreeSet<usize>) =
                        diagonals.iter().filter_map(|&k| steps.split(k, slots)).unzip();
                    let expected = StepCounts {
                        inputs: 1,
                        outputs: 1,
                        additions: 0,
                        diagonals: diagonals.len(),
                        babies: numbers.into_iter().filter(|&baby| steps.baby(baby, slots) > 0).count(),
                        giants: giants.into_iter().filter(|&giant| giant > 0).count(),
                    };
                    assert_eq!(steps.counts(diagonals, slots), expected, "{steps:?} {diagonals:?}");
                }
            }
        }
        let odd = StepCounts { inputs: 1, outputs: 1, diagonals: 3, babies: 0, giants: 1, additions: 0 };
        assert_eq!(Steps { difference: 2, first: 0, babies: 1 }.counts(&[0, 1, 2], slots), odd);
    }
}
