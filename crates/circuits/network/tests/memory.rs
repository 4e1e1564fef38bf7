//! Comparison of memory estimates with measured allocations.

mod common;
#[path = "../../../engine/ckks/tests/common/memory.rs"]
mod memory;

use common::{design, mlp, rows};
use memory::{Checks, Server, own_parameters, peak};
use unspoken_ckks::CkksParameters;
use unspoken_network::{Arrangement, Function, Options, Order, Program};

#[test]
fn estimates_bound_what_is_allocated() {
    let mut checks = Checks::default();
    let consecutive = Arrangement { batch: 64, order: Order::Consecutive };
    let kept = [(1.into(), true, 2.6), (16.into(), true, 2.0), (64.into(), true, 2.0), (consecutive, true, 2.5)];
    check(&mut checks, &[20, 48, 48, 5], "insecure_n11_depth12_scale40", &kept);
    check(&mut checks, &[20, 256, 256, 5], "insecure_n11_depth12_scale40", &[(4.into(), false, 2.6)]);
    // Bootstraps of one vector, and of four together.
    check(
        &mut checks,
        &[20, 48, 48, 48, 48, 48, 5],
        "insecure_n11_boot_depth15_scale40",
        &[(16.into(), true, 2.0), (64.into(), true, 2.0)],
    );
    checks.finish();
}

fn check(checks: &mut Checks, sizes: &[usize], preset: &str, cases: &[(Arrangement, bool, f64)]) {
    let network = mlp(sizes, Function::Silu);
    let table = rows(64, 20, 1);
    let design = design(&network, &[table.view()], &Options::default());
    let parameters = own_parameters(preset);
    let plan = |parameters: &CkksParameters, arrangement: Arrangement, is_kept: bool| {
        let program = Program::new(&design, parameters, arrangement).unwrap();
        let memory = program.memory() - 1;
        // Weights of which some are encoded at each run.
        if is_kept { program } else { program.within(&design, memory).unwrap() }
    };
    for &(arrangement, is_kept, slack) in cases {
        let program = plan(&parameters, arrangement, is_kept);
        let vectors = program.inputs()[0].layout().vectors();
        let server = Server::new(preset, program.key_plan(), vectors, (program.input_level(), program.scale()));
        // The first run encodes the weights, so its peak includes prepared and working bytes.
        let run = || {
            let program = plan(server.encoder.parameters(), arrangement, is_kept);
            let answer = program.evaluate(&server.evaluator(), std::slice::from_ref(&server.inputs)).unwrap();
            (program, answer)
        };
        let ((program, _), measured) = peak(run);
        checks.check(
            &format!("{arrangement:?}, kept {is_kept}, {} bootstraps", program.bootstraps()),
            measured,
            program.prepared_bytes() + program.working_bytes(),
            slack,
        );
    }
}
