//! A Benes network by groups of bits whose outer factors have about a third fewer diagonals: the windowed network.
//!
//! A group of bits with `R` values splits a block into `R` parts. An entry that moves from part `a` to part `b` passes
//! through a part `c`. Entries with the same position within their part, before or after, pass through different parts,
//! so the choice of `c` is an edge colouring. The collapsed levels of Halevi and Shoup use any colouring, so shifts are
//! at most `R - 1` parts in either direction: `2R - 1` diagonals, or `R` if parts wrap around. But `c` can be chosen
//! close to both `a` and `b`, within a window of about `R/2` parts.
//!
//! Colours are assigned one after the other. Each is a perfect matching of the entries that may have it; entries with
//! the fewest remaining colours are matched first. If there is no perfect matching, the window grows. The parts in the
//! middle are near all others and come last: the edges that remain then form a regular graph, which is a union of
//! perfect matchings (König). Random permutations of 2^15 entries need 21 diagonals instead of 31 for `R = 16`, and 35
//! instead of 63 for `R = 32`.
//!
//! If vectors are repeated, each stage is also composed with a rotation that makes its smallest shift 0, and one
//! rotation at the end undoes all of them. This saves one key per group, or allows one more baby step. The construction
//! is our own.

use std::collections::BTreeMap;

use crate::error::{PermuteError, shape};
use crate::permutation::Permutation;

const OPERATION: &str = "route through windows";

/// Maximum number of bits of an outer group: a set of parts fits a 64-bit word.
pub(crate) const MAX_BITS: u32 = 6;

/// Approximate number of diagonals of an outer factor, by the bits of its group, for planning.
pub(crate) const DIAGONALS: [usize; MAX_BITS as usize] = [3, 7, 11, 21, 35, 69];

/// Limits of the slack for successive rounds of matching.
const SLACKS: [u32; 8] = [1, 2, 3, 4, 6, 9, 14, u32::MAX];

const NONE: u32 = u32::MAX;

/// The factors of the windowed network of a permutation. Groups of bits are taken from the highest bit down, and the
/// last group is the middle factor. There are `2 groups.len() - 1` factors; the outer ones have shifts in narrow
/// windows. With `cyclic`, shifts of the first group wrap around.
///
/// # Errors
/// If the groups do not add up to `log2` of the length, a group is empty, or an outer one has more than six bits.
pub fn windowed(permutation: &Permutation, groups: &[u32], cyclic: bool) -> Result<Vec<Permutation>, PermuteError> {
    Windows::new(permutation, cyclic).factors(groups)
}

/// The windowed networks of a permutation: what several of them have in common is computed once.
pub(crate) struct Windows<'a> {
    permutation: &'a Permutation,
    cyclic: bool,
    /// What is split off by the last of some outer groups of bits, by these groups.
    peeled: BTreeMap<Vec<u32>, Peeled>,
}

/// The outer factors of a permutation within blocks, and what is left between them.
struct Peeled {
    first: Permutation,
    middle: Permutation,
    last: Permutation,
}

impl<'a> Windows<'a> {
    pub(crate) fn new(permutation: &'a Permutation, cyclic: bool) -> Self {
        Windows { permutation, cyclic, peeled: BTreeMap::new() }
    }

    /// The factors of a network with these groups of bits ([`windowed`]).
    pub(crate) fn factors(&mut self, groups: &[u32]) -> Result<Vec<Permutation>, PermuteError> {
        let n = self.permutation.len();
        let outer = &groups[..groups.len().saturating_sub(1)];
        let fits = !groups.contains(&0) && outer.iter().all(|&bits| bits <= MAX_BITS);
        if !n.is_power_of_two() || groups.iter().sum::<u32>() != n.ilog2() || groups.is_empty() || !fits {
            let found = format!("groups of {groups:?} bits for length {n}");
            return Err(shape(OPERATION, found, "groups that add up to its bits, outer ones of at most six"));
        }
        let (mut inward, mut outward) = (Vec::with_capacity(2 * outer.len() + 1), Vec::with_capacity(outer.len()));
        for count in 1..=outer.len() {
            if !self.peeled.contains_key(&outer[..count]) {
                let peeled = self.peel(&outer[..count - 1], outer[count - 1]);
                self.peeled.insert(outer[..count].to_vec(), peeled);
            }
            let Peeled { first, last, .. } = &self.peeled[&outer[..count]];
            inward.push(first.clone());
            outward.push(last.clone());
        }
        inward.push(self.inner(outer).clone());
        inward.extend(outward.into_iter().rev());
        Ok(inward)
    }

    /// What is left after these groups.
    fn inner(&self, groups: &[u32]) -> &Permutation {
        self.peeled.get(groups).map_or(self.permutation, |peeled| &peeled.middle)
    }

    /// Splits off a group of bits after others.
    fn peel(&self, before: &[u32], bits: u32) -> Peeled {
        let size = self.permutation.len() >> before.iter().sum::<u32>();
        peel(self.inner(before), size, 1 << bits, self.cyclic && before.is_empty())
    }
}

