//! Targets for the classifier's protocol: descriptions and answers that a client decodes, keys and queries that a
//! server decodes.

use std::cell::RefCell;
use std::sync::LazyLock;

use unspoken_classify::{ClassifyClient, Description};
use unspoken_protocol::{ApplicationDescription, Call, CkksServerHalf, ClientHalf, KeyLoader, Request, ServerHalf};
use unspoken_rlwe::KeyBundle;

use crate::fixtures::{
    BUNDLE, CLASSIFIER, CLIENT, DESCRIPTION, KEYS, MODEL, client, client_of, query, read, serve_a_hostile_server,
};
use crate::messages::{self, Described, ScoreFields};
use crate::{Target, repair};

/// `Description::insecure_from_bytes`, and a client that generates the keys and a query that the description asks
/// for.
pub static DESCRIBED: Target = Target {
    name: "classify_description",
    run: |data| {
        let read = messages::read_description::<ScoreFields, _>(data, Description::to_bytes);
        let Some(description) = read else { return false };
        assert!(description.batch() * description.max_tokens() <= description.parameters().slots());
        if let Ok(client) = client_of(description) {
            let most = client.description().query_bytes();
            serve_a_hostile_server(client, most, &["claim your prize"]);
        }
        true
    },
    repair: |data| {
        let Ok(mut message) = Described::<ScoreFields>::decode(data) else { return };
        message.repair_header(Description::PROTOCOL, |bound| bound > 0.0);
        message.header.model_id = MODEL_ID.to_vec();
        messages::repair_form(&mut message.own.query_form);
        *data = message.encode(Description::PROTOCOL);
    },
    seeds: || {
        let sound = Described::<ScoreFields>::sound(&DESCRIPTION.to_bytes());
        let formed = sound.with_forms(ScoreFields::set_form);
        sound.with_presets().chain(formed).map(|message| message.encode(Description::PROTOCOL)).collect()
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
        let Ok(answer) = CLASSIFIER.answer(&Request::new(CLIENT, &KEYS, data), &Call::default()) else { return false };
        assert!(data.len() <= CLASSIFIER.description().query_bytes());
        assert!(answer.len() <= CLASSIFIER.limits().answer_bytes);
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

static ANSWERED: LazyLock<Vec<u8>> = LazyLock::new(|| {
    CLASSIFIER.answer(&Request::new(CLIENT, &KEYS, &QUERY_BYTES), &Call::default()).expect("an answer")
});

static QUERY_BYTES: LazyLock<Vec<u8>> =
    LazyLock::new(|| query(&mut client(), &["claim your prize", ""]).expect("fits"));
