//! Comparison of memory estimates with measured allocations.

#[path = "../../../engine/ckks/tests/common/memory.rs"]
mod memory;

use memory::{Checks, Server, own_parameters, peak};
use unspoken_ckks::Polynomial;
use unspoken_slim::{SlimEvaluation, SquareTree};

const PRESET: &str = "insecure_n11_depth24_scale52";

#[test]
fn estimates_bound_what_is_allocated() {
    let mut checks = Checks::default();
    let parameters = own_parameters(PRESET);
    let polynomial = Polynomial::chebyshev_approximation(|x| 1.0 / x.sqrt(), 1.0 / 30.0, 1.0, 64).unwrap();
    for depth in [1, 3, 6] {
        let tree = SquareTree::new(&polynomial, depth).unwrap();
        let slim = SlimEvaluation::new(&parameters, &[&tree], 16, 1, parameters.scale()).unwrap();
        let server = Server::new(PRESET, slim.key_plan(), 1, (slim.input_level(), parameters.scale()));
        // The first run encodes the vectors, so its peak includes prepared and working bytes.
        let run = || {
            let parameters = server.encoder.parameters();
            let slim = SlimEvaluation::new(parameters, &[&tree], 16, 1, parameters.scale()).unwrap();
            let result = slim.apply(&server.evaluator(), &server.inputs[0]).unwrap();
            (slim, result)
        };
        let ((slim, _), measured) = peak(run);
        let estimate = slim.prepared_bytes() + slim.working_bytes();
        checks.check(&format!("depth {depth}"), measured, estimate, 3.5);
    }
    checks.finish();
}
