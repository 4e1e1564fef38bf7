//! Named parameter sets. A name contains the ring degree, the depth and the bits of the scale.

pub(crate) mod search;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use unspoken_ring::{RingKind, RingLiteral};
use unspoken_rlwe::security::SecretDistribution;
use unspoken_rlwe::{EncapsulationLiteral, ParametersLiteral};

use crate::error::CkksError;
use crate::parameters::{BootstrapLiteral, CkksLiteral, CkksParameters, WeakParameters};
use crate::primes::{LevelGroup, MAX_GROUPS, Primes, Shape, TerminalShape};

/// The shape of a preset. The primes are derived from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Preset {
    /// Its name: `n<log2 degree>[_real|_boot|_query|_linear]_depth<levels>_scale<bits>`, with the prefix `insecure_`
    /// where the set is insecure. `query` sets bootstrap subring queries alone. `linear` sets have no special primes:
    /// their ciphertexts can be added and multiplied by plaintexts, but neither rotated nor multiplied with each other.
    pub name: &'static str,
    /// The circuits it is meant for.
    pub purpose: &'static str,
    log2_degree: u32,
    kind: RingKind,
    /// Number of primes of level 0, of 30 bits each unless `bootstrap` sets another size.
    base_primes: usize,
    /// Groups of levels, from level 1 upwards; those after the last have no levels.
    groups: [LevelGroup; MAX_GROUPS],
    /// The group of the levels of circuits.
    circuit: usize,
    /// Terminal primes, for groups whose levels have neither the size of one prime nor the size of two.
    terminal: Option<TerminalShape>,
    special_primes: usize,
    digit_len: usize,
    bootstrap: Option<BootstrapShape>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct BootstrapShape {
    literal: BootstrapLiteral,
    /// Bits of level 0.
    base_bits: f64,
    /// Chain primes of the keys under the sparse secret.
    encapsulation_primes: usize,
}

const fn preset(
    name: &'static str,
    purpose: &'static str,
    (log2_degree, levels, bits): (u32, usize, f64),
    (base_primes, special_primes, digit_len): (usize, usize, usize),
) -> Preset {
    let mut groups = [NO_LEVELS; MAX_GROUPS];
    groups[0] = LevelGroup { levels, bits, nested: true };
    let kind = RingKind::Standard;
    let (terminal, bootstrap) = (None, None);
    let circuit = 0;
    Preset {
        name,
        purpose,
        log2_degree,
        kind,
        base_primes,
        groups,
        circuit,
        terminal,
        special_primes,
        digit_len,
        bootstrap,
    }
}

const NO_LEVELS: LevelGroup = LevelGroup { levels: 0, bits: 0.0, nested: true };

/// Terminal primes for a scale of 2^35: a level is five units of 7 bits, a prime of the chain is four, and a terminal
/// prime three.
const TERMINAL_35: TerminalShape = TerminalShape { primes: 3, bits: 3.0 * UNIT_35, chain_bits: 4.0 * UNIT_35 };
const UNIT_35: f64 = 7.0;

/// Terminal primes for a scale near 2^40: a level is four units, a prime of the chain is three, and a terminal prime
/// two. The unit is less than 10 bits because primes of the chain are below 2^30.
const TERMINAL_40: TerminalShape = TerminalShape { primes: 2, bits: 2.0 * UNIT_40, chain_bits: 3.0 * UNIT_40 };
const UNIT_40: f64 = 9.95;

/// Terminal primes for a scale near 2^45: a level is nine units, a prime of the chain is six, and a terminal prime
/// five.
const TERMINAL_45: TerminalShape = TerminalShape { primes: 3, bits: 5.0 * UNIT_45, chain_bits: 6.0 * UNIT_45 };
const UNIT_45: f64 = 4.975;

/// As [`TERMINAL_45`], for degrees below 2^16, which have more primes: a level is two terminal primes.
const TERMINAL_45_SMALL: TerminalShape = TerminalShape { primes: 2, bits: 4.5 * UNIT_45, chain_bits: 6.0 * UNIT_45 };

