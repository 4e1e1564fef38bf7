//! Comparison of memory estimates with measured allocations.

#[path = "../../../engine/ckks/tests/common/memory.rs"]
mod memory;

use memory::{Checks, Server, own_parameters, peak};
use unspoken_ckks::CostModel;
use unspoken_permute::{
    BlockedPlan, Packing, Permutation, PermutationTask, PreparedBlocks, PreparedPermutation, Strategy,
};

const PRESET: &str = "insecure_n11_real_depth17_scale30";
const OUTPUT_LEVEL: usize = 1;

/// Lists of a plan and tables of rotations, which are not counted: they do not grow with the number of primes.
const LISTS: u64 = 256 << 10;

#[test]
fn estimates_bound_what_is_allocated() {
    let mut checks = Checks::default();
    let parameters = own_parameters(PRESET);
    let (model, scale) = (CostModel::nominal(&parameters), parameters.scale());
    let random = Permutation::random(512, 1).unwrap();
    let explanation =
        PermutationTask::new(&random, Packing::Repeated, &parameters, OUTPUT_LEVEL).explain(&parameters, &model);
    let explanation = explanation.unwrap();
    for strategy in [Strategy::Windowed, Strategy::Benes, Strategy::Network, Strategy::Diagonals, Strategy::Copies] {
        let plan = &explanation.best_of(strategy).unwrap().plan;
        let prepared = PreparedPermutation::new(&parameters, plan, OUTPUT_LEVEL, scale).unwrap();
        let server = Server::new(PRESET, prepared.key_plan(), 1, (prepared.input_level(), scale));
        // The first run encodes the masks, so its peak includes prepared and working bytes.
        let run = || {
            let prepared = PreparedPermutation::new(server.encoder.parameters(), plan, OUTPUT_LEVEL, scale).unwrap();
            let result = prepared.apply(&server.evaluator(), &server.inputs[0]).unwrap();
            (prepared, result)
        };
        let ((prepared, _), measured) = peak(run);
        let estimate = prepared.prepared_bytes() + prepared.working_bytes() + LISTS;
        checks.check(&format!("{strategy} of {} levels", plan.depth()), measured, estimate, 2.5);
    }

    let long = Permutation::random(3 * parameters.slots(), 1).unwrap();
    let plan = BlockedPlan::new(&parameters, &model, &long, (16, 1), Some(40), None).unwrap();
    let prepare = |parameters| PreparedBlocks::new(parameters, &plan, 1, scale).unwrap();
    let prepared = prepare(&parameters);
    let server = Server::new(PRESET, prepared.key_plan(), 3, (prepared.input_level(), scale));
    let run = || {
        let prepared = prepare(server.encoder.parameters());
        let results = prepared.apply(&server.evaluator(), &server.inputs).unwrap();
        (prepared, results)
    };
    let ((prepared, _), measured) = peak(run);
    let estimate = prepared.prepared_bytes() + prepared.working_bytes() + 6 * LISTS;
    checks.check("three blocks", measured, estimate, 2.5);
    checks.finish();
}
