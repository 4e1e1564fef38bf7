//! Programs between client and server: planning, serialisation, runs, decryption; and refusals.

use std::sync::atomic::AtomicBool;

use ndarray::{Array2, Array3};
use unspoken_encrypted_matrix::{Axis, Graph, Operation};
use unspoken_matrix::{
    Axes, EncryptedInputs, EncryptedResult, Keys, MatrixError, Options, Program, ProgramSource, Secret, Signature,
};
use unspoken_protocol::{ApplicationError, ErrorKind};

const PRESET: &str = "insecure_n11_real_depth9_scale50";
static GO: AtomicBool = AtomicBool::new(false);

fn options(batch: usize) -> Options {
    Options { preset: Some(PRESET.into()), batch, ..Options::default() }
}

/// Entries in [-1, 1), the same for the same seed.
fn random(shape: (usize, usize, usize), seed: usize) -> Array3<f64> {
    let entry = |(p, i, j): (usize, usize, usize)| {
        let mixed = (i * 7919 + j * 104_729 + p * 1_299_709 + seed * 15_485_863).wrapping_mul(2_654_435_761) >> 7;
        (mixed % 2000) as f64 / 1000.0 - 1.0
    };
    Array3::from_shape_fn(shape, entry)
}

fn worst(a: &Array3<f64>, b: &Array3<f64>) -> f64 {
    assert_eq!(a.dim(), b.dim());
    (a - b).iter().fold(0.0, |worst, x| worst.max(x.abs()))
}

/// `(a @ b).T[[2, 0]] @ W + C`, `a` with a batch and `b` without.
fn network(batch: usize) -> Program {
    let mut graph = Graph::new();
    let (a, b) = (graph.input("a", (4, 3)).unwrap(), graph.input("b", (3, 5)).unwrap());
    let product = graph.push(Operation::MatMul, &[a, b]).unwrap();
    let transposed = graph.push(Operation::Transpose, &[product]).unwrap();
    let picked = graph.push(Operation::Rows(vec![2, 0]), &[transposed]).unwrap();
    let weighted = graph.push(Operation::TimesRight(weights()), &[picked]).unwrap();
    let constant = graph.push(Operation::Constant(offset()), &[]).unwrap();
    graph.push(Operation::Add, &[weighted, constant]).unwrap();
    let options = Options { tile: Some(8), blocks: Some(2), ..options(batch) };
    let inputs = vec![Axes::BATCH, Axes::MATRIX];
    Program::plan(ProgramSource { graph, inputs, output: Axes::BATCH, options }).unwrap()
}

/// A source with one input matrix and one result matrix.
fn source(graph: Graph, options: Options) -> ProgramSource {
    ProgramSource { graph, inputs: vec![Axes::MATRIX], output: Axes::MATRIX, options }
}

/// An operation of every kind, on a 4 x 4 matrix.
fn every_kind() -> Program {
    let mut graph = Graph::new();
    let x = graph.input("x", (4, 4)).unwrap();
    let constant = graph.push(Operation::Constant(Array2::from_elem((4, 4), 0.5)), &[]).unwrap();
    let mut y = graph.push(Operation::MatMul, &[x, x]).unwrap();
    for operation in [
        Operation::Transpose,
        Operation::Transpose,
        Operation::Rows(vec![1, 0, 3, 2]),
        Operation::Columns(vec![3, 0, 1, 2]),
        Operation::TimesLeft(Array2::eye(4)),
        Operation::TimesRight(Array2::eye(4)),
        Operation::Reshape((2, 8)),
        Operation::Reshape((4, 4)),
    ] {
        y = graph.push(operation, &[y]).unwrap();
    }
    y = graph.push(Operation::Add, &[y, constant]).unwrap();
    y = graph.push(Operation::Subtract, &[y, x]).unwrap();
    y = graph.push(Operation::Multiply, &[y, constant]).unwrap();
    y = graph.push(Operation::Scale(-0.25), &[y]).unwrap();
    let sum = graph.push(Operation::Sum(Axis::Rows), &[y]).unwrap();
    graph.push(Operation::MatrixVector, &[y, sum]).unwrap();
    let preset = Some("n15_real_depth17_scale30".into());
    Program::plan(source(graph, Options { preset, batch: 1, tile: Some(4), blocks: Some(2), ..Options::default() }))
        .unwrap()
}

