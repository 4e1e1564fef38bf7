//! Comparison of memory estimates with measured allocations.

#[allow(dead_code, reason = "the server of the measurement makes its own keys")]
mod common;
#[path = "../../../engine/ckks/tests/common/memory.rs"]
mod memory;

use common::{PRESET, network};
use memory::{Checks, Server, own_parameters, peak};
use unspoken_cnn::PlainWeightsCircuit;
use unspoken_digits_model::Shape;

#[test]
fn estimates_bound_what_is_allocated() {
    let mut checks = Checks::default();
    let network = network(Shape::LITE);
    let parameters = own_parameters(PRESET);
    for batch in [16, 2] {
        let circuit = PlainWeightsCircuit::new(&network, &parameters, batch).unwrap();
        let (level, scale, vectors) = (circuit.input_level(), circuit.scale(), circuit.layout().vectors());
        let server = Server::new(PRESET, circuit.key_plan(), vectors, (level, scale));
        // The first run encodes the weights, so its peak includes prepared and working bytes.
        let run = || {
            let circuit = PlainWeightsCircuit::new(&network, server.encoder.parameters(), batch).unwrap();
            let scores = circuit.evaluate(&server.evaluator(), &server.inputs).unwrap();
            (circuit, scores)
        };
        let ((circuit, _), measured) = peak(run);
        let what = format!("batches of {batch}, plaintext weights");
        checks.check(&what, measured, circuit.prepared_bytes() + circuit.working_bytes(), 2.0);
    }
    checks.finish();
}
