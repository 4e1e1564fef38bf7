//! Targets for the protocol of layers over embeddings: descriptions and answers that a client decodes.

use std::cell::RefCell;
use std::sync::LazyLock;
use std::sync::atomic::AtomicBool;

use prost::Message;
use unspoken_layer::{Description, LayerClient, PROTOCOL_VERSION};
use unspoken_protocol::{ApplicationDescription, CkksServerHalf, ClientHalf, ServerHalf};
use unspoken_rlwe::EvaluationKeys;

use crate::Target;
use crate::fixtures::{
    CLIENT, HEAD, LAYER, LAYER_DESCRIPTION, TABLE, keys_of, layer_client_of, query, read, serve_a_hostile_server,
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
    #[prost(double, tag = "14")]
    error: f64,
    #[prost(uint32, tag = "19")]
    small_period: u32,
    #[prost(bytes = "vec", tag = "20")]
    table_id: Vec<u8>,
    #[prost(string, repeated, tag = "21")]
    names: Vec<String>,
    #[prost(double, repeated, tag = "22")]
    bias: Vec<f64>,
    #[prost(double, repeated, tag = "23")]
    token_mean: Vec<f64>,
}

/// `Description::insecure_from_bytes`, and a client that generates the keys and a query that the description asks
/// for.
pub static DESCRIBED: Target = Target {
    name: "layer_description",
    run: |data| {
        let read = messages::read_description(data, |message: &Described| &message.preset, Description::to_bytes);
        let Some(description) = read else { return false };
        assert!(description.batch() * description.max_tokens() <= description.parameters().slots());
        assert!(description.classes().iter().all(|name| !name.chars().any(char::is_control)));
        if let Ok(client) = layer_client_of(description) {
            let most = client.description().query_bytes();
            serve_a_hostile_server(client, most, &["claim your prize"]);
        }
        true
    },
    repair: |data| {
        let Ok(mut message) = Described::decode(data.as_slice()) else { return };
        message.version = PROTOCOL_VERSION;
        messages::repair_preset(&mut message.preset, &mut message.fingerprint);
        message.table_id = TABLE.codes().id().to_bytes().to_vec();
        messages::repair_form(&mut message.query_form);
        messages::repair_bound(&mut message.error, |error| error >= messages::BELIEVED_ERROR);
        messages::repair_bound(&mut message.score_bound, |bound| bound > 0.0);
        *data = messages::description(Description::PROTOCOL, &message);
    },
    seeds: || {
        let sound = Described::decode(LAYER_DESCRIPTION.to_bytes().as_slice()).expect("a description");
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

/// `LayerClient::read`: an accepted answer has a finite score for each class of each text.
pub static ANSWER: Target = Target {
    name: "layer_answer",
    run: |data| {
        thread_local! {
            static CLIENT_HALF: RefCell<LayerClient> = RefCell::new(client());
        }
        CLIENT_HALF.with_borrow(|client| {
            let batch = client.description().batch();
            assert!(read(client, data, &vec![""; batch + 1]).is_err(), "more texts than a query holds");
            let texts = ["", "claim", "claim your prize"].into_iter().cycle().take(batch).collect::<Vec<_>>();
            let Ok(read) = read(client, data, &texts) else { return false };
            let whole = |scores: &Vec<f64>| scores.len() == 3 && scores.iter().all(|score| score.is_finite());
            assert!(read.len() == batch && read.iter().all(|one| whole(&one.scores)));
            assert!(read.iter().all(|one| HEAD.classes().contains(&one.label)));
            true
        })
    },
    repair: |data| messages::repair_answer(data, LAYER.header()),
    seeds: || vec![ANSWERED.clone()],
};

fn client() -> LayerClient {
    layer_client_of(LAYER.description().clone()).expect("the same table")
}

static KEYS: LazyLock<EvaluationKeys> = LazyLock::new(|| keys_of(&*LAYER, &client()));

static ANSWERED: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let query = query(&mut client(), &["claim your prize", ""]).expect("fits");
    LAYER.answer(CLIENT, &KEYS, &query, &GO).expect("an answer")
});

static GO: AtomicBool = AtomicBool::new(false);