/// Splits off the outermost factors of a permutation within blocks of `size`, each of `parts` parts.
fn peel(permutation: &Permutation, size: usize, parts: usize, cyclic: bool) -> Peeled {
    let (n, width) = (permutation.len(), size / parts);
    let (mut first, mut middle, mut last) = (vec![0; n], vec![0; n], vec![0; n]);
    // All blocks share the diagonals: if one block needs a larger window, the next blocks use it too.
    let mut window = if cyclic { parts.div_ceil(4) } else { parts / 2 };
    for start in (0..n).step_by(size) {
        let source = &permutation.source()[start..start + size];
        let colours = loop {
            let edges = Edges { source, start, width, parts, cyclic, window };
            if let Some(colours) = edges.colour() {
                break colours;
            }
            window += 1;
        };
        for (position, &colour) in colours.iter().enumerate() {
            let from = source[position] as usize - start;
            let entered = start + colour as usize * width + from % width;
            let left = start + colour as usize * width + position % width;
            first[entered] = (start + from) as u32;
            middle[left] = entered as u32;
            last[start + position] = left as u32;
        }
    }
    let [first, middle, last] = [first, middle, last].map(Permutation::trusted);
    Peeled { first, middle, last }
}

/// The entries of a block as edges, indexed by position in the result. An edge connects the position within a part
/// before the permutation to the position within a part after it.
struct Edges<'a> {
    source: &'a [u32],
    start: usize,
    /// A power of two.
    width: usize,
    parts: usize,
    cyclic: bool,
    window: usize,
}

impl Edges<'_> {
    fn from(&self, edge: u32) -> usize {
        (self.source[edge as usize] as usize - self.start) & (self.width - 1)
    }

    fn to(&self, edge: u32) -> usize {
        edge as usize & (self.width - 1)
    }

    /// The set of parts within the window around `part`, as bits.
    fn near(&self, part: usize) -> u64 {
        let distance = |other: usize| {
            let direct = part.abs_diff(other);
            if self.cyclic { direct.min(self.parts - direct) } else { direct }
        };
        (0..self.parts).filter(|&other| distance(other) <= self.window).fold(0, |set, other| set | 1 << other)
    }

    /// The order of the colours: from the ends, which the fewest edges may have, to the middle, which most may have.
    fn order(&self) -> Vec<usize> {
        let ends = |i: usize| if i.is_multiple_of(2) { i / 2 } else { self.parts - 1 - i / 2 };
        (0..self.parts).map(|i| if self.cyclic { i } else { ends(i) }).collect()
    }

    /// A colour for every edge, or `None` if this order of matchings does not find one within the window.
    fn colour(&self) -> Option<Vec<u8>> {
        let near: Vec<u64> = (0..self.parts).map(|part| self.near(part)).collect();
        let choices =
            |(to, &from): (usize, &u32)| near[(from as usize - self.start) / self.width] & near[to / self.width];
        let choices: Vec<u64> = self.source.iter().enumerate().map(choices).collect();
        let mut remaining: Vec<Vec<u32>> = vec![Vec::new(); self.width];
        (0..self.source.len() as u32).for_each(|edge| remaining[self.from(edge)].push(edge));
        let mut colours = vec![0; self.source.len()];
        let mut later = u64::MAX;
        let mut able: Vec<(u32, u32)> = Vec::with_capacity(self.source.len());
        let mut starts: Vec<usize> = Vec::with_capacity(self.width + 1);
        for colour in self.order() {
            later &= !(1 << colour);
            // Number of later colours that the edge may have.
            let slack = |edge: u32| (choices[edge as usize] & later).count_ones();
            able.clear();
            starts.clear();
            for edges in &remaining {
                let start = able.len();
                starts.push(start);
                let may = edges.iter().filter(|&&edge| choices[edge as usize] >> colour & 1 == 1);
                able.extend(may.map(|&edge| (slack(edge), edge)));
                able[start..].sort_unstable();
            }
            starts.push(able.len());
            let matching = Matching {
                edges: self,
                able: &able,
                starts: &starts,
                by_from: vec![NONE; self.width],
                by_to: vec![NONE; self.width],
            };
            for (place, edge) in matching.perfect()?.into_iter().enumerate() {
                colours[edge as usize] = colour as u8;
                remaining[place].retain(|&other| other != edge);
            }
        }
        Some(colours)
    }
}

/// A matching of positions ("places") within parts.
struct Matching<'a> {
    edges: &'a Edges<'a>,
    /// Slack and number of the edges that may have the colour, by their place before the permutation; of one place, the
    /// edge with the smallest slack first.
    able: &'a [(u32, u32)],
    /// For each place, the index of its first edge there; then the number of all.
    starts: &'a [usize],
    by_from: Vec<u32>,
    by_to: Vec<u32>,
}

