//! Both halves against each other and against the plaintext network, at a small insecure ring.

#[allow(dead_code, reason = "the keys are made by the halves themselves here")]
#[path = "../../../circuits/cnn/tests/common/mod.rs"]
mod common;

#[path = "../../protocol/tests/damage/mod.rs"]
mod damage;

use std::sync::atomic::AtomicBool;

use common::{PRESET, images, network, worst};
use unspoken_ckks::Preset;
use unspoken_digits::{Description, DigitsClient, DigitsError, DigitsServer, Recognised};
use unspoken_digits_model::{Image, Shape};
use unspoken_encrypt::Needs;
use unspoken_protocol::{
    ApplicationError, Call, CkksClientHalf, CkksDescription, CkksServerHalf, ClientHalf, ClientId, ErrorKind,
    KeyLoader, ProtocolError, Request, ServerHalf,
};
use unspoken_rlwe::{EvaluationKeys, KeyStorage};

static GO: AtomicBool = AtomicBool::new(false);
const CLIENT: ClientId = ClientId::new([1; 16]);

fn encrypt(client: &mut DigitsClient, questions: &[Image]) -> Result<Vec<u8>, DigitsError> {
    let encoded = client.encode(questions)?;
    client.query(&encoded)
}

fn ask(server: &DigitsServer, keys: &EvaluationKeys, query: &[u8]) -> Result<Vec<u8>, DigitsError> {
    server.answer(&Request::new(CLIENT, keys, query), &Call::default())
}

fn read(client: &DigitsClient, answer: &[u8], questions: &[Image]) -> Result<Vec<Recognised>, DigitsError> {
    client.read(answer, &client.encode(questions)?)
}

fn server(shape: Shape, batch: Option<usize>) -> DigitsServer {
    let parameters = Preset::find(PRESET).unwrap().build().unwrap();
    DigitsServer::new(&network(shape), &parameters, batch).unwrap()
}

fn client(server: &DigitsServer) -> DigitsClient {
    let description = Description::insecure_from_bytes(&server.describe()).unwrap();
    DigitsClient::open(description, (), None).unwrap()
}

fn bundle(client: &DigitsClient) -> Vec<u8> {
    let mut bytes = Vec::new();
    client.keyring().write_keys(&mut bytes, |_, _| {}, &GO).unwrap();
    assert_eq!(bytes.len() as u64, client.keyring().key_bytes());
    bytes
}

#[test]
fn encrypted_digits_are_the_networks() {
    for (shape, asked, batch) in [(Shape::LITE, None, 16), (Shape { channels: 1, hidden: 16 }, Some(2), 2)] {
        let server = server(shape, asked);
        let mut client = client(&server);
        let description = client.description();
        assert_eq!((description.batch(), description.shape()), (batch, shape));
        let plan = client.prepare(Needs { burst: 1, memory_bytes: 64 << 20 }).unwrap();
        assert_eq!(plan.zeros, client.description().layout().vectors());
        let keys = server.load_keys(&mut bundle(&client).as_slice()).unwrap();
        let network = network(shape);
        // Part of a batch, and a full batch.
        for count in [1, batch] {
            let images = images(count);
            let query = encrypt(&mut client, &images).unwrap();
            assert!(query.len() <= server.limits().query_bytes);
            let answer = ask(&server, &keys, &query).unwrap();
            assert!(answer.len() <= server.limits().answer_bytes);
            let predicted = [client.query_bytes(count), client.expected_answer_bytes(count)];
            for (predicted, bytes) in predicted.into_iter().zip([query.len(), answer.len()]) {
                assert!((bytes..bytes + bytes / 50 + 200).contains(&predicted), "{predicted} {bytes}");
            }
            let read = read(&client, &answer, &images).unwrap();
            let exact: Vec<[f64; 10]> = images.iter().map(|image| network.scores(image)).collect();
            let scores: Vec<[f64; 10]> = read.iter().map(|one| one.scores).collect();
            assert!(worst(&scores, &exact) < 1e-3);
            let bound = client.description().header().error_bound().unwrap();
            assert!(worst(&scores, &exact) < bound && bound < 0.1, "{bound}");
            let noise = client.sharing_noise(3).unwrap().deviation();
            let shared: Vec<[f64; 10]> = client.share(&read, 3).unwrap().iter().map(|one| one.scores).collect();
            assert!((bound..8.0 * noise).contains(&worst(&shared, &scores)));
            assert!(read.iter().zip(&images).all(|(one, image)| one.digit == network.digit(image)));
        }
    }
}

