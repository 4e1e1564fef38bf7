//! The functional bootstrap of subring queries: few torus elements to points on the circle, with few keys.
//!
//! The raise of such a query adds integers in a subring alone (`unspoken_rlwe::SubringQuery`). So its polynomial
//! already repeats in the slots. CoeffsToSlots maps few slots only, and a trace removes only the part of the subring
//! without elements. There is no SlotsToCoeffs.
//!
//! The raise needs no switch to the sparse secret. [`SubringBootstrap`] plans two baby steps for each factor of the
//! map, so two keys, because memory for keys is what a service lacks first. Presets with `query` in their name have
//! levels for this bootstrap alone. `cargo run --release -p unspoken-ckks --example subring_bootstrap --
//! n16_query_depth11_scale40 4096` prints 10 keys of 724 MB in memory, and takes 2.0 s on two shared vCPUs (AMD EPYC,
//! AVX-512).

use std::fmt;

use unspoken_rlwe::{KeyKind, KeyPlan, RlweError, SubringQuery, SubringQueryParameters, galois};

use super::bootstrapper::encode;
use super::dft::Diagonals;
use super::eval_mod::EvalMod;
use super::failure::{RANGE, log2_failure};
use super::plan::{CoeffsToSlots, literal_of};
use super::run::{coeffs_to_slots, exponential};
use crate::ciphertext::Ciphertext;
use crate::encoding::Encoder;
use crate::error::CkksError;
use crate::evaluator::Evaluator;
use crate::inner_sum::InnerSum;
use crate::linear::{LinearPlan, LinearTransform};
use crate::parameters::{BootstrapLiteral, CkksParameters};
use crate::simulator::{Simulated, Simulator};

/// Fewest elements of a query: the map from coefficients to slots has two factors or more.
const MIN_ELEMENTS: usize = 4;

/// Baby steps of each factor of the map: one key for the second, and one for all giant steps. At a degree of 2^16 and
/// 4096 elements four of them would take two thirds as much memory again, and three quarters of the time.
const BABY_STEPS: usize = 2;

/// Plan of the bootstrap of a subring query: its keys, levels, memory and errors.
///
/// The result has `exp(2 pi i t_k)` in slot [`SubringBootstrap::slot_of`]`(k)` and in all slots that are a multiple of
/// the number of elements away, at [`CkksParameters::circuit_level`].
#[derive(Clone, Debug)]
pub struct SubringBootstrap {
    parameters: CkksParameters,
    literal: BootstrapLiteral,
    queries: SubringQueryParameters,
    /// The integer by which a raised query is multiplied, so that later steps add less noise than it has.
    factor: i64,
    /// Removes the part of the subring without elements.
    sub_sum: InnerSum,
    coeffs_to_slots: Vec<LinearPlan>,
    eval_mod: EvalMod,
}

impl SubringBootstrap {
    /// Plans the bootstrap of queries of `count` elements.
    ///
    /// # Errors
    /// If the parameters are not made for bootstrapping, or the count is not a power of two from 4 to
    /// [`SubringQueryParameters::most`].
    pub fn new(parameters: &CkksParameters, count: usize) -> Result<Self, CkksError> {
        let literal = literal_of(parameters)?;
        let most = SubringQueryParameters::most(parameters.rlwe())?;
        if count < MIN_ELEMENTS {
            let needed = format!("a power of two from {MIN_ELEMENTS} to {most}");
            return Err(CkksError::Shape { operation: "plan a bootstrap of a query", found: count, needed });
        }
        let queries = SubringQueryParameters::new(parameters.rlwe(), count)?;
        let eval_mod = EvalMod::new(RANGE, &literal)?;
        let reduced = parameters.circuit_level() + literal.eval_mod_levels;
        let modulus = f64::from(parameters.ring().chain()[0]);
        let factor = (parameters.level_modulus(reduced) / modulus).round().max(1.0);
        if factor > SubringQuery::MAX_FACTOR as f64 {
            let found = format!("a level of 2^{:.1}", parameters.level_modulus(reduced).log2());
            let needed = format!("at most 2^30 times the lowest prime, 2^{:.1}", modulus.log2());
            return Err(CkksError::Rlwe(RlweError::Decode { what: "a bootstrap of queries", found, needed }));
        }
        let copies = queries.parameters().ring().degree() / 2 / count;
        // Real parts are computed as a sum with the conjugate.
        let constant = 1.0 / (2.0 * eval_mod.bound() * copies as f64);
        let map = CoeffsToSlots {
            slots: count,
            constant,
            input: factor * modulus,
            doubled: false,
            raised: None,
            stages: parameters.slots().trailing_zeros() as usize,
        };
        let (_, coeffs_to_slots) = map.plans(parameters, &literal, baby_steps)?;
        let sub_sum = InnerSum::new(count as i64, copies)?;
        let (parameters, factor) = (parameters.clone(), factor as i64);
        Ok(SubringBootstrap { parameters, literal, queries, factor, sub_sum, coeffs_to_slots, eval_mod })
    }

    /// The parameters.
    pub fn parameters(&self) -> &CkksParameters {
        &self.parameters
    }

    /// The ring of queries.
    pub fn queries(&self) -> &SubringQueryParameters {
        &self.queries
    }

    /// The slot of an element.
    pub fn slot_of(&self, element: usize) -> usize {
        super::Bootstrap::slot_of_coefficient(self.queries.len(), element)
    }

    /// `log2` of a bound on the probability that the result is wrong in any slot.
    pub fn log2_failure(&self) -> f64 {
        log2_failure(self.queries.parameters().ring().degree())
    }

