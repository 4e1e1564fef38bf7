//! The plan of a bootstrap: its levels, maps, keys and failure probability.

use std::f64::consts::PI;
use std::fmt;

use unspoken_ring::RingKind;
use unspoken_rlwe::{KeyKind, KeyPlan, galois};

use super::dft::Diagonals;
use super::eval_mod::EvalMod;
use super::failure::{RANGE, log2_failure};
use crate::bootstrap::dft;
use crate::error::CkksError;
use crate::inner_sum::InnerSum;
use crate::linear::{LinearPlan, RaisedPlan, Steps};
use crate::parameters::{BootstrapLiteral, CkksParameters};

/// Kind of values in the slots of the vectors to bootstrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotValues {
    /// Real numbers: one reduction.
    Real,
    /// Complex numbers: one reduction for each part.
    Complex,
}

/// How the real and the imaginary parts of slots go through the modular reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartLayout {
    /// There are no imaginary parts.
    Real,
    /// In two vectors, one after the other: the slots fill the ring.
    Apart,
    /// Side by side in one vector: the slots are sparse.
    Together,
}

impl PartLayout {
    fn new(parameters: &CkksParameters, slots: usize, values: SlotValues) -> Self {
        match values {
            SlotValues::Real => PartLayout::Real,
            SlotValues::Complex if slots < parameters.slots() => PartLayout::Together,
            SlotValues::Complex => PartLayout::Apart,
        }
    }
}

/// Fewest slots of a bootstrap: each of its maps has two factors or more.
const MIN_SLOTS: usize = 4;

/// Plan of a bootstrap: its keys, levels, memory and errors, before any key is made or memory allocated.
///
/// It supports vectors whose slots repeat with a period (sparse packing) or fill the ring. A
/// [`Bootstrapper`](crate::Bootstrapper), which holds the encoded matrices, has four operations, whose results are at
/// [`Bootstrap::output_level`]: [`Bootstrapper::refresh`](crate::Bootstrapper::refresh) from slots to slots,
/// [`Bootstrapper::refresh_coefficients`](crate::Bootstrapper::refresh_coefficients) from coefficients to slots (half a
/// bootstrap), [`Bootstrapper::exponential`](crate::Bootstrapper::exponential) from torus elements in the coefficients
/// to `exp(2 pi i t)` in the slots, and
/// [`Bootstrapper::exponential_of_query`](crate::Bootstrapper::exponential_of_query) the same from a compact query.
///
/// A slot `z` of [`Bootstrapper::refresh`](crate::Bootstrapper::refresh) comes back as `sin(a z) / a` with
/// `a = 2 pi / 2^message_ratio_bits`: this is precise for `|z| <= 1` in each part, and the error grows with the cube of
/// `z`. A simulator reports slots outside that range.
#[derive(Clone, Debug)]
pub struct Bootstrap {
    pub(super) parameters: CkksParameters,
    pub(super) literal: BootstrapLiteral,
    pub(super) slots: usize,
    pub(super) values: SlotValues,
    pub(super) layout: PartLayout,
    /// The map from slots to coefficients, down to level 0. Sparse slots need fewer factors and levels.
    pub(super) slots_to_coeffs: Vec<LinearPlan>,
    /// ModRaise, with the first factor of CoeffsToSlots and the sum of copies of sparse slots, at no level.
    pub(super) raised: RaisedPlan,
    /// The other factors of CoeffsToSlots, from the level after ModRaise down to the level of EvalMod.
    pub(super) coeffs_to_slots: Vec<LinearPlan>,
    /// Sums the copies of sparse slots that ModRaise has not summed.
    pub(super) sub_sum: InnerSum,
    pub(super) eval_mod: EvalMod,
    /// Bits of level 0 that coefficients leave for the weights of a product.
    pub(super) weight_bits: u32,
}

/// A number of baby steps near the square root of the number of diagonals, which needs few keys and only slightly more
/// time.
fn baby_steps(diagonals: &Diagonals) -> usize {
    let stride = diagonals.keys().copied().filter(|&k| k > 0).min().unwrap_or(1);
    let log2 = (diagonals.len() as f64).log2() / 2.0;
    stride << (log2.ceil() as u32)
}

