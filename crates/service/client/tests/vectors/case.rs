//! Files of known answers, and their check by both halves of an application.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use unspoken_protocol::{
    ApplicationDescription, Call, ClientHalf, ClientId, KeyGenerator, KeyLoader, Protocol, Request, ServerHalf,
    append_description_checksum,
};

pub static GO: AtomicBool = AtomicBool::new(false);
pub const CLIENT: ClientId = ClientId::new([1; 16]);

/// Bytes, in base64.
#[derive(Clone, Debug, PartialEq)]
pub struct Bytes(pub Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64_STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        BASE64_STANDARD.decode(text).map(Bytes).map_err(serde::de::Error::custom)
    }
}

/// A file of `vectors/`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File<C> {
    format: String,
    version: u32,
    about: String,
    pub cases: Vec<C>,
}

/// One secret with one query and its answer.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub name: String,
    /// How the server half was made.
    pub server: Value,
    /// Options of the client half.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub options: Map<String, Value>,
    /// The files of the model, both halves.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub model: BTreeMap<String, Bytes>,
    pub description: Bytes,
    pub secret: Bytes,
    pub bundle_contents: Bytes,
    pub questions: Vec<Value>,
    pub query: Bytes,
    pub answer: Bytes,
    /// What the answer decrypts to.
    pub answers: Vec<Value>,
    /// Largest difference of a number that another client decrypts.
    pub tolerance: f64,
    /// What the model answers in the clear, and a bound of the difference to encrypted answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clear: Option<Clear>,
    /// The session of the query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Session>,
    pub refused: Vec<Refused>,
}

/// What a client asks before and after a query in a session. None of it is random.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Session {
    pub begin: Exchange,
    pub end: Exchange,
    /// What a service answers to the query of the case when the session has ended.
    pub lost: Lost,
}

/// An answer, and what it says.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lost {
    pub answer: Bytes,
    pub answers: Vec<Value>,
}

/// A query, its answer, and what that says.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exchange {
    pub query: Bytes,
    pub answer: Bytes,
    pub answers: Vec<Value>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clear {
    pub answers: Vec<Value>,
    pub error: f64,
}

/// An input to refuse, in place of the input of the case.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refused {
    /// The field of the case: description, secret, query or answer.
    pub field: String,
    /// The field's bytes with the lowest bit of this byte flipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flip: Option<usize>,
    /// The field's bytes without those from here on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<usize>,
    /// Other bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Bytes>,
    /// Part of the message of this implementation.
    pub error: String,
}

impl Refused {
    /// Without an input.
    pub fn new(field: &str, error: &str) -> Self {
        Refused { field: field.into(), flip: None, cut: None, bytes: None, error: error.into() }
    }

    /// One flipped bit of a field, near its middle.
    pub fn flipped(field: &str, bytes: &Bytes) -> Self {
        Refused { flip: Some(bytes.0.len() / 2), ..Refused::new(field, "damaged") }
    }

    /// The input.
    pub fn input(&self, sound: &Bytes) -> Vec<u8> {
        match (self.flip, self.cut, &self.bytes) {
            (Some(at), None, None) => {
                let mut bytes = sound.0.clone();
                bytes[at] ^= 1;
                bytes
            }
            (None, Some(at), None) => sound.0[..at].to_vec(),
            (None, None, Some(bytes)) => bytes.0.clone(),
            _ => panic!("{}: needed one of flip, cut and bytes", self.field),
        }
    }

    /// Checks that reading failed for the stated reason.
    pub fn check<E: Display>(&self, result: Result<(), E>) {
        let error = result.map_err(|error| error.to_string()).expect_err(&self.field);
        assert!(error.contains(&self.error), "{}: found {error:?}, needed {:?}", self.field, self.error);
    }
}

/// An application with known answers.
pub trait Known {
    const NAME: &'static str;
    const ABOUT: &'static str;
    type Client: ClientHalf;
    type Server: ServerHalf;
    /// A question that is owned.
    type Asked: Borrow<<Self::Client as ClientHalf>::Question>;

