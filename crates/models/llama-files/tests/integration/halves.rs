//! The two halves of a rotated model: files are read as they were written, and damaged ones are refused.

use std::fs;
use std::path::Path;

use unspoken_llama_files::{LoadedModel, load};
use unspoken_llama_model::{ChatTemplate, ClientModel, DraftTexts, RotatedModel, Tokenizer, rotate};

fn halves(directory: &Path) -> (RotatedModel, ClientModel) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../models/stories260K/stories260K.bin");
    let LoadedModel { mut model, tokenizer } = load(&path, None).unwrap();
    rotate(&model.config, &mut model.weights, 1);
    let rotated = RotatedModel::new(model, vec![1]);
    let names = [("bos_token".to_owned(), "<s>".to_owned())];
    let template = ChatTemplate::new("{{ bos_token }}{{ messages[0].content }}", names.into()).unwrap();
    let client = ClientModel::new(&rotated, tokenizer.with_chat_template(Some(template)));
    let client = client.with_draft_texts(DraftTexts::new(&[vec![1, 7, 9], vec![7, 8]], 512).unwrap());
    rotated.save(directory).unwrap();
    client.save(&directory.join("client")).unwrap();
    (rotated, client)
}

#[test]
fn halves_are_read_as_they_were_written() {
    let directory = tempfile::tempdir().unwrap();
    let (rotated, client) = halves(directory.path());
    let read = RotatedModel::load(directory.path()).unwrap();
    assert_eq!((read.id(), read.prefix()), (rotated.id(), rotated.prefix()));
    assert_eq!(read.model().config, rotated.model().config);
    assert_eq!(read.model().weights.digest(), rotated.model().weights.digest());
    let own = ClientModel::load(&directory.path().join("client")).unwrap();
    assert_eq!((own.id(), own.config(), own.prefix()), (rotated.id(), &rotated.model().config, client.prefix()));
    assert_eq!(own.embedding(), &rotated.model().weights.embedding);
    let text = "Once upon a time, there was a dog.";
    let tokens = client.tokenizer().encode(text).unwrap();
    assert_eq!(own.tokenizer().encode(text).unwrap(), tokens);
    assert_eq!(own.tokenizer().decode(&tokens).unwrap(), client.tokenizer().decode(&tokens).unwrap());
    assert_eq!(own.tokenizer().ends(), client.tokenizer().ends());
    assert_eq!(own.tokenizer().chat_template(), client.tokenizer().chat_template());
    assert!(own.tokenizer().chat_template().is_some());
    assert_eq!(own.draft_texts(), client.draft_texts());
    assert_eq!(own.draft_texts().unwrap().next(&[1, 7]), Some((9, 2)));
}

#[test]
fn an_id_is_that_of_weights_and_prefix() {
    let directory = tempfile::tempdir().unwrap();
    let (rotated, _) = halves(directory.path());
    let model = rotated.model().clone();
    assert_ne!(RotatedModel::new(model.clone(), vec![]).id(), rotated.id());
    let mut other = model.clone();
    other.weights.layers[3].down[(1, 2)] += 1e-6;
    assert_ne!(RotatedModel::new(other, vec![1]).id(), rotated.id());
    assert_eq!(RotatedModel::new(model, vec![1]).id(), rotated.id());
}