/// Number of factors of a map of `stages` stages: no factor has more stages than a factor of the map of all slots,
/// which has `most` factors and `all` stages.
pub(crate) fn factor_count(stages: usize, all: usize, most: usize) -> usize {
    stages.div_ceil(all.div_ceil(most)).max(most.min(2))
}

/// `log2` of a number of slots.
fn log2_slots(slots: usize) -> usize {
    slots.trailing_zeros() as usize
}

/// The share of a constant for each factor of the map from coefficients to slots. The entries of a factor are rounded
/// at the given bits; the shares make the relative errors of all entries equal. A stage halves the entries.
fn shares(constant: f64, stages: &[usize], bits: &[f64]) -> Vec<f64> {
    let size: Vec<f64> = bits.iter().zip(stages).map(|(bits, &stages)| bits - stages as f64).collect();
    let mean = (size.iter().sum::<f64>() + constant.log2()) / size.len() as f64;
    size.iter().map(|size| (mean - size).exp2()).collect()
}

/// The plan of one factor of a map.
fn map_plan(
    parameters: &CkksParameters,
    diagonals: Diagonals,
    babies: usize,
    (level, (input, output)): (usize, (f64, f64)),
) -> Result<LinearPlan, CkksError> {
    let steps = Steps::of_babies(babies.min(parameters.slots()));
    LinearPlan::of_steps(parameters, diagonals, steps, level, input, output)
}

/// The map from coefficients to slots that the modular reduction follows.
pub(super) struct CoeffsToSlots {
    pub(super) slots: usize,
    /// The factor of the slots.
    pub(super) constant: f64,
    /// The scale of the input.
    pub(super) input: f64,
    /// Whether the output has the imaginary parts of the slots as further real parts.
    pub(super) doubled: bool,
    /// Stages of the factor of ModRaise, and bits of its plaintext scale; none if ModRaise has no factor.
    pub(super) raised: Option<(usize, f64)>,
    /// Most stages of all other factors of any number of slots.
    pub(super) stages: usize,
}

impl CoeffsToSlots {
    /// The diagonals of the factor of ModRaise, if it has one, and the plans of the other factors, from the level after
    /// ModRaise down to the level of EvalMod.
    pub(super) fn plans(
        &self,
        parameters: &CkksParameters,
        literal: &BootstrapLiteral,
        baby_steps: impl Fn(&Diagonals) -> usize,
    ) -> Result<(Option<Diagonals>, Vec<LinearPlan>), CkksError> {
        let &CoeffsToSlots { slots, constant, input, doubled, raised, stages } = self;
        let rest = log2_slots(slots) - raised.map_or(0, |(stages, _)| stages);
        let rest = dft::stages(rest, factor_count(rest, stages, literal.coeffs_to_slots));
        let count = rest.len();
        let reduced = parameters.circuit_level() + literal.eval_mod_levels;
        let scale = parameters.level_modulus(reduced);
        let output = |i: usize| if i + 1 == count { scale } else { input };
        // Stages and bits of each factor, in the order of application.
        let own = rest.iter().rev().enumerate();
        let own = own.map(|(i, &n)| (n, (parameters.level_modulus(reduced + count - i) * output(i) / input).log2()));
        let factors: Vec<(usize, f64)> = raised.into_iter().chain(own).collect();
        let (sizes, bits): (Vec<usize>, Vec<f64>) = factors.into_iter().unzip();
        let constants = shares(constant, &sizes, &bits);
        let mut factors =
            dft::coeffs_to_slots(slots, &sizes.into_iter().zip(constants).collect::<Vec<_>>()).into_iter();
        let first = raised.and_then(|_| factors.next());
        let plan = |(i, diagonals): (usize, Diagonals)| {
            let last = i + 1 == count && doubled;
            let diagonals = if last { dft::with_parts(diagonals) } else { diagonals };
            let babies = baby_steps(&diagonals);
            map_plan(parameters, diagonals, babies, (reduced + count - i, (input, output(i))))
        };
        Ok((first, factors.enumerate().map(plan).collect::<Result<_, _>>()?))
    }
}