fn weights() -> Array2<f64> {
    random((1, 4, 3), 5).remove_axis(ndarray::Axis(0))
}

fn offset() -> Array2<f64> {
    random((1, 2, 3), 6).remove_axis(ndarray::Axis(0))
}

fn expected(a: &Array3<f64>, b: &Array3<f64>) -> Array3<f64> {
    let b = b.index_axis(ndarray::Axis(0), 0);
    let mut all = Array3::zeros((a.dim().0, 2, 3));
    for (mut place, a) in all.outer_iter_mut().zip(a.outer_iter()) {
        let product = a.dot(&b).t().select(ndarray::Axis(0), &[2, 0]).dot(&weights()) + offset();
        place.assign(&product);
    }
    all
}

#[test]
fn bytes_of_programs_are_those_of_version_2() {
    let hashes = [network(3), every_kind()].map(|program| blake3::hash(&program.to_bytes()).to_string());
    let expected = [
        "0eb3ea0475e153386297e4d361a07e5ebc5c9dcc418b0768d7b1425df1e12ba5",
        "4cb9bdc6c274660c8ea7f26ea84fac7ea06c435ae157a2477c7690f24d14dd59",
    ];
    assert_eq!(hashes, expected);
}

#[test]
fn client_and_server_share_bytes_alone() {
    // 16 matrices fit one vector of 2048 slots: the batch of 40 runs in groups, the last one padded.
    for batch in [1, 3, 40] {
        let program = network(batch);
        assert_eq!(program.signature().groups() > 1, batch == 40);
        let server = Program::from_bytes(&program.to_bytes(), true).unwrap();
        assert_eq!(server.to_bytes(), program.to_bytes());
        assert_eq!(server.signature().key_plan(), program.signature().key_plan());

        let signature = Signature::from_bytes(&server.signature().to_bytes().unwrap(), true).unwrap();
        assert_eq!(signature.to_bytes().unwrap(), server.signature().to_bytes().unwrap());
        let secret = Secret::generate().unwrap();
        let (a, b) = (random((batch, 4, 3), 1), random((1, 3, 5), 2));
        let first = secret.encrypt(&signature, &[("b".into(), b.clone())]).unwrap();
        let second = secret.encrypt(&signature, &[("a".into(), a.clone())]).unwrap();
        let keys = secret.keys(&[&signature], |_, _| {}, &GO).unwrap();

        let keys = Keys::from_bytes(&keys.to_bytes(), true).unwrap();
        let parts = [first, second].map(|part| EncryptedInputs::from_bytes(&part.to_bytes(), true).unwrap());
        let answer = server.run(&keys, &[&parts[0], &parts[1]], |_, _| {}, &GO).unwrap();
        let answer = EncryptedResult::from_bytes(&answer.to_bytes(), true).unwrap();
        assert_eq!(answer.shape(), [batch, 2, 3]);

        let again = Secret::from_bytes(&secret.to_bytes()).unwrap();
        let error = worst(&again.decrypt(&answer).unwrap(), &expected(&a, &b));
        let precision = server.precision().unwrap();
        assert!(error < precision.error, "{error:e} {precision:?}");
        assert_eq!((answer.error(), answer.largest()), (precision.error, precision.largest));
        assert!(precision.error < 2f64.powi(-20));
        let other = Secret::generate().unwrap();
        assert!(other.decrypt(&answer).unwrap_err().to_string().contains("another secret"));
        assert!(!EncryptedResult::from_bytes(&answer.to_bytes(), false).is_ok_and(|_| true), "an insecure preset");
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let (program, secret) = (network(2), Secret::generate().unwrap());
    let keys = secret.keys(&[program.signature()], |_, _| {}, &GO).unwrap();
    let a = secret.encrypt(program.signature(), &[("a".into(), random((2, 4, 3), 1))]).unwrap();
    let refused = |error: Result<EncryptedResult, MatrixError>| error.map(|_| ()).unwrap_err().to_string();
    assert!(refused(program.run(&keys, &[&a], |_, _| {}, &GO)).contains("no input b"));
    assert!(refused(program.run(&keys, &[], |_, _| {}, &GO)).contains("no input a, b"));

    let unknown = secret.encrypt(program.signature(), &[("c".into(), random((1, 4, 3), 1))]).map(|_| ());
    assert!(unknown.unwrap_err().to_string().contains("one of a, b"));
    let shape = secret.encrypt(program.signature(), &[("a".into(), random((2, 3, 3), 1))]).map(|_| ());
    assert!(shape.unwrap_err().to_string().contains("needed shape (2, 4, 3)"));

    let b = secret.encrypt(program.signature(), &[("b".into(), random((1, 3, 5), 1))]).unwrap();
    let others =
        Secret::generate().unwrap().encrypt(program.signature(), &[("b".into(), random((1, 3, 5), 1))]).unwrap();
    assert!(refused(program.run(&keys, &[&a, &others], |_, _| {}, &GO)).contains("another secret"));
    // Keys of another program: the error names all missing keys.
    let mut graph = Graph::new();
    let x = graph.input("x", (4, 4)).unwrap();
    graph.push(Operation::Sum(Axis::Rows), &[x]).unwrap();
    let small = Program::plan(source(graph, options(1))).unwrap();
    let few = secret.keys(&[small.signature()], |_, _| {}, &GO).unwrap();
    let error = program.run(&few, &[&a, &b], |_, _| {}, &GO).map(|_| ()).unwrap_err();
    assert!(error.is_missing_keys());
    assert!(error.to_string().matches("key").count() > 3, "{error}");
    let stopped = program.run(&keys, &[&a, &b], |_, _| {}, &AtomicBool::new(true)).map(|_| ()).unwrap_err();
    assert_eq!(stopped.kind(), ErrorKind::Cancelled);
    let again = secret.encrypt(program.signature(), &[("a".into(), random((2, 4, 3), 9))]).unwrap();
    assert!(refused(program.run(&keys, &[&a, &b, &again], |_, _| {}, &GO)).contains("'a' twice"));
    let twice = ["b", "b"].map(|name| (name.into(), random((1, 3, 5), 1)));
    assert!(secret.encrypt(program.signature(), &twice).map(|_| ()).unwrap_err().to_string().contains("'b' twice"));
    // Keys of several programs can be used for each.
    let both = secret.keys(&[small.signature(), program.signature()], |_, _| {}, &GO).unwrap();
    assert!(program.run(&both, &[&a, &b], |_, _| {}, &GO).is_ok());
}

#[test]
fn batches_of_as_many_vectors_are_told_apart() {
    let (short, long, secret) = (network(33), network(40), Secret::generate().unwrap());
    assert_eq!(short.signature().groups(), long.signature().groups());
    let keys = secret.keys(&[long.signature()], |_, _| {}, &GO).unwrap();
    let inputs = [("a".into(), random((33, 4, 3), 1)), ("b".into(), random((1, 3, 5), 1))];
    let inputs =
        EncryptedInputs::from_bytes(&secret.encrypt(short.signature(), &inputs).unwrap().to_bytes(), true).unwrap();
    let error = long.run(&keys, &[&inputs], |_, _| {}, &GO).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("batch of 33") && error.contains("batch of 40"), "{error}");
}

