//! Plans: how a permutation will be done, as data.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::clear;
use crate::diagonals::{Diagonals, Packing, Progression, Shifts};
use crate::error::{PermuteError, shape};
use crate::network::Network;
use crate::permutation::{MAX_LENGTH, Permutation};

/// The version of serialised plans.
const VERSION: u32 = 1;

/// Most stages or nodes of a plan that is read, edges of its network, and entries of all nodes together.
const MAX_PARTS: usize = 1 << 16;
const MAX_EDGES: usize = 1 << 20;
const MAX_CELLS: usize = 1 << 26;

/// Where a plan comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Nothing moves.
    Identity,
    /// All diagonals at once, by baby steps and giant steps.
    Diagonals,
    /// Factors with few diagonals, in the paper's ideal form or by structure.
    Factors,
    /// The Benes network with optimally collapsed levels: the published baseline, but with one key for the giant steps
    /// of a stage.
    Benes,
    /// A network of the same shape routed through narrow windows, [`windowed`](crate::windowed), and, for repeated
    /// vectors, shifted so that every stage starts at diagonal 0: about a third fewer diagonals, and one key fewer per
    /// group.
    #[serde(alias = "grid")]
    Windowed,
    /// The multi-group network.
    Network,
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Strategy::Identity => "identity",
            Strategy::Diagonals => "diagonals",
            Strategy::Factors => "factors",
            Strategy::Benes => "benes",
            Strategy::Windowed => "windowed",
            Strategy::Network => "network",
        })
    }
}

/// One factor: a permutation by its diagonals, in one level.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stage {
    /// The factor.
    pub factor: Permutation,
    /// How its shifts are read.
    pub shifts: Shifts,
    /// Rotations from one raise of digits; the giant steps are multiples of these.
    pub babies: usize,
}

impl Stage {
    /// Its diagonals.
    pub fn diagonals(&self) -> Diagonals {
        Diagonals::new(&self.factor, self.shifts)
    }

    /// The progression its steps are counted in.
    pub fn progression(&self) -> Progression {
        self.diagonals().progression()
    }
}

/// What a plan does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Program {
    /// Factor after factor.
    Stages(Vec<Stage>),
    /// A network of rotation nodes.
    Network(Network),
}

/// How a permutation will be done. Data: it can be stored, sent and compared, and is checked when it is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Data", into = "Data")]
pub struct Plan {
    strategy: Strategy,
    packing: Packing,
    length: usize,
    program: Program,
}

/// A plan as it is stored.
#[derive(Serialize, Deserialize)]
struct Data {
    version: u32,
    strategy: Strategy,
    packing: Packing,
    length: usize,
    program: Program,
}

impl From<Plan> for Data {
    fn from(Plan { strategy, packing, length, program }: Plan) -> Self {
        Data { version: VERSION, strategy, packing, length, program }
    }
}

impl TryFrom<Data> for Plan {
    type Error = PermuteError;

    fn try_from(data: Data) -> Result<Self, PermuteError> {
        let Data { version, strategy, packing, length, program } = data;
        if version != VERSION {
            return Err(wrong("version", version, VERSION));
        }
        let plan = Plan { strategy, packing, length, program };
        plan.check()?;
        Ok(plan)
    }
}

impl Plan {
    /// The plan that applies factors, one after the other, each with its reading of shifts and its baby steps. No
    /// factors: nothing moves.
    ///
    /// # Errors
    /// If a factor's length is not `length`, a reading is not one of the packing's, or there are no baby steps.
    pub fn stages(
        strategy: Strategy,
        packing: Packing,
        length: usize,
        stages: Vec<Stage>,
    ) -> Result<Self, PermuteError> {
        let plan = Plan { strategy, packing, length, program: Program::Stages(stages) };
        plan.check()?;
        Ok(plan)
    }

    /// The plan that runs a network.
    ///
    /// # Errors
    /// If the network is no permutation of `length` entries.
    pub fn network(packing: Packing, length: usize, network: Network) -> Result<Self, PermuteError> {
        let plan = Plan { strategy: Strategy::Network, packing, length, program: Program::Network(network) };
        plan.check()?;
        Ok(plan)
    }

    /// Where it comes from.
    pub fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// How vectors lie in the slots.
    pub fn packing(&self) -> Packing {
        self.packing
    }

    /// The length of the vectors.
    pub fn length(&self) -> usize {
        self.length
    }

    /// What it does.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Levels it takes: a stage that is a rotation takes none.
    pub fn depth(&self) -> usize {
        match &self.program {
            Program::Stages(stages) => stages.iter().filter(|stage| stage.diagonals().single().is_none()).count(),
            Program::Network(network) => network.depth(),
        }
    }

    /// Masks it multiplies by.
    pub fn masks(&self) -> usize {
        match &self.program {
            Program::Stages(stages) => stages.iter().map(|stage| stage.diagonals().len()).sum(),
            Program::Network(network) => network.masks(),
        }
    }

    /// The permutation it does, by doing it.
    ///
    /// # Errors
    /// If it does none, which its making rules out.
    pub fn permutation(&self) -> Result<Permutation, PermuteError> {
        match &self.program {
            Program::Stages(stages) => {
                let identity = Permutation::identity(self.length)?;
                stages.iter().try_fold(identity, |product, stage| product.then(&stage.factor))
            }
            Program::Network(network) => clear::run(network, self.packing, self.length),
        }
    }

