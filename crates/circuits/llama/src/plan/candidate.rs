//! A way to lay out a pass, with its best plan.

use unspoken_ckks::CkksParameters;

use super::algorithm::Algorithm;
use super::error::PlanError;
use super::memory::Usage;
use super::packing::Packing;
use super::prices::Prices;
use super::report::{Deeper, PartPlan, Phase, Row, Totals};
use super::steps::{Part, Priced, ladder};
use super::work::Work;
use crate::placement::{Path, Segment, chain};

/// Further levels that [`Candidate::deeper`] tries.
const DEEPER: usize = 4;

/// A way to lay out a pass, with its best plan.
pub(super) struct Candidate {
    /// Parts that differ, and which of them each layer is.
    kinds: Vec<Part>,
    priced: Vec<Priced>,
    segments: Vec<Segment>,
    order: Vec<usize>,
    /// Seconds of the pass.
    pub seconds: f64,
    paths: Vec<Path>,
}

impl Candidate {
    /// The best plan of the parts of a pass.
    ///
    /// # Errors
    /// If the levels after a bootstrap are too few for a step.
    pub fn new(parts: Vec<Part>, prices: &mut Prices) -> Result<Self, PlanError> {
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

    /// Layers with their rows, equal neighbours together.
    pub fn parts(&self, prices: &mut Prices, usage: &mut Usage, start: usize) -> Vec<PartPlan> {
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
        let (_, made) = self.segments[kind].replay(level, path).expect("the moves of a shortest path are legal");
        made
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
    pub fn greedy(&self, start: usize) -> Option<f64> {
        let (mut level, mut seconds) = (start, 0.0);
        for &kind in &self.order {
            let path = self.segments[kind].greedy(level)?;
            seconds += path.seconds;
            level = path.level;
        }
        Some(seconds)
    }

    /// The best plans with more levels, as long as they are faster.
    pub fn deeper(&self, prices: &Prices) -> Vec<Deeper> {
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
    pub fn working_bytes(&self, prices: &mut Prices, start: usize) -> Result<u64, PlanError> {
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

/// Whether each stage has an algorithm that fits the levels after a bootstrap.
fn enough_levels(part: &Part, parameters: &CkksParameters) -> Result<(), PlanError> {
    let ladder = ladder(parameters);
    for stage in &part.stages {
        let needs = |algorithm: &Algorithm| {
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

/// Temporary bytes of a bootstrap.
fn bootstrap_bytes(packing: Packing, prices: &mut Prices) -> Result<u64, PlanError> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::packing::Grid;
    use crate::plan::pass::Pass;
    use crate::plan::steps::parts;
    use crate::plan::tests::{parameters, request};
    use crate::plan::work::Machine;

    #[test]
    fn every_layer_is_legal_and_begins_where_the_one_before_ends() {
        let (parameters, request) = (parameters(), request());
        let mut prices = Prices::new(&parameters, Machine::nominal(&parameters).model);
        for pass in [Pass { tokens: 16, earlier: 0, logits: true }, Pass { tokens: 1, earlier: 16, logits: true }] {
            let grid = Grid::new(&request.config, parameters.slots(), pass.tokens, request.public, pass.earlier);
            for packed in [false, true] {
                let parts = parts(&pass.nodes(&request), &grid, &request.degrees, packed);
                let candidate = Candidate::new(parts, &mut prices).unwrap();
                let (mut level, mut seconds) = (parameters.circuit_level(), 0.0);
                for (&kind, path) in candidate.order.iter().zip(&candidate.paths) {
                    seconds += candidate.segments[kind].replay(level, path).unwrap().0;
                    level = path.level;
                }
                assert!((seconds - candidate.seconds).abs() < 1e-9 * seconds);
            }
        }
    }
}
