//! Targets for control messages.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;
use unspoken_wire::v1::{
    AnswerStream, ApplicationDescription, ApplicationList, KeyDeclaration, KeyList, KeyState, KeyStatus, Limits,
    ModelFile, Problem, Progress, PublishedModel,
};
use unspoken_wire::{
    AnswerFrame, AnswerReader, CheckedDeclaration, MAX_CONTROL_BYTES, Message, answer_front, decode, decode_json,
    is_application_name, problem_frame, progress_frame,
};

use crate::Target;

/// `decode` of every message, on the same bytes. Protobuf has several encodings of one message, so the target
/// compares messages instead of bytes: after encoding and decoding, and after conversion to JSON, which a service
/// also sends.
pub static MESSAGES: Target = Target {
    name: "wire_messages",
    run: |data| {
        let accepted = [
            survives::<KeyDeclaration>(data),
            survives::<KeyStatus>(data),
            survives::<KeyList>(data),
            survives::<Limits>(data),
            survives::<ApplicationDescription>(data),
            survives::<ApplicationList>(data),
            survives::<Problem>(data),
            survives::<Progress>(data),
            survives_in_protobuf::<PublishedModel>(data).is_some(),
        ];
        accepted.contains(&true)
    },
    repair: |_| {},
    seeds: || {
        let limits = Limits { key_format: 1, max_key_bytes: 1 << 30, max_query_bytes: 1 << 20, max_answer_bytes: 9 };
        let status = KeyStatus {
            id: "00112233445566778899aabbccddeeff".into(),
            state: KeyState::Uploading as i32,
            application: "classify/spam".into(),
            length: 1 << 30,
            offset: 77,
            expires: "2030-03-17T17:46:40Z".into(),
        };
        let name = String::from("classify/spam");
        vec![
            declaration().encode_to_vec(),
            status.encode_to_vec(),
            KeyList { keys: vec![status.clone(), KeyStatus::default()] }.encode_to_vec(),
            limits.encode_to_vec(),
            ApplicationDescription { name: name.clone(), limits: Some(limits), description: vec![1, 2, 3] }
                .encode_to_vec(),
            ApplicationList { names: vec![name, String::new()] }.encode_to_vec(),
            problem().encode_to_vec(),
            Progress { done: 3, total: 300 }.encode_to_vec(),
            PublishedModel { files: vec![ModelFile { name: "client.json".into(), content: vec![1, 2, 3] }] }
                .encode_to_vec(),
        ]
    },
};

/// The message, if the bytes are one: the same again after encoding and decoding.
fn survives_in_protobuf<M: Message + Default + PartialEq + Debug>(data: &[u8]) -> Option<M> {
    let message = decode::<M>(data, MAX_CONTROL_BYTES).ok()?;
    assert!(data.len() <= MAX_CONTROL_BYTES);
    let bytes = message.encode_to_vec();
    let again = M::decode(bytes.as_slice()).expect("its own bytes");
    assert!(again == message && again.encode_to_vec() == bytes, "{message:?} changed in its own bytes");
    Some(message)
}

fn survives<M: Message + Default + PartialEq + Debug + Serialize + DeserializeOwned>(data: &[u8]) -> bool {
    let Some(message) = survives_in_protobuf::<M>(data) else { return false };
    let json = serde_json::to_vec(&message).expect("JSON");
    assert_eq!(serde_json::from_slice::<M>(&json).expect("its own JSON"), message);
    true
}

