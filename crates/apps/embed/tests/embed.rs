//! Both halves against each other and against the plaintext table, at a small insecure ring.

#[path = "../../protocol/tests/damage/mod.rs"]
mod damage;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use unspoken_ckks::{Arithmetic, Complex64, Evaluator, PreparedMatrix, Preset};
use unspoken_embed::{Description, EmbedClient, EmbedError, EmbedOptions, EmbedServer};
use unspoken_embedding::{
    CompressOptions, CompressedTable, EmbeddingTable, GumbelOptions, Shape, TokenList, compress, compress_by_gumbel,
};
use unspoken_encrypt::Needs;
use unspoken_lookup::{LookupPlan, OutputForm};
use unspoken_protocol::{
    ApplicationError, Call, CkksClientHalf, CkksDescription, ClientHalf, ClientId, KeyLoader, ProtocolError, Request,
    ServerHalf,
};
use unspoken_query::QueryForm;
use unspoken_rlwe::EvaluationKeys;

const PRESET: &str = "insecure_n11_depth9_scale50";
const TOKENS: usize = 120;
const WIDTH: usize = 5;
static GO: AtomicBool = AtomicBool::new(false);
const CLIENT: ClientId = ClientId::new([1; 16]);

fn encrypt(client: &mut EmbedClient, questions: &[usize]) -> Result<Vec<u8>, EmbedError> {
    let encoded = client.encode(questions)?;
    client.query(&encoded)
}

fn ask(server: &EmbedServer, keys: &EvaluationKeys, query: &[u8]) -> Result<Vec<u8>, EmbedError> {
    server.answer(&Request::new(CLIENT, keys, query), &Call::default())
}

fn read(client: &EmbedClient, answer: &[u8], questions: &[usize]) -> Result<Vec<Vec<f64>>, EmbedError> {
    client.read(answer, &client.encode(questions)?)
}

/// A compressed table of tokens `w0`, `w1`, .. with a row for unknown ones.
fn table(columns: usize, seed: u64) -> CompressedTable {
    table_of(columns, seed, 1.0)
}

/// The same with all numbers times `magnitude`.
fn table_of(columns: usize, seed: u64, magnitude: f32) -> CompressedTable {
    let tokens = TokenList::new((0..TOKENS).map(|i| format!("w{i}")).collect()).unwrap();
    let values = (0..TOKENS * WIDTH).map(|i| magnitude * (3.0 * ((i * i) as f32 * 0.37).sin() + 0.5)).collect();
    let table = EmbeddingTable::new(tokens, WIDTH, values).unwrap().with_unknown().unwrap();
    let options = CompressOptions { columns, seed, rounds: 3, ..CompressOptions::default() };
    compress(&table, &options, &mut |_| {}, &GO).unwrap()
}

fn server(table: &CompressedTable, options: EmbedOptions) -> EmbedServer {
    let parameters = Preset::find(PRESET).unwrap().build().unwrap();
    EmbedServer::new(table.subtables(), &parameters, &options).unwrap()
}

fn client(table: &CompressedTable, server: &EmbedServer) -> EmbedClient {
    let description = Description::insecure_from_bytes(&server.description().to_bytes()).unwrap();
    EmbedClient::open(description, Arc::new(table.codes().clone()), None).unwrap()
}

fn bundle(client: &EmbedClient) -> Vec<u8> {
    let mut bytes = Vec::new();
    client.keyring().write_keys(&mut bytes, |_, _| {}, &GO).unwrap();
    assert_eq!(bytes.len() as u64, client.keyring().key_bytes());
    bytes
}

fn assert_close(found: &[Vec<f64>], table: &CompressedTable, ids: &[usize]) {
    assert_eq!(found.len(), ids.len());
    for (found, &id) in found.iter().zip(ids) {
        let clear = table.reconstruct_row(id).unwrap();
        assert_eq!(found.len(), clear.len());
        for (found, &clear) in found.iter().zip(&clear) {
            assert!((found - f64::from(clear)).abs() < 1e-4, "token {id}: {found} {clear}");
        }
    }
}