#[test]
fn too_deep_says_how_deep() {
    let mut graph = Graph::new();
    let mut power = graph.input("x", (2, 2)).unwrap();
    for _ in 0..12 {
        power = graph.push(Operation::Multiply, &[power, power]).unwrap();
    }
    let error = Program::plan(source(graph.clone(), options(1))).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains(PRESET) && error.contains("deeper"), "{error}");
    // Without a named preset, the planner chooses the deeper one.
    let chosen = |largest| Program::plan(source(graph.clone(), Options { batch: 1, largest, ..Options::default() }));
    assert_eq!(chosen(None).unwrap().signature().preset(), "n15_real_depth17_scale30");
    // Large values to the power of 4096 exceed it.
    let error = chosen(Some(8.0)).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("too large for preset 'n15_real_depth17_scale30'") && error.contains("largest="), "{error}");
}

#[test]
fn what_needs_no_rows_and_columns_is_computed_on_rows_of_entries() {
    let mut graph = Graph::new();
    let a = graph.input("a", (12, 10)).unwrap();
    let b = graph.input("b", (6, 20)).unwrap();
    let transposed = graph.push(Operation::Transpose, &[a]).unwrap();
    let picked = graph.push(Operation::Rows((0..10).rev().collect()), &[transposed]).unwrap();
    let reshaped = graph.push(Operation::Reshape((6, 20)), &[picked]).unwrap();
    let weights = graph.push(Operation::Constant(Array2::from_elem((6, 20), 0.5)), &[]).unwrap();
    let product = graph.push(Operation::Multiply, &[b, weights]).unwrap();
    graph.push(Operation::Subtract, &[reshaped, product]).unwrap();
    let preset = Some("insecure_n11_real_depth9_scale50".into());
    let options = Options { preset, batch: 3, ..Options::default() };
    let source = ProgramSource { graph, inputs: vec![Axes::BATCH, Axes::MATRIX], output: Axes::BATCH, options };
    let program = Program::plan(source).unwrap();
    assert_eq!(program.signature().layout().tile(), (1, 128));
    // Read again, as a client and a server do.
    let program = Program::from_bytes(&program.to_bytes(), true).unwrap();
    assert_eq!(program.signature().layout().tile(), (1, 128));
    let signature = Signature::from_bytes(&program.signature().to_bytes().unwrap(), true).unwrap();

    let (secret, go) = (Secret::generate().unwrap(), AtomicBool::new(false));
    let (a, b) = (random((3, 12, 10), 1), random((1, 6, 20), 2));
    let inputs = secret.encrypt(&signature, &[("a".into(), a.clone()), ("b".into(), b.clone())]).unwrap();
    let inputs = EncryptedInputs::from_bytes(&inputs.to_bytes(), true).unwrap();
    let keys = secret.keys(&[&signature], |_, _| {}, &go).unwrap();
    let result = program.run(&keys, &[&inputs], |_, _| {}, &go).unwrap();
    let result = EncryptedResult::from_bytes(&result.to_bytes(), true).unwrap();
    let expected = Array3::from_shape_fn((3, 6, 20), |(p, row, column)| {
        let entry = row * 20 + column;
        a[[p, entry % 12, 9 - entry / 12]] - 0.5 * b[[0, row, column]]
    });
    let found = worst(&secret.decrypt(&result).unwrap(), &expected);
    assert!(found < program.precision().unwrap().error, "{found}");
}

