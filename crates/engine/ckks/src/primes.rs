//! The choice of the primes of a parameter set.
//!
//! Primes are below 2^30. A scale near 2^30 is one prime, and a scale from 2^50 to 2^60 is two primes: each level has
//! the primes of the level below and these. Scales of 2^35, 2^40 and 2^45 would waste a third of each limb in that way.
//! Presets with such scales have two or three *terminal* primes of 19 to 25 bits (as GPU libraries for 32-bit words
//! have), and the levels are not nested: a rescale multiplies some primes in and divides others out, at the cost of one
//! division. At 2^40 with primes of 30 and 20 bits, levels have the primes (2, 0), (2, 2), (4, 1), (6, 0), (6, 2), ...
//! of the two kinds.
//!
//! - The scale of a repeated square stays within a tenth of a bit: the chain primes are chosen from the top down, so
//!   that each ratio corrects the deviation so far.
//! - Switching keys serve all levels. Terminal primes are part of the first digit, so they add no digit.
//! - A drop to a level whose primes the vector lacks multiplies by an integer and rescales, which adds the noise of a
//!   rescale. A drop to another level adds no noise. The simulator does the same.

use std::ops::Range;

use unspoken_ring::Basis;
use unspoken_ring::modular::primes_descending;

/// Most groups of levels.
pub(crate) const MAX_GROUPS: usize = 6;

/// Bits of a pair of the largest primes.
const LARGEST_PAIR_BITS: f64 = 60.0;

/// Bits by which primes may differ from their nominal size: chain primes of levels that are not nested, chain primes of
/// nested levels, and terminal primes.
const CHAIN_SPREAD: f64 = 2.0;
const NESTED_SPREAD: f64 = 2.5;
const TERMINAL_SPREAD: f64 = 1.6;

/// Bits by which a product of chosen primes may differ from what was wanted.
const MAX_DEVIATION: f64 = 0.1;

/// Number of primes from which the terminal primes are chosen: those nearest to their nominal size.
const TERMINAL_CANDIDATES: usize = 10;

/// Successive levels of the same size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LevelGroup {
    pub levels: usize,
    pub bits: f64,
    /// Whether each level has the primes of the level below and one or two more. Otherwise terminal primes make up the
    /// difference.
    pub nested: bool,
}

/// Terminal primes, and the primes of the chain beside them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TerminalShape {
    /// Number of terminal primes.
    pub primes: usize,
    /// Their bits.
    pub bits: f64,
    /// Bits of the primes of the chain.
    pub chain_bits: f64,
}

/// What primes are chosen for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape<'a> {
    /// All primes are 1 modulo this number.
    pub step: u32,
    /// Number of special primes.
    pub special: usize,
    /// Number of primes of level 0, and the bits of their product; without them, the product is as large as possible.
    pub base: (usize, Option<f64>),
    /// Groups of levels, from level 1 upwards.
    pub groups: &'a [LevelGroup],
    /// The group of the levels of circuits, which sets the scale.
    pub circuit: usize,
    /// Terminal primes.
    pub terminal: Option<TerminalShape>,
}

/// The chosen primes.
#[derive(Clone, Debug)]
pub(crate) struct Primes {
    pub chain: Vec<u32>,
    pub terminal: Vec<u32>,
    pub special: Vec<u32>,
    /// The primes of each level, from level 0.
    pub levels: Vec<Basis>,
    /// The scale of circuits.
    pub scale: f64,
}

