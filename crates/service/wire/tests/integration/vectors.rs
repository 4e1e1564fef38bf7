//! The control messages of `vectors/wire.json`, which other clients read too.
//!
//! `UNSPOKEN_WRITE_VECTORS=1 cargo test -p unspoken-wire --test integration vectors` writes the file.

use std::collections::BTreeSet;
use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use unspoken_wire::v1::{
    ApplicationDescription, ApplicationList, KeyDeclaration, KeyList, KeyState, KeyStatus, Limits, ModelFile, Problem,
    Progress, PublishedModel,
};
use unspoken_wire::{
    AnswerFrame, AnswerReader, CheckedDeclaration, MAX_CONTROL_BYTES, Message, ProblemCode, WireError, answer_front,
    decode, decode_json, problem_frame, progress_frame,
};

/// Longest answer of the streams, in bytes.
const MAX_ANSWER_BYTES: usize = 64;

const ABOUT: &str = "Control messages between client and service, in JSON and protobuf, and inputs to refuse.";

/// `vectors/wire.json`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Vectors {
    format: String,
    version: u32,
    about: String,
    /// Longest answer that is read from a stream.
    most_answer_bytes: usize,
    messages: Vec<Entry>,
    refused: Vec<Refused>,
    problem_codes: Vec<CodeEntry>,
}

/// A message in its two forms.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    message: String,
    /// The form in JSON; null for messages that are never sent so.
    json: Value,
    /// What a message without a form in JSON says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content: Option<Value>,
    /// In hexadecimal digits, as in `also`.
    protobuf: String,
    /// Other bytes that are read as the same message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    also: Vec<String>,
}

/// An input that must be refused: a text in JSON, or protobuf.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Refused {
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    json: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    protobuf: Option<String>,
    reason: String,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CodeEntry {
    code: String,
    status: u16,
}

/// Reads protobuf and returns the form in JSON, or the content, and the bytes that this code writes.
fn read_protobuf(message: &str, bytes: &[u8]) -> Result<(Value, Vec<u8>), String> {
    fn forms<M: Message + Default + Serialize>(bytes: &[u8]) -> Result<(Value, Vec<u8>), WireError> {
        let message: M = decode(bytes, MAX_CONTROL_BYTES)?;
        Ok((serde_json::to_value(&message).unwrap(), message.encode_to_vec()))
    }
    let read = match message {
        "KeyDeclaration" => {
            let declared = decode::<KeyDeclaration>(bytes, MAX_CONTROL_BYTES);
            let checked = declared.and_then(CheckedDeclaration::try_from);
            checked.and_then(|_| forms::<KeyDeclaration>(bytes))
        }
        "KeyStatus" => forms::<KeyStatus>(bytes),
        "KeyList" => forms::<KeyList>(bytes),
        "Limits" => forms::<Limits>(bytes),
        "ApplicationDescription" => forms::<ApplicationDescription>(bytes),
        "ApplicationList" => forms::<ApplicationList>(bytes),
        "Problem" => forms::<Problem>(bytes),
        "PublishedModel" => decode(bytes, MAX_CONTROL_BYTES)
            .map(|model: PublishedModel| (content_of_model(&model), model.encode_to_vec())),
        "AnswerStream" => return read_stream(bytes),
        other => panic!("no message {other}"),
    };
    read.map_err(|error| error.to_string())
}

/// Reads a message in JSON and returns its protobuf.
fn read_json(message: &str, text: &[u8]) -> Result<Vec<u8>, String> {
    fn bytes<M: Message + DeserializeOwned>(text: &[u8]) -> Result<Vec<u8>, WireError> {
        Ok(decode_json::<M>(text, MAX_CONTROL_BYTES)?.encode_to_vec())
    }
    let read = match message {
        "KeyDeclaration" => {
            let declared = decode_json::<KeyDeclaration>(text, MAX_CONTROL_BYTES);
            let checked = declared.and_then(CheckedDeclaration::try_from);
            checked.and_then(|_| bytes::<KeyDeclaration>(text))
        }
        "KeyStatus" => bytes::<KeyStatus>(text),
        "KeyList" => bytes::<KeyList>(text),
        "Limits" => bytes::<Limits>(text),
        "ApplicationDescription" => bytes::<ApplicationDescription>(text),
        "ApplicationList" => bytes::<ApplicationList>(text),
        "Problem" => bytes::<Problem>(text),
        other => panic!("{other} has no form in JSON"),
    };
    read.map_err(|error| error.to_string())
}

fn content_of_model(model: &PublishedModel) -> Value {
    let file = |file: &ModelFile| json!({ "name": file.name, "content": BASE64_STANDARD.encode(&file.content) });
    json!({ "files": model.files.iter().map(file).collect::<Vec<_>>() })
}

