//! Both halves against each other and against the plaintext model, at a small insecure ring.

use std::borrow::Borrow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use unspoken_ckks::{CkksParameters, Preset};
use unspoken_classify::{Classified, ClassifyClient, ClassifyError, ClassifyOptions, ClassifyServer, Description};
use unspoken_encrypt::Needs;
use unspoken_fasttext::{Model, Tokeniser, TrainOptions, fit};
use unspoken_lookup::LookupPlan;
use unspoken_protocol::{
    ApplicationError, Call, CkksClientHalf, CkksDescription, CkksServerHalf, ClientHalf, ClientId, ErrorKind,
    KeyLoader, ProtocolError, Request, ServerHalf,
};
use unspoken_query::QueryForm;
use unspoken_rlwe::{EvaluationKeys, KeyStorage};

const PRESET: &str = "insecure_n11_depth9_scale50";
const GOOD: [&str; 4] = ["lunch at noon", "see you at home", "call mother tonight", "the train is late"];
const BAD: [&str; 4] = ["win free cash", "claim your prize now", "free entry call now", "urgent cash prize waiting"];

fn model(seed: u64) -> Model {
    model_of(seed, 256)
}

fn model_of(seed: u64, columns: usize) -> Model {
    fitted(&TrainOptions { seed, columns, ..TrainOptions::default() })
}

fn fitted(options: &TrainOptions) -> Model {
    let texts: Vec<String> =
        (0..80).map(|i| if i % 2 == 0 { GOOD[i / 2 % 4] } else { BAD[i / 2 % 4] }.into()).collect();
    let labels: Vec<String> = (0..80).map(|i| if i % 2 == 0 { "ham" } else { "spam" }.into()).collect();
    fit(&texts, &labels, options, &mut |_| {}, &AtomicBool::new(false)).unwrap()
}

fn server(model: &Model, plan: LookupPlan) -> ClassifyServer {
    let parameters = Preset::find(PRESET).unwrap().build().unwrap();
    let options = ClassifyOptions { plan: Some(plan), ..ClassifyOptions::default() };
    ClassifyServer::new(model.tables(), &parameters, &options).unwrap()
}

/// A server without short queries.
fn full_server(model: &Model) -> ClassifyServer {
    let parameters = Preset::find(PRESET).unwrap().build().unwrap();
    let plan = Some(LookupPlan::BabyGiant { babies: 16 });
    let options = ClassifyOptions { plan, short_queries: false, ..ClassifyOptions::default() };
    ClassifyServer::new(model.tables(), &parameters, &options).unwrap()
}

/// Full queries of a form.
fn asking(query: QueryForm) -> ClassifyOptions {
    ClassifyOptions { query, short_queries: false, ..ClassifyOptions::default() }
}

/// Short compact queries, in a ring for them.
fn short_server(model: &Model) -> Result<ClassifyServer, ClassifyError> {
    let parameters = Preset::find("insecure_n11_query_depth11_scale40").unwrap().build().unwrap();
    let options = ClassifyOptions { query: QueryForm::Compact, ..ClassifyOptions::default() };
    ClassifyServer::new(model.tables(), &parameters, &options)
}

fn client(model: &Model, server: &ClassifyServer) -> ClassifyClient {
    let description = Description::insecure_from_bytes(&server.description().to_bytes()).unwrap();
    ClassifyClient::open(description, Arc::new(model.encoder().clone()), None).unwrap()
}

fn bundle(client: &ClassifyClient) -> Vec<u8> {
    let mut bytes = Vec::new();
    client.keyring().write_keys(&mut bytes, |_, _| {}, &AtomicBool::new(false)).unwrap();
    assert_eq!(bytes.len() as u64, client.keyring().key_bytes());
    bytes
}

/// More bytes than the descriptions of all keys at the start of a bundle.
const FRONT: usize = 1000;

const CLIENT: ClientId = ClientId::new([1; 16]);

fn encrypt<S: Borrow<str>>(client: &mut ClassifyClient, questions: &[S]) -> Result<Vec<u8>, ClassifyError> {
    let encoded = client.encode(questions)?;
    client.query(&encoded)
}

