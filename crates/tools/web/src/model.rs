//! Models that owners bring: what they take and give, for JavaScript.

use serde::Serialize;
use unspoken_model::{Description, Gives, Input, OutputShape, Row};
use unspoken_onnx::{Answer, Labels};
use wasm_bindgen::prelude::*;

use crate::failure::Failure;

/// Integers up to here are numbers of JavaScript.
const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

#[wasm_bindgen(typescript_custom_section)]
const TYPES: &str = r#"
/** What a model takes and gives. */
export interface ModelInterface { inputs: ModelInput[]; outputs: DescribedOutput[] }

/**
 * What an output gives, as the service says: labels of classes, a probability for each of at least two classes, the
 * natural logarithm of each, or other numbers.
 */
export type Gives = "labels" | "probabilities" | "logProbabilities" | "numbers";

/** An output of a model, before it is asked. */
export interface DescribedOutput {
  name: string; shape: number[]; gives: Gives;
  /** The labels that the model names, of its classes. */
  labels: string[] | undefined;
}

/** An input of a model. */
export interface ModelInput {
  name: string;
  /** The shape of a row: a picture has channels, height and width. Empty for one number. */
  shape: number[];
  /** A name for each number of a row, in row-major order, or none at all. */
  elements: string[];
  /** The calibrated range of each number, with its margin: others have no answer, or are moved. Empty for indices. */
  low: number[]; high: number[];
  /** Numbers are indices, from 0, into a table with so many rows, if there is one. */
  tableRows: number | undefined;
}

/** A question to a model: for each input, by its name, the numbers of a row in row-major order. */
export interface ModelQuestion {
  inputs: Record<string, Float64Array | Float32Array | number[]>;
  /**
   * Whether numbers outside their ranges are moved into them. By default such a question has no answer, which is an
   * `UnansweredError` after all answers have arrived: the service cannot see that numbers are outside.
   */
  clip?: boolean;
}

/** The answer of a model. Its numbers have noise that depends on the secret: keep them to yourself. */
export interface Predicted { outputs: ModelOutput[] }

/** An output of a model. */
export interface ModelOutput {
  name: string; shape: number[]; gives: Gives;
  /** Numbers; or labels, as numbers or texts. Integers that JavaScript has no number for are texts. */
  values: (number | string)[];
  /** The label of each number, if the model says. */
  labels: string[] | undefined;
}
"#;

/// What a model takes and gives.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ModelInterface {
    inputs: Vec<ModelInput>,
    outputs: Vec<DescribedOutput>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ModelInput {
    name: String,
    shape: Vec<usize>,
    elements: Vec<String>,
    low: Vec<f64>,
    high: Vec<f64>,
    table_rows: Option<usize>,
}

#[derive(Clone, Debug, Serialize)]
struct DescribedOutput {
    name: String,
    shape: Vec<usize>,
    gives: &'static str,
    labels: Option<Vec<String>>,
}

impl ModelInterface {
    /// The inputs and outputs of a description.
    pub(crate) fn of(description: &Description) -> Self {
        let input = |input: &Input| {
            let shape = &input.shape;
            let ranges = (0..shape.size()).filter_map(|element| input.range(element));
            let (low, high) = ranges.map(|[low, high]| (low, high)).unzip();
            ModelInput {
                name: shape.name.clone(),
                shape: shape.shape.clone(),
                elements: shape.elements.clone(),
                low,
                high,
                table_rows: shape.table_rows,
            }
        };
        let output = |output: &OutputShape| DescribedOutput {
            name: output.name.clone(),
            shape: output.shape.clone(),
            gives: name_of(output.gives),
            labels: output.labels.clone().map(Labels::into_texts),
        };
        ModelInterface {
            inputs: description.inputs().iter().map(input).collect(),
            outputs: description.output_shapes().iter().map(output).collect(),
        }
    }
}

fn name_of(gives: Gives) -> &'static str {
    match gives {
        Gives::Labels => "labels",
        Gives::Probabilities => "probabilities",
        Gives::LogProbabilities => "logProbabilities",
        Gives::Numbers => "numbers",
    }
}

/// The row of numbers that JavaScript wrote by the names of inputs.
pub(crate) fn row_of(description: &Description, written: &[(String, Vec<f64>)], clip: bool) -> Result<Row, Failure> {
    let inputs = description.inputs();
    let find = |input: &Input| written.iter().find(|(name, _)| *name == input.shape.name);
    let numbers: Option<Vec<Vec<f64>>> = inputs.iter().map(|input| Some(find(input)?.1.clone())).collect();
    let row = numbers.filter(|_| written.len() == inputs.len()).map(Row::new).ok_or_else(|| {
        let names = |names: Vec<&str>| names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
        let found = match written {
            [] => "none".to_owned(),
            _ => names(written.iter().map(|(name, _)| name.as_str()).collect()),
        };
        let needed = names(inputs.iter().map(|input| input.shape.name.as_str()).collect());
        Failure::Argument { what: "inputs of the model", found, needed }
    })?;
    Ok(if clip { row.clipped(description.inputs()).0 } else { row })
}

