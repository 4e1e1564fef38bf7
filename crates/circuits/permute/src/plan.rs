//! Plans: the operations of a permutation, as serialisable data.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::clear;
use crate::copies::Copies;
use crate::diagonals::{Diagonals, Packing, Progression, ShiftSet, Shifts, distinct_distances};
use crate::error::{PermuteError, shape, wrong};
use crate::network::Network;
use crate::permutation::{MAX_LENGTH, Permutation};

/// The version of serialised plans.
const VERSION: u32 = 1;

/// Limits for a plan that is read: stages or nodes, edges of its network, and entries of all nodes together.
const MAX_PARTS: usize = 1 << 16;
const MAX_EDGES: usize = 1 << 20;
const MAX_CELLS: usize = 1 << 26;

/// The strategy that made a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Nothing moves.
    Identity,
    /// All diagonals in one stage, with baby steps and giant steps.
    Diagonals,
    /// Factors with few diagonals, in the paper's ideal form or from a known structure.
    Factors,
    /// The Benes network with optimally collapsed levels: the published baseline, except that the giant steps of a
    /// stage share one key.
    Benes,
    /// A network of the same shape, routed through narrow windows ([`windowed`](crate::windowed)): about a third fewer
    /// diagonals. For repeated vectors every stage is shifted to start at diagonal 0, which saves one key per group.
    #[serde(alias = "grid")]
    Windowed,
    /// The multi-group network.
    Network,
    /// Sparse layers over several copies of a repeated vector, for vectors of at most half the slots.
    Copies,
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
            Strategy::Copies => "copies",
        })
    }
}

/// A stage: one factor, computed by its diagonals in one level.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stage {
    /// The factor.
    pub factor: Permutation,
    /// The representation of its shifts.
    pub shifts: Shifts,
    /// Number of baby steps, which are rotations from one digit decomposition; giant steps are multiples of it.
    pub babies: usize,
}

impl Stage {
    /// Its diagonals.
    pub fn diagonals(&self) -> Diagonals {
        Diagonals::new(&self.factor, self.shifts)
    }

    /// The shifts of its diagonals.
    pub(crate) fn shift_set(&self) -> ShiftSet {
        ShiftSet::new(&distinct_distances(&self.factor), self.shifts, self.factor.len())
    }

    /// Whether all entries move by the same shift: the stage is a rotation, which uses no level.
    fn rotates(&self) -> bool {
        let mut shifts = self.factor.distances().map(|distance| self.shifts.read(distance, self.factor.len()));
        let first = shifts.next();
        shifts.all(|shift| Some(shift) == first)
    }

    /// The arithmetic progression that contains its diagonals; baby and giant steps count its terms.
    pub fn progression(&self) -> Progression {
        self.shift_set().progression()
    }
}

/// The operations of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operations {
    /// Factors, one after the other.
    Stages(Vec<Stage>),
    /// A network of rotation nodes.
    Network(Network),
    /// Layers over several copies of a repeated vector.
    Copies(Copies),
}

/// A plan: the operations of a permutation, as data. It can be stored, sent and compared, and is checked when it is
/// read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Data", into = "Data")]
pub struct PermutationPlan {
    strategy: Strategy,
    packing: Packing,
    length: usize,
    program: Operations,
}

/// The serialised form of a plan.
#[derive(Serialize, Deserialize)]
struct Data {
    version: u32,
    strategy: Strategy,
    packing: Packing,
    length: usize,
    program: Operations,
}

impl From<PermutationPlan> for Data {
    fn from(PermutationPlan { strategy, packing, length, program }: PermutationPlan) -> Self {
        Data { version: VERSION, strategy, packing, length, program }
    }
}

impl TryFrom<Data> for PermutationPlan {
    type Error = PermuteError;

    fn try_from(data: Data) -> Result<Self, PermuteError> {
        let Data { version, strategy, packing, length, program } = data;
        if version != VERSION {
            return Err(wrong("version", version, VERSION));
        }
        let plan = PermutationPlan { strategy, packing, length, program };
        plan.check()?;
        Ok(plan)
    }
}

impl PermutationPlan {
    /// The plan that applies factors one after the other, each with its representation of shifts and its baby steps.
    /// Without factors it is the identity.
    ///
    /// # Errors
    /// If a factor has another length than `length`, or a number of baby steps out of range, or a representation of
    /// shifts that the packing does not allow.
    pub fn stages(
        strategy: Strategy,
        packing: Packing,
        length: usize,
        stages: Vec<Stage>,
    ) -> Result<Self, PermuteError> {
        let plan = PermutationPlan { strategy, packing, length, program: Operations::Stages(stages) };
        plan.check()?;
        Ok(plan)
    }

    /// The plan that runs a network.
    ///
    /// # Errors
    /// If the network does not compute a permutation of `length` entries.
    pub fn network(packing: Packing, length: usize, network: Network) -> Result<Self, PermuteError> {
        let plan =
            PermutationPlan { strategy: Strategy::Network, packing, length, program: Operations::Network(network) };
        plan.check()?;
        Ok(plan)
    }

    /// The plan that runs a network over several copies of vectors, which are repeated through the slots.
    ///
    /// # Errors
    /// If the network does not compute a permutation of `length` entries.
    pub(crate) fn copies(length: usize, copies: Copies) -> Result<Self, PermuteError> {
        let (strategy, packing) = (Strategy::Copies, Packing::Repeated);
        let plan = PermutationPlan { strategy, packing, length, program: Operations::Copies(copies) };
        plan.check()?;
        Ok(plan)
    }