#[test]
fn a_query_tells_nothing_by_its_length_and_takes_a_batch_at_most() {
    let mut client = client(&server(Shape::LITE, None));
    assert_eq!(encrypt(&mut client, &images(1)).unwrap().len(), encrypt(&mut client, &images(16)).unwrap().len());
    assert!(encrypt(&mut client, &[]).is_err());
    assert!(encrypt(&mut client, &images(17)).unwrap_err().to_string().contains("1 to 16"));
}

#[test]
fn a_stored_secret_reads_answers_and_another_one_does_not() {
    let server = server(Shape::LITE, None);
    let (first, stranger) = (client(&server), client(&server));
    let keys = server.load_keys(&mut bundle(&first).as_slice()).unwrap();
    let secret = first.keyring().secret_bytes().unwrap();
    let mut again = DigitsClient::open(first.description().clone(), (), Some(&secret)).unwrap();
    let answer = ask(&server, &keys, &encrypt(&mut again, &images(2)).unwrap()).unwrap();
    assert_eq!(read(&first, &answer, &images(2)).unwrap(), read(&again, &answer, &images(2)).unwrap());
    let error = read(&stranger, &answer, &images(2)).unwrap_err();
    assert!(error.to_string().contains("this secret key does not open"), "{error}");
}

#[test]
fn hostile_bytes_are_refused() {
    let server = server(Shape::LITE, None);
    let mut client = client(&server);
    let bundle = bundle(&client);
    let keys = server.load_keys(&mut bundle.as_slice()).unwrap();
    let query = encrypt(&mut client, &images(1)).unwrap();
    for len in [0, 1, 40, query.len() / 2, query.len() - 1] {
        assert!(ask(&server, &keys, &query[..len]).is_err(), "{len}");
    }
    for position in [0, 5, 20, 40, 60, query.len() - 1] {
        let mut damaged = query.clone();
        damaged[position] ^= 0x55;
        assert!(ask(&server, &keys, &damaged).is_err(), "{position}");
    }
    assert!(ask(&server, &keys, &vec![0; query.len() + 100]).is_err());
    // Undamaged and of this network, but with vectors that are no query.
    let vectors = server.header().unpack("query", &query, usize::MAX, usize::MAX).unwrap();
    let few = ask(&server, &keys, &server.header().pack(vectors[1..].to_vec())).unwrap_err();
    assert_eq!(few.kind(), ErrorKind::Mismatch, "{few}");
    let twice = vec![vectors[0].clone(); vectors.len()];
    let twice = ask(&server, &keys, &server.header().pack(twice)).unwrap_err();
    assert!(twice.to_string().contains("a fresh seed"), "{twice}");
    assert!(server.load_keys(&mut &bundle[..bundle.len() - 1]).is_err());
    let cancelled =
        server.answer(&Request::new(CLIENT, &keys, &query), &Call::new(&AtomicBool::new(true))).unwrap_err();
    assert!(cancelled.is_cancelled(), "{cancelled}");
    for vectors in [0, 2] {
        let answer = server.header().pack(vec![Vec::new(); vectors]);
        assert!(matches!(
            read(&client, &answer, &images(1)),
            Err(DigitsError::Protocol(ProtocolError::Mismatch { .. }))
        ));
    }
}

