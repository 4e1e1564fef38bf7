//! Execution of bootstraps, encrypted and simulated.

use std::f64::consts::PI;

use num_complex::Complex64;
use unspoken_rlwe::{CompactQuery, CompactQueryParameters, KeyKind};

use super::bootstrapper::Bootstrapper;
use super::eval_mod::EvalMod;
use super::plan::{Bootstrap, PartLayout};
use super::works::Work;
use crate::arithmetic::Arithmetic;
use crate::ciphertext::Ciphertext;
use crate::encoding::Encoder;
use crate::error::CkksError;
use crate::evaluator::Evaluator;
use crate::group::{at_once, each};
use crate::inner_sum::InnerSum;
use crate::linear::{LinearPlan, LinearSums, LinearTransform, RaisedPlan, RaisedTransform};
use crate::memory::vector_bytes;
use crate::simulator::{Simulated, Simulator};

/// A phase of a bootstrap, by the names of the literature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootstrapPhase {
    /// From slots to coefficients, at the lowest levels.
    SlotsToCoeffs,
    /// To the largest modulus, which adds multiples of the lowest one, with the first factor of CoeffsToSlots.
    ModRaise,
    /// The other factors from coefficients to slots.
    CoeffsToSlots,
    /// Removal of the multiples.
    EvalMod,
}

/// Operations that a bootstrap needs in addition to [`Arithmetic`].
pub(super) trait Refresh: Arithmetic + Sized {
    /// A linear map in the form that this arithmetic applies, and one of raised vectors.
    type Map;
    type RaisedMap;

    fn transform(&self, map: &Self::Map, a: &Self::Vector) -> Result<Self::Vector, CkksError>;

    /// The same polynomial, interpreted at another scale.
    fn at_scale(&self, a: Self::Vector, scale: f64) -> Self::Vector;

    /// Raises from level 0 and applies a map. The raise adds multiples of `modulus` to the coefficients of the
    /// polynomial, and the scale becomes `modulus`. `range` is the largest coefficient that the reduction resolves.
    fn mod_raise(
        &self,
        a: &Self::Vector,
        map: &Self::RaisedMap,
        modulus: f64,
        range: f64,
    ) -> Result<Self::Vector, CkksError>;

    /// The sines of both parts of slots.
    fn sines(&self, eval_mod: &EvalMod, parts: &[Self::Vector; 2], scale: f64) -> Result<Both<Self>, CkksError>;
}

/// The factors from coefficients to slots: that of ModRaise, and the others.
type UpMaps<'a, A> = (&'a <A as Refresh>::RaisedMap, &'a [<A as Refresh>::Map]);

/// Factors from slots to coefficients and back.
type Maps<'a, A> = (&'a [<A as Refresh>::Map], UpMaps<'a, A>);

/// One vector for each part of slots.
type Both<A> = [<A as Arithmetic>::Vector; 2];

impl Refresh for Evaluator<'_> {
    type Map = LinearTransform;
    type RaisedMap = RaisedTransform;

    fn transform(&self, map: &LinearTransform, a: &Ciphertext) -> Result<Ciphertext, CkksError> {
        map.apply(self, a)
    }

    fn at_scale(&self, a: Ciphertext, scale: f64) -> Ciphertext {
        Ciphertext { scale, ..a }
    }

    /// On two threads: threads that share the work of one vector wait for each other at every step.
    fn sines(&self, eval_mod: &EvalMod, parts: &[Ciphertext; 2], scale: f64) -> Result<Both<Self>, CkksError> {
        let [first, second] = parts;
        let sine = |part| eval_mod.sine(self, part, scale);
        let (first, second) = rayon::join(|| sine(first), || sine(second));
        Ok([first?, second?])
    }

    fn mod_raise(
        &self,
        a: &Ciphertext,
        map: &RaisedTransform,
        _modulus: f64,
        _range: f64,
    ) -> Result<Ciphertext, CkksError> {
        map.apply(self, &a.inner().encapsulate(self.parameters().rlwe(), KeyKind::Encapsulation, self.keys())?)
    }
}

impl Refresh for Simulator {
    type Map = LinearPlan;
    type RaisedMap = RaisedPlan;

    fn transform(&self, map: &LinearPlan, a: &Simulated) -> Result<Simulated, CkksError> {
        Ok(Simulator::transform(self, &LinearSums::of_one(map), &[a])?.swap_remove(0))
    }