fn ask(server: &ClassifyServer, keys: &EvaluationKeys, query: &[u8]) -> Result<Vec<u8>, ClassifyError> {
    server.answer(&Request::new(CLIENT, keys, query), &Call::default())
}

fn read<S: Borrow<str>>(
    client: &ClassifyClient,
    answer: &[u8],
    questions: &[S],
) -> Result<Vec<Classified>, ClassifyError> {
    client.read(answer, &client.encode(questions)?)
}

#[test]
fn encrypted_scores_are_the_models_scores() {
    let model = model(1);
    for plan in [LookupPlan::Paper, LookupPlan::BabyGiant { babies: 16 }] {
        let server = server(&model, plan);
        let mut client = client(&model, &server);
        let keys = server.load_keys(&mut bundle(&client).as_slice()).unwrap();
        let mut messages: Vec<String> = GOOD.iter().chain(&BAD).map(|s| s.to_string()).collect();
        messages[3] = String::new();
        messages[4] = "win ".repeat(300);
        let query = encrypt(&mut client, &messages).unwrap();
        assert!(query.len() <= server.description().query_bytes());
        let answer = ask(&server, &keys, &query).unwrap();
        assert!(answer.len() <= server.limits().answer_bytes);
        for (message, classified) in messages.iter().zip(read(&client, &answer, &messages).unwrap()) {
            let clear = model.scores(message);
            let size = clear.iter().fold(0.0f64, |max, z| z.abs().max(max));
            for (encrypted, clear) in classified.scores.iter().zip(&clear) {
                assert!((encrypted - clear).abs() < size * 2f64.powi(-10), "{encrypted} {clear}");
            }
            assert_eq!(classified.label, model.predict(message));
        }
    }
}

#[test]
fn tables_of_any_width_are_padded_on_both_sides() {
    for columns in [2, 100] {
        let model = model_of(1, columns);
        let parameters = Preset::find(PRESET).unwrap().build().unwrap();
        let server = ClassifyServer::new(model.tables(), &parameters, &ClassifyOptions::default()).unwrap();
        let mut client = client(&model, &server);
        let keys = server.load_keys(&mut bundle(&client).as_slice()).unwrap();
        let answer = ask(&server, &keys, &encrypt(&mut client, &GOOD).unwrap()).unwrap();
        for (message, classified) in GOOD.iter().zip(read(&client, &answer, &GOOD).unwrap()) {
            let clear = model.scores(message);
            let size = clear.iter().fold(0.0f64, |max, z| z.abs().max(max));
            assert!((classified.scores[0] - clear[0]).abs() < size * 2f64.powi(-10), "{columns}");
        }
    }
}

#[test]
fn every_form_of_query_gives_the_models_scores() {
    for (form, columns, preset) in [
        (QueryForm::Compact, 256, "insecure_n11_boot_depth10_scale50"),
        (QueryForm::Compact, 254, "insecure_n11_boot_depth10_scale50"),
        (QueryForm::OneHot, 16, PRESET),
    ] {
        let model = model_of(1, columns);
        let parameters = Preset::find(preset).unwrap().build().unwrap();
        let server = ClassifyServer::new(model.tables(), &parameters, &asking(form)).unwrap();
        let mut client = client(&model, &server);
        assert_eq!(client.description().query_form(), form);
        let keys = server.load_keys(&mut bundle(&client).as_slice()).unwrap();
        let query = encrypt(&mut client, &GOOD).unwrap();
        assert!(query.len() <= server.description().query_bytes());
        assert_eq!(query.len(), encrypt(&mut client, &BAD[..1]).unwrap().len());
        let answer = ask(&server, &keys, &query).unwrap();
        // What the client says before it sends is what travels.
        let predicted = [client.query_bytes(GOOD.len()), client.expected_answer_bytes(GOOD.len())];
        for (predicted, bytes) in predicted.into_iter().zip([query.len(), answer.len()]) {
            assert!((bytes..bytes + bytes / 50 + 200).contains(&predicted), "{form}: {predicted} {bytes}");
        }
        for (message, classified) in GOOD.iter().zip(read(&client, &answer, &GOOD).unwrap()) {
            let clear = model.scores(message);
            let size = clear.iter().fold(0.0f64, |max, z| z.abs().max(max));
            for (encrypted, clear) in classified.scores.iter().zip(&clear) {
                assert!((encrypted - clear).abs() < size * 2f64.powi(-10), "{form} {columns}: {encrypted} {clear}");
            }
        }
    }
    let parameters = Preset::find(PRESET).unwrap().build().unwrap();
    assert!(ClassifyServer::new(model(1).tables(), &parameters, &asking(QueryForm::Compact)).is_err());
}