/// `CheckedDeclaration`, from protobuf or from JSON: the name of an accepted declaration is valid in a URL, and the
/// declaration has a length and a hash.
pub static DECLARATION: Target = Target {
    name: "wire_declaration",
    run: |data| {
        let raw = match data.first() {
            Some(b'{') => decode_json::<KeyDeclaration>(data, MAX_CONTROL_BYTES),
            _ => decode::<KeyDeclaration>(data, MAX_CONTROL_BYTES),
        };
        let Ok(checked) = raw.and_then(CheckedDeclaration::try_from) else { return false };
        let name = checked.application.as_str();
        assert!(is_application_name(name) && name.is_ascii() && name.len() <= 120 && checked.length > 0);
        assert!(name.split('/').all(|segment| !segment.is_empty() && segment != "." && segment != ".."));
        let CheckedDeclaration { application, key_format, length, blake3 } = checked.clone();
        let raw = KeyDeclaration { application, key_format, length, blake3: blake3.to_vec() };
        assert_eq!(CheckedDeclaration::try_from(raw).expect("was checked"), checked);
        true
    },
    repair: |data| {
        let Ok(mut raw) = KeyDeclaration::decode(data.as_slice()) else { return };
        raw.blake3.resize(32, 0);
        raw.length = raw.length.max(1);
        *data = raw.encode_to_vec();
    },
    seeds: || {
        let nested = KeyDeclaration { application: "a/b-c/d_e.f".into(), ..declaration() };
        let json = serde_json::to_vec(&nested).expect("JSON");
        vec![declaration().encode_to_vec(), nested.encode_to_vec(), json]
    },
};

/// Longest answer that the target of streams reads.
const MAX_ANSWER_BYTES: usize = 1000;

/// `AnswerReader`: the pieces in which a stream arrives do not matter, and a stream that is complete is the same
/// message for protobuf, with one answer or one problem at its end.
pub static ANSWER: Target = Target {
    name: "wire_answer",
    run: |data| {
        let whole = frames(data, data.len().max(1));
        // Pieces of a length that the data chooses.
        let pieces = frames(data, data.first().map_or(1, |&byte| usize::from(byte % 16) + 1));
        assert_eq!(whole, pieces);
        let Some((last, steps)) = whole.as_deref().and_then(<[AnswerFrame]>::split_last) else { return false };
        let (answer, problem) = match last {
            AnswerFrame::Progress(_) => return false,
            AnswerFrame::Answer(answer) => (answer.clone(), None),
            AnswerFrame::Problem(problem) => (Vec::new(), Some(problem.clone())),
        };
        let progress = steps.iter().map(|step| match step {
            AnswerFrame::Progress(step) => *step,
            _ => panic!("something follows the last frame"),
        });
        let message = AnswerStream { progress: progress.collect(), problem, answer };
        assert!(message.answer.len() <= MAX_ANSWER_BYTES);
        assert!(message.progress.iter().all(|step| step.done <= step.total));
        assert_eq!(AnswerStream::decode(data).expect("complete"), message);
        true
    },
    repair: |data| {
        let Ok(mut message) = AnswerStream::decode(data.as_slice()) else { return };
        let steps = message.progress.iter();
        *data = steps.flat_map(|step| progress_frame(step.done.min(step.total), step.total)).collect();
        match &mut message.problem {
            Some(problem) => {
                problem.status = 400 + problem.status % 200;
                data.extend(problem_frame(problem));
            }
            None => {
                message.answer.truncate(MAX_ANSWER_BYTES);
                data.extend(answer_front(message.answer.len()));
                data.extend(message.answer);
            }
        }
    },
    seeds: || {
        let steps = [progress_frame(0, 0), progress_frame(1, 300)].concat();
        vec![
            [steps.clone(), answer_front(200), vec![7; 200]].concat(),
            [steps, problem_frame(&problem())].concat(),
            answer_front(0),
        ]
    },
};

/// The frames of a stream that arrives in pieces of `piece_bytes` bytes, unless it is refused.
fn frames(stream: &[u8], piece_bytes: usize) -> Option<Vec<AnswerFrame>> {
    let (mut reader, mut frames) = (AnswerReader::new(MAX_ANSWER_BYTES), Vec::new());
    for mut piece in stream.chunks(piece_bytes) {
        while !piece.is_empty() {
            frames.extend(reader.read(&mut piece).ok()?);
        }
    }
    Some(frames)
}

fn problem() -> Problem {
    Problem {
        code: "too_large".into(),
        status: 413,
        message: "found more".into(),
        remedy: "send less".into(),
        retry_after_seconds: 3,
        request_id: "r-1".into(),
    }
}

fn declaration() -> KeyDeclaration {
    KeyDeclaration { application: "classify/spam".into(), key_format: 1, length: 1000, blake3: vec![7; 32] }
}