    fn at_scale(&self, a: Simulated, scale: f64) -> Simulated {
        self.reinterpret(&a, scale)
    }

    fn sines(&self, eval_mod: &EvalMod, parts: &[Simulated; 2], scale: f64) -> Result<Both<Self>, CkksError> {
        let [first, second] = parts;
        self.both(|a| eval_mod.sine(a, first, scale), |a| eval_mod.sine(a, second, scale))
    }

    fn mod_raise(&self, a: &Simulated, map: &RaisedPlan, modulus: f64, range: f64) -> Result<Simulated, CkksError> {
        self.raise_modulus(a, map, modulus, range)
    }
}

/// Sums the copies of sparse slots and maps raised coefficients to slots.
pub(super) fn coeffs_to_slots<A: Refresh>(
    a: &A,
    sub_sum: &InnerSum,
    maps: &[A::Map],
    raised: &A::Vector,
) -> Result<A::Vector, CkksError> {
    maps.iter().try_fold(sub_sum.apply(a, raised)?, |slots, map| a.transform(map, &slots))
}

/// The exponentials of slots that contain half of each coefficient divided by the reduction's bound.
pub(super) fn exponential<A: Refresh>(
    a: &A,
    slots: &A::Vector,
    eval_mod: &EvalMod,
    scale: f64,
) -> Result<A::Vector, CkksError> {
    eval_mod.exponential(a, &a.add(slots, &a.conjugate(slots)?)?, scale)
}

/// Largest factor by which the scale of an input may differ from the parameters' scale.
const SCALE_ROOM: f64 = 2.0;

impl Bootstrap {
    /// Bootstraps from slots to slots.
    fn refresh_on<A: Refresh>(
        &self,
        a: &A,
        (slots_to_coeffs, up): Maps<'_, A>,
        input: &A::Vector,
    ) -> Result<A::Vector, CkksError> {
        let slots = self.lowest_input(a, input)?;
        let coefficients = self.message_of_coefficients(a, self.slots_to_coeffs(a, slots_to_coeffs, slots)?)?;
        // The map leaves the message at the planned scale, so the output gets the scale of the input.
        let output = self.refresh_coefficients_on(a, up, &coefficients)?;
        Ok(a.at_scale(output, a.scale(input)))
    }

    /// Maps slots to coefficients at level 0.
    fn slots_to_coeffs<A: Refresh>(&self, a: &A, maps: &[A::Map], slots: A::Vector) -> Result<A::Vector, CkksError> {
        maps.iter().try_fold(slots, |slots, map| a.transform(map, &slots))
    }

    /// Maps one or two vectors of real slots to coefficients at level 0, as the parts of one vector.
    pub(super) fn slots_to_coeffs_of_parts<A: Refresh>(
        &self,
        a: &A,
        maps: &[A::Map],
        parts: &[&A::Vector],
    ) -> Result<A::Vector, CkksError> {
        let slots = match parts {
            [first, second] => {
                let [first, second] = [first, second].map(|input| self.lowest_input(a, input));
                a.add(&first?, &a.mul_imaginary(&second?)?)?
            }
            _ => self.lowest_input(a, parts[0])?,
        };
        self.slots_to_coeffs(a, maps, slots)
    }

    /// The coefficients at the scale of a message: a plan for products leaves them smaller.
    fn message_of_coefficients<A: Refresh>(&self, a: &A, coefficients: A::Vector) -> Result<A::Vector, CkksError> {
        match self.weight_bits {
            0 => Ok(coefficients),
            _ => a.mul_constant(&coefficients, Complex64::from(1.0), self.message_scale()),
        }
    }

    /// The real slots, or the real and the imaginary parts of slots, reduced, and multiplied by a factor. The results
    /// have the scale of the sine.
    pub(super) fn eval_mod_of_parts<A: Refresh>(
        &self,
        a: &A,
        slots: &A::Vector,
        (parts, factor): (usize, f64),
    ) -> Result<Vec<A::Vector>, CkksError> {
        let scale = self.sine_scale() * factor;
        if parts == 1 {
            let part = a.add(slots, &a.conjugate(slots)?)?;
            return Ok(vec![self.eval_mod.sine(a, &part, scale)?]);
        }
        Ok(a.sines(&self.eval_mod, &self.both_parts(a, slots)?, scale)?.into())
    }