/// Reads a stream, byte by byte, to its last frame.
fn read_stream(stream: &[u8]) -> Result<(Value, Vec<u8>), String> {
    let (mut reader, mut frames, mut written) = (AnswerReader::new(MAX_ANSWER_BYTES), Vec::new(), Vec::new());
    let mut ended = false;
    for byte in stream.chunks(1) {
        match reader.read(&mut &byte[..]).map_err(|error| error.to_string())? {
            Some(AnswerFrame::Progress(Progress { done, total })) => {
                frames.push(json!({ "progress": { "done": done, "total": total } }));
                written.extend(progress_frame(done, total));
            }
            Some(AnswerFrame::Problem(problem)) => {
                frames.push(json!({ "problem": problem }));
                written.extend(problem_frame(&problem));
                ended = true;
            }
            Some(AnswerFrame::Answer(answer)) => {
                frames.push(json!({ "answer": BASE64_STANDARD.encode(&answer) }));
                written.extend(answer_front(answer.len()));
                written.extend(answer);
                ended = true;
            }
            None => {}
        }
    }
    if ended { Ok((json!({ "frames": frames }), written)) } else { Err("no last frame".into()) }
}

fn unhex(text: &str) -> Vec<u8> {
    hex::decode(text).unwrap()
}

fn codes() -> Vec<CodeEntry> {
    let entry = |code: &ProblemCode| CodeEntry { code: code.name().into(), status: code.status() };
    ProblemCode::ALL.iter().map(entry).collect()
}

#[test]
fn every_control_message_has_these_forms() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../vectors/wire.json");
    if std::env::var_os("UNSPOKEN_WRITE_VECTORS").is_some() {
        std::fs::write(&path, serde_json::to_string_pretty(&vectors()).unwrap() + "\n").unwrap();
    }
    let vectors: Vectors = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!((vectors.format.as_str(), vectors.version), ("unspoken-vectors/wire", 1));
    assert_eq!(vectors.most_answer_bytes, MAX_ANSWER_BYTES);
    for Entry { message, json, content, protobuf, also } in &vectors.messages {
        let read = read_protobuf(message, &unhex(protobuf));
        let (found, written) = read.unwrap_or_else(|error| panic!("{message}, {protobuf}: {error}"));
        assert_eq!(&found, content.as_ref().unwrap_or(json), "{message}");
        assert_eq!(&hex::encode(written), protobuf, "{message}: {found}");
        match content {
            None => {
                let written = read_json(message, json.to_string().as_bytes()).unwrap();
                assert_eq!(&hex::encode(written), protobuf, "{json}");
            }
            Some(_) => assert!(json.is_null(), "{message}"),
        }
        for other in also {
            assert_eq!(read_protobuf(message, &unhex(other)).unwrap().0, found, "{message}: {other}");
        }
    }
    for Refused { message, json, protobuf, reason } in &vectors.refused {
        match (json, protobuf) {
            (Some(text), None) => assert!(read_json(message, text.as_bytes()).is_err(), "{message}, {reason}: {text}"),
            (None, Some(bytes)) => {
                assert!(read_protobuf(message, &unhex(bytes)).is_err(), "{message}, {reason}: {bytes}");
            }
            _ => panic!("{message}, {reason}: needed one input"),
        }
    }
    assert_eq!(vectors.problem_codes, codes());
    let names: BTreeSet<&str> = vectors.messages.iter().map(|entry| entry.message.as_str()).collect();
    let refused: BTreeSet<&str> = vectors.refused.iter().map(|entry| entry.message.as_str()).collect();
    assert_eq!((names.len(), refused), (9, names));
}

/// What the file is made of.
fn vectors() -> Vectors {
    Vectors {
        format: "unspoken-vectors/wire".into(),
        version: 1,
        about: ABOUT.into(),
        most_answer_bytes: MAX_ANSWER_BYTES,
        messages: messages(),
        refused: refused(),
        problem_codes: codes(),
    }
}

fn declaration() -> KeyDeclaration {
    KeyDeclaration { application: "classify/spam".into(), key_format: 3, length: 1000, blake3: (0..32).collect() }
}

fn status(state: KeyState) -> KeyStatus {
    KeyStatus {
        id: "00112233445566778899aabbccddeeff".into(),
        state: state.into(),
        application: "classify/spam".into(),
        length: 102_138_764,
        offset: 4_194_304,
        expires: "2027-01-31T12:00:00Z".into(),
    }
}

fn limits() -> Limits {
    Limits { key_format: 3, max_key_bytes: 1 << 40, max_query_bytes: 8_159_564, max_answer_bytes: 300 }
}

fn problem() -> Problem {
    Problem {
        code: "queue_full".into(),
        status: 503,
        message: "32 requests wait, needed fewer; \"é\" and \n are text".into(),
        remedy: "ask again later".into(),
        retry_after_seconds: 2,
        request_id: "r-1_a".into(),
    }
}

