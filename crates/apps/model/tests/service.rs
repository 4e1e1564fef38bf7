//! Models from ONNX files, compiled, stored, served and asked at small insecure rings.

#[path = "../../protocol/tests/damage/mod.rs"]
mod damage;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use ndarray::{Array2, ArrayD, IxDyn};
use unspoken_ckks::Preset;
use unspoken_model::{
    CompiledModel, Description, Gives, Interface, ModelClient, ModelError, ModelServer, OutputShape, Predicted, Row,
};
use unspoken_network::{Options, Wishes};
use unspoken_onnx::{Answer, Labels, Network};
use unspoken_protocol::{
    ApplicationError, Call, CkksClientHalf, CkksServerHalf, ClientHalf, ClientId, ErrorKind, KeyLoader, Request,
    ServerHalf,
};
use unspoken_rlwe::{EvaluationKeys, KeyStorage};

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

fn compile(model: &Network, options: Options) -> Result<CompiledModel, ModelError> {
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
    let server = model.server(&Preset::find(&model.preset).unwrap().build().unwrap()).unwrap();
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
    served.client.read(&answer, &encoded).unwrap().into_iter().map(Result::unwrap).collect()
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
    let compiled = compile(&model, options).unwrap_or_else(|error| panic!("{name}: {error}"));
    let directory = tempfile::tempdir().unwrap();
    compiled.save(directory.path()).unwrap();
    let read = CompiledModel::load(directory.path()).unwrap();
    assert_eq!((read.id(), &read.report), (compiled.id(), &compiled.report));
    let precise = compile(&model, Options { margin: 1.5, ..options }).unwrap();
    assert_ne!(precise.id(), compiled.id());
    let mut served = serve(&read);
    let tables = rows(&model, 5, 77);
    let asked: Vec<Row> = (0..5).map(|at| row(&tables, at)).collect();
    let predicted = ask(&mut served, &asked);
    let report = &compiled.report;
    // In the clear, with polynomials: what is encrypted differs by its noise.
    let simulated = read.simulated().unwrap().predict(&asked).unwrap();
    for (encrypted, clear) in predicted.iter().zip(&simulated) {
        assert!(difference(&encrypted.outputs, &clear.as_ref().unwrap().outputs) < 0.01, "{name}");
    }
    let worst = predicted
        .iter()
        .enumerate()
        .map(|(at, one)| difference(&one.outputs, &clear(&model, &tables, at)))
        .fold(0.0, f32::max);
    println!(
        "{name}: {} levels, error {worst:.1e}, simulated {:.1e} by polynomials and {:.1e} by noise",
        report.levels, report.error_of_polynomials, report.error_of_noise
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
        "lenet-18.onnx",
    ] {
        agrees(name, precise, 0.06);
    }
}

/// A model with more levels than the parameters have: keys of bootstraps go to the server, and its answers are right.
#[test]
fn deep_models_are_bootstrapped() {
    let model = Network::load(&file("residual-18.onnx")).unwrap();
    let calibration = rows(&model, 400, 0);
    let views: Vec<_> = calibration.iter().map(|table| table.view()).collect();
    let options = Options { kink_error: 2f64.powi(-11), most_degree: 255, ..Options::default() };
    let presets = vec!["insecure_n11_boot_depth10_scale50".to_owned()];
    let wishes = Wishes { presets, rows: Some(8), ..Wishes::default() };
    let compiled = CompiledModel::compile(&model, &views, options, &wishes).unwrap();
    let report = &compiled.report;
    let bootstraps: usize = report.bootstraps.iter().map(|one| one.vectors).sum();
    println!("{bootstraps} bootstraps, {:?}", report.bootstraps);
    assert!(
        bootstraps > 0
            && report.bootstraps.iter().all(|one| one.seconds > 0.0 && one.seconds < report.seconds_on_one_core)
    );
    let directory = tempfile::tempdir().unwrap();
    compiled.save(directory.path()).unwrap();
    let mut served = serve(&CompiledModel::load(directory.path()).unwrap());
    assert!(served.server.prepared_bytes() >= report.weight_bytes);
    let tables = rows(&model, 5, 77);
    let asked: Vec<Row> = (0..5).map(|at| row(&tables, at)).collect();
    let predicted = ask(&mut served, &asked);
    let worst = (0..5).map(|at| difference(&predicted[at].outputs, &clear(&model, &tables, at))).fold(0.0, f32::max);
    assert!(worst < 0.02, "{worst}");
    // A service that bootstraps gets the keys for that, and no others; with an insecure preset it gets nothing.
    let sound = served.server.describe();
    assert!(Description::from_bytes(&sound).unwrap_err().to_string().contains("secure"));
    let refused = |fields: &[u8]| Description::insecure_from_bytes(&damage::with_fields(&sound, fields)).unwrap_err();
    for code in [4, 8, 10] {
        let error = refused(&[0x52, 4, 8, code, 16, 5]).to_string();
        assert!(error.contains("keys that its queries take"), "{code}: {error}");
    }
    // Levels above those of circuits belong to bootstraps.
    assert!(refused(&[0x30, 14]).to_string().contains("query level"));
}

