//! Compact queries from torus elements to table columns, at a small insecure ring.

use std::sync::Arc;

use unspoken_ckks::{Encoder, Evaluator, InnerSum, Preset};
use unspoken_encrypt::{ClientKey, Encryptor};
use unspoken_lookup::{Lookup, LookupPlan, OutputForm, Table};
use unspoken_protocol::ClientId;
use unspoken_protocol::ProtocolError;
use unspoken_query::{QueryCodec, QueryError, QueryForm, QueryReader, ShortAnswer, ShortCompact};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{EvaluationKeys, SecretKey};

const CLIENT: ClientId = ClientId::new([1; 16]);

const QUERY_PRESET: &str = "insecure_n11_query_depth11_scale40";

const COLUMNS: usize = 256;
const ROWS: usize = 2;

fn table(t: usize) -> Table {
    let entry = |i: usize| ((i * 37 + 11 * t) % 101) as f64 / 50.0 - 1.0;
    let mut entries: Vec<f64> = (0..ROWS * COLUMNS).map(entry).collect();
    // The column for padding.
    entries[COLUMNS - 1] = 0.0;
    entries[2 * COLUMNS - 1] = 0.0;
    Table::new(ROWS, &entries).unwrap()
}

fn tables() -> Vec<Table> {
    (0..2).map(table).collect()
}

#[test]
fn columns_come_out_of_compact_queries() {
    let parameters = Preset::find("insecure_n11_boot_depth10_scale50").unwrap().build().unwrap();
    let encoder = Encoder::new(&parameters);
    let mut rng = SecretRng::insecure_from_seed(1);
    let secret = SecretKey::generate(parameters.rlwe(), &mut rng).unwrap();
    let tables = tables();
    let plan = LookupPlan::BabyGiant { babies: 8 };
    let level = plan.depth(COLUMNS) + 1;
    let lookup = Lookup::new(&parameters, &tables, plan, OutputForm::Rows, 2.0, Some(level)).unwrap();
    let query = QueryCodec::for_lookup(QueryForm::Compact, &lookup).unwrap();
    let reader = QueryReader::new(&encoder, query.clone()).unwrap();
    let mut keys = lookup.key_plan();
    keys.extend(&reader.key_plan());
    let keys = EvaluationKeys::generate(&secret, &keys, &mut rng).unwrap();
    let slots = parameters.slots();
    let indices: Vec<Vec<Option<usize>>> =
        (0..2).map(|t| (0..slots).map(|s| (s % 3 != 2).then_some((s * 7 + 13 * t) % COLUMNS)).collect()).collect();
    let secret = Arc::new(secret);
    let encryptor = Encryptor::insecure_from_seed(&parameters, ClientKey::Secret(Arc::clone(&secret)), 2);
    let bytes = query.encrypt(&encryptor, &indices).unwrap();
    assert_eq!(bytes.iter().map(Vec::len).sum::<usize>(), query.byte_len());
    assert_eq!(query.byte_len(), 2 * (16 + slots * 30 / 8), "3.75 bytes for each index, and a seed");

    let evaluator = Evaluator::new(&encoder, &keys);
    let vectors = reader.read(&evaluator, CLIENT, &bytes).unwrap();
    let outputs = lookup.run(&evaluator, &vectors).unwrap();
    let mut worst = 0f64;
    for (row, output) in outputs.iter().enumerate() {
        let found = encoder.decrypt(output, &secret).unwrap();
        for (slot, z) in found.iter().enumerate() {
            let column = |t: usize| indices[t][slot].unwrap_or(COLUMNS - 1);
            let expected: f64 = (0..2).map(|t| tables[t].row(row)[column(t)]).sum();
            worst = worst.max((z.re - expected).abs());
        }
    }
    println!("worst error 2^{:.1}", worst.log2());
    assert!(worst < 2f64.powi(-12), "2^{:.1}", worst.log2());

    let twice = vec![bytes[0].clone(), bytes[0].clone()];
    let error = reader.read(&evaluator, CLIENT, &twice).unwrap_err();
    assert!(matches!(error, QueryError::Protocol(ProtocolError::Mismatch { what: "a seed", .. })), "{error}");
    assert!(reader.read(&evaluator, CLIENT, &bytes[..1]).is_err());
    let none = EvaluationKeys::new();
    assert!(
        reader
            .read(&Evaluator::new(&encoder, &none), CLIENT, &bytes)
            .unwrap_err()
            .to_string()
            .contains("decapsulation")
    );
}

#[test]
fn compact_queries_take_a_preset_that_bootstraps() {
    let parameters = Preset::find("insecure_n11_depth9_scale50").unwrap().build().unwrap();
    let lookup = Lookup::new(&parameters, &tables(), LookupPlan::ComplexFirst, OutputForm::Rows, 2.0, None).unwrap();
    assert!(QueryCodec::for_lookup(QueryForm::Compact, &lookup).unwrap_err().to_string().contains("boot"));
    assert!(QueryCodec::short_compact(&lookup, 16).is_err());
}

