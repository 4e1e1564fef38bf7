//! Models from ONNX files, compiled, stored, served and asked at small insecure rings.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use ndarray::{Array2, ArrayD, IxDyn};
use unspoken_model::{CompiledModel, Description, ModelClient, ModelError, ModelServer, Predicted, Report, Row};
use unspoken_network::{Options, Wishes};
use unspoken_onnx::{Answer, Network};
use unspoken_protocol::{Call, CkksClientHalf, ClientHalf, ClientId, KeyLoader, Request, ServerHalf};
use unspoken_rlwe::EvaluationKeys;

const CLIENT: ClientId = ClientId::new([1; 16]);

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/onnx/tests/models").join(name)
}

/// Rows like those of the model's training data: numbers around 0.
fn rows(model: &Network, count: usize, seed: usize) -> Vec<Array2<f64>> {
    let of_input = |(place, input): (usize, &unspoken_onnx::Input)| {
        let size = input.shape.iter().product::<usize>();
        let number = |(row, i): (usize, usize)| ((row * 31 + i * 7 + place * 3 + seed) as f64 * 0.618).sin() * 2.0;
        let number = |at: (usize, usize)| f64::from(number(at) as f32);
        match input.kind {
            unspoken_onnx::InputKind::Float => Array2::from_shape_fn((count, size), number),
            unspoken_onnx::InputKind::Index => {
                Array2::from_shape_fn((count, size), |at| (number(at).abs() * 2.0).floor())
            }
        }
    };
    model.inputs().iter().enumerate().map(of_input).collect()
}

fn compile(model: &Network, options: Options) -> Result<(CompiledModel, Report), ModelError> {
    let calibration = rows(model, 400, 0);
    let views: Vec<_> = calibration.iter().map(|table| table.view()).collect();
    let presets = ["insecure_n11_depth12_scale35", "insecure_n11_depth12_scale40", "insecure_n11_depth24_scale52"];
    let presets = presets.map(str::to_owned).to_vec();
    CompiledModel::compile(model, &views, options, &Wishes { presets, rows: Some(8), ..Wishes::default() })
}

struct Served {
    server: ModelServer,
    client: ModelClient,
    keys: EvaluationKeys,
}

fn serve(model: &CompiledModel) -> Served {
    let server = model.server().unwrap();
    let client = ModelClient::open(Description::insecure_from_bytes(&server.describe()).unwrap(), (), None).unwrap();
    let mut bundle = Vec::new();
    client.keyring().write_keys(&mut bundle, |_, _| {}, &AtomicBool::new(false)).unwrap();
    let keys = server.load_keys(&mut bundle.as_slice()).unwrap();
    Served { server, client, keys }
}

fn row(tables: &[Array2<f64>], row: usize) -> Row {
    Row::new(tables.iter().map(|table| table.row(row).to_vec()).collect())
}

fn ask(served: &mut Served, rows: &[Row]) -> Vec<Predicted> {
    let encoded = served.client.encode(rows).unwrap();
    let query = served.client.query(&encoded).unwrap();
    assert!(query.len() <= served.server.limits().query_bytes);
    let answer = served.server.answer(&Request::new(CLIENT, &served.keys, &query), &Call::default()).unwrap();
    assert!(answer.len() <= served.server.limits().answer_bytes);
    served.client.read(&answer, &encoded).unwrap()
}

/// What the model gives in the clear for a row.
fn clear(model: &Network, tables: &[Array2<f64>], row: usize) -> Vec<Answer> {
    let input = |(input, table): (&unspoken_onnx::Input, &Array2<f64>)| {
        let shape = [&[1], input.shape.as_slice()].concat();
        ArrayD::from_shape_vec(IxDyn(&shape), table.row(row).iter().map(|x| *x as f32).collect()).unwrap()
    };
    let inputs: Vec<_> = model.inputs().iter().zip(tables).map(input).collect();
    let results = model.run(&inputs).unwrap();
    model.outputs().iter().map(|output| output.finish(&results).unwrap()).collect()
}

/// The largest difference of numbers; labels must be equal.
fn difference(found: &[Answer], expected: &[Answer]) -> f32 {
    let numbers = |answer: &Answer| match answer {
        Answer::Numbers(numbers) | Answer::Scores { numbers, .. } => Some(numbers.clone()),
        _ => None,
    };
    let mut largest = 0.0f32;
    for (found, expected) in found.iter().zip(expected) {
        match (numbers(found), numbers(expected)) {
            (Some(found), Some(expected)) => {
                assert_eq!(found.shape(), expected.shape());
                let scale = expected.iter().fold(1.0f32, |most, x| most.max(x.abs()));
                largest = found.iter().zip(&expected).map(|(a, b)| (a - b).abs() / scale).fold(largest, f32::max);
            }
            _ => assert_eq!(found, expected),
        }
    }
    largest
}

fn agrees(name: &str, options: Options, bound: f32) {
    let model = Network::load(&file(name)).unwrap();
    let (compiled, report) = compile(&model, options).unwrap_or_else(|error| panic!("{name}: {error}"));
    let directory = tempfile::tempdir().unwrap();
    compiled.save(directory.path()).unwrap();
    let read = CompiledModel::load(directory.path()).unwrap();
    assert_eq!(read.id(), compiled.id());
    let mut served = serve(&read);
    let tables = rows(&model, 5, 77);
    let asked: Vec<Row> = (0..5).map(|at| row(&tables, at)).collect();
    let predicted = ask(&mut served, &asked);
    let worst = predicted
        .iter()
        .enumerate()
        .map(|(at, one)| difference(&one.outputs, &clear(&model, &tables, at)))
        .fold(0.0, f32::max);
    println!(
        "{name}: {} levels, error {worst:.1e}, simulated {:.1e} by polynomials and {:.1e} by noise",
        report.levels, report.simulation.approximation, report.simulation.noise
    );
    assert!(worst < bound, "{name}: {worst}");
}

/// Classical models of scikit-learn: no function is approximated but in the perceptrons.
#[test]
fn models_of_scikit_learn_predict_encrypted() {
    for name in [
        "linear-regression.onnx",
        "logistic-zipmap.onnx",
        "logistic-binary-zipmap.onnx",
        "logistic-pca.onnx",
        "linear-svc.onnx",
        "one-versus-rest.onnx",
        "svc-linear.onnx",
        "svc-poly-arrays.onnx",
        "svr-poly.onnx",
        "columns.onnx",
        "two-targets.onnx",
    ] {
        agrees(name, Options::default(), 0.01);
    }
}

#[test]
fn networks_of_torch_predict_encrypted() {
    let precise = Options { kink_error: 2f64.powi(-9), ..Options::default() };
    for name in [
        "mlp-11.onnx",
        "mlp-zipmap.onnx",
        "two-inputs-17.onnx",
        "two-outputs-18.onnx",
        "embedding-18.onnx",
        "residual-18.onnx",
        "depthwise-13.onnx",
    ] {
        agrees(name, precise, 0.06);
    }
}