/// Convolutions and a perceptron with their weights kept, the same with some of them encoded for each query, and one
/// that bootstraps. What stands in for a device runs its kernels on the processor.
#[test]
fn answers_from_a_device_have_the_same_bytes() {
    let load = |name: &str| Network::load(&file(name)).unwrap();
    let convolutions = load("lenet-18.onnx");
    let kept = compile(&convolutions, Options::default()).unwrap();
    let parameters = Preset::find(&kept.preset).unwrap().build().unwrap();
    let memory = kept.program(&parameters).unwrap().memory() - 1;
    let mut streamed = kept.clone();
    streamed.memory = memory;
    let residual = load("residual-18.onnx");
    let calibration = rows(&residual, 400, 0);
    let views: Vec<_> = calibration.iter().map(|table| table.view()).collect();
    let presets = vec!["insecure_n11_boot_depth10_scale50".to_owned()];
    let wishes = Wishes { presets, rows: Some(8), ..Wishes::default() };
    let options = Options { kink_error: 2f64.powi(-11), most_degree: 255, ..Options::default() };
    let bootstrapped = CompiledModel::compile(&residual, &views, options, &wishes).unwrap();
    assert!(!bootstrapped.report.bootstraps.is_empty());
    for (model, compiled, is_kept) in
        [(&convolutions, kept, true), (&convolutions, streamed, false), (&residual, bootstrapped, true)]
    {
        same_on_a_device(model, &compiled, is_kept);
    }
}

fn same_on_a_device(model: &Network, compiled: &CompiledModel, is_kept: bool) {
    let device = unspoken_device_shim::device(4 << 30);
    let host_parameters = Preset::find(&compiled.preset).unwrap().build().unwrap();
    let parameters = host_parameters.on_device(&device).unwrap();
    let Served { server: host, mut client, .. } = serve(compiled);
    let mut bundle = Vec::new();
    client.keyring().write_keys(&mut bundle, |_, _| {}, &AtomicBool::new(false)).unwrap();
    let keys = host.load_keys(&mut bundle.as_slice()).unwrap();
    let tables = rows(model, 3, 77);
    let asked: Vec<Row> = (0..3).map(|at| row(&tables, at)).collect();
    let encoded = client.encode(&asked).unwrap();
    let program = compiled.program(&parameters).unwrap();
    let results: usize = program.outputs().iter().map(|port| port.layout().vectors()).sum();
    let mut least = 0;
    let mut query = || client.query(&encoded).unwrap();
    let answer = |server: &ModelServer, keys: &EvaluationKeys, query: &[u8]| {
        server.answer(&Request::new(CLIENT, keys, query), &Call::default())
    };
    for storage in [KeyStorage::Expanded, KeyStorage::Seeded] {
        let (tables, _) = device.taken_bytes();
        let there = compiled.server(&parameters).unwrap().with_key_storage(storage);
        assert!(there.describe() == host.describe() && there.prepared_bytes() == host.prepared_bytes());
        let device_keys = there.load_keys(&mut bundle.as_slice()).unwrap();
        assert_eq!(there.key_limits().memory_bytes, host.key_limits().memory_bytes, "a device expands all keys");
        // What is stated for all that an answer uses, beside the tables of the ring.
        least = there.limits().working_bytes + there.key_limits().memory_bytes;
        device.limit_memory(tables + (least + there.prepared_bytes()) as usize);
        let (mut copied, mut fetched) = (Vec::new(), Vec::new());
        // A bootstrap is recorded when it is done for the second time.
        for turn in 0..4 {
            let query = query();
            let wanted = answer(&host, &keys, &query).unwrap();
            let before = (parameters.ring().fetched_polynomials(), device.copied_bytes()[0]);
            assert!(answer(&there, &device_keys, &query).unwrap() == wanted, "turn {turn}");
            fetched.push(parameters.ring().fetched_polynomials() - before.0);
            copied.push(device.copied_bytes()[0] - before.1);
        }
        println!("{}, {storage:?}, kept {is_kept}: copied {copied:?}, fetched {fetched:?}", compiled.preset);
        // Keys and weights are on the device, and copied once; weights that are not kept, for each answer.
        assert!(copied[1..].iter().all(|bytes| *bytes == copied[3]) && copied[0] > 2 * copied[3]);
        assert_eq!(fetched, [2 * results as u64; 4], "answers alone leave the device");
        device.limit_memory(4 << 30);
    }
    // What a service asks of a device at the least, and too little.
    let query = query();
    let wanted = answer(&host, &keys, &query).unwrap();
    for (is_enough, limit) in [(true, least), (false, 2 << 20)] {
        let device = unspoken_device_shim::device(4 << 30);
        let there = compiled.server(&host_parameters.on_device(&device).unwrap()).unwrap();
        let keys = there.load_keys(&mut bundle.as_slice()).unwrap();
        device.limit_memory(device.taken_bytes().0 + limit as usize);
        match answer(&there, &keys, &query) {
            Ok(found) => assert!(is_enough && found == wanted),
            Err(error) => assert!(!is_enough && error.kind() == ErrorKind::Busy, "{error}"),
        }
        there.check_ready().unwrap();
    }
}