    /// Bootstraps two vectors of real slots as the parts of one complex vector: the linear maps serve both.
    fn refresh_pair_on<A: Refresh>(
        &self,
        a: &A,
        (slots_to_coeffs, up): Maps<'_, A>,
        inputs: [&A::Vector; 2],
    ) -> Result<Vec<A::Vector>, CkksError> {
        let coefficients =
            self.message_of_coefficients(a, self.slots_to_coeffs_of_parts(a, slots_to_coeffs, &inputs)?)?;
        let slots = self.raised_slots(a, up, &coefficients)?;
        let outputs = self.eval_mod_of_parts(a, &slots, (2, 1.0))?.into_iter().zip(inputs);
        Ok(outputs.map(|(output, input)| a.at_scale(output, a.scale(input))).collect())
    }

    /// The input of the map from slots to coefficients, at the parameters' scale.
    pub(super) fn lowest_input<A: Refresh>(&self, a: &A, input: &A::Vector) -> Result<A::Vector, CkksError> {
        const OPERATION: &str = "bootstrap";
        let (found, needed) = (a.level(input), self.input_level());
        if found < needed {
            return Err(CkksError::Level { operation: OPERATION, found, needed });
        }
        let (found, needed) = (a.scale(input), self.parameters.scale());
        if !(1.0 / SCALE_ROOM..=SCALE_ROOM).contains(&(found / needed)) {
            return Err(CkksError::Scale { operation: OPERATION, found, needed });
        }
        Ok(a.at_scale(a.drop_to(input, self.input_level())?, needed))
    }

    /// Bootstraps from coefficients at level 0 to slots.
    pub(super) fn refresh_coefficients_on<A: Refresh>(
        &self,
        a: &A,
        maps: UpMaps<'_, A>,
        input: &A::Vector,
    ) -> Result<A::Vector, CkksError> {
        self.eval_mod(a, self.raised_slots(a, maps, input)?)
    }

    /// ModRaise and CoeffsToSlots.
    pub(super) fn raised_slots<A: Refresh>(
        &self,
        a: &A,
        (raised, maps): UpMaps<'_, A>,
        input: &A::Vector,
    ) -> Result<A::Vector, CkksError> {
        self.coeffs_to_slots(a, maps, self.mod_raise(a, raised, input)?)
    }

    /// Reduces both parts of raised slots.
    fn eval_mod<A: Refresh>(&self, a: &A, slots: A::Vector) -> Result<A::Vector, CkksError> {
        let scale = self.sine_scale();
        let slots = match self.layout {
            PartLayout::Real => self.eval_mod.sine(a, &a.add(&slots, &a.conjugate(&slots)?)?, scale)?,
            PartLayout::Apart => {
                let [real, imaginary] = a.sines(&self.eval_mod, &self.both_parts(a, &slots)?, scale)?;
                a.add(&real, &a.mul_imaginary(&imaginary)?)?
            }
            PartLayout::Together => {
                let parts = a.add(&slots, &a.conjugate(&slots)?)?;
                let parts = self.eval_mod.sine_of_parts(a, &parts, (self.slots, scale))?;
                a.add(&parts, &a.rotate(&parts, self.slots as i64)?)?
            }
        };
        Ok(a.at_scale(slots, self.parameters.scale()))
    }

    /// ModRaise of coefficients of a message, which are lowered to level 0 first.
    fn mod_raise<A: Refresh>(&self, a: &A, map: &A::RaisedMap, input: &A::Vector) -> Result<A::Vector, CkksError> {
        crate::scale::check_scales("bootstrap", self.message_scale(), a.scale(input))?;
        a.mod_raise(a.lowered(input, 0)?.as_ref(), map, self.modulus(), self.message_scale())
    }

    /// Twice the real and twice the imaginary parts of slots.
    fn both_parts<A: Refresh>(&self, a: &A, slots: &A::Vector) -> Result<[A::Vector; 2], CkksError> {
        let conjugate = a.conjugate(slots)?;
        Ok([a.add(slots, &conjugate)?, a.mul_imaginary(&a.sub(&conjugate, slots)?)?])
    }

    /// The scale of a sine whose result has the parameters' scale as a vector of slots: `sin(2 pi t) = 2 pi t` for a
    /// small `t`, which is a slot divided by the message ratio.
    fn sine_scale(&self) -> f64 {
        self.parameters.scale() * self.literal.message_ratio_bits.exp2() / (2.0 * PI)
    }