/// Diagonals of a map of periodic slots after the sum of `copies` rotations of its input by multiples of `stride`.
fn after_sum(diagonals: &Diagonals, (copies, stride): (usize, usize)) -> Diagonals {
    let images = |copy: usize| diagonals.iter().map(move |(&k, diagonal)| (k + copy * stride, diagonal.clone()));
    (0..copies).flat_map(images).collect()
}

pub(super) fn literal_of(parameters: &CkksParameters) -> Result<BootstrapLiteral, CkksError> {
    parameters.bootstrap().ok_or_else(|| {
        let reason = "not made for bootstrapping; take a preset with 'boot' in its name, or 'query' for short compact \
                      queries"
            .into();
        CkksError::Parameters { name: parameters.name().into(), reason }
    })
}

/// The modulus of level 0.
fn modulus(parameters: &CkksParameters) -> f64 {
    parameters.ring().chain()[..parameters.chain(0)].iter().map(|&q| f64::from(q)).product()
}

impl Bootstrap {
    /// Plans the bootstrap of vectors whose slots repeat with period `slots` (`parameters.slots()` for vectors that
    /// fill the ring).
    ///
    /// # Errors
    /// If the parameters are not made for bootstrapping or in the conjugate-invariant ring, or `slots` is not a power
    /// of two from 4 to the number of slots.
    pub fn new(parameters: &CkksParameters, slots: usize, values: SlotValues) -> Result<Self, CkksError> {
        Self::with_weights(parameters, slots, values, 0)
    }

    /// Plans bootstraps of vectors of real slots that fill the ring, with or without matrix products between their
    /// halves ([`Bootstrapper::refresh_product`](crate::Bootstrapper::refresh_product)). Weights are multiples of
    /// `2^-weight_bits`; coefficients before the product are as much smaller, and so is their precision.
    ///
    /// # Errors
    /// As for [`Bootstrap::new`], or if there are not 1 to 24 bits.
    pub fn for_products(parameters: &CkksParameters, weight_bits: u32) -> Result<Self, CkksError> {
        if !(1..=24).contains(&weight_bits) {
            let (found, needed) = (weight_bits as usize, "1 to 24 bits for weights".into());
            return Err(CkksError::Shape { operation: "plan a bootstrap with products", found, needed });
        }
        Self::with_weights(parameters, parameters.slots(), SlotValues::Real, weight_bits)
    }