impl<'a> Matching<'a> {
    /// The edges of a place.
    fn of(&self, place: usize) -> &'a [(u32, u32)] {
        &self.able[self.starts[place]..self.starts[place + 1]]
    }

    /// A perfect matching, one edge for every place, that contains all edges without slack.
    fn perfect(mut self) -> Option<Vec<u32>> {
        let width = self.by_from.len();
        let mut fixed = vec![false; width];
        for place in 0..width {
            for &(_, edge) in self.of(place).iter().take_while(|(slack, _)| *slack == 0) {
                let to = self.edges.to(edge);
                if fixed[to] || self.by_from[place] != NONE {
                    return None;
                }
                fixed[to] = true;
                (self.by_from[place], self.by_to[to]) = (edge, edge);
            }
        }
        for limit in SLACKS {
            loop {
                let mut visited = fixed.clone();
                let free: Vec<usize> = (0..width).filter(|&place| self.by_from[place] == NONE).collect();
                let grown = free.into_iter().filter(|&place| self.augment(place, limit, &mut visited)).count();
                if grown == 0 {
                    break;
                }
            }
        }
        self.by_from.iter().all(|&edge| edge != NONE).then_some(self.by_from)
    }

    /// Finds an augmenting path from a free place, over edges of limited slack, and flips it.
    fn augment(&mut self, place: usize, limit: u32, visited: &mut [bool]) -> bool {
        // Places on the path, each with the index of its next edge to try.
        let mut path = vec![(place, 0)];
        while let Some((place, next)) = path.last_mut() {
            let Some(&(slack, edge)) = self.of(*place).get(*next) else {
                path.pop();
                continue;
            };
            if slack > limit {
                path.pop();
                continue;
            }
            *next += 1;
            let to = self.edges.to(edge);
            if std::mem::replace(&mut visited[to], true) {
                continue;
            }
            if self.by_to[to] != NONE {
                path.push((self.edges.from(self.by_to[to]), 0));
                continue;
            }
            for &(place, next) in &path {
                let (_, edge): (u32, u32) = self.of(place)[next - 1];
                self.by_from[place] = edge;
                self.by_to[self.edges.to(edge)] = edge;
            }
            return true;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::benes::tests::for_each_permutation;
    use crate::diagonals::{Diagonals, Shifts};
    use crate::factors::to_depth;

    #[test]
    fn every_permutation_of_eight() {
        for_each_permutation(8, |permutation| {
            for cyclic in [false, true] {
                let factors = windowed(permutation, &[2, 1], cyclic).unwrap();
                assert_eq!(factors.len(), 3);
                assert_eq!(&to_depth(&factors, 1).unwrap()[0], permutation);
            }
        });
    }

    #[test]
    fn random_ones_need_about_half_the_diagonals() {
        for (log2, groups) in
            [(9u32, vec![3, 3, 3]), (9, vec![5, 4]), (12, vec![4, 4, 4]), (15, vec![4, 4, 4, 3]), (15, vec![5, 5, 5])]
        {
            for cyclic in [false, true] {
                let permutation = Permutation::random(1 << log2, 7).unwrap();
                let factors = windowed(&permutation, &groups, cyclic).unwrap();
                assert_eq!(to_depth(&factors, 1).unwrap()[0], permutation);
                let shifts = if cyclic { Shifts::Balanced } else { Shifts::Exact };
                let counts: Vec<usize> = factors.iter().map(|factor| Diagonals::new(factor, shifts).len()).collect();
                println!("2^{log2} {groups:?}, cyclic {cyclic}: {counts:?} diagonals");
                let mut high = log2;
                for (number, &bits) in groups[..groups.len() - 1].iter().enumerate() {
                    high -= bits;
                    let most = if cyclic && number == 0 { 1 << bits } else { (1 << bits) + 5 };
                    for factor in [&factors[number], &factors[factors.len() - 1 - number]] {
                        assert!(Diagonals::new(factor, shifts).len() <= most);
                        assert!(factor.distances().all(|shift| shift % (1 << high) == 0));
                    }
                }
            }
        }
    }

    #[test]
    fn networks_with_common_groups_are_those_of_each_alone() {
        let permutation = Permutation::random(1 << 9, 3).unwrap();
        for cyclic in [false, true] {
            let mut windows = Windows::new(&permutation, cyclic);
            for groups in [vec![3, 3, 3], vec![3, 3, 2, 1], vec![3, 6], vec![2, 3, 4], vec![9], vec![3, 3, 3]] {
                assert_eq!(windows.factors(&groups).unwrap(), windowed(&permutation, &groups, cyclic).unwrap());
            }
            assert!(windows.factors(&[3, 3]).is_err());
        }
    }

    #[test]
    fn special_permutations_and_wrong_groups() {
        let n = 256;
        for permutation in [
            Permutation::identity(n).unwrap(),
            Permutation::reversal(n).unwrap(),
            Permutation::swap(n, 3, 200).unwrap(),
            Permutation::rotation(n, 100).unwrap(),
            Permutation::transpose(16, 16).unwrap(),
        ] {
            for cyclic in [false, true] {
                let factors = windowed(&permutation, &[3, 3, 2], cyclic).unwrap();
                assert_eq!(to_depth(&factors, 1).unwrap()[0], permutation);
            }
        }
        let identity = Permutation::identity(n).unwrap();
        assert!(windowed(&identity, &[3, 3], true).is_err());
        assert!(windowed(&identity, &[7, 1], true).is_err());
        assert!(windowed(&identity, &[], true).is_err());
    }
}
