//! The choice of the primes of a parameter set.

use unspoken_ring::Basis;
use unspoken_ring::modular::primes_descending;

/// Most groups of levels.
pub(crate) const MAX_GROUPS: usize = 3;

/// Bits of a pair of the largest primes.
const LARGEST_PAIR_BITS: f64 = 60.0;

/// Bits by which primes of the chain may be smaller than their nominal size beside terminal primes.
const CHAIN_SPREAD: f64 = 1.0;

/// Successive levels of the same size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LevelGroup {
    pub levels: usize,
    pub bits: f64,
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
    /// Number of primes of level 0, and the bits of their product; as many as possible without.
    pub base: (usize, Option<f64>),
    /// Groups of levels, from level 1 upwards.
    pub groups: &'a [LevelGroup],
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
    /// The scale of the first group.
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
                let base = LevelGroup { levels: 1, bits };
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
        let scale = chosen[0].as_ref().map_or(self.groups[0].bits.exp2(), |p| p.scale);
        Ok(Primes { chain, terminal: Vec::new(), special, levels, scale })
    }

    /// Levels whose primes are not nested. Each level has the numbers of primes of the chain and of terminal primes
    /// whose nominal sizes come closest to its modulus. Then the primes of the chain are chosen from the top down, such
    /// that the scale of a repeated square stays.
    fn rational(&self, shape: TerminalShape) -> Result<Primes, String> {
        let mut used = Vec::new();
        let special = self.largest(self.special, &mut used);
        // Without bits of their own, the primes of level 0 are chosen with the others, and those that no level divides
        // or multiplies by are the largest that are left.
        let mut chain: Vec<Option<u32>> = match self.base {
            (_, Some(_)) => self.base_primes(&mut used)?.into_iter().map(Some).collect(),
            (count, None) => vec![None; count],
        };
        let base = chain.len();
        let terminal = closest_primes(shape.bits.exp2(), shape.primes, self.step, &used);
        if terminal.len() < shape.primes {
            return Err(format!("too few primes 1 modulo {} near {} bits", self.step, shape.bits));
        }
        used.extend(&terminal);
        let mut levels = vec![Basis::chain(base)];
        let mut bits = 0.0;
        for group in self.groups {
            for _ in 0..group.levels {
                bits += group.bits;
                levels.push(closest_basis(bits, base, shape));
            }
        }
        let most = levels.iter().map(|level| level.chain).max().unwrap_or(0);
        chain.resize(most, None);
        let low = (shape.chain_bits - CHAIN_SPREAD).exp2() as u32;
        let pool = primes_descending(low, 1 << 30, self.step).filter(|q| !used.contains(q)).collect();
        let mut choice = Choice { levels: &levels, terminal: &terminal, chain, pool };
        let mut top = levels.len() - 1;
        let mut scale = 0.0;
        for group in self.groups.iter().rev() {
            scale = choice.group(top - group.levels, top, group.bits).ok_or_else(|| self.too_few(group))?;
            top -= group.levels;
        }
        let Choice { chain, pool, .. } = choice;
        let mut left = pool.into_iter();
        let chain: Option<Vec<u32>> = chain.into_iter().map(|q| q.or_else(|| left.next())).collect();
        let chain = chain.ok_or_else(|| self.too_few(&self.groups[0]))?;
        Ok(Primes { chain, terminal, special, levels, scale: scale.exp2() })
    }
}

/// The numbers of primes beyond `base` ones whose nominal sizes add up to `bits` as closely as possible; of those that
/// are equally close, the one with the fewest primes.
fn closest_basis(bits: f64, base: usize, shape: TerminalShape) -> Basis {
    let distance = |basis: &Basis| {
        let chain = basis.chain as f64 - base as f64;
        (chain * shape.chain_bits + basis.terminal as f64 * shape.bits - bits).abs()
    };
    let with = |terminal: usize| {
        let chain = (bits - terminal as f64 * shape.bits) / shape.chain_bits + base as f64;
        Basis::chain(chain.round().max(1.0) as usize).with_terminal(terminal)
    };
    let bases = (0..=shape.primes).map(with);
    // A hundredth of a bit: nominal sizes are not exact.
    let key = |basis: &Basis| ((distance(basis) * 100.0).round() as u64, basis.chain + basis.terminal);
    bases.min_by_key(key).expect("there is one without terminal primes")
}

/// The free primes that are closest to a size.
fn closest_primes(size: f64, count: usize, step: u32, used: &[u32]) -> Vec<u32> {
    let (low, high) = ((size / 4.0) as u32, (size * 4.0).min(f64::from(1 << 30)) as u32);
    let mut primes: Vec<u32> = primes_descending(low, high, step).filter(|q| !used.contains(q)).collect();
    primes.sort_by(|a, b| (f64::from(*a) / size).ln().abs().total_cmp(&(f64::from(*b) / size).ln().abs()));
    primes.truncate(count);
    primes
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

impl Choice<'_> {
    fn ratio(&self, level: usize) -> Ratio {
        let (own, below) = (self.levels[level], self.levels[level - 1]);
        let mut ratio = Ratio { known: 0.0, free: Vec::new() };
        for (sign, more, less) in [(1.0, own, below), (-1.0, below, own)] {
            ratio.known += sign * log2(self.terminal.get(less.terminal..more.terminal).unwrap_or_default());
            for place in less.chain..more.chain {
                match self.chain[place] {
                    Some(q) => ratio.known += sign * f64::from(q).log2(),
                    None => ratio.free.push(place),
                }
            }
        }
        ratio
    }

    /// Chooses the free primes of the levels above `bottom` up to `top`. Gives the bits of their scale.
    fn group(&mut self, bottom: usize, top: usize, bits: f64) -> Option<f64> {
        // A ratio of terminal primes alone is the scale.
        let fixed = (bottom + 1..=top).map(|level| self.ratio(level)).find(|ratio| ratio.free.is_empty());
        let scale = fixed.map_or(bits, |ratio| ratio.known);
        let mut current = scale;
        for level in (bottom + 1..=top).rev() {
            let below = (level > bottom + 1).then(|| self.ratio(level - 1));
            if let Some(below) = &below
                && self.levels[level - 2].chain > self.levels[level - 1].chain
            {
                // These primes are multiplied in again one level below, where nothing else is free.
                self.choose(&below.free, below.known - scale)?;
            }
            let next = match (level > bottom + 1).then(|| self.ratio(level - 1)) {
                Some(below) if below.free.is_empty() => (scale + below.known) / 2.0,
                _ => scale,
            };
            let (ratio, wanted) = (self.ratio(level), 2.0 * current - next);
            let divided = self.levels[level].chain > self.levels[level - 1].chain;
            self.choose(&ratio.free, if divided { wanted - ratio.known } else { ratio.known - wanted })?;
            current = 2.0 * current - self.ratio(level).known;
        }
        Some(scale)
    }

    /// Puts primes whose product is closest to `2^bits` in these places.
    fn choose(&mut self, places: &[usize], bits: f64) -> Option<()> {
        let Some((&last, before)) = places.split_last() else { return Some(()) };
        let mut left = bits;
        let mut taken = Vec::new();
        // All but two are as equal as possible; two are the best pair.
        for rest in (3..=places.len()).rev() {
            let q = closest(&self.pool, left / rest as f64, &taken)?;
            left -= f64::from(q).log2();
            taken.push(q);
        }
        if !before.is_empty() {
            taken.extend(closest_pair(&self.pool, left, &taken)?);
        } else {
            taken.push(closest(&self.pool, left, &taken)?);
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