    /// Numbers that were decrypted from the same answer with the same secret differ by less.
    const TOLERANCE: f64 = 1e-12;

    /// Part of the message about an answer that is for another secret, if a client notices that.
    const OTHER_SECRET: Option<&'static str> = Some("this secret key does not open");

    /// Cases to make: name, options of the server half and of the client half, questions, and the files of the model.
    fn plans() -> Vec<Plan>;
    fn server(case: &Case) -> Self::Server;
    fn model(case: &Case) -> <Self::Client as ClientHalf>::Model;
    fn question(question: &Value) -> Self::Asked;
    fn answer(answer: <Self::Client as ClientHalf>::Answer) -> Value;
    /// The answers in the clear, and the bound of the error that the client knows.
    fn clear(_case: &Case, _client: &Self::Client) -> Option<Clear> {
        None
    }
    /// The questions that begin and end the session of a question.
    fn session(_question: &Value) -> Option<[Self::Asked; 2]> {
        None
    }
    /// Inputs to refuse, besides the inputs that every application refuses.
    fn refused(_case: &Case) -> Vec<Refused> {
        Vec::new()
    }
}

/// What a case is made from.
pub struct Plan {
    pub name: &'static str,
    pub server: Value,
    pub options: Map<String, Value>,
    pub model: BTreeMap<String, Bytes>,
    pub questions: Vec<Value>,
}

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../vectors").join(format!("{name}.json"))
}

pub fn is_to_be_written() -> bool {
    std::env::var_os("UNSPOKEN_WRITE_VECTORS").is_some()
}

pub fn write<C: Serialize>(name: &str, about: &str, cases: Vec<C>) {
    let file = File { format: format!("unspoken-vectors/{name}"), version: 1, about: about.into(), cases };
    std::fs::write(path(name), serde_json::to_string_pretty(&file).unwrap() + "\n").unwrap();
}

pub fn read<C: DeserializeOwned>(name: &str) -> Vec<C> {
    let file: File<C> = serde_json::from_slice(&std::fs::read(path(name)).unwrap()).unwrap();
    assert_eq!((file.format, file.version), (format!("unspoken-vectors/{name}"), 1));
    assert!(!file.about.is_empty() && !file.cases.is_empty());
    file.cases
}

/// The files of a directory.
pub fn files_of(directory: &Path) -> BTreeMap<String, Bytes> {
    let file = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.unwrap().path();
        (path.file_name().unwrap().to_string_lossy().into_owned(), Bytes(std::fs::read(path).unwrap()))
    };
    std::fs::read_dir(directory).unwrap().map(file).collect()
}

/// The files of a case's model, in a new directory.
pub fn directory_of(case: &Case) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, Bytes(content)) in &case.model {
        std::fs::write(directory.path().join(name), content).unwrap();
    }
    directory
}

fn open<K: Known>(case: &Case, description: &[u8], stored: Option<&[u8]>) -> Result<K::Client, String> {
    let description = <K::Client as ClientHalf>::Description::read(description, true).map_err(|e| e.to_string())?;
    K::Client::open(description, K::model(case), stored).map_err(|error| error.to_string())
}

fn encoded<K: Known>(case: &Case, client: &K::Client) -> Vec<<K::Client as ClientHalf>::Encoded> {
    let questions: Vec<K::Asked> = case.questions.iter().map(K::question).collect();
    client.encode(&questions).unwrap()
}

fn read_answer<K: Known>(case: &Case, client: &K::Client, answer: &[u8]) -> Result<Vec<Value>, String> {
    client.check_answer(answer, case.questions.len()).map_err(|error| error.to_string())?;
    let answers = client.read(answer, &encoded::<K>(case, client)).map_err(|error| error.to_string())?;
    Ok(answers.into_iter().map(K::answer).collect())
}

fn new_query<K: Known>(case: &Case, client: &mut K::Client) -> Vec<u8> {
    let encoded = encoded::<K>(case, client);
    client.query(&encoded).unwrap()
}

