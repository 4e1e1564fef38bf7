//! Targets for the embedding lookup's protocol: descriptions and answers that a client decodes, queries that a server
//! decodes.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::LazyLock;

use prost::Message;
use unspoken_embed::{Description, EmbedClient, EmbedServer};
use unspoken_protocol::{ApplicationDescription, Call, CkksServerHalf, ClientHalf, Request, ServerHalf};
use unspoken_rlwe::EvaluationKeys;

use crate::fixtures::{
    CLIENT, EMBEDDER, EMBEDDING_DESCRIPTIONS, SHORT_COMPACT_EMBEDDER, SHORT_EMBEDDER, STRIDED_EMBEDDER, TABLE,
    embed_client_of, keys_of, query, read, serve_a_hostile_server, wide_embed_client_of,
};
use crate::messages::{self, Described};
use crate::{Target, repair};

/// Fields of a description.
#[derive(Clone, PartialEq, Message)]
struct Own {
    #[prost(uint32, tag = "5")]
    subtables: u32,
    #[prost(uint32, tag = "6")]
    columns: u32,
    #[prost(uint32, tag = "7")]
    width: u32,
    #[prost(uint32, tag = "8")]
    query_level: u32,
    #[prost(bool, tag = "9")]
    pairs: bool,
    #[prost(string, tag = "13")]
    query_form: String,
    #[prost(uint32, tag = "19")]
    short_period: u32,
    #[prost(uint32, tag = "20")]
    strided_tokens: u32,
    #[prost(uint32, tag = "21")]
    strided_level: u32,
}

/// `Description::insecure_from_bytes`, and a client that generates the keys and a query that the description asks
/// for.
pub static DESCRIBED: Target = Target {
    name: "embed_description",
    run: |data| {
        let read = messages::read_description::<Own, _>(data, Description::to_bytes);
        let Some(description) = read else { return false };
        assert!((1..=description.width()).contains(&description.vectors()));
        if let Ok(client) = embed_client_of(description) {
            let most = client.description().query_bytes();
            serve_a_hostile_server(client, most, &[1, 0]);
        }
        true
    },
    repair: |data| {
        let Ok(mut message) = Described::<Own>::decode(data) else { return };
        message.repair_header(Description::PROTOCOL, |bound| bound >= 0.0);
        message.header.model_id = MODEL_ID.to_vec();
        messages::repair_form(&mut message.own.query_form);
        *data = message.encode(Description::PROTOCOL);
    },
    seeds: || {
        let [sound, small] = EMBEDDING_DESCRIPTIONS.each_ref().map(|of| Described::<Own>::sound(&of.to_bytes()));
        let formed = sound.with_forms(|own, formed| {
            own.query_form = formed.form.to_string();
            own.short_period = formed.short_period.min(128);
        });
        let strided = Own { strided_tokens: 16, strided_level: 1, short_period: 32, ..small.own.clone() };
        let strided = Described { own: strided, ..small.clone() };
        let all = sound.with_presets().chain(formed).chain([small, strided]);
        all.map(|message| message.encode(Description::PROTOCOL)).collect()
    },
};

/// Whether a query is accepted. Its answer has the announced size, and a form that the client accepts.
fn answers(server: &EmbedServer, client: &EmbedClient, keys: &EvaluationKeys, data: &[u8]) -> bool {
    let Ok(answer) = server.answer(&Request::new(CLIENT, keys, data), &Call::default()) else { return false };
    assert!(data.len() <= server.description().query_bytes());
    assert!(answer.len() <= server.limits().answer_bytes);
    match read(client, &answer, &[0]) {
        Ok(read) => assert!(read.len() == 1 && read[0].len() == server.description().width()),
        // An answer to a query of another length, or a ciphertext of random bytes, which encrypts random numbers.
        Err(error) => {
            let error = error.to_string();
            assert!(error.starts_with("answer: found") || error.contains("this secret key does not open"), "{error}");
        }
    }
    true
}

/// Makes the vectors of a query small ones, with the binary logarithm of the period in this range.
fn repair_short(data: &mut Vec<u8>, server: &EmbedServer, log2_periods: Range<u8>) {
    let parameters = server.header().parameters().rlwe();
    messages::repair_vectors(data, server.header(), |vectors| {
        for vector in vectors {
            let log2_period = log2_periods.start + vector.first().map_or(0, |byte| byte % log2_periods.len() as u8);
            let places = (TABLE.subtables().shape().subtables * 2) << log2_period;
            let mut sparse = vector.split_off(vector.len().min(1));
            repair::sparse_ciphertext(parameters, places, &mut sparse);
            *vector = [vec![log2_period], sparse].concat();
        }
    });
}

