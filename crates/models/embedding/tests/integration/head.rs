//! Tests of linear heads: files, training, folding.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use crate::common::{quick, random_table};
use safetensors::tensor::{Dtype, TensorView};
use unspoken_embedding::{CompressedTable, EmbeddingError, HeadOptions, LinearHead, TextReader, compress};

static GO: AtomicBool = AtomicBool::new(false);

fn table() -> CompressedTable {
    compress(&random_table(40, 3), &quick(), &mut |_| {}, &GO).expect("compresses")
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("class {i}")).collect()
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Writes a file of these tensors of type `dtype` and this metadata, and reads it as a head.
fn read(
    tensors: &[(&str, &[usize], Vec<u8>)],
    dtype: Dtype,
    metadata: &[(&str, &str)],
) -> Result<LinearHead, EmbeddingError> {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("head.safetensors");
    let views = tensors
        .iter()
        .map(|(name, shape, bytes)| (*name, TensorView::new(dtype, shape.to_vec(), bytes).expect("a tensor")));
    let metadata: HashMap<String, String> =
        metadata.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    std::fs::write(&path, safetensors::serialize(views, Some(metadata)).expect("a file")).expect("writes");
    LinearHead::load(path)
}

const CLASSES: (&str, &str) = ("classes", r#"["no","yes"]"#);

#[test]
fn heads_are_written_and_read_back() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("new").join("head.safetensors");
    let weights = vec![0.1, 1.0 / 3.0, -2e5, 1e-30, 0.0, 5.0];
    let head = LinearHead::new(vec!["gut".into(), "schlecht \u{1f600}".into()], 256, 3, weights, vec![0.7, -0.1]);
    let head = head.expect("a head");
    head.save(&path).expect("writes");
    assert_eq!(LinearHead::load(&path).expect("reads"), head);
}

#[test]
fn a_linear_layer_of_pytorch_is_read() {
    let (weight, bias) = (floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), floats(&[0.5, -0.5]));
    let head = read(&[("weight", &[2, 3], weight), ("bias", &[2], bias)], Dtype::F32, &[CLASSES]).expect("reads");
    assert_eq!((head.max_tokens(), head.width(), head.bias()), (128, 3, &[0.5, -0.5][..]));
    assert_eq!((head.classes(), head.weights()[5]), (&["no".into(), "yes".into()][..], 6.0));
}