#[test]
fn damaged_files_are_refused_with_what_was_found() {
    let directory = tempfile::tempdir().unwrap();
    halves(directory.path());
    fs::create_dir(directory.path().join("whole")).unwrap();
    halves(&directory.path().join("whole"));
    let path = directory.path().join("tamed.safetensors");
    let sound = fs::read(&path).unwrap();
    let refused = |bytes: &[u8], found: &str| {
        fs::write(&path, bytes).unwrap();
        let error = RotatedModel::load(directory.path()).err().unwrap().to_string();
        assert!(error.contains("tamed.safetensors") && error.contains(found), "{found}: {error}");
    };
    refused(&sound[..sound.len() - 1], "bytes");
    refused(&sound[..4], "4 bytes");
    refused(&[0xff; 64], "header");
    let mut other = sound.clone();
    let last = other.len() - 2;
    other[last] ^= 1;
    refused(&other, "another id");
    for (from, to, found) in [
        (r#""format":"llama tamed 1""#, r#""format":"llama tamed 2""#, "llama tamed 2"),
        (r#"\"width\":64"#, r#"\"width\":63"#, "as its dimensions say"),
        (r#"\"heads\":8"#, r#"\"heads\":0"#, "heads 0"),
        (r#""layers.0.query""#, r#""layers.0.quarz""#, "layers.0.query"),
        (r#""prefix":"[1]""#, r#""prefix":"[2]""#, "another id"),
    ] {
        let text = String::from_utf8_lossy(&sound[..4000]).into_owned();
        assert!(text.contains(from), "{from}: {text}");
        let place = sound.windows(from.len()).position(|part| part == from.as_bytes()).unwrap();
        let mut other = sound.clone();
        other[place..place + from.len()].copy_from_slice(to.as_bytes());
        refused(&other, found);
    }

    let client = directory.path().join("client");
    let record = fs::read_to_string(client.join("client.json")).unwrap();
    for (from, to, found) in [
        ("\"prefix\": [\n", "\"prefix\": [ 512,\n", "token 512"),
        ("\"vocabulary\": 512", "\"vocabulary\": 511", "511"),
        ("\"context\": 512", "\"context\": 0", "context 0"),
        ("\"version\": 1", "\"version\": 9", "version 9"),
    ] {
        assert!(record.contains(from), "{from}: {record}");
        fs::write(client.join("client.json"), record.replacen(from, to, 1)).unwrap();
        let error = ClientModel::load(&client).err().unwrap().to_string();
        assert!(error.contains(found), "{found}: {error}");
    }
    fs::write(client.join("client.json"), &record).unwrap();
    let path = client.join("chat_template.json");
    let template = fs::read_to_string(&path).unwrap();
    let id = RotatedModel::load(&directory.path().join("whole")).unwrap().id().to_string();
    for (from, to, found) in [
        (id.as_str(), &*"0".repeat(32), "prepare the model again"),
        ("{{ bos_token }}", "{% for %}", "compile"),
        ("\"tokens\"", "\"more\"", "more"),
    ] {
        assert!(template.contains(from), "{from}: {template}");
        fs::write(&path, template.replacen(from, to, 1)).unwrap();
        let error = ClientModel::load(&client).err().unwrap().to_string();
        assert!(error.contains("chat_template.json") && error.contains(found), "{found}: {error}");
    }
    fs::write(&path, &template).unwrap();
    let path = client.join("drafts.json");
    let texts = fs::read_to_string(&path).unwrap();
    for (from, to, found) in [
        (id.as_str(), &*"0".repeat(32), "prepare the model again"),
        ("[7,8]", "[7,512]", "token 512"),
        ("\"texts\"", "\"more\"", "more"),
    ] {
        assert!(texts.contains(from), "{from}: {texts}");
        fs::write(&path, texts.replacen(from, to, 1)).unwrap();
        let error = ClientModel::load(&client).err().unwrap().to_string();
        assert!(error.contains("drafts.json") && error.contains(found), "{found}: {error}");
    }
    fs::write(&path, &texts).unwrap();
    let tokenizer = fs::read_to_string(client.join("tokenizer.json")).unwrap();
    fs::write(client.join("tokenizer.json"), tokenizer.replacen("the", "tha", 1)).unwrap();
    let error = ClientModel::load(&client).err().unwrap().to_string();
    assert!(error.contains("tokenizer.json") && error.contains("BLAKE3"), "{error}");

    // The library panics at these.
    let read = |json: &str| Tokenizer::from_json(json.as_bytes(), None, &[]).err().unwrap();
    assert!(read(&tokenizer.replacen(r#""type":"Fuse""#, r#""type" "Fuse""#, 1)).contains("expected"));
    assert!(read(&tokenizer[..tokenizer.len() / 2]).contains("EOF"));
    let precompiled = r#"{"normalizer": {"type": "Sequence", "normalizers": [{"type": "Precompiled"}]}}"#;
    assert!(read(precompiled).contains("precompiled"));
    assert!(tokenizer.contains(r#""stop":0"#), "{tokenizer}");
    assert!(read(&tokenizer.replacen(r#""stop":0"#, r#""stop":1"#, 1)).contains("cuts off the end of tokens"));
    // It could not read again what it would write of this.
    let twice = r#"{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 1}, "merges": [["a", "b"]]}}"#;
    assert!(read(twice).contains("with id 1, which another token has too"), "{}", read(twice));
}
