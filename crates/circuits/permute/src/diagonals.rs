//! The non-zero diagonals of a permutation matrix.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::permutation::Permutation;

/// Placement of a vector that is shorter than the slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Packing {
    /// The vector is repeated through all slots: a rotation of the slots is a cyclic rotation of the vector, so shifts
    /// count modulo its length.
    Repeated,
    /// Independent vectors side by side, all permuted alike. This includes a single vector followed by zeros. Shifts
    /// are exact, and no entry leaves its vector.
    Blocks,
}

/// Representation of the distance of an entry as a shift to the left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Shifts {
    /// Source minus position. The only representation allowed for [`Packing::Blocks`].
    Exact,
    /// Modulo the length, from 0 to below the length.
    Forward,
    /// Modulo the length, at most half of the length in absolute value.
    Balanced,
}

impl Packing {
    /// The representations of shifts that this packing allows.
    pub fn shifts(self) -> &'static [Shifts] {
        match self {
            Packing::Repeated => &[Shifts::Exact, Shifts::Forward, Shifts::Balanced],
            Packing::Blocks => &[Shifts::Exact],
        }
    }
}

impl Shifts {
    /// The shift of an entry that moves by `distance` in a vector of `length`.
    pub fn read(self, distance: i64, length: usize) -> i64 {
        let length = length as i64;
        match self {
            Shifts::Exact => distance,
            Shifts::Forward => distance.rem_euclid(length),
            Shifts::Balanced => {
                let forward = distance.rem_euclid(length);
                if 2 * forward > length { forward - length } else { forward }
            }
        }
    }
}

/// The non-zero diagonals of a permutation matrix: for each shift to the left, the positions of the result whose
/// entries move by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagonals {
    length: usize,
    shifts: BTreeMap<i64, Vec<u32>>,
}

/// The shifts of the non-zero diagonals of a permutation matrix in ascending order, without the positions on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShiftSet(Vec<i64>);

/// An arithmetic progression that contains all diagonals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progression {
    /// Difference of neighbouring terms, at least 1.
    pub difference: usize,
    /// The first term divided by the difference.
    pub first: i64,
    /// Number of terms from the first diagonal to the last, including terms without a diagonal.
    pub count: usize,
}

impl Diagonals {
    /// The diagonals of a permutation.
    pub fn new(permutation: &Permutation, shifts: Shifts) -> Self {
        let length = permutation.len();
        // By counting: shifts are between minus the length and the length.
        let whole = length as i64;
        let at = |distance: i64| {
            let forward = distance + if distance < 0 { whole } else { 0 };
            let shift = match shifts {
                Shifts::Exact => distance,
                Shifts::Forward => forward,
                Shifts::Balanced => forward - if 2 * forward > whole { whole } else { 0 },
            };
            (shift + whole) as usize
        };
        let mut counts = vec![0u32; 2 * length + 1];
        permutation.distances().for_each(|distance| counts[at(distance)] += 1);
        let mut numbers = vec![0u32; 2 * length + 1];
        let mut found: Vec<(i64, Vec<u32>)> = Vec::new();
        for (shift, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            numbers[shift] = found.len() as u32;
            found.push((shift as i64 - length as i64, Vec::with_capacity(count as usize)));
        }
        for (position, distance) in permutation.distances().enumerate() {
            found[numbers[at(distance)] as usize].1.push(position as u32);
        }
        let diagonals = found.into_iter().collect();
        Diagonals { length, shifts: diagonals }
    }

    /// The diagonals with these shifts and positions, for vectors of `length`.
    pub(crate) fn of_shifts(length: usize, shifts: BTreeMap<i64, Vec<u32>>) -> Self {
        Diagonals { length, shifts }
    }

    /// The length of the vector.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Number of non-zero diagonals.
    #[allow(clippy::len_without_is_empty)] // A permutation has at least one.
    pub fn len(&self) -> usize {
        self.shifts.len()
    }

    /// The common shift of all entries, if they have the same one. The permutation is then a rotation, which needs no
    /// mask.
    pub fn single(&self) -> Option<i64> {
        let mut shifts = self.shifts.keys();
        shifts.next().copied().filter(|_| shifts.next().is_none())
    }

    /// Each shift with its positions in the result, in ascending order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (i64, &[u32])> + '_ {
        self.shifts.iter().map(|(&shift, positions)| (shift, positions.as_slice()))
    }

    /// The progression with the largest difference that contains all diagonals.
    pub fn progression(&self) -> Progression {
        progression(self.shifts.keys().copied())
    }
}

impl ShiftSet {
    /// The shifts of the diagonals of a permutation of `length` entries that moves its entries by these distances.
    pub(crate) fn new(distances: &[i64], shifts: Shifts, length: usize) -> Self {
        let mut set: Vec<i64> = distances.iter().map(|&distance| shifts.read(distance, length)).collect();
        set.sort_unstable();
        set.dedup();
        ShiftSet(set)
    }

