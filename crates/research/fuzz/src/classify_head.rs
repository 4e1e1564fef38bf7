//! Targets for the protocol of layers over embeddings: descriptions and answers that a client decodes.

use std::cell::RefCell;
use std::sync::LazyLock;

use prost::Message;
use unspoken_classify::{HeadClient, HeadDescription};
use unspoken_protocol::{ApplicationDescription, Call, CkksServerHalf, ClientHalf, Request, ServerHalf};
use unspoken_rlwe::EvaluationKeys;

use crate::Target;
use crate::fixtures::{
    CLIENT, HEAD, LAYER, LAYER_DESCRIPTION, TABLE, keys_of, layer_client_of, query, read, serve_a_hostile_server,
};
use crate::messages::{self, Both, Described, ScoreFields};

/// The layer's own fields of a description.
#[derive(Clone, PartialEq, Message)]
struct LayerFields {
    #[prost(bytes = "vec", tag = "20")]
    table_id: Vec<u8>,
    #[prost(string, repeated, tag = "21")]
    names: Vec<String>,
    #[prost(double, repeated, tag = "22")]
    bias: Vec<f64>,
    #[prost(double, repeated, tag = "23")]
    token_mean: Vec<f64>,
}

type Own = Both<ScoreFields, LayerFields>;

/// `HeadDescription::insecure_from_bytes`, and a client that generates the keys and a query that the description asks
/// for.
pub static DESCRIBED: Target = Target {
    name: "classify_head_description",
    run: |data| {
        let read = messages::read_description::<Own, _>(data, HeadDescription::to_bytes);
        let Some(description) = read else { return false };
        assert!(description.batch() * description.max_tokens() <= description.parameters().slots());
        assert!(description.labels().iter().all(|name| !name.chars().any(char::is_control)));
        if let Ok(client) = layer_client_of(description) {
            let most = client.description().query_bytes();
            serve_a_hostile_server(client, most, &["claim your prize"]);
        }
        true
    },
    repair: |data| {
        let Ok(mut message) = Described::<Own>::decode(data) else { return };
        message.repair_header(HeadDescription::PROTOCOL, |bound| bound > 0.0);
        let Both(scores, layer) = &mut message.own;
        messages::repair_form(&mut scores.query_form);
        layer.table_id = TABLE.codes().id().to_bytes().to_vec();
        *data = message.encode(HeadDescription::PROTOCOL);
    },
    seeds: || {
        let sound = Described::<Own>::sound(&LAYER_DESCRIPTION.to_bytes());
        let formed = sound.with_forms(|Both(scores, _), formed| scores.set_form(formed));
        sound.with_presets().chain(formed).map(|message| message.encode(HeadDescription::PROTOCOL)).collect()
    },
};

/// `HeadClient::read`: an accepted answer has a finite score for each class of each text.
pub static ANSWER: Target = Target {
    name: "classify_head_answer",
    run: |data| {
        thread_local! {
            static CLIENT_HALF: RefCell<HeadClient> = RefCell::new(client());
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

fn client() -> HeadClient {
    layer_client_of(LAYER.description().clone()).expect("the same table")
}

static KEYS: LazyLock<EvaluationKeys> = LazyLock::new(|| keys_of(&*LAYER, &client()));

static ANSWERED: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let query = query(&mut client(), &["claim your prize", ""]).expect("fits");
    LAYER.answer(&Request::new(CLIENT, &KEYS, &query), &Call::default()).expect("an answer")
});