#[test]
fn short_compact_queries_give_the_models_labels_and_a_bound_of_the_error() {
    // The small ring has 512 elements for a query: 4 subtables of 128, or 3 and a block that is not used.
    for (subtables, columns, max_tokens, batch) in [(4, 256, 32, 4), (3, 30, 128, 1)] {
        let tokeniser = Tokeniser { max_tokens, ..Tokeniser::default() };
        let model = fitted(&TrainOptions { subtables, columns, tokeniser, ..TrainOptions::default() });
        let server = short_server(&model).unwrap();
        let mut client = client(&model, &server);
        assert_eq!((client.batch(), client.description().query_form()), (batch, QueryForm::Compact));
        assert!(!client.description().has_short_queries());
        let keys = server.load_keys(&mut bundle(&client).as_slice()).unwrap();
        let bound = client.description().header().error_bound().unwrap();
        assert_eq!(server.precision().unwrap().error_bound, bound);
        let messages: Vec<&str> = GOOD.iter().chain(&BAD).copied().chain([""]).collect();
        for group in messages.chunks(batch) {
            let query = encrypt(&mut client, group).unwrap();
            assert_eq!(query.len(), encrypt(&mut client, &BAD[..1]).unwrap().len(), "the length shows nothing");
            let answer = ask(&server, &keys, &query).unwrap();
            assert!(answer.len() <= server.limits().answer_bytes);
            let predicted = [client.query_bytes(group.len()), client.expected_answer_bytes(group.len())];
            for (predicted, bytes) in predicted.into_iter().zip([query.len(), answer.len()]) {
                assert!((bytes..bytes + bytes / 50 + 200).contains(&predicted), "{predicted} {bytes}");
            }
            for (message, classified) in group.iter().zip(read(&client, &answer, group).unwrap()) {
                let clear = model.scores(message);
                assert_eq!(classified.label, model.predict(message));
                for (encrypted, clear) in classified.scores.iter().zip(&clear) {
                    assert!((encrypted - clear).abs() < bound, "{encrypted} {clear} {bound}");
                }
            }
        }
        let size = model.tables().score_bound();
        assert!(bound < size * 2f64.powi(-10), "{bound} {size}");
        let query = encrypt(&mut client, &GOOD[..1]).unwrap();
        let found = read(&client, &ask(&server, &keys, &query).unwrap(), &GOOD[..1]).unwrap();
        assert_ne!(client.share(&found, 4).unwrap(), found);
        assert!(encrypt(&mut client, &vec!["x"; batch + 1]).is_err());
    }
}

#[test]
fn short_compact_queries_that_do_not_fit_are_refused() {
    // 256 tokens of 4 subtables are more than 512 elements.
    let tokeniser = Tokeniser { max_tokens: 256, ..Tokeniser::default() };
    let long = fitted(&TrainOptions { columns: 30, tokeniser, ..TrainOptions::default() });
    let error = short_server(&long).err().unwrap().to_string();
    assert!(error.contains("256") && error.contains("short_queries=off"), "{error}");
    // A description with another period, or keys for more than it needs.
    let tokeniser = Tokeniser { max_tokens: 32, ..Tokeniser::default() };
    let server = short_server(&fitted(&TrainOptions { columns: 30, tokeniser, ..TrainOptions::default() })).unwrap();
    let sound = server.description().to_bytes();
    assert!(Description::insecure_from_bytes(&sound).is_ok());
    let kinds: Vec<String> =
        server.description().header().key_plan().iter().map(|(kind, _)| kind.to_string()).collect();
    assert!(
        kinds.iter().any(|kind| kind.contains("subring")) && !kinds.iter().any(|kind| kind.contains("capsulation"))
    );
}

