//! Targets for the digit recogniser's protocol: descriptions and answers that a client decodes, queries that a server
//! decodes.

use std::cell::RefCell;
use std::sync::LazyLock;
use std::sync::atomic::AtomicBool;

use prost::Message;
use unspoken_digits::{Description, DigitsClient, PROTOCOL_VERSION};
use unspoken_digits_model::{Image, PIXELS};
use unspoken_protocol::{ApplicationDescription, CkksServerHalf, ClientHalf, ServerHalf};
use unspoken_rlwe::EvaluationKeys;

use crate::Target;
use crate::fixtures::{
    CLIENT, DIGITS_DESCRIPTION, RECOGNISER, digits_client_of, keys_of, query, read, serve_a_hostile_server,
};
use crate::messages::{self, FINGERPRINTS, KeyRequirement};

/// Fields of a description.
#[derive(Clone, PartialEq, Message)]
struct Described {
    #[prost(uint32, tag = "1")]
    version: u32,
    #[prost(string, tag = "2")]
    preset: String,
    #[prost(bytes = "vec", tag = "3")]
    fingerprint: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    model_id: Vec<u8>,
    #[prost(uint32, tag = "5")]
    channels: u32,
    #[prost(uint32, tag = "6")]
    hidden: u32,
    #[prost(uint32, tag = "7")]
    batch: u32,
    #[prost(uint32, tag = "8")]
    query_level: u32,
    #[prost(string, tag = "9")]
    circuit: String,
    #[prost(message, repeated, tag = "10")]
    keys: Vec<KeyRequirement>,
    #[prost(string, tag = "11")]
    plan: String,
    #[prost(double, tag = "12")]
    bound: f64,
    #[prost(double, tag = "14")]
    error: f64,
}

/// `Description::insecure_from_bytes`, and a client that generates the keys and a query that the description asks
/// for.
pub static DESCRIBED: Target = Target {
    name: "digits_description",
    run: |data| {
        let read = messages::read_description(data, |message: &Described| &message.preset, Description::to_bytes);
        let Some(description) = read else { return false };
        if let Ok(client) = digits_client_of(description) {
            let most = client.description().query_bytes();
            serve_a_hostile_server(client, most, &[image()]);
        }
        true
    },
    repair: |data| {
        let Ok(mut message) = Described::decode(data.as_slice()) else { return };
        message.version = PROTOCOL_VERSION;
        messages::repair_preset(&mut message.preset, &mut message.fingerprint);
        message.circuit = "owner".into();
        message.channels = 1 << (message.channels % 4);
        message.hidden = 16 << (message.hidden % 3);
        message.batch = 1 << (message.batch % 3);
        messages::repair_bound(&mut message.error, |error| error >= messages::BELIEVED_ERROR);
        messages::repair_bound(&mut message.bound, |bound| bound >= 0.0);
        *data = messages::description(Description::PROTOCOL, &message);
    },
    seeds: || {
        let sound = Described::decode(DIGITS_DESCRIPTION.to_bytes().as_slice()).expect("a description");
        let of = |(name, fingerprint): &(&str, Vec<u8>)| Described {
            preset: (*name).into(),
            fingerprint: fingerprint.clone(),
            error: messages::BELIEVED_ERROR,
            // Keys and levels that exist in every preset.
            keys: vec![KeyRequirement { galois_element: 5, chain: 1 }],
            query_level: 0,
            ..sound.clone()
        };
        FINGERPRINTS
            .iter()
            .map(of)
            .chain([sound.clone()])
            .map(|message| messages::description(Description::PROTOCOL, &message))
            .collect()
    },
};

/// `DigitsServer::answer`: an accepted query has an answer of the announced size, whose form the client accepts.
pub static QUERY: Target = Target {
    name: "digits_query",
    run: |data| {
        let Ok(answer) = RECOGNISER.answer(CLIENT, &KEYS, data, &GO) else { return false };
        assert!(data.len() <= RECOGNISER.query_bytes());
        assert!(answer.len() <= RECOGNISER.answer_bytes());
        match read(&client(), &answer, &[image()]) {
            Ok(read) => assert!(read.len() == 1 && read[0].digit < 10),
            // A ciphertext of random bytes is valid: it encrypts random numbers.
            Err(error) => assert!(error.to_string().contains("this secret key does not open"), "{error}"),
        }
        true
    },
    repair: |data| messages::repair_query(data, RECOGNISER.header()),
    seeds: || vec![QUERY_BYTES.clone()],
};

/// `DigitsClient::read`: an accepted answer has a digit and finite scores for each image.
pub static ANSWER: Target = Target {
    name: "digits_answer",
    run: |data| {
        thread_local! {
            static CLIENT_HALF: RefCell<DigitsClient> = RefCell::new(client());
        }
        CLIENT_HALF.with_borrow(|client| {
            let batch = client.description().batch();
            assert!(read(client, data, &vec![image(); batch + 1]).is_err(), "more images than a query holds");
            let Ok(read) = read(client, data, &vec![image(); batch]) else { return false };
            let whole = read.iter().all(|one| one.digit < 10 && one.scores.iter().all(|score| score.is_finite()));
            assert!(read.len() == batch && whole);
            true
        })
    },
    repair: |data| messages::repair_answer(data, RECOGNISER.header()),
    seeds: || vec![ANSWERED.clone()],
};

fn client() -> DigitsClient {
    digits_client_of(RECOGNISER.description().clone()).expect("a description of its own")
}

fn image() -> Image {
    Image::new(&[128; PIXELS]).expect("an image")
}

static KEYS: LazyLock<EvaluationKeys> = LazyLock::new(|| keys_of(&*RECOGNISER, &client()));

static QUERY_BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| query(&mut client(), &[image()]).expect("fits"));

static ANSWERED: LazyLock<Vec<u8>> =
    LazyLock::new(|| RECOGNISER.answer(CLIENT, &KEYS, &QUERY_BYTES, &GO).expect("an answer"));

static GO: AtomicBool = AtomicBool::new(false);
