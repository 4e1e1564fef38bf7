//! Plans of the encrypted pass: ciphertexts, levels, bootstraps, algorithms, predicted time and memory.

mod algorithm;
mod candidate;
mod degrees;
mod error;
mod memory;
mod packing;
mod pass;
mod prices;
mod report;
mod shapes;
mod steps;
mod work;

use unspoken_ckks::{CkksParameters, PRESETS, Preset};
use unspoken_llama_model::Config;
use unspoken_rlwe::security::SECURITY_BITS;

pub use self::degrees::Degrees;
pub use self::error::PlanError;
use self::memory::Usage;
use self::pass::Pass;
use self::prices::Prices;
pub use self::report::{Deeper, Floor, KeyUse, MemoryPlan, PartPlan, PassPlan, Phase, Plan, Row, Share, Totals};
pub use self::shapes::{SHAPES, published};
use self::steps::ladder;
pub use self::work::Machine;

/// What is planned.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanRequest {
    /// Dimensions of the model, norms folded.
    pub config: Config,
    /// Tokens of the public prefix.
    pub public: usize,
    /// Private tokens.
    pub private: usize,
    /// Passes over which the private tokens are spread evenly.
    pub chunks: usize,
    /// Whether a step of generation is planned as well.
    pub generate: bool,
    /// Rounds of softmax ([`Circuit::with_rounds`](crate::Circuit::with_rounds)).
    pub rounds: u8,
    /// Degrees of the polynomials.
    pub degrees: Degrees,
    /// Bytes of memory that the service may take.
    pub memory: Option<u64>,
}

impl PlanRequest {
    /// Checks what needs no planning.
    ///
    /// # Errors
    /// If the prompt is longer than the context, the private tokens cannot be divided into the chunks, or the
    /// parameters have less than 128 bits of security without `insecure_` in their name.
    pub fn check(&self, parameters: &CkksParameters) -> Result<(), PlanError> {
        let &PlanRequest { public, private, chunks, .. } = self;
        let (private_and_next, context) = (private.saturating_add(usize::from(self.generate)), self.config.context);
        if public.saturating_add(private_and_next) > context {
            return Err(PlanError::Context { public, private: private_and_next, context });
        }
        if !(1..=private).contains(&chunks) {
            return Err(PlanError::Chunks { private, chunks });
        }
        let bits = security(parameters);
        if bits < SECURITY_BITS && !parameters.rlwe().is_insecure() {
            return Err(PlanError::Security { preset: parameters.name().into(), bits });
        }
        Ok(())
    }
}

/// Plans the private part of a prompt: for each pass the cheapest placement of bootstraps, algorithms and levels under
/// the cost model of `machine`, exactly (a shortest path over the levels of all live tensors). See the crate's README.
///
/// # Errors
/// The errors of [`PlanRequest::check`]; if a chunk has too many tokens, or the parameters have no bootstrap or too few
/// levels for a step.
pub fn plan(request: &PlanRequest, parameters: &CkksParameters, machine: &Machine) -> Result<Plan, PlanError> {
    request.check(parameters)?;
    let mut prices = Prices::new(parameters, machine.model);
    let mut usage = Usage::default();
    let (mut chunks, mut earlier) = (Vec::new(), 0);
    for number in 0..request.chunks {
        let tokens = (request.private - earlier).div_ceil(request.chunks - number);
        let logits = number + 1 == request.chunks;
        chunks.push(Pass { tokens, earlier, logits }.plan(request, &mut prices, machine, &mut usage)?);
        earlier += tokens;
    }
    let step = Pass { tokens: 1, earlier, logits: true };
    let generation = request.generate.then(|| step.plan(request, &mut prices, machine, &mut usage)).transpose()?;
    let mut totals = Totals::default();
    chunks.iter().for_each(|pass| totals.add(&pass.totals, 1));
    let memory = usage.memory(request, &prices);
    let ladder = ladder(parameters);
    let mut plan = Plan {
        preset: parameters.name().into(),
        security_bits: security(parameters),
        slots: parameters.slots(),
        bootstrap_levels: [ladder.entry, ladder.top],
        small_degree: prices.small_degree,
        chunks,
        generation,
        totals,
        memory,
        assumptions: ASSUMPTIONS.map(str::to_owned).to_vec(),
    };
    let memory = &plan.memory;
    let fixed = memory.weight_bytes + memory.key_bytes + memory.bootstrap_bytes;
    let bytes = fixed + memory.public_cache_bytes + memory.private_cache_bytes;
    for pass in plan.chunks.iter_mut().chain(&mut plan.generation) {
        pass.floor.bytes = bytes;
        pass.floor.byte_seconds = bytes as f64 / machine.bandwidth;
    }
    Ok(plan)
}

/// What plans rely on beyond the engine of today.
const ASSUMPTIONS: [&str; 5] = [
    "the small ring, PCMM and PCMv on coefficients and plaintexts made on the fly are priced by formulas; the engine \
     has no kernel for them yet",
    "slim polynomials are priced by a formula, not by their trees",
    "the private cache is at the level that each pass wants, also if an earlier pass has written it at a lower one",
    "bootstraps hold one tensor each, two real vectors to a ciphertext; several small tensors do not share one",
    "ranges are constants of a layer, part of the scale: they cost no level",
];

/// The preset for a scale: the bootstrapping preset of 128 bits of security with the smallest scale that is at least
/// `bits`. `None` if there is none.
pub fn preset_for_scale(bits: u32) -> Option<&'static Preset> {
    let usable = |preset: &&Preset| preset.name.contains("_boot_") && !preset.name.starts_with("insecure_");
    let scale = |preset: &&Preset| preset.name.rsplit("_scale").next().and_then(|bits| bits.parse::<u32>().ok());
    let enough = |preset: &&Preset| scale(preset).is_some_and(|scale| scale >= bits);
    PRESETS.iter().filter(usable).filter(enough).min_by_key(scale)
}

/// Bits of security of the weakest object.
fn security(parameters: &CkksParameters) -> f64 {
    let objects = parameters.rlwe().secured_objects();
    objects.iter().map(|object| object.security_bits).fold(SECURITY_BITS, f64::min)
}

#[cfg(test)]
mod tests;