    /// Maps the lower half of the raised coefficients to exponentials in the slots.
    fn exponential_on<A: Refresh>(
        &self,
        a: &A,
        maps: &[A::Map],
        raised: A::Vector,
        scale: f64,
    ) -> Result<A::Vector, CkksError> {
        exponential(a, &self.coeffs_to_slots(a, maps, raised)?, &self.eval_mod, scale)
    }

    /// Slots that contain half of each coefficient divided by the reduction's bound, in bit-reversed order.
    pub(super) fn coeffs_to_slots<A: Refresh>(
        &self,
        a: &A,
        maps: &[A::Map],
        raised: A::Vector,
    ) -> Result<A::Vector, CkksError> {
        coeffs_to_slots(a, &self.sub_sum, maps, &raised)
    }

    /// Maximum of the peak bytes of all operations of a [`Bootstrapper`], with or without the map from slots to
    /// coefficients. They are measured by simulated runs without values.
    pub(super) fn working_bytes(&self, encoder: &Encoder, from_slots: bool) -> Result<u64, CkksError> {
        let peak = |level: usize, scale: f64, run: &dyn Fn(&Simulator, &Simulated) -> Result<Simulated, CkksError>| {
            let simulator = Simulator::counting(encoder);
            let input = simulator.encrypt(&[], level, scale)?;
            simulator.working_bytes(|simulator| run(simulator, &input))
        };
        let mut most = peak(0, self.message_scale(), &|s, input| self.simulate_refresh_coefficients(s, input))?;
        most = most.max(peak(0, self.modulus(), &|s, input| self.simulate_exponential(s, input))?);
        if from_slots {
            let (level, scale) = (self.input_level(), self.parameters.scale());
            most = most.max(peak(level, scale, &|s, input| self.simulate_refresh(s, input))?);
        }
        Ok(most)
    }

    /// The plans of all maps, which a simulator applies.
    pub(super) fn plans(&self) -> Maps<'_, Simulator> {
        (&self.slots_to_coeffs, (&self.raised, &self.coeffs_to_slots))
    }

    /// [`Bootstrapper::refresh`] in the clear, with its noise.
    ///
    /// # Errors
    /// As for [`Bootstrapper::refresh`].
    pub fn simulate_refresh(&self, simulator: &Simulator, input: &Simulated) -> Result<Simulated, CkksError> {
        self.refresh_on(simulator, self.plans(), input)
    }

    /// [`Bootstrapper::refresh_many`] in the clear, with its noise.
    ///
    /// # Errors
    /// As for [`Bootstrapper::refresh_many`].
    pub fn simulate_refresh_many(
        &self,
        simulator: &Simulator,
        inputs: &[&Simulated],
    ) -> Result<Vec<Simulated>, CkksError> {
        let maps = self.plans();
        let mut outputs = Vec::with_capacity(inputs.len());
        for group in inputs.chunks(self.shared_by()) {
            outputs.extend(match *group {
                [first, second] => self.refresh_pair_on(simulator, maps, [first, second])?,
                _ => group.iter().map(|input| self.refresh_on(simulator, maps, input)).collect::<Result<_, _>>()?,
            });
        }
        Ok(outputs)
    }

    /// Number of vectors that go through the linear maps as one.
    fn shared_by(&self) -> usize {
        if self.layout == PartLayout::Real { 2 } else { 1 }
    }

    /// Peak bytes of memory of [`Bootstrapper::refresh_many`] of `count` vectors on the threads of the current pool,
    /// its results included, in addition to its inputs, the keys and the matrices.
    ///
    /// # Errors
    /// As for [`Bootstrap::simulate_refresh`].
    pub fn working_bytes_of_many(&self, encoder: &Encoder, count: usize) -> Result<u64, CkksError> {
        if count == 0 {
            return Ok(0);
        }
        let simulator = Simulator::counting(encoder);
        let input = simulator.encrypt(&[], self.input_level(), self.parameters.scale())?;
        let one = vec![&input; self.shared_by().min(count)];
        let one = simulator.working_bytes(|simulator| self.simulate_refresh_many(simulator, &one))?;
        let groups = count.div_ceil(self.shared_by());
        let kept = count as u64 * vector_bytes(&self.parameters, self.output_level());
        Ok(at_once(groups) as u64 * one + kept)
    }

    /// [`Bootstrapper::refresh_coefficients`] in the clear, with its noise.
    ///
    /// # Errors
    /// As for [`Bootstrapper::refresh_coefficients`].
    pub fn simulate_refresh_coefficients(
        &self,
        simulator: &Simulator,
        input: &Simulated,
    ) -> Result<Simulated, CkksError> {
        self.refresh_coefficients_on(simulator, self.plans().1, input)
    }

    /// [`Bootstrapper::exponential`] in the clear, with its noise.
    ///
    /// # Errors
    /// As for [`Bootstrapper::exponential`].
    pub fn simulate_exponential(&self, simulator: &Simulator, input: &Simulated) -> Result<Simulated, CkksError> {
        crate::scale::check_scales("exponential bootstrap", self.modulus(), simulator.scale(input))?;
        let lowest = simulator.lowered(input, 0)?;
        let raised = simulator.mod_raise(lowest.as_ref(), &self.raised, self.modulus(), self.modulus())?;
        self.exponential_on(simulator, &self.coeffs_to_slots, raised, self.parameters.scale())
    }

    /// The slot that receives a coefficient of a polynomial in `X^(n/(2 slots))`. For `k < slots`, slot `slot_of(k)`
    /// has its real part from coefficient `k` and its imaginary part from coefficient `k + slots`.
    pub fn slot_of(&self, coefficient: usize) -> usize {
        Self::slot_of_coefficient(self.slots, coefficient)
    }

    /// As [`Bootstrap::slot_of`], for any bootstrap of `slots` slots.
    pub fn slot_of_coefficient(slots: usize, coefficient: usize) -> usize {
        (coefficient % slots).reverse_bits() >> (usize::BITS - slots.trailing_zeros())
    }
}

