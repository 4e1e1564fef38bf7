//! Both halves against each other.

#[path = "../../protocol/tests/damage/mod.rs"]
mod damage;

use std::sync::atomic::AtomicBool;

use unspoken_oprf::{Allowance, Description, OprfClient, OprfError, OprfServer, Question};
use unspoken_protocol::{
    ApplicationDescription, ApplicationError, Call, ClientHalf, ClientId, ErrorKind, KeyGenerator, KeyLoader, Request,
    ServerHalf,
};
use unspoken_symmetric_pir::{Name, RecordKey, ServiceKey, SymmetricPirError};

static GO: AtomicBool = AtomicBool::new(false);
const CLIENT: ClientId = ClientId::new([1; 16]);
const OTHER: ClientId = ClientId::new([2; 16]);

/// The owner's copy of a key, and a service with it: `evaluations` evaluations in a day.
fn service(evaluations: u32) -> (ServiceKey, OprfServer) {
    let owner = ServiceKey::generate(64).unwrap();
    let copy = ServiceKey::from_bytes(&owner.to_bytes()).unwrap();
    (owner, OprfServer::new(copy, Allowance::new(evaluations, 24 * 3600).unwrap()))
}

fn client(server: &OprfServer) -> OprfClient {
    let description = Description::read(&server.describe(), false).unwrap();
    OprfClient::open(description, None, None).unwrap()
}

fn keys(names: &[&str]) -> Vec<Question> {
    names.iter().map(|name| Question::Key(name.as_bytes().to_vec())).collect()
}

fn ask(server: &OprfServer, id: ClientId, questions: &[Question]) -> Result<Vec<RecordKey>, OprfError> {
    let mut client = client(server);
    let encoded = client.encode(questions)?;
    let query = client.query(&encoded)?;
    assert_eq!(query.len(), client.query_bytes(questions.len()));
    let answer = server.answer(&Request::new(id, &(), &query), &Call::default())?;
    assert_eq!(answer.len(), client.answer_bytes(questions.len()));
    client.check_answer(&answer, questions.len())?;
    client.read(&answer, &encoded)
}

#[test]
fn every_client_registers_with_a_bundle_of_its_own() {
    let (_, server) = service(100);
    let bundle = |client: &OprfClient| {
        let mut bytes = Vec::new();
        client.write_keys(&mut bytes, |_, _| (), &GO).unwrap();
        assert_eq!(bytes.len() as u64, client.key_bytes());
        server.load_keys(&mut bytes.as_slice()).unwrap();
        bytes
    };
    let (first, second) = (client(&server), client(&server));
    assert_ne!(bundle(&first), bundle(&second));
    // A stored client has the bundle of before.
    let stored = first.secret_bytes().unwrap();
    let again = OprfClient::open(first.description().clone(), None, Some(&stored)).unwrap();
    assert_eq!(bundle(&again), bundle(&first));
    assert!(OprfClient::open(first.description().clone(), None, Some(&stored[1..])).is_err());
}

#[test]
fn a_client_gets_the_keys_of_the_owner() {
    let (owner, server) = service(100);
    let mut questions = keys(&["A00", "", "Z99"]);
    questions.push(Question::Index(5));
    let found = ask(&server, CLIENT, &questions).unwrap();
    let names = [Name::Key(b"A00"), Name::Key(b""), Name::Key(b"Z99"), Name::Index(5)];
    for (key, name) in found.iter().zip(names) {
        let owners = owner.record_key(name).unwrap();
        assert_eq!(key.label(), owners.label());
        let sealed = owners.seal(owner.sealing(), b"a record").unwrap();
        assert_eq!(*key.open(owner.sealing(), &sealed).unwrap(), *b"a record");
    }
    assert_eq!(found.len(), 4);
}

