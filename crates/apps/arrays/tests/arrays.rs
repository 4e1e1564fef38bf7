//! Programs between client and server: planned, sent, run, decrypted; and refusals.

use std::sync::atomic::AtomicBool;

use ndarray::{Array2, Array3};
use unspoken_arrays::{Answer, ArraysError, Form, Graph, Inputs, Keys, Node, Options, Program, Secret, Terms};
use unspoken_matrix::Axis;

const PRESET: &str = "insecure_n11_real_depth9_scale50";
static GO: AtomicBool = AtomicBool::new(false);

fn form(rows: usize, columns: usize, batch: bool) -> Form {
    Form { matrix: (rows, columns), batch, rows: true, columns: true }
}

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
    let a = graph.push(Node::Input { name: "a".into(), form: form(4, 3, true) }).unwrap();
    let b = graph.push(Node::Input { name: "b".into(), form: form(3, 5, false) }).unwrap();
    let product = graph.push(Node::MatMul(a, b)).unwrap();
    let turned = graph.push(Node::Transpose(product)).unwrap();
    let picked = graph.push(Node::Rows(turned, vec![2, 0])).unwrap();
    let weighted = graph.push(Node::TimesRight(picked, weights())).unwrap();
    let constant = graph.push(Node::Constant(offset())).unwrap();
    graph.push(Node::Add(weighted, constant)).unwrap();
    let layout = Options { tile: Some(8), blocks: Some(2), ..options(batch) };
    Program::plan(graph, form(2, 3, true), &layout).unwrap()
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
fn client_and_server_share_bytes_alone() {
    // 16 matrices fit one vector of 2048 slots: the batch of 40 runs in groups, the last one padded.
    for batch in [1, 3, 40] {
        let program = network(batch);
        assert_eq!(program.terms().groups() > 1, batch == 40);
        let server = Program::from_bytes(&program.to_bytes(), true).unwrap();
        assert_eq!(server.to_bytes(), program.to_bytes());
        assert_eq!(server.terms().key_plan(), program.terms().key_plan());

        let terms = Terms::from_bytes(&server.terms().to_bytes().unwrap(), true).unwrap();
        assert_eq!(terms.to_bytes().unwrap(), server.terms().to_bytes().unwrap());
        let secret = Secret::generate().unwrap();
        let (a, b) = (random((batch, 4, 3), 1), random((1, 3, 5), 2));
        let first = secret.encrypt(&terms, &[("b".into(), b.clone())]).unwrap();
        let second = secret.encrypt(&terms, &[("a".into(), a.clone())]).unwrap();
        let keys = secret.keys(&[&terms], |_, _| {}, &GO).unwrap();

        let keys = Keys::from_bytes(&keys.to_bytes(), true).unwrap();
        let parts = [first, second].map(|part| Inputs::from_bytes(&part.to_bytes(), true).unwrap());
        let answer = server.run(&keys, &[&parts[0], &parts[1]], |_, _| {}, &GO).unwrap();
        let answer = Answer::from_bytes(&answer.to_bytes(), true).unwrap();
        assert_eq!(answer.shape(), [batch, 2, 3]);

        let again = Secret::from_bytes(&secret.to_bytes()).unwrap();
        let error = worst(&again.decrypt(&answer).unwrap(), &expected(&a, &b));
        let precision = server.precision(1.0, 7).unwrap();
        assert!(!precision.overflow && error < precision.error, "{error:e} {precision:?}");
        assert!(precision.error < 2f64.powi(-20));
        let other = Secret::generate().unwrap();
        assert!(other.decrypt(&answer).unwrap_err().to_string().contains("another secret"));
        assert!(!Answer::from_bytes(&answer.to_bytes(), false).is_ok_and(|_| true), "an insecure preset");
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let (program, secret) = (network(2), Secret::generate().unwrap());
    let keys = secret.keys(&[program.terms()], |_, _| {}, &GO).unwrap();
    let a = secret.encrypt(program.terms(), &[("a".into(), random((2, 4, 3), 1))]).unwrap();
    let refused = |error: Result<Answer, ArraysError>| error.map(|_| ()).unwrap_err().to_string();
    assert!(refused(program.run(&keys, &[&a], |_, _| {}, &GO)).contains("no input b"));
    assert!(refused(program.run(&keys, &[], |_, _| {}, &GO)).contains("no input a, b"));

    let unknown = secret.encrypt(program.terms(), &[("c".into(), random((1, 4, 3), 1))]).map(|_| ());
    assert!(unknown.unwrap_err().to_string().contains("one of a, b"));
    let shape = secret.encrypt(program.terms(), &[("a".into(), random((2, 3, 3), 1))]).map(|_| ());
    assert!(shape.unwrap_err().to_string().contains("needed shape (2, 4, 3)"));

    let b = secret.encrypt(program.terms(), &[("b".into(), random((1, 3, 5), 1))]).unwrap();
    let others = Secret::generate().unwrap().encrypt(program.terms(), &[("b".into(), random((1, 3, 5), 1))]).unwrap();
    assert!(refused(program.run(&keys, &[&a, &others], |_, _| {}, &GO)).contains("another secret"));
    // Keys of another program: all that are missing are named.
    let mut graph = Graph::new();
    let x = graph.push(Node::Input { name: "x".into(), form: form(4, 4, false) }).unwrap();
    graph.push(Node::Sum(x, Axis::Rows)).unwrap();
    let small = Program::plan(graph, form(1, 4, false), &options(1)).unwrap();
    let few = secret.keys(&[small.terms()], |_, _| {}, &GO).unwrap();
    let error = program.run(&few, &[&a, &b], |_, _| {}, &GO).map(|_| ()).unwrap_err();
    assert!(error.is_missing_keys());
    assert!(error.to_string().matches("key").count() > 3, "{error}");
    let stopped = program.run(&keys, &[&a, &b], |_, _| {}, &AtomicBool::new(true)).map(|_| ()).unwrap_err();
    assert!(stopped.is_interrupted());
    let again = secret.encrypt(program.terms(), &[("a".into(), random((2, 4, 3), 9))]).unwrap();
    assert!(refused(program.run(&keys, &[&a, &b, &again], |_, _| {}, &GO)).contains("'a' twice"));
    let twice = ["b", "b"].map(|name| (name.into(), random((1, 3, 5), 1)));
    assert!(secret.encrypt(program.terms(), &twice).map(|_| ()).unwrap_err().to_string().contains("'b' twice"));
    // Keys of several programs serve each.
    let both = secret.keys(&[small.terms(), program.terms()], |_, _| {}, &GO).unwrap();
    assert!(program.run(&both, &[&a, &b], |_, _| {}, &GO).is_ok());
}

#[test]
fn batches_of_as_many_vectors_are_told_apart() {
    let (short, long, secret) = (network(33), network(40), Secret::generate().unwrap());
    assert_eq!(short.terms().groups(), long.terms().groups());
    let keys = secret.keys(&[long.terms()], |_, _| {}, &GO).unwrap();
    let inputs = [("a".into(), random((33, 4, 3), 1)), ("b".into(), random((1, 3, 5), 1))];
    let inputs = Inputs::from_bytes(&secret.encrypt(short.terms(), &inputs).unwrap().to_bytes(), true).unwrap();
    let error = long.run(&keys, &[&inputs], |_, _| {}, &GO).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("batch of 33") && error.contains("batch of 40"), "{error}");
}