/// A set without bootstrapping whose levels are not nested: terminal primes, bits of the levels, and the number of
/// special primes, which is also the length of a digit.
const fn rational(
    name: &'static str,
    purpose: &'static str,
    (log2_degree, levels): (u32, usize),
    (terminal, bits): (TerminalShape, f64),
    special: usize,
) -> Preset {
    let nested = preset(name, purpose, (log2_degree, levels, bits), (2, special, special));
    let mut groups = nested.groups;
    groups[0].nested = false;
    Preset { terminal: Some(terminal), groups, ..nested }
}

const fn scale35(name: &'static str, purpose: &'static str, size: (u32, usize), special: usize) -> Preset {
    rational(name, purpose, size, (TERMINAL_35, 5.0 * UNIT_35), special)
}

const fn scale40(name: &'static str, purpose: &'static str, size: (u32, usize), special: usize) -> Preset {
    rational(name, purpose, size, (TERMINAL_40, 4.0 * UNIT_40), special)
}

const fn scale45(name: &'static str, purpose: &'static str, size: (u32, usize), special: usize) -> Preset {
    let terminal = if size.0 < 16 { TERMINAL_45_SMALL } else { TERMINAL_45 };
    rational(name, purpose, size, (terminal, 9.0 * UNIT_45), special)
}

const BOOT_50: Preset = boot(
    preset("n16_boot_depth10_scale50", "bootstrapping to 24 bits", (16, 10, 50.0), (2, 13, 13)),
    factors(3, (4, 3), 14.0),
    nested_sizes(60.0, 50.0, 60.0, 55.5),
    5,
);

const BOOT_35: Preset = boot(
    scale35("n16_boot_depth21_scale35", "bootstrapping to 12 bits", (16, 21), 13),
    factors(3, (4, 3), 8.0),
    // Smaller levels of CoeffsToSlots leave room for a special prime more, so for fewer digits, and cost no precision.
    rational_sizes(58.0, 4.0 * UNIT_35, [6.0 * UNIT_35, 6.0 * UNIT_35, 5.0 * UNIT_35, 6.0 * UNIT_35]),
    5,
);

const BOOT_40: Preset = boot(
    scale40("n16_boot_depth15_scale40", "bootstrapping to 16 bits", (16, 15), 15),
    factors(3, (4, 3), 10.0),
    // A little less than five units, because primes of the chain beside the smaller terminal prime are below 2^30.
    rational_sizes(
        60.0,
        3.0 * UNIT_40,
        [5.0 * UNIT_40 - 0.25, 5.0 * UNIT_40 - 0.25, 4.0 * UNIT_40, 5.0 * UNIT_40 - 0.25],
    ),
    5,
);

const BOOT_45: Preset = boot(
    scale45("n16_boot_depth12_scale45", "bootstrapping to 20 bits", (16, 12), 13),
    factors(3, (4, 3), 12.0),
    BootstrapSizes {
        base: 59.8,
        down: 9.0 * UNIT_45,
        doubling: 55.2,
        polynomial: 55.2,
        up: 52.0,
        last: 52.0,
        nested: true,
    },
    5,
);

/// For subring queries alone: no levels for a map from slots to coefficients. Levels of the map from coefficients to
/// slots are small, because it needs less precision than the exponential.
const QUERY_40: Preset = boot(
    scale40("n16_query_depth11_scale40", "short compact queries, with few keys", (16, 11), 12),
    BootstrapLiteral { slots_to_coeffs: 0, ..factors(1, (4, 3), 10.0) },
    rational_sizes(60.0, 4.0 * UNIT_40, [5.0 * UNIT_40 - 0.25, 5.0 * UNIT_40 - 0.25, 4.0 * UNIT_40, 4.0 * UNIT_40]),
    5,
);

