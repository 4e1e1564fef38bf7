//! A search for parameter sets whose bootstrap gives a precision.
//!
//! A candidate is a scale, the sizes of the levels of each step of the bootstrap, the numbers of factors of the two
//! linear maps, the levels and the doublings of the reduction (the degree of its polynomial follows), the ratio of
//! modulus to message, and the length of a digit. It has all levels for circuits for which 128 bits of security leave
//! room. Its precision and its time are simulated. From the shape of each named set the search goes to the best
//! neighbour until no neighbour is better.
//!
//! The weight of the sparse secret is not searched: a smaller one leaves keys under the sparse secret no room, and a
//! larger one needs a longer interval of the reduction.

use std::ops::RangeInclusive;

use unspoken_rlwe::RlweError;

use super::{
    BOOT_35, BOOT_40, BOOT_45, BOOT_50, BootstrapSizes, LevelGroup, Preset, boot, factors, preset, scale35, scale40,
    scale45,
};
use crate::bootstrap::{Bootstrap, BootstrapEstimate, SlotValues};
use crate::cost::CostModel;
use crate::encoding::Encoder;
use crate::error::CkksError;
use crate::parameters::{BootstrapLiteral, CkksParameters};

/// A search for parameter sets whose bootstrap of complex slots gives a precision.
#[derive(Clone, Copy, Debug)]
pub struct BootstrapSearch {
    /// Bits of precision, as [`BootstrapEstimate::bits`] counts them.
    pub bits: f64,
    /// The period of the slots.
    pub slots: usize,
    /// Most candidates that are simulated for each scale.
    pub most_candidates: usize,
}

/// A parameter set that a search found.
#[derive(Clone, Debug)]
pub struct FoundBootstrap {
    /// Bits of the scale of circuits.
    pub scale_bits: u32,
    /// The shape of the set, in words.
    pub shape: String,
    /// Its cost and its precision.
    pub estimate: BootstrapEstimate,
}

/// The shape of a candidate, apart from the number of levels of circuits.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Candidate {
    family: &'static Family,
    special: usize,
    /// Factors of the maps from slots to coefficients and back.
    down_factors: usize,
    up_factors: usize,
    /// Stages of ModRaise.
    raised_stages: usize,
    ratio_bits: f64,
    /// Index into [`REDUCTIONS`].
    reduction: usize,
    sizes: BootstrapSizes,
}

/// Levels and doublings of reductions. With fewer levels, or with more doublings at the same number of levels, no
/// reduction is precise.
const REDUCTIONS: [(usize, usize); 5] = [(8, 3), (8, 2), (8, 1), (7, 1), (7, 0)];

/// The sets of one scale.
#[derive(Debug)]
struct Family {
    scale_bits: u32,
    make: fn(&'static str, usize, usize) -> Preset,
    /// The distance between possible sizes of the levels of a bootstrap.
    step: f64,
    start: Preset,
}

static FAMILIES: [Family; 4] = [
    Family {
        scale_bits: 35,
        make: |name, levels, digit| scale35(name, "", (16, levels), digit),
        step: 7.0,
        start: BOOT_35,
    },
    Family {
        scale_bits: 40,
        make: |name, levels, digit| scale40(name, "", (16, levels), digit),
        step: 9.95,
        start: BOOT_40,
    },
    Family {
        scale_bits: 45,
        make: |name, levels, digit| scale45(name, "", (16, levels), digit),
        step: 2.0,
        start: BOOT_45,
    },
    Family {
        scale_bits: 50,
        make: |name, levels, digit| preset(name, "", (16, levels, 50.0), (2, digit, digit)),
        step: 2.0,
        start: BOOT_50,
    },
];

impl PartialEq for Family {
    fn eq(&self, other: &Self) -> bool {
        self.scale_bits == other.scale_bits
    }
}

const NAME: &str = "candidate";

/// Bits of a scale above the wanted precision: with fewer the noise of a product is too large, with more the modulus is
/// wasted.
const SCALE_ABOVE: RangeInclusive<f64> = 21.0..=36.0;

impl BootstrapSearch {
    /// Simulates candidates and returns the precise enough ones, the fastest for a product first. `model` predicts
    /// their seconds. `progress` gets a line for every candidate.
    ///
    /// # Errors
    /// As for [`Bootstrap::new`].
    pub fn run(&self, model: &CostModel, mut progress: impl FnMut(&str)) -> Result<Vec<FoundBootstrap>, CkksError> {
        let mut found = Vec::new();
        for family in &FAMILIES {
            let above = f64::from(family.scale_bits) - self.bits;
            if SCALE_ABOVE.contains(&above) {
                found.extend(self.climb(Candidate::of(family), model, &mut progress)?);
            }
        }
        found.retain(|found| found.estimate.bits() >= self.bits);
        found.sort_by(|a, b| a.seconds_per_product().total_cmp(&b.seconds_per_product()));
        Ok(found)
    }