#[test]
fn graphs_beyond_the_limits_are_refused() {
    let refused = |source| Program::plan(source).map(|_| ()).unwrap_err().to_string();
    let mut graph = Graph::new();
    graph.input("x", ((1 << 20) + 1, 1)).unwrap();
    let error = refused(source(graph, options(1)));
    assert!(error.contains("shape (1048577, 1); needed 1 to 1048576 rows and columns"), "{error}");
    let mut graph = Graph::new();
    let x = graph.input("x", (2, 2)).unwrap();
    let missing = ProgramSource { inputs: vec![], ..source(graph.clone(), options(1)) };
    assert!(refused(missing).contains("axes for 0 inputs; needed those of 1"));
    let flat = Axes { rows: false, ..Axes::MATRIX };
    assert!(refused(ProgramSource { inputs: vec![flat], ..source(graph.clone(), options(1)) }).contains("left out"));
    assert!(refused(ProgramSource { output: flat, ..source(graph.clone(), options(1)) }).contains("left out"));
    for _ in 0..4096 {
        graph.push(Operation::Add, &[x, x]).unwrap();
    }
    assert!(refused(source(graph, options(1))).contains("4097 operations; needed at most 4096"));
}

#[test]
fn damaged_bytes_are_refused() {
    let (program, secret) = (network(1), Secret::generate().unwrap());
    let inputs = secret.encrypt(program.signature(), &[("b".into(), random((1, 3, 5), 1))]).unwrap();
    let (program, signature, inputs) = (program.to_bytes(), program.signature().to_bytes().unwrap(), inputs.to_bytes());
    for bytes in [&program, &signature, &inputs] {
        for len in (0..bytes.len().min(200)).chain([bytes.len() - 1]) {
            assert!(Program::from_bytes(&bytes[..len], true).is_err());
            assert!(Signature::from_bytes(&bytes[..len], true).is_err());
            assert!(EncryptedInputs::from_bytes(&bytes[..len], true).is_err());
        }
        let longer = [bytes.as_slice(), &[0]].concat();
        assert!(Program::from_bytes(&longer, true).is_err());
        assert!(Signature::from_bytes(&longer, true).is_err() && EncryptedInputs::from_bytes(&longer, true).is_err());
    }
    assert!(Secret::from_bytes(b"uspm").is_err());
}