#[test]
fn encrypted_embeddings_are_the_tables() {
    // 30 columns are padded to 32; all ids at once fill part of the slots.
    let table = table(30, 0);
    let ids: Vec<usize> = (0..=TOKENS).rev().chain([7, 7]).collect();
    for form in [OutputForm::Pairs, OutputForm::Rows] {
        for plan in [None, Some(LookupPlan::Paper), Some(LookupPlan::ComplexFirst)] {
            let server = server(&table, EmbedOptions { plan, form, short_queries: false, ..EmbedOptions::default() });
            let mut client = client(&table, &server);
            let keys = server.load_keys(&mut bundle(&client).as_slice()).unwrap();
            let query = encrypt(&mut client, &ids).unwrap();
            assert!(query.len() <= server.description().query_bytes());
            assert_eq!(query.len(), encrypt(&mut client, &[3]).unwrap().len());
            let answer = ask(&server, &keys, &query).unwrap();
            assert!(answer.len() <= server.limits().answer_bytes);
            assert_close(&read(&client, &answer, &ids).unwrap(), &table, &ids);
        }
    }
}

#[test]
fn tables_of_eight_and_sixteen_subtables_by_both_methods_are_looked_up() {
    let rows = table(8, 0).decompress().unwrap();
    let ids = [3, TOKENS, 0, 77];
    for subtables in [8, 16] {
        let additive = CompressOptions { subtables, columns: 8, rounds: 2, ..CompressOptions::default() };
        let gumbel = GumbelOptions { subtables, columns: 8, epochs: 2, ..GumbelOptions::default() };
        let tables = [
            compress(&rows, &additive, &mut |_| {}, &GO).unwrap(),
            compress_by_gumbel(&rows, &gumbel, &mut |_| {}, &GO).unwrap(),
        ];
        for table in &tables {
            let server = server(table, EmbedOptions::default());
            let mut client = client(table, &server);
            let keys = server.load_keys(&mut bundle(&client).as_slice()).unwrap();
            let answer = ask(&server, &keys, &encrypt(&mut client, &ids).unwrap()).unwrap();
            assert_close(&read(&client, &answer, &ids).unwrap(), table, &ids);
        }
    }
}

#[test]
fn embeddings_of_every_magnitude_are_the_tables() {
    let ids: Vec<usize> = (0..=TOKENS).collect();
    for magnitude in [1e-15, 1e-8, 1.0, 2e5] {
        let table = table_of(30, 0, magnitude);
        for form in [OutputForm::Pairs, OutputForm::Rows] {
            let server = server(&table, EmbedOptions { form, short_queries: false, ..EmbedOptions::default() });
            let mut client = client(&table, &server);
            let keys = server.load_keys(&mut bundle(&client).as_slice()).unwrap();
            let answer = ask(&server, &keys, &encrypt(&mut client, &ids).unwrap()).unwrap();
            let bound = client.description().header().error_bound().unwrap();
            assert!(bound < 1e-4 * f64::from(magnitude), "{magnitude:e}: {bound:e}");
            for (found, &id) in read(&client, &answer, &ids).unwrap().iter().zip(&ids) {
                for (found, &clear) in found.iter().zip(&table.reconstruct_row(id).unwrap()) {
                    // The clear numbers are rounded to 24 bits.
                    let error = (found - f64::from(clear)).abs() - f64::from(clear).abs() * 2f64.powi(-24);
                    assert!(error < bound, "{magnitude:e}, token {id}: {found:e} {clear:e} {bound:e}");
                }
            }
            let precision = server.precision().unwrap();
            assert!(precision.error_bound == bound && !precision.is_low(), "{precision}");
            assert!((client.sharing_noise(4).unwrap().deviation() / bound - 16.0).abs() < 1e-9);
        }
    }
}