    fn raised_level(&self) -> usize {
        self.parameters.circuit_level() + self.literal.eval_mod_levels + self.coeffs_to_slots.len()
    }

    /// The scale of a raised query: torus elements times this.
    fn raised_scale(&self) -> f64 {
        self.factor as f64 * f64::from(self.parameters.ring().chain()[0])
    }

    /// The keys that it needs.
    pub fn key_plan(&self) -> KeyPlan {
        let (parameters, top) = (&self.parameters, self.raised_level());
        let mut plan = KeyPlan::new();
        plan.require_over(KeyKind::SubringQuery, parameters.basis(top));
        plan.extend(&self.sub_sum.key_plan(parameters, top));
        self.coeffs_to_slots.iter().for_each(|map| plan.extend(&map.key_plan()));
        let reduced = top - self.coeffs_to_slots.len();
        let conjugation = KeyKind::Galois { element: galois::conjugation(parameters.ring()) };
        plan.require_over(conjugation, parameters.basis(reduced));
        parameters.require_key(&mut plan, KeyKind::Relinearisation, parameters.circuit_level() + 1..=reduced);
        plan
    }

    /// Bytes of memory of the matrices of a [`SubringBootstrapper`].
    pub fn prepared_bytes(&self) -> u64 {
        self.coeffs_to_slots.iter().map(LinearPlan::prepared_bytes).sum()
    }

    /// [`SubringBootstrapper::exponential`] in the clear, with its noise: `torus` has the elements of a query.
    ///
    /// # Errors
    /// If the number of elements is not the number in a query, or as for [`SubringBootstrapper::exponential`].
    pub fn simulate(&self, simulator: &Simulator, torus: &[f64], scale: f64) -> Result<Simulated, CkksError> {
        let raised = simulator.raise_query(&self.queries, torus, (self.raised_level(), self.raised_scale()))?;
        let slots = coeffs_to_slots(simulator, &self.sub_sum, &self.coeffs_to_slots, &raised)?;
        exponential(simulator, &slots, &self.eval_mod, scale)
    }
}

impl fmt::Display for SubringBootstrap {
    /// Prints a table of keys, levels and memory.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (keys, ring) = (self.key_plan(), self.parameters.ring());
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        writeln!(f, "preset     {}, queries of {} elements", self.parameters.name(), self.queries.len())?;
        writeln!(f, "levels     from {} to {}", self.raised_level(), self.parameters.circuit_level())?;
        writeln!(
            f,
            "keys       {}: {:.0} MB in memory, {:.0} MB on the wire",
            keys.len(),
            megabytes(keys.memory_bytes(ring)),
            megabytes(keys.wire_bytes(ring))
        )?;
        writeln!(f, "matrices   {:.0} MB, once for all clients", megabytes(self.prepared_bytes()))?;
        write!(f, "errors     failure probability at most 2^{:.1}", self.log2_failure())
    }
}

/// Few baby steps, because each is a key.
fn baby_steps(diagonals: &Diagonals) -> usize {
    let stride = diagonals.keys().copied().filter(|&k| k > 0).min().unwrap_or(1);
    stride * BABY_STEPS
}

/// A [`SubringBootstrap`] with encoded matrices. A server needs one for all clients.
pub struct SubringBootstrapper {
    plan: SubringBootstrap,
    coeffs_to_slots: Vec<LinearTransform>,
    working_bytes: u64,
}

impl SubringBootstrapper {
    /// Encodes the matrices, which take [`SubringBootstrap::prepared_bytes`].
    ///
    /// # Errors
    /// As for [`LinearTransform::new`].
    pub fn new(encoder: &Encoder, plan: SubringBootstrap) -> Result<Self, CkksError> {
        let simulator = Simulator::counting(encoder);
        let scale = plan.parameters.scale();
        let working_bytes = simulator.working_bytes(|simulator| plan.simulate(simulator, &[], scale))?;
        let coeffs_to_slots = encode(encoder, &plan.coeffs_to_slots)?;
        Ok(SubringBootstrapper { coeffs_to_slots, plan, working_bytes })
    }

    /// Its plan.
    pub fn plan(&self) -> &SubringBootstrap {
        &self.plan
    }

    /// Bytes of memory of its matrices.
    pub fn prepared_bytes(&self) -> u64 {
        self.coeffs_to_slots.iter().map(LinearTransform::prepared_bytes).sum()
    }

    /// Peak bytes of memory of one bootstrap, its result included, in addition to the query, the keys and
    /// [`SubringBootstrapper::prepared_bytes`].
    pub fn working_bytes(&self) -> u64 {
        self.working_bytes
    }

    /// The points `exp(2 pi i t)` of the elements of a query, at scale `scale` and
    /// [`CkksParameters::circuit_level`].
    ///
    /// # Errors
    /// If the query has another number of elements, or keys are missing (checked before any work; the error names all
    /// of them).
    pub fn exponential(
        &self,
        evaluator: &Evaluator<'_>,
        query: &SubringQuery,
        scale: f64,
    ) -> Result<Ciphertext, CkksError> {
        let plan = &self.plan;
        evaluator.keys().check("bootstrap a subring query", &plan.key_plan())?;
        let (parameters, level) = (&plan.parameters, plan.raised_level());
        let to = (parameters.basis(level), plan.factor);
        let inner = query.raise(&plan.queries, parameters.rlwe(), to, evaluator.keys())?;
        let raised = Ciphertext { inner, level, scale: plan.raised_scale() };
        let slots = coeffs_to_slots(evaluator, &plan.sub_sum, &self.coeffs_to_slots, &raised)?;
        exponential(evaluator, &slots, &plan.eval_mod, scale)
    }
}