#[test]
fn a_flipped_bit_is_refused_as_damage_in_every_message() {
    let (program, secret) = (network(1), Secret::generate().unwrap());
    let inputs = [("a".into(), random((1, 4, 3), 1)), ("b".into(), random((1, 3, 5), 2))];
    let inputs = secret.encrypt(program.signature(), &inputs).unwrap();
    let keys = secret.keys(&[program.signature()], |_, _| {}, &GO).unwrap();
    let result = program.run(&keys, &[&inputs], |_, _| {}, &GO).unwrap();
    // One key: the bytes of many take long to hash for every bit.
    let mut graph = Graph::new();
    let x = graph.input("x", (2, 2)).unwrap();
    graph.push(Operation::Multiply, &[x, x]).unwrap();
    let square = Program::plan(source(graph, options(1))).unwrap();
    let keys = secret.keys(&[square.signature()], |_, _| {}, &GO).unwrap();
    assert_eq!(keys.len(), 1);
    let read = |error: MatrixError| error.to_string();
    crate::damage::assert_damage_is_refused(&[
        ("program", program.to_bytes(), &|bytes| Program::decode(bytes, true).map(drop).map_err(read)),
        ("signature", program.signature().to_bytes().unwrap(), &|bytes| {
            Signature::from_bytes(bytes, true).map(drop).map_err(read)
        }),
        ("inputs", inputs.to_bytes(), &|bytes| EncryptedInputs::from_bytes(bytes, true).map(drop).map_err(read)),
        ("keys", keys.to_bytes(), &|bytes| Keys::from_bytes(bytes, true).map(drop).map_err(read)),
        ("result", result.to_bytes(), &|bytes| EncryptedResult::from_bytes(bytes, true).map(drop).map_err(read)),
        ("secret", secret.to_bytes().to_vec(), &|bytes| Secret::from_bytes(bytes).map(drop).map_err(read)),
    ]);
}

#[test]
fn bytes_without_a_checksum_are_of_an_earlier_version() {
    let (program, secret) = (network(1), Secret::generate().unwrap());
    let mut earlier = program.to_bytes();
    earlier[4] = 1;
    let error = Program::decode(&earlier, true).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("version 1") && error.contains("make it again"), "{error}");
    let error = Program::decode(b"PK\x03\x04 another file", true).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("begins with 'uspa'"), "{error}");
    // A secret of the earlier version is still read: it opens what was encrypted with it.
    let bytes = secret.to_bytes();
    let earlier = Secret::from_bytes(&[&bytes[..4], &bytes[6..38]].concat()).unwrap();
    assert_eq!(earlier.to_bytes(), bytes);
}