#[test]
fn short_queries_find_the_embeddings() {
    let table = table(30, 0);
    for form in [OutputForm::Pairs, OutputForm::Rows] {
        let server = server(&table, EmbedOptions { form, ..EmbedOptions::default() });
        assert!(server.description().has_short_queries());
        let (mut client, other) = (client(&table, &server), client(&table, &server));
        let keys = server.load_keys(&mut bundle(&client).as_slice()).unwrap();
        let mut lengths = Vec::new();
        // 16, 32 and 256 tokens in each vector, then all slots: a full query.
        for count in [1, 16, 17, 200, 300] {
            let ids: Vec<usize> = (0..count).map(|i| (5 * i + 3) % (TOKENS + 1)).collect();
            let query = encrypt(&mut client, &ids).unwrap();
            let answer = ask(&server, &keys, &query).unwrap();
            let predicted = [client.query_bytes(count), client.expected_answer_bytes(count)];
            for (predicted, bytes) in predicted.into_iter().zip([query.len(), answer.len()]) {
                assert!((bytes..bytes + bytes / 50 + 200).contains(&predicted), "{count}: {predicted} {bytes}");
            }
            let bound = client.description().header().error_bound().unwrap();
            assert!(bound < 2e-3, "{bound:e}");
            for (found, &id) in read(&client, &answer, &ids).unwrap().iter().zip(&ids) {
                for (found, &clear) in found.iter().zip(&table.reconstruct_row(id).unwrap()) {
                    // The clear numbers are rounded to 24 bits.
                    let error = (found - f64::from(clear)).abs() - f64::from(clear).abs() * 2f64.powi(-24);
                    assert!(error < bound, "{count}, {id}: {found} {clear} {bound:e}");
                }
            }
            let error = read(&other, &answer, &ids).unwrap_err().to_string();
            assert!(error.contains("secret key"), "{error}");
            lengths.push(query.len());
        }
        assert!(lengths[0] == lengths[1] && lengths[1] < lengths[2] && lengths[2] < lengths[3], "{lengths:?}");
        assert!(20 * lengths[0] < lengths[4], "{lengths:?}");
    }
}

/// Embeddings of all tokens, of `width` numbers.
fn rows_of(width: usize) -> EmbeddingTable {
    let tokens = TokenList::new((0..=TOKENS).map(|i| format!("w{i}")).collect()).unwrap();
    let values = (0..=TOKENS).flat_map(|i| (0..width).map(move |j| ((i * i + 7 * j) as f32 * 0.37).sin()));
    EmbeddingTable::new(tokens, width, values.collect()).unwrap()
}

#[test]
fn few_tokens_are_answered_in_one_vector() {
    // All subtables share a vector of the query; three of four places of it are in use; each has a vector of its own.
    for (subtables, columns, tokens) in [(4, 16, 32), (3, 16, 32), (4, 128, 16)] {
        let options = CompressOptions { subtables, columns, rounds: 2, ..CompressOptions::default() };
        let table = compress(&rows_of(30), &options, &mut |_| {}, &GO).unwrap();
        let server = server(&table, EmbedOptions::default());
        assert_eq!(server.description().strided_tokens(), tokens, "{subtables} {columns}");
        let mut client = client(&table, &server);
        let keys = server.load_keys(&mut bundle(&client).as_slice()).unwrap();
        let bound = client.description().header().error_bound().unwrap();
        let mut lengths = Vec::new();
        for count in [1, tokens, tokens + 1] {
            let ids: Vec<usize> = (0..count).map(|i| (5 * i + 3) % (TOKENS + 1)).collect();
            let query = encrypt(&mut client, &ids).unwrap();
            assert!(ask(&server, &keys, &query[..query.len() - 1]).is_err());
            let answer = ask(&server, &keys, &query).unwrap();
            let predicted = [client.query_bytes(count), client.expected_answer_bytes(count)];
            for (predicted, bytes) in predicted.into_iter().zip([query.len(), answer.len()]) {
                assert!((bytes..bytes + bytes / 50 + 200).contains(&predicted), "{count}: {predicted} {bytes}");
            }
            for (found, &id) in read(&client, &answer, &ids).unwrap().iter().zip(&ids) {
                for (found, &clear) in found.iter().zip(&table.reconstruct_row(id).unwrap()) {
                    // The clear numbers are rounded to 24 bits.
                    let error = (found - f64::from(clear)).abs() - f64::from(clear).abs() * 2f64.powi(-24);
                    assert!(error < bound, "{count}, {id}: {found} {clear} {bound:e}");
                }
            }
            lengths.push(query.len());
        }
        assert!(lengths[0] == lengths[1] && lengths[1] < lengths[2], "{lengths:?}");
    }
}

