//! Tests of `unspoken matrix` at secure parameters.

use std::fs::File;
use std::path::Path;
use std::process::Stdio;

use crate::support::{Service, complaint, text, unspoken};
use ndarray::{Array2, ArrayD, array};
use npyz::{NpyFile, WriterBuilder};
use unspoken_encrypted_matrix::{Graph, Operation};
use unspoken_matrix::{Axes, Options, Program, ProgramSource};

fn write(path: &Path, array: &ArrayD<f64>) -> String {
    let shape: Vec<u64> = array.shape().iter().map(|&extent| extent as u64).collect();
    let options = npyz::WriteOptions::new().default_dtype().shape(&shape);
    let mut writer = options.writer(File::create(path).unwrap()).begin_nd().unwrap();
    writer.extend(array.iter().copied()).unwrap();
    writer.finish().unwrap();
    path.to_str().unwrap().to_owned()
}

fn read(path: &str) -> ArrayD<f64> {
    let file = NpyFile::new(File::open(path).unwrap()).unwrap();
    let shape: Vec<usize> = file.shape().iter().map(|&extent| extent as usize).collect();
    ArrayD::from_shape_vec(shape, file.into_vec().unwrap()).unwrap()
}

/// `weights @ a + x`, for a matrix `a` and a row vector `x`.
fn program(weights: &Array2<f64>) -> Program {
    let mut graph = Graph::new();
    let (a, x) = (graph.input("a", (2, 3)).unwrap(), graph.input("x", (1, 3)).unwrap());
    let product = graph.push(Operation::TimesLeft(weights.clone()), &[a]).unwrap();
    graph.push(Operation::Add, &[product, x]).unwrap();
    let vector = Axes { rows: false, ..Axes::MATRIX };
    let options = Options { preset: Some("n14_real_depth8_scale30".into()), batch: 1, ..Options::default() };
    Program::plan(ProgramSource { graph, inputs: vec![Axes::MATRIX, vector], output: vector, options }).unwrap()
}

#[test]
fn a_program_is_served_and_asked() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let weights = array![[0.5, -2.0]];
    std::fs::write(path("program"), program(&weights).to_bytes()).unwrap();
    let (a, x) = (array![[0.1, 0.2, 0.3], [-0.4, 0.5, -0.6]], array![1.0, -1.0, 0.25]);
    let a_file = write(Path::new(&path("a.npy")), &a.clone().into_dyn());
    let x_file = write(Path::new(&path("x.npy")), &x.clone().into_dyn());

    let (offer, keys) = (format!("matrix:matrix/scores={}", path("program")), path("keys"));
    let service = Service::start(&["--offer", &offer, "--data-dir", &keys], Stdio::null());
    let (state, out) = (path("state"), path("out.npy"));
    let ask = ["matrix", "ask", "--url", &service.url, "--state-dir", &state, "--out", &out];
    let inputs = [format!("a={a_file}"), format!("x={x_file}")];
    let both = ["--input", &inputs[1], "--input", &inputs[0]];
    let said = text(&unspoken(&[&ask[..], &both].concat()));
    for part in ["shape [3]", "n14_real_depth8_scale30", "made and uploaded", "query", "answer"] {
        assert!(said.contains(part), "{said}");
    }
    let expected = (weights.dot(&a).row(0).to_owned() + &x).into_dyn();
    let error = |found: ArrayD<f64>| (found - &expected).iter().fold(0.0f64, |worst, x| worst.max(x.abs()));
    let exact = error(read(&out));
    assert!(exact < 1e-3, "{exact}");
    // With noise the result is less exact; the service has the keys already.
    let said = text(&unspoken(&[&ask[..], &both, &["--share", "12"]].concat()));
    assert!(said.contains("at the service already"), "{said}");
    let noisy = error(read(&out));
    assert!(noisy > 4.0 * exact, "{noisy} {exact}");

    let one = complaint(&unspoken(&[&ask[..], &both[..2]].concat()));
    assert!(one.contains("input 'a' left out"), "{one}");
    let unknown = complaint(&unspoken(&[&ask[..], &["--input", &format!("b={a_file}")]].concat()));
    assert!(unknown.contains("no input b; its inputs are a, x"), "{unknown}");
    let shape = complaint(&unspoken(&[&ask[..], &["--input", &format!("x={a_file}")]].concat()));
    assert!(shape.contains("input x: read an array: found shape [2, 3]; needed [3]"), "{shape}");
    let nowhere = complaint(&unspoken(&[&ask[..], &["--input", "a=/nowhere.npy"]].concat()));
    assert!(nowhere.contains("cannot read /nowhere.npy"), "{nowhere}");
}

#[test]
fn only_programs_are_offered() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("program").to_str().unwrap().to_owned();
    std::fs::write(&path, b"uspa").unwrap();
    let refused = complaint(&unspoken(&["serve", "--offer", &format!("matrix:matrix/scores={path}")]));
    assert!(refused.contains("a program"), "{refused}");
}
