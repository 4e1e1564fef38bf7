//! Comparison of memory estimates with measured allocations.

#[path = "../../../circuits/cnn/tests/common/mod.rs"]
#[allow(dead_code, reason = "the server of the measurement makes its own keys")]
mod common;
#[path = "../../../engine/ckks/tests/common/memory.rs"]
mod memory;

use common::{PRESET, network};
use memory::{Checks, Server, own_parameters, peak};
use unspoken_digits_model::Shape;
use unspoken_papers::EncryptedWeightsCircuit;

#[test]
fn estimates_bound_what_is_allocated() {
    let mut checks = Checks::default();
    let network = network(Shape::LITE);
    let parameters = own_parameters(PRESET);
    for batch in [16, 64] {
        let circuit = EncryptedWeightsCircuit::new(Shape::LITE, &parameters, batch).unwrap();
        let (level, scale, vectors) = (circuit.input_level(), circuit.scale(), circuit.layout().vectors());
        let server = Server::new(PRESET, circuit.key_plan(), vectors, (level, scale));
        let own = server.encoder.parameters();
        let circuit = EncryptedWeightsCircuit::new(Shape::LITE, own, batch).unwrap();
        let weights = circuit.encrypt_network(&network, |slots, level, scale| {
            let plaintext = server.encoder.encode(slots, level, scale)?;
            server.encrypt(&plaintext)
        });
        let weights = weights.unwrap();
        let (scores, measured) = peak(|| circuit.evaluate(&server.evaluator(), &weights, &server.inputs).unwrap());
        drop(scores);
        checks.check(&format!("batches of {batch}, encrypted weights"), measured, circuit.working_bytes(), 3.5);
    }
    checks.finish();
}
