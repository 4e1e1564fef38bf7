//! CKKS parameter sets: primes and levels.

use std::ops::RangeInclusive;
use std::sync::{Arc, Weak};

use unspoken_ring::{Backend, Basis, Device, MAX_DROPPED, Ring, RingLiteral, Special};
use unspoken_rlwe::{self as rlwe, KeyKind, KeyPlan, ParametersLiteral, slot_count};

use crate::bootstrap::failure::log2_failure;
use crate::bootstrap::plan::factor_count;
use crate::error::CkksError;

/// The unchecked values of a CKKS parameter set.
#[derive(Clone, Debug, PartialEq)]
pub struct CkksLiteral {
    /// Ring, primes, secret.
    pub rlwe: ParametersLiteral,
    /// The primes of each level, from level 0 upwards.
    pub levels: Vec<Basis>,
    /// Bits of the default scale, 20 to 60.
    pub scale_bits: f64,
    /// The levels reserved for a bootstrap; `None` for a set without bootstrapping.
    pub bootstrap: Option<BootstrapLiteral>,
}

/// The levels that a parameter set reserves for a bootstrap: the lowest levels for the map from slots to coefficients,
/// the highest levels for the map from coefficients to slots, and the levels just below those for the modular
/// reduction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BootstrapLiteral {
    /// Number of factors, and of levels, of the map from slots to coefficients; 0 for a set that bootstraps subring
    /// queries alone ([`SubringBootstrap`](crate::SubringBootstrap)).
    pub slots_to_coeffs: usize,
    /// Number of factors, and of levels, of the map from coefficients to slots, without the factor of ModRaise.
    pub coeffs_to_slots: usize,
    /// `log2` of the number of rotations of ModRaise, each of which has a key: it has so many stages of the map from
    /// coefficients to slots, at no level, or sums so many copies of sparse slots instead.
    pub raised_stages: usize,
    /// `log2` of the ratio of the modulus of level 0 to the scale of a message at that level. The sine approximates the
    /// modular reduction with an error of `(2 pi / 2^bits)^2 / 6` for a slot of modulus 1.
    pub message_ratio_bits: f64,
    /// Number of levels of the modular reduction.
    pub eval_mod_levels: usize,
    /// How many of these levels double the argument, at the end. With more of them the polynomial before has a smaller
    /// degree, and its errors grow: each doubling multiplies them by up to four.
    pub doublings: usize,
}

/// A checked CKKS parameter set. Cheap to clone.
///
/// A product of two vectors at level `l` is rescaled to level `l - 1`: its modulus and its scale are divided by
/// [`CkksParameters::level_modulus`], which is close to the default scale, except at the levels that a bootstrapping
/// preset reserves for the bootstrap. Where the scale has about the size of one prime or of two, a level has the primes
/// of the level below and one or two more. At other scales the primes of successive levels are not nested: a rescale
/// multiplies some primes in and divides others out.
#[derive(Clone, Debug)]
pub struct CkksParameters(Arc<Inner>);

/// Parameters that are freed when nothing else uses them.
#[derive(Debug, Default)]
pub(crate) struct WeakParameters(Weak<Inner>);

#[derive(Debug)]
struct Inner {
    rlwe: rlwe::Parameters,
    levels: Vec<Basis>,
    scale: f64,
    bootstrap: Option<BootstrapLiteral>,
}

/// Most stages of ModRaise, which has two to this power keys.
const MAX_RAISED_STAGES: usize = 8;

/// Checks that a bootstrap of this shape can run with these levels. The error is the reason.
fn check_bootstrap(
    rlwe: &ParametersLiteral,
    base: Basis,
    levels: usize,
    bootstrap: BootstrapLiteral,
) -> Result<(), String> {
    let BootstrapLiteral { slots_to_coeffs, coeffs_to_slots, message_ratio_bits, .. } = bootstrap;
    let BootstrapLiteral { eval_mod_levels, doublings, raised_stages, .. } = bootstrap;
    let stages = (rlwe.ring.degree / 2).trailing_zeros() as usize;
    let factors = 1..=stages;
    let needed = slots_to_coeffs + coeffs_to_slots + eval_mod_levels;
    if !(5..=10).contains(&eval_mod_levels) || doublings + 4 > eval_mod_levels {
        return Err(format!(
            "a modular reduction of {eval_mod_levels} levels with {doublings} doublings; 5 to 10 levels are possible, \
             with at least four before the doublings"
        ));
    }
    if slots_to_coeffs > stages || !factors.contains(&coeffs_to_slots) {
        return Err(format!(
            "maps of {slots_to_coeffs} and {coeffs_to_slots} factors; up to {stages} are possible, and the \
             second one needs one or more"
        ));
    }
    if slots_to_coeffs > 0 {
        let most = MAX_RAISED_STAGES.min(stages.saturating_sub(2));
        if raised_stages > most {
            return Err(format!("{raised_stages} stages of ModRaise; up to {most} are possible"));
        }
        let found = factor_count(stages - raised_stages, stages - raised_stages, coeffs_to_slots);
        if found < coeffs_to_slots {
            return Err(format!("{coeffs_to_slots} factors to slots, but ModRaise leaves stages for {found}"));
        }
    }
    if levels < needed {
        return Err(format!("{levels} levels, but the bootstrap needs {needed}"));
    }
    if !(4.0..=40.0).contains(&message_ratio_bits) {
        return Err(format!("a modulus {message_ratio_bits} bits above the message; 4 to 40 are possible"));
    }
    if rlwe.encapsulation.map(|e| Basis::chain(e.base)) != Some(base) {
        return Err(format!("a bootstrap from {base}, but no switch of these to the sparse secret"));
    }
    Ok(())
}