#[test]
fn the_preset_follows_from_the_error_of_scores() {
    let model = model_of(1, 30);
    let options = ClassifyOptions::default();
    let parameters = Preset::find("insecure_n11_query_depth11_scale40").unwrap().build().unwrap();
    let short = ClassifyOptions { query: QueryForm::Compact, ..options };
    let served = |error: f64, preset: Option<&CkksParameters>, options: &ClassifyOptions| {
        let server = ClassifyServer::with_error(model.tables(), error, preset, options)?;
        assert!(server.precision().unwrap().error_bound <= error);
        Ok::<_, ClassifyError>(server.description().parameters().name().to_owned())
    };
    let (coarse, fine) = (served(0.5, None, &options).unwrap(), served(1e-5, None, &options).unwrap());
    assert!(coarse != fine && !coarse.contains("insecure"), "{coarse} {fine}");
    assert!(served(1e-2, Some(&parameters), &short).unwrap().contains("_query_"));
    let error = served(1e-9, Some(&parameters), &short).unwrap_err().to_string();
    assert!(error.contains("of preset insecure_n11_query"), "{error}");
}

#[test]
fn plans_for_other_queries_are_refused() {
    let parameters = Preset::find("insecure_n11_depth24_scale52").unwrap().build().unwrap();
    let options = ClassifyOptions { plan: Some(LookupPlan::Indicator), ..ClassifyOptions::default() };
    let error = ClassifyServer::new(model(1).tables(), &parameters, &options).err().unwrap();
    assert!(error.to_string().contains("indicator"), "{error}");
}

#[test]
fn answers_computed_with_other_keys_are_noticed() {
    let model = model(1);
    let server = server(&model, LookupPlan::BabyGiant { babies: 16 });
    let (one, mut two) = (client(&model, &server), client(&model, &server));
    let keys = server.load_keys(&mut bundle(&one).as_slice()).unwrap();
    let answer = ask(&server, &keys, &encrypt(&mut two, &GOOD).unwrap()).unwrap();
    assert!(read(&two, &answer, &GOOD).unwrap_err().to_string().contains("secret key"));
}

#[test]
fn seeded_keys_give_the_same_answers_in_half_of_the_memory() {
    let model = model(1);
    let expanded = server(&model, LookupPlan::BabyGiant { babies: 16 });
    let mut client = client(&model, &expanded);
    let (bundle, query) = (bundle(&client), encrypt(&mut client, &GOOD).unwrap());
    let (whole, announced) = (expanded.load_keys(&mut bundle.as_slice()).unwrap(), expanded.key_limits().memory_bytes);
    assert_eq!(expanded.loaded_key_bytes(&bundle[..FRONT]).unwrap(), announced);
    let answer = ask(&expanded, &whole, &query).unwrap();
    let seeded = expanded.with_key_storage(KeyStorage::Seeded);
    let keys = seeded.load_keys(&mut bundle.as_slice()).unwrap();
    let loaded = seeded.loaded_key_bytes(&bundle[..FRONT]).unwrap();
    assert!(keys.bytes() <= loaded && loaded == seeded.key_limits().memory_bytes);
    assert!(2 * loaded < announced + announced / 2, "{loaded} bytes instead of {announced}");
    // The guard against replays knows the query, which came from this client.
    let again = seeded.answer(&Request::new(ClientId::new([2; 16]), &keys, &query), &Call::default()).unwrap();
    assert_eq!(read(&client, &answer, &GOOD).unwrap().len(), read(&client, &again, &GOOD).unwrap().len());
    assert!(answer == again);
}

