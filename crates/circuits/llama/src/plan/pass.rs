//! Passes: their operations, laid out in the better of two ways.

use std::collections::BTreeMap;

use super::PlanRequest;
use super::candidate::Candidate;
use super::error::PlanError;
use super::memory::Usage;
use super::packing::Grid;
use super::prices::Prices;
use super::report::{Floor, PartPlan, PassPlan, Phase, Share, Totals};
use super::steps::{ladder, parts};
use super::work::Machine;
use crate::circuit::Circuit;
use crate::record::{Node, Recorder};

/// One pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pass {
    /// Tokens that it runs.
    pub tokens: usize,
    /// Private tokens before them.
    pub earlier: usize,
    /// Whether logits are computed.
    pub logits: bool,
}

impl Pass {
    /// The best plan of the pass. Its floor of bytes is left open.
    pub fn plan(
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
        let mut candidate = |packed| {
            let mut parts = parts(&nodes, &grid, &request.degrees, packed);
            if !self.logits {
                parts.pop();
            }
            Candidate::new(parts, prices)
        };
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
    pub fn nodes(self, request: &PlanRequest) -> Vec<Node> {
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
