//! Encrypted images with plaintext weights, compared with the network in the clear, for all layouts of a batch.

mod common;

use common::{Client, PRESET, images, network, worst};
use unspoken_ckks::{CkksError, Encoder, Evaluator, Preset, Simulator};
use unspoken_cnn::{CnnError, ImageLayout, PlainWeightsCircuit};
use unspoken_digits_model::Shape;
use unspoken_rlwe::RlweError;

/// Shapes, batch sizes, and numbers of vectors of a batch in 2048 slots.
const CASES: [(Shape, usize, usize); 4] =
    [(Shape::LITE, 16, 8), (Shape::LITE, 4, 2), (Shape::LITE, 2, 1), (Shape { channels: 1, hidden: 16 }, 4, 2)];

#[test]
fn encrypted_scores_are_those_of_the_network() {
    let mut client = Client::new(PRESET, 11);
    for (shape, batch, vectors) in CASES {
        let network = network(shape);
        let circuit = PlainWeightsCircuit::new(&network, client.parameters(), batch).unwrap();
        let layout = circuit.layout();
        assert_eq!(layout.vectors(), vectors, "{shape:?} {batch}");
        let images = images(batch);
        let exact: Vec<[f64; 10]> = images.iter().map(|image| network.scores(image)).collect();
        let arranged = layout.arrange(&images).unwrap();

        let simulator = Simulator::new(&client.encoder, 1);
        let encrypt = |values| simulator.encrypt(values, circuit.input_level(), circuit.scale()).unwrap();
        let inputs: Vec<_> = arranged.iter().map(|values| encrypt(values)).collect();
        let simulated = circuit.evaluate(&simulator, &inputs).unwrap();
        assert!(worst(&layout.scores(simulated.exact(), batch).unwrap(), &exact) < 1e-9, "{shape:?} {batch}");
        for (slot, value) in simulated.exact().iter().enumerate() {
            let expected = exact[slot % batch].get(slot / batch % 16).copied().unwrap_or_default();
            assert!((value - expected).norm() < 1e-9, "slot {slot} tells more than scores");
        }
        assert_eq!(simulator.overflows(), []);
        assert_eq!(&simulator.key_plan(), circuit.key_plan());

        let keys = client.keys(circuit.key_plan());
        let inputs = client.encrypt(&arranged, circuit.input_level());
        let answer = circuit.evaluate(&Evaluator::new(&client.encoder, &keys), &inputs).unwrap();
        assert_eq!(answer.level(), 0);
        let found = layout.scores(&client.decrypt(&answer), batch).unwrap();
        let error = worst(&found, &exact);
        assert!(error < 1e-3, "{shape:?} {batch}: {error:e}");
        let predicted = simulated.error().worst;
        assert!(error < 4.0 * predicted, "{error:e}, predicted {predicted:e}");
    }
}

#[test]
fn what_does_not_fit_is_refused_before_it_costs_anything() {
    let network = network(Shape::LITE);
    let parameters = Preset::find(PRESET).unwrap().build().unwrap();
    for batch in [0, 3, 32] {
        let error = PlainWeightsCircuit::new(&network, &parameters, batch).err().unwrap().to_string();
        assert!(error.contains("a power of two up to 16"), "{error}");
    }
    let shallow = Preset::find("n13_depth3_scale30").unwrap().build().unwrap();
    let error = PlainWeightsCircuit::new(&network, &shallow, 8).err().unwrap().to_string();
    assert!(error.contains("needed 5 levels"), "{error}");

    let circuit = PlainWeightsCircuit::new(&network, &parameters, 16).unwrap();
    assert!(matches!(circuit.layout().arrange(&images(17)), Err(CnnError::Mismatch { .. })));
    assert!(matches!(circuit.layout().arrange(&[]), Err(CnnError::Mismatch { .. })));
    assert!(circuit.layout().scores(&[], 1).is_err());
    assert_eq!(ImageLayout::largest_batch(Shape::FULL, 1 << 14), 64);

    let simulator = Simulator::new(&Encoder::new(&parameters), 1).with_keys(Default::default());
    let zero = |level| simulator.encrypt(&[0.0.into()], level, parameters.scale()).unwrap();
    assert!(matches!(circuit.evaluate(&simulator, &[zero(5)]), Err(CnnError::Mismatch { .. })));
    let missing = circuit.evaluate(&simulator, &vec![zero(5); 8]);
    assert!(matches!(missing, Err(CnnError::Ckks(CkksError::Rlwe(RlweError::MissingKeys { .. })))));
    let low = circuit.evaluate(&simulator, &vec![zero(4); 8]);
    assert!(matches!(low, Err(CnnError::Ckks(CkksError::Level { .. }))));
}
