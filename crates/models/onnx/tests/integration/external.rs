//! Files of external data.

use std::fs;
use std::path::Path;

use prost::Message;
use unspoken_onnx::Network;

use crate::build::proto::{ModelProto, StringStringEntryProto, TensorProto};
use crate::build::{FLOAT, model, node, read};
use crate::models::folder;

/// A model whose matrix is in another file.
fn external(entries: &[(&str, &str)]) -> ModelProto {
    let entry = |&(key, value): &(&str, &str)| StringStringEntryProto { key: key.to_owned(), value: value.to_owned() };
    let matrix = TensorProto {
        name: "w".to_owned(),
        dims: vec![2, 2],
        data_type: FLOAT,
        data_location: 1,
        external_data: entries.iter().map(entry).collect(),
        ..TensorProto::default()
    };
    model(&[2], &[node("MatMul", &["x", "w"], &["y"])], &[matrix])
}

/// The message of the error for a model in a folder, or nothing if it is read.
fn message(folder: &Path, entries: &[(&str, &str)]) -> String {
    let path = folder.join("model.onnx");
    fs::write(&path, external(entries).encode_to_vec()).expect("writes");
    Network::load(&path).err().map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn only_whole_parts_of_files_in_the_folder_are_read() {
    let outer = tempfile::tempdir().expect("a folder");
    let folder = outer.path().join("model");
    fs::create_dir_all(folder.join("below")).expect("a folder");
    fs::write(folder.join("below/data"), [0; 20]).expect("writes");
    fs::write(outer.path().join("secret"), [0; 20]).expect("writes");
    let absolute = outer.path().join("secret").display().to_string();
    #[cfg(unix)]
    std::os::unix::fs::symlink(outer.path().join("secret"), folder.join("link")).expect("a link");
    for read in [&[("location", "below/data")][..], &[("location", "./below/data"), ("offset", "4"), ("length", "16")]]
    {
        assert_eq!(message(&folder, read), "");
    }
    let refused = [
        (&[("location", "../secret")][..], "without `..`"),
        (&[("location", "below/../../secret")], "without `..`"),
        (&[("location", absolute.as_str())], "relative path"),
        (&[("location", "")], "relative path"),
        (&[("location", "below")], "no regular file"),
        (&[("location", "missing")], "missing"),
        (&[], "relative path"),
        (&[("location", "below/data"), ("offset", "5")], "16 bytes from byte 5"),
        (&[("location", "below/data"), ("offset", "18446744073709551615")], "file \"below/data\" of 20 bytes"),
        (&[("location", "below/data"), ("offset", "-1")], "offset \"-1\""),
        (&[("location", "below/data"), ("length", "12")], "12 bytes"),
        (&[("location", "below/data"), ("checksum", "0")], "\"checksum\""),
    ];
    for (entries, part) in refused {
        let message = message(&folder, entries);
        assert!(message.contains(part) && message.contains("tensor \"w\""), "{entries:?}: {message:?} has no {part:?}");
    }
    #[cfg(unix)]
    assert!(message(&folder, &[("location", "link")]).contains("links out of it"));
}

#[test]
fn a_model_without_a_folder_has_no_external_data() {
    let message = read(&external(&[("location", "data")])).expect_err("a refusal").to_string();
    assert!(message.contains("`load`"), "{message}");
    let bytes = fs::read(folder().join("external-18.onnx")).expect("a model");
    assert!(Network::from_bytes(bytes).is_err());
}

#[test]
fn a_missing_model_is_an_error_with_its_path() {
    let message = Network::load(Path::new("no/such.onnx")).expect_err("an error").to_string();
    assert!(message.contains("no/such.onnx"), "{message}");
}