/// Arithmetic that bootstraps: a circuit written against it runs encrypted and in the clear, as with [`Arithmetic`].
pub trait RefreshArithmetic: Arithmetic {
    /// [`Bootstrapper::refresh_many`]. A simulator follows the plan, and counts all errors of the bootstrap as noise:
    /// the exact slots of a result are those of the input, without the errors of the sine.
    ///
    /// # Errors
    /// As for [`Bootstrapper::refresh_many`].
    fn refresh_many(
        &self,
        bootstrapper: &Bootstrapper,
        inputs: &[&Self::Vector],
    ) -> Result<Vec<Self::Vector>, CkksError>;
}

impl RefreshArithmetic for Evaluator<'_> {
    fn refresh_many(&self, bootstrapper: &Bootstrapper, inputs: &[&Ciphertext]) -> Result<Vec<Ciphertext>, CkksError> {
        bootstrapper.refresh_many(self, inputs)
    }
}

impl Bootstrapper {
    /// Bootstraps slots. The input is at [`Bootstrap::input_level`] or above, and its scale is within a factor of two
    /// of the parameters' scale. The result is at [`Bootstrap::output_level`] with the same scale as the input. Values
    /// should be at most 1 in each part.
    ///
    /// # Errors
    /// If level or scale are not as described, keys are missing (checked before any work; the error names all of them),
    /// or this bootstrapper was made without the map from slots to coefficients.
    pub fn refresh(&self, evaluator: &Evaluator<'_>, input: &Ciphertext) -> Result<Ciphertext, CkksError> {
        let mut outputs = self.refreshed(evaluator, self.maps(evaluator)?, &[input])?;
        Ok(outputs.swap_remove(0))
    }

    /// One vector, or two real ones that go through the linear maps as one.
    fn refreshed(
        &self,
        evaluator: &Evaluator<'_>,
        maps: Maps<'_, Evaluator<'_>>,
        inputs: &[&Ciphertext],
    ) -> Result<Vec<Ciphertext>, CkksError> {
        let lowest = inputs.iter().map(|input| self.plan.lowest_input(evaluator, input));
        let lowest = lowest.collect::<Result<Vec<_>, _>>()?;
        let work = if inputs.len() == 1 { Work::Refresh } else { Work::RefreshPair };
        let outputs =
            self.repeat(evaluator, (work, 1.0), &lowest.iter().collect::<Vec<_>>(), |inputs| match *inputs {
                [first, second] => self.plan.refresh_pair_on(evaluator, maps, [first, second]),
                _ => Ok(vec![self.plan.refresh_on(evaluator, maps, inputs[0])?]),
            })?;
        Ok(outputs.into_iter().zip(inputs).map(|(output, input)| evaluator.at_scale(output, input.scale())).collect())
    }