#[test]
fn queries_have_one_length_whatever_they_ask() {
    let model = model(1);
    let server = server(&model, LookupPlan::BabyGiant { babies: 16 });
    let mut client = client(&model, &server);
    let mut length = |messages: &[&str]| encrypt(&mut client, messages).unwrap().len();
    let full = [vec!["a"; 3], vec!["free cash"; 8], vec![""; 5]].map(|messages| length(&messages));
    assert!(full.iter().all(|&len| len == full[0]), "{full:?}");
    // One and two messages: short queries, whose length shows their number and nothing else.
    for count in [1, 2] {
        let small = ["a", "free cash", ""].map(|message| length(&vec![message; count]));
        assert!(small.iter().all(|&len| len == small[0]), "{small:?}");
        assert!(2 * small[0] < count * full[0], "{small:?} {full:?}");
    }
    assert!(encrypt(&mut client, &[""; 9]).is_err());
    assert!(encrypt::<&str>(&mut client, &[]).is_err());
}

#[test]
fn a_model_that_reads_fewer_tokens_may_follow() {
    // Texts are cut, never refused, so the number of tokens tells a service nothing.
    let of = |max_tokens| {
        let tokeniser = Tokeniser { max_tokens, ..Tokeniser::default() };
        server(&fitted(&TrainOptions { tokeniser, ..TrainOptions::default() }), LookupPlan::BabyGiant { babies: 16 })
    };
    let [long, short] = [of(64), of(32)];
    ClassifyClient::check_change(long.description(), short.description()).unwrap();
}

#[test]
fn halves_of_different_models_do_not_meet() {
    let (one, two) = (model(1), model(2));
    let server_one = server(&one, LookupPlan::BabyGiant { babies: 16 });
    let description = Description::insecure_from_bytes(&server_one.description().to_bytes()).unwrap();
    let error = ClassifyClient::open(description, Arc::new(two.encoder().clone()), None).err().unwrap();
    assert!(error.to_string().contains("another model"), "{error}");
    let server_two = server(&two, LookupPlan::BabyGiant { babies: 16 });
    let mut client_two = client(&two, &server_two);
    let keys = server_two.load_keys(&mut bundle(&client_two).as_slice()).unwrap();
    let query = encrypt(&mut client_two, &["x"]).unwrap();
    assert!(matches!(ask(&server_one, &keys, &query), Err(ClassifyError::Protocol(ProtocolError::Mismatch { .. }))));
    let answer = ask(&server_two, &keys, &query).unwrap();
    assert!(read(&client(&one, &server_one), &answer, &["x"]).is_err());
}

#[test]
fn hostile_bytes_are_refused() {
    let model = model(1);
    let server = server(&model, LookupPlan::BabyGiant { babies: 16 });
    let mut client = client(&model, &server);
    let bundle = bundle(&client);
    let keys = server.load_keys(&mut bundle.as_slice()).unwrap();
    let query = encrypt(&mut client, &["x"]).unwrap();
    for len in [0, 1, 10, 40, query.len() / 2, query.len() - 1] {
        assert!(ask(&server, &keys, &query[..len]).is_err(), "{len}");
    }
    assert!(ask(&server, &keys, &vec![0; query.len() + 100]).is_err());
    for position in [0, 5, 20, 40, 60, 70] {
        let mut damaged = query.clone();
        damaged[position] ^= 0x55;
        assert!(ask(&server, &keys, &damaged).is_err(), "{position}");
    }
    assert!(server.loaded_key_bytes(&bundle[..FRONT]).is_ok());
    assert!(server.loaded_key_bytes(&bundle[..30]).is_err());
    assert!(server.loaded_key_bytes(b"nonsense").is_err());
    assert!(Description::from_bytes(&server.description().to_bytes()).is_err(), "insecure presets stay in tests");
    assert!(Description::from_bytes(b"\xff\xff").is_err());
}

#[test]
fn work_stops_when_asked() {
    let model = model(1);
    let server = server(&model, LookupPlan::BabyGiant { babies: 16 });
    let mut client = client(&model, &server);
    let keys = server.load_keys(&mut bundle(&client).as_slice()).unwrap();
    let query = encrypt(&mut client, &["x"]).unwrap();
    let stop = AtomicBool::new(true);
    assert!(server.answer(&Request::new(CLIENT, &keys, &query), &Call::new(&stop)).unwrap_err().is_cancelled());
    assert!(client.keyring().write_keys(&mut Vec::new(), |_, _| {}, &stop).unwrap_err().is_cancelled());
}