#[test]
fn other_files_are_refused_with_a_reason() {
    let (weight, bias) = (floats(&[1.0; 6]), floats(&[0.0; 2]));
    let sound = || vec![("weight", &[2, 3][..], weight.clone()), ("bias", &[2][..], bias.clone())];
    let with = |at: usize, tensor| {
        let mut tensors = sound();
        tensors[at] = tensor;
        tensors
    };
    let refused = |tensors: &[(&str, &[usize], Vec<u8>)], dtype, metadata: &[(&str, &str)], reason: &str| {
        let error = read(tensors, dtype, metadata).expect_err(reason).to_string();
        assert!(error.contains(reason), "{error}");
    };
    refused(&sound()[..1], Dtype::F32, &[CLASSES], "1 tensors: \"weight\"");
    let hidden = [sound(), vec![("0.weight", &[2, 3][..], weight.clone())]].concat();
    refused(&hidden, Dtype::F32, &[CLASSES], "hidden layers are not supported");
    refused(&sound(), Dtype::F32, &[], "no names of classes");
    refused(&sound(), Dtype::F32, &[("classes", "no,yes")], "no list");
    refused(&sound(), Dtype::F32, &[("classes", r#"["no"]"#)], "for 1 names");
    refused(&sound(), Dtype::F32, &[("classes", r#"["no","no"]"#)], "\"no\" twice");
    refused(&sound(), Dtype::F32, &[("classes", r#"["no",""]"#)], "0 bytes");
    refused(&sound(), Dtype::F32, &[("classes", "[\"no\",\"\\u001b[2J\"]")], "control characters");
    refused(&sound(), Dtype::F32, &[CLASSES, ("max_tokens", "many")], "\"many\"");
    refused(&sound(), Dtype::F32, &[CLASSES, ("max_tokens", "100")], "a power of two");
    refused(&sound(), Dtype::F32, &[CLASSES, ("segmentation", "1")], "needed version 2: train the head again");
    refused(&sound(), Dtype::I32, &[CLASSES], "type I32");
    let halves = vec![("weight", &[2, 3][..], weight[..12].to_vec()), ("bias", &[2][..], bias[..4].to_vec())];
    refused(&halves, Dtype::F16, &[CLASSES], "type F16");
    refused(&with(0, ("weight", &[6], weight.clone())), Dtype::F32, &[CLASSES], "two dimensions");
    refused(&with(0, ("weight", &[3, 2], weight.clone())), Dtype::F32, &[CLASSES], "[2, width] and [2]");
    refused(&with(1, ("bias", &[2, 1], bias.clone())), Dtype::F32, &[CLASSES], "[2, 1]");
    for bad in [f32::NAN, f32::INFINITY, -1.1e6] {
        let poisoned = floats(&[1.0, 1.0, 1.0, 1.0, bad, 1.0]);
        refused(&with(0, ("weight", &[2, 3], poisoned)), Dtype::F32, &[CLASSES], "row 1, column 1");
        refused(&with(1, ("bias", &[2], floats(&[0.0, bad]))), Dtype::F32, &[CLASSES], "row 1");
    }
    let missing = LinearHead::load(Path::new("/nowhere/head.safetensors")).expect_err("refused").to_string();
    assert!(missing.starts_with("read /nowhere/head.safetensors"), "{missing}");
}

#[test]
fn too_many_classes_are_refused() {
    let build = |count: usize| LinearHead::new(names(count), 128, 1, vec![1.0; count], vec![0.0; count]);
    assert!(build(2).is_ok() && build(1024).is_ok());
    for count in [0, 1, 1025] {
        let error = build(count).expect_err("refused").to_string();
        assert!(error.contains(&format!("{count} names")), "{error}");
    }
    assert!(LinearHead::new(names(2), 128, 0, vec![], vec![0.0; 2]).is_err());
    assert!(LinearHead::new(names(2), 128, 4097, vec![0.0; 8194], vec![0.0; 2]).is_err());
    assert!(LinearHead::new(names(2), 128, 2, vec![0.0; 3], vec![0.0; 2]).is_err());
    assert!(LinearHead::new(names(2), 128, 2, vec![0.0; 4], vec![0.0; 3]).is_err());
}

#[test]
fn folded_tables_are_centred_and_have_the_heads_scores() {
    let table = table();
    let head = LinearHead::new(names(2), 128, 3, vec![1.0, -2.0, 0.5, 3.0, 0.25, -1.0], vec![0.5, -1.0]);
    let head = head.expect("a head");
    let folded = head.fold(table.subtables()).expect("the same width");
    let columns = table.subtables().shape().columns;
    for row in folded.values().chunks_exact(columns) {
        assert!(row.iter().sum::<f64>().abs() < 1e-12, "{row:?}");
    }
    let entry = |t: usize, c: usize, j: u16| folded.values()[(t * 2 + c) * columns + usize::from(j)];
    for ids in [&[3][..], &[0, 39, 39, 7]] {
        let clear = head.scores(&table, ids).expect("scores");
        for (c, &score) in clear.iter().enumerate() {
            let token = |&id: &u32| -> f64 {
                let code = table.codes().code(id as usize).expect("an id");
                code.iter().enumerate().map(|(t, &j)| entry(t, c, j)).sum()
            };
            let mean = ids.iter().map(token).sum::<f64>() / ids.len() as f64;
            let found = mean + folded.token_mean()[c] + head.bias()[c];
            // Embeddings in the clear are rounded to single precision.
            assert!((found - score).abs() < 1e-5, "{found} {score}");
        }
    }
    assert_eq!(head.scores(&table, &[]).expect("scores"), head.bias());
    let wide = LinearHead::new(names(2), 128, 4, vec![1.0; 8], vec![0.0; 2]).expect("a head");
    assert!(matches!(wide.fold(table.subtables()), Err(EmbeddingError::Width { found: 4, needed: 3 })));
    assert!(matches!(wide.scores(&table, &[0]), Err(EmbeddingError::Width { .. })));
    assert!(head.scores(&table, &[40]).is_err());
}

#[test]
fn training_finds_what_separates_the_classes() {
    let table = table();
    let reader = TextReader::new(table.codes().tokens());
    for classes in [2, 3] {
        // The label is the class of one embedding, so a linear head can find it.
        let ideal = LinearHead::new(
            names(classes),
            64,
            3,
            (0..3 * classes).map(|i| f64::from(u8::from(i % 3 == i / 3))).collect(),
            vec![0.0; classes],
        );
        let ideal = ideal.expect("a head");
        let texts: Vec<String> = (0..600).map(|i| format!("t{} t{} zebra", i % 40, i * 7 % 40)).collect();
        let label = |text: &String| {
            let scores = ideal.scores(&table, &reader.read(text).ids).expect("scores");
            ideal.class_of(&scores).to_owned()
        };
        let labels: Vec<String> = texts.iter().map(label).collect();
        let options = HeadOptions { ridge: 1e-3, ..HeadOptions::default() };
        let trained = LinearHead::fit(&table, &texts, &labels, &options, &GO).expect("trains");
        assert!(trained.training_accuracy > 0.9, "{classes}: {}", trained.training_accuracy);
        assert_eq!(trained.head.classes(), &names(classes)[..]);
        assert_eq!((trained.coverage.tokens, trained.coverage.unknown), (1800, 600));
        let again = LinearHead::fit(&table, &texts, &labels, &options, &GO).expect("trains");
        assert_eq!(trained.head, again.head);
    }
}

#[test]
fn impossible_training_is_refused() {
    let table = table();
    let texts = vec!["t1".to_owned(), "t2".into()];
    let fit = |labels: &[&str], options: HeadOptions, cancel: bool| {
        let labels: Vec<String> = labels.iter().map(|&label| label.to_owned()).collect();
        LinearHead::fit(&table, &texts, &labels, &options, &AtomicBool::new(cancel)).expect_err("refused")
    };
    let options = HeadOptions::default();
    assert!(fit(&["a"], options, false).to_string().contains("2 texts and 1 labels"));
    assert!(fit(&["a", "a"], options, false).to_string().contains("1 distinct labels"));
    assert!(fit(&["a", "b"], HeadOptions { ridge: -1.0, ..options }, false).to_string().contains("ridge = -1"));
    assert!(fit(&["a", "b"], HeadOptions { max_tokens: 100, ..options }, false).to_string().contains("max_tokens"));
    assert!(matches!(fit(&["a", "b"], options, true), EmbeddingError::Cancelled { step: 1 }));
}