    /// Goes from a candidate to better neighbours, and returns all that were simulated.
    fn climb(
        &self,
        start: Candidate,
        model: &CostModel,
        progress: &mut impl FnMut(&str),
    ) -> Result<Vec<FoundBootstrap>, CkksError> {
        let mut simulated: Vec<(Candidate, Option<FoundBootstrap>)> = Vec::new();
        let mut best = start;
        let mut visit = |candidate: Candidate, all: &mut Vec<(Candidate, Option<FoundBootstrap>)>| {
            let found = self.simulate(&candidate, model)?;
            let what = found.as_ref().map_or("not possible".into(), FoundBootstrap::summary);
            progress(&format!("2^{}: {}: {what}", candidate.family.scale_bits, candidate.describe()));
            all.push((candidate, found));
            Ok::<_, CkksError>(())
        };
        visit(start, &mut simulated)?;
        loop {
            let price = |candidate: &Candidate| {
                let at = simulated.iter().find(|(other, _)| other == candidate);
                at.and_then(|(_, found)| found.as_ref()).map_or((f64::MAX, f64::MAX), |found| self.price(found))
            };
            let before = price(&best);
            for neighbour in best.neighbours() {
                let known = simulated.iter().any(|(other, _)| *other == neighbour);
                if !known && simulated.len() < self.most_candidates {
                    visit(neighbour, &mut simulated)?;
                }
            }
            let priced = simulated.iter().filter_map(|(c, found)| Some((*c, self.price(found.as_ref()?))));
            let cheapest = priced.min_by(|(_, a), (_, b)| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
            match cheapest {
                Some((candidate, price)) if price < before && simulated.len() < self.most_candidates => {
                    best = candidate;
                }
                _ => break,
            }
        }
        Ok(simulated.into_iter().filter_map(|(_, found)| found).collect())
    }

    /// The bits that are missing, and then the seconds for a product.
    fn price(&self, found: &FoundBootstrap) -> (f64, f64) {
        ((self.bits - found.estimate.bits()).max(0.0), found.seconds_per_product())
    }

    /// None if the candidate has no level for circuits, or its primes do not exist.
    fn simulate(&self, candidate: &Candidate, model: &CostModel) -> Result<Option<FoundBootstrap>, CkksError> {
        let Some(parameters) = candidate.build() else { return Ok(None) };
        let plan = Bootstrap::new(&parameters, self.slots, SlotValues::Complex)?;
        let estimate = plan.estimate(&Encoder::new(&parameters), model)?;
        let bits = parameters.rlwe().log2_modulus(parameters.ring().gadget_key_basis(parameters.ring().chain().len()));
        let shape = format!("{}; {bits:.0} bits of modulus in all", candidate.describe());
        Ok(Some(FoundBootstrap { scale_bits: candidate.family.scale_bits, shape, estimate }))
    }
}

impl FoundBootstrap {
    fn seconds_per_product(&self) -> f64 {
        self.estimate.seconds / self.estimate.depth as f64
    }

    fn summary(&self) -> String {
        let BootstrapEstimate { seconds, depth, .. } = self.estimate;
        format!("{:.1} bits, {depth} products, {seconds:.1} s", self.estimate.bits())
    }
}

impl Candidate {
    /// The shape of the named set of a family.
    fn of(family: &'static Family) -> Self {
        let shape = family.start.bootstrap.expect("the sets of families bootstrap");
        Candidate {
            family,
            special: family.start.special_primes,
            down_factors: shape.literal.slots_to_coeffs,
            up_factors: shape.literal.coeffs_to_slots,
            raised_stages: shape.literal.raised_stages,
            ratio_bits: shape.literal.message_ratio_bits,
            reduction: REDUCTIONS
                .iter()
                .position(|&r| r == (shape.literal.eval_mod_levels, shape.literal.doublings))
                .expect("the reductions of the sets are candidates"),
            sizes: sizes(&family.start, shape.base_bits),
        }
    }

    fn neighbours(&self) -> Vec<Self> {
        let others = (0..REDUCTIONS.len()).filter(|&reduction| reduction != self.reduction);
        let mut all: Vec<Self> = others.map(|reduction| Candidate { reduction, ..*self }).collect();
        for sign in [-1.0, 1.0] {
            let size = |change: fn(&mut BootstrapSizes) -> &mut f64| {
                let mut next = *self;
                *change(&mut next.sizes) += sign * self.family.step;
                next
            };
            all.extend([
                Candidate { ratio_bits: self.ratio_bits + sign, ..*self },
                size(|sizes| &mut sizes.polynomial),
                self.with_reduction_of(sign * self.family.step),
                size(|sizes| &mut sizes.doubling),
                size(|sizes| &mut sizes.up),
                size(|sizes| &mut sizes.last),
                size(|sizes| &mut sizes.down),
                Candidate { special: self.special.saturating_add_signed(3 * sign as isize), ..*self },
                Candidate { up_factors: self.up_factors.saturating_add_signed(sign as isize), ..*self },
                Candidate { raised_stages: self.raised_stages.saturating_add_signed(sign as isize), ..*self },
                Candidate { down_factors: self.down_factors.saturating_add_signed(sign as isize), ..*self },
            ]);
        }
        all.retain(Candidate::is_possible);
        all
    }

