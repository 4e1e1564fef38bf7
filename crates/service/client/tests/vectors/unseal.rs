//! `vectors/unseal.json`.

use blake3::Hasher;
use chacha20poly1305::aead::AeadInOut;
use chacha20poly1305::{KeyInit, Tag, XChaCha20Poly1305, XNonce};
use rand_core_of_voprf::{CryptoRng, RngCore};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use unspoken_oprf::{Allowance, Description, OprfClient, OprfServer, Question};
use unspoken_protocol::{
    ApplicationDescription, Call, ClientHalf, KeyGenerator, KeyLoader, Request, ServerHalf, append_checksum, checked,
};
use unspoken_symmetric_pir::{Name, RecordKey, ServiceKey, SymmetricPirError};
use voprf::{EvaluationElement, Group, Proof, Ristretto255, VoprfClient};

use crate::case::{Bytes, CLIENT, GO, Refused, is_to_be_written, other_kind, read, write};

const NAME: &str = "unseal";
const ABOUT: &str = "Sealed records: blinded names, the answer of the service, and the keys that open the records.";

const ELEMENT_BYTES: usize = 32;
const PROOF_BYTES: usize = 64;

/// A sealed database, and a client that asks for the keys of some of its records.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    server: Server,
    description: Bytes,
    /// The secret of the owner and of the service.
    private: Bytes,
    secret: Bytes,
    bundle_contents: Bytes,
    questions: Vec<Value>,
    /// For each question the scalar that blinds its name.
    blinds: Vec<Bytes>,
    query: Bytes,
    answer: Bytes,
    answers: Vec<Key>,
    /// For each question the record, and its bytes in the database.
    records: Vec<Bytes>,
    sealed: Vec<Bytes>,
    refused: Vec<Refused>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Server {
    record_bytes: u32,
    evaluations: u32,
    window_seconds: u32,
}

/// What a client derives from the output of the pseudorandom function.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Key {
    label: Bytes,
    key: Bytes,
}

/// A generator that returns the given bytes.
struct Given<'a>(&'a [u8]);

impl RngCore for Given<'_> {
    fn next_u32(&mut self) -> u32 {
        unreachable!("only bytes are taken")
    }

    fn next_u64(&mut self) -> u64 {
        unreachable!("only bytes are taken")
    }

    fn fill_bytes(&mut self, to: &mut [u8]) {
        let (taken, rest) = self.0.split_at(to.len());
        to.copy_from_slice(taken);
        self.0 = rest;
    }
}

impl CryptoRng for Given<'_> {}

/// A client of its own, which blinds names, derives keys and opens records without the crates that are tested here.
struct Reader<'a> {
    case: &'a Case,
    description: Description,
    inputs: Vec<[u8; 32]>,
    blinded: Vec<VoprfClient<Ristretto255>>,
    elements: Vec<u8>,
}

impl<'a> Reader<'a> {
    fn new(case: &'a Case) -> Self {
        let description = described(&case.description.0).unwrap();
        let input = |question: &Value| {
            let mut hasher = Hasher::new_derive_key("unspoken 2026 name of a sealed record");
            hasher.update(&description.sealing().id());
            match named(question) {
                Question::Key(ref key) => hasher.update(b"key ").update(key),
                Question::Index(ref index) => hasher.update(b"index ").update(&index.to_le_bytes()),
            };
            *hasher.finalize().as_bytes()
        };
        let inputs: Vec<[u8; 32]> = case.questions.iter().map(input).collect();
        let (mut blinded, mut elements) = (Vec::new(), Vec::new());
        for (input, Bytes(blind)) in inputs.iter().zip(&case.blinds) {
            let result = VoprfClient::blind(input, &mut Given(blind)).unwrap();
            elements.extend(result.message.serialize());
            blinded.push(result.state);
        }
        Reader { case, description, inputs, blinded, elements }
    }

    fn query(&self) -> Vec<u8> {
        let mut query = self.elements.clone();
        append_checksum(&mut query);
        query
    }

    fn read(&self, answer: &[u8]) -> Result<Vec<Key>, String> {
        let content = checked("answer", answer).map_err(|error| error.to_string())?;
        let (elements, proof) = content.split_last_chunk::<PROOF_BYTES>().unwrap();
        let element = |bytes| EvaluationElement::deserialize(bytes).unwrap();
        let elements: Vec<_> = elements.chunks_exact(ELEMENT_BYTES).map(element).collect();
        let proof = Proof::deserialize(proof).unwrap();
        let public_key = Ristretto255::deserialize_elem(&self.description.sealing().public_key()).unwrap();
        let outputs = VoprfClient::batch_finalize(&self.inputs, &self.blinded, &elements, &proof, public_key);
        let derived = |context, output: &[u8]| Bytes(blake3::derive_key(context, output).to_vec());
        let key = |output: &[u8]| Key {
            label: derived("unspoken 2026 label of a sealed record", output),
            key: derived("unspoken 2026 encryption key of a sealed record", output),
        };
        Ok(outputs.map_err(|_| SymmetricPirError::Proof.to_string())?.map(|output| key(&output.unwrap())).collect())
    }