    /// [`Bootstrapper::refresh`] of several vectors, in less time than one after the other: whole vectors are spread
    /// over the threads, and a plan for real slots takes two vectors through its linear maps as one. The imaginary
    /// parts of such slots must be zero up to noise: the imaginary parts of one vector add to the values of the other.
    ///
    /// # Errors
    /// As for [`Bootstrapper::refresh`]; [`CkksError::InGroup`] has the index of a vector, or of a pair of real
    /// vectors, that does not fit.
    pub fn refresh_many(
        &self,
        evaluator: &Evaluator<'_>,
        inputs: &[&Ciphertext],
    ) -> Result<Vec<Ciphertext>, CkksError> {
        let (maps, ring) = (self.maps(evaluator)?, evaluator.parameters().ring());
        let groups: Vec<&[&Ciphertext]> = inputs.chunks(self.plan.shared_by()).collect();
        let outputs = each(ring, &groups, |group| self.refreshed(evaluator, maps, group))?;
        Ok(outputs.into_iter().flatten().collect())
    }

    /// [`Bootstrapper::refresh`], which calls `ended` at the end of each phase. A device does not record it.
    ///
    /// # Errors
    /// As for [`Bootstrapper::refresh`].
    pub fn refresh_in_phases(
        &self,
        evaluator: &Evaluator<'_>,
        input: &Ciphertext,
        mut ended: impl FnMut(BootstrapPhase),
    ) -> Result<Ciphertext, CkksError> {
        let ((slots_to_coeffs, (raised, coeffs_to_slots)), plan) = (self.maps(evaluator)?, &self.plan);
        let coefficients = plan.slots_to_coeffs(evaluator, slots_to_coeffs, plan.lowest_input(evaluator, input)?)?;
        let coefficients = plan.message_of_coefficients(evaluator, coefficients)?;
        ended(BootstrapPhase::SlotsToCoeffs);
        let raised = plan.mod_raise(evaluator, raised, &coefficients)?;
        ended(BootstrapPhase::ModRaise);
        let slots = plan.coeffs_to_slots(evaluator, coeffs_to_slots, raised)?;
        ended(BootstrapPhase::CoeffsToSlots);
        let output = plan.eval_mod(evaluator, slots)?;
        ended(BootstrapPhase::EvalMod);
        Ok(evaluator.at_scale(output, input.scale()))
    }

