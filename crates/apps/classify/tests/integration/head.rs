//! Both halves against each other and against the head in the clear, at a small insecure ring.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use unspoken_ckks::Preset;
use unspoken_classify::{
    Classified, ClassifyError, ClassifyOptions, HeadClient, HeadDescription, HeadModel, HeadServer, HeadTables,
};
use unspoken_embedding::{
    CompressOptions, CompressedTable, EmbeddingError, EmbeddingTable, HeadOptions, LinearHead, TextReader, TokenList,
    compress,
};
use unspoken_protocol::{Call, CkksClientHalf, CkksDescription, ClientHalf, ClientId, KeyLoader, Request, ServerHalf};
use unspoken_query::QueryForm;
use unspoken_rlwe::EvaluationKeys;

const PRESET: &str = "insecure_n11_depth9_scale50";
const CLIENT: ClientId = ClientId::new([1; 16]);
static GO: AtomicBool = AtomicBool::new(false);

/// Tokens `w0` to `w59`, with a row for unknown ones if asked.
fn table(seed: usize, columns: usize, unknown: bool) -> CompressedTable {
    let tokens = TokenList::new((0..60).map(|i| format!("w{i}")).collect()).unwrap();
    let values = (0..60 * 5).map(|i| ((i * i + seed) as f32 * 0.37).sin() + 0.2).collect();
    let mut table = EmbeddingTable::new(tokens, 5, values).unwrap();
    if unknown {
        table = table.with_unknown().unwrap();
    }
    compress(&table, &CompressOptions { columns, rounds: 2, ..CompressOptions::default() }, &mut |_| {}, &GO).unwrap()
}

/// A head of three classes that reads 32 tokens.
fn head() -> LinearHead {
    let classes = ["a", "b", "c"].map(String::from).to_vec();
    let weights = (0..15).map(|i| f64::from(i * i % 7) - 3.0).collect();
    LinearHead::new(classes, 32, 5, weights, vec![0.5, -1.25, 0.0]).unwrap()
}

fn server_of(head: &LinearHead, table: &CompressedTable, preset: &str, options: &ClassifyOptions) -> HeadServer {
    let parameters = Preset::find(preset).unwrap().build().unwrap();
    HeadServer::new(&HeadTables::new(head, table.subtables()).unwrap(), &parameters, options).unwrap()
}

fn client_of(server: &HeadServer, table: &CompressedTable, cut: bool) -> HeadClient {
    let description = HeadDescription::insecure_from_bytes(&server.describe()).unwrap();
    HeadClient::open(description, HeadModel { codes: Arc::new(table.codes().clone()), cut }, None).unwrap()
}

fn keys(server: &HeadServer, client: &HeadClient) -> EvaluationKeys {
    let mut bundle = Vec::new();
    client.keyring().write_keys(&mut bundle, |_, _| {}, &GO).unwrap();
    server.load_keys(&mut bundle.as_slice()).unwrap()
}

fn ask(
    server: &HeadServer,
    client: &mut HeadClient,
    keys: &EvaluationKeys,
    texts: &[&str],
) -> (Vec<Classified>, [usize; 2]) {
    let encoded = client.encode(texts).unwrap();
    let query = client.query(&encoded).unwrap();
    let answer = server.answer(&Request::new(CLIENT, keys, &query), &Call::default()).unwrap();
    assert!(query.len() <= server.limits().query_bytes && answer.len() <= server.limits().answer_bytes);
    (client.read(&answer, &encoded).unwrap(), [query.len(), answer.len()])
}

/// Texts of no, one, few and all 32 tokens, with and without unknown words.
fn texts() -> Vec<String> {
    let all: Vec<String> = (0..32).map(|i| format!("w{}", i * 7 % 60)).collect();
    vec![String::new(), "w3".into(), "w1 w1 zebra w59".into(), "zebra okapi".into(), all.join(" ")]
}

fn check(table: &CompressedTable, head: &LinearHead, text: &str, found: &Classified, error: f64) {
    let clear = head.scores(table, &TextReader::new(table.codes().tokens()).read(text).ids).unwrap();
    for (encrypted, clear) in found.scores.iter().zip(&clear) {
        assert!((encrypted - clear).abs() < error, "{text:?}: {encrypted} {clear}");
    }
    assert_eq!(found.label, head.class_of(&clear), "{text:?}");
}

#[test]
fn encrypted_scores_are_the_heads_scores() {
    for (unknown, columns) in [(false, 16), (true, 10)] {
        let (table, head) = (table(0, columns, unknown), head());
        let server = server_of(&head, &table, PRESET, &ClassifyOptions::default());
        assert!(server.description().has_short_queries());
        assert_eq!(server.description().labels(), ["a", "b", "c"]);
        let mut client = client_of(&server, &table, false);
        let keys = keys(&server, &client);
        let texts = texts();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        // A full query, and small ones.
        let full: Vec<&str> = texts.iter().copied().cycle().take(client.batch()).collect();
        let bound = client.description().header().error_bound().unwrap();
        for texts in [&full[..], &texts[..1], &texts[1..2], &texts[2..4]] {
            let (answers, bytes) = ask(&server, &mut client, &keys, texts);
            for (text, answer) in texts.iter().zip(&answers) {
                check(&table, &head, text, answer, bound);
            }
            let predicted = [client.query_bytes(texts.len()), client.expected_answer_bytes(texts.len())];
            for (predicted, bytes) in predicted.into_iter().zip(bytes) {
                assert!((bytes..bytes + bytes / 50 + 200).contains(&predicted), "{predicted} {bytes}");
            }
        }
    }
}