fn flowers() -> (Network, Served) {
    let model = Network::load(&file("logistic-zipmap.onnx")).unwrap();
    let served = serve(&compile(&model, Options::default()).unwrap());
    (model, served)
}

#[test]
fn what_outputs_give_is_found_without_rows() {
    for (name, expected) in [
        ("logistic-binary-arrays.onnx", &[Gives::Labels, Gives::Probabilities][..]),
        ("mlp-zipmap.onnx", &[Gives::Labels, Gives::Probabilities]),
        ("one-versus-rest-18.onnx", &[Gives::Labels, Gives::Probabilities]),
        ("svc-poly-arrays.onnx", &[Gives::Labels, Gives::Numbers]),
        ("linear-svc.onnx", &[Gives::Labels, Gives::Numbers]),
        ("two-targets.onnx", &[Gives::Numbers]),
        ("embedding-18.onnx", &[Gives::Probabilities]),
        ("lenet-18.onnx", &[Gives::LogProbabilities]),
    ] {
        let interface = Interface::of(&Network::load(&file(name)).unwrap()).unwrap();
        let outputs = OutputShape::of(&interface.outputs).unwrap();
        assert_eq!(outputs.iter().map(|output| output.gives).collect::<Vec<_>>(), expected, "{name}");
    }
    let (_, served) = flowers();
    let described = served.client.description();
    assert_eq!(described.output_shapes(), OutputShape::of(described.outputs()).unwrap());
    let interface = Interface::of(&Network::load(&file("logistic-zipmap.onnx")).unwrap()).unwrap();
    let flowers = Labels::Texts(["setosa", "versicolor", "virginica"].map(str::to_owned).to_vec());
    for output in OutputShape::of(&interface.outputs).unwrap() {
        assert_eq!(output.labels.as_ref(), Some(&flowers), "{}", output.name);
    }
}

#[test]
fn queries_that_make_no_sense_are_refused() {
    let (model, mut served) = flowers();
    let tables = rows(&model, 9, 5);
    let rows: Vec<Row> = (0..9).map(|at| row(&tables, at)).collect();
    let encoded = served.client.encode(&rows).unwrap();
    assert!(served.client.query(&encoded).unwrap_err().to_string().contains("1 to 8 rows"));
    assert!(served.client.query(&[]).is_err());
    let query = served.client.query(&encoded[..3]).unwrap();
    assert_eq!(query.len(), served.client.query(&encoded[..8]).unwrap().len(), "the length tells nothing");
    let ask = |query: &[u8]| served.server.answer(&Request::new(CLIENT, &served.keys, query), &Call::default());
    let vectors = served.server.header().unpack("query", &query, usize::MAX, usize::MAX).unwrap();
    let none = ask(&served.server.header().pack(Vec::new())).unwrap_err();
    assert_eq!(none.kind(), ErrorKind::Mismatch, "{none}");
    let twice = ask(&served.server.header().pack(vec![vectors[0].clone(); 2])).unwrap_err();
    assert_eq!(twice.kind(), ErrorKind::Mismatch, "{twice}");
    assert!(ask(&vec![0; query.len() + 100]).is_err());
    let stop = AtomicBool::new(true);
    let cancelled = served.server.answer(&Request::new(CLIENT, &served.keys, &query), &Call::new(&stop)).unwrap_err();
    assert!(cancelled.is_cancelled(), "{cancelled}");
    // Rows of another form: nothing is sent, whatever their numbers are.
    for (row, part) in [
        (Row::new(vec![vec![f64::NAN; 3]]), "found 3 numbers, needed 4"),
        (Row::new(vec![vec![0.0; 4]; 2]), "found 2 inputs, needed 1"),
    ] {
        let error = served.client.encode(&[row]).err().unwrap().to_string();
        assert!(error.contains(part), "{error}");
    }
}