/// Bits of level 0 and of the levels that a bootstrap uses.
#[derive(Clone, Copy, Debug, PartialEq)]
struct BootstrapSizes {
    base: f64,
    /// Levels of the map from slots to coefficients.
    down: f64,
    /// Levels of the doublings of the modular reduction, and of its polynomial.
    doubling: f64,
    polynomial: f64,
    /// Levels of the map from coefficients to slots, but for the lowest, and the lowest.
    up: f64,
    last: f64,
    /// Whether the levels above the levels of circuits are nested.
    nested: bool,
}

/// Sizes of levels beside terminal primes: fewer primes, where the sizes are whole numbers of units.
const fn rational_sizes(base: f64, down: f64, [doubling, polynomial, up, last]: [f64; 4]) -> BootstrapSizes {
    BootstrapSizes { base, down, doubling, polynomial, up, last, nested: false }
}

/// Sizes of nested levels. The levels of SlotsToCoeffs have the size of the levels of circuits.
const fn nested_sizes(base: f64, down: f64, reduction: f64, up: f64) -> BootstrapSizes {
    BootstrapSizes { base, down, doubling: reduction, polynomial: reduction, up, last: up, nested: true }
}

/// The same set in a small ring, for tests.
const fn small(preset: Preset, name: &'static str, purpose: &'static str) -> Preset {
    Preset { name, purpose, log2_degree: 11, ..preset }
}

const fn real(preset: Preset) -> Preset {
    Preset { kind: RingKind::ConjugateInvariant, ..preset }
}

/// Adds the levels of a bootstrap to the levels of the circuit: SlotsToCoeffs at the bottom, EvalMod and CoeffsToSlots
/// above the circuit. Groups of equal sizes are one group.
const fn boot(preset: Preset, literal: BootstrapLiteral, sizes: BootstrapSizes, encapsulation_primes: usize) -> Preset {
    let BootstrapSizes { base, down, doubling, polynomial, up, last, nested } = sizes;
    let own = preset.groups[0];
    let mut groups = [NO_LEVELS; MAX_GROUPS];
    let mut circuit = 0;
    if down == own.bits {
        groups[0] = LevelGroup { levels: own.levels + literal.slots_to_coeffs, ..own };
    } else {
        groups[0] = LevelGroup { levels: literal.slots_to_coeffs, bits: down, nested };
        groups[1] = own;
        circuit = 1;
    }
    let mut next = circuit + 1;
    if doubling == polynomial || literal.doublings == 0 {
        groups[next] = LevelGroup { levels: literal.eval_mod_levels, bits: polynomial, nested };
    } else {
        groups[next] = LevelGroup { levels: literal.doublings, bits: doubling, nested };
        next += 1;
        groups[next] = LevelGroup { levels: literal.eval_mod_levels - literal.doublings, bits: polynomial, nested };
    }
    next += 1;
    if last == up {
        groups[next] = LevelGroup { levels: literal.coeffs_to_slots, bits: up, nested };
    } else {
        groups[next] = LevelGroup { levels: 1, bits: last, nested };
        groups[next + 1] = LevelGroup { levels: literal.coeffs_to_slots - 1, bits: up, nested };
    }
    let bootstrap = Some(BootstrapShape { literal, base_bits: base, encapsulation_primes });
    Preset { groups, circuit, bootstrap, ..preset }
}

/// Factors of the map from slots to coefficients; stages of ModRaise and other factors of the map back.
const fn factors(
    slots_to_coeffs: usize,
    (raised_stages, coeffs_to_slots): (usize, usize),
    message_ratio_bits: f64,
) -> BootstrapLiteral {
    let (eval_mod_levels, doublings) = (8, 3);
    BootstrapLiteral { slots_to_coeffs, coeffs_to_slots, raised_stages, message_ratio_bits, eval_mod_levels, doublings }
}