#[test]
fn a_stored_secret_reads_the_answers_to_its_queries() {
    let model = model(1);
    let server = server(&model, LookupPlan::BabyGiant { babies: 16 });
    let mut first = client(&model, &server);
    let keys = server.load_keys(&mut bundle(&first).as_slice()).unwrap();
    let answer = ask(&server, &keys, &encrypt(&mut first, &["win free cash"]).unwrap()).unwrap();
    let description = Description::insecure_from_bytes(&server.description().to_bytes()).unwrap();
    let again = ClassifyClient::open(
        description,
        Arc::new(model.encoder().clone()),
        Some(&first.keyring().secret_bytes().unwrap()),
    )
    .unwrap();
    assert_eq!(read(&again, &answer, &["x"]).unwrap(), read(&first, &answer, &["x"]).unwrap());
}

#[test]
fn short_queries_have_the_scores_of_full_ones() {
    let model = model(1);
    let (small, full) = (server(&model, LookupPlan::BabyGiant { babies: 16 }), full_server(&model));
    assert!(small.description().has_short_queries() && !full.description().has_short_queries());
    let mut client = client(&model, &small);
    let keys = small.load_keys(&mut bundle(&client).as_slice()).unwrap();
    for messages in [&GOOD[..1], &BAD[..1], &BAD[..2], &[""], &["win ".repeat(300).as_str(), "lunch"]] {
        let query = encrypt(&mut client, messages).unwrap();
        let answer = ask(&small, &keys, &query).unwrap();
        // What the client says before it sends is what travels.
        let predicted = [client.query_bytes(messages.len()), client.expected_answer_bytes(messages.len())];
        for (predicted, bytes) in predicted.into_iter().zip([query.len(), answer.len()]) {
            assert!((bytes..bytes + bytes / 50 + 200).contains(&predicted), "{predicted} {bytes}");
        }
        for (message, classified) in messages.iter().zip(read(&client, &answer, messages).unwrap()) {
            let clear = model.scores(message);
            let bound = client.description().header().error_bound().unwrap();
            for (encrypted, clear) in classified.scores.iter().zip(&clear) {
                assert!((encrypted - clear).abs() < bound, "{encrypted} {clear} {bound}");
            }
            assert_eq!(classified.label, model.predict(message));
        }
        // The same seed with another query: a bit is changed. In some bytes that gives no residue of the ring.
        let is_refused = |back: usize| {
            let mut changed = client.description().header().unpack("query", &query, query.len(), 1).unwrap();
            let at = changed[0].len() - back;
            changed[0][at] ^= 1;
            let changed = client.description().header().pack(changed);
            ask(&small, &keys, &changed).unwrap_err().to_string().contains("used before")
        };
        assert!((1..9).any(is_refused));
        // A server that takes no short queries.
        let error = ask(&full, &keys, &query).unwrap_err().to_string();
        assert!(error.contains("a short one of period"), "{error}");
    }
    // Periods that nobody offers.
    let query = encrypt(&mut client, &["x"]).unwrap();
    for log2_period in [0, 6, 10, 11, 63, 64, 255] {
        let mut vectors = client.description().header().unpack("query", &query, query.len(), 1).unwrap();
        vectors[0][0] = log2_period;
        let error = ask(&small, &keys, &client.description().header().pack(vectors)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mismatch, "{log2_period}: {error}");
    }
}