    fn check(&self) -> Result<(), PermuteError> {
        let n = self.length;
        if !n.is_power_of_two() || n > MAX_LENGTH {
            let needed = format!("a power of two up to {MAX_LENGTH}; pad it");
            return Err(shape("plan a permutation", format!("length {n}"), needed));
        }
        match &self.program {
            Program::Stages(stages) => {
                if stages.len() > MAX_PARTS {
                    return Err(wrong("the number of stages", stages.len(), format!("at most {MAX_PARTS}")));
                }
                for stage in stages {
                    if stage.factor.len() != n {
                        return Err(wrong("the length of a factor", stage.factor.len(), n));
                    }
                    if !self.packing.shifts().contains(&stage.shifts) {
                        let found = format!("{:?}", stage.shifts);
                        return Err(wrong("the reading of shifts", found, "exact shifts for vectors side by side"));
                    }
                    if !(1..=2 * n).contains(&stage.babies) {
                        return Err(wrong("the number of baby steps", stage.babies, format!("1 to {}", 2 * n)));
                    }
                }
            }
            Program::Network(network) => {
                check_network(network, n)?;
                clear::run(network, self.packing, n)?;
            }
        }
        Ok(())
    }
}

fn check_network(network: &Network, n: usize) -> Result<(), PermuteError> {
    use crate::network::Source;

    let parts = network.nodes.len() + network.leaves.len();
    if parts > MAX_PARTS || network.top.len() > 32 || !(1..=32).contains(&network.together) {
        return Err(wrong("the size of the network", parts, format!("at most {MAX_PARTS} nodes and 32 first steps")));
    }
    let edges = || network.nodes.iter().flat_map(|node| &node.edges).chain(network.leaves.values().flatten());
    if edges().count() > MAX_EDGES || network.nodes.len().saturating_mul(n) > MAX_CELLS {
        let found = format!("{} edges, {} nodes of {n} entries", edges().count(), network.nodes.len());
        return Err(wrong("the size of the network", found, format!("at most {MAX_EDGES} edges, {MAX_CELLS} entries")));
    }
    let near = |rotation: i64| rotation.unsigned_abs() <= 2 * n as u64;
    let largest = network.leaves.keys().next_back().map_or(0, |&multiple| i64::from(multiple));
    let rotations = network.nodes.iter().map(|node| node.rotation).chain(network.top.iter().copied());
    if network.unit <= 0 || !near(network.unit.saturating_mul(largest)) || !rotations.into_iter().all(near) {
        return Err(wrong("a rotation", "out of range", format!("at most {} either way", 2 * n)));
    }
    if network.inputs().into_iter().any(|rotation| network.input_path(rotation).is_none()) {
        return Err(wrong("a rotation of the input", "not a sum of first steps", "such a sum"));
    }
    let edges = network.nodes.iter().enumerate().flat_map(|(i, node)| node.edges.iter().map(move |edge| (i, edge)));
    let leaves = network.leaves.values().flatten().map(|edge| (network.nodes.len(), edge));
    for (before, edge) in edges.chain(leaves) {
        if matches!(edge.from, Source::Node(node) if node >= before) {
            return Err(wrong("an edge", "from a later node", "from an earlier one"));
        }
        if edge.mask.iter().flatten().any(|&position| position as usize >= n) {
            return Err(wrong("a mask", "beyond the vector", format!("positions below {n}")));
        }
    }
    let masked = |edges: &Vec<crate::network::Edge>| edges.iter().all(|edge| edge.mask.is_some());
    let rotated = network.leaves.iter().filter(|&(&multiple, _)| multiple > 0).map(|(_, edges)| edges);
    if !network.nodes.iter().map(|node| &node.edges).chain(rotated).all(|edges| !edges.is_empty() && masked(edges)) {
        return Err(wrong("a mask", "missing", "one for everything that is rotated"));
    }
    Ok(())
}

fn wrong(what: &'static str, found: impl ToString, needed: impl ToString) -> PermuteError {
    PermuteError::Plan { what, found: found.to_string(), needed: needed.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_with_the_earlier_name_of_a_strategy_are_read() {
        let plan = Plan::stages(Strategy::Windowed, Packing::Repeated, 4, vec![]).unwrap();
        let text = serde_json::to_string(&plan).unwrap();
        assert!(text.contains(r#""strategy":"windowed""#), "{text}");
        assert_eq!(serde_json::from_str::<Plan>(&text.replace("windowed", "grid")).unwrap(), plan);
    }

    #[test]
    fn hostile_plans_are_refused_before_anything_is_allocated() {
        let network = |length: u64, nodes: usize| {
            let node = r#"{"edges":[{"from":{"Input":0},"mask":[]}],"rotation":0}"#;
            let nodes = vec![node; nodes].join(",");
            let network = format!(r#"{{"nodes":[{nodes}],"leaves":{{}},"unit":1,"top":[],"together":1}}"#);
            format!(
                r#"{{"version":1,"strategy":"network","packing":"Repeated","length":{length},"program":{{"network":{network}}}}}"#
            )
        };
        let refused = |text: &str| serde_json::from_str::<Plan>(text).unwrap_err().to_string();
        for length in [1 << 40, 1 << 63] {
            assert!(refused(&network(length, 1)).contains("a power of two up to"), "{}", refused(&network(length, 1)));
        }
        assert!(refused(&network(1 << 24, 100)).contains("entries"), "{}", refused(&network(1 << 24, 100)));
    }
}