#[test]
fn a_client_gets_as_many_keys_as_it_is_allowed() {
    let (_, server) = service(3);
    ask(&server, CLIENT, &keys(&["A00", "A01"])).unwrap();
    let error = ask(&server, CLIENT, &keys(&["A02", "A03"])).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Exhausted { wait_seconds: 28_799..=28_801 }), "{:?}", error.kind());
    assert!(error.to_string().contains("2 were asked for, more than this client has left of its 3 in 86400 s"));
    ask(&server, CLIENT, &keys(&["A02"])).unwrap();
    assert!(matches!(ask(&server, CLIENT, &keys(&["A02"])).unwrap_err().kind(), ErrorKind::Exhausted { .. }));
    ask(&server, OTHER, &keys(&["A00", "A01", "A02"])).unwrap();
    // A larger request can never succeed: the client says so.
    let error = ask(&server, OTHER, &keys(&["A00", "A01", "A02", "A03"])).unwrap_err();
    assert_eq!(error.to_string(), "request: found 4 questions, needed 1 to 3");
}

#[test]
fn a_request_that_is_sent_again_is_charged_once() {
    let (_, server) = service(2);
    let mut client = client(&server);
    let encoded = client.encode(&keys(&["A00", "A01"])).unwrap();
    let query = client.query(&encoded).unwrap();
    let answer = |id| server.answer(&Request::new(id, &(), &query), &Call::default());
    let labels = |answer: &[u8]| client.read(answer, &encoded).unwrap().iter().map(|key| *key.label()).collect();
    let first: Vec<[u8; 32]> = labels(&answer(CLIENT).unwrap());
    // The answer is the same but for the randomness of its proof: a repetition brings nothing new.
    for _ in 0..3 {
        assert_eq!(first, labels(&answer(CLIENT).unwrap()));
    }
    // One of its elements in another request is charged.
    let one = client.query(&encoded[..1]).unwrap();
    assert!(matches!(
        server.answer(&Request::new(CLIENT, &(), &one), &Call::default()).unwrap_err().kind(),
        ErrorKind::Exhausted { .. }
    ));
    // So is the request of another client.
    answer(OTHER).unwrap();
    assert!(server.answer(&Request::new(OTHER, &(), &one), &Call::default()).is_err());
    answer(OTHER).unwrap();
}

#[test]
fn names_are_blinded_anew_for_every_encoding() {
    let (_, server) = service(10);
    let mut client = client(&server);
    let mut query = || {
        let encoded = client.encode(&keys(&["A00"])).unwrap();
        client.query(&encoded).unwrap()
    };
    let (first, second) = (query(), query());
    assert_ne!(first[..32], second[..32]);
}

#[test]
fn damage_is_found_in_every_message() {
    let (_, server) = service(10);
    let mut client = client(&server);
    let encoded = client.encode(&keys(&["A00"])).unwrap();
    let query = client.query(&encoded).unwrap();
    let answer = server.answer(&Request::new(CLIENT, &(), &query), &Call::default()).unwrap();
    let text = |error: OprfError| error.to_string();
    damage::assert_damage_is_refused(&[
        ("description", server.describe(), &|bytes| Description::read(bytes, true).map(drop).map_err(text)),
        ("query", query, &|bytes| {
            server.answer(&Request::new(CLIENT, &(), bytes), &Call::default()).map(drop).map_err(text)
        }),
        ("answer", answer.clone(), &|bytes| client.check_answer(bytes, 1).map_err(text)),
        ("read answer", answer, &|bytes| client.read(bytes, &encoded).map(drop).map_err(text)),
    ]);
}

#[test]
fn hostile_queries_are_refused() {
    let (_, server) = service(1000);
    let mut client = client(&server);
    let encoded = client.encode(&keys(&["A00", "A01"])).unwrap();
    let query = client.query(&encoded).unwrap();
    let summed = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        unspoken_protocol::append_checksum(&mut bytes);
        bytes
    };
    for (bytes, part) in [
        (vec![], "needed 1 to 256 blinded names"),
        (vec![1; 31], "found 31 bytes"),
        (vec![1; 257 * 32], "found 8224 bytes"),
        (vec![0; 32], "the identity"),
        (vec![0xff; 32], "canonical encoding"),
        ([&query[..32], &query[..32]].concat(), "an element twice"),
    ] {
        let error = server.answer(&Request::new(CLIENT, &(), &summed(&bytes)), &Call::default()).unwrap_err();
        assert!(error.to_string().contains(part) && error.kind() != ErrorKind::Internal, "{error}");
    }
    assert!(server.limits().query_bytes >= query.len());
    let answer = server.answer(&Request::new(CLIENT, &(), &query), &Call::default()).unwrap();
    assert!(server.limits().answer_bytes >= answer.len());
    assert!(client.check_answer(&answer, 1).is_err() && client.check_answer(&summed(&[]), 2).is_err());
    client.check_answer(&answer, 2).unwrap();
    let stopped = server.answer(&Request::new(CLIENT, &(), &query), &Call::new(&AtomicBool::new(true))).unwrap_err();
    assert!(stopped.is_cancelled());
}

