//! Clients of models that owners bring. Ranges come from the service: it must not learn whether numbers are in them.

use std::path::Path;

use ndarray::Array2;
use unspoken_ckks::Preset;
use unspoken_model::{CompiledModel, ModelClient, Row};
use unspoken_network::{Options, Wishes};
use unspoken_onnx::Network;
use unspoken_protocol::ClientHalf;

use super::applications::{Asked, ask_server, open_client};
use crate::constant_time::memcheck::mark_secret;

/// Models with numbers, and with indices of a table beside them.
const MODELS: [(&str, &[u8]); 2] = [
    ("numbers", include_bytes!("../../../../../models/onnx/tests/models/logistic-zipmap.onnx")),
    ("indices", include_bytes!("../../../../../models/onnx/tests/models/embedding-18.onnx")),
];

/// Numbers of inputs, all in their ranges: whole numbers that are in every table.
fn numbers(size: usize, row: usize) -> Vec<f64> {
    (0..size).map(|i| ((row * 7 + i * 3) % 3) as f64).collect()
}

pub fn prepare(directory: &Path) -> anyhow::Result<()> {
    for (name, file) in MODELS {
        let directory = directory.join(name);
        std::fs::create_dir(&directory)?;
        let model = Network::from_bytes(file.to_vec())?;
        let sizes: Vec<usize> = model.inputs().iter().map(|input| input.shape.iter().product()).collect();
        let table = |size: &usize| Array2::from_shape_fn((60, *size), |(row, i)| numbers(*size, row)[i]);
        let tables: Vec<Array2<f64>> = sizes.iter().map(table).collect();
        let views: Vec<_> = tables.iter().map(|table| table.view()).collect();
        let presets = vec!["insecure_n11_depth24_scale52".to_owned()];
        let wishes = Wishes { presets, rows: Some(4), ..Wishes::default() };
        let compiled = CompiledModel::compile(&model, &views, Options::default(), &wishes)?;
        let server = compiled.server(&Preset::find(&compiled.preset)?.build()?)?;
        let row = Row::new(sizes.iter().map(|size| numbers(*size, 1)).collect());
        ask_server::<_, ModelClient>(&server, (), &[row], &directory)?;
    }
    Ok(())
}

pub fn run(directory: &Path) -> anyhow::Result<()> {
    for (name, _) in MODELS {
        let Asked { description, stored, answer } = Asked::read(&directory.join(name))?;
        let mut client = open_client::<ModelClient>(&description, (), &stored)?;
        let sizes: Vec<usize> = client.description().inputs().iter().map(|input| input.shape.size()).collect();
        let row = |number: usize| {
            let mut inputs: Vec<Vec<f64>> = sizes.iter().map(|size| numbers(*size, number)).collect();
            // One row is inside its ranges, the others have a number outside, or none.
            match number {
                0 => {}
                1 => inputs[0][0] = 1e9,
                _ => inputs[0][0] = f64::NAN,
            }
            inputs.iter_mut().for_each(|numbers| mark_secret(numbers));
            Row::new(inputs)
        };
        let encoded = client.encode(&[row(0), row(1), row(2)])?;
        client.query(&encoded)?;
        client.check_answer(&answer, 3)?;
        let read = client.read(&answer, &encoded)?;
        anyhow::ensure!(read.len() == 3, "found {} rows, needed 3", read.len());
    }
    Ok(())
}
