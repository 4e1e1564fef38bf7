//! Compact queries from torus elements to table columns, at a small insecure ring.

use std::sync::Arc;

use unspoken_ckks::{Encoder, Evaluator, Preset};
use unspoken_encrypt::{ClientKey, Encryptor};
use unspoken_lookup::{Lookup, OutputForm, Plan, Table};
use unspoken_protocol::ClientId;
use unspoken_protocol::ProtocolError;
use unspoken_query::{QueryCodec, QueryError, QueryForm, QueryReader};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{EvaluationKeys, SecretKey};

const CLIENT: ClientId = ClientId::new([1; 16]);

const COLUMNS: usize = 256;
const ROWS: usize = 2;

fn tables() -> Vec<Table> {
    let entry = |t: usize, i: usize| ((i * 37 + 11 * t) % 101) as f64 / 50.0 - 1.0;
    let table = |t| {
        let mut entries: Vec<f64> = (0..ROWS * COLUMNS).map(|i| entry(t, i)).collect();
        // The column for padding.
        entries[COLUMNS - 1] = 0.0;
        entries[2 * COLUMNS - 1] = 0.0;
        Table::new(ROWS, &entries).unwrap()
    };
    (0..2).map(table).collect()
}

#[test]
fn columns_come_out_of_compact_queries() {
    let parameters = Preset::find("insecure_n11_boot_depth9_scale50").unwrap().build().unwrap();
    let encoder = Encoder::new(&parameters);
    let mut rng = SecretRng::insecure_from_seed(1);
    let secret = SecretKey::generate(parameters.rlwe(), &mut rng).unwrap();
    let tables = tables();
    let plan = Plan::BabyGiant { babies: 8 };
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
    let lookup = Lookup::new(&parameters, &tables(), Plan::ComplexFirst, OutputForm::Rows, 2.0, None).unwrap();
    assert!(QueryCodec::for_lookup(QueryForm::Compact, &lookup).unwrap_err().to_string().contains("boot"));
}