#[test]
fn wide_tables_and_real_slots_have_no_strided_lookup() {
    // 1024 slots have no place for 16 tokens of 65 numbers.
    let options = CompressOptions { columns: 16, rounds: 2, ..CompressOptions::default() };
    let wide = compress(&rows_of(65), &options, &mut |_| {}, &GO).unwrap();
    assert_eq!(server(&wide, EmbedOptions::default()).description().strided_tokens(), 0);
    let parameters = Preset::find("insecure_n11_real_depth9_scale50").unwrap().build().unwrap();
    let real = EmbedServer::new(table(16, 0).subtables(), &parameters, &EmbedOptions::default()).unwrap();
    assert_eq!(real.description().strided_tokens(), 0);
}

#[test]
fn one_subtable_has_short_queries_up_to_half_of_the_slots() {
    let tokens = TokenList::new((0..30).map(|i| format!("w{i}")).collect()).unwrap();
    let values = (0..30 * WIDTH).map(|i| (i as f32 * 0.7).sin()).collect();
    let table = EmbeddingTable::new(tokens, WIDTH, values).unwrap();
    let options = CompressOptions { subtables: 1, columns: 16, rounds: 3, ..CompressOptions::default() };
    let table = compress(&table, &options, &mut |_| {}, &GO).unwrap();
    let server = server(&table, EmbedOptions::default());
    let mut client = client(&table, &server);
    let keys = server.load_keys(&mut bundle(&client).as_slice()).unwrap();
    let lengths = [10, 512, 513, 1024].map(|count| {
        let ids: Vec<usize> = (0..count).map(|i| i % 30).collect();
        let query = encrypt(&mut client, &ids).unwrap();
        let answer = ask(&server, &keys, &query).unwrap();
        assert_close(&read(&client, &answer, &ids).unwrap(), &table, &ids);
        query.len()
    });
    assert!(lengths[0] < lengths[1] && lengths[1] < lengths[2] && lengths[2] == lengths[3], "{lengths:?}");
}

#[test]
fn short_queries_are_offered_where_their_key_is_secure() {
    let table = table(4, 0);
    for (preset, offered) in [("n13_depth3_scale30", false), ("n14_depth5_scale50", true)] {
        let parameters = Preset::find(preset).unwrap().build().unwrap();
        let server = EmbedServer::new(table.subtables(), &parameters, &EmbedOptions::default()).unwrap();
        let description = Description::from_bytes(&server.describe()).unwrap();
        assert_eq!(description.has_short_queries(), offered, "{preset}");
    }
}

#[test]
fn a_table_of_zeros_is_refused() {
    let parameters = Preset::find(PRESET).unwrap().build().unwrap();
    let table = table_of(16, 0, 0.0);
    let error = EmbedServer::new(table.subtables(), &parameters, &EmbedOptions::default()).err().unwrap().to_string();
    assert!(error.contains("every entry is 0"), "{error}");
}

#[test]
fn every_form_of_query_finds_the_embeddings() {
    for (query, preset) in [(QueryForm::Compact, "insecure_n11_boot_depth10_scale50"), (QueryForm::OneHot, PRESET)] {
        let table = table(30, 0);
        let parameters = Preset::find(preset).unwrap().build().unwrap();
        let options = EmbedOptions { query, short_queries: false, ..EmbedOptions::default() };
        let server = EmbedServer::new(table.subtables(), &parameters, &options).unwrap();
        let mut client = client(&table, &server);
        assert_eq!(client.description().query_form(), query);
        let keys = server.load_keys(&mut bundle(&client).as_slice()).unwrap();
        let ids = [3, TOKENS, 0, 77];
        for queries in [0, 1] {
            let plan = client.prepare(Needs { burst: queries, memory_bytes: 64 << 20 }).unwrap();
            // A compact query has no vectors of slots: nothing of it can be prepared.
            assert_eq!(plan.zeros > 0, queries > 0 && query == QueryForm::OneHot);
            let bytes = encrypt(&mut client, &ids).unwrap();
            assert!(bytes.len() <= server.description().query_bytes());
            let answer = ask(&server, &keys, &bytes).unwrap();
            assert_close(&read(&client, &answer, &ids).unwrap(), &table, &ids);
        }
    }
}

