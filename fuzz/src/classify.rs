//! Targets for the classifier's protocol: descriptions and answers that a client decodes, keys and queries that a
//! server decodes.

use std::cell::RefCell;
use std::sync::LazyLock;
use std::sync::atomic::AtomicBool;

use prost::Message;
use unspoken_classify::{ClassifyClient, Description, PROTOCOL_VERSION};
use unspoken_protocol::{ApplicationDescription, CkksServerHalf, ClientHalf, KeyLoader, ServerHalf};
use unspoken_rlwe::KeyBundle;

use crate::fixtures::{
    BUNDLE, CLASSIFIER, CLIENT, DESCRIPTION, KEYS, MODEL, client, client_of, query, read, serve_a_hostile_server,
};
use crate::messages::{self, FINGERPRINTS, KeyRequirement};
use crate::{Target, repair};

/// Fields of a description that the repairs change, and the others that the decoder checks.
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
    subtables: u32,
    #[prost(uint32, tag = "6")]
    columns: u32,
    #[prost(uint32, tag = "7")]
    classes: u32,
    #[prost(uint32, tag = "8")]
    max_tokens: u32,
    #[prost(uint32, tag = "9")]
    query_level: u32,
    #[prost(message, repeated, tag = "10")]
    keys: Vec<KeyRequirement>,
    #[prost(string, tag = "11")]
    plan: String,
    #[prost(double, tag = "12")]
    score_bound: f64,
    #[prost(string, tag = "13")]
    query_form: String,
    #[prost(uint32, tag = "19")]
    small_period: u32,
    #[prost(double, tag = "14")]
    error: f64,
}

/// `Description::insecure_from_bytes`, and a client that generates the keys and a query that the description asks
/// for.
pub static DESCRIBED: Target = Target {
    name: "classify_description",
    run: |data| {
        let read = messages::read_description(data, |message: &Described| &message.preset, Description::to_bytes);
        let Some(description) = read else { return false };
        assert!(description.batch() * description.max_tokens() <= description.parameters().slots());
        if let Ok(client) = client_of(description) {
            let most = client.description().query_bytes();
            serve_a_hostile_server(client, most, &["claim your prize"]);
        }
        true
    },
    repair: |data| {
        let Ok(mut message) = Described::decode(data.as_slice()) else { return };
        message.version = PROTOCOL_VERSION;
        messages::repair_preset(&mut message.preset, &mut message.fingerprint);
        message.model_id = MODEL_ID.to_vec();
        messages::repair_form(&mut message.query_form);
        messages::repair_bound(&mut message.error, |error| error >= messages::BELIEVED_ERROR);
        messages::repair_bound(&mut message.score_bound, |bound| bound > 0.0);
        *data = messages::description(Description::PROTOCOL, &message);
    },
    seeds: || {
        let sound = Described::decode(DESCRIPTION.to_bytes().as_slice()).expect("a description");
        let of = |(name, fingerprint): &(&str, Vec<u8>)| Described {
            preset: (*name).into(),
            fingerprint: fingerprint.clone(),
            error: messages::BELIEVED_ERROR,
            ..sound.clone()
        };
        let formed = messages::formed().into_iter().map(|formed| Described {
            columns: formed.columns(8),
            query_form: formed.form.to_string(),
            keys: formed.keys.clone(),
            small_period: formed.small_period,
            ..of(formed.preset)
        });
        FINGERPRINTS
            .iter()
            .map(of)
            .chain(formed)
            .map(|message| messages::description(Description::PROTOCOL, &message))
            .collect()
    },
};

/// `ClassifyServer::loaded_key_bytes`: accepts the front of a bundle with all keys of its own plan, and announces the
/// memory of all keys of the bundle.
pub static KEY_FRONT: Target = Target {
    name: "classify_key_front",
    run: |data| {
        let Ok(bytes) = CLASSIFIER.loaded_key_bytes(data) else { return false };
        let parameters = CLASSIFIER.description().parameters().rlwe();
        let plan = KeyBundle::read_plan(parameters, &mut &data[..]).expect("a plan was read");
        assert!(plan.covers(CLASSIFIER.header().key_plan()), "keys are missing");
        assert_eq!(bytes, plan.memory_bytes(parameters.ring()));
        true
    },
    repair: |data| {
        repair::key_plan(CLASSIFIER.description().parameters().rlwe(), data);
    },
    seeds: || vec![front().to_vec(), [front(), b"more"].concat()],
};

fn front() -> &'static [u8] {
    &BUNDLE[..KeyBundle::plan_bytes(CLASSIFIER.header().key_plan())]
}

/// `ClassifyServer::answer`: an accepted query has an answer of the announced size, whose form the client accepts.
pub static QUERY: Target = Target {
    name: "classify_query",
    run: |data| {
        let Ok(answer) = CLASSIFIER.answer(CLIENT, &KEYS, data, &GO) else { return false };
        assert!(data.len() <= CLASSIFIER.description().query_bytes());
        assert!(answer.len() <= CLASSIFIER.answer_bytes());
        match read(&client(), &answer, &[""]) {
            Ok(read) => {
                assert!(read.len() == 1 && read[0].scores.len() == CLASSIFIER.description().classes());
            }
            // A ciphertext of random bytes is valid: it encrypts random numbers.
            Err(error) => assert!(error.to_string().contains("this secret key does not open"), "{error}"),
        }
        true
    },
    repair: |data| messages::repair_query(data, CLASSIFIER.header()),
    seeds: || vec![QUERY_BYTES.clone()],
};

/// `ClassifyClient::read`: an accepted answer has a finite score for each class of each message.
pub static ANSWER: Target = Target {
    name: "classify_answer",
    run: |data| {
        thread_local! {
            static CLIENT_HALF: RefCell<ClassifyClient> = RefCell::new(client());
        }
        CLIENT_HALF.with_borrow(|client| {
            let batch = client.description().batch();
            assert!(read(client, data, &vec![""; batch + 1]).is_err(), "more messages than a query holds");
            let Ok(read) = read(client, data, &vec![""; batch]) else { return false };
            let whole = |scores: &Vec<f64>| scores.len() == 2 && scores.iter().all(|score| score.is_finite());
            assert!(read.len() == batch && read.iter().all(|one| whole(&one.scores)));
            assert!(read.iter().all(|one| client.labels().contains(&one.label)));
            true
        })
    },
    repair: |data| messages::repair_answer(data, CLASSIFIER.header()),
    seeds: || vec![ANSWERED.clone()],
};

static MODEL_ID: LazyLock<[u8; 16]> = LazyLock::new(|| MODEL.tables().id().to_bytes());

static ANSWERED: LazyLock<Vec<u8>> =
    LazyLock::new(|| CLASSIFIER.answer(CLIENT, &KEYS, &QUERY_BYTES, &GO).expect("an answer"));

static QUERY_BYTES: LazyLock<Vec<u8>> =
    LazyLock::new(|| query(&mut client(), &["claim your prize", ""]).expect("fits"));

static GO: AtomicBool = AtomicBool::new(false);
