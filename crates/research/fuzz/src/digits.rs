//! Targets for the digit recogniser's protocol: descriptions and answers that a client decodes, queries that a server
//! decodes.

use std::cell::RefCell;
use std::sync::LazyLock;

use prost::Message;
use unspoken_digits::{Description, DigitsClient};
use unspoken_digits_model::{Image, PIXELS};
use unspoken_protocol::{ApplicationDescription, Call, CkksServerHalf, ClientHalf, Request, ServerHalf};
use unspoken_rlwe::EvaluationKeys;

use crate::Target;
use crate::fixtures::{
    CLIENT, DIGITS_DESCRIPTION, RECOGNISER, digits_client_of, keys_of, query, read, serve_a_hostile_server,
};
use crate::messages::{self, Described, KeyRequirement};

/// Fields of a description.
#[derive(Clone, PartialEq, Message)]
struct Own {
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
}

/// `Description::insecure_from_bytes`, and a client that generates the keys and a query that the description asks
/// for.
pub static DESCRIBED: Target = Target {
    name: "digits_description",
    run: |data| {
        let read = messages::read_description::<Own, _>(data, Description::to_bytes);
        let Some(description) = read else { return false };
        if let Ok(client) = digits_client_of(description) {
            let most = client.description().query_bytes();
            serve_a_hostile_server(client, most, &[image()]);
        }
        true
    },
    repair: |data| {
        let Ok(mut message) = Described::<Own>::decode(data) else { return };
        message.repair_header(Description::PROTOCOL, |bound| bound >= 0.0);
        let own = &mut message.own;
        own.circuit = "owner".into();
        own.channels = 1 << (own.channels % 4);
        own.hidden = 16 << (own.hidden % 3);
        own.batch = 1 << (own.batch % 3);
        *data = message.encode(Description::PROTOCOL);
    },
    seeds: || {
        let sound = Described::<Own>::sound(&DIGITS_DESCRIPTION.to_bytes());
        // Keys and levels that exist in every preset.
        let mut shallow = sound.clone();
        shallow.header.keys = vec![KeyRequirement { galois_element: 5, chain: 1 }];
        shallow.own.query_level = 0;
        let all = shallow.with_presets().chain([sound]);
        all.map(|message| message.encode(Description::PROTOCOL)).collect()
    },
};

/// `DigitsServer::answer`: an accepted query has an answer of the announced size, whose form the client accepts.
pub static QUERY: Target = Target {
    name: "digits_query",
    run: |data| {
        let Ok(answer) = RECOGNISER.answer(&Request::new(CLIENT, &KEYS, data), &Call::default()) else { return false };
        assert!(data.len() <= RECOGNISER.limits().query_bytes);
        assert!(answer.len() <= RECOGNISER.limits().answer_bytes);
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

static ANSWERED: LazyLock<Vec<u8>> = LazyLock::new(|| {
    RECOGNISER.answer(&Request::new(CLIENT, &KEYS, &QUERY_BYTES), &Call::default()).expect("an answer")
});