/// `EmbedServer::answer`: an accepted query has an answer of the announced size, whose form the client accepts.
pub static QUERY: Target = Target {
    name: "embed_query",
    run: |data| answers(&EMBEDDER, &client(), &KEYS, data),
    repair: |data| messages::repair_query(data, EMBEDDER.header()),
    seeds: || vec![QUERY_BYTES.clone()],
};

/// `EmbedServer::answer` to short queries: as for full ones.
pub static SHORT_QUERY: Target = Target {
    name: "embed_short_query",
    run: |data| answers(&SHORT_EMBEDDER, &short_client(), &SHORT_KEYS, data),
    repair: |data| repair_short(data, &SHORT_EMBEDDER, 4..8),
    seeds: || {
        assert!(SHORT_EMBEDDER.description().has_short_queries());
        [1, 17].map(|tokens| query(&mut short_client(), &vec![0; tokens]).expect("fits")).to_vec()
    },
};

/// `EmbedServer::answer` to strided queries: as for full ones.
pub static STRIDED_QUERY: Target = Target {
    name: "embed_strided_query",
    run: |data| answers(&STRIDED_EMBEDDER, &strided_client(), &STRIDED_KEYS, data),
    repair: |data| repair_short(data, &STRIDED_EMBEDDER, 4..6),
    seeds: || {
        assert_eq!(STRIDED_EMBEDDER.description().strided_tokens(), 16);
        [1, 17].map(|tokens| query(&mut strided_client(), &vec![0; tokens]).expect("fits")).to_vec()
    },
};

/// `EmbedServer::answer` to short compact queries: as for full ones.
pub static SHORT_COMPACT_QUERY: Target = Target {
    name: "embed_short_compact_query",
    run: |data| answers(&SHORT_COMPACT_EMBEDDER, &short_compact_client(), &SHORT_COMPACT_KEYS, data),
    repair: |data| {
        messages::repair_vectors(data, SHORT_COMPACT_EMBEDDER.header(), |vectors| {
            vectors.iter_mut().for_each(|vector| vector.resize(SHORT_COMPACT_BYTES, 0));
        });
    },
    seeds: || vec![query(&mut short_compact_client(), &[1, 0]).expect("fits")],
};

/// `EmbedClient::read`: an accepted answer has a finite embedding for each token.
pub static ANSWER: Target = Target {
    name: "embed_answer",
    run: |data| {
        thread_local! {
            static CLIENT_HALF: RefCell<EmbedClient> = RefCell::new(client());
        }
        CLIENT_HALF.with_borrow(|client| {
            let (batch, width) = (client.description().batch(), client.description().width());
            assert!(read(client, data, &vec![0; batch + 1]).is_err(), "more tokens than a query holds");
            let Ok(read) = read(client, data, &vec![0; batch]) else { return false };
            let whole = |one: &Vec<f64>| one.len() == width && one.iter().all(|number| number.is_finite());
            assert!(read.len() == batch && read.iter().all(whole));
            true
        })
    },
    repair: |data| messages::repair_answer(data, EMBEDDER.header()),
    seeds: || vec![ANSWERED.clone()],
};

fn client() -> EmbedClient {
    embed_client_of(EMBEDDER.description().clone()).expect("the same table")
}

static MODEL_ID: LazyLock<[u8; 16]> = LazyLock::new(|| TABLE.codes().id().to_bytes());

static KEYS: LazyLock<EvaluationKeys> = LazyLock::new(|| keys_of(&*EMBEDDER, &client()));

static QUERY_BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| query(&mut client(), &[1, 0]).expect("fits"));

static ANSWERED: LazyLock<Vec<u8>> =
    LazyLock::new(|| EMBEDDER.answer(&Request::new(CLIENT, &KEYS, &QUERY_BYTES), &Call::default()).expect("an answer"));

/// A seed, and 30 bits for each slot of two subtables of 128 tokens.
const SHORT_COMPACT_BYTES: usize = 16 + 2 * 128 * 30 / 8;

fn short_compact_client() -> EmbedClient {
    embed_client_of(SHORT_COMPACT_EMBEDDER.description().clone()).expect("the same table")
}

static SHORT_COMPACT_KEYS: LazyLock<EvaluationKeys> =
    LazyLock::new(|| keys_of(&*SHORT_COMPACT_EMBEDDER, &short_compact_client()));

fn strided_client() -> EmbedClient {
    wide_embed_client_of(STRIDED_EMBEDDER.description().clone()).expect("the same table")
}

static STRIDED_KEYS: LazyLock<EvaluationKeys> = LazyLock::new(|| keys_of(&*STRIDED_EMBEDDER, &strided_client()));

fn short_client() -> EmbedClient {
    embed_client_of(SHORT_EMBEDDER.description().clone()).expect("the same table")
}

static SHORT_KEYS: LazyLock<EvaluationKeys> = LazyLock::new(|| keys_of(&*SHORT_EMBEDDER, &short_client()));