#[test]
fn short_compact_queries_find_the_embeddings_with_a_bound_of_the_error() {
    let table = table(30, 0);
    let parameters = Preset::find("insecure_n11_query_depth11_scale40").unwrap().build().unwrap();
    let options = EmbedOptions { query: QueryForm::Compact, ..EmbedOptions::default() };
    let server = EmbedServer::new(table.subtables(), &parameters, &options).unwrap();
    let mut client = client(&table, &server);
    assert_eq!((client.description().query_form(), client.batch()), (QueryForm::Compact, 128));
    let keys = server.load_keys(&mut bundle(&client).as_slice()).unwrap();
    let bound = client.description().header().error_bound().unwrap();
    assert_eq!(server.precision().unwrap().error_bound, bound);
    let lengths: Vec<usize> = [1, 4, 128].map(|count| encrypt(&mut client, &vec![7; count]).unwrap().len()).into();
    assert!(lengths.iter().all(|&length| length == lengths[0]), "the length shows nothing: {lengths:?}");
    let ids: Vec<usize> = (0..128).map(|i| (i * 7) % (TOKENS + 1)).collect();
    let bytes = encrypt(&mut client, &ids).unwrap();
    assert!(bytes.len() <= server.description().query_bytes());
    let answer = ask(&server, &keys, &bytes).unwrap();
    assert!((answer.len()..answer.len() + 300).contains(&client.answer_bytes(ids.len())));
    for (found, &id) in read(&client, &answer, &ids).unwrap().iter().zip(&ids) {
        for (found, clear) in found.iter().zip(table.reconstruct_row(id).unwrap()) {
            assert!((found - f64::from(clear)).abs() < bound, "token {id}: {found} {clear} {bound}");
        }
    }
    assert!(bound < 1e-2, "{bound}");
    assert!(encrypt(&mut client, &vec![7; 129]).is_err());
}

#[test]
fn the_preset_and_the_plan_follow_from_the_error() {
    let table = table(16, 0);
    let served = |error: f64, options: &EmbedOptions| {
        let server = EmbedServer::with_error(table.subtables(), error, None, options)?;
        let bound = server.precision().unwrap().error_bound;
        assert!(bound <= error, "{bound} {error}");
        let parameters = server.description().parameters();
        Ok::<_, EmbedError>((parameters.name().to_owned(), parameters.ring().degree(), bound))
    };
    let options = EmbedOptions::default();
    // A coarser error takes a smaller ring or a smaller scale.
    let (coarse, fine) = (served(2f64.powi(-2), &options).unwrap(), served(2f64.powi(-14), &options).unwrap());
    assert!(coarse.0 != fine.0 && coarse.1 <= fine.1 && fine.2 < coarse.2, "{coarse:?} {fine:?}");
    let error = served(1e-14, &options).unwrap_err().to_string();
    assert!(error.contains("found 1.0e-14") && error.contains("of preset n"), "{error}");
    for error in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(served(error, &options).unwrap_err().to_string().contains("2^-12"), "{error}");
    }
    let one_hot = EmbedOptions { query: QueryForm::OneHot, ..options };
    let full = EmbedOptions { query: QueryForm::Compact, short_queries: false, ..options };
    for options in [one_hot, full] {
        assert!(served(1e-3, &options).unwrap_err().to_string().contains("short_queries=on"));
    }
    // With parameters of the caller's choice only the plan is chosen, or the error refused.
    let parameters = Preset::find(PRESET).unwrap().build().unwrap();
    let server = EmbedServer::with_error(table.subtables(), 1e-3, Some(&parameters), &options).unwrap();
    assert_eq!(server.description().parameters().name(), PRESET);
    assert!(EmbedServer::with_error(table.subtables(), 1e-12, Some(&parameters), &options).is_err());
    // A table of zeros is refused for what it is.
    let zeros = table_of(16, 0, 0.0);
    let error = EmbedServer::with_error(zeros.subtables(), 1e-3, Some(&parameters), &options).err().unwrap();
    assert!(error.to_string().contains("every entry is 0"), "{error}");
}

#[test]
fn presets_are_chosen_by_the_form_of_queries() {
    let shape = Shape { subtables: 4, columns: 256, width: 50 };
    let preset = |query, short_queries| {
        let options = EmbedOptions { query, short_queries, ..EmbedOptions::default() };
        EmbedServer::best_preset(shape, &options).map(|parameters| parameters.name().to_owned())
    };
    assert_eq!(preset(QueryForm::Compact, true).unwrap(), "n16_query_depth11_scale40");
    assert!(preset(QueryForm::Compact, false).unwrap().contains("_boot_"));
    let direct = preset(QueryForm::Direct, true).unwrap();
    assert!(!direct.contains("_query_") && !direct.contains("_boot_"), "{direct}");
}

