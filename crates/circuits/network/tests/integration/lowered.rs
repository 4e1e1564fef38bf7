//! Networks of ONNX models compute what the models compute.

use std::path::Path;

use ndarray::{Array2, ArrayD, ArrayView2, IxDyn};
use unspoken_network::{Network, table_rows};
use unspoken_onnx::InputKind;

/// Rows of tables of the models' inputs.
const ROWS: usize = 5;

/// Numbers for an input, flattened; whole ones for indices.
fn table(model: &unspoken_onnx::Network, place: usize) -> Array2<f64> {
    let input = &model.inputs()[place];
    let size = input.shape.iter().product::<usize>();
    let number = |(row, i): (usize, usize)| f64::from((((row * 31 + i * 7 + place) as f64 * 0.618).sin() * 1.5) as f32);
    match input.kind {
        InputKind::Float => Array2::from_shape_fn((ROWS, size), number),
        InputKind::Index => {
            let rows = table_rows(model, place).unwrap();
            Array2::from_shape_fn((ROWS, size), |(row, i)| ((row * 5 + i * 3) % rows) as f64)
        }
    }
}

/// Indices as numbers of which one is 1.
fn encoded(model: &unspoken_onnx::Network, place: usize, table: &Array2<f64>) -> Array2<f64> {
    if model.inputs()[place].kind == InputKind::Float {
        return table.clone();
    }
    let rows = table_rows(model, place).unwrap();
    let one = |(row, column): (usize, usize)| f64::from(table[(row, column / rows)] as usize == column % rows);
    Array2::from_shape_fn((ROWS, table.ncols() * rows), one)
}

#[test]
fn networks_of_models_are_the_models() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/onnx/tests/models");
    let (mut same, mut refused) = (0, Vec::new());
    let mut files: Vec<_> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "onnx"));
    files.sort();
    for file in files {
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        let model = unspoken_onnx::Network::load(&file).unwrap();
        let network = match Network::from_onnx(&model) {
            Ok(network) => network,
            Err(error) => {
                assert!(error.to_string().contains("in node"), "{name}: {error}");
                refused.push((name, error.to_string()));
                continue;
            }
        };
        let tables: Vec<Array2<f64>> = (0..model.inputs().len()).map(|place| table(&model, place)).collect();
        let shaped = tables.iter().zip(model.inputs()).map(|(table, input)| {
            let shape = [&[ROWS], input.shape.as_slice()].concat();
            ArrayD::from_shape_vec(IxDyn(&shape), table.iter().map(|x| *x as f32).collect()).unwrap()
        });
        let expected = model.run(&shaped.collect::<Vec<_>>()).unwrap();
        let given: Vec<Array2<f64>> =
            tables.iter().enumerate().map(|(place, table)| encoded(&model, place, table)).collect();
        let given: Vec<ArrayView2<'_, f64>> = given.iter().map(|table| table.view()).collect();
        for network in [network.fused().unwrap(), network] {
            let found = network.run(&given).unwrap();
            assert_eq!(found.len(), expected.len(), "{name}");
            for (found, expected) in found.iter().zip(&expected) {
                let scale = expected.iter().fold(1.0f32, |most, x| most.max(x.abs()));
                let error = found.iter().zip(expected).map(|(a, b)| (*a as f32 - b).abs()).fold(0.0, f32::max);
                assert!(error < 1e-4 * scale, "{name}: {error} of {scale}");
            }
        }
        same += 1;
    }
    println!("{same} models, refused: {refused:?}");
    assert!(same >= 45 && refused.len() <= 10, "{same}, {refused:?}");
}