    /// The shifts of a layer.
    pub(crate) fn of_layer(shifts: &BTreeMap<i64, Vec<u32>>) -> Self {
        ShiftSet(shifts.keys().copied().collect())
    }

    /// The common shift of all entries, as [`Diagonals::single`].
    pub(crate) fn single(&self) -> Option<i64> {
        if let [shift] = self.0[..] { Some(shift) } else { None }
    }

    /// Number of shifts.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = i64> + '_ {
        self.0.iter().copied()
    }

    /// The rotations of the slots by these shifts, each once.
    pub(crate) fn rotations(&self, slots: usize) -> Vec<usize> {
        let mut rotations: Vec<usize> = self.iter().map(|shift| shift.rem_euclid(slots as i64) as usize).collect();
        rotations.sort_unstable();
        rotations.dedup();
        rotations
    }

    /// As [`Diagonals::progression`].
    pub(crate) fn progression(&self) -> Progression {
        progression(self.iter())
    }
}

/// The distances by which a permutation moves entries to the left, each once, in ascending order.
pub(crate) fn distinct_distances(permutation: &Permutation) -> Vec<i64> {
    let length = permutation.len();
    let mut found = vec![false; 2 * length];
    permutation.distances().for_each(|distance| found[(distance + length as i64) as usize] = true);
    let found = found.iter().enumerate().filter(|(_, found)| **found);
    found.map(|(place, _)| place as i64 - length as i64).collect()
}

/// The progression with the largest difference that contains all of these shifts, which ascend.
fn progression(shifts: impl Iterator<Item = i64>) -> Progression {
    let (mut common, mut ends) = (0, None);
    for shift in shifts {
        common = gcd(common, shift.unsigned_abs());
        ends = Some((ends.map_or(shift, |(first, _)| first), shift));
    }
    let difference = common.max(1) as i64;
    let (first, last) = ends.map_or((0, 0), |(first, last)| (first / difference, last / difference));
    Progression { difference: difference as usize, first, count: (last - first) as usize + 1 }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diagonals_are_those_of_every_entry() {
        let swap = Permutation::swap(2, 0, 1).unwrap();
        for permutation in [Permutation::random(100, 4).unwrap(), Permutation::reversal(64).unwrap(), swap] {
            for shifts in [Shifts::Exact, Shifts::Forward, Shifts::Balanced] {
                let length = permutation.len();
                let mut expected: BTreeMap<i64, Vec<u32>> = BTreeMap::new();
                for (position, distance) in permutation.distances().enumerate() {
                    expected.entry(shifts.read(distance, length)).or_default().push(position as u32);
                }
                let set = ShiftSet::new(&distinct_distances(&permutation), shifts, length);
                assert_eq!(set, ShiftSet::of_layer(&expected));
                let diagonals = Diagonals::new(&permutation, shifts);
                assert_eq!(set.progression(), diagonals.progression());
                assert_eq!(diagonals, Diagonals::of_shifts(length, expected));
            }
        }
    }

    #[test]
    fn a_transpose_has_the_progression_of_the_paper() {
        for d in [2usize, 3, 5, 8, 16] {
            let transpose = Permutation::transpose(d, d).unwrap();
            let diagonals = Diagonals::new(&transpose, Shifts::Exact);
            assert_eq!(diagonals.len(), 2 * d - 1);
            let progression = diagonals.progression();
            assert_eq!((progression.difference, progression.count), ((d - 1), 2 * d - 1));
            assert_eq!(progression.first, 1 - d as i64);
        }
    }

    #[test]
    fn every_position_is_on_one_diagonal_and_comes_from_where_it_says() {
        let permutation = Permutation::random(50, 3).unwrap();
        for shifts in [Shifts::Exact, Shifts::Forward, Shifts::Balanced] {
            let diagonals = Diagonals::new(&permutation, shifts);
            let mut seen = [0; 50];
            for (shift, positions) in diagonals.iter() {
                for &p in positions {
                    seen[p as usize] += 1;
                    let source = (i64::from(p) + shift).rem_euclid(50);
                    assert_eq!(source as u32, permutation.source()[p as usize]);
                }
                let range = match shifts {
                    Shifts::Exact => -49..50,
                    Shifts::Forward => 0..50,
                    Shifts::Balanced => -24..26,
                };
                assert!(range.contains(&shift), "{shift}");
            }
            assert!(seen.iter().all(|&count| count == 1));
        }
        let identity = Diagonals::new(&Permutation::identity(4).unwrap(), Shifts::Forward);
        assert_eq!(identity.progression(), Progression { difference: 1, first: 0, count: 1 });
    }
}