/// An output of a model, for JavaScript.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Output {
    name: String,
    shape: Vec<usize>,
    gives: &'static str,
    values: Vec<Value>,
    labels: Option<Vec<String>>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
enum Value {
    Number(f64),
    Text(String),
}

impl From<i64> for Value {
    fn from(integer: i64) -> Self {
        if integer.unsigned_abs() <= MAX_SAFE_INTEGER {
            Value::Number(integer as f64)
        } else {
            Value::Text(integer.to_string())
        }
    }
}

/// The outputs of a row, with their names and shapes.
pub(crate) fn outputs_of(description: &Description, answers: Vec<Answer>) -> Vec<Output> {
    let numbers = |numbers: ndarray::ArrayD<f32>| numbers.iter().map(|x| Value::Number((*x).into())).collect();
    let of = |(output, answer): (&OutputShape, Answer)| {
        let (values, labels) = match answer {
            Answer::Numbers(array) => (numbers(array), None),
            Answer::Integers(array) => (array.iter().copied().map(Value::from).collect(), None),
            Answer::Texts(array) => (array.iter().cloned().map(Value::Text).collect(), None),
            Answer::Scores { labels, numbers: array } => (numbers(array), Some(labels.into_texts())),
        };
        let (name, shape, gives) = (output.name.clone(), output.shape.clone(), name_of(output.gives));
        Output { name, shape, gives, values, labels }
    };
    description.output_shapes().iter().zip(answers).map(of).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::AtomicBool;

    use ndarray::Array2;
    use unspoken_ckks::Preset;
    use unspoken_model::{CompiledModel, ModelServer};
    use unspoken_network::{Options as Approximations, Wishes};
    use unspoken_onnx::Network;
    use unspoken_protocol::{Call, ClientId, KeyLoader, Request, ServerHalf};

    use super::*;
    use crate::half::{Options, WebHalf, open};
    use crate::question::{Answer as WebAnswer, Question};

    static NEVER: AtomicBool = AtomicBool::new(false);

    /// A model of scikit-learn for the measures of irises, with names of columns.
    fn served() -> ModelServer {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/onnx/tests/models/logistic-zipmap.onnx");
        let model = Network::load(&file).unwrap();
        let rows = Array2::from_shape_fn((60, 4), |(row, i)| ((row * 7 + i * 3) % 10) as f64 / 2.0);
        let wishes =
            Wishes { presets: vec!["insecure_n11_depth12_scale40".into()], rows: Some(4), ..Wishes::default() };
        let compiled = CompiledModel::compile(&model, &[rows.view()], Approximations::default(), &wishes).unwrap();
        let names = ["sepal length", "sepal width", "petal length", "petal width"].map(str::to_owned).to_vec();
        let compiled = compiled.with_elements(vec![names]).unwrap();
        compiled.server(&Preset::find(&compiled.preset).unwrap().build().unwrap()).unwrap()
    }

    fn opened(server: &ModelServer) -> Box<dyn WebHalf> {
        open(&server.describe(), &Options { accept_insecure: true, ..Options::default() }).unwrap()
    }

    fn row(inputs: &[(&str, &[f64])], clip: bool) -> Question {
        let inputs = inputs.iter().map(|(name, numbers)| ((*name).to_owned(), numbers.to_vec())).collect();
        Question::Row { inputs, clip }
    }

    #[test]
    fn a_model_is_described_and_predicts() {
        let server = served();
        let mut half = opened(&server);
        assert_eq!((half.half().kind(), half.security().preset), ("model", "insecure_n11_depth12_scale40".into()));
        let interface = half.interface().unwrap();
        let [input] = interface.inputs.as_slice() else { panic!("{interface:?}") };
        assert_eq!((input.shape.as_slice(), input.elements[3].as_str()), (&[4][..], "petal width"));
        assert_eq!((input.low.len(), input.high.len(), input.table_rows), (4, 4, None));
        assert!(input.low[0] < 0.0 && input.high[0] > 4.5, "{input:?}");
        let name = input.name.clone();
        let gives = interface.outputs.iter().map(|output| output.gives).collect::<Vec<_>>();
        assert_eq!(gives, ["labels", "probabilities"]);
        assert!(interface.outputs.iter().all(|output| output.labels.as_ref().unwrap()[2] == "virginica"));

        let mut keys = Vec::new();
        half.half().write_keys(&mut keys, &mut |_, _| {}, &NEVER).unwrap();
        let keys = server.load_keys(&mut keys.as_slice()).unwrap();
        let mut ask = |question: Question| {
            half.check(std::slice::from_ref(&question)).unwrap();
            let asked = half.ask(&[question]).unwrap();
            let request = Request::new(ClientId::new([1; 16]), &keys, &asked.bytes);
            let answer = server.answer(&request, &Call::new(&NEVER)).unwrap();
            half.check_answer(&asked, &answer).unwrap();
            let mut damaged = answer.clone();
            damaged[answer.len() / 2] ^= 1;
            assert!(half.check_answer(&asked, &damaged).is_err());
            match half.read(&asked, &answer).unwrap().remove(0) {
                WebAnswer::Predicted { outputs } => outputs,
                other => panic!("{other:?}"),
            }
        };
        let inside = ask(row(&[(&name, &[4.5, 3.5, 1.5, 0.0])], false));
        assert_eq!(inside.iter().map(|output| output.values.len()).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(inside.iter().map(|output| output.gives).collect::<Vec<_>>(), gives);
        assert!(matches!(&inside[0].values[0], Value::Text(label) if label == "setosa"), "{inside:?}");
        assert_eq!(inside[1].labels.as_deref().unwrap()[0], "setosa");
        // A number far outside is moved to the end of its range.
        let clipped = ask(row(&[(&name, &[4.5, 3.5, 1.5, -100.0])], true));
        let at_the_end = ask(row(&[(&name, &[4.5, 3.5, 1.5, input.low[3]])], false));
        for (clipped, found) in clipped[1].values.iter().zip(&at_the_end[1].values) {
            let (Value::Number(clipped), Value::Number(found)) = (clipped, found) else { panic!("{clipped:?}") };
            assert!((clipped - found).abs() < 0.01, "{clipped} {found}");
        }
    }

    #[test]
    fn rows_outside_are_asked_and_have_an_error_for_an_answer_beside_those_of_others() {
        let server = served();
        let mut half = opened(&server);
        let name = half.interface().unwrap().inputs[0].name.clone();
        let mut keys = Vec::new();
        half.half().write_keys(&mut keys, &mut |_, _| {}, &NEVER).unwrap();
        let keys = server.load_keys(&mut keys.as_slice()).unwrap();
        let mut lengths = Vec::new();
        for (numbers, clip, problem) in [
            ([1.0, 2.0, 1.0, 1.0], false, None),
            ([1.0, 99.0, 1.0, 1.0], false, Some("found a number outside in element 1 (\"sepal width\")")),
            ([1.0, f64::NAN, 1.0, 1.0], true, Some("found no number in element 1")),
        ] {
            let question = [row(&[(&name, &numbers)], clip), row(&[(&name, &[1.0; 4])], false)];
            half.check(&question).unwrap();
            let asked = half.ask(&question).unwrap();
            lengths.push(asked.bytes.len());
            let request = Request::new(ClientId::new([1; 16]), &keys, &asked.bytes);
            let answer = server.answer(&request, &Call::new(&NEVER)).unwrap();
            half.check_answer(&asked, &answer).unwrap();
            let read = half.read(&asked, &answer).unwrap();
            let [first, WebAnswer::Predicted { .. }] = read.as_slice() else { panic!("{read:?}") };
            match (first, problem) {
                (WebAnswer::Predicted { .. }, None) => {}
                (WebAnswer::Unanswered { error }, Some(problem)) => assert!(error.contains(problem), "{error}"),
                (found, _) => panic!("{found:?}"),
            }
        }
        assert!(lengths.iter().all(|length| *length == lengths[0]), "{lengths:?}");
    }

    #[test]
    fn rows_of_another_form_are_refused_by_the_check() {
        let server = served();
        let mut half = opened(&server);
        let name = half.interface().unwrap().inputs[0].name.clone();
        for (question, part) in [
            (row(&[], false), format!("inputs of the model: found none, needed {name:?}")),
            (row(&[("x", &[1.0; 4])], false), format!("found \"x\", needed {name:?}")),
            (row(&[(&name, &[1.0; 4]), ("x", &[])], false), format!("\"x\", needed {name:?}")),
            (row(&[(&name, &[1.0; 3])], false), "found 3 numbers, needed 4".into()),
            (Question::Index(1), "found an index, needed inputs of a model".into()),
        ] {
            let error = half.check(std::slice::from_ref(&question)).unwrap_err().to_string();
            assert!(error.contains(&part), "{error}");
            assert_eq!(half.ask(&[question]).err().unwrap().to_string(), error);
        }
    }

    #[test]
    fn integers_that_javascript_has_no_number_for_are_texts() {
        let value = |integer: i64| Value::from(integer);
        assert_eq!(value(-3), Value::Number(-3.0));
        assert_eq!(value((1 << 53) - 1), Value::Number(9_007_199_254_740_991.0));
        assert_eq!(value((1 << 53) + 1), Value::Text("9007199254740993".into()));
        assert_eq!(value(i64::MIN), Value::Text("-9223372036854775808".into()));
    }
}
