//! Every mode, every index of a small table, at insecure parameters; each mode once at the real ones.

use unspoken_pir::{Database, Mode, PirError, PirParameters, PirSecret, Preset, answer};
use unspoken_ring::SecretRng;

fn records(parameters: &PirParameters, pieces: usize) -> Vec<u8> {
    (0..pieces * parameters.piece_bytes()).map(|i| (i * 131 + i / 251 * 17 + i / 7919) as u8).collect()
}

fn round_trip(preset: Preset, mode: Mode, pieces: usize, indices: &[u64]) {
    let parameters = preset.build().unwrap();
    let all = records(&parameters, pieces);
    let database = Database::new(&parameters, all.clone()).unwrap();
    let mut rng = SecretRng::insecure_from_seed(9);
    let secret = PirSecret::generate(&parameters, &mut rng).unwrap();
    let keys = secret.keys(mode, &mut rng).unwrap().expand().unwrap();
    let piece = parameters.piece_bytes();
    for &index in indices {
        let query = secret.query(mode, database.shape(), index, &mut rng).unwrap();
        let (response, phases) = answer(&database, &keys, &query).unwrap();
        println!("{mode} {index}: {phases:?}");
        let found = secret.extract(&response).unwrap();
        assert!(found == all[index as usize * piece..][..piece], "{mode} {index}");
    }
}

#[test]
fn packed_queries_find_records() {
    round_trip(Preset::InsecureN9, Mode::Packed, 500, &[0, 1, 2, 3, 4, 255, 256, 498, 499]);
}

#[test]
fn bits_find_records() {
    round_trip(Preset::InsecureN9, Mode::Bits, 500, &[0, 1, 2, 77, 499]);
}

#[test]
fn compact_queries_find_records() {
    round_trip(Preset::InsecureN9, Mode::Compact, 500, &[0, 1, 77, 300, 499]);
}

#[test]
fn absent_records_are_refused() {
    let parameters = Preset::InsecureN9.build().unwrap();
    let database = Database::new(&parameters, records(&parameters, 500)).unwrap();
    let mut rng = SecretRng::insecure_from_seed(9);
    let secret = PirSecret::generate(&parameters, &mut rng).unwrap();
    let refused = secret.query(Mode::Bits, database.shape(), 500, &mut rng);
    assert!(matches!(refused, Err(PirError::Range { found: 500, .. })));
}