    /// Opens the record of a question.
    fn open(&self, question: usize, sealed: &[u8]) -> Result<Vec<u8>, String> {
        let Key { label, key } = &self.case.answers[question];
        let sealing = self.description.sealing();
        let context = [&sealing.id()[..], &sealing.record_bytes().to_le_bytes(), &label.0].concat();
        let (nonce, rest) = sealed.split_first_chunk::<24>().unwrap();
        let (cipher, tag) = rest.split_last_chunk::<16>().unwrap();
        let mut plain = cipher.to_vec();
        XChaCha20Poly1305::new(key.0.as_slice().try_into().unwrap())
            .decrypt_inout_detached(&XNonce::from(*nonce), &context, plain.as_mut_slice().into(), &Tag::from(*tag))
            .map_err(|_| SymmetricPirError::Unopened.to_string())?;
        assert_eq!(plain.len(), 4 + sealing.record_bytes() as usize);
        let (length, content) = plain.split_first_chunk().unwrap();
        let (record, zeros) = content.split_at(u32::from_le_bytes(*length) as usize);
        assert!(zeros.iter().all(|&byte| byte == 0));
        Ok(record.to_vec())
    }
}

fn described(bytes: &[u8]) -> Result<Description, String> {
    Description::read(bytes, false).map_err(|error| error.to_string())
}

fn named(question: &Value) -> Question {
    match (&question["index"], &question["key"]) {
        (Value::Number(index), Value::Null) => Question::Index(index.as_u64().unwrap()),
        (Value::Null, Value::String(key)) => Question::Key(key.as_bytes().to_vec()),
        _ => panic!("{question}: needed an index or a key"),
    }
}

fn owner(private: &[u8]) -> Result<ServiceKey, String> {
    ServiceKey::from_bytes(private).map_err(|error| error.to_string())
}

/// The keys of the records, as their owner has them.
fn keys(case: &Case, owner: &ServiceKey) -> Vec<RecordKey> {
    let key = |question: &Value| match named(question) {
        Question::Key(ref key) => owner.record_key(Name::Key(key)),
        Question::Index(ref index) => owner.record_key(Name::Index(*index)),
    };
    case.questions.iter().map(|question| key(question).unwrap()).collect()
}

fn service(server: &Server, private: &[u8]) -> OprfServer {
    let allowance = Allowance::new(server.evaluations, server.window_seconds).unwrap();
    OprfServer::new(owner(private).unwrap(), allowance)
}

fn client(case: &Case, secret: Option<&[u8]>) -> Result<OprfClient, String> {
    let public_key = owner(&case.private.0).unwrap().sealing().public_key();
    let description = described(&case.description.0).unwrap();
    OprfClient::open(description, Some(public_key), secret).map_err(|error| error.to_string())
}

fn with_checksum(mut bytes: Vec<u8>) -> Option<Bytes> {
    append_checksum(&mut bytes);
    Some(Bytes(bytes))
}

fn make() -> Case {
    let server = Server { record_bytes: 32, evaluations: 1000, window_seconds: 3600 };
    let owner = ServiceKey::generate(server.record_bytes).unwrap();
    let private = owner.to_bytes();
    let questions = vec![json!({ "key": "A00" }), json!({ "key": "caf\u{e9}" }), json!({ "index": 5 })];
    let blind = |_: &Value| {
        let mut scalar = [0; 32];
        getrandom::fill(&mut scalar).unwrap();
        // Below the order of the group, which is more than 2^252.
        scalar[31] &= 0x0f;
        Bytes(scalar.to_vec())
    };
    let empty = || Bytes(Vec::new());
    let mut case = Case {
        name: "two records by key, one by index".into(),
        description: Bytes(service(&server, &private).describe()),
        server,
        private: Bytes(private.to_vec()),
        secret: empty(),
        bundle_contents: empty(),
        blinds: questions.iter().map(blind).collect(),
        questions,
        query: empty(),
        answer: empty(),
        answers: Vec::new(),
        records: [&b"cholera"[..], "na\u{ef}ve".as_bytes(), b""].map(|record| Bytes(record.to_vec())).into(),
        sealed: Vec::new(),
        refused: Vec::new(),
    };
    let seal = |(key, record): (&RecordKey, &Bytes)| Bytes(key.seal(owner.sealing(), &record.0).unwrap());
    case.sealed = keys(&case, &owner).iter().zip(&case.records).map(seal).collect();
    let client = client(&case, None).unwrap();
    case.secret = Bytes(client.secret_bytes().unwrap().to_vec());
    case.bundle_contents = Bytes(client.bundle_contents());
    case.query = Bytes(Reader::new(&case).query());
    let answer = |private: &[u8]| {
        service(&case.server, private).answer(&Request::new(CLIENT, &(), &case.query.0), &Call::default()).unwrap()
    };
    let others = answer(&ServiceKey::generate(case.server.record_bytes).unwrap().to_bytes());
    case.answer = Bytes(answer(&private));
    case.answers = Reader::new(&case).read(&case.answer.0).unwrap();
    let element = &case.query.0[..ELEMENT_BYTES];
    case.refused =
        ["description", "query", "answer"].map(|field| Refused::flipped(field, field_of(&case, field))).into();
    case.refused.extend([
        Refused { bytes: Some(other_kind()), ..Refused::new("description", "one of kind another") },
        Refused { cut: Some(case.secret.0.len() - 1), ..Refused::new("secret", "bytes") },
        Refused { error: "damaged".into(), ..Refused::flipped("private", &case.private) },
        Refused { bytes: with_checksum(vec![0; ELEMENT_BYTES]), ..Refused::new("query", "the identity") },
        Refused { bytes: with_checksum(vec![0xff; ELEMENT_BYTES]), ..Refused::new("query", "canonical encoding") },
        Refused { bytes: with_checksum([element, element].concat()), ..Refused::new("query", "an element twice") },
        Refused { bytes: with_checksum(element[1..].to_vec()), ..Refused::new("query", "bytes") },
        Refused { bytes: Some(Bytes(others)), ..Refused::new("answer", "the proof is wrong") },
        Refused { error: "cannot be opened".into(), ..Refused::flipped("sealed", &case.sealed[0]) },
        Refused { bytes: Some(case.sealed[1].clone()), ..Refused::new("sealed", "cannot be opened") },
    ]);
    case
}