#[test]
fn descriptions_that_make_no_sense_are_refused() {
    let server = server(Shape::LITE, None);
    let sound = server.describe();
    assert!(Description::from_bytes(&sound).unwrap_err().to_string().contains("secure"));
    for len in [0, 1, sound.len() / 2] {
        assert!(Description::insecure_from_bytes(&sound[..len]).is_err(), "{len}");
    }
    // The last value of a field counts: channels, hidden, batch, query level.
    for (field, value, part) in [
        (0x28, 3, "channels"),
        (0x30, 7, "Shape"),
        (0x38, 32, "power of two"),
        (0x38, 0, "power of two"),
        (0x40, 60, "query level"),
    ] {
        let error =
            Description::insecure_from_bytes(&damage::with_fields(&sound, &[field, value])).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    let error = Description::insecure_from_bytes(&damage::with_fields(&sound, &[0x4a, 0])).unwrap_err().to_string();
    assert!(error.contains("circuit \"\""), "{error}");
    let description = Description::insecure_from_bytes(&sound).unwrap();
    assert_eq!(description.to_bytes(), sound);
    assert_eq!(description.header().model_id(), network(Shape::LITE).id().to_bytes());
}

#[test]
fn a_flipped_bit_is_refused_as_damage_in_every_message() {
    let server = server(Shape::LITE, None);
    let mut client = client(&server);
    let keys = server.load_keys(&mut bundle(&client).as_slice()).unwrap();
    let query = encrypt(&mut client, &images(1)).unwrap();
    let answer = ask(&server, &keys, &query).unwrap();
    damage::assert_damage_is_refused(&[
        ("description", server.describe(), &|bytes| {
            Description::insecure_from_bytes(bytes).map(drop).map_err(|error| error.to_string())
        }),
        ("query", query, &|bytes| ask(&server, &keys, bytes).map(drop).map_err(|error| error.to_string())),
        ("answer", answer, &|bytes| read(&client, bytes, &images(1)).map(drop).map_err(|error| error.to_string())),
    ]);
}

#[test]
fn answers_from_a_device_have_the_same_bytes() {
    let host = server(Shape::LITE, None);
    let parameters = Preset::find(PRESET).unwrap().build().unwrap();
    let there = parameters.on_device(&unspoken_device_shim::device(1 << 30)).unwrap();
    let mut client = client(&host);
    let bundle = bundle(&client);
    let query = encrypt(&mut client, &images(3)).unwrap();
    let keys = host.load_keys(&mut bundle.as_slice()).unwrap();
    let wanted = ask(&host, &keys, &query).unwrap();
    for storage in [KeyStorage::Expanded, KeyStorage::Seeded] {
        let device = DigitsServer::new(&network(Shape::LITE), &there, None).unwrap().with_key_storage(storage);
        let keys = device.load_keys(&mut bundle.as_slice()).unwrap();
        assert_eq!(device.key_limits().memory_bytes, host.key_limits().memory_bytes, "a device expands all keys");
        let before = there.ring().fetched_polynomials();
        assert!(ask(&device, &keys, &query).unwrap() == wanted);
        assert_eq!(there.ring().fetched_polynomials() - before, 2, "the answer alone leaves the device");
    }
}

#[test]
fn clients_share_a_device_whose_memory_is_for_one() {
    let (host, device) = (server(Shape::LITE, None), unspoken_device_shim::device(1 << 30));
    let parameters = Preset::find(PRESET).unwrap().build().unwrap().on_device(&device).unwrap();
    let there = DigitsServer::new(&network(Shape::LITE), &parameters, None).unwrap();
    let mut parties: Vec<_> = (0..3)
        .map(|_| {
            let client = client(&host);
            let bundle = bundle(&client);
            let [wanted, found] = [&host, &there].map(|server| server.load_keys(&mut bundle.as_slice()).unwrap());
            (client, wanted, found)
        })
        .collect();
    let mut queries = Vec::new();
    for (client, wanted, _) in &mut parties {
        let query = encrypt(client, &images(3)).unwrap();
        queries.push((ask(&host, wanted, &query).unwrap(), query));
    }
    let answered = |number: usize| {
        let (wanted, query) = &queries[number];
        ask(&there, &parties[number].2, query).map(|found| assert!(found == *wanted, "client {number}"))
    };
    // Bytes that are copied to the device for an answer.
    let copied_for = |number: usize| {
        let before = device.copied_bytes()[0];
        answered(number).unwrap();
        device.copied_bytes()[0] - before
    };
    answered(0).unwrap();
    let query_bytes = copied_for(0);
    // The keys of the other two clients find no room beside the keys of the first, but the work does.
    let (key_bytes, (used, waiting)) = (host.key_limits().memory_bytes, device.taken_bytes());
    device.limit_memory(used + waiting + key_bytes as usize / 3);
    for turn in 0..2 {
        for number in [1, 2, 0] {
            assert!(copied_for(number) > query_bytes + key_bytes / 4, "turn {turn}: keys are copied again");
        }
    }
    assert_eq!(copied_for(0), query_bytes, "keys in use stay");
    // At once they have their answers, or are asked to come again.
    let done = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for number in 0..3 {
            let (done, answered) = (&done, &answered);
            scope.spawn(move || {
                for _ in 0..100 {
                    match answered(number) {
                        Ok(()) => return done.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Busy, "{error}"),
                    }
                }
                0
            });
        }
    });
    assert_eq!(done.into_inner(), 3);
    // Less than an answer needs.
    device.limit_memory(1 << 20);
    assert_eq!(answered(1).unwrap_err().kind(), ErrorKind::Busy);
    there.check_ready().unwrap();
    device.limit_memory(1 << 30);
    answered(1).unwrap();
}