    /// Both maps, after a check of the keys of [`Bootstrapper::refresh`].
    pub(super) fn maps<'e>(&self, evaluator: &Evaluator<'e>) -> Result<Maps<'_, Evaluator<'e>>, CkksError> {
        const OPERATION: &str = "bootstrap";
        let missing = || CkksError::Shape {
            operation: OPERATION,
            found: 0,
            needed: "the map from slots to coefficients; make the bootstrapper with Bootstrapper::new".into(),
        };
        let slots_to_coeffs = self.slots_to_coeffs.as_ref().ok_or_else(missing)?;
        evaluator.keys().check(OPERATION, &self.plan.key_plan())?;
        Ok((slots_to_coeffs, self.up_maps()))
    }

    /// The maps from coefficients to slots.
    fn up_maps<'e>(&self) -> UpMaps<'_, Evaluator<'e>> {
        (&self.raised, &self.coeffs_to_slots)
    }

    /// Bootstraps coefficients into slots. The coefficients of the input are values at [`Bootstrap::message_scale`], at
    /// level 0 or above. The result has `m_k + i m_(k + n/2)` in slot [`Bootstrap::slot_of`]`(k)`, at the parameters'
    /// scale and [`Bootstrap::output_level`].
    ///
    /// # Errors
    /// If the scale differs, or keys are missing (checked before any work; the error names all of them).
    pub fn refresh_coefficients(&self, evaluator: &Evaluator<'_>, input: &Ciphertext) -> Result<Ciphertext, CkksError> {
        evaluator.keys().check("bootstrap", &self.plan.coefficient_key_plan())?;
        crate::scale::check_scales("bootstrap", self.plan.message_scale(), input.scale())?;
        let lowest = evaluator.lowered(input, 0)?;
        let work = (Work::RefreshCoefficients, lowest.scale());
        let mut outputs = self.repeat(evaluator, work, &[lowest.as_ref()], |inputs| {
            Ok(vec![self.plan.refresh_coefficients_on(evaluator, self.up_maps(), inputs[0])?])
        })?;
        Ok(outputs.swap_remove(0))
    }

    /// The functional bootstrap `t -> exp(2 pi i t)`. The lower coefficients of the input are torus elements at level
    /// 0, so the scale is the modulus of that level. The result has `exp(2 pi i t_k)` in slot
    /// [`Bootstrap::slot_of`]`(k)`, at the parameters' scale and [`Bootstrap::output_level`]. If the plan is for sparse
    /// complex slots, every second copy of the slots has the exponentials of the upper coefficients instead.
    ///
    /// # Errors
    /// If the scale differs, or keys are missing (checked before any work; the error names all of them).
    pub fn exponential(&self, evaluator: &Evaluator<'_>, input: &Ciphertext) -> Result<Ciphertext, CkksError> {
        const OPERATION: &str = "exponential bootstrap";
        evaluator.keys().check(OPERATION, &self.plan.coefficient_key_plan())?;
        let modulus = self.plan.modulus();
        crate::scale::check_scales(OPERATION, modulus, input.scale())?;
        let raised = evaluator.mod_raise(evaluator.lowered(input, 0)?.as_ref(), &self.raised, modulus, modulus)?;
        self.exponential_of_raised(evaluator, &raised, self.plan.parameters.scale())
    }

    fn exponential_of_raised(
        &self,
        evaluator: &Evaluator<'_>,
        raised: &Ciphertext,
        scale: f64,
    ) -> Result<Ciphertext, CkksError> {
        let mut outputs = self.repeat(evaluator, (Work::Exponential, scale), &[raised], |inputs| {
            Ok(vec![self.plan.exponential_on(evaluator, &self.coeffs_to_slots, inputs[0].clone(), scale)?])
        })?;
        Ok(outputs.swap_remove(0))
    }

    /// [`Bootstrapper::exponential`] of the elements of a compact query. Slot `slot_of(parameters.coefficient(i))` of
    /// the result belongs to element `i`, at scale `scale`. The plan must use all slots of the ring.
    ///
    /// # Errors
    /// If the plan is for sparse slots, the query belongs to other parameters, or keys are missing (checked before any
    /// work; the error names all of them).
    pub fn exponential_of_query(
        &self,
        evaluator: &Evaluator<'_>,
        parameters: &CompactQueryParameters,
        query: &CompactQuery,
        scale: f64,
    ) -> Result<Ciphertext, CkksError> {
        const OPERATION: &str = "bootstrap a compact query";
        let plan = &self.plan;
        if plan.slots != plan.parameters.slots() {
            let needed = format!("a bootstrap of all {} slots", plan.parameters.slots());
            return Err(CkksError::Shape { operation: OPERATION, found: plan.slots, needed });
        }
        evaluator.keys().check(OPERATION, &plan.query_key_plan())?;
        let (rlwe, ring) = (plan.parameters.rlwe(), plan.parameters.ring());
        let packed = query.expand(parameters, ring)?;
        let sparse = packed.encapsulate(rlwe, KeyKind::QueryEncapsulation, evaluator.keys())?;
        // Scale from the first prime to the whole modulus of level 0, so that the following steps add no more noise
        // than to other inputs.
        let base = plan.parameters.chain(0);
        let raised = self.raised.apply(evaluator, &sparse.scale_modulus(ring, base)?)?;
        self.exponential_of_raised(evaluator, &raised, scale)
    }

    /// [`Bootstrapper::exponential_of_query`] of several queries, in less time than one after the other, and lowered to
    /// `level`.
    ///
    /// # Errors
    /// [`CkksError::InGroup`] with the index of a query, and an error as for [`Bootstrapper::exponential_of_query`].
    pub fn exponentials_of_queries(
        &self,
        evaluator: &Evaluator<'_>,
        parameters: &CompactQueryParameters,
        queries: &[CompactQuery],
        (level, scale): (usize, f64),
    ) -> Result<Vec<Ciphertext>, CkksError> {
        each(evaluator.parameters().ring(), queries, |query| {
            let exponential = self.exponential_of_query(evaluator, parameters, query, scale)?;
            evaluator.drop_to(&exponential, level)
        })
    }
}