/// What a row cannot be asked for.
fn problem(served: &mut Served, row: Row) -> String {
    let encoded = served.client.encode(&[row]).unwrap();
    let query = served.client.query(&encoded).unwrap();
    let answer = served.server.answer(&Request::new(CLIENT, &served.keys, &query), &Call::default()).unwrap();
    served.client.read(&answer, &encoded).unwrap().remove(0).unwrap_err().to_string()
}

#[test]
fn the_service_cannot_see_rows_outside() {
    let (model, mut served) = flowers();
    let tables = rows(&model, 8, 5);
    let good: Vec<Row> = (0..8).map(|at| row(&tables, at)).collect();
    let outside = |number| Row::new(vec![vec![0.0, number, 0.0, 0.0]]);
    let mut mixed = good.clone();
    (mixed[2], mixed[5]) = (outside(1e9), outside(f64::NAN));
    // Requests of the same bytes for all rows, and for none of them inside.
    let none = vec![outside(-1e300); 8];
    let mut lengths = Vec::new();
    for asked in [&good, &mixed, &none] {
        let encoded = served.client.encode(asked).unwrap();
        let query = served.client.query(&encoded).unwrap();
        lengths.push(query.len());
        let answer = served.server.answer(&Request::new(CLIENT, &served.keys, &query), &Call::default()).unwrap();
        let answers = served.client.read(&answer, &encoded).unwrap();
        let answered = answers.iter().map(Result::is_ok).collect::<Vec<_>>();
        let expected: Vec<bool> =
            asked.iter().map(|row| row.inputs().all(|x| x.iter().all(|x| x.abs() < 9.0))).collect();
        assert_eq!(answered, expected);
        for (at, found) in answers.iter().enumerate().filter_map(|(at, answer)| Some((at, answer.as_ref().ok()?))) {
            assert!(difference(&found.outputs, &clear(&model, &tables, at)) < 0.01, "{at}");
        }
    }
    assert!(lengths.iter().all(|length| *length == lengths[0]), "{lengths:?}");
    let text = problem(&mut served, outside(1e9));
    assert!(text.starts_with("input \"X\": found a number outside in element 1, needed -"), "{text}");
    assert!(!text.contains("1000000000"), "{text}");
    assert!(problem(&mut served, outside(f64::NAN)).contains("found no number in element 1"));
}

#[test]
fn a_model_in_the_clear_answers_the_rows_that_it_can() {
    let model = Network::load(&file("logistic-zipmap.onnx")).unwrap();
    let simulated = compile(&model, Options::default()).unwrap().simulated().unwrap();
    let tables = rows(&model, 11, 5);
    let mut asked: Vec<Row> = (0..11).map(|at| row(&tables, at)).collect();
    asked[9] = Row::new(vec![vec![0.0, f64::NAN, 0.0, 0.0]]);
    for (at, answer) in simulated.predict(&asked).unwrap().iter().enumerate() {
        match answer {
            Ok(found) => assert!(difference(&found.outputs, &clear(&model, &tables, at)) < 0.01, "{at}"),
            Err(problem) => assert_eq!((at, problem.to_string().contains("no number in element 1")), (9, true)),
        }
        assert_eq!(answer.is_err(), at == 9);
    }
}

#[test]
fn indices_are_checked() {
    let model = Network::load(&file("embedding-18.onnx")).unwrap();
    let mut served = serve(&compile(&model, Options::default()).unwrap());
    let size = served.client.description().inputs()[0].shape.size();
    for wrong in [-1.0, 0.5, 1e6, f64::INFINITY, f64::NAN] {
        let error = problem(&mut served, Row::new(vec![vec![wrong; size]]));
        assert!(error.contains("needed a whole number from 0 to"), "{error}");
    }
}