    fn with_weights(
        parameters: &CkksParameters,
        slots: usize,
        values: SlotValues,
        weight_bits: u32,
    ) -> Result<Self, CkksError> {
        const OPERATION: &str = "plan a bootstrap";
        if parameters.ring().kind() == RingKind::ConjugateInvariant {
            return Err(CkksError::RealRing { operation: OPERATION });
        }
        let literal = literal_of(parameters)?;
        if literal.slots_to_coeffs == 0 {
            let reason = "made for the bootstrap of subring queries alone; take another preset with 'boot' in its name";
            return Err(CkksError::Parameters { name: parameters.name().into(), reason: reason.into() });
        }
        if !slots.is_power_of_two() || !(MIN_SLOTS..=parameters.slots()).contains(&slots) {
            let needed = format!("a power of two from {MIN_SLOTS} to the {} slots", parameters.slots());
            return Err(CkksError::Shape { operation: OPERATION, found: slots, needed });
        }
        let layout = PartLayout::new(parameters, slots, values);
        let BootstrapLiteral { slots_to_coeffs, message_ratio_bits, .. } = literal;
        let eval_mod = EvalMod::new(RANGE, &literal)?;
        let modulus = modulus(parameters);
        let message_scale = modulus * (-message_ratio_bits).exp2();
        let all = log2_slots(parameters.slots());
        let maps = dft::slots_to_coeffs(slots, factor_count(log2_slots(slots), all, slots_to_coeffs));
        let (count, scale) = (maps.len(), parameters.scale());
        let slots_to_coeffs = maps.into_iter().enumerate().map(|(i, diagonals)| {
            let last = message_scale * (-f64::from(weight_bits)).exp2();
            // Keys of low levels are small, so twice the baby steps cost little memory.
            let babies = 2 * baby_steps(&diagonals);
            let scales = (scale, if i + 1 == count { last } else { scale });
            map_plan(parameters, diagonals, babies, (count - i, scales))
        });
        let slots_to_coeffs = slots_to_coeffs.collect::<Result<Vec<_>, _>>()?;
        // Real and imaginary parts are computed as a sum with the conjugate (factor 2), and summing repeated slots
        // multiplies by their number of repetitions.
        let constant = slots as f64 / (2.0 * eval_mod.bound() * parameters.slots() as f64);
        // ModRaise rotates by the multiples of one stride, whatever the number of slots is: it sums copies, and has as
        // many stages as are left.
        let (copies, most) = (parameters.slots() / slots, 1 << literal.raised_stages);
        let own_stages = literal.raised_stages.saturating_sub(log2_slots(copies));
        let plaintext_bits = parameters.rlwe().raised_divisor()?.log2();
        let map = CoeffsToSlots {
            slots,
            constant,
            input: modulus,
            doubled: layout == PartLayout::Together,
            raised: Some((own_stages, plaintext_bits)),
            stages: all - literal.raised_stages,
        };
        let (first, coeffs_to_slots) = map.plans(parameters, &literal, baby_steps)?;
        let summed = copies.min(most);
        let stride = slots.max(parameters.slots() / most);
        let first = after_sum(&first.unwrap_or_default(), (summed, stride));
        let level = parameters.circuit_level() + literal.eval_mod_levels + coeffs_to_slots.len();
        let raised = RaisedPlan::new(parameters, first, level, (modulus, modulus))?;
        let sub_sum = InnerSum::new(slots as i64, copies / summed)?;
        let parameters = parameters.clone();
        Ok(Bootstrap {
            parameters,
            literal,
            slots,
            values,
            layout,
            slots_to_coeffs,
            raised,
            coeffs_to_slots,
            sub_sum,
            eval_mod,
            weight_bits,
        })
    }

    /// The parameters.
    pub fn parameters(&self) -> &CkksParameters {
        &self.parameters
    }

    /// The period of the slots.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// The level that the input of [`Bootstrapper::refresh`](crate::Bootstrapper::refresh) needs, at the parameters'
    /// scale.
    pub fn input_level(&self) -> usize {
        self.slots_to_coeffs.len()
    }

    /// The level to which the modulus is raised: the highest, or below it if sparse slots have fewer factors.
    pub(super) fn raised_level(&self) -> usize {
        self.raised.level()
    }

    /// The level of every result.
    pub fn output_level(&self) -> usize {
        self.parameters.circuit_level()
    }

    /// Number of sequential products between two bootstraps. Sparse slots may leave levels of the map from slots to
    /// coefficients; they count if they are of the size of the scale.
    pub fn depth(&self) -> usize {
        let scale = self.parameters.scale();
        let keeps_scale = |&level: &usize| (self.parameters.level_modulus(level) / scale).log2().abs() < 0.5;
        (self.input_level() + 1..=self.output_level()).rev().take_while(keeps_scale).count()
    }

    /// The scale that the coefficients need for
    /// [`Bootstrapper::refresh_coefficients`](crate::Bootstrapper::refresh_coefficients), at level 0.
    pub fn message_scale(&self) -> f64 {
        self.modulus() * (-self.literal.message_ratio_bits).exp2()
    }

    /// `log2` of a bound on the probability that the result is wrong in any slot.
    pub fn log2_failure(&self) -> f64 {
        log2_failure(self.parameters.ring().degree())
    }

    /// A bound on the approximation error, without noise, of a real slot of modulus at most 1: the error of the sine as
    /// an approximation of the reduction, and the error of the polynomial as an approximation of the sine. A complex
    /// slot has this error in each part.
    pub fn approximation_error(&self) -> f64 {
        let angle = 2.0 * PI * (-self.literal.message_ratio_bits).exp2();
        1.0 - angle.sin() / angle + self.eval_mod.sine_error() / angle
    }