/// Checks that the levels use all primes, and that each level has a larger modulus than the level below and can be
/// rescaled to that level. The error is the reason.
fn check_levels(ring: &RingLiteral, levels: &[Basis]) -> Result<(), String> {
    let all = Basis::chain(ring.chain.len()).with_terminal(ring.terminal.len());
    let used = union(levels);
    if used != all || levels.is_empty() || levels.iter().any(|level| level.chain == 0 || level.special != Special::None)
    {
        return Err(format!("{all}, but levels over {used}, each with a prime of the chain and no special primes"));
    }
    let log2 = |level: &Basis| -> f64 {
        let primes = ring.chain[..level.chain].iter().chain(&ring.terminal[..level.terminal]);
        primes.map(|&q| f64::from(q).log2()).sum()
    };
    for (level, pair) in levels.windows(2).enumerate() {
        let [below, own] = [pair[0], pair[1]];
        let bits = log2(&own) - log2(&below);
        let dropped = own.chain.saturating_sub(below.chain) + own.terminal.saturating_sub(below.terminal);
        if !LEVEL_BITS.contains(&bits) || dropped == 0 || dropped + ring.special.len() > MAX_DROPPED {
            return Err(format!(
                "level {} over {own}, {bits:.1} bits above {below}; {} to {} bits are possible, and {MAX_DROPPED} \
                 primes to divide by, with the special ones",
                level + 1,
                LEVEL_BITS.start(),
                LEVEL_BITS.end()
            ));
        }
    }
    Ok(())
}

/// The primes of some of several bases.
fn union(bases: &[Basis]) -> Basis {
    let most = |count: fn(&Basis) -> usize| bases.iter().map(count).max().unwrap_or(0);
    Basis::chain(most(|basis| basis.chain)).with_terminal(most(|basis| basis.terminal))
}

/// Bits of the ratio of a level to the one below.
const LEVEL_BITS: RangeInclusive<f64> = 16.0..=64.0;

/// Bits of the largest ratio by which a vector is rescaled at once on its way to a lower level.
const MAX_DROP_BITS: f64 = 100.0;

/// How a vector goes to a lower level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Drop {
    /// The vector has all primes of the lower level: its other primes are left out.
    Nested,
    /// The vector is multiplied by `factor`, the integer nearest to `ratio`. Then it is restricted to the primes of
    /// level `by` and rescaled by `ratio` to level `reached`, where the drop goes on. The scale stays. The values
    /// change by the quotient of factor and ratio, far less than by rounding.
    Rescaled { by: usize, reached: usize, factor: i128, ratio: f64 },
}

impl WeakParameters {
    /// The parameters, if they are still in use.
    pub(crate) fn get(&self) -> Option<CkksParameters> {
        self.0.upgrade().map(CkksParameters)
    }
}

impl CkksParameters {
    pub(crate) fn downgrade(&self) -> WeakParameters {
        WeakParameters(Arc::downgrade(&self.0))
    }

    /// Checks the literal and builds its ring on the fastest backend of this machine.
    ///
    /// # Errors
    /// If the levels do not fit the primes, or as for [`rlwe::Parameters::new`].
    pub fn new(literal: CkksLiteral) -> Result<Self, CkksError> {
        Self::with_backend(literal, Backend::detect())
    }

    /// As [`CkksParameters::new`], with the given backend.
    ///
    /// # Errors
    /// As for [`CkksParameters::new`], or if the backend is not available on this machine.
    pub fn with_backend(literal: CkksLiteral, backend: Backend) -> Result<Self, CkksError> {
        let CkksLiteral { rlwe, levels, scale_bits, bootstrap } = literal;
        let refuse = |reason: String| CkksError::Parameters { name: rlwe.name.clone(), reason };
        check_levels(&rlwe.ring, &levels).map_err(refuse)?;
        if !(20.0..=60.0).contains(&scale_bits) {
            return Err(refuse(format!("a scale of {scale_bits} bits; 20 to 60 are possible")));
        }
        if let Some(bootstrap) = bootstrap {
            check_bootstrap(&rlwe, levels[0], levels.len() - 1, bootstrap).map_err(refuse)?;
        }
        let rlwe = rlwe::Parameters::with_backend(rlwe, backend)?;
        Ok(CkksParameters(Arc::new(Inner { rlwe, levels, scale: scale_bits.exp2(), bootstrap })))
    }