    /// With all levels of the reduction larger.
    fn with_reduction_of(mut self, more: f64) -> Self {
        self.sizes.doubling += more;
        self.sizes.polynomial += more;
        self
    }

    fn literal(&self) -> BootstrapLiteral {
        let (eval_mod_levels, doublings) = REDUCTIONS[self.reduction];
        let factors = factors(self.down_factors, (self.raised_stages, self.up_factors), self.ratio_bits);
        BootstrapLiteral { eval_mod_levels, doublings, ..factors }
    }

    fn is_possible(&self) -> bool {
        let BootstrapSizes { down, doubling, polynomial, up, last, .. } = self.sizes;
        [down, doubling, polynomial, up, last].iter().all(|bits| (24.0..=60.0).contains(bits))
            && (6..=16).contains(&self.special)
            && (2..=4).contains(&self.down_factors)
            && (2..=4).contains(&self.up_factors)
            && (3..=6).contains(&self.raised_stages)
            && (5.0..=20.0).contains(&self.ratio_bits)
    }

    /// The parameters with the most levels for circuits.
    fn build(&self) -> Option<CkksParameters> {
        let most = (1747.0 / f64::from(self.family.scale_bits)) as usize;
        for levels in (1..=most).rev() {
            let preset = (self.family.make)(NAME, levels, self.special);
            let candidate = boot(preset, self.literal(), self.sizes, 5);
            let Ok(literal) = candidate.literal() else { continue };
            match CkksParameters::new(literal) {
                Ok(parameters) => return Some(parameters),
                Err(CkksError::Rlwe(RlweError::Insecure { .. })) => {}
                Err(_) => return None,
            }
        }
        None
    }

    fn describe(&self) -> String {
        let BootstrapSizes { base, down, doubling, polynomial, up, last, .. } = self.sizes;
        let BootstrapLiteral { eval_mod_levels, doublings, .. } = self.literal();
        format!(
            "base {base:.1}, slots to coefficients {} x {down:.1}, doublings {doublings} x {doubling:.1}, polynomial \
             {} x {polynomial:.1}, coefficients to slots 2^{} rotations, {last:.1} and {} x {up:.1}, ratio {}, \
             digits of {}",
            self.down_factors,
            eval_mod_levels - doublings,
            self.raised_stages,
            self.up_factors - 1,
            self.ratio_bits,
            self.special
        )
    }
}

/// The sizes of the levels of a bootstrapping set.
fn sizes(preset: &Preset, base: f64) -> BootstrapSizes {
    let above: Vec<LevelGroup> =
        preset.groups[preset.circuit + 1..].iter().copied().filter(|group| group.levels > 0).collect();
    let at = |level: usize| {
        let mut seen = 0;
        let group = above.iter().find(|group| {
            seen += group.levels;
            level < seen
        });
        group.map_or(0.0, |group| group.bits)
    };
    let reduction = preset.bootstrap.map_or(0, |shape| shape.literal.eval_mod_levels);
    BootstrapSizes {
        base,
        down: preset.groups[0].bits,
        doubling: at(0),
        polynomial: at(reduction - 1),
        up: at(reduction + 1),
        last: at(reduction),
        nested: above.iter().all(|group| group.nested),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shapes_of_named_sets_are_read_back() {
        for family in &FAMILIES {
            let candidate = Candidate::of(family);
            let Candidate { special, down_factors, sizes, .. } = candidate;
            let levels = family.start.groups[family.start.circuit].levels;
            let merged = family.start.circuit == 0;
            let levels = if merged { levels - down_factors } else { levels };
            let again = boot((family.make)(NAME, levels, special), candidate.literal(), sizes, 5);
            assert_eq!((again.groups, again.bootstrap), (family.start.groups, family.start.bootstrap));
        }
    }

    #[test]
    fn a_search_returns_the_shapes_that_are_precise_enough() {
        let parameters = Preset::find("n16_boot_depth15_scale40").unwrap().build().unwrap();
        let search = BootstrapSearch { bits: 16.0, slots: 1024, most_candidates: 2 };
        let mut lines = 0;
        let found = search.run(&CostModel::nominal(&parameters), |_| lines += 1).unwrap();
        // Scales of 2^40, 2^45 and 2^50 are tried.
        assert_eq!(lines, 6);
        assert!(found.iter().all(|found| found.estimate.bits() >= 16.0));
        let named = found.iter().find(|found| found.scale_bits == 40).unwrap();
        assert!(named.estimate.depth >= 14, "{named:?}");
    }

    #[test]
    fn neighbours_differ_in_one_thing_and_can_be_built() {
        let start = Candidate::of(&FAMILIES[1]);
        let neighbours = start.neighbours();
        assert!(neighbours.len() > 10 && !neighbours.contains(&start));
        assert!(neighbours.iter().all(|n| n.family == start.family && n.is_possible()));
    }
}