/// Log2 of the degree, levels and bits of the largest set that a ring of degree 2^15 allows without switching keys: 29
/// primes. This limit is why the scale is slightly below 2^30.
const LINEAR_N15: (u32, usize, f64) = (15, 27, 29.94);

/// All presets. All but the insecure ones have 128 bits of security.
pub const PRESETS: [Preset; 44] = [
    preset("n13_depth3_scale30", "shallow circuits on small batches", (13, 3, 30.0), (2, 2, 2)),
    preset("n14_depth8_scale30", "lookups of up to 256 columns, about 10 bits", (14, 8, 30.0), (2, 4, 4)),
    preset("n14_depth5_scale50", "short circuits at high precision", (14, 5, 50.0), (2, 3, 3)),
    preset("n15_depth8_scale50", "lookups of up to 256 columns at high precision", (15, 8, 50.0), (3, 6, 6)),
    preset("n15_depth10_scale50", "lookups of up to 1024 columns at high precision", (15, 10, 50.0), (3, 9, 9)),
    preset("n15_depth11_scale50", "circuits of middle depth", (15, 11, 50.0), (2, 6, 6)),
    preset("n15_depth17_scale30", "permutations and matrices, about 12 bits", (15, 17, 30.0), (2, 8, 7)),
    preset(
        "n15_linear_depth27_scale30",
        "sums and plaintext products alone: all 868 bits for data",
        LINEAR_N15,
        (2, 0, 1),
    ),
    preset("n16_depth20_scale58", "deep circuits; the set of the engine's benchmark", (16, 20, 58.0), (3, 15, 15)),
    preset("n16_depth24_scale52", "the one-hot baseline of lookups", (16, 24, 52.0), (2, 10, 10)),
    preset("n16_depth28_scale50", "the one-hot baseline of lookups of 1024 columns", (16, 28, 50.0), (2, 9, 9)),
    scale35("n14_depth6_scale35", "short circuits, about 15 bits", (14, 6), 4),
    scale40("n14_depth7_scale40", "short circuits, about 20 bits", (14, 7), 3),
    scale45("n14_depth5_scale45", "short circuits, about 25 bits", (14, 5), 4),
    scale35("n15_depth15_scale35", "circuits of middle depth, about 14 bits", (15, 15), 8),
    scale40("n15_depth13_scale40", "circuits of middle depth, about 19 bits", (15, 13), 9),
    scale45("n15_depth13_scale45", "circuits of middle depth, about 24 bits", (15, 13), 7),
    scale35("n16_depth33_scale35", "deep circuits, about 13 bits", (16, 33), 12),
    scale40("n16_depth31_scale40", "deep circuits, about 18 bits", (16, 31), 12),
    scale45("n16_depth27_scale45", "deep circuits, about 23 bits", (16, 27), 12),
    real(preset("n14_real_depth8_scale30", "real lookups, twice the slots", (14, 8, 30.0), (2, 4, 4))),
    real(preset("n15_real_depth11_scale50", "real circuits of middle depth", (15, 11, 50.0), (3, 6, 6))),
    real(preset("n15_real_depth17_scale30", "real matrices, about 12 bits", (15, 17, 30.0), (2, 8, 7))),
    boot(
        preset("n15_boot_depth5_scale30", "bootstrapping with small ciphertexts", (15, 5, 30.0), (2, 4, 3)),
        factors(2, (4, 2), 11.0),
        nested_sizes(50.0, 30.0, 48.0, 50.0),
        4,
    ),
    BOOT_50,
    boot(
        preset("insecure_n11_boot_depth10_scale50", "tests of bootstrapping", (11, 10, 50.0), (2, 13, 13)),
        factors(3, (4, 3), 14.0),
        nested_sizes(60.0, 50.0, 60.0, 55.5),
        5,
    ),
    BOOT_35,
    BOOT_40,
    BOOT_45,
    QUERY_40,
    small(BOOT_35, "insecure_n11_boot_depth21_scale35", "tests of bootstrapping"),
    small(BOOT_40, "insecure_n11_boot_depth15_scale40", "tests of bootstrapping"),
    small(BOOT_45, "insecure_n11_boot_depth12_scale45", "tests of bootstrapping"),
    small(QUERY_40, "insecure_n11_query_depth11_scale40", "tests of short compact queries"),
    preset("insecure_n11_linear_depth4_scale30", "tests of encryption alone", (11, 4, 29.9), (2, 0, 1)),
    preset("insecure_n11_depth9_scale50", "tests", (11, 9, 50.0), (3, 4, 4)),
    scale35("insecure_n11_depth12_scale35", "tests of levels that are not nested", (11, 12), 5),
    scale40("insecure_n11_depth12_scale40", "tests of levels that are not nested", (11, 12), 5),
    scale45("insecure_n11_depth12_scale45", "tests of levels that are not nested", (11, 12), 5),
    real(scale40("insecure_n11_real_depth12_scale40", "tests in the real ring", (11, 12), 5)),
    preset("insecure_n11_depth24_scale52", "tests of deep circuits", (11, 24, 52.0), (2, 10, 10)),
    preset("insecure_n11_depth17_scale30", "tests of permutations", (11, 17, 30.0), (2, 8, 7)),
    real(preset("insecure_n11_real_depth17_scale30", "tests of matrices", (11, 17, 30.0), (2, 8, 7))),
    real(preset("insecure_n11_real_depth9_scale50", "tests in the real ring", (11, 9, 50.0), (3, 4, 4))),
];

