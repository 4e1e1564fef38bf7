//! Named parameter sets. A name says the ring degree, the depth, and the bits of the scale.

use unspoken_ring::modular::primes_descending;
use unspoken_ring::{RingKind, RingLiteral};
use unspoken_rlwe::ParametersLiteral;
use unspoken_rlwe::security::SecretDistribution;

use crate::error::CkksError;
use crate::parameters::{CkksLiteral, CkksParameters};

/// The shape of a preset; its primes follow from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Preset {
    /// Its name: `n<log2 degree>[_real]_depth<levels>_scale<bits>`, after `insecure_` where it is.
    pub name: &'static str,
    /// What it is good for.
    pub purpose: &'static str,
    log2_degree: u32,
    kind: RingKind,
    depth: usize,
    scale_bits: f64,
    base_primes: usize,
    special_primes: usize,
    digit_len: usize,
}

const fn preset(
    name: &'static str,
    purpose: &'static str,
    (log2_degree, depth, scale_bits): (u32, usize, f64),
    (base_primes, special_primes, digit_len): (usize, usize, usize),
) -> Preset {
    let kind = RingKind::Standard;
    Preset { name, purpose, log2_degree, kind, depth, scale_bits, base_primes, special_primes, digit_len }
}

const fn real(preset: Preset) -> Preset {
    Preset { kind: RingKind::ConjugateInvariant, ..preset }
}

/// Every preset that ships. All but the insecure ones have 128 bits.
pub const PRESETS: [Preset; 14] = [
    preset("n13_depth3_scale30", "shallow circuits on small batches", (13, 3, 30.0), (2, 2, 2)),
    preset("n14_depth8_scale30", "lookups of up to 256 columns, about 10 bits", (14, 8, 30.0), (2, 4, 4)),
    preset("n14_depth5_scale50", "short circuits at high precision", (14, 5, 50.0), (2, 3, 3)),
    preset("n15_depth8_scale50", "lookups of up to 256 columns at high precision", (15, 8, 50.0), (3, 6, 6)),
    preset("n15_depth10_scale50", "lookups of up to 1024 columns at high precision", (15, 10, 50.0), (3, 9, 9)),
    preset("n15_depth11_scale50", "circuits of middle depth", (15, 11, 50.0), (2, 6, 6)),
    preset("n16_depth20_scale58", "deep circuits; the set of the engine's benchmark", (16, 20, 58.0), (3, 9, 9)),
    preset("n16_depth24_scale52", "the one-hot baseline of lookups", (16, 24, 52.0), (2, 10, 10)),
    preset("n16_depth28_scale50", "the one-hot baseline of lookups of 1024 columns", (16, 28, 50.0), (2, 9, 9)),
    real(preset("n14_real_depth8_scale30", "real lookups, twice the slots", (14, 8, 30.0), (2, 4, 4))),
    real(preset("n15_real_depth11_scale50", "real circuits of middle depth", (15, 11, 50.0), (3, 6, 6))),
    preset("insecure_n11_depth9_scale50", "tests", (11, 9, 50.0), (3, 4, 4)),
    preset("insecure_n11_depth24_scale52", "tests of deep circuits", (11, 24, 52.0), (2, 10, 10)),
    real(preset("insecure_n11_real_depth9_scale50", "tests in the real ring", (11, 9, 50.0), (3, 4, 4))),
];

impl Preset {
    /// The preset of that name.
    ///
    /// # Errors
    /// If there is none; the message lists those that exist.
    pub fn find(name: &str) -> Result<&'static Preset, CkksError> {
        PRESETS.iter().find(|p| p.name == name).ok_or_else(|| {
            let names: Vec<&str> = PRESETS.iter().map(|p| p.name).collect();
            CkksError::Parameters {
                name: name.into(),
                reason: format!("no such preset; there are {}", names.join(", ")),
            }
        })
    }

    /// The explicit numbers.
    ///
    /// # Errors
    /// If there are not enough primes of the sizes asked for.
    pub fn literal(&self) -> Result<CkksLiteral, CkksError> {
        let degree = 1usize << self.log2_degree;
        let step = self.kind.prime_step(degree);
        let primes_per_level = if self.scale_bits > 32.0 { 2 } else { 1 };
        let mut used = Vec::new();
        let mut largest = |count: usize| -> Vec<u32> {
            let free = primes_descending(1 << 16, 1 << 30, step).filter(|q| !used.contains(q));
            let taken: Vec<u32> = free.take(count).collect();
            used.extend(&taken);
            taken
        };
        let special = largest(self.special_primes);
        let mut chain = largest(self.base_primes);
        let levels = choose_level_primes(self.depth, primes_per_level, self.scale_bits, step, &used);
        let levels = levels.ok_or_else(|| CkksError::Parameters {
            name: self.name.into(),
            reason: format!("too few primes 1 modulo {step} for {} levels of {} bits", self.depth, self.scale_bits),
        })?;
        chain.extend(levels.primes);
        let ring = RingLiteral { degree, kind: self.kind, chain, special, digit_len: self.digit_len };
        let secret = SecretDistribution::UniformTernary;
        Ok(CkksLiteral {
            rlwe: ParametersLiteral { name: self.name.into(), ring, secret },
            base_primes: self.base_primes,
            primes_per_level,
            scale_bits: levels.scale.log2(),
        })
    }

    /// Builds the parameters.
    ///
    /// # Errors
    /// As for [`Preset::literal`] and [`CkksParameters::new`].
    pub fn build(&self) -> Result<CkksParameters, CkksError> {
        CkksParameters::new(self.literal()?)
    }
}