#[test]
fn prepared_queries_are_asked_and_answered_like_others() {
    let model = model(1);
    let server = full_server(&model);
    let mut client = client(&model, &server);
    let keys = server.load_keys(&mut bundle(&client).as_slice()).unwrap();
    let plan = client.prepare(Needs { burst: 2, memory_bytes: 64 << 20 }).unwrap();
    let vectors = plan.zeros / 2;
    assert_eq!((vectors, plan.zeros), (model.encoder().shape().subtables, 2 * vectors));
    // More queries than are prepared; the server refuses a seed that is used twice.
    for message in GOOD.iter().chain(&BAD) {
        let query = encrypt(&mut client, &[*message]).unwrap();
        // The prepared encryptions have the queries' level: each vector is one of them and its scale.
        let framing = query.len() - vectors * (plan.sent_bytes + 8);
        assert!(framing < 200, "{framing}");
        let answer = ask(&server, &keys, &query).unwrap();
        assert_eq!(read(&client, &answer, &["x"]).unwrap()[0].label, model.predict(message));
    }
    // Too little memory for one vector.
    assert_eq!(client.prepare(Needs { burst: 2, memory_bytes: 1000 }).unwrap().zeros, 0);
    assert!(ask(&server, &keys, &encrypt(&mut client, &["x"]).unwrap()).is_ok());
}

#[test]
fn shared_scores_have_noise_above_the_error() {
    let model = model(1);
    let server = full_server(&model);
    let mut client = client(&model, &server);
    let keys = server.load_keys(&mut bundle(&client).as_slice()).unwrap();
    let answer = ask(&server, &keys, &encrypt(&mut client, &GOOD).unwrap()).unwrap();
    let found = read(&client, &answer, &GOOD).unwrap();
    let bound = client.description().header().error_bound().unwrap();
    for (message, classified) in GOOD.iter().zip(&found) {
        for (score, clear) in classified.scores.iter().zip(model.scores(message)) {
            assert!((score - clear).abs() < bound, "{score} {clear} {bound}");
        }
    }
    assert!(bound < 1e-2, "a bound that says something: {bound}");
    let shared = client.share(&found, 4).unwrap();
    let deviation = client.sharing_noise(4).unwrap().deviation();
    assert!((deviation / bound - 16.0).abs() < 1e-9);
    let pairs = || shared.iter().zip(&found).flat_map(|(a, b)| a.scores.iter().zip(&b.scores));
    assert!(pairs().all(|(a, b)| (a - b).abs() < 8.0 * deviation));
    assert!(pairs().filter(|(a, b)| (*a - *b).abs() > bound).count() >= GOOD.len(), "hardly any is so near");
    assert!(client.share(&found, 0).is_err());
    // Fresh noise each time.
    assert_ne!(client.share(&found, 4).unwrap(), client.share(&found, 4).unwrap());
    assert!(shared.iter().all(|one| client.certainty(one, 4).unwrap() > 0.9));
    let drowned = client.share(&found, 40).unwrap();
    assert!(drowned.iter().any(|one| client.certainty(one, 40).unwrap() < 0.9));
}

#[test]
fn compact_queries_have_no_bound_to_share_by() {
    let model = model_of(1, 254);
    let parameters = Preset::find("insecure_n11_boot_depth10_scale50").unwrap().build().unwrap();
    let server = ClassifyServer::new(model.tables(), &parameters, &asking(QueryForm::Compact)).unwrap();
    let error = client(&model, &server).sharing_noise(10).unwrap_err().to_string();
    assert!(error.contains("compact queries have none"), "{error}");
}

#[test]
fn a_flipped_bit_is_refused_as_damage_in_every_message() {
    let model = model(1);
    let server = server(&model, LookupPlan::BabyGiant { babies: 16 });
    let mut client = client(&model, &server);
    let keys = server.load_keys(&mut bundle(&client).as_slice()).unwrap();
    let query = encrypt(&mut client, &["x"]).unwrap();
    let answer = ask(&server, &keys, &query).unwrap();
    crate::damage::assert_damage_is_refused(&[
        ("description", server.describe(), &|bytes| {
            Description::insecure_from_bytes(bytes).map(drop).map_err(|error| error.to_string())
        }),
        ("query", query, &|bytes| ask(&server, &keys, bytes).map(drop).map_err(|error| error.to_string())),
        ("answer", answer, &|bytes| read(&client, bytes, &["x"]).map(drop).map_err(|error| error.to_string())),
    ]);
}