impl Shape<'_> {
    /// Chooses primes. The error says what is missing.
    pub fn primes(&self) -> Result<Primes, String> {
        match self.terminal {
            Some(terminal) => self.rational(terminal),
            None => self.nested(),
        }
    }

    /// The largest free primes, which are used up.
    fn largest(&self, count: usize, used: &mut Vec<u32>) -> Vec<u32> {
        let free = primes_descending(1 << 16, 1 << 30, self.step).filter(|q| !used.contains(q));
        let taken: Vec<u32> = free.take(count).collect();
        used.extend(&taken);
        taken
    }

    fn too_few(&self, group: &LevelGroup) -> String {
        format!("too few primes 1 modulo {} for {} levels of {} bits", self.step, group.levels, group.bits)
    }

    /// The primes of level 0, which are used up.
    fn base_primes(&self, used: &mut Vec<u32>) -> Result<Vec<u32>, String> {
        match self.base {
            (_, Some(bits)) if bits < LARGEST_PAIR_BITS => {
                let base = LevelGroup { levels: 1, bits, nested: true };
                let pair = choose_level_primes(&base, self.step, used).ok_or_else(|| self.too_few(&base))?.primes;
                used.extend(&pair);
                Ok(pair)
            }
            (count, _) => Ok(self.largest(count, used)),
        }
    }

    /// Each level has the primes of the level below and one or two more.
    fn nested(&self) -> Result<Primes, String> {
        let mut used = Vec::new();
        let special = self.largest(self.special, &mut used);
        let mut chain = self.base_primes(&mut used)?;
        // Levels with the largest primes choose first, because they have the fewest candidates.
        let mut order: Vec<usize> = (0..self.groups.len()).filter(|&g| self.groups[g].levels > 0).collect();
        order.sort_by(|&a, &b| self.groups[b].bits.total_cmp(&self.groups[a].bits));
        let mut chosen: Vec<Option<LevelPrimes>> = self.groups.iter().map(|_| None).collect();
        for g in order {
            let group = &self.groups[g];
            let primes = choose_level_primes(group, self.step, &used).ok_or_else(|| self.too_few(group))?;
            used.extend(&primes.primes);
            chosen[g] = Some(primes);
        }
        let mut levels = vec![Basis::chain(chain.len())];
        for (group, primes) in self.groups.iter().zip(&chosen) {
            for level in primes.iter().flat_map(|p| p.primes.chunks(group.primes_per_level())) {
                chain.extend(level);
                levels.push(Basis::chain(chain.len()));
            }
        }
        let scale = chosen[self.circuit].as_ref().map_or(self.groups[self.circuit].bits.exp2(), |p| p.scale);
        Ok(Primes { chain, terminal: Vec::new(), special, levels, scale })
    }

    /// Levels whose primes are not nested. Each level has the numbers of primes of the chain and of terminal primes
    /// whose nominal sizes come closest to its modulus. Then the primes of the chain are chosen from the top down, such
    /// that the scale of a repeated square stays.
    fn rational(&self, shape: TerminalShape) -> Result<Primes, String> {
        let terminal = terminal_primes(shape, self.step)
            .ok_or_else(|| format!("too few primes 1 modulo {} near {} bits", self.step, shape.bits))?;
        let levels = self.levels(shape);
        let least = self.groups.iter().filter(|group| group.levels > 0).map(|group| group.sizes(shape).start);
        let least = least.fold(shape.chain_bits, f64::min).exp2() as u32;
        let pool = primes_descending(least, 1 << 30, self.step).filter(|q| !terminal.contains(q)).collect();
        let chain = vec![None; levels.iter().map(|level| level.chain).max().unwrap_or(0)];
        let mut choice = Choice { levels: &levels, terminal: &terminal, chain, pool };
        let all = self.groups.iter().flat_map(|group| std::iter::repeat_n(group, group.levels));
        let mut steps: Vec<StepShape> =
            all.map(|group| StepShape { bits: group.bits, sizes: group.sizes(shape) }).collect();
        let (mut first, mut scale) = (0, self.groups[self.circuit].bits);
        for (index, group) in self.groups.iter().enumerate() {
            let bits = choice.scale(first..first + group.levels).unwrap_or(group.bits);
            steps[first..first + group.levels].iter_mut().for_each(|step| step.bits = bits);
            first += group.levels;
            if index == self.circuit {
                scale = bits;
            }
        }
        choice.levels(&steps).ok_or_else(|| self.too_few(&self.groups[0]))?;
        let (count, base_bits) = self.base;
        let (known, free) = choice.product(0..count);
        if let Some(bits) = base_bits {
            choice.choose(&free, bits - known, &(0.0..32.0)).ok_or_else(|| self.too_few(&self.groups[0]))?;
        }
        let Choice { chain, pool, .. } = choice;
        // Primes of level 0 that no level divides or multiplies by, and the special primes, are the largest ones left.
        let mut left = pool.into_iter();
        let chain: Option<Vec<u32>> = chain.into_iter().map(|q| q.or_else(|| left.next())).collect();
        let special: Vec<u32> = left.take(self.special).collect();
        match chain {
            Some(chain) if special.len() == self.special => {
                Ok(Primes { chain, terminal, special, levels, scale: scale.exp2() })
            }
            _ => Err(self.too_few(&self.groups[0])),
        }
    }

    /// The numbers of primes of each level, from level 0.
    fn levels(&self, shape: TerminalShape) -> Vec<Basis> {
        let mut levels = vec![Basis::chain(self.base.0)];
        for group in self.groups {
            let bottom = levels[levels.len() - 1];
            for level in 1..=group.levels {
                levels.push(match group.nested {
                    true => Basis { chain: bottom.chain + level * group.primes_per_level(), ..bottom },
                    false => closest_basis(level as f64 * group.bits, bottom, shape),
                });
            }
        }
        levels
    }
}