impl Preset {
    /// Finds the preset with this name.
    ///
    /// # Errors
    /// If there is no such preset; the message lists the existing ones.
    pub fn find(name: &str) -> Result<&'static Preset, CkksError> {
        PRESETS.iter().find(|p| p.name == name).ok_or_else(|| {
            let names: Vec<&str> = PRESETS.iter().map(|p| p.name).collect();
            CkksError::Parameters {
                name: name.into(),
                reason: format!("no such preset; there are {}", names.join(", ")),
            }
        })
    }

    /// Whether the set is made for bootstrapping, and not for subring queries alone.
    pub fn bootstraps(&self) -> bool {
        self.bootstrap.is_some_and(|shape| shape.literal.slots_to_coeffs > 0)
    }

    /// Whether the set has less than 128 bits of security, for tests.
    pub fn is_insecure(&self) -> bool {
        self.name.starts_with("insecure_")
    }

    /// The parameter literal, with the primes chosen.
    ///
    /// # Errors
    /// If there are not enough primes of the required sizes.
    pub fn literal(&self) -> Result<CkksLiteral, CkksError> {
        let degree = 1usize << self.log2_degree;
        let shape = Shape {
            step: self.kind.prime_step(degree),
            special: self.special_primes,
            base: (self.base_primes, self.bootstrap.map(|shape| shape.base_bits)),
            groups: &self.groups,
            circuit: self.circuit,
            terminal: self.terminal,
        };
        let Primes { chain, terminal, special, levels, scale } =
            shape.primes().map_err(|reason| CkksError::Parameters { name: self.name.into(), reason })?;
        let ring = RingLiteral { degree, kind: self.kind, chain, terminal, special, digit_len: self.digit_len };
        let secret = SecretDistribution::UniformTernary;
        let encapsulation = self
            .bootstrap
            .map(|shape| EncapsulationLiteral { base: self.base_primes, primes: shape.encapsulation_primes });
        Ok(CkksLiteral {
            rlwe: ParametersLiteral { name: self.name.into(), ring, secret, encapsulation },
            levels,
            scale_bits: scale.log2(),
            bootstrap: self.bootstrap.map(|shape| shape.literal),
        })
    }

    /// Builds the parameters. While parameters of a preset are in use, every call returns the same object, so that
    /// keys, ciphertexts and encodings of one caller work with the parameters of another.
    ///
    /// # Errors
    /// As for [`Preset::literal`] and [`CkksParameters::new`].
    pub fn build(&self) -> Result<CkksParameters, CkksError> {
        // Both locks protect values that are whole even if a thread panicked.
        let preset = {
            let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(built.entry(self.name).or_default())
        };
        let mut preset = preset.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(parameters) = preset.get() {
            return Ok(parameters);
        }
        let parameters = CkksParameters::new(self.literal()?)?;
        *preset = parameters.downgrade();
        Ok(parameters)
    }
}