#[test]
fn another_public_key_is_refused() {
    let ((owner, server), (_, other)) = (service(10), service(10));
    let describe = |server: &OprfServer| Description::read(&server.describe(), false).unwrap();
    let known = owner.sealing().public_key();
    OprfClient::open(describe(&server), Some(known), None).unwrap();
    let error = OprfClient::open(describe(&other), Some(known), None).map(drop).unwrap_err();
    assert!(error.to_string().contains("do not trust this service"), "{error}");
    OprfClient::check_change(&describe(&server), &describe(&server)).unwrap();
    let error = OprfClient::check_change(&describe(&server), &describe(&other)).unwrap_err();
    assert!(error.to_string().contains("delete this client's state directory"), "{error}");
    // An answer with the other key, for the first description.
    let mut client = client(&server);
    let encoded = client.encode(&keys(&["A00"])).unwrap();
    let query = client.query(&encoded).unwrap();
    let answer = other.answer(&Request::new(CLIENT, &(), &query), &Call::default()).unwrap();
    assert!(matches!(client.read(&answer, &encoded), Err(OprfError::Sealed(SymmetricPirError::Proof))));
}

#[test]
fn descriptions_are_checked() {
    let (owner, server) = service(10);
    let bytes = server.describe();
    let read = Description::read(&bytes, false).unwrap();
    assert_eq!((read.sealing(), read.allowance().evaluations()), (owner.sealing(), 10));
    assert_eq!(read.to_bytes(), bytes);
    for (fields, part) in [
        (&[8, 2][..], "update the older side"),
        (&[0x12, 1, 0], "id of a sealed database: found 1 bytes"),
        (&[0x1a, 1, 0], "public key of a sealed database: found"),
        (&[0x20, 0], "bytes of padded records: found 0"),
        (&[0x28, 0], "keys that a client may ask for: found 0 in"),
        (&[0x30, 0], "keys that a client may ask for: found 10 in 0 s"),
    ] {
        let error = Description::read(&damage::with_fields(&bytes, fields), true).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    for (evaluations, seconds) in [(0, 1), (1, 0), (1, u32::MAX), (u32::MAX, 1)] {
        let error = Allowance::new(evaluations, seconds).unwrap_err().to_string();
        assert!(error.starts_with("keys that a client may ask for: found"), "{error}");
    }
}

#[test]
fn clients_have_no_keys_but_a_bundle() {
    let (_, server) = service(10);
    let client = client(&server);
    let mut bundle = Vec::new();
    client.write_keys(&mut bundle, |_, _| {}, &GO).unwrap();
    assert_eq!(bundle.len() as u64, client.key_bytes());
    assert_eq!(server.loaded_key_bytes(&bundle).unwrap(), 0);
    server.load_keys(&mut &bundle[..]).unwrap();
    for other in [&[][..], &bundle[1..], &[&bundle[..], &[0]].concat(), b"RETRIEVE"] {
        assert!(server.load_keys(&mut &*other).unwrap_err().to_string().contains("24 bytes of a client without keys"));
    }
    let stored = client.secret_bytes().unwrap();
    OprfClient::open(client.description().clone(), None, Some(&stored)).unwrap();
    assert!(OprfClient::open(client.description().clone(), None, Some(b"other")).is_err());
}

#[test]
fn questions_are_not_printed() {
    assert_eq!(format!("{:?} {:?}", Question::Key(b"A00".to_vec()), Question::Index(7)), "Key(..) Index(..)");
}
