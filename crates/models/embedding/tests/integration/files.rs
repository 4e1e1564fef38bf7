//! Tests of files: published formats of tables are read, compressed tables are lossless, damage is refused.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use crate::common::{quick, random_table};
use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Value, json};
use unspoken_embedding::{
    CompressOptions, CompressedTable, EmbeddingError, Source, StoreError, Subtables, TokenCodes, compress,
};

/// A NumPy file, version 1.0.
fn npy(descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
    let order = if fortran { "True" } else { "False" };
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}");
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn write(directory: &Path, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = directory.join(name);
    fs::write(&path, bytes).expect("writes");
    path
}

fn read_npy(array: &[u8], tokens: &str) -> Result<(Vec<f32>, usize), EmbeddingError> {
    let directory = tempfile::tempdir().expect("a directory");
    let table = write(directory.path(), "table.npy", array);
    let tokens = write(directory.path(), "tokens.txt", tokens);
    let table = Source::Npy { table, tokens }.read()?;
    Ok((table.values().to_vec(), table.width()))
}

#[test]
fn numpy_arrays_are_read_in_both_orders() {
    let rows = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let c = npy("<f4", false, "(2, 3)", &floats(&rows));
    assert_eq!(read_npy(&c, "a\nb\n").expect("reads"), (rows.to_vec(), 3));
    let fortran = npy("<f4", true, "(2, 3)", &floats(&[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]));
    assert_eq!(read_npy(&fortran, "a\r\nb").expect("reads"), (rows.to_vec(), 3));
}

#[test]
fn half_and_double_precision_is_read() {
    let rows = vec![0.5, -2.0, 3.0];
    let halves: Vec<u8> = [0x3800u16, 0xc000, 0x4200].iter().flat_map(|bits| bits.to_le_bytes()).collect();
    assert_eq!(read_npy(&npy("<f2", false, "(1, 3)", &halves), "a\n").expect("reads"), (rows.clone(), 3));
    let doubles: Vec<u8> = [0.5f64, -2.0, 3.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    assert_eq!(read_npy(&npy("<f8", false, "(1, 3)", &doubles), "a\n").expect("reads"), (rows.clone(), 3));
    let big: Vec<u8> = rows.iter().flat_map(|value| value.to_be_bytes()).collect();
    assert_eq!(read_npy(&npy(">f4", false, "(1, 3)", &big), "a\n").expect("reads"), (rows.clone(), 3));
    let large = 1e300f64.to_le_bytes();
    let error = read_npy(&npy("<f8", false, "(1, 1)", &large), "a\n").expect_err("refused").to_string();
    assert!(error.contains("found inf in row 0 (token \"a\")"), "{error}");
    let directory = tempfile::tempdir().expect("a directory");
    let brain: Vec<u8> = [0x3f00u16, 0xc000, 0x4040].iter().flat_map(|bits| bits.to_le_bytes()).collect();
    let tensors = [("f16", Dtype::F16, &halves), ("bf16", Dtype::BF16, &brain), ("f64", Dtype::F64, &doubles)];
    let views = tensors.map(|(name, kind, bytes)| (name, TensorView::new(kind, vec![1, 3], bytes).expect("a tensor")));
    let table = write(directory.path(), "t.safetensors", safetensors::serialize(views, None).expect("serialises"));
    let tokens = write(directory.path(), "tokens.txt", "a\n");
    for (tensor, ..) in tensors {
        let source = Source::Safetensors { table: table.clone(), tensor: tensor.into(), tokens: tokens.clone() };
        assert_eq!(source.read().expect(tensor).values(), rows, "{tensor}");
    }
}

#[test]
fn rows_are_cut_before_they_are_checked() {
    let directory = tempfile::tempdir().expect("a directory");
    let padded = npy("<f4", false, "(4, 1)", &floats(&[1.0, 2.0, f32::NAN, 0.0]));
    let table = write(directory.path(), "table.npy", padded);
    let tokens = write(directory.path(), "tokens.txt", "a\nb\n");
    let source = Source::Npy { table, tokens };
    let error = source.read().expect_err("refused").to_string();
    assert!(error.contains("4 rows and 2 tokens") && error.contains("(--rows 2)"), "{error}");
    assert_eq!(source.read_first(2).expect("reads").values(), [1.0, 2.0]);
    assert_eq!(source.read_first(1).expect("reads").tokens().as_slice(), ["a"]);
    assert!(matches!(source.read_first(0), Err(EmbeddingError::Tokens { .. })));
    assert!(matches!(source.read_first(3), Err(EmbeddingError::Count { rows: 3, tokens: 2 })));
}

#[test]
fn tables_of_text_are_read_as_glove_and_word2vec_write_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let read = |text: &str| Source::Text { table: write(directory.path(), "table.txt", text) }.read();
    for text in ["a 0.5 -2\n. . 1e-1 3 \r\n", "2 2\na 0.5 -2\n. . 0.1 3\n"] {
        let table = read(text).expect(text);
        assert_eq!((table.tokens().as_slice(), table.width()), (&["a".to_owned(), ". .".into()][..], 2), "{text}");
        assert_eq!(table.values(), [0.5, -2.0, 0.1, 3.0]);
    }
    for (text, part) in [
        ("a 1 2\nb 1\n", "fewer than 3 fields in line 2"),
        ("a 1 2\nb 1 x\n", "no numbers among the last 2 in line 2"),
        ("a 1\na 2\n", "rows 0 and 1"),
        ("a\n", "fewer than 2 fields in line 1"),
        ("2 3\na 1 2\nb 3 4\n", "fewer than 4 fields in line 2"),
        ("3 2\na 1 2\nb 3 4\n", "found 2 rows, needed 3, as the first line states"),
        ("1 2\na 1 2\nb 3 4\n", "found 2 rows, needed 1, as the first line states"),
        ("2 0\na\nb\n", "rows of 0 numbers in line 1"),
        ("2 4294967295\na 1\n", "rows of 4294967295 numbers in line 1"),
        ("", "0 tokens"),
    ] {
        let error = read(text).expect_err(part).to_string();
        assert!(error.contains(part), "{error}");
    }
    let cut = write(directory.path(), "table.txt", "3 2\na 1 2\nb 3 4\n");
    let cut = Source::Text { table: cut };
    assert_eq!(cut.read_first(2).expect("as many rows as the file has").values(), [1.0, 2.0, 3.0, 4.0]);
    assert!(
        matches!(cut.read_first(3), Err(EmbeddingError::Content { remedy, .. }) if remedy.contains("convert the table"))
    );
}