    /// The same parameters with the polynomials of their ring on a device: see [`rlwe::Parameters::on_device`].
    ///
    /// # Errors
    /// As for [`rlwe::Parameters::on_device`].
    pub fn on_device(&self, device: &Device) -> Result<Self, CkksError> {
        let (levels, scale, bootstrap) = (self.0.levels.clone(), self.0.scale, self.0.bootstrap);
        let rlwe = self.0.rlwe.on_device(device)?;
        Ok(CkksParameters(Arc::new(Inner { rlwe, levels, scale, bootstrap })))
    }

    /// The underlying RLWE parameters.
    pub fn rlwe(&self) -> &rlwe::Parameters {
        &self.0.rlwe
    }

    /// The ring.
    pub fn ring(&self) -> &Ring {
        self.0.rlwe.ring()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.0.rlwe.name()
    }

    /// Slots of a vector: `n/2` complex ones, or `n` real ones in the conjugate-invariant ring.
    pub fn slots(&self) -> usize {
        slot_count(self.ring())
    }

    /// The highest level: the number of sequential products.
    pub fn max_level(&self) -> usize {
        self.0.levels.len() - 1
    }

    /// The default scale.
    pub fn scale(&self) -> f64 {
        self.0.scale
    }

    /// The highest level of circuits. The levels above it belong to the bootstrap, if there is one.
    pub fn circuit_level(&self) -> usize {
        let spent = |b: BootstrapLiteral| b.coeffs_to_slots + b.eval_mod_levels;
        self.max_level() - self.bootstrap().map_or(0, spent)
    }

    /// The levels reserved for a bootstrap; `None` for a set without bootstrapping.
    pub fn bootstrap(&self) -> Option<BootstrapLiteral> {
        self.0.bootstrap
    }

    /// Whether the set is made for bootstraps of vectors, and not for those of subring queries alone.
    pub fn bootstraps(&self) -> bool {
        self.bootstrap().is_some_and(|literal| literal.slots_to_coeffs > 0)
    }

    /// `log2` of a bound on the probability that a bootstrap of a ciphertext fails. `None` for parameters without
    /// bootstrapping: levelled arithmetic has noise, which the simulator predicts, but no failure event.
    pub fn log2_failure(&self) -> Option<f64> {
        self.bootstrap().map(|_| log2_failure(self.ring().degree()))
    }

    /// The primes of a ciphertext at level `level`, which is clamped to [`CkksParameters::max_level`].
    pub fn basis(&self, level: usize) -> Basis {
        self.0.levels[level.min(self.max_level())]
    }

    /// The primes of all levels up to this one. If levels are nested, these are the primes of the level itself.
    pub fn basis_up_to(&self, level: usize) -> Basis {
        union(&self.0.levels[..=level.min(self.max_level())])
    }

    /// The level whose primes are these, if there is one.
    pub fn level_of(&self, basis: Basis) -> Option<usize> {
        self.0.levels.iter().position(|&level| level == basis)
    }

    /// Number of primes of [`CkksParameters::basis`].
    pub fn limbs(&self, level: usize) -> usize {
        self.ring().limb_count(self.basis(level))
    }

    /// Number of chain primes that a switching key must cover for vectors at this level and at all below it.
    pub fn chain(&self, level: usize) -> usize {
        self.basis_up_to(level).chain
    }

    /// Adds a key for vectors at each of these levels to a plan.
    pub fn require_key(&self, plan: &mut KeyPlan, kind: KeyKind, levels: RangeInclusive<usize>) {
        levels.for_each(|level| plan.require_over(kind, self.basis(level)));
    }

    /// The ratio of the moduli of `level`, which is at least 1, and of the level below: a rescale divides the scale by
    /// it.
    pub fn level_modulus(&self, level: usize) -> f64 {
        let (own, below) = (self.basis(level), self.basis(level.saturating_sub(1)));
        let (chain, terminal) = (self.ring().chain(), self.ring().terminal());
        let product = |primes: &[u32], to: usize, from: usize| -> f64 {
            primes.get(from..to).unwrap_or_default().iter().map(|&q| f64::from(q)).product()
        };
        let divided = product(chain, own.chain, below.chain) * product(terminal, own.terminal, below.terminal);
        let multiplied = product(chain, below.chain, own.chain) * product(terminal, below.terminal, own.terminal);
        divided / multiplied
    }

    /// How a vector goes from level `from` to level `to`.
    pub(crate) fn drop(&self, from: usize, to: usize) -> Drop {
        let own = self.basis(from);
        let by = (to..=from).find(|&level| own.contains(self.basis(level))).unwrap_or(from);
        if by <= to {
            return Drop::Nested;
        }
        let ratio_to = |to: usize| (to + 1..=by).map(|level| self.level_modulus(level)).product::<f64>();
        let reached = (to..by).find(|&level| ratio_to(level).log2() <= MAX_DROP_BITS).unwrap_or(by - 1);
        let ratio = ratio_to(reached);
        Drop::Rescaled { by, reached, factor: ratio.round() as i128, ratio }
    }

    /// Bits of the modulus at `level`.
    pub fn log2_modulus(&self, level: usize) -> f64 {
        self.rlwe().log2_modulus(self.basis(level))
    }
}