fn entry(message: &str, value: &(impl Message + Serialize), also: &[Vec<u8>]) -> Entry {
    Entry {
        message: message.into(),
        json: serde_json::to_value(value).unwrap(),
        content: None,
        protobuf: hex::encode(value.encode_to_vec()),
        also: also.iter().map(hex::encode).collect(),
    }
}

fn stream(frames: &[Vec<u8>]) -> Entry {
    let protobuf = frames.concat();
    let content = Some(read_stream(&protobuf).unwrap().0);
    Entry { message: "AnswerStream".into(), json: Value::Null, content, protobuf: hex::encode(protobuf), also: vec![] }
}

fn answer_frame(answer: &[u8]) -> Vec<u8> {
    [answer_front(answer.len()), answer.to_vec()].concat()
}

fn messages() -> Vec<Entry> {
    let whole = declaration().encode_to_vec();
    // A field that is unknown, a field given twice of which the last counts, and another order of fields.
    let name_bytes = 2 + declaration().application.len();
    let others = [
        [&whole[..], b"\x7a\x03new"].concat(),
        [b"\x18\x07", &whole[..]].concat(),
        [&whole[name_bytes..], &whole[..name_bytes]].concat(),
    ];
    let largest = KeyDeclaration { length: (1 << 53) - 1, key_format: u32::MAX, ..declaration() };
    let ready = status(KeyState::Ready);
    let keys = vec![ready.clone(), KeyStatus { id: "f".repeat(32), ..status(KeyState::Uploading) }];
    let described = ApplicationDescription {
        name: "digits/mnist".into(),
        limits: Some(limits()),
        description: vec![0x0a, 0xfb, 0xff, 0x00],
    };
    let file = |name: &str, content: &[u8]| ModelFile { name: name.into(), content: content.to_vec() };
    let model = PublishedModel { files: vec![file("client.json", b"{}"), file("client.safetensors", &[0, 255])] };
    let model = Entry {
        message: "PublishedModel".into(),
        json: Value::Null,
        content: Some(content_of_model(&model)),
        protobuf: hex::encode(model.encode_to_vec()),
        also: Vec::new(),
    };
    vec![
        entry("KeyDeclaration", &declaration(), &others),
        entry("KeyDeclaration", &largest, &[]),
        entry("KeyStatus", &status(KeyState::Uploading), &[]),
        entry("KeyStatus", &ready, &[]),
        // No field has another value than 0 on the wire; in JSON all are there.
        entry("KeyStatus", &KeyStatus { offset: 0, ..status(KeyState::Uploading) }, &[]),
        entry("KeyList", &KeyList { keys }, &[]),
        entry("KeyList", &KeyList::default(), &[]),
        entry("Limits", &limits(), &[]),
        entry("ApplicationDescription", &described, &[]),
        entry("ApplicationList", &ApplicationList { names: vec!["classify/spam".into(), "pir/icd10".into()] }, &[]),
        entry("ApplicationList", &ApplicationList::default(), &[]),
        entry("Problem", &problem(), &[]),
        entry("Problem", &Problem { retry_after_seconds: 0, code: "not_found".into(), status: 404, ..problem() }, &[]),
        model,
        stream(&[progress_frame(0, 0), progress_frame(1, 3), progress_frame(300, 300), answer_frame(b"answer")]),
        stream(&[answer_frame(&[])]),
        stream(&[progress_frame(1, 3), problem_frame(&problem())]),
    ]
}

