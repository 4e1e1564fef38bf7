//! The target for plans of permutations.

use unspoken_ckks::{CkksParameters, CostModel, Preset};
use unspoken_permute::{Packing, Permutation, PermutationPlan, PermutationTask};

use crate::Target;
use crate::messages::PRESET;

/// Entries of the permutation whose plans are the seeds.
const LENGTH: usize = 16;

/// A plan as JSON: it computes a permutation of its length, and the same plan is read again.
pub static PLAN: Target = Target {
    name: "permute_plan",
    run: |data| {
        let Ok(plan) = serde_json::from_slice::<PermutationPlan>(data) else { return false };
        assert_eq!(plan.permutation().expect("it was checked").len(), plan.length());
        let again = serde_json::to_vec(&plan).expect("numbers and lists");
        assert!(serde_json::from_slice::<PermutationPlan>(&again).expect("it was read before") == plan);
        true
    },
    repair: |_| {},
    seeds: || {
        let parameters = Preset::find(PRESET).and_then(|preset| preset.build()).expect("a preset");
        [Packing::Repeated, Packing::Blocks].into_iter().flat_map(|packing| plans(&parameters, packing)).collect()
    },
};

/// A plan of each strategy.
fn plans(parameters: &CkksParameters, packing: Packing) -> Vec<Vec<u8>> {
    let permutation = Permutation::random(LENGTH, 1).expect("a short one");
    let task = PermutationTask::new(&permutation, packing, parameters, 0);
    let explanation = task.explain(parameters, &CostModel::nominal(parameters)).expect("a valid permutation");
    let mut seen = Vec::new();
    let first = explanation.rows().iter().filter(|row| {
        let strategy = row.candidate.plan.strategy();
        let new = !seen.contains(&strategy);
        seen.push(strategy);
        new
    });
    first.map(|row| serde_json::to_vec(&row.candidate.plan).expect("numbers and lists")).collect()
}
