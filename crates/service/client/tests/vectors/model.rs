//! `vectors/model.json`.

use ndarray::Array2;
use serde_json::{Map, Value, json};
use unspoken_ckks::Preset;
use unspoken_model::{CompiledModel, ModelClient, ModelError, ModelServer, Predicted, Row};
use unspoken_network::{Options, Wishes};
use unspoken_onnx::{Answer, Network};
use unspoken_protocol::{CkksDescription, ClientHalf};

use crate::case::{Bytes, Case, Clear, Known, Plan, check, directory_of, files_of};

struct Model;

/// What the model was compiled from.
const ONNX: &str = "model.onnx";

/// Measures of irises, one of each kind.
const ROWS: [[f64; 4]; 3] = [[5.1, 3.5, 1.4, 0.2], [7.0, 3.2, 4.7, 1.4], [6.3, 3.3, 6.0, 2.5]];

fn values(answer: &Answer) -> Value {
    match answer {
        Answer::Numbers(numbers) => json!({ "values": numbers.iter().collect::<Vec<_>>() }),
        Answer::Integers(integers) => json!({ "values": integers.iter().collect::<Vec<_>>() }),
        Answer::Texts(texts) => json!({ "values": texts.iter().collect::<Vec<_>>() }),
        Answer::Scores { labels, numbers } => {
            json!({ "values": numbers.iter().collect::<Vec<_>>(), "labels": labels.clone().into_texts() })
        }
    }
}

impl Known for Model {
    const NAME: &'static str = "model";
    const ABOUT: &'static str = "Private predictions of a model that an owner has brought: a logistic regression.";
    type Client = ModelClient;
    type Server = ModelServer;
    type Asked = Row;

    /// Numbers have 32 bits.
    const TOLERANCE: f64 = 1e-6;

    fn plans() -> Vec<Plan> {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../models/onnx/tests/models/logistic-zipmap.onnx");
        let rows = Array2::from_shape_fn((60, 4), |(row, i)| ROWS[row % 3][i] + (row / 3) as f64 / 40.0);
        let wishes =
            Wishes { presets: vec!["insecure_n11_depth12_scale40".to_owned()], rows: Some(4), ..Wishes::default() };
        let model = Network::load(&file).unwrap();
        let compiled = CompiledModel::compile(&model, &[rows.view()], Options::default(), &wishes).unwrap();
        let names = ["sepal length", "sepal width", "petal length", "petal width"].map(str::to_owned);
        let compiled = compiled.with_elements(vec![names.to_vec()]).unwrap();
        let directory = tempfile::tempdir().unwrap();
        compiled.save(directory.path()).unwrap();
        let mut files = files_of(directory.path());
        files.insert(ONNX.to_owned(), Bytes(std::fs::read(file).unwrap()));
        let name = &model.inputs()[0].name;
        vec![Plan {
            name: "three rows",
            server: json!({ "preset": compiled.preset }),
            options: Map::new(),
            model: files,
            questions: ROWS.map(|row| json!({ "inputs": { name.as_str(): row } })).to_vec(),
        }]
    }

    fn server(case: &Case) -> ModelServer {
        let parameters = Preset::find(case.server["preset"].as_str().unwrap()).unwrap().build().unwrap();
        CompiledModel::load(directory_of(case).path()).unwrap().server(&parameters).unwrap()
    }

    fn model(_case: &Case) {}

    fn question(question: &Value) -> Row {
        let inputs = question["inputs"].as_object().unwrap();
        Row::new(inputs.values().map(|numbers| serde_json::from_value(numbers.clone()).unwrap()).collect())
    }

    fn answer(answer: Result<Predicted, ModelError>) -> Value {
        json!({ "outputs": answer.unwrap().outputs.iter().map(values).collect::<Vec<_>>() })
    }

    fn clear(case: &Case, client: &ModelClient) -> Option<Clear> {
        let model = Network::from_bytes(case.model[ONNX].0.clone()).unwrap();
        let answer = |row: [f64; 4]| {
            let row = Array2::from_shape_fn((1, 4), |(_, i)| row[i] as f32).into_dyn();
            let results = model.run(&[row]).unwrap();
            let outputs = model.outputs().iter().map(|output| values(&output.finish(&results).unwrap()));
            json!({ "outputs": outputs.collect::<Vec<_>>() })
        };
        // The bound is that of slots, which results multiply by the radius of their ranges, and softmax makes smaller.
        let error = 100.0 * client.description().header().error_bound().unwrap();
        Some(Clear { answers: ROWS.map(answer).to_vec(), error })
    }
}

#[test]
fn models_predict_as_in_the_vectors() {
    check::<Model>();
}