/// The field that a refused input replaces: of the sealed records the first one.
fn field_of<'a>(case: &'a Case, field: &str) -> &'a Bytes {
    match field {
        "description" => &case.description,
        "private" => &case.private,
        "secret" => &case.secret,
        "query" => &case.query,
        "answer" => &case.answer,
        "sealed" => &case.sealed[0],
        other => panic!("no field {other}"),
    }
}

fn check(case: &Case) {
    let reader = Reader::new(case);
    assert_eq!(reader.query(), case.query.0);
    assert_eq!(reader.read(&case.answer.0).unwrap(), case.answers);
    let count = case.questions.len();
    assert_eq!([case.answers.len(), case.records.len(), case.sealed.len()], [count; 3]);
    for (question, (Bytes(sealed), Bytes(record))) in case.sealed.iter().zip(&case.records).enumerate() {
        assert_eq!(reader.open(question, sealed).unwrap(), *record);
    }

    // The owner has the same keys, and what it seals again can be opened.
    let owner = owner(&case.private.0).unwrap();
    let sealing = owner.sealing();
    let owned = keys(case, &owner);
    let opens = |keys: &[RecordKey]| {
        assert_eq!(keys.len(), count);
        for (question, key) in keys.iter().enumerate() {
            let Bytes(record) = &case.records[question];
            assert_eq!(key.label()[..], case.answers[question].label.0);
            assert_eq!(*key.open(sealing, &case.sealed[question].0).unwrap(), *record);
            assert_eq!(reader.open(question, &key.seal(sealing, record).unwrap()).unwrap(), *record);
        }
    };
    opens(&owned);

    let mut client = client(case, Some(&case.secret.0)).unwrap();
    assert_eq!(client.bundle_contents(), case.bundle_contents.0);
    assert!(client.is_covered_by(&case.bundle_contents.0));
    let mut bundle = Vec::new();
    client.write_keys(&mut bundle, |_, _| {}, &GO).unwrap();
    let server = service(&case.server, &case.private.0);
    assert!(server.describe() == case.description.0, "the server half describes itself otherwise; write the file");
    server.load_keys(&mut bundle.as_slice()).unwrap();
    // Only the proof is random.
    let answer = server.answer(&Request::new(CLIENT, &(), &case.query.0), &Call::default()).unwrap();
    assert_eq!(answer.len(), case.answer.0.len());
    assert_eq!(answer[..count * ELEMENT_BYTES], case.answer.0[..count * ELEMENT_BYTES]);
    assert_eq!(reader.read(&answer).unwrap(), case.answers);
    let encoded = client.encode(&case.questions.iter().map(named).collect::<Vec<_>>()).unwrap();
    let query = client.query(&encoded).unwrap();
    assert_eq!(query.len(), case.query.0.len());
    opens(
        &client.read(&server.answer(&Request::new(CLIENT, &(), &query), &Call::default()).unwrap(), &encoded).unwrap(),
    );

    for refused in &case.refused {
        let input = refused.input(field_of(case, &refused.field));
        match refused.field.as_str() {
            "description" => refused.check(described(&input).map(drop)),
            "private" => refused.check(self::owner(&input).map(drop)),
            "secret" => refused.check(self::client(case, Some(&input)).map(drop)),
            "query" => refused.check(server.answer(&Request::new(CLIENT, &(), &input), &Call::default()).map(drop)),
            "answer" => {
                refused.check(reader.read(&input).map(drop));
                assert!(client.read(&input, &encoded).is_err());
            }
            _ => {
                refused.check(reader.open(0, &input).map(drop));
                refused.check(owned[0].open(sealing, &input).map(drop));
            }
        }
    }
}

#[test]
fn records_are_unsealed_as_in_the_vectors() {
    if is_to_be_written() {
        write(NAME, ABOUT, vec![make()]);
    }
    read::<Case>(NAME).iter().for_each(check);
}
