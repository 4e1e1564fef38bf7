//! Targets for the protocol of private text generation: descriptions and answers that a client decodes, keys and
//! queries that a server decodes.

use std::cell::RefCell;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};

use prost::{Message, Oneof};
use unspoken_chat::{
    Answer, ChatClient, ChatError, ChatKeys, ChatServer, Description, PassInput, Question, ServedModel, ServerOptions,
    SessionId,
};
use unspoken_ckks::{Complex64, Encoder, Preset};
use unspoken_llama_model::Sampler;
use unspoken_protocol::{
    ApplicationDescription, ApplicationError, Call, CkksDescription, ClientHalf, ClientId, KeyGenerator, KeyLoader,
    ProtocolError, Request, ServerHalf,
};
use unspoken_rlwe::{KeyBundle, SecretKey};

use crate::fixtures::{CLIENT, query, read, rng};
use crate::llama::PREPARED;
use crate::messages::{self, Described, MAX_QUERY_BYTES_MADE};
use crate::{Target, repair};

/// A preset that has enough levels for the polynomials.
const BOOT_PRESET: &str = "insecure_n11_boot_depth15_scale40";

/// Tokens of a chunk.
const CHUNK: usize = 8;

/// The session of the passes.
const SESSION: [u8; 16] = [9; 16];

/// A client whose sessions begin and end.
const OTHER: ClientId = ClientId::new([2; 16]);

/// Fields of a description.
#[derive(Clone, PartialEq, Message)]
struct Own {
    #[prost(uint64, tag = "16")]
    answer_bytes: u64,
    #[prost(double, tag = "17")]
    unit: f64,
    #[prost(uint32, tag = "20")]
    width: u32,
    #[prost(uint32, tag = "21")]
    heads: u32,
    #[prost(uint32, tag = "22")]
    head_width: u32,
    #[prost(uint32, tag = "23")]
    vocabulary: u32,
    #[prost(uint32, tag = "24")]
    context: u32,
    #[prost(uint32, tag = "25")]
    prefix: u32,
    #[prost(uint32, tag = "26")]
    chunk: u32,
    #[prost(uint32, tag = "27")]
    chunks: u32,
    #[prost(uint32, tag = "28")]
    small_degree: u32,
    #[prost(uint32, tag = "29")]
    input_level: u32,
    #[prost(uint32, tag = "30")]
    result_level: u32,
    #[prost(double, tag = "31")]
    input_unit: f64,
    #[prost(double, tag = "32")]
    result_unit: f64,
    #[prost(int32, tag = "33")]
    result: i32,
    #[prost(int32, tag = "34")]
    input: i32,
    #[prost(uint32, tag = "35")]
    least_public: u32,
}

