//! Plans of the encrypted pass: ciphertexts, levels, bootstraps, algorithms, predicted time and memory.

mod algorithm;
mod degrees;
mod error;
mod memory;
mod packing;
mod path;
mod prices;
mod report;
mod shapes;
mod steps;
mod work;

use std::collections::BTreeMap;

use unspoken_ckks::{CkksParameters, PRESETS, Preset};
use unspoken_llama_model::Config;
use unspoken_rlwe::security::SECURITY_BITS;

use self::algorithm::WEIGHT_BYTES;
pub use self::degrees::Degrees;
pub use self::error::PlanError;
use self::memory::Usage;
use self::packing::Grid;
use self::path::{Path, Segment, chain};
use self::prices::Prices;
pub use self::report::{Deeper, Floor, KeyUse, MemoryPlan, PartPlan, PassPlan, Phase, Plan, Row, Share, Totals};
pub use self::shapes::{SHAPES, published};
use self::steps::{Part, Priced, ladder, parts};
pub use self::work::Machine;
use self::work::Work;
use crate::circuit::Circuit;
use crate::record::{Node, Recorder};

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
    /// Rounds of softmax ([`Circuit::with_rounds`]).
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

/// Further levels that [`PassPlan::deeper`] tries.
const DEEPER: usize = 4;