/// The numbers of primes for which the sum of nominal sizes is as close as possible to `bits` above the sum for
/// `bottom`. Of equally close bases, the one with the fewest primes.
fn closest_basis(bits: f64, bottom: Basis, shape: TerminalShape) -> Basis {
    let beyond = |terminal: usize| (terminal as f64 - bottom.terminal as f64) * shape.bits;
    let with = |terminal: usize| {
        let chain = bottom.chain as f64 + (bits - beyond(terminal)) / shape.chain_bits;
        Basis::chain(chain.round().max(1.0) as usize).with_terminal(terminal)
    };
    let distance = |basis: &Basis| {
        let chain = basis.chain as f64 - bottom.chain as f64;
        (chain * shape.chain_bits + beyond(basis.terminal) - bits).abs()
    };
    // A hundredth of a bit: nominal sizes are not exact.
    let key = |basis: &Basis| ((distance(basis) * 100.0).round() as u64, basis.chain + basis.terminal);
    (0..=shape.primes).map(with).min_by_key(key).expect("there is one without terminal primes")
}

/// The free primes near their nominal size whose product is close to the nominal one.
fn terminal_primes(shape: TerminalShape, step: u32) -> Option<Vec<u32>> {
    let (low, high) = ((shape.bits - TERMINAL_SPREAD).exp2() as u32, (shape.bits + TERMINAL_SPREAD).exp2() as u32);
    let mut near: Vec<u32> = primes_descending(low, high, step).collect();
    let distance = |q: &u32| (f64::from(*q).log2() - shape.bits).abs();
    near.sort_by(|a, b| distance(a).total_cmp(&distance(b)));
    near.truncate(TERMINAL_CANDIDATES);
    let sets = (0u32..1 << near.len()).filter(|set| set.count_ones() as usize == shape.primes);
    let members = |set: u32| near.iter().enumerate().filter(move |(i, _)| set >> i & 1 == 1).map(|(_, &q)| q);
    // The sum decides what scales are possible. Single sizes move the sizes of the chain primes.
    let deviation = |set: u32| {
        let deviations: Vec<f64> = members(set).map(|q| f64::from(q).log2() - shape.bits).collect();
        let most = deviations.iter().fold(0.0, |most: f64, deviation| most.max(deviation.abs()));
        deviations.iter().sum::<f64>().abs() + most / 4.0
    };
    let best = sets.min_by(|a, b| deviation(*a).total_cmp(&deviation(*b)))?;
    Some(members(best).collect())
}

/// The choice of the primes of a chain beside terminal primes.
struct Choice<'a> {
    levels: &'a [Basis],
    terminal: &'a [u32],
    chain: Vec<Option<u32>>,
    pool: Vec<u32>,
}

/// `log2` of the ratio of two successive levels: what is known of it, and the places of the chain that are still free.
struct Ratio {
    known: f64,
    free: Vec<usize>,
}

/// What the ratio of the modulus of a level to the modulus of the next lower level should be.
struct StepShape {
    /// Bits of the scale.
    bits: f64,
    /// Bits of the primes that are chosen for it.
    sizes: Range<f64>,
}