    /// The keys of [`Bootstrapper::refresh`](crate::Bootstrapper::refresh).
    pub fn key_plan(&self) -> KeyPlan {
        let mut plan = self.coefficient_key_plan();
        self.slots_to_coeffs.iter().for_each(|map| plan.extend(&map.key_plan()));
        plan
    }

    /// The keys of [`Bootstrapper::refresh_coefficients`](crate::Bootstrapper::refresh_coefficients) and
    /// [`Bootstrapper::exponential`](crate::Bootstrapper::exponential).
    pub fn coefficient_key_plan(&self) -> KeyPlan {
        let mut plan = self.raised_key_plan();
        plan.require(KeyKind::Encapsulation, self.encapsulation_primes());
        plan
    }

    /// The keys of [`Bootstrapper::exponential_of_query`](crate::Bootstrapper::exponential_of_query).
    pub fn query_key_plan(&self) -> KeyPlan {
        let mut plan = self.raised_key_plan();
        plan.require(KeyKind::QueryEncapsulation, self.encapsulation_primes());
        plan
    }

    fn encapsulation_primes(&self) -> usize {
        self.parameters.rlwe().literal().encapsulation.map_or(0, |e| e.primes)
    }

    /// The keys of all steps after the encapsulation.
    fn raised_key_plan(&self) -> KeyPlan {
        let (ring, top) = (self.parameters.ring(), self.raised_level());
        let mut plan = KeyPlan::new();
        plan.extend(&self.raised.key_plan());
        plan.extend(&self.sub_sum.key_plan(&self.parameters, top));
        self.coeffs_to_slots.iter().for_each(|map| plan.extend(&map.key_plan()));
        let reduced = top - self.coeffs_to_slots.len();
        let conjugation = KeyKind::Galois { element: galois::conjugation(ring) };
        plan.require_over(conjugation, self.parameters.basis(reduced));
        self.parameters.require_key(&mut plan, KeyKind::Relinearisation, self.output_level() + 1..=reduced);
        if self.layout == PartLayout::Together {
            let element = galois::rotation(ring, self.slots as i64);
            plan.require_over(KeyKind::Galois { element }, self.parameters.basis(self.output_level()));
        }
        plan
    }

    /// Bytes of memory of the matrices of a [`Bootstrapper`](crate::Bootstrapper), including the map from slots to
    /// coefficients.
    pub fn prepared_bytes(&self) -> u64 {
        let maps = self.slots_to_coeffs.iter().chain(&self.coeffs_to_slots);
        maps.map(LinearPlan::prepared_bytes).sum::<u64>() + self.raised.prepared_bytes()
    }

    /// The modulus of level 0, which is the scale of the input of
    /// [`Bootstrapper::exponential`](crate::Bootstrapper::exponential).
    pub fn modulus(&self) -> f64 {
        modulus(&self.parameters)
    }
}

impl fmt::Display for Bootstrap {
    /// Prints a table of keys, levels, memory and errors.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (keys, ring) = (self.key_plan(), self.parameters.ring());
        let parts = match self.values {
            SlotValues::Real => "real",
            SlotValues::Complex => "complex",
        };
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        writeln!(f, "preset     {}, {} {parts} slots", self.parameters.name(), self.slots)?;
        writeln!(
            f,
            "levels     input {}, output {}: {} products between two bootstraps; {:.0} bits of modulus left",
            self.input_level(),
            self.output_level(),
            self.depth(),
            self.parameters.log2_modulus(self.output_level())
        )?;
        writeln!(
            f,
            "keys       {}: {:.0} MB in memory, {:.0} MB on the wire",
            keys.len(),
            megabytes(keys.memory_bytes(ring)),
            megabytes(keys.wire_bytes(ring))
        )?;
        writeln!(f, "matrices   {:.0} MB, once for all clients", megabytes(self.prepared_bytes()))?;
        write!(
            f,
            "errors     approximation at most 2^{:.1} for parts of at most 1; failure probability at most 2^{:.1}",
            self.approximation_error().log2(),
            self.log2_failure()
        )
    }
}