/// Plans the private part of a prompt: for each pass the cheapest placement of bootstraps, algorithms and levels under
/// the cost model of `machine`, exactly (a shortest path over the levels of all live tensors). See the crate's README.
///
/// # Errors
/// Those of [`PlanRequest::check`]; if a chunk has too many tokens, or the parameters have no bootstrap or too few
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
const ASSUMPTIONS: [&str; 6] = [
    "the small ring, PCMM and PCMv on coefficients and plaintexts made on the fly are priced by formulas; the engine \
     has no kernel for them yet",
    "slim polynomials are priced by a formula, not by their trees",
    "the private cache is at the level that each pass wants, also if an earlier pass has written it at a lower one",
    "levels have the scale of the preset; scales between 2^30 and 2^50 would need fewer primes",
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

/// One pass.
#[derive(Clone, Copy, Debug)]
struct Pass {
    tokens: usize,
    earlier: usize,
    logits: bool,
}

/// A way to lay out a pass, with its best plan.
struct Candidate {
    /// Parts that differ, and which of them each layer is.
    kinds: Vec<Part>,
    priced: Vec<Priced>,
    segments: Vec<Segment>,
    order: Vec<usize>,
    seconds: f64,
    paths: Vec<Path>,
}

impl Pass {
    fn plan(
        self,
        request: &PlanRequest,
        prices: &mut Prices,
        machine: &Machine,
        usage: &mut Usage,
    ) -> Result<PassPlan, PlanError> {
        let (slots, most) = (prices.parameters.slots(), prices.parameters.slots().min(prices.small_degree));
        if self.tokens.next_power_of_two() > most {
            return Err(PlanError::Chunk { tokens: self.tokens, most });
        }
        let grid = Grid::new(&request.config, slots, self.tokens, request.public, self.earlier);
        let nodes = self.nodes(request);
        let mut candidate = |packed| self.candidate(parts(&nodes, &grid, &request.degrees, packed), prices);
        let (spread, packed) = (candidate(false)?, candidate(true)?);
        let best = if packed.seconds < spread.seconds { packed } else { spread };
        let start = ladder(&prices.parameters).top;
        let parts = best.parts(prices, usage, start);
        let mut totals = Totals::default();
        parts.iter().for_each(|part| totals.add(&part.totals, part.count));
        let working_bytes = best.working_bytes(prices, start)?;
        usage.pass(&grid, prices, working_bytes);
        let mac_seconds = machine.model.matrix_mac * totals.multiply_adds as f64;
        Ok(PassPlan {
            tokens: self.tokens,
            public: request.public,
            earlier: self.earlier,
            shares: shares(&parts),
            totals,
            parts,
            greedy_seconds: best.greedy(start),
            deeper: best.deeper(prices),
            floor: Floor { bytes: 0, byte_seconds: 0.0, mac_seconds },
            working_bytes,
        })
    }

    /// The operations of the pass. A chunk that others follow only fills the cache.
    fn nodes(self, request: &PlanRequest) -> Vec<Node> {
        let circuit = Circuit::new(&request.config).with_rounds(request.rounds);
        let mut recorder = Recorder::new(&request.config, request.public + self.earlier);
        let Ok(mut session) = circuit.session(&mut recorder);
        let input = recorder.input(self.tokens);
        let Ok(normed) = circuit.pass(&mut recorder, &mut session, input);
        if self.logits {
            let Ok(_) = circuit.logits(&mut recorder, &normed);
        }
        recorder.nodes().to_vec()
    }

    fn candidate(self, mut parts: Vec<Part>, prices: &mut Prices) -> Result<Candidate, PlanError> {
        if !self.logits {
            parts.pop();
        }
        let (mut kinds, mut order): (Vec<Part>, Vec<usize>) = (Vec::new(), Vec::new());
        for part in parts {
            let known = kinds.iter().position(|kind| kind.same_as(&part));
            order.push(known.unwrap_or(kinds.len()));
            if known.is_none() {
                kinds.push(part);
            }
        }
        let top = ladder(&prices.parameters).top;
        kinds.iter().try_for_each(|kind| enough_levels(kind, &prices.parameters))?;
        let most = (top + DEEPER).min(prices.parameters.max_level());
        let priced: Vec<Priced> = kinds.iter().map(|kind| kind.priced(prices, most)).collect::<Result<_, _>>()?;
        let segments: Vec<Segment> =
            kinds.iter().zip(&priced).map(|(kind, priced)| kind.segment(priced, prices, top)).collect();
        let none = || PlanError::Levels {
            place: "the pass".into(),
            preset: prices.parameters.name().into(),
            levels: top,
            needed: top + 1,
        };
        let (seconds, paths) = chain(&segments, &order, top).ok_or_else(none)?;
        Ok(Candidate { kinds, priced, segments, order, seconds, paths })
    }
}

/// Whether each stage has an algorithm that fits the levels after a bootstrap.
fn enough_levels(part: &Part, parameters: &CkksParameters) -> Result<(), PlanError> {
    let ladder = ladder(parameters);
    for stage in &part.stages {
        let needs = |algorithm: &algorithm::Algorithm| {
            let above = if stage.inputs.len() > 1 { algorithm.second_above() } else { 0 };
            algorithm.levels(ladder.entry, ladder.top).0 + above
        };
        let needed = stage.algorithms.iter().map(needs).min().unwrap_or(0);
        if needed > ladder.top {
            let place = stage.outputs.first().map_or(0, |&output| output);
            let place = part.tensors[place].place.to_string();
            return Err(PlanError::Levels { place, preset: parameters.name().into(), levels: ladder.top, needed });
        }
    }
    Ok(())
}

impl Candidate {
    /// Layers with their rows, equal neighbours together.
    fn parts(&self, prices: &mut Prices, usage: &mut Usage, start: usize) -> Vec<PartPlan> {
        let mut plans: Vec<PartPlan> = Vec::new();
        let mut level = start;
        for (number, (&kind, path)) in self.order.iter().zip(&self.paths).enumerate() {
            for &(stage, input) in &self.kinds[kind].caches {
                usage.cache(self.cache_level(kind, path, stage, input));
            }
            let again = number > 0 && (kind, path) == (self.order[number - 1], &self.paths[number - 1]);
            match plans.last_mut() {
                Some(last) if again && last.level_in == level => last.count += 1,
                _ => {
                    let rows = self.rows(kind, path, &self.made(kind, level, path), prices);
                    self.keys(kind, path, prices, usage);
                    let mut totals = Totals::default();
                    rows.iter().for_each(|row| totals.add(&row.work, 1));
                    plans.push(PartPlan {
                        first: number,
                        count: 1,
                        level_in: level,
                        level_out: path.level,
                        rows,
                        totals,
                    });
                }
            }
            level = path.level;
        }
        plans
    }

    /// Level of each tensor when it is made.
    fn made(&self, kind: usize, level: usize, path: &Path) -> Vec<usize> {
        let segment = &self.segments[kind];
        segment.replay(level, path).map_or_else(|_| vec![0; self.kinds[kind].tensors.len()], |(_, made)| made)
    }

    fn cache_level(&self, kind: usize, path: &Path, stage: usize, input: usize) -> usize {
        let choice = &path.moves[stage];
        choice.level + self.segments[kind].steps[stage].ways[choice.way].above[input]
    }

    fn rows(&self, kind: usize, path: &Path, made: &[usize], prices: &Prices) -> Vec<Row> {
        let (part, priced, segment) = (&self.kinds[kind], &self.priced[kind], &self.segments[kind]);
        let scale_bits = prices.parameters.scale().log2();
        let mut levels = made.to_vec();
        let mut rows = Vec::new();
        for (number, (stage, choice)) in part.stages.iter().zip(&path.moves).enumerate() {
            for (&input, _) in stage.inputs.iter().zip(&choice.refreshed).filter(|(_, refreshed)| **refreshed) {
                let tensor = part.tensors[input];
                let (from, top) = (segment.ladder.entry.min(levels[input]), segment.ladder.top);
                levels[input] = top;
                rows.push(Row {
                    place: tensor.place.quantity.to_string(),
                    operation: "bootstrap",
                    algorithm: sparse(tensor.packing.period, prices),
                    phase: Phase::Bootstrap,
                    level_in: from,
                    level_out: top,
                    scale_bits,
                    ciphertexts: tensor.packing.ciphertexts,
                    bytes: tensor.packing.ciphertexts as u64 * prices.ciphertext_bytes(top),
                    work: totals(&priced.refreshes[input], prices),
                });
            }
            let way = &segment.steps[number].ways[choice.way];
            let level_out = way.lands(choice.level);
            let results = || stage.outputs.iter().map(|&output| part.tensors[output]);
            let ciphertexts: usize = results().map(|tensor| tensor.packing.ciphertexts).sum();
            let places: Vec<String> = results().map(|tensor| tensor.place.quantity.to_string()).collect();
            rows.push(Row {
                place: places.join("+"),
                operation: stage.kind,
                algorithm: stage.algorithms[choice.way].name(),
                phase: stage.phase,
                level_in: choice.level,
                level_out,
                scale_bits,
                ciphertexts,
                bytes: ciphertexts as u64 * prices.ciphertext_bytes(level_out),
                work: totals(&priced.works[number][choice.way][choice.level], prices),
            });
        }
        rows
    }

    /// Notes the keys of a path.
    fn keys(&self, kind: usize, path: &Path, prices: &mut Prices, usage: &mut Usage) {
        let part = &self.kinds[kind];
        for (stage, choice) in part.stages.iter().zip(&path.moves) {
            let algorithm = &stage.algorithms[choice.way];
            for (&input, _) in stage.inputs.iter().zip(&choice.refreshed).filter(|(_, refreshed)| **refreshed) {
                usage.refreshed(part.tensors[input].packing, prices);
            }
            usage.product(algorithm, prices);
            usage.keys(stage.phase, &algorithm.keys(prices, choice.level));
        }
    }

    /// Seconds of the greedy placement.
    fn greedy(&self, start: usize) -> Option<f64> {
        let (mut level, mut seconds) = (start, 0.0);
        for &kind in &self.order {
            let path = self.segments[kind].greedy(level)?;
            seconds += path.seconds;
            level = path.level;
        }
        Some(seconds)
    }

    /// The best plans with more levels, as long as they are faster.
    fn deeper(&self, prices: &Prices) -> Vec<Deeper> {
        let top = ladder(&prices.parameters).top;
        let (mut found, mut least) = (Vec::new(), self.seconds);
        let most = DEEPER.min(prices.parameters.max_level() - top);
        for levels in 1..=most {
            let part = |(kind, priced): (&Part, &Priced)| kind.segment(priced, prices, top + levels);
            let segments: Vec<Segment> = self.kinds.iter().zip(&self.priced).map(part).collect();
            if let Some((seconds, _)) = chain(&segments, &self.order, top + levels)
                && seconds < least
            {
                found.push(Deeper { levels, seconds });
                least = seconds;
            }
        }
        found
    }

    /// Peak bytes of live tensors and of temporary values.
    fn working_bytes(&self, prices: &mut Prices, start: usize) -> Result<u64, PlanError> {
        let (mut peak, mut level) = (0, start);
        for (number, (&kind, path)) in self.order.iter().zip(&self.paths).enumerate() {
            if number > 0 && (kind, path) == (self.order[number - 1], &self.paths[number - 1]) {
                continue;
            }
            let (part, segment) = (&self.kinds[kind], &self.segments[kind]);
            let mut levels = self.made(kind, level, path);
            level = path.level;
            let needed_later = |tensor: usize, stage: usize| {
                tensor == part.output() || part.stages[stage..].iter().any(|later| later.inputs.contains(&tensor))
            };
            let first_use = |tensor: usize| part.stages.iter().position(|stage| stage.outputs.contains(&tensor));
            for (number, (stage, choice)) in part.stages.iter().zip(&path.moves).enumerate() {
                let mut passing = unspoken_ckks::key_switch_bytes(&prices.parameters, choice.level + 1);
                for (&input, _) in stage.inputs.iter().zip(&choice.refreshed).filter(|(_, refreshed)| **refreshed) {
                    levels[input] = segment.ladder.top;
                    passing = passing.max(bootstrap_bytes(part.tensors[input].packing, prices)?);
                }
                if let Some(product) = stage.algorithms[choice.way].product() {
                    passing = passing.max(bootstrap_bytes(product.input, prices)?);
                }
                let live = (0..part.tensors.len()).filter(|&tensor| {
                    let made = first_use(tensor).is_none_or(|made| made <= number);
                    made && (needed_later(tensor, number) || stage.outputs.contains(&tensor))
                });
                let bytes = |tensor: usize| {
                    part.tensors[tensor].packing.ciphertexts as u64 * prices.ciphertext_bytes(levels[tensor])
                };
                peak = peak.max(live.map(bytes).sum::<u64>() + passing);
            }
        }
        Ok(peak)
    }
}

/// Temporary bytes of a bootstrap.
fn bootstrap_bytes(packing: packing::Packing, prices: &mut Prices) -> Result<u64, PlanError> {
    Ok(prices.refresh(packing.period, packing.ciphertexts > 1)?.working_bytes)
}

fn sparse(period: usize, prices: &Prices) -> String {
    if period == prices.parameters.slots() { "all slots".into() } else { format!("{period} slots") }
}

/// Work as sums for a row.
fn totals(work: &Work, prices: &Prices) -> Totals {
    let [own, bootstraps] = work.seconds(&prices.model);
    Totals {
        seconds: own + bootstraps,
        bootstrap_seconds: bootstraps,
        key_switches: work.own.total_key_switches() + work.bootstraps.total_key_switches(),
        small_key_switches: work.small_key_switches,
        first_halves: work.first_halves,
        second_halves: work.second_halves,
        plaintext_products: work.own.plaintext_products + work.bootstraps.plaintext_products,
        multiply_adds: work.multiply_adds,
    }
}

/// Seconds by phase.
fn shares(parts: &[PartPlan]) -> Vec<Share> {
    let mut sums: BTreeMap<Phase, f64> = BTreeMap::new();
    for part in parts {
        for row in &part.rows {
            let times = part.count as f64;
            *sums.entry(Phase::Bootstrap).or_default() += times * row.work.bootstrap_seconds;
            *sums.entry(row.phase).or_default() += times * (row.work.seconds - row.work.bootstrap_seconds);
        }
    }
    sums.into_iter().map(|(phase, seconds)| Share { phase, seconds }).collect()
}

/// Weights of the linear maps of a model.
fn weights(config: &Config) -> usize {
    let attention = config.width * (2 * config.query_width() + 2 * config.kv_width());
    config.layers * (attention + 3 * config.width * config.ffn_width) + config.vocabulary * config.width
}

/// Bytes of the weights of a model.
fn weight_bytes(config: &Config) -> u64 {
    (weights(config) * WEIGHT_BYTES) as u64
}

#[cfg(test)]
mod tests;