struct LevelPrimes {
    /// From level 1 upwards.
    primes: Vec<u32>,
    scale: f64,
}

/// Chooses the primes of the levels from the top down so that the scale of a repeated square stays put: with `s` the
/// scale at a level, the next is `s^2 / q`, so each `q` is taken closest to `s^2 / scale`, which undoes the deviation of
/// those before it instead of doubling it.
fn choose_level_primes(
    depth: usize,
    primes_per_level: usize,
    scale_bits: f64,
    step: u32,
    used: &[u32],
) -> Option<LevelPrimes> {
    let target = (scale_bits / primes_per_level as f64).exp2();
    let free = primes_descending(1 << 16, 1 << 30, step).filter(|q| !used.contains(q));
    let (above, below): (Vec<u32>, Vec<u32>) = free.partition(|&q| f64::from(q) > target);
    let mut groups: Vec<Vec<u32>> = match primes_per_level {
        1 => below.into_iter().take(depth + SPARE_GROUPS).map(|q| vec![q]).collect(),
        _ => pair_up(&below, above, depth + SPARE_GROUPS, scale_bits.exp2()),
    };
    if groups.len() < depth {
        return None;
    }
    let product = |group: &Vec<u32>| group.iter().map(|&q| f64::from(q)).product::<f64>();
    // The groups never meet the target exactly: the scale is what they are on average.
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

/// Groups beyond the depth to choose from.
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

#[cfg(test)]
mod tests {
    use super::*;
    use unspoken_rlwe::security::SECURITY_BITS;

    #[test]
    fn every_preset_builds_and_says_the_truth_in_its_name() {
        for preset in PRESETS.iter().filter(|p| p.log2_degree <= 14) {
            let parameters = preset.build().unwrap();
            let secure = parameters.rlwe().secured_objects().iter().all(|o| o.security_bits >= SECURITY_BITS);
            assert_eq!(secure, !preset.name.starts_with("insecure_"), "{}", preset.name);
            assert!(preset.name.contains(&format!("depth{}", parameters.max_level())));
        }
    }

    #[test]
    fn large_presets_have_their_security() {
        for preset in PRESETS.iter().filter(|p| p.log2_degree > 14) {
            let literal = preset.literal().unwrap();
            let ring = &literal.rlwe.ring;
            let bits: f64 = ring.chain.iter().chain(&ring.special).map(|&q| f64::from(q).log2()).sum();
            let bound = unspoken_rlwe::security::max_log2_modulus(ring.degree, literal.rlwe.secret).unwrap();
            assert!(bits <= bound, "{}: {bits:.1} of {bound}", preset.name);
        }
    }

    #[test]
    fn scales_stay_put_under_repeated_squaring() {
        for preset in &PRESETS {
            let literal = preset.literal().unwrap();
            let mut scale = literal.scale_bits;
            let levels = literal.rlwe.ring.chain[literal.base_primes..].chunks(literal.primes_per_level).rev();
            for group in levels {
                scale = 2.0 * scale - group.iter().map(|&q| f64::from(q).log2()).sum::<f64>();
                assert!((scale - literal.scale_bits).abs() < 0.35, "{}: {scale}", preset.name);
            }
        }
    }

    #[test]
    fn unknown_names_list_the_known_ones() {
        let message = Preset::find("n99").unwrap_err().to_string();
        assert!(message.contains("n15_depth8_scale50"), "{message}");
    }
}