#[test]
fn descriptions_that_make_no_sense_are_refused() {
    let (_, served) = flowers();
    let sound = served.server.describe();
    assert!(Description::from_bytes(&sound).unwrap_err().to_string().contains("secure"));
    for len in [0, 1, sound.len() / 2] {
        assert!(Description::insecure_from_bytes(&sound[..len]).is_err(), "{len}");
    }
    // Fields of numbers: batch, and query level. Fields of messages: another input, result and outputs.
    for (fields, part) in [
        // The key of a bootstrap, which these parameters do not make.
        (&[0x52, 4, 8, 2, 16, 5][..], "sparse secret"),
        (&[0x28, 0], "powers of two of rows"),
        (&[0x28, 7], "powers of two of rows"),
        (&[0x30, 60], "query level"),
        (&[0x3a, 0], "no port"),
        (&[0x3a, 6, 0x12, 4, 0xff, 0xff, 0xff, 0x7f], "elements"),
        // As many as one input may have, and those of the model's own.
        (&[0x3a, 6, 0x12, 4, 0x80, 0x80, 0x80, 0x02], "found 4194311 elements, needed at most 4194304 of all"),
        (&[0x42, 2, 0x12, 0], "a power of two"),
        (&[0x4a, 2, b'{', b'}'], "outputs"),
        // What a third output gives.
        (&[0x98, 1, 3], "found what 3 outputs give, needed what 2 give"),
    ] {
        let error = Description::insecure_from_bytes(&damage::with_fields(&sound, fields)).unwrap_err().to_string();
        assert!(error.contains(part), "{part}: {error}");
    }
    assert_eq!(Description::insecure_from_bytes(&sound).unwrap().to_bytes(), sound);
}

/// The field of a description with an input of two numbers and these names.
fn input_with_names(names: &[&str]) -> Vec<u8> {
    input_of_two(names, [2, 2])
}

/// The same with so many middles and radii.
fn input_of_two(names: &[&str], counts: [usize; 2]) -> Vec<u8> {
    let field = |front: u8, bytes: &[u8]| [&[front, bytes.len() as u8], bytes].concat();
    let numbers = |front: u8, number: f64, count: usize| field(front, &vec![number.to_le_bytes(); count].concat());
    let bound = [&[0x21], &1f64.to_le_bytes()[..]].concat();
    let port = [vec![0x08, 2], numbers(0x12, 0.5, counts[0]), numbers(0x1a, 1.0, counts[1]), bound].concat();
    let names = names.iter().flat_map(|name| field(0x2a, name.as_bytes()));
    let input = [field(0x12, &[2]), field(0x22, &port), names.collect()].concat();
    // Its length may need two bytes.
    let length = [input.len() as u8 & 127 | 128, (input.len() >> 7) as u8];
    [&[0x3a][..], &length, &input].concat()
}

#[test]
fn one_range_may_be_that_of_all_elements() {
    let (_, served) = flowers();
    let sound = served.server.describe();
    let ranges = |counts: [usize; 2]| {
        let description = Description::insecure_from_bytes(&damage::with_fields(&sound, &input_of_two(&[], counts)));
        description.map(|description| [0, 1, 2].map(|element| description.inputs()[1].range(element)))
    };
    for counts in [[2, 2], [1, 2], [2, 1], [1, 1]] {
        assert_eq!(ranges(counts).unwrap(), [Some([-0.5, 1.5]), Some([-0.5, 1.5]), None], "{counts:?}");
    }
    for counts in [[0, 2], [2, 0], [3, 2], [2, 3]] {
        assert!(ranges(counts).unwrap_err().to_string().contains("2 finite middles"), "{counts:?}");
    }
    // A server writes it so, if it can.
    let model = Network::load(&file("lenet-18.onnx")).unwrap();
    let apart = rows(&model, 40, 0);
    let alike = Array2::from_shape_fn(apart[0].dim(), |(row, _)| (row as f64 * 0.618).sin());
    let [apart, alike] = [&apart[0], &alike].map(|rows| {
        let presets = vec!["insecure_n11_depth24_scale52".to_owned()];
        let wishes = Wishes { presets, rows: Some(8), ..Wishes::default() };
        let compiled = CompiledModel::compile(&model, &[rows.view()], Options::default(), &wishes).unwrap();
        let served = serve(&compiled);
        let bytes = served.server.describe();
        assert_eq!(compiled.report.description_bytes, bytes.len() as u64);
        assert_eq!(served.client.description().to_bytes(), bytes);
        bytes.len()
    });
    let elements: usize = model.inputs()[0].shape.iter().product();
    assert!(apart - alike > 15 * elements, "{apart} {alike}");
}