#[test]
fn too_deep_says_how_deep() {
    let mut graph = Graph::new();
    let mut power = graph.push(Node::Input { name: "x".into(), form: form(2, 2, false) }).unwrap();
    for _ in 0..12 {
        power = graph.push(Node::Multiply(power, power)).unwrap();
    }
    let error = Program::plan(graph.clone(), form(2, 2, false), &options(1)).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains(PRESET) && error.contains("deeper"), "{error}");
    // Left to itself, the planner takes the deeper preset.
    let program = Program::plan(graph, form(2, 2, false), &Options { batch: 1, ..Options::default() }).unwrap();
    assert_eq!(program.terms().preset(), "n15_real_depth17_scale30");
    // Large values to the power of 4096 outgrow it, and the simulation says so.
    assert!(program.precision(8.0, 1).unwrap().overflow);
}

#[test]
fn damaged_bytes_are_refused() {
    let (program, secret) = (network(1), Secret::generate().unwrap());
    let inputs = secret.encrypt(program.terms(), &[("b".into(), random((1, 3, 5), 1))]).unwrap();
    let (program, terms, inputs) = (program.to_bytes(), program.terms().to_bytes().unwrap(), inputs.to_bytes());
    for bytes in [&program, &terms, &inputs] {
        for len in (0..bytes.len().min(200)).chain([bytes.len() - 1]) {
            assert!(Program::from_bytes(&bytes[..len], true).is_err());
            assert!(Terms::from_bytes(&bytes[..len], true).is_err());
            assert!(Inputs::from_bytes(&bytes[..len], true).is_err());
        }
        let longer = [bytes.as_slice(), &[0]].concat();
        assert!(Program::from_bytes(&longer, true).is_err());
        assert!(Terms::from_bytes(&longer, true).is_err() && Inputs::from_bytes(&longer, true).is_err());
    }
    assert!(Secret::from_bytes(b"uspm").is_err());
}