#[test]
fn compact_queries_have_the_same_scores() {
    let (table, head) = (table(0, 16, true), head());
    let texts = texts();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    for (short_queries, preset) in
        [(false, "insecure_n11_boot_depth10_scale50"), (true, "insecure_n11_query_depth11_scale40")]
    {
        let options = ClassifyOptions { query: QueryForm::Compact, short_queries, ..ClassifyOptions::default() };
        let server = server_of(&head, &table, preset, &options);
        let mut client = client_of(&server, &table, false);
        let keys = keys(&server, &client);
        for texts in texts.chunks(client.batch()) {
            let (answers, _) = ask(&server, &mut client, &keys, texts);
            // Only the error of short queries has a bound.
            let error = client.description().header().error_bound().unwrap_or(1e-2);
            texts.iter().zip(&answers).for_each(|(text, answer)| check(&table, &head, text, answer, error));
        }
    }
}

#[test]
fn the_error_of_the_chosen_plan_is_small_enough() {
    let (table, head) = (table(0, 16, true), head());
    let parameters = Preset::find(PRESET).unwrap().build().unwrap();
    let choose = |error| {
        HeadServer::with_error(
            &HeadTables::new(&head, table.subtables()).unwrap(),
            error,
            Some(&parameters),
            &ClassifyOptions::default(),
        )
    };
    assert!(choose(1e-2).unwrap().precision().unwrap().error_bound <= 1e-2);
    let error = choose(1e-30).err().unwrap().to_string();
    assert!(error.contains("the smallest bound is"), "{error}");
}

#[test]
fn long_texts_are_refused_or_cut() {
    let (table, head) = (table(0, 16, true), head());
    let server = server_of(&head, &table, PRESET, &ClassifyOptions::default());
    let long = "w5 ".repeat(33);
    // The service cannot tell a refused text from another one: a query is sent, and the answer is decrypted.
    let mut refusing = client_of(&server, &table, false);
    let keys_of_refusing = keys(&server, &refusing);
    let texts = ["w1", long.as_str()];
    let encoded = refusing.encode(&texts).unwrap();
    let query = refusing.query(&encoded).unwrap();
    let as_long = refusing.encode(&["w1", "w2"]).unwrap();
    assert_eq!(query.len(), refusing.query(&as_long).unwrap().len());
    let answer = server.answer(&Request::new(CLIENT, &keys_of_refusing, &query), &Call::default()).unwrap();
    let error = refusing.read(&answer, &encoded).unwrap_err();
    assert!(matches!(error, ClassifyError::TooLong { position: 2, found: 33, most: 32 }), "{error}");
    let mut client = client_of(&server, &table, true);
    let keys = keys(&server, &client);
    let (answers, _) = ask(&server, &mut client, &keys, &[&long]);
    check(&table, &head, &long, &answers[0], 1e-3);
}

#[test]
fn a_bound_of_tokens_that_shrinks_is_refused() {
    let table = table(0, 16, true);
    let describe = |most| {
        let classes = ["a", "b"].map(String::from).to_vec();
        let head = LinearHead::new(classes, most, 5, vec![1.0; 10], vec![0.0; 2]).unwrap();
        let server = server_of(&head, &table, PRESET, &ClassifyOptions::default());
        HeadDescription::insecure_from_bytes(&server.describe()).unwrap()
    };
    let (short, long) = (describe(16), describe(32));
    HeadClient::check_change(&short, &long).unwrap();
    HeadClient::check_change(&long, &long).unwrap();
    let error = HeadClient::check_change(&long, &short).unwrap_err().to_string();
    assert!(error.contains("found 16 tokens of a text, needed 32 at least, as before"), "{error}");
}