#[test]
fn columns_come_out_of_short_compact_queries() {
    let parameters = Preset::find(QUERY_PRESET).unwrap().build().unwrap();
    let encoder = Encoder::new(&parameters);
    let mut rng = SecretRng::insecure_from_seed(3);
    let secret = Arc::new(SecretKey::generate(parameters.rlwe(), &mut rng).unwrap());
    for (subtables, period) in [(1, 512), (2, 256), (3, 16)] {
        let tables: Vec<Table> = (0..subtables).map(table).collect();
        let plan = LookupPlan::BabyGiant { babies: 8 };
        let level = plan.depth(COLUMNS) + 1;
        let lookup = Lookup::new(&parameters, &tables, plan, OutputForm::Rows, 3.0, Some(level)).unwrap();
        let query = QueryCodec::short_compact(&lookup, period).unwrap();
        let reader = QueryReader::new(&encoder, query.clone()).unwrap();
        let answer = ShortAnswer::new(&parameters, period, ROWS).unwrap();
        let sum = InnerSum::new(period as i64, 1).unwrap();
        let offer = reader.short_offer(&encoder, &lookup, (&answer, &sum)).unwrap().unwrap();
        let mut keys = lookup.key_plan();
        keys.extend(&reader.key_plan());
        keys.extend(&offer.keys);
        let keys = EvaluationKeys::generate(&secret, &keys, &mut rng).unwrap();
        // Fewer slots than the period, and slots without an index.
        let index = |t: usize, s: usize| (s % 3 != 2).then_some((s * 7 + 13 * t) % COLUMNS);
        let indices: Vec<Vec<Option<usize>>> =
            (0..subtables).map(|t| (0..period - period / 4).map(|s| index(t, s)).collect()).collect();
        let encryptor = Encryptor::insecure_from_seed(&parameters, ClientKey::Secret(Arc::clone(&secret)), 4);
        let bytes = query.encrypt(&encryptor, &indices).unwrap();
        let slots = subtables.next_power_of_two() * period;
        assert_eq!((bytes.len(), bytes[0].len(), query.byte_len()), (1, 16 + slots * 30 / 8, 16 + slots * 30 / 8));
        let none: Vec<Vec<Option<usize>>> = vec![Vec::new(); subtables];
        assert_eq!(query.encrypt(&encryptor, &none).unwrap()[0].len(), bytes[0].len(), "the length shows nothing");

        let evaluator = Evaluator::new(&encoder, &keys);
        let vectors = reader.read(&evaluator, CLIENT, &bytes).unwrap();
        let outputs = lookup.run(&evaluator, &vectors).unwrap();
        let mut worst = 0f64;
        for (row, output) in outputs.iter().enumerate() {
            let found = encoder.decrypt(output, &secret).unwrap();
            for (slot, z) in found.iter().enumerate() {
                let column = |t: usize| indices[t].get(slot % period).copied().flatten().unwrap_or(COLUMNS - 1);
                let expected: f64 = (0..subtables).map(|t| tables[t].row(row)[column(t)]).sum();
                worst = worst.max((z.re - expected).abs());
            }
        }
        println!("{subtables} of {period}: worst 2^{:.1}, bound 2^{:.1}", worst.log2(), offer.error.log2());
        assert!(worst < offer.error && offer.error < 2f64.powi(-9), "{worst} {}", offer.error);

        // A client that tries again is answered, other vectors under the same seed are not.
        assert!(reader.read(&evaluator, CLIENT, &bytes).is_ok());
        let reused = Encryptor::insecure_from_seed(&parameters, ClientKey::Secret(Arc::clone(&secret)), 4);
        let reused = query.encrypt(&reused, &none).unwrap();
        let error = reader.read(&evaluator, CLIENT, &reused).unwrap_err();
        assert!(matches!(error, QueryError::Protocol(ProtocolError::Mismatch { what: "a seed", .. })), "{error}");
        assert!(reader.read(&evaluator, CLIENT, &[]).is_err());
        assert!(reader.read(&evaluator, CLIENT, &[bytes[0][1..].to_vec()]).is_err());
        let no_keys = EvaluationKeys::new();
        let error = reader.read(&Evaluator::new(&encoder, &no_keys), CLIENT, &bytes).unwrap_err().to_string();
        assert!(error.contains("subring queries"), "{error}");
    }
}

#[test]
fn short_queries_that_do_not_fit_are_refused() {
    let parameters = Preset::find(QUERY_PRESET).unwrap().build().unwrap();
    let plan = LookupPlan::BabyGiant { babies: 8 };
    let lookup = |subtables: usize, level: usize| {
        let tables: Vec<Table> = (0..subtables).map(table).collect();
        Lookup::new(&parameters, &tables, plan, OutputForm::Rows, 9.0, Some(level)).unwrap()
    };
    assert_eq!(ShortCompact::most_period(&parameters, 3).unwrap(), 128);
    for (subtables, period) in [(2, 512), (4, 256), (1, 1024), (2, 48), (1, 0), (2, 1)] {
        let error = QueryCodec::short_compact(&lookup(subtables, 9), period).unwrap_err().to_string();
        assert!(error.contains("short_queries=off"), "{error}");
    }
    // The bootstrap ends at level 11; the separation of subtables takes one level.
    assert!(QueryCodec::short_compact(&lookup(1, 11), 64).is_ok());
    let error = QueryCodec::short_compact(&lookup(2, 11), 64).unwrap_err().to_string();
    assert!(error.contains("level 12"), "{error}");
}
