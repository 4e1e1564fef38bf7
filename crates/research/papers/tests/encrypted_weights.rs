//! Encrypted images with encrypted weights, compared with the network in the clear, for all tilings of a batch.

#[path = "../../../circuits/cnn/tests/common/mod.rs"]
mod common;

use common::{Client, PRESET, images, network, worst};
use unspoken_ckks::{Evaluator, Simulator};
use unspoken_digits_model::Shape;
use unspoken_papers::EncryptedWeightsCircuit;

/// Shapes, batch sizes, and numbers of vectors of images and of scores in 2048 slots.
const CASES: [(Shape, usize, usize, usize); 4] = [
    (Shape { channels: 1, hidden: 16 }, 2, 4, 1),
    (Shape::LITE, 1, 4, 1),
    (Shape::LITE, 8, 32, 2),
    (Shape { channels: 1, hidden: 64 }, 1, 2, 1),
];

#[test]
fn encrypted_scores_are_those_of_the_network() {
    let mut client = Client::new(PRESET, 12);
    for (shape, batch, vectors, outputs) in CASES {
        let network = network(shape);
        let circuit = EncryptedWeightsCircuit::new(shape, client.parameters(), batch).unwrap();
        let layout = circuit.layout();
        assert_eq!((layout.vectors(), layout.outputs()), (vectors, outputs), "{shape:?} {batch}");
        let images = images(batch);
        let exact: Vec<[f64; 10]> = images.iter().map(|image| network.scores(image)).collect();
        let arranged = layout.arrange(&images).unwrap();

        let simulator = Simulator::new(&client.encoder, 1);
        let simulate = |values: &[_], level, scale| simulator.encrypt(values, level, scale);
        let weights = circuit.encrypt_network(&network, simulate).unwrap();
        let inputs: Vec<_> =
            arranged.iter().map(|slots| simulate(slots, circuit.input_level(), circuit.scale()).unwrap()).collect();
        let simulated = circuit.evaluate(&simulator, &weights, &inputs).unwrap();
        let slots: Vec<_> = simulated.iter().map(|vector| vector.exact().to_vec()).collect();
        assert!(worst(&layout.scores(&slots, batch).unwrap(), &exact) < 1e-9, "{shape:?} {batch}");
        let width = client.parameters().slots() / shape.hidden / batch;
        for (output, slots) in slots.iter().enumerate() {
            for (slot, value) in slots.iter().enumerate() {
                let class = output * width + slot / batch % width;
                let expected = exact[slot % batch].get(class).copied().unwrap_or_default();
                assert!((value - expected).norm() < 1e-9, "slot {slot} tells more than scores");
            }
        }
        assert_eq!(simulator.overflows(), []);
        assert_eq!(&simulator.key_plan(), circuit.key_plan());

        let keys = client.keys(circuit.key_plan());
        let encrypt = |slots: &[_], level, scale| Ok(client.encrypt_at(slots, level, scale));
        let weights = circuit.encrypt_network(&network, encrypt).unwrap();
        let inputs = client.encrypt(&arranged, circuit.input_level());
        let answer = circuit.evaluate(&Evaluator::new(&client.encoder, &keys), &weights, &inputs).unwrap();
        assert!(answer.iter().all(|vector| vector.level() == 0));
        let slots: Vec<_> = answer.iter().map(|vector| client.decrypt(vector)).collect();
        let error = worst(&layout.scores(&slots, batch).unwrap(), &exact);
        assert!(error < 1e-3, "{shape:?} {batch}: {error:e}");
        let predicted = simulated.iter().map(|vector| vector.error().worst).fold(0.0, f64::max);
        assert!(error < 4.0 * predicted, "{error:e}, predicted {predicted:e}");
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let client = Client::new(PRESET, 12);
    let parameters = client.parameters();
    let refusal = |batch| EncryptedWeightsCircuit::new(Shape::LITE, parameters, batch).err().unwrap().to_string();
    assert!(refusal(3).contains("a power of two up to 64"), "{}", refusal(3));
    assert!(refusal(128).contains("several queries"));
    let circuit = EncryptedWeightsCircuit::new(Shape::LITE, parameters, 8).unwrap();
    assert!(circuit.layout().arrange(&images(9)).is_err());
    assert!(circuit.layout().scores(&[], 1).is_err());
    let simulator = Simulator::new(&client.encoder, 1);
    let encrypt = |values: &[_], level, scale| simulator.encrypt(values, level, scale);
    let other = network(Shape { channels: 1, hidden: 16 });
    assert!(circuit.encrypt_network(&other, encrypt).is_err());
    let weights = circuit.encrypt_network(&network(Shape::LITE), encrypt).unwrap();
    let input = simulator.encrypt(&[0.0.into()], 5, parameters.scale()).unwrap();
    assert!(circuit.evaluate(&simulator, &weights, &[input]).is_err());
}