#[test]
fn shared_scores_have_noise_and_labels_that_follow() {
    let (table, head) = (table(0, 16, true), head());
    let server = server_of(&head, &table, PRESET, &ClassifyOptions::default());
    let mut client = client_of(&server, &table, false);
    let keys = keys(&server, &client);
    let (answers, _) = ask(&server, &mut client, &keys, &["w1 w2 w3 w4", ""]);
    let shared = client.share(&answers, 10).unwrap();
    let deviation = client.sharing_noise(10).unwrap().deviation();
    for (shared, answer) in shared[0].scores.iter().zip(&answers[0].scores) {
        let moved = (shared - answer).abs();
        assert!(moved > 0.0 && moved < 10.0 * deviation / 4.0, "{moved} {deviation}");
    }
    // A text without tokens has noise, too, so that it does not show. Now and then noise is rounded to nothing.
    let empty: Vec<_> = (0..12).map(|_| client.share(&answers[1..], 10).unwrap().remove(0)).collect();
    for (class, bias) in head.bias().iter().enumerate() {
        assert!(empty.iter().any(|shared| shared.scores[class] != *bias), "{bias}");
    }
    // Scores are rounded to steps that are the same for five to seven tokens as for four.
    let texts = ["w1 w2 w3 w4", "w1 w2 w3 w4 w5", "w1 w2 w3 w4 w5 w6 w7"];
    for text in texts {
        let (answers, _) = ask(&server, &mut client, &keys, &[text]);
        for score in &client.share(&answers, 10).unwrap()[0].scores {
            let steps = score / (deviation / 4.0 / 8.0);
            assert!((steps - steps.round()).abs() < 1e-6, "{text}: {steps}");
        }
    }
    assert!(client.share(&answers, 46).is_err());
    // Noise that decides labels says so. Scores with much noise may be equal: nothing is said of them under less noise.
    let certainty = |bits| client.certainty(&client.share(&answers, bits).unwrap()[0], bits).unwrap();
    assert!(certainty(40) < 0.999);
    assert!(certainty(1) > 0.999);
}

#[test]
fn halves_that_do_not_belong_together_are_refused() {
    let (one, two, head) = (table(0, 16, false), table(1, 16, false), head());
    let server = server_of(&head, &one, PRESET, &ClassifyOptions::default());
    let description = || HeadDescription::insecure_from_bytes(&server.describe()).unwrap();
    let model = |table: &CompressedTable| HeadModel { codes: Arc::new(table.codes().clone()), cut: false };
    let error = HeadClient::open(description(), model(&two), None).err().unwrap().to_string();
    assert!(error.contains("another compressed table"), "{error}");
    // Another head over the same table has another id: old descriptions are refused.
    let weights = head.weights().iter().map(|w| w + 0.5).collect();
    let other = LinearHead::new(head.classes().to_vec(), 32, 5, weights, head.bias().to_vec()).unwrap();
    let newer = server_of(&other, &one, PRESET, &ClassifyOptions::default());
    let mut client = client_of(&server, &one, false);
    let keys = keys(&server, &client);
    let encoded = client.encode(&["w1"]).unwrap();
    let query = client.query(&encoded).unwrap();
    let error = newer.answer(&Request::new(CLIENT, &keys, &query), &Call::default()).unwrap_err().to_string();
    assert!(error.contains("another model"), "{error}");
    let narrow = LinearHead::new(head.classes().to_vec(), 32, 4, vec![1.0; 12], vec![0.0; 3]).unwrap();
    let parameters = Preset::find(PRESET).unwrap().build().unwrap();
    let error = HeadTables::new(&narrow, one.subtables()).err().unwrap();
    assert!(matches!(error, ClassifyError::Embedding(EmbeddingError::Width { found: 4, needed: 5 })), "{error}");
    let long = LinearHead::new(head.classes().to_vec(), 1 << 15, 5, vec![1.0; 15], vec![0.0; 3]).unwrap();
    let error =
        HeadServer::new(&HeadTables::new(&long, one.subtables()).unwrap(), &parameters, &ClassifyOptions::default())
            .err()
            .unwrap();
    assert!(error.to_string().contains("tokens per text: found 32768"), "{error}");
}

#[test]
fn descriptions_with_other_names_or_numbers_are_refused() {
    let server = server_of(&head(), &table(0, 16, false), PRESET, &ClassifyOptions::default());
    let sound = server.describe();
    assert!(HeadDescription::from_bytes(&sound).is_err(), "insecure presets stay in tests");
    assert_eq!(HeadDescription::insecure_from_bytes(&sound).unwrap().to_bytes(), sound);
    for position in 0..sound.len() {
        let mut damaged = sound.clone();
        damaged[position] ^= 0x10;
        assert!(HeadDescription::insecure_from_bytes(&damaged).is_err(), "{position}");
    }
}

#[test]
fn a_trained_head_tells_encrypted_texts_apart() {
    let table = table(0, 16, true);
    // Even tokens are of one class, odd ones of the other.
    let text = |i: usize| (0..4).map(|k| format!("w{}", (i * 6 + k * 14) % 60 / 2 * 2 + i % 2)).collect::<Vec<_>>();
    let texts: Vec<String> = (0..60).map(|i| text(i).join(" ")).collect();
    let labels: Vec<String> = (0..60).map(|i| ["even", "odd"][i % 2].to_owned()).collect();
    let options = HeadOptions { max_tokens: 8, ridge: 1e-3 };
    let trained = LinearHead::fit(&table, &texts, &labels, &options, &GO).unwrap();
    assert!(trained.training_accuracy > 0.8, "{}", trained.training_accuracy);
    let server = server_of(&trained.head, &table, PRESET, &ClassifyOptions::default());
    let mut client = client_of(&server, &table, false);
    let keys = keys(&server, &client);
    let texts: Vec<&str> = texts.iter().map(String::as_str).take(client.batch()).collect();
    let (answers, _) = ask(&server, &mut client, &keys, &texts);
    for (text, answer) in texts.iter().zip(&answers) {
        check(&table, &trained.head, text, answer, 1e-3);
    }
}