/// The first vector of a query.
#[derive(Clone, PartialEq, Message)]
struct Control {
    #[prost(oneof = "Kind", tags = "1, 2, 3")]
    kind: Option<Kind>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Kind {
    #[prost(message, tag = "1")]
    Begin(Begin),
    #[prost(message, tag = "2")]
    Pass(Pass),
    #[prost(message, tag = "3")]
    End(End),
}

#[derive(Clone, PartialEq, Message)]
struct Begin {
    #[prost(bytes = "vec", tag = "1")]
    session: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    tokens: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct Pass {
    #[prost(bytes = "vec", tag = "1")]
    session: Vec<u8>,
    #[prost(uint32, tag = "2")]
    chunk: u32,
}

#[derive(Clone, PartialEq, Message)]
struct End {
    #[prost(bytes = "vec", tag = "1")]
    session: Vec<u8>,
}

/// `Description::insecure_from_bytes`, and a client that makes the queries that the description asks for, and the keys
/// if they are few.
pub static DESCRIBED: Target = Target {
    name: "chat_description",
    run: |data| {
        let read = messages::read_description::<Own, _>(data, Description::to_bytes);
        let Some(description) = read else { return false };
        assert!(description.least_public_tokens() <= description.most_public_tokens());
        assert!(description.most_public_tokens() + description.prefix() + description.chunk() <= description.context());
        if let Ok(client) = client_of(description) {
            serve_a_hostile_server(client);
        }
        true
    },
    repair: |data| {
        let Ok(mut message) = Described::<Own>::decode(data) else { return };
        let sound = &*SOUND;
        let (dimensions, error) = (message.header.bound.to_bits() % 4 != 0, message.header.error);
        message.repair_header(Description::PROTOCOL, |bound| bound > 0.0);
        if error == 0.0 {
            message.header.error = 0.0;
        }
        message.header.plan.clone_from(&sound.header.plan);
        let own = &mut message.own;
        own.chunk = 8 << (own.chunk % 4);
        own.small_degree = 512 << (own.small_degree % 2);
        (own.result, own.input) = (own.result & 1, own.input & 1);
        // Mostly the dimensions of the client's half, so that it makes queries.
        if dimensions {
            message.header.model_id.clone_from(&sound.header.model_id);
            (own.width, own.heads, own.head_width) = (sound.own.width, sound.own.heads, sound.own.head_width);
            (own.vocabulary, own.prefix) = (sound.own.vocabulary, sound.own.prefix);
            own.context = sound.own.context.max(own.chunk + own.prefix);
        }
        own.least_public = own.least_public.min(own.context.saturating_sub(own.prefix.saturating_add(own.chunk)));
        messages::repair_bound(&mut own.input_unit, |unit| unit > 0.0);
        messages::repair_bound(&mut own.result_unit, |unit| unit > 0.0);
        *data = message.encode(Description::PROTOCOL);
    },
    seeds: || {
        let with_few_keys = |message: &Described<Own>| {
            let mut message = message.clone();
            message.header.keys.truncate(1);
            message
        };
        let few = with_few_keys(&SOUND);
        let mut small = few.clone();
        (small.own.input_level, small.own.result_level) = (0, 0);
        let mut normed = small.clone();
        normed.own.result = 1;
        let mut least = few.clone();
        least.own.least_public = 3;
        let tokens = Described::<Own>::sound(&TOKEN_SERVICE.describe());
        let few_tokens = with_few_keys(&tokens);
        let all = [SOUND.clone(), few, small, normed, least, tokens, few_tokens];
        all.iter().map(|message| message.encode(Description::PROTOCOL)).collect()
    },
};

static SOUND: LazyLock<Described<Own>> = LazyLock::new(|| Described::sound(&SERVICE.describe()));

/// Makes the queries that a description asks for, and the keys if they are few, and checks the announced sizes.
fn serve_a_hostile_server(mut client: ChatClient) {
    let (most, few) = (client.description().query_bytes(), client.description().header().key_plan().len() <= 2);
    if most > MAX_QUERY_BYTES_MADE {
        return;
    }
    let tokens = vec![3; client.description().chunk()];
    for question in [begin(vec![4; client.description().most_public_tokens().min(100)]), pass(tokens)] {
        if let Ok(query) = query(&mut client, &[question]) {
            assert!(query.len() <= most, "a query of {} bytes, announced {most}", query.len());
        }
    }
    let mut bundle = Vec::new();
    if few
        && client.key_bytes() <= MAX_QUERY_BYTES_MADE as u64
        && client.write_keys(&mut bundle, |_, _| {}, &GO).is_ok()
    {
        assert_eq!(bundle.len() as u64, client.key_bytes());
    }
}

/// `ChatServer::loaded_key_bytes`: accepts the front of a bundle with all keys of its own plan, and announces at least
/// the memory of the keys that it uses. No such front is a whole bundle.
pub static KEY_FRONT: Target = Target {
    name: "chat_key_front",
    run: |data| {
        let Ok(bytes) = SERVICE.loaded_key_bytes(data) else {
            assert!(SERVICE.load_keys(&mut &data[..]).is_err(), "a bundle with too few keys");
            return false;
        };
        let parameters = SERVICE.description().parameters().rlwe();
        let plan = KeyBundle::read_plan(parameters, &mut &data[..]).expect("a plan was read");
        assert!(plan.covers(SERVICE.description().header().key_plan()), "keys are missing");
        assert!(bytes >= SERVICE.key_limits().memory_bytes);
        assert!(SERVICE.load_keys(&mut &data[..]).is_err(), "a bundle without keys");
        true
    },
    repair: |data| {
        let parameters = SERVICE.description().parameters().rlwe();
        repair::header(parameters, repair::Kind::KeyBundle, data, repair::BUNDLE_HEAD);
    },
    seeds: || {
        let front = client(&SERVICE).bundle_contents();
        vec![front.clone(), [front, b"more".to_vec()].concat()]
    },
};

/// `ChatServer::answer`, stopped before the first operation of a pass: a pass has its vectors, and the answer to any
/// other question is read by the client.
pub static QUERY: Target = Target {
    name: "chat_query",
    run: |data| is_answered(&SERVICE, &KEYS, data),
    repair: |data| {
        let header = SERVICE.description().header();
        repair_query(data, &SERVICE, |vectors| {
            messages::repair_ciphertexts(vectors, header, repair::seeded_ciphertext);
        });
    },
    seeds: || [other_queries(), vec![PASS_QUERY.clone()]].concat(),
};

/// As [`QUERY`], for a server that takes tokens as compact queries.
pub static TOKEN_QUERY: Target = Target {
    name: "chat_token_query",
    run: |data| is_answered(&TOKEN_SERVICE, &TOKEN_KEYS, data),
    repair: |data| {
        repair_query(data, &TOKEN_SERVICE, |vectors| {
            for vector in vectors {
                // The seed follows from the elements: a service refuses a seed that it has seen with other elements.
                // Elements of 29 bits are below every prime.
                vector.resize(COMPACT_SEED + 4 * CHUNK, 0);
                let (seed, elements) = vector.split_at_mut(COMPACT_SEED);
                elements.iter_mut().skip(3).step_by(4).for_each(|byte| *byte &= 0x1f);
                seed.copy_from_slice(&blake3::hash(elements).as_bytes()[..COMPACT_SEED]);
            }
        });
    },
    seeds: || [other_queries(), vec![pass_query(&TOKEN_SERVICE)]].concat(),
};

/// Bytes of the seed of a compact query.
const COMPACT_SEED: usize = 16;

/// Whether a server accepts a query.
fn is_answered(server: &ChatServer, keys: &ChatKeys, data: &[u8]) -> bool {
    let (description, header) = (server.description(), server.description().header());
    let vectors = header.unpack("query", data, server.limits().query_bytes, usize::MAX).unwrap_or_default();
    if vectors.len() > 1 {
        let Err(error) = server.answer(&Request::new(CLIENT, keys, data), &Call::new(&STOPPED)) else {
            panic!("a pass was not stopped")
        };
        return error.is_cancelled();
    }
    let Ok(answer) = server.answer(&Request::new(OTHER, keys, data), &Call::default()) else { return false };
    assert!(answer.len() <= server.limits().answer_bytes);
    let control = Control::decode(vectors[0].as_slice()).expect("a message was read");
    let session = |bytes: &[u8]| SessionId::new(bytes.try_into().expect("16 bytes were read"));
    let question = match control.kind.expect("a kind was read") {
        Kind::Begin(Begin { session: id, tokens }) => {
            let (words, rest) = tokens.as_chunks::<4>();
            assert!(rest.is_empty() && words.len() <= description.most_public_tokens());
            Question::Begin { session: session(&id), public: words.iter().map(|w| u32::from_le_bytes(*w)).collect() }
        }
        Kind::End(End { session: id }) => Question::End { session: session(&id) },
        Kind::Pass(_) => panic!("a pass without vectors"),
    };
    let read = read(&client(server), &answer, &[question]).expect("the answer to this question");
    assert!(matches!(read[..], [Answer::Begun { .. } | Answer::Ended]));
    true
}

/// `ChatServer::compute_part`, stopped before the first operation.
pub static PART: Target = Target {
    name: "chat_part",
    run: |data| {
        // The keys and values of its tokens are there, so that parts of attention are read to their end.
        static PUBLIC: LazyLock<()> = LazyLock::new(|| {
            let task = Some(Task::Heads(Heads { layer: 0, block: 0, step: 0 }));
            let part = Part { public_tokens: PUBLIC_TOKEN.into(), chunk: 0, chunks: 1, task, vectors: Vec::new() };
            let computed = SERVICE.compute_part(&KEYS, &part.encode_to_vec(), &Call::default());
            assert!(computed.is_some_and(|computed| computed.is_err()), "heads without queries");
        });
        LazyLock::force(&PUBLIC);
        let computed = SERVICE.compute_part(&KEYS, data, &Call::new(&STOPPED)).expect("a server that computes parts");
        let Err(error) = computed else { panic!("a part was not stopped") };
        error.is_cancelled()
    },
    repair: |data| {
        let Ok(mut part) = Part::decode(data.as_slice()) else { return };
        part.public_tokens = PUBLIC_TOKEN.into();
        messages::repair_ciphertexts(&mut part.vectors, SERVICE.description().header(), repair::ciphertext);
        *data = part.encode_to_vec();
    },
    seeds: || {
        let place = |quantity: &str| ValuePlace { layer: 0, quantity: quantity.into() };
        let places = vec![place("query"), place("key"), place("value")];
        let one = Task::Product(Product { places, first: 0, end: 1, scale: 2f64.powi(40) });
        let function = Task::Function(PlacedVector { place: Some(place("silu")), index: 0 });
        let tasks = [
            (Task::Refresh(Nothing {}), 2, 3),
            (Task::Coefficients(Nothing {}), 1, 3),
            (one, 1, 0),
            (function, 1, 4),
            (Task::Heads(Heads { layer: 0, block: 0, step: 5 }), 3, 1),
        ];
        let part = |(task, count, level): (Task, usize, usize)| {
            let vectors = vec![vector(level); count];
            Part { public_tokens: PUBLIC_TOKEN.into(), chunk: 0, chunks: 1, task: Some(task), vectors }.encode_to_vec()
        };
        tasks.map(part).to_vec()
    },
};

/// The public tokens of parts: one.
const PUBLIC_TOKEN: [u8; 4] = [4, 0, 0, 0];

/// A ciphertext of the service's parameters.
fn vector(level: usize) -> Vec<u8> {
    let parameters = SERVICE.description().parameters();
    let encoder = Encoder::new(parameters);
    let secret = SecretKey::generate(parameters.rlwe(), &mut rng()).expect("a key");
    let plaintext = encoder.encode(&[Complex64::new(0.5, 0.0)], level, parameters.scale()).expect("fits");
    let encrypted = encoder.encrypt(&plaintext, &secret, &mut rng()).expect("encrypts");
    encrypted.expand(parameters).to_bytes(parameters)
}

/// A part of a pass.
#[derive(Clone, PartialEq, Message)]
struct Part {
    #[prost(bytes = "vec", tag = "1")]
    public_tokens: Vec<u8>,
    #[prost(uint32, tag = "2")]
    chunk: u32,
    #[prost(uint32, tag = "3")]
    chunks: u32,
    #[prost(oneof = "Task", tags = "4, 5, 6, 7, 8")]
    task: Option<Task>,
    #[prost(bytes = "vec", repeated, tag = "9")]
    vectors: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Task {
    #[prost(message, tag = "4")]
    Refresh(Nothing),
    #[prost(message, tag = "5")]
    Coefficients(Nothing),
    #[prost(message, tag = "6")]
    Product(Product),
    #[prost(message, tag = "7")]
    Function(PlacedVector),
    #[prost(message, tag = "8")]
    Heads(Heads),
}

#[derive(Clone, PartialEq, Message)]
struct Nothing {}

#[derive(Clone, PartialEq, Message)]
struct Product {
    #[prost(message, repeated, tag = "1")]
    places: Vec<ValuePlace>,
    #[prost(uint32, tag = "2")]
    first: u32,
    #[prost(uint32, tag = "3")]
    end: u32,
    #[prost(double, tag = "4")]
    scale: f64,
}

#[derive(Clone, PartialEq, Message)]
struct PlacedVector {
    #[prost(message, optional, tag = "1")]
    place: Option<ValuePlace>,
    #[prost(uint32, tag = "2")]
    index: u32,
}

#[derive(Clone, PartialEq, Message)]
struct Heads {
    #[prost(uint32, tag = "1")]
    layer: u32,
    #[prost(uint32, tag = "2")]
    block: u32,
    #[prost(uint32, tag = "3")]
    step: u32,
}

#[derive(Clone, PartialEq, Message)]
struct ValuePlace {
    #[prost(uint32, tag = "1")]
    layer: u32,
    #[prost(string, tag = "2")]
    quantity: String,
}

/// Repairs a query, the vectors of a pass with `repair`.
fn repair_query(data: &mut Vec<u8>, server: &ChatServer, repair: impl FnOnce(&mut [Vec<u8>])) {
    messages::repair_vectors(data, server.description().header(), |vectors| {
        let Some((control, vectors)) = vectors.split_first_mut() else { return };
        repair_control(control);
        repair(vectors);
    });
}

/// Queries that are no passes. They are the same for all servers of a model.
fn other_queries() -> Vec<Vec<u8>> {
    let public = SERVICE.description().most_public_tokens();
    let end = Question::End { session: SessionId::new(SESSION) };
    let of = |question: Question| query(&mut client(&SERVICE), &[question]).expect("fits");
    vec![of(begin(vec![])), of(begin(vec![5; public])), of(end)]
}

fn pass_query(server: &ChatServer) -> Vec<u8> {
    query(&mut client(server), &[pass((0..CHUNK as u32).collect())]).expect("fits")
}

/// Gives a question a session of 16 bytes, and tokens of the vocabulary.
fn repair_control(control: &mut Vec<u8>) {
    let Ok(mut message) = Control::decode(control.as_slice()) else { return };
    match &mut message.kind {
        Some(Kind::Begin(Begin { session, tokens })) => {
            session.resize(SESSION.len(), 0);
            tokens.truncate(4 * SERVICE.description().most_public_tokens());
            tokens.truncate(tokens.len() / 4 * 4);
            let vocabulary = SERVICE.description().vocabulary() as u32;
            for word in tokens.as_chunks_mut::<4>().0 {
                *word = (u32::from_le_bytes(*word) % vocabulary).to_le_bytes();
            }
        }
        Some(Kind::Pass(pass)) => pass.session = SESSION.to_vec(),
        Some(Kind::End(End { session })) => session.resize(SESSION.len(), 0),
        None => return,
    }
    *control = message.encode_to_vec();
}

/// `ChatClient::read`: an accepted answer to a pass has finite logits for each token of the chunk; one to another
/// question says what the question asked for.
pub static ANSWER: Target = Target {
    name: "chat_answer",
    run: |data| {
        thread_local! {
            static CLIENT_HALF: RefCell<ChatClient> = RefCell::new(client(&SERVICE));
        }
        CLIENT_HALF.with_borrow(|client| {
            let questions = [pass(vec![3; CHUNK]), begin(vec![]), Question::End { session: SessionId::new(SESSION) }];
            let accepted = questions.iter().filter_map(|question| read(client, data, &[question]).ok());
            let mut count = 0;
            for mut answer in accepted {
                assert_eq!(answer.len(), 1);
                if let Some(Answer::Passed(logits)) = answer.pop() {
                    assert_eq!(logits.len(), CHUNK);
                    let vocabulary = client.description().vocabulary();
                    for token in 0..CHUNK {
                        let row = logits.row(token).expect("a row for each token");
                        assert!(row.len() == vocabulary && row.iter().all(|logit| logit.is_finite()));
                        let next = Sampler::greedy().choose(row).token;
                        assert!(row.iter().all(|logit| *logit <= row[next as usize]));
                    }
                }
                count += 1;
            }
            assert!(count <= 1, "an answer to several questions");
            count == 1
        })
    },
    repair: |data| {
        let header = SERVICE.description().header();
        messages::repair_vectors(data, header, |vectors| {
            let rest = vectors.split_first_mut().map_or(&mut [][..], |(_, rest)| rest);
            messages::repair_ciphertexts(rest, header, repair::ciphertext);
        });
    },
    seeds: || {
        let of =
            |query: &[u8]| SERVICE.answer(&Request::new(CLIENT, &KEYS, query), &Call::default()).expect("an answer");
        vec![of(&PASS_QUERY), of(&query(&mut client(&SERVICE), &[begin(vec![])]).expect("fits"))]
    },
};

fn begin(public: Vec<u32>) -> Question {
    Question::Begin { session: SessionId::new(SESSION), public }
}

fn pass(tokens: Vec<u32>) -> Question {
    Question::Pass { session: SessionId::new(SESSION), chunk: 0, tokens: tokens.into() }
}

/// A server of the prepared model, whose clients encrypt embeddings.
static SERVICE: LazyLock<ChatServer> = LazyLock::new(|| server(PassInput::Embeddings));

/// A server of the prepared model, whose clients encrypt tokens.
static TOKEN_SERVICE: LazyLock<ChatServer> = LazyLock::new(|| server(PassInput::Tokens));

fn server(input: PassInput) -> ChatServer {
    let served =
        ServedModel::new(&PREPARED.preparation, PREPARED.rotated.clone()).expect("a preparation of this model");
    let parameters = Preset::find(BOOT_PRESET).and_then(Preset::build).expect("builds");
    let options = ServerOptions { chunk: CHUNK, chunks: 1, input, ..ServerOptions::default() };
    ChatServer::new(served, &parameters, &options).expect("levels suffice")
}

fn client(server: &ChatServer) -> ChatClient {
    client_of(server.description().clone()).expect("the same model")
}

/// A client of a server with this description; its secret is the same in every run.
fn client_of(description: Description) -> Result<ChatClient, ChatError> {
    let secret = SecretKey::generate(description.parameters().rlwe(), &mut rng()).and_then(|key| key.to_bytes());
    ChatClient::open(description, Arc::clone(&PREPARED.client), Some(&secret.map_err(ProtocolError::from)?))
}

static KEYS: LazyLock<ChatKeys> = LazyLock::new(|| keys(&SERVICE));
static TOKEN_KEYS: LazyLock<ChatKeys> = LazyLock::new(|| keys(&TOKEN_SERVICE));

/// The client's keys at a server; the session of passes has begun.
fn keys(server: &ChatServer) -> ChatKeys {
    let mut bundle = Vec::new();
    client(server).write_keys(&mut bundle, |_, _| {}, &GO).expect("writes to memory");
    let keys = server.load_keys(&mut bundle.as_slice()).expect("the client's keys");
    let begun = query(&mut client(server), &[begin(vec![4])]).expect("fits");
    server.answer(&Request::new(CLIENT, &keys, &begun), &Call::default()).expect("a session");
    keys
}

static PASS_QUERY: LazyLock<Vec<u8>> = LazyLock::new(|| pass_query(&SERVICE));

static GO: AtomicBool = AtomicBool::new(false);
static STOPPED: AtomicBool = AtomicBool::new(true);