/// Asks a question of a session.
fn exchange<K: Known>(client: &mut K::Client, question: &K::Asked, answer: impl FnOnce(&[u8]) -> Vec<u8>) -> Exchange {
    let encoded = client.encode(std::slice::from_ref(question)).unwrap();
    let query = client.query(&encoded).unwrap();
    let answer = answer(&query);
    let answers = client.read(&answer, &encoded).unwrap().into_iter().map(K::answer).collect();
    Exchange { query: Bytes(query), answer: Bytes(answer), answers }
}

fn loaded_keys<K: Known>(server: &K::Server, client: &K::Client) -> <K::Server as KeyLoader>::Keys {
    let mut bundle = Vec::new();
    client.write_keys(&mut bundle, |_, _| {}, &GO).unwrap();
    assert_eq!(bundle.len() as u64, client.key_bytes());
    server.load_keys(&mut bundle.as_slice()).unwrap()
}

/// A sound description of an application of another kind.
pub fn other_kind() -> Bytes {
    let mut description = Protocol { kind: "another", version: 1 }.first_field();
    append_description_checksum(&mut description);
    Bytes(description)
}

fn make<K: Known>(plan: Plan) -> Case {
    let Plan { name, server, options, model, questions } = plan;
    let empty = || Bytes(Vec::new());
    let mut case = Case {
        name: name.into(),
        server,
        options,
        model,
        description: empty(),
        secret: empty(),
        bundle_contents: empty(),
        questions,
        query: empty(),
        answer: empty(),
        answers: Vec::new(),
        tolerance: K::TOLERANCE,
        clear: None,
        session: None,
        refused: Vec::new(),
    };
    let server = K::server(&case);
    case.description = Bytes(server.describe());
    let mut client = open::<K>(&case, &case.description.0, None).unwrap();
    case.secret = Bytes(client.secret_bytes().unwrap().to_vec());
    case.bundle_contents = Bytes(client.bundle_contents());
    case.query = Bytes(new_query::<K>(&case, &mut client));
    let keys = loaded_keys::<K>(&server, &client);
    let answer = |query: &[u8]| server.answer(&Request::new(CLIENT, &keys, query), &Call::default()).unwrap();
    if let Some([begin, end]) = K::session(&case.questions[0]) {
        let begin = exchange::<K>(&mut client, &begin, answer);
        case.answer = Bytes(answer(&case.query.0));
        let end = exchange::<K>(&mut client, &end, answer);
        let lost = answer(&case.query.0);
        let answers = read_answer::<K>(&case, &client, &lost).unwrap();
        case.session = Some(Session { begin, end, lost: Lost { answer: Bytes(lost), answers } });
    } else {
        case.answer = Bytes(answer(&case.query.0));
    }
    case.answers = read_answer::<K>(&case, &client, &case.answer.0).unwrap();
    case.clear = K::clear(&case, &client);
    case.refused = vec![
        Refused::flipped("description", &case.description),
        Refused { bytes: Some(other_kind()), ..Refused::new("description", "one of kind another") },
        Refused { cut: Some(case.secret.0.len() - 1), ..Refused::new("secret", "bytes") },
        Refused::flipped("query", &case.query),
        Refused::flipped("answer", &case.answer),
    ];
    if let Some(error) = K::OTHER_SECRET {
        let another = open::<K>(&case, &case.description.0, None).unwrap().secret_bytes().unwrap();
        let bytes = Some(Bytes(another.to_vec()));
        case.refused.push(Refused { bytes, ..Refused::new("secret", error) });
    }
    case.refused.extend(K::refused(&case));
    case
}

/// Checks the file of an application, after it is written if that is asked for.
pub fn check<K: Known>() {
    if is_to_be_written() {
        write(K::NAME, K::ABOUT, K::plans().into_iter().map(make::<K>).collect());
    }
    for case in read::<Case>(K::NAME) {
        check_case::<K>(&case);
    }
}

