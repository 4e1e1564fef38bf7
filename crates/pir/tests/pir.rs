//! Every mode, every index of a small table, at insecure parameters; each mode once at the real ones.

use std::sync::atomic::AtomicBool;

use unspoken_pir::{Database, Mode, PirError, PirParameters, PirSecret, PreparedKeys, Preset, Query, Response, answer};
use unspoken_ring::SecretRng;

fn records(parameters: &PirParameters, pieces: usize) -> Vec<u8> {
    (0..pieces * parameters.piece_bytes()).map(|i| (i * 131 + i / 251 * 17 + i / 7919) as u8).collect()
}

fn ask(database: &Database, keys: &PreparedKeys, query: &Query) -> Result<Response, PirError> {
    let (mut responses, _) = answer(keys, database.shape(), &[database.view()], query, &AtomicBool::new(false))?;
    Ok(responses.remove(0))
}

fn round_trip(preset: Preset, mode: Mode, pieces: usize, indices: &[u64]) {
    let parameters = preset.build().unwrap();
    let all = records(&parameters, pieces);
    let database = Database::new(&parameters, all.clone()).unwrap();
    let mut rng = SecretRng::insecure_from_seed(9);
    let secret = PirSecret::generate(&parameters, &mut rng).unwrap();
    let keys = secret.keys(mode, &mut rng).unwrap().expand().unwrap();
    let piece = parameters.piece_bytes();
    let mut squares = 0.0;
    for &index in indices {
        let query = secret.query(mode, database.shape(), index, &mut rng).unwrap();
        let response = ask(&database, &keys, &query).unwrap();
        let bytes = response.to_bytes(&parameters);
        assert_eq!(bytes.len(), Response::byte_len(&parameters));
        assert_eq!(Response::from_bytes(&parameters, &bytes).unwrap(), response);
        squares += secret.measured_noise(&response).unwrap().0;
        let found = secret.extract(&response).unwrap();
        assert!(found == all[index as usize * piece..][..piece], "{mode} {index}");
    }
    // The noise of one response has a random factor of few degrees of freedom.
    let ratio = (squares / indices.len() as f64 / parameters.response_noise(database.shape()).0).sqrt();
    assert!((0.75..1.3).contains(&ratio), "{mode}: {ratio:.3} times the predicted deviation");
}

#[test]
fn packed_queries_find_records() {
    round_trip(Preset::InsecureN11, Mode::Packed, 500, &[0, 1, 2, 3, 4, 255, 256, 498, 499]);
}

#[test]
fn bits_find_records() {
    round_trip(Preset::InsecureN11, Mode::Bits, 500, &[0, 1, 2, 77, 499]);
}

#[test]
fn compact_queries_find_records() {
    round_trip(Preset::InsecureN11, Mode::Compact, 500, &[0, 1, 77, 300, 499]);
}

#[test]
fn every_mode_works_at_secure_parameters() {
    for mode in [Mode::Packed, Mode::Bits, Mode::Compact] {
        round_trip(Preset::N11, mode, 4000, &[0, 2731]);
    }
}

#[test]
fn written_records_are_found_and_nothing_else_changes() {
    let parameters = Preset::InsecureN11.build().unwrap();
    let (piece, all) = (parameters.piece_bytes(), records(&parameters, 500));
    let mut changed = all.clone();
    changed[77 * piece..78 * piece].fill(0xA5);
    let mut database = Database::new(&parameters, all).unwrap();
    database.write(77, &vec![0xA5; piece]).unwrap();
    let rebuilt = Database::new(&parameters, changed).unwrap();
    assert!(database.words() == rebuilt.words());
    assert!(matches!(database.write(500, &vec![0; piece]), Err(PirError::Range { found: 500, .. })));
    assert!(matches!(database.write(1, &vec![0; piece - 1]), Err(PirError::Range { .. })));
}

#[test]
fn keys_of_another_mode_are_named() {
    let parameters = Preset::InsecureN11.build().unwrap();
    let database = Database::new(&parameters, records(&parameters, 500)).unwrap();
    let mut rng = SecretRng::insecure_from_seed(9);
    let secret = PirSecret::generate(&parameters, &mut rng).unwrap();
    let keys = secret.keys(Mode::Packed, &mut rng).unwrap().expand().unwrap();
    for mode in [Mode::Bits, Mode::Compact] {
        let query = secret.query(mode, database.shape(), 3, &mut rng).unwrap();
        let refused = ask(&database, &keys, &query);
        assert!(matches!(refused, Err(PirError::Mode { found: Mode::Packed, needed }) if needed == mode));
    }
}

#[test]
fn absent_records_are_refused() {
    let parameters = Preset::InsecureN11.build().unwrap();
    let database = Database::new(&parameters, records(&parameters, 500)).unwrap();
    let mut rng = SecretRng::insecure_from_seed(9);
    let secret = PirSecret::generate(&parameters, &mut rng).unwrap();
    let refused = secret.query(Mode::Bits, database.shape(), 500, &mut rng);
    assert!(matches!(refused, Err(PirError::Range { found: 500, .. })));
}
