//! A service on a device gives the answers of one on the processor. The kernels run on the processor, too.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::common::{CHUNK, CLIENT, PRESET, Party, Setting, bundle, one_layer, options};
use unspoken_chat::{Answer, ChatServer, Question, SessionId};
use unspoken_ckks::{CkksParameters, Preset};
use unspoken_protocol::{ApplicationError, Call, ClientHalf, ErrorKind, KeyLoader, Request, ServerHalf};
use unspoken_ring::Device;
use zeroize::Zeroizing;

const SESSION: SessionId = SessionId::new([9; 16]);

fn setting() -> &'static Setting {
    static SETTING: OnceLock<Setting> = OnceLock::new();
    SETTING.get_or_init(one_layer)
}

/// A server on a device.
fn server(device: &Device) -> ChatServer {
    let host: CkksParameters = Preset::find(PRESET).unwrap().build().unwrap();
    ChatServer::new(setting().served(), &host.on_device(device).unwrap(), &options()).unwrap()
}

/// A client whose keys a server has loaded.
fn party(server: &ChatServer) -> Party<'_> {
    let client = setting().client(server);
    let keys = server.load_keys(&mut bundle(&client).as_slice()).unwrap();
    Party { server, id: CLIENT, client, keys }
}

fn questions() -> [Question; 2] {
    let (public, private) = &setting().stories[0];
    let tokens = Zeroizing::new(private[..CHUNK].to_vec());
    [
        Question::Begin { session: SESSION, public: public.clone() },
        Question::Pass { session: SESSION, chunk: 0, tokens },
    ]
}

#[test]
fn answers_from_a_device_have_the_same_bytes() {
    let (host, device) = (setting().server(&options()), server(&unspoken_device_shim::device(4 << 30)));
    let client = setting().client(&host);
    // Each bundle of a client has keys of its own.
    let bundle = bundle(&client);
    let [host_keys, keys] = [&host, &device].map(|server| server.load_keys(&mut bundle.as_slice()).unwrap());
    let mut party = Party { server: &host, id: CLIENT, client, keys: host_keys };
    let ring = device.description().parameters().ring();
    let mut fetched = Vec::new();
    for question in questions() {
        let query = party.query(&question);
        let before = ring.fetched_polynomials();
        let answers = [
            host.answer(&Request::new(CLIENT, &party.keys, &query), &Call::default()),
            device.answer(&Request::new(CLIENT, &keys, &query), &Call::default()),
        ];
        let [wanted, found] = answers.map(Result::unwrap);
        assert!(found == wanted, "answers of {} bytes differ", found.len());
        fetched.push(ring.fetched_polynomials() - before);
    }
    // What is sent: the two components of each vector.
    let layout = device.program().layout();
    let sent = 2 * (layout.activation_vectors(device.program().result().width) * layout.parts) as u64;
    assert_eq!(fetched, [0, sent]);
}

#[test]
fn a_device_that_fails_ends_answers_and_readiness() {
    let device = server(&unspoken_device_shim::failing_device(4 << 30, 3000));
    let mut party = party(&device);
    let [begin, pass] = questions();
    device.check_ready().unwrap();
    for _ in 0..2 {
        party.ask(&begin).unwrap();
        let error = party.ask(&pass).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Internal, "{error}");
        assert!(error.to_string().contains("the device is lost"), "{error}");
        assert!(device.check_ready().unwrap_err().to_string().contains("the device is lost"));
    }
}

#[test]
fn too_little_memory_ends_an_answer_and_not_the_service() {
    let small = unspoken_device_shim::device(4 << 30);
    let device = server(&small);
    let mut party = party(&device);
    let [begin, pass] = questions();
    party.ask(&begin).unwrap();
    // The tables of the rings, and little more.
    let (used, waiting) = small.taken_bytes();
    small.limit_memory(used + waiting + (2 << 20));
    let error = party.ask(&pass).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    assert!(error.to_string().contains("bytes of free memory"), "{error}");
    party.ask(&begin).unwrap();
    small.limit_memory(4 << 30);
    party.ask(&pass).unwrap();
}

#[test]
fn the_processor_takes_the_place_of_a_device_that_fails() {
    let kernels_left = Arc::new(AtomicU64::new(u64::MAX));
    let lost = unspoken_device_shim::switched_device(4 << 30, &kernels_left);
    lost.fall_back();
    let (host, device) = (setting().server(&options()), server(&lost));
    let client = setting().client(&host);
    let bundle = bundle(&client);
    let [host_keys, keys] = [&host, &device].map(|server| server.load_keys(&mut bundle.as_slice()).unwrap());
    let mut party = Party { server: &host, id: CLIENT, client, keys: host_keys };
    let [begin, pass] = questions();
    for question in [&begin, &pass] {
        let query = party.query(question);
        device.answer(&Request::new(CLIENT, &keys, &query), &Call::default()).unwrap();
    }
    kernels_left.store(500, Ordering::Relaxed);
    let next = Question::Pass { session: SESSION, chunk: 1, tokens: Zeroizing::new(vec![1; CHUNK]) };
    let query = party.query(&next);
    let error = device.answer(&Request::new(CLIENT, &keys, &query), &Call::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    assert!(error.to_string().contains("the processor computes from now on: ask again"), "{error}");
    device.check_ready().unwrap();
    // The session is lost, which clients know to begin again.
    let query = party.query(&next);
    let answer = device.answer(&Request::new(CLIENT, &keys, &query), &Call::default()).unwrap();
    let encoded = party.client.encode(&[&next]).unwrap();
    assert!(matches!(party.client.read(&answer, &encoded).unwrap().remove(0), Answer::Unknown));
    // A question that does not fit the new session does not end it.
    let wrong = Question::Pass { session: SESSION, chunk: 2, tokens: Zeroizing::new(vec![1; CHUNK]) };
    for question in [begin, wrong, pass] {
        let query = party.query(&question);
        let answers = [
            host.answer(&Request::new(CLIENT, &party.keys, &query), &Call::default()),
            device.answer(&Request::new(CLIENT, &keys, &query), &Call::default()),
        ];
        match answers {
            [Ok(wanted), Ok(found)] => assert!(found == wanted, "answers of {} bytes differ", found.len()),
            [Err(wanted), Err(found)] => {
                assert!(matches!(question, Question::Pass { chunk: 2, .. }), "{found}");
                assert_eq!(wanted.to_string(), found.to_string());
            }
            [wanted, found] => panic!("{:?} and {:?}", wanted.err(), found.err()),
        }
    }
}