#[test]
fn real_slots_hold_twice_the_tokens() {
    let table = table(16, 0);
    let parameters = Preset::find("insecure_n11_real_depth9_scale50").unwrap().build().unwrap();
    let server = EmbedServer::new(table.subtables(), &parameters, &EmbedOptions::default()).unwrap();
    let mut client = client(&table, &server);
    assert!(!server.description().has_short_queries());
    assert_eq!((server.description().form(), client.batch()), (OutputForm::Rows, 2048));
    let keys = server.load_keys(&mut bundle(&client).as_slice()).unwrap();
    let ids: Vec<usize> = (0..2048).map(|i| (i * 7) % (TOKENS + 1)).collect();
    let answer = ask(&server, &keys, &encrypt(&mut client, &ids).unwrap()).unwrap();
    assert_close(&read(&client, &answer, &ids).unwrap(), &table, &ids);
    // Points of the circle do not fit real slots.
    let options = EmbedOptions { plan: Some(LookupPlan::ComplexFirst), ..EmbedOptions::default() };
    assert!(EmbedServer::new(table.subtables(), &parameters, &options).is_err());
}

#[test]
fn a_following_layer_consumes_encrypted_embeddings() {
    let table = table(16, 0);
    let options =
        EmbedOptions { form: OutputForm::Rows, spare_levels: 1, short_queries: false, ..EmbedOptions::default() };
    let server = server(&table, options);
    let mut client = client(&table, &server);
    let keys = server.load_keys(&mut bundle(&client).as_slice()).unwrap();
    let ids = [0, 5, TOKENS, 5];
    let embeddings = server.embed(CLIENT, &keys, &encrypt(&mut client, &ids).unwrap(), &GO).unwrap();
    let (level, scale) = server.output();
    assert!(embeddings.iter().all(|vector| vector.level() == level && level >= 1));
    let evaluator = Evaluator::new(server.encoder(), &keys);

    let weight = |class: usize, k: usize| (class * 3 + k * 5) as f64 % 7.0 - 3.0;
    let parameters = server.description().parameters();
    let entry = |class: usize, k: usize| Complex64::from(weight(class, k));
    let layer = PreparedMatrix::new(parameters, level, &[scale; WIDTH], &[scale * 2f64.powi(20); 3], entry).unwrap();
    let scores = evaluator.matrix(&layer, &embeddings.iter().collect::<Vec<_>>()).unwrap();
    let found = client.read_vectors(&server.answer_of(&scores).unwrap(), 3, ids.len()).unwrap();
    assert_eq!(found.len(), 3);
    for (e, &id) in ids.iter().enumerate() {
        let clear = table.reconstruct_row(id).unwrap();
        for (class, scores) in found.iter().enumerate() {
            let expected: f64 = clear.iter().enumerate().map(|(k, &m)| weight(class, k) * f64::from(m)).sum();
            assert!((scores[e].re - expected).abs() < 1e-3, "{} {expected}", scores[e].re);
        }
    }
    // The spare level allows a rescale: slot-wise products can follow.
    let lower = evaluator.rescale(&embeddings[0]).unwrap();
    assert_eq!(lower.level(), level - 1);
    // The number of scores differs from the width of an embedding.
    assert!(read(&client, &server.answer_of(&scores).unwrap(), &[1]).is_err());
}

#[test]
fn tokens_outside_the_vocabulary_are_refused_or_unknown() {
    let table = table(16, 0);
    let mut client = client(&table, &server(&table, EmbedOptions::default()));
    let error = encrypt(&mut client, &[0, TOKENS + 1]).unwrap_err();
    assert!(error.to_string().contains("at position 1, needed below the 121 tokens"), "{error}");
    assert_eq!(client.codes().token_id("zebra").unwrap(), TOKENS);
    assert!(encrypt(&mut client, &[]).is_err());
    let many = vec![0; client.batch() + 1];
    assert!(encrypt(&mut client, &many).is_err());
}

