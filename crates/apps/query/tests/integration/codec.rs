//! Direct queries: they are fresh, have one size, and are checked.

use std::sync::Arc;

use unspoken_ckks::{Encoder, Evaluator, Preset};
use unspoken_encrypt::{ClientKey, Encryptor};
use unspoken_lookup::{Lookup, LookupPlan, OutputForm, Table};
use unspoken_protocol::ClientId;
use unspoken_query::{QueryCodec, QueryReader};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{EvaluationKeys, SecretKey};

const CLIENT: ClientId = ClientId::new([1; 16]);

const SHALLOW: &str = "insecure_n11_depth9_scale50";

fn table(rows: usize, columns: usize, seed: usize) -> Table {
    let entry = |i: usize| ((i * 7919 + seed * 104_729) % 1000) as f64 / 500.0 - 1.0;
    Table::new(rows, &(0..rows * columns).map(entry).collect::<Vec<_>>()).unwrap()
}

#[test]
fn queries_are_fresh_and_checked() {
    let parameters = Preset::find(SHALLOW).unwrap().build().unwrap();
    let tables = [table(1, 16, 0), table(1, 16, 1)];
    let lookup = Lookup::new(&parameters, &tables, LookupPlan::ComplexFirst, OutputForm::Rows, 2.0, None).unwrap();
    let (query, encoder) = (QueryCodec::of(&lookup), Encoder::new(&parameters));
    let mut rng = SecretRng::insecure_from_seed(3);
    let secret = SecretKey::generate(parameters.rlwe(), &mut rng).unwrap();
    let key = ClientKey::Secret(Arc::new(secret));
    let encryptor = Encryptor::insecure_from_seed(&parameters, key.clone(), 4);
    let ask = |indices: &[Vec<Option<usize>>]| query.encrypt(&encryptor, indices);
    let first = ask(&[vec![Some(3)], vec![Some(5), None, Some(1)]]).unwrap();
    let again = ask(&[vec![Some(3)], vec![Some(5), None, Some(1)]]).unwrap();
    let (keys, reader) = (EvaluationKeys::new(), QueryReader::new(&encoder, query.clone()).unwrap());
    let read = |bytes: &[Vec<u8>]| reader.read(&Evaluator::new(&encoder, &keys), CLIENT, bytes);
    assert!(read(&first).is_ok());
    assert!(read(&first).is_ok(), "a client that tries again");
    assert!(first.iter().chain(&again).collect::<std::collections::HashSet<_>>().len() == 4, "fresh every time");
    let lengths = |query: &[Vec<u8>]| query.iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(lengths(&first), lengths(&ask(&[vec![], vec![]]).unwrap()), "the same size whatever it asks");
    for (indices, what) in [
        (vec![vec![Some(1)]], "number of index lists"),
        (vec![vec![None, Some(16)], vec![]], "a larger one in slot 1 of subtable 0"),
        (vec![vec![None; parameters.slots() + 1], vec![]], "number of indices"),
    ] {
        let error = ask(&indices).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
    let twice = [first[0].clone(), first[0].clone()];
    assert!(read(&twice).unwrap_err().to_string().contains("used before"));
    assert!(read(&first[..1]).unwrap_err().to_string().contains("number of vectors"));
    let cut = [first[0].clone(), first[1][..100].to_vec()];
    assert!(read(&cut).is_err());
    // A client whose generator was restarted: other messages under the seeds of the first query.
    let again = Encryptor::insecure_from_seed(&parameters, key, 4);
    let reused = query.encrypt(&again, &[vec![Some(7)], vec![Some(2)]]).unwrap();
    assert!(read(&reused).unwrap_err().to_string().contains("used before"));
}