/// The presets that were built, by name.
static BUILT: Mutex<BTreeMap<&'static str, Arc<Mutex<WeakParameters>>>> = Mutex::new(BTreeMap::new());

#[cfg(test)]
mod tests {
    use unspoken_ring::Basis;
    use unspoken_rlwe::security::SECURITY_BITS;

    use super::*;

    #[test]
    fn parameters_of_one_preset_are_one_object_while_in_use() {
        let preset = Preset::find("insecure_n11_depth9_scale50").unwrap();
        let [one, other] = [preset.build().unwrap(), preset.build().unwrap()];
        let mut sum = one.ring().zero(unspoken_ring::Basis::chain(1), unspoken_ring::Domain::Evaluation);
        // A ring refuses polynomials of other rings.
        other.ring().to_coefficients(&mut sum).unwrap();
    }

    #[test]
    fn every_preset_builds_and_says_the_truth_in_its_name() {
        for preset in PRESETS.iter().filter(|p| p.log2_degree <= 14) {
            let parameters = preset.build().unwrap();
            let secure = parameters.rlwe().secured_objects().iter().all(|o| o.security_bits >= SECURITY_BITS);
            assert_eq!(secure, !preset.name.starts_with("insecure_"), "{}", preset.name);
            let spent = preset.bootstrap.map_or(0, |shape| {
                shape.literal.eval_mod_levels + shape.literal.slots_to_coeffs + shape.literal.coeffs_to_slots
            });
            assert!(preset.name.contains(&format!("depth{}", parameters.max_level() - spent)));
        }
    }

    #[test]
    fn large_presets_have_their_security() {
        for preset in PRESETS.iter().filter(|p| p.log2_degree > 14) {
            let literal = preset.literal().unwrap();
            let ring = &literal.rlwe.ring;
            let bits: f64 =
                ring.chain.iter().chain(&ring.terminal).chain(&ring.special).map(|&q| f64::from(q).log2()).sum();
            let bound = unspoken_rlwe::security::max_log2_modulus(ring.degree, literal.rlwe.secret).unwrap();
            assert!(bits <= bound, "{}: {bits:.1} of {bound}", preset.name);
        }
    }

    #[test]
    fn scales_stay_put_under_repeated_squaring() {
        for preset in &PRESETS {
            let literal = preset.literal().unwrap();
            let log2 = |level: Basis| -> f64 {
                let ring = &literal.rlwe.ring;
                let primes = ring.chain[..level.chain].iter().chain(&ring.terminal[..level.terminal]);
                primes.map(|&q| f64::from(q).log2()).sum()
            };
            // Only the levels that circuits use; a bootstrap chooses its scales one by one.
            let first: usize = preset.groups[..preset.circuit].iter().map(|group| group.levels).sum();
            let mut scale = literal.scale_bits;
            let most = if preset.terminal.is_some() { 0.1 } else { 0.35 };
            for pair in literal.levels[first..=first + preset.groups[preset.circuit].levels].windows(2).rev() {
                scale = 2.0 * scale - (log2(pair[1]) - log2(pair[0]));
                assert!((scale - literal.scale_bits).abs() < most, "{}: {scale}", preset.name);
            }
        }
    }

    #[test]
    fn unknown_names_list_the_known_ones() {
        let message = Preset::find("n99").unwrap_err().to_string();
        assert!(message.contains("n15_depth8_scale50"), "{message}");
    }
}