#[test]
fn halves_that_do_not_belong_together_are_noticed() {
    let (one, two) = (table(16, 0), table(16, 1));
    let (server_one, server_two) = (server(&one, EmbedOptions::default()), server(&two, EmbedOptions::default()));
    let description = Description::insecure_from_bytes(&server_one.description().to_bytes()).unwrap();
    assert!(matches!(
        EmbedClient::open(description, Arc::new(two.codes().clone()), None),
        Err(EmbedError::Protocol(ProtocolError::Mismatch { .. }))
    ));
    let (first, mut second) = (client(&one, &server_one), client(&one, &server_one));
    let keys = server_one.load_keys(&mut bundle(&first).as_slice()).unwrap();
    let query = encrypt(&mut second, &[1, 2]).unwrap();
    let answer = ask(&server_one, &keys, &query).unwrap();
    assert!(read(&second, &answer, &[1, 2]).unwrap_err().to_string().contains("secret key"));
    let foreign = ask(&server_two, &keys, &query).unwrap_err();
    assert!(foreign.to_string().contains("another model"), "{foreign}");
}

#[test]
fn hostile_bytes_are_refused() {
    let table = table(16, 0);
    let server = server(&table, EmbedOptions::default());
    let mut client = client(&table, &server);
    let bundle = bundle(&client);
    let keys = server.load_keys(&mut bundle.as_slice()).unwrap();
    let query = encrypt(&mut client, &[1]).unwrap();
    for len in [0, 1, 10, 40, query.len() / 2, query.len() - 1] {
        assert!(ask(&server, &keys, &query[..len]).is_err(), "{len}");
    }
    assert!(ask(&server, &keys, &vec![0; query.len() + 100]).is_err());
    for position in [0, 5, 20, 40, 60, 70] {
        let mut damaged = query.clone();
        damaged[position] ^= 0x55;
        assert!(ask(&server, &keys, &damaged).is_err(), "{position}");
    }
    assert!(server.loaded_key_bytes(b"nonsense").is_err());
    assert!(server.load_keys(&mut &bundle[..bundle.len() - 1]).is_err());
    let description = server.description().to_bytes();
    assert!(Description::from_bytes(&description).unwrap_err().to_string().contains("secure"));
    for len in [0, 1, description.len() / 2] {
        assert!(Description::insecure_from_bytes(&description[..len]).is_err(), "{len}");
    }
    let cancelled =
        server.answer(&Request::new(CLIENT, &keys, &query), &Call::new(&AtomicBool::new(true))).unwrap_err();
    assert!(cancelled.is_cancelled(), "{cancelled}");
}

#[test]
fn the_preset_follows_from_the_shape() {
    let depth = |columns, spare_levels| {
        let options = EmbedOptions { spare_levels, ..EmbedOptions::default() };
        EmbedServer::best_preset(Shape { subtables: 4, columns, width: 50 }, &options).map(|p| p.max_level())
    };
    let (narrow, wide) = (depth(64, 0).unwrap(), depth(1024, 0).unwrap());
    assert!(narrow >= 6 && wide >= 10 && narrow <= wide, "{narrow} {wide}");
    assert!(depth(64, 4).unwrap() >= 10);
    // Short queries take complex slots; a plan for real slots is found without them.
    let best = |short_queries| {
        let options =
            EmbedOptions { short_queries, plan: Some(LookupPlan::Cosine { babies: 16 }), ..EmbedOptions::default() };
        EmbedServer::best_preset(Shape { subtables: 4, columns: 64, width: 50 }, &options)
    };
    assert!(best(true).is_err() && best(false).unwrap().name().contains("real"));
    assert!(depth(64, 100).unwrap_err().to_string().contains("spare levels"));
}

#[test]
fn a_flipped_bit_is_refused_as_damage_in_every_message() {
    let table = table(16, 0);
    let server = server(&table, EmbedOptions::default());
    let mut client = client(&table, &server);
    let keys = server.load_keys(&mut bundle(&client).as_slice()).unwrap();
    let query = encrypt(&mut client, &[1]).unwrap();
    let answer = ask(&server, &keys, &query).unwrap();
    damage::assert_damage_is_refused(&[
        ("description", server.describe(), &|bytes| {
            Description::insecure_from_bytes(bytes).map(drop).map_err(|error| error.to_string())
        }),
        ("query", query, &|bytes| ask(&server, &keys, bytes).map(drop).map_err(|error| error.to_string())),
        ("answer", answer, &|bytes| read(&client, bytes, &[1]).map(drop).map_err(|error| error.to_string())),
    ]);
}
