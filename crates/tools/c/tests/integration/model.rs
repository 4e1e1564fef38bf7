//! Programs in C that ask a model of this process.

use std::fs;
use std::path::{Path, PathBuf};

use ndarray::{Array2, arr2};
use prost::Message;
use unspoken_ckks::Preset;
use unspoken_model::{CompiledModel, ModelServer};
use unspoken_network::{Options, Wishes};
use unspoken_onnx::{Answer, Network};
use unspoken_protocol::{Call, ClientId, KeyLimits, KeyLoader, Request, ServerHalf};
use unspoken_rlwe::EvaluationKeys;
use unspoken_wire::v1::KeyDeclaration;

use super::program::{Running, compile, run, text};

const CLIENT: ClientId = ClientId::new([1; 16]);

/// Rows of the model's training data.
const ROWS: [[f64; 4]; 3] = [[5.1, 3.5, 1.4, 0.2], [7.0, 3.2, 4.7, 1.4], [6.3, 3.3, 6.0, 2.5]];

/// A row with a number outside its range.
const OUTSIDE: [f64; 4] = [5.1, 99.0, 1.4, 0.2];

/// A model of scikit-learn, served, and a directory for what a program exchanges.
struct Service {
    home: tempfile::TempDir,
    model: Network,
    server: ModelServer,
}

impl Service {
    fn new() -> Self {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/onnx/tests/models/logistic-zipmap.onnx");
        let model = Network::load(&file).unwrap();
        let rows = Array2::from_shape_fn((80, 4), |(row, i)| ROWS[row % 3][i] + (row / 3) as f64 / 80.0);
        let wishes = Wishes { rows: Some(4), ..Wishes::default() };
        let compiled = CompiledModel::compile(&model, &[rows.view()], Options::default(), &wishes).unwrap();
        let names = ["sepal length", "sepal width", "petal length", "petal width"].map(str::to_owned);
        let compiled = compiled.with_elements(vec![names.to_vec()]).unwrap();
        let server = compiled.server(&Preset::find(&compiled.preset).unwrap().build().unwrap()).unwrap();
        let service = Service { home: tempfile::tempdir().unwrap(), model, server };
        fs::write(service.path("description"), service.server.describe()).unwrap();
        let numbers: Vec<u8> = ROWS.iter().chain([&OUTSIDE]).flatten().flat_map(|x| x.to_le_bytes()).collect();
        fs::write(service.path("rows"), numbers).unwrap();
        service
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn start(&self) -> Running {
        let program =
            compile(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/c/predict.c"), self.home.path());
        Running::start(&program, &[self.home.path().as_ref()])
    }

    fn load_keys(&self) -> EvaluationKeys {
        self.server.load_keys(&mut fs::File::open(self.path("keys")).unwrap()).unwrap()
    }

    fn answer(&self, keys: &EvaluationKeys) -> Vec<u8> {
        let request = fs::read(self.path("request")).unwrap();
        self.server.answer(&Request::new(CLIENT, keys, &request), &Call::default()).unwrap()
    }
}

#[test]
fn the_example_predicts() {
    let service = Service::new();
    let mut keys = None;
    for _ in 0..2 {
        let mut running = service.start();
        let expected = running.asked();
        // Secret and keys are made once.
        let keys = keys.get_or_insert_with(|| {
            let declared = KeyDeclaration::decode(&*fs::read(service.path("declaration")).unwrap()).unwrap();
            let KeyLimits { format, .. } = service.server.key_limits();
            assert_eq!((declared.application.as_str(), declared.key_format), ("model/flowers", format));
            assert_eq!(declared.length, fs::metadata(service.path("keys")).unwrap().len());
            let keys = service.load_keys();
            fs::remove_file(service.path("keys")).unwrap();
            keys
        });
        let answer = service.answer(keys);
        assert!(answer.len() <= expected);
        fs::write(service.path("answer"), answer).unwrap();
        running.answered();
        let (printed, output) = running.finish();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let lines: Vec<&str> = printed.lines().collect();
        assert_eq!(lines.len(), ROWS.len() + 1);
        assert!(lines[3].starts_with("no answer: input \"X\": found a number outside in element 1"), "{printed}");
        for (line, row) in lines.iter().zip(ROWS) {
            let results = service.model.run(&[arr2(&[row.map(|x| x as f32)]).into_dyn()]).unwrap();
            let clear = service.model.outputs().iter().map(|output| output.finish(&results).unwrap());
            let clear: Vec<Answer> = clear.collect();
            let [Answer::Texts(label), Answer::Scores { labels, numbers }] = clear.as_slice() else {
                panic!("{clear:?}")
            };
            let (found, scores) = line.split_once("; output_probability ").unwrap();
            assert_eq!(found, format!("output_label {}", label.first().unwrap()));
            let words: Vec<&str> = scores.split(' ').collect();
            for ((words, label), number) in words.chunks(2).zip(labels.clone().into_texts()).zip(numbers) {
                assert_eq!(words[0], label);
                let percent: f32 = words[1].strip_suffix('%').unwrap().parse().unwrap();
                assert!((percent - 100.0 * number).abs() < 0.15, "{line}: {number}");
            }
            assert_eq!(words.len(), 2 * labels.len());
        }
    }
    assert!(!service.path("keys").exists());
}

#[test]
fn damaged_answers_and_those_of_other_keys_are_told_apart() {
    let service = Service::new();
    let mut running = service.start();
    running.asked();
    let keys = service.load_keys();
    let mut answer = service.answer(&keys);
    let middle = answer.len() / 2;
    answer[middle] ^= 1;
    fs::write(service.path("answer"), answer).unwrap();
    running.answered();
    let (printed, output) = running.finish();
    assert_eq!((printed.as_str(), output.status.code()), ("", Some(1)));
    assert!(text(&output.stderr).starts_with("check: status 5: "), "{}", text(&output.stderr));

    // The keys of another secret: the answer is sound as far as anyone can see, and decrypts to noise.
    fs::remove_file(service.path("secret")).unwrap();
    let mut running = service.start();
    running.asked();
    fs::write(service.path("answer"), service.answer(&keys)).unwrap();
    running.answered();
    let (printed, output) = running.finish();
    assert_eq!((printed.as_str(), output.status.code()), ("", Some(1)));
    let unreadable = text(&output.stderr);
    assert!(unreadable.starts_with("read: status 9: ") && unreadable.contains("Do not ask again"), "{unreadable}");
}

#[test]
fn the_boundary_of_models_refuses_what_it_must() {
    let service = Service::new();
    fs::write(service.path("other.description"), other_description()).unwrap();
    let program = compile(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/model_boundary.c"), service.home.path());
    let output = run(&program).arg(service.home.path()).output().unwrap();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    assert_eq!(text(&output.stdout), "passed\n");
}

/// The description of a database.
fn other_description() -> Vec<u8> {
    use unspoken_pir_scheme::{Layout, Length, TableKind, Tables};
    let layout = Layout::Index { records: 50, length: Length::Fixed(4) };
    let parameters = unspoken_pir_scheme::Preset::N11.build().unwrap();
    let tables = Tables::new(&parameters, layout, TableKind::Transformed).unwrap();
    unspoken_pir::Description::new(&tables).unwrap().to_bytes()
}