impl Choice<'_> {
    /// Splits these places of the chain: bits of the product of the primes that are known, and the places whose primes
    /// are not.
    fn product(&self, places: Range<usize>) -> (f64, Vec<usize>) {
        let (known, free): (Vec<usize>, Vec<usize>) = places.partition(|&place| self.chain[place].is_some());
        (known.iter().filter_map(|&place| self.chain[place]).map(|q| f64::from(q).log2()).sum(), free)
    }

    fn ratio(&self, level: usize) -> Ratio {
        let (own, below) = (self.levels[level], self.levels[level - 1]);
        let terminals = |less: Basis, more: Basis| log2(self.terminal.get(less.terminal..more.terminal).unwrap_or(&[]));
        let (divided, free) = self.product(below.chain..own.chain.max(below.chain));
        let (multiplied, more) = self.product(own.chain..below.chain.max(own.chain));
        let known = divided + terminals(below, own) - multiplied - terminals(own, below);
        Ratio { known, free: [free, more].concat() }
    }

    /// Bits of the scale of successive levels, the steps with these numbers: of a ratio of terminal primes alone, if
    /// there is one.
    fn scale(&self, steps: Range<usize>) -> Option<f64> {
        let fixed = steps.map(|step| self.ratio(step + 1)).find(|ratio| ratio.free.is_empty());
        fixed.map(|ratio| ratio.known)
    }

    /// Chooses the free primes of all ratios, from the top down.
    fn levels(&mut self, steps: &[StepShape]) -> Option<()> {
        let mut current = f64::NAN;
        for level in (1..self.levels.len()).rev() {
            let step = &steps[level - 1];
            // Each group of levels begins at its own scale.
            if steps.get(level).is_none_or(|above| above.bits != step.bits) {
                current = step.bits;
            }
            if level > 1 && self.levels[level - 2].chain > self.levels[level - 1].chain {
                // These primes are multiplied in again one level below, where nothing else is free.
                let (below, shape) = (self.ratio(level - 1), &steps[level - 2]);
                self.choose(&below.free, below.known - shape.bits, &shape.sizes)?;
            }
            let below = (level > 1 && steps[level - 2].bits == step.bits).then(|| self.ratio(level - 1));
            let next = match below {
                Some(below) if below.free.is_empty() => (step.bits + below.known) / 2.0,
                _ => step.bits,
            };
            let (ratio, wanted) = (self.ratio(level), 2.0 * current - next);
            let divided = self.levels[level].chain > self.levels[level - 1].chain;
            let product = if divided { wanted - ratio.known } else { ratio.known - wanted };
            self.choose(&ratio.free, product, &step.sizes)?;
            current = 2.0 * current - self.ratio(level).known;
        }
        Some(())
    }

    /// Puts primes of these sizes whose product is closest to `2^bits` in these places.
    fn choose(&mut self, places: &[usize], bits: f64, sizes: &Range<f64>) -> Option<()> {
        let Some((&last, before)) = places.split_last() else { return Some(()) };
        let pool: Vec<u32> = self.pool.iter().copied().filter(|q| sizes.contains(&f64::from(*q).log2())).collect();
        let mut left = bits;
        let mut taken = Vec::new();
        // All but two are as equal as possible; two are the best pair.
        for rest in (3..=places.len()).rev() {
            let q = closest(&pool, left / rest as f64, &taken)?;
            left -= f64::from(q).log2();
            taken.push(q);
        }
        if !before.is_empty() {
            taken.extend(closest_pair(&pool, left, &taken)?);
        } else {
            taken.push(closest(&pool, left, &taken)?);
        }
        if (log2(&taken) - bits).abs() > MAX_DEVIATION {
            return None;
        }
        self.pool.retain(|q| !taken.contains(q));
        before.iter().chain([&last]).zip(taken).for_each(|(&place, q)| self.chain[place] = Some(q));
        Some(())
    }
}

/// The prime that is closest to `2^bits`.
fn closest(pool: &[u32], bits: f64, taken: &[u32]) -> Option<u32> {
    let distance = |q: &u32| (f64::from(*q).log2() - bits).abs();
    pool.iter().copied().filter(|q| !taken.contains(q)).min_by(|a, b| distance(a).total_cmp(&distance(b)))
}