fn check_case<K: Known>(case: &Case) {
    let Case { name, description, secret, answer, .. } = case;
    let insecure = <K::Client as ClientHalf>::Description::read(&description.0, false);
    let error = insecure.map(drop).map_err(|error| error.to_string()).expect_err(name);
    assert!(error.contains("needed a secure one"), "{name}: {error}");
    let mut client = open::<K>(case, &description.0, Some(&secret.0)).unwrap();
    assert_eq!(client.bundle_contents(), case.bundle_contents.0, "{name}");
    assert!(client.is_covered_by(&case.bundle_contents.0));
    let answers = read_answer::<K>(case, &client, &answer.0).unwrap();
    assert_close(name, &answers, &case.answers, case.tolerance);
    let (expected, error) = match &case.clear {
        Some(clear) => (&clear.answers, clear.error),
        None => (&case.answers, 0.0),
    };
    assert_close(name, &answers, expected, error);

    // A service with this model, and new keys of this secret.
    let server = K::server(case);
    assert!(server.describe() == description.0, "{name}: the server half describes itself otherwise; write the file");
    let keys = loaded_keys::<K>(&server, &client);
    let fresh = new_query::<K>(case, &mut client);
    assert_eq!(fresh.len(), case.query.0.len(), "{name}");
    let answer_to = |query: &[u8]| server.answer(&Request::new(CLIENT, &keys, query), &Call::default()).unwrap();
    let session = case.session.as_ref().zip(K::session(&case.questions[0]));
    assert_eq!(session.is_some(), case.session.is_some(), "{name}");
    for query in [&case.query.0, &fresh] {
        if let Some((Session { begin, .. }, [question, _])) = &session {
            assert_eq!(exchange::<K>(&mut client, question, answer_to), *begin, "{name}");
        }
        let answer = answer_to(query);
        assert_close(name, &read_answer::<K>(case, &client, &answer).unwrap(), expected, error);
        if let Some((Session { end, lost, .. }, [_, question])) = &session {
            assert_eq!(exchange::<K>(&mut client, question, answer_to), *end, "{name}");
            assert_eq!(answer_to(query), lost.answer.0, "{name}");
            assert_eq!(read_answer::<K>(case, &client, &lost.answer.0).unwrap(), lost.answers, "{name}");
        }
    }

    for refused in &case.refused {
        match refused.field.as_str() {
            "description" => {
                let input = refused.input(description);
                refused.check(open::<K>(case, &input, Some(&secret.0)).map(drop));
            }
            // A malformed one is refused at once, another one with the answer.
            "secret" => {
                let opened = open::<K>(case, &description.0, Some(&refused.input(secret)));
                refused.check(opened.and_then(|other| read_answer::<K>(case, &other, &answer.0)).map(drop));
            }
            "query" => refused.check(
                server.answer(&Request::new(CLIENT, &keys, &refused.input(&case.query)), &Call::default()).map(drop),
            ),
            "answer" => refused.check(read_answer::<K>(case, &client, &refused.input(answer)).map(drop)),
            other => panic!("{name}: no field {other}"),
        }
    }
}

/// Checks that all numbers agree up to `tolerance`, and everything else exactly.
pub fn assert_close(name: &str, found: &[Value], expected: &[Value], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{name}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(is_close(found, expected, tolerance), "{name}: found {found}, needed {expected} up to {tolerance:e}");
    }
}

fn is_close(found: &Value, expected: &Value, tolerance: f64) -> bool {
    match (found, expected) {
        (Value::Number(found), Value::Number(expected)) => {
            found.as_f64().zip(expected.as_f64()).is_some_and(|(found, expected)| (found - expected).abs() <= tolerance)
        }
        (Value::Array(found), Value::Array(expected)) => {
            found.len() == expected.len()
                && found.iter().zip(expected).all(|(found, expected)| is_close(found, expected, tolerance))
        }
        (Value::Object(found), Value::Object(expected)) => {
            found.len() == expected.len()
                && found
                    .iter()
                    .all(|(key, found)| expected.get(key).is_some_and(|expected| is_close(found, expected, tolerance)))
        }
        (found, expected) => found == expected,
    }
}