#[test]
fn names_of_elements_are_stored_described_and_checked() {
    let (model, served) = flowers();
    let sound = served.server.describe();
    assert!(served.client.description().inputs()[0].shape.elements.is_empty());
    let read = |names: &[&str]| {
        Description::insecure_from_bytes(&damage::with_fields(&sound, &input_with_names(names)))
            .map(|description| description.inputs()[1].shape.elements.clone())
            .map_err(|error| error.to_string())
    };
    assert_eq!(read(&["a", "b"]).unwrap(), ["a", "b"]);
    assert!(read(&[]).unwrap().is_empty());
    let long = "x".repeat(257);
    for (names, part) in [
        (&["a"][..], "found 1 names, needed none, or 2 different names"),
        (&["a", "b", "c"], "found 3 names"),
        (&["a", "a"], "found the same name twice"),
        (&["a", " "], "no such name for element 1"),
        (&["\u{1b}[2J", "b"], "no such name for element 0"),
    ] {
        let error = read(names).unwrap_err();
        assert!(error.contains(part), "{names:?}: {error}");
    }
    // From the columns of a table to the message for a row.
    let compiled = compile(&model, Options::default()).unwrap();
    let id = compiled.id();
    let names = ["sepal length", "sepal width", "petal length", "petal width"].map(str::to_owned).to_vec();
    assert!(compiled.clone().with_elements(Vec::new()).is_err());
    let error = compiled.clone().with_elements(vec![vec![long; 4]]).unwrap_err().to_string();
    assert!(
        error.contains("no such name for element 0, needed none, or 4 different names of 1 to 256 bytes"),
        "{error}"
    );
    let named = compiled.with_elements(vec![names.clone()]).unwrap();
    assert_ne!(named.id(), id);
    let directory = tempfile::tempdir().unwrap();
    named.save(directory.path()).unwrap();
    let mut served = serve(&CompiledModel::load(directory.path()).unwrap());
    assert_eq!(served.client.description().inputs()[0].shape.elements, names);
    let error = problem(&mut served, Row::new(vec![vec![0.0, 1e9, 0.0, 0.0]]));
    assert!(error.contains("in element 1 (\"sepal width\"), needed -"), "{error}");
}

#[test]
fn a_flipped_bit_is_refused_as_damage_in_every_message() {
    let (model, mut served) = flowers();
    let asked = [row(&rows(&model, 1, 5), 0)];
    let encoded = served.client.encode(&asked).unwrap();
    let query = served.client.query(&encoded).unwrap();
    let ask = |query: &[u8]| served.server.answer(&Request::new(CLIENT, &served.keys, query), &Call::default());
    let answer = ask(&query).unwrap();
    damage::assert_damage_is_refused(&[
        ("description", served.server.describe(), &|bytes| {
            Description::insecure_from_bytes(bytes).map(drop).map_err(|error| error.to_string())
        }),
        ("query", query, &|bytes| ask(bytes).map(drop).map_err(|error| error.to_string())),
        ("answer", answer, &|bytes| served.client.read(bytes, &encoded).map(drop).map_err(|error| error.to_string())),
    ]);
}

#[test]
fn files_that_are_damaged_are_refused() {
    let model = Network::load(&file("mlp-zipmap.onnx")).unwrap();
    let directory = tempfile::tempdir().unwrap();
    compile(&model, Options::default()).unwrap().save(directory.path()).unwrap();
    let path = directory.path().join("model.json");
    let text = std::fs::read_to_string(&path).unwrap();
    for (from, to) in [
        ("\"batch\": 8", "\"batch\": 16"),
        ("\"batch\": 8", "\"batch\": 8, \"more\": 1"),
        ("\"function\"", "\"funktion\""),
        ("\"numbers\": ", "\"numbers\": 9"),
    ] {
        assert!(text.contains(from), "{from}: {}", &text[..300]);
        std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
        assert!(CompiledModel::load(directory.path()).is_err(), "{from}");
    }
    std::fs::write(&path, text).unwrap();
    let model = CompiledModel::load(directory.path()).unwrap();
    let other = Preset::find("insecure_n11_depth9_scale50").unwrap().build().unwrap();
    assert!(model.server(&other).is_err_and(|error| error.to_string().contains("serve a model")));
}