#[test]
fn lines_of_a_table_are_read_whole() {
    let directory = tempfile::tempdir().expect("a directory");
    let read = |text: &[u8]| Source::Text { table: write(directory.path(), "table.txt", text) }.read();
    // Only the mark at the start of a file is none of its content.
    let table = read("\u{feff}1 2 3\n\u{feff}a 4 5\n".as_bytes()).expect("reads");
    assert_eq!((table.tokens().as_slice(), table.width()), (&["1".to_owned(), "\u{feff}a".into()][..], 2));
    let table = read("\u{feff}2 1\na 1\nb 2\n".as_bytes()).expect("reads");
    assert_eq!(table.values(), [1.0, 2.0]);
    let long = format!("a 1\n{} 2\n", "b".repeat(1 << 20));
    for (text, part) in [(long.as_bytes(), "more than 1048576 bytes in line 2"), (b"a 1\nb\xff 2\n", "UTF-8 in line 2")]
    {
        let error = read(text).expect_err(part).to_string();
        assert!(error.contains("table.txt") && error.contains(part), "{error}");
    }
}

#[test]
fn added_tokens_need_no_rows() {
    let directory = tempfile::tempdir().expect("a directory");
    let added = json!([{ "id": 2, "content": "<pad>" }, { "id": 3, "content": "<im>" }, { "id": 0, "content": "a" }]);
    let vocabularies = [json!({ "a": 0, "\u{2581}b": 1 }), json!([["a", 0.0], ["\u{2581}b", -1.5]])];
    for vocabulary in vocabularies {
        let file = json!({ "model": { "vocab": vocabulary }, "added_tokens": added });
        let tokens = write(directory.path(), "tokenizer.json", file.to_string());
        for rows in 2..=4 {
            let array = npy("<f4", false, &format!("({rows}, 1)"), &floats(&vec![1.0; rows]));
            let table = write(directory.path(), "table.npy", array);
            let read = Source::Npy { table, tokens: tokens.clone() }.read().expect("reads");
            assert_eq!(read.tokens().as_slice(), &["a", "\u{2581}b", "<pad>", "<im>"][..rows]);
        }
        let table = write(directory.path(), "table.npy", npy("<f4", false, "(1, 1)", &floats(&[1.0])));
        let error = Source::Npy { table, tokens }.read().expect_err("refused");
        assert!(matches!(error, EmbeddingError::Count { rows: 1, tokens: 2 }), "{error}");
    }
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_first_token() {
    let directory = tempfile::tempdir().expect("a directory");
    let table = write(directory.path(), "table.npy", npy("<f4", false, "(2, 1)", &floats(&[1.0, 2.0])));
    let vocabulary = json!({ "model": { "vocab": { "the": 0, " of": 1 } } });
    for (name, text) in [("tokens.txt", "the\r\n of\r\n".to_owned()), ("tokenizer.json", vocabulary.to_string())] {
        let tokens = write(directory.path(), name, format!("\u{feff}{text}"));
        let read = Source::Npy { table: table.clone(), tokens }.read().expect(name);
        assert_eq!(read.tokens().as_slice(), ["the", " of"], "{name}");
    }
    let tokens = write(directory.path(), "tokens.txt", b"the\n\xff\n");
    let error = Source::Npy { table, tokens }.read().expect_err("refused").to_string();
    assert!(error.contains("tokens.txt") && error.contains("not UTF-8 in line 2"), "{error}");
}

#[test]
fn other_arrays_are_refused_with_a_reason() {
    let data = floats(&[1.0; 6]);
    let cases = [
        (npy("<i4", false, "(2, 3)", &data), "a\nb\n", "type '<i4'"),
        (npy("<c8", false, "(1, 3)", &data), "a\n", "type '<c8'"),
        (npy("<f4", false, "(6,)", &data), "a\n", "two dimensions"),
        (npy("<f4", false, "(2, 4)", &data), "a\nb\n", "before 8 values"),
        (npy("<f4", false, "(1000000, 1000)", &data), "a\nb\n", "no more values than the file has bytes"),
        (npy("<f4", false, "(4000000000, 4000)", &data), "a\nb\n", "at most 2^31 values"),
        (npy("<f4", false, "(2, 3)", &data), "a\nb\nc\n", "2 rows and 3 tokens"),
        (npy("<f4", false, "(2, 3)", &data), "a\na\n", "rows 0 and 1"),
        (npy("<f4", false, "(2, 3)", &data), "a\n\nb\n", "0 bytes in row 1"),
        (
            npy("<f4", false, "(2, 3)", &floats(&[0.0, 0.0, 0.0, 0.0, f32::NAN, 0.0])),
            "a\nbee\n",
            "row 1 (token \"bee\"), column 1",
        ),
        (
            npy("<f4", false, "(2, 3)", &floats(&[0.0, 2e6, 0.0, 0.0, 0.0, 0.0])),
            "a\nbee\n",
            "row 0 (token \"a\"), column 1",
        ),
        (b"not numpy".to_vec(), "a\n", "NumPy"),
    ];
    for (array, tokens, reason) in cases {
        let error = read_npy(&array, tokens).expect_err(reason).to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn hostile_headers_of_arrays_are_refused_before_they_are_parsed() {
    let long = b"\x93NUMPY\x02\x00\xff\xff\xff\xff{'descr'".to_vec();
    let nested = npy("<f4", false, &"(".repeat(2000), &[]);
    let data = floats(&[1.0; 6]);
    let cases = [
        (long, "a header of 4294967295 bytes"),
        (nested, "brackets"),
        (npy("<f4", false, "(9223372036854775807, 9223372036854775807)", &data), "larger numbers"),
        (npy("<f4", false, "(0xFFFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF)", &data), "larger numbers"),
    ];
    for (array, reason) in cases {
        let error = read_npy(&array, "a\n").expect_err(reason).to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn tensors_are_read_by_name_with_a_tokenizer() {
    let directory = tempfile::tempdir().expect("a directory");
    let bytes = floats(&[1.0, 2.0, 3.0, 4.0]);
    let words = TensorView::new(Dtype::F32, vec![2, 2], &bytes).expect("a tensor");
    let whole = TensorView::new(Dtype::I32, vec![2, 2], &bytes).expect("a tensor");
    let file = safetensors::serialize([("words", words), ("whole", whole)], None).expect("serialises");
    let table = write(directory.path(), "model.safetensors", file);
    let tokeniser = json!({ "version": "1.0", "model": { "type": "WordPiece", "vocab": { "##b": 1, "a": 0 } } });
    let tokens = write(directory.path(), "tokenizer.json", tokeniser.to_string());
    let read = |tensor: &str, tokens: &Path| {
        Source::Safetensors { table: table.clone(), tensor: tensor.into(), tokens: tokens.into() }.read()
    };
    let found = read("words", &tokens).expect("reads");
    assert_eq!(found.tokens().as_slice(), ["a", "##b"]);
    assert_eq!(found.row(1), Some(&[3.0, 4.0][..]));
    assert!(read("whole", &tokens).expect_err("refused").to_string().contains("type I32"));
    let error = read("embeddings", &tokens).expect_err("refused").to_string();
    assert!(error.contains("\"words\"") && error.contains("one named \"embeddings\""), "{error}");
    for vocab in [json!({ "a": 0, "b": 2 }), json!({ "a": 0, "b": 0 }), json!([1, 2])] {
        let tokens = write(directory.path(), "bad.json", json!({ "model": { "vocab": vocab } }).to_string());
        let error = read("words", &tokens).expect_err("refused");
        assert!(matches!(&error, EmbeddingError::Content { path, .. } if *path == tokens), "{vocab}: {error}");
    }
}

fn saved() -> (tempfile::TempDir, CompressedTable) {
    let directory = tempfile::tempdir().expect("a directory");
    let options = CompressOptions { columns: 6, ..quick() };
    let compressed =
        compress(&random_table(40, 5), &options, &mut |_| {}, &AtomicBool::new(false)).expect("compresses");
    compressed.save(directory.path()).expect("saves");
    (directory, compressed)
}

fn edit(directory: &Path, name: &str, change: impl FnOnce(&mut Value)) {
    let path = directory.join(name);
    let mut value = serde_json::from_slice(&fs::read(&path).expect("reads")).expect("JSON");
    change(&mut value);
    fs::write(path, serde_json::to_vec(&value).expect("JSON")).expect("writes");
}

#[test]
fn a_saved_table_is_the_same_table_and_its_halves_stand_alone() {
    let (directory, compressed) = saved();
    let path = directory.path();
    assert_eq!(CompressedTable::load(path).expect("loads"), compressed);
    let server = fs::read_to_string(path.join("server.json")).expect("reads");
    assert!(!server.contains("t17"), "the server's half names a token");
    // Earlier releases read it.
    assert!(server.contains("\"version\": 1"), "{server}");
    for file in ["client.json", "client.safetensors"] {
        fs::rename(path.join(file), path.join(format!("{file}.away"))).expect("moves");
    }
    assert_eq!(&Subtables::load(path).expect("loads"), compressed.subtables());
    assert!(matches!(TokenCodes::load(path), Err(EmbeddingError::Store(StoreError::Io { .. }))));
    for file in ["client.json", "client.safetensors"] {
        fs::rename(path.join(format!("{file}.away")), path.join(file)).expect("moves");
    }
    for file in ["server.json", "server.safetensors"] {
        fs::remove_file(path.join(file)).expect("removes");
    }
    assert_eq!(&TokenCodes::load(path).expect("loads"), compressed.codes());
}

#[test]
fn halves_of_two_compressions_do_not_join() {
    let (one, _) = saved();
    let options = CompressOptions { seed: 5, columns: 6, ..quick() };
    let other = compress(&random_table(40, 5), &options, &mut |_| {}, &AtomicBool::new(false)).expect("compresses");
    let two = tempfile::tempdir().expect("a directory");
    other.save(two.path()).expect("saves");
    for file in ["server.json", "server.safetensors"] {
        fs::copy(two.path().join(file), one.path().join(file)).expect("copies");
    }
    let error = CompressedTable::load(one.path()).expect_err("refused");
    assert!(matches!(error, EmbeddingError::Halves { what: "model id", .. }), "{error}");
}

#[test]
fn bad_fields_are_refused() {
    type Edit = (&'static str, fn(&mut Value));
    let edits: [Edit; 10] = [
        ("client.json", |v| v["model"]["shape"]["columns"] = json!(5)),
        ("client.json", |v| v["model"]["shape"]["columns"] = json!(1u64 << 40)),
        ("client.json", |v| v["model"]["shape"]["subtables"] = json!(3)),
        ("client.json", |v| v["model"]["shape"]["columns"] = json!(4)),
        ("client.json", |v| v["model"]["tokens"][1] = v["model"]["tokens"][0].clone()),
        ("client.json", |v| v["model"]["tokens"] = json!([])),
        ("client.json", |v| v["version"] = json!(2)),
        ("server.json", |v| v["model"]["shape"]["width"] = json!(6)),
        ("server.json", |v| v["model"]["compression"]["tokens"] = json!(41)),
        ("server.json", |v| v["format"] = json!("unspoken-fasttext-server")),
    ];
    for (number, (file, change)) in edits.into_iter().enumerate() {
        let (directory, _) = saved();
        edit(directory.path(), file, change);
        assert!(CompressedTable::load(directory.path()).is_err(), "edit {number}");
    }
    let (directory, _) = saved();
    let weights = directory.path().join("server.safetensors");
    let mut bytes = fs::read(&weights).expect("reads");
    *bytes.last_mut().expect("bytes") ^= 1;
    fs::write(&weights, bytes).expect("writes");
    let error = CompressedTable::load(directory.path()).expect_err("refused");
    assert!(matches!(error, EmbeddingError::Store(StoreError::Checksum { .. })), "{error}");
}