/// The two primes whose product is closest to `2^bits`.
fn closest_pair(pool: &[u32], bits: f64, taken: &[u32]) -> Option<[u32; 2]> {
    let free: Vec<u32> = pool.iter().copied().filter(|q| !taken.contains(q)).collect();
    let logs: Vec<f64> = free.iter().map(|&q| f64::from(q).log2()).collect();
    let mut best: Option<(f64, [u32; 2])> = None;
    // Descending order: the second index moves back as the first one moves on.
    let mut j = free.len().checked_sub(1)?;
    for i in 0..free.len() {
        while j > i && logs[i] + logs[j] < bits {
            j -= 1;
        }
        for second in [j, j + 1].into_iter().filter(|&second| second > i && second < free.len()) {
            let distance = (logs[i] + logs[second] - bits).abs();
            if best.is_none_or(|(least, _)| distance < least) {
                best = Some((distance, [free[i], free[second]]));
            }
        }
    }
    best.map(|(_, pair)| pair)
}

/// Bits of a product.
fn log2(primes: &[u32]) -> f64 {
    primes.iter().map(|&q| f64::from(q).log2()).sum()
}

impl LevelGroup {
    /// Bits of the primes that are chosen beside terminal primes.
    fn sizes(&self, shape: TerminalShape) -> Range<f64> {
        let size = self.bits / self.primes_per_level() as f64;
        match self.nested {
            true => size - NESTED_SPREAD..size + NESTED_SPREAD,
            false => shape.chain_bits - CHAIN_SPREAD..shape.chain_bits + CHAIN_SPREAD,
        }
    }

    fn primes_per_level(&self) -> usize {
        if self.bits > 32.0 { 2 } else { 1 }
    }
}

struct LevelPrimes {
    /// Primes of the levels, from level 1 upwards.
    primes: Vec<u32>,
    scale: f64,
}

/// Chooses the primes of the levels from the top down so that the scale of a repeated square stays almost constant. If
/// `s` is the scale at one level, the next scale is `s^2 / q`. Each `q` is the closest one to `s^2 / scale`, which
/// corrects the deviation of the previous levels instead of doubling it.
fn choose_level_primes(group: &LevelGroup, step: u32, used: &[u32]) -> Option<LevelPrimes> {
    let (depth, primes_per_level) = (group.levels, group.primes_per_level());
    let target = (group.bits / primes_per_level as f64).exp2();
    let free = primes_descending(1 << 16, 1 << 30, step).filter(|q| !used.contains(q));
    let (above, below): (Vec<u32>, Vec<u32>) = free.partition(|&q| f64::from(q) > target);
    let count = depth + SPARE_GROUPS;
    let mut groups: Vec<Vec<u32>> = match primes_per_level {
        1 => below.into_iter().take(count).map(|q| vec![q]).collect(),
        // Too few primes are above the target: pair the largest primes with each other.
        2 if above.len() < count => below.chunks_exact(2).take(count).map(<[u32]>::to_vec).collect(),
        _ => pair_up(&below, above, count, group.bits.exp2()),
    };
    if groups.len() < depth {
        return None;
    }
    let product = |group: &Vec<u32>| group.iter().map(|&q| f64::from(q)).product::<f64>();
    // The groups never meet the target exactly, so the scale is their geometric mean.
    let scale = (groups.iter().map(|g| product(g).log2()).sum::<f64>() / groups.len() as f64).exp2();
    let mut current = scale;
    let mut levels = Vec::new();
    for _ in 0..depth {
        let wanted = current * current / scale;
        let distance = |group: &Vec<u32>| (product(group) / wanted).ln().abs();
        let closest = (0..groups.len()).min_by(|&a, &b| distance(&groups[a]).total_cmp(&distance(&groups[b])))?;
        let group = groups.swap_remove(closest);
        current = current * current / product(&group);
        levels.push(group);
    }
    Some(LevelPrimes { primes: levels.into_iter().rev().flatten().collect(), scale })
}

/// Number of candidate groups beyond the depth.
const SPARE_GROUPS: usize = 4;

/// Pairs each of the `count` largest primes of `below` (descending) with the prime of `above` that brings the product
/// closest to `target`.
fn pair_up(below: &[u32], mut above: Vec<u32>, count: usize, target: f64) -> Vec<Vec<u32>> {
    let mut pairs = Vec::new();
    for &low in below.iter().take(count) {
        let distance = |high: &u32| (f64::from(low) * f64::from(*high) / target).ln().abs();
        let Some(closest) = (0..above.len()).min_by(|&a, &b| distance(&above[a]).total_cmp(&distance(&above[b])))
        else {
            break;
        };
        pairs.push(vec![low, above.swap_remove(closest)]);
    }
    pairs
}