    /// The plan that runs a network of the planner, which computes the permutation by construction. Running it in the
    /// clear would take longer than making it.
    pub(crate) fn of_network(packing: Packing, length: usize, network: Network) -> Self {
        let plan =
            PermutationPlan { strategy: Strategy::Network, packing, length, program: Operations::Network(network) };
        debug_assert!(plan.check().is_ok());
        plan
    }

    /// As [`PermutationPlan::of_network`], for a network over several copies.
    pub(crate) fn of_copies(length: usize, copies: Copies) -> Self {
        let program = Operations::Copies(copies);
        let plan = PermutationPlan { strategy: Strategy::Copies, packing: Packing::Repeated, length, program };
        debug_assert!(plan.check().is_ok());
        plan
    }

    /// The strategy that made it.
    pub fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// Placement of vectors in the slots.
    pub fn packing(&self) -> Packing {
        self.packing
    }

    /// The length of the vectors.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Its operations.
    pub fn program(&self) -> &Operations {
        &self.program
    }

    /// Number of levels it uses. A stage that is a rotation uses none.
    pub fn depth(&self) -> usize {
        match &self.program {
            Operations::Stages(stages) => stages.iter().filter(|stage| !stage.rotates()).count(),
            Operations::Network(network) => network.depth(),
            Operations::Copies(copies) => copies.layers.len(),
        }
    }

    /// Number of masks it multiplies by.
    pub fn masks(&self) -> usize {
        match &self.program {
            Operations::Stages(stages) => stages.iter().map(|stage| stage.shift_set().len()).sum(),
            Operations::Network(network) => network.masks(),
            Operations::Copies(copies) => copies.masks(),
        }
    }

    /// Number of slots after which its masks repeat.
    pub(crate) fn period(&self) -> usize {
        match &self.program {
            Operations::Stages(_) | Operations::Network(_) => self.length,
            Operations::Copies(copies) => self.length * copies.count,
        }
    }

    /// The permutation that the plan computes, found by running the plan in the clear.
    ///
    /// # Errors
    /// If it does not compute a permutation, which the constructors rule out.
    pub fn permutation(&self) -> Result<Permutation, PermuteError> {
        match &self.program {
            Operations::Stages(stages) => {
                let identity = Permutation::identity(self.length)?;
                stages.iter().try_fold(identity, |product, stage| product.then(&stage.factor))
            }
            Operations::Network(network) => clear::run(network, self.packing, self.length),
            Operations::Copies(copies) => copies.permutation(self.length),
        }
    }

    fn check(&self) -> Result<(), PermuteError> {
        let n = self.length;
        if !n.is_power_of_two() || n > MAX_LENGTH {
            let needed = format!("a power of two up to {MAX_LENGTH}; pad it");
            return Err(shape("plan a permutation", format!("length {n}"), needed));
        }
        match &self.program {
            Operations::Stages(stages) => {
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
            Operations::Network(network) => {
                check_network(network, n)?;
                clear::run(network, self.packing, n)?;
            }
            Operations::Copies(copies) => {
                if self.packing != Packing::Repeated {
                    return Err(wrong("the packing", "vectors side by side", "repeated vectors for copies"));
                }
                copies.check(n)?;
                copies.permutation(n)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_with_the_earlier_name_of_a_strategy_are_read() {
        let plan = PermutationPlan::stages(Strategy::Windowed, Packing::Repeated, 4, vec![]).unwrap();
        let text = serde_json::to_string(&plan).unwrap();
        assert!(text.contains(r#""strategy":"windowed""#), "{text}");
        assert_eq!(serde_json::from_str::<PermutationPlan>(&text.replace("windowed", "grid")).unwrap(), plan);
    }

    #[test]
    fn a_stage_rotates_if_it_has_one_diagonal() {
        let rotation = Permutation::rotation(8, 3).unwrap();
        let swap = Permutation::swap(8, 0, 7).unwrap();
        for factor in [rotation, swap, Permutation::identity(8).unwrap(), Permutation::reversal(2).unwrap()] {
            for shifts in [Shifts::Exact, Shifts::Forward, Shifts::Balanced] {
                let stage = Stage { factor: factor.clone(), shifts, babies: 1 };
                assert_eq!(stage.rotates(), stage.diagonals().single().is_some(), "{stage:?}");
            }
        }
    }

    #[test]
    fn hostile_plans_are_refused_before_anything_is_allocated() {
        let network = |length: u64, nodes: usize| {
            let node = r#"{"edges":[{"from":{"Input":0},"mask":[]}],"rotation":0}"#;
            let nodes = vec![node; nodes].join(",");
            let network = format!(r#"{{"nodes":[{nodes}],"leaves":{{}},"unit":1,"top":[],"together":1}}"#);
            let program = format!(r#"{{"network":{network}}}"#);
            let head = r#""version":1,"strategy":"network","packing":"Repeated""#;
            format!(r#"{{{head},"length":{length},"program":{program}}}"#)
        };
        let refused = |text: &str| serde_json::from_str::<PermutationPlan>(text).unwrap_err().to_string();
        for length in [1 << 40, 1 << 63] {
            assert!(refused(&network(length, 1)).contains("a power of two up to"), "{}", refused(&network(length, 1)));
        }
        assert!(refused(&network(1 << 24, 100)).contains("entries"), "{}", refused(&network(1 << 24, 100)));
    }
}