fn refused() -> Vec<Refused> {
    let json = |message: &str, text: String, reason: &str| Refused {
        message: message.into(),
        json: Some(text),
        protobuf: None,
        reason: reason.into(),
    };
    let protobuf = |message: &str, bytes: Vec<u8>, reason: &str| Refused {
        message: message.into(),
        json: None,
        protobuf: Some(hex::encode(bytes)),
        reason: reason.into(),
    };
    let text = |value: Value| value.to_string();
    let with = |message: Value, field: &str, value: Value| {
        let mut changed = message;
        changed[field] = value;
        changed.to_string()
    };
    let (declared, hash) = (json!(declaration()), hex::encode(declaration().blake3));
    let change = |field: &str, value: Value| with(declared.clone(), field, value);
    let without_length = json!({ "application": "classify/spam", "key_format": 3, "blake3": hash });
    let twice = declared.to_string().replace("\"length\":1000", "\"length\":1000,\"length\":1000");
    let named = |application: &str| KeyDeclaration { application: application.into(), ..declaration() }.encode_to_vec();
    let described = json!(ApplicationDescription { name: "a".into(), limits: Some(limits()), description: vec![1] });
    vec![
        json("KeyDeclaration", text(without_length), "a field is missing"),
        json("KeyDeclaration", change("lenght", json!(1)), "a field is unknown"),
        json("KeyDeclaration", twice, "a field is given twice"),
        json("KeyDeclaration", change("length", json!("1000")), "a number is a text"),
        json("KeyDeclaration", change("length", json!(-1)), "a number is negative"),
        json("KeyDeclaration", change("length", json!(1.5)), "a number is not whole"),
        json("KeyDeclaration", change("length", json!(0)), "a bundle has at least one byte"),
        json("KeyDeclaration", change("key_format", json!(1u64 << 32)), "a number has more than 32 bits"),
        json("KeyDeclaration", change("blake3", json!(hash.to_uppercase())), "digits are not lower-case"),
        json("KeyDeclaration", change("blake3", json!(format!("0x{hash}"))), "digits have a prefix"),
        json("KeyDeclaration", change("blake3", json!(hash[2..])), "a hash has 32 bytes"),
        json("KeyDeclaration", change("application", json!("../keys")), "a name has no empty or dotted segment"),
        json("KeyDeclaration", change("application", json!("Classify/spam")), "a name has no capitals"),
        json("KeyDeclaration", change("application", json!("a".repeat(121))), "a name has at most 120 bytes"),
        json("KeyDeclaration", declared.to_string()[..50].into(), "the JSON is cut off"),
        json("KeyDeclaration", text(json!(["classify/spam", 3, 1000, hash])), "an array is not an object"),
        protobuf("KeyDeclaration", declaration().encode_to_vec()[..30].to_vec(), "the message is cut off"),
        protobuf("KeyDeclaration", named("a//b"), "a name has no empty or dotted segment"),
        protobuf("KeyDeclaration", named(""), "a name has at least one segment"),
        protobuf(
            "KeyDeclaration",
            KeyDeclaration { length: 0, ..declaration() }.encode_to_vec(),
            "a bundle has at least one byte",
        ),
        protobuf(
            "KeyDeclaration",
            KeyDeclaration { blake3: vec![9; 31], ..declaration() }.encode_to_vec(),
            "a hash has 32 bytes",
        ),
        protobuf("KeyDeclaration", b"\x08\x01".to_vec(), "a field has another wire type"),
        json("KeyStatus", with(json!(status(KeyState::Ready)), "state", json!(2)), "a known state is its name"),
        json("KeyStatus", with(json!(status(KeyState::Ready)), "state", json!("Ready")), "no state has this name"),
        protobuf("KeyStatus", b"\x0a\x02\xff\xfe".to_vec(), "a text is not UTF-8"),
        json("KeyList", "[[]]".into(), "an array is not an object"),
        protobuf("KeyList", b"\x0a\x05\x0a".to_vec(), "the message is cut off"),
        json("Limits", text(json!({ "key_format": 1 })), "fields are missing"),
        protobuf("Limits", b"\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01".to_vec(), "a varint is too long"),
        json("ApplicationDescription", with(described.clone(), "description", json!("+_8=")), "other base64"),
        json("ApplicationDescription", with(described.clone(), "description", json!("+/8")), "base64 without `=`"),
        json("ApplicationDescription", with(described, "description", json!([1])), "bytes are not base64"),
        protobuf("ApplicationDescription", b"\x1a\xff\xff\xff\xff\x0f\x00".to_vec(), "a length is over the message's"),
        json("ApplicationList", text(json!({ "names": "a" })), "a list is a text"),
        json("ApplicationList", text(json!([["a"]])), "an array is not an object"),
        protobuf("ApplicationList", b"\x0a\x01\xff".to_vec(), "a text is not UTF-8"),
        json("Problem", with(json!(problem()), "status", json!(null)), "a number is null"),
        protobuf("Problem", b"\x12\x01\x00".to_vec(), "a field has another wire type"),
        protobuf("PublishedModel", b"\x0a\x04\x0a\x05".to_vec(), "the message is cut off"),
        protobuf("AnswerStream", progress_frame(1, 2), "a stream ends with an answer or a problem"),
        protobuf("AnswerStream", progress_frame(3, 2), "more steps are done than there are"),
        protobuf("AnswerStream", [progress_frame(1, 2), b"\x22\x00".to_vec()].concat(), "no frame has this tag"),
        protobuf("AnswerStream", [answer_frame(b"a"), progress_frame(1, 2)].concat(), "a frame follows the last one"),
        protobuf("AnswerStream", answer_frame(&[0; MAX_ANSWER_BYTES + 1]), "the answer is too long"),
        protobuf("AnswerStream", answer_frame(b"answer")[..5].to_vec(), "the answer is cut off"),
        protobuf(
            "AnswerStream",
            problem_frame(&Problem { status: 200, ..problem() }),
            "the status of a problem is one of 400 to 599",
        ),
    ]
}
