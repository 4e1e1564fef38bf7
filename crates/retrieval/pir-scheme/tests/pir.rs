//! Tests of every mode: many indices of a small table at insecure parameters, and each mode once at secure ones.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use unspoken_pir_scheme::encrypted::{self, EncryptedView};
use unspoken_pir_scheme::{
    Database, DatabaseShape, EncryptedEntry, EntryChange, KeyHeader, Layout, Length, Mode, PirParameters, PirSecret,
    PlaneShape, PreparedKeys, Preset, Query, Response, SchemeError, SeededKeys, TableKind, TableView, Tables, answer,
    encode_entry,
};
use unspoken_ring::{Domain, SecretRng};
use zeroize::Zeroizing;

fn records(parameters: &PirParameters, pieces: usize) -> Vec<u8> {
    (0..pieces * parameters.piece_bytes()).map(|i| (i * 131 + i / 251 * 17 + i / 7919) as u8).collect()
}

fn client(parameters: &PirParameters) -> (PirSecret, SecretRng) {
    let mut rng = SecretRng::insecure_from_seed(9);
    (PirSecret::generate(parameters, &mut rng).unwrap(), rng)
}

/// A client, and a table of 500 pieces.
struct Parties {
    parameters: PirParameters,
    database: Database,
    secret: PirSecret,
    rng: SecretRng,
}

impl Parties {
    fn new() -> Self {
        let parameters = Preset::InsecureN11.build().unwrap();
        let database = Database::new(&parameters, 0, &records(&parameters, 500)).unwrap();
        let (secret, rng) = client(&parameters);
        Parties { parameters, database, secret, rng }
    }
}

fn ask(database: &Database, keys: &PreparedKeys, query: &Query) -> Result<Response, SchemeError> {
    let mut responses = answer(keys, database.shape(), &[database.view()], query, &AtomicBool::new(false))?;
    Ok(responses.remove(0))
}

/// The keys after transfer to the server.
fn sent(parameters: &PirParameters, keys: &SeededKeys) -> PreparedKeys {
    let mut bytes = Vec::new();
    keys.write(&mut bytes).unwrap();
    let mode = KeyHeader::read(parameters, &bytes).unwrap().mode();
    assert_eq!(bytes.len() as u64, SeededKeys::byte_len(parameters, mode));
    PreparedKeys::read(parameters, &mut bytes.as_slice()).unwrap()
}

fn round_trip(preset: Preset, mode: Mode, pieces: usize, indices: &[u64]) {
    let parameters = preset.build().unwrap();
    let all = records(&parameters, pieces);
    let database = Database::new(&parameters, 0, &all).unwrap();
    let (secret, mut rng) = client(&parameters);
    let keys = sent(&parameters, &secret.keys(mode, &mut rng).unwrap());
    let piece = parameters.piece_bytes();
    let mut squares = 0.0;
    for &index in indices {
        let query = match mode {
            Mode::Session => secret.session_query(index as u32, database.shape(), index, &mut rng).unwrap(),
            _ => secret.query(mode, database.shape(), index, &mut rng).unwrap(),
        };
        let bytes = query.to_bytes(&parameters);
        assert_eq!(bytes.len(), Query::byte_len(&parameters, mode, database.shape()));
        let query = Query::from_bytes(&parameters, mode, database.shape(), &bytes).unwrap();
        let response = ask(&database, &keys, &query).unwrap();
        let bytes = response.to_bytes(&parameters);
        assert_eq!(bytes.len(), Response::byte_len(&parameters));
        assert_eq!(Response::from_bytes(&parameters, &bytes).unwrap(), response);
        squares += secret.measured_noise(&response).unwrap().0;
        let found = secret.extract(&response, 0, index).unwrap();
        assert!(*found == all[index as usize * piece..][..piece], "{mode} {index}");
    }
    // The measured noise of a single response varies widely: few random values determine a common factor.
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
fn session_queries_find_records() {
    round_trip(Preset::InsecureN11, Mode::Session, 500, &[0, 1, 77, 499]);
    let parameters = Preset::InsecureN11.build().unwrap();
    let (secret, mut rng) = client(&parameters);
    let shape = DatabaseShape::new(&parameters, 500).unwrap();
    // Another counter value gives another mask, and a session query needs a counter value.
    let body = |counter, rng: &mut SecretRng| match secret.session_query(counter, shape, 3, rng).unwrap() {
        Query::Session { body, .. } => body,
        _ => 0,
    };
    assert!(body(7, &mut rng).abs_diff(body(8, &mut rng)) > 1 << 16);
    assert!(matches!(secret.query(Mode::Session, shape, 3, &mut rng), Err(SchemeError::Format { .. })));
}

#[test]
fn a_key_of_32_bytes_is_the_whole_secret() {
    let parameters = Preset::InsecureN11.build().unwrap();
    let database = Database::new(&parameters, 0, &records(&parameters, 40)).unwrap();
    let derive = || PirSecret::derive(&parameters, &Zeroizing::new([7; 32])).unwrap();
    let mut rng = SecretRng::insecure_from_seed(2);
    let keys = derive().keys(Mode::Bits, &mut rng).unwrap().expand().unwrap();
    let query = derive().query(Mode::Bits, database.shape(), 39, &mut rng).unwrap();
    let found = derive().extract(&ask(&database, &keys, &query).unwrap(), 0, 39).unwrap();
    assert!(*found == records(&parameters, 40)[39 * 256..]);
}

#[test]
fn planes_and_changes_are_answered_from_one_query() {
    let parameters = Preset::InsecureN11.build().unwrap();
    let (piece, old) = (parameters.piece_bytes(), records(&parameters, 500));
    let mut new = old.clone();
    new[77 * piece..78 * piece].fill(0xA5);
    let database = Database::new(&parameters, 0, &old).unwrap();
    let (row, column, _) = database.shape().position(77);
    let entry = |bytes: &[u8]| encode_entry(&parameters, 0, 19, &bytes[76 * piece..80 * piece]).unwrap();
    let difference = parameters.ring().sub(&entry(&new), &entry(&old)).unwrap();
    let changes = [Arc::new(EntryChange { row, column, difference })];
    let planes = [database.view(), TableView { changes: &changes, ..database.view() }];
    let (secret, mut rng) = client(&parameters);
    let keys = secret.keys(Mode::Packed, &mut rng).unwrap().expand().unwrap();
    for index in [76, 77, 499] {
        let query = secret.query(Mode::Packed, database.shape(), index, &mut rng).unwrap();
        let responses = answer(&keys, database.shape(), &planes, &query, &AtomicBool::new(false)).unwrap();
        let found: Vec<Vec<u8>> =
            responses.iter().map(|response| secret.extract(response, 0, index).unwrap().to_vec()).collect();
        let cell = index as usize * piece..(index as usize + 1) * piece;
        assert!(found == [&old[cell.clone()], &new[cell]], "{index}");
        let stopped = answer(&keys, database.shape(), &planes, &query, &AtomicBool::new(true));
        assert!(matches!(stopped, Err(SchemeError::Interrupted)));
    }
    let wrong = [Arc::new(EntryChange { row: 64, column, difference: entry(&new) })];
    let planes = [TableView { changes: &wrong, ..database.view() }];
    let query = secret.query(Mode::Packed, database.shape(), 0, &mut rng).unwrap();
    let refused = answer(&keys, database.shape(), &planes, &query, &AtomicBool::new(false));
    assert!(matches!(refused, Err(SchemeError::Table { found: 64, .. })));
    let planes = [TableView {
        words: unspoken_ring::Stored { items: &database.words()[1..], ..database.view().words },
        changes: &[],
    }];
    let refused = answer(&keys, database.shape(), &planes, &query, &AtomicBool::new(false));
    assert!(matches!(refused, Err(SchemeError::Table { .. })));
}

#[test]
fn what_was_not_computed_with_this_secrets_keys_is_not_read() {
    let parameters = Preset::InsecureN11.build().unwrap();
    let database = Database::new(&parameters, 0, &records(&parameters, 500)).unwrap();
    let mut rng = SecretRng::insecure_from_seed(9);
    let [secret, other] = [(); 2].map(|()| PirSecret::generate(&parameters, &mut rng).unwrap());
    for mode in [Mode::Packed, Mode::Bits, Mode::Compact] {
        let keys = other.keys(mode, &mut rng).unwrap().expand().unwrap();
        let query = secret.query(mode, database.shape(), 7, &mut rng).unwrap();
        let response = ask(&database, &keys, &query).unwrap();
        assert!(matches!(secret.extract(&response, 0, 7), Err(SchemeError::Unreadable)), "{mode}");
        // A word is a compact query for some index under every secret; a query with a word for each bit is not.
        if mode != Mode::Compact {
            assert!(matches!(other.extract(&response, 0, 7), Err(SchemeError::Unreadable)), "{mode}");
        }
    }
}

#[test]
fn a_noisier_response_than_planned_is_not_read() {
    let Parties { parameters, database, secret, mut rng } = Parties::new();
    let keys = secret.keys(Mode::Packed, &mut rng).unwrap().expand().unwrap();
    let query = secret.query(Mode::Packed, database.shape(), 7, &mut rng).unwrap();
    let response = ask(&database, &keys, &query).unwrap();
    assert!(secret.extract(&response, 0, 7).is_ok());
    // Change each coefficient by one step of the rounding, an eighth of a unit: rounding alone would still be correct.
    let mut bytes = response.to_bytes(&parameters);
    let body = bytes.len() - 512 * 7 / 8;
    (0..512 * 7).step_by(7).for_each(|bit| bytes[body + bit / 8] ^= 1 << (bit % 8));
    let response = Response::from_bytes(&parameters, &bytes).unwrap();
    assert!(matches!(secret.extract(&response, 0, 7), Err(SchemeError::Unreadable)));
}

#[test]
fn keys_queries_and_responses_of_other_forms_are_named() {
    let parameters = Preset::InsecureN11.build().unwrap();
    let (secret, mut rng) = client(&parameters);
    let mut bytes = Vec::new();
    secret.keys(Mode::Packed, &mut rng).unwrap().write(&mut bytes).unwrap();
    let message = |bytes: &[u8]| KeyHeader::read(&parameters, bytes).unwrap_err().to_string();
    assert!(message(&bytes[..63]).contains("63 bytes"));
    for (at, part) in [(0, "keys of private retrieval"), (8, "format"), (12, "other parameters"), (28, "kind")] {
        let mut wrong = bytes.clone();
        wrong[at] ^= 0x40;
        assert!(message(&wrong).contains(part), "{}", message(&wrong));
    }
    // A residue above its prime, and a stream that is cut off.
    let mut wrong = bytes.clone();
    wrong[KeyHeader::BYTES + 32..][..64].fill(0xFF);
    assert!(PreparedKeys::read(&parameters, &mut wrong.as_slice()).is_err());
    assert!(PreparedKeys::read(&parameters, &mut &bytes[..bytes.len() - 1]).is_err());
    let shape = DatabaseShape::new(&parameters, 500).unwrap();
    for mode in Mode::ALL {
        let length = Query::byte_len(&parameters, mode, shape);
        for wrong in [0, length - 1, length + 1] {
            let error = Query::from_bytes(&parameters, mode, shape, &vec![0; wrong]).unwrap_err().to_string();
            assert!(error.contains(&format!("{length} bytes")), "{error}");
        }
    }
    // Bits queries have nine words of five bits: three bits are not used.
    let bits = Query::byte_len(&parameters, Mode::Bits, shape);
    assert!(Query::from_bytes(&parameters, Mode::Bits, shape, &vec![0xFF; bits]).is_err());
    assert!(Response::from_bytes(&parameters, &vec![0xFF; Response::byte_len(&parameters)]).is_err());
    assert!(Response::from_bytes(&parameters, &[0; 9]).is_err());
}

#[test]
fn every_mode_works_at_secure_parameters() {
    for mode in Mode::ALL {
        round_trip(Preset::N11, mode, 4000, &[0, 2731]);
    }
}

#[test]
fn keys_of_another_mode_are_named() {
    let Parties { database, secret, mut rng, .. } = Parties::new();
    let keys = secret.keys(Mode::Packed, &mut rng).unwrap().expand().unwrap();
    for mode in [Mode::Bits, Mode::Compact] {
        let query = secret.query(mode, database.shape(), 3, &mut rng).unwrap();
        let refused = ask(&database, &keys, &query);
        assert!(matches!(refused, Err(SchemeError::Mode { found: Mode::Packed, needed }) if needed == mode));
    }
}

#[test]
fn tables_are_of_whole_pieces() {
    let parameters = Preset::InsecureN11.build().unwrap();
    let all = records(&parameters, 30);
    let made = Database::from_pieces(&parameters, 3, 30, |index| all[index as usize * 256..][..256].to_vec()).unwrap();
    assert!(made.words() == Database::new(&parameters, 3, &all).unwrap().words());
    assert_eq!(made.bytes(), size_of_val(made.words()));
    // Tables of two planes differ in all pads.
    assert!(made.words() != Database::new(&parameters, 2, &all).unwrap().words());
    let refused = Database::from_pieces(&parameters, 3, 30, |index| vec![0; 256 - usize::from(index == 7)]);
    assert!(matches!(refused, Err(SchemeError::Range { found: 255, .. })));
    assert!(matches!(Database::new(&parameters, 0, &all[1..]), Err(SchemeError::Range { .. })));
    assert!(Database::new(&parameters, 0, &[]).is_err());
}

#[test]
fn absent_records_are_refused() {
    let Parties { database, secret, mut rng, .. } = Parties::new();
    let pieces = database.shape().pieces;
    for refused in [
        secret.query(Mode::Bits, database.shape(), 7_351, &mut rng),
        secret.session_query(0, database.shape(), 7_351, &mut rng),
    ] {
        let refused = refused.unwrap_err();
        assert!(matches!(refused, SchemeError::Index { pieces: found } if found == pieces));
        assert!(!refused.to_string().contains("7351"), "{refused}");
    }
}

/// A database of encrypted entries in memory.
struct Stored {
    tables: Tables,
    entries: Vec<u8>,
    changes: BTreeMap<u64, Arc<[u8]>>,
}

impl Stored {
    fn new(secret: &PirSecret, tables: Tables, cells: &[Vec<u8>], rng: &mut SecretRng) -> Self {
        let number_of = 0..EncryptedEntry::count(&tables);
        let entries = number_of.flat_map(|number| encrypted(secret, &tables, number, cells, rng)).collect();
        Stored { tables, entries, changes: BTreeMap::new() }
    }

    fn view(&self) -> EncryptedView<'_> {
        EncryptedView { entries: &self.entries, changes: &self.changes }
    }
}

/// An entry as it is stored; reading it gives the same bytes again.
fn encrypted(secret: &PirSecret, tables: &Tables, number: u64, cells: &[Vec<u8>], rng: &mut SecretRng) -> Vec<u8> {
    let entry = secret.encrypt_entry(tables, number, |cell| &cells[cell as usize], rng).unwrap();
    let bytes = entry.to_bytes(tables);
    assert_eq!(bytes.len(), EncryptedEntry::byte_len(tables));
    assert!(EncryptedEntry::from_bytes(tables, &bytes[1..]).is_err());
    assert_eq!(EncryptedEntry::from_bytes(tables, &bytes).unwrap().to_bytes(tables), bytes);
    bytes
}

/// Records of 300 bytes need two planes.
fn encrypted_tables(parameters: &PirParameters, records: u64) -> (Tables, Vec<Vec<u8>>) {
    let layout = Layout::Index { records, length: Length::Fixed(300) };
    let cells = (0..records).map(|i| (0..300).map(|j| (i * 7 + j) as u8).collect()).collect();
    (Tables::new(parameters, layout, TableKind::Encrypted).unwrap(), cells)
}

#[test]
fn encrypted_records_are_found_and_replaced() {
    let parameters = Preset::InsecureN11.build().unwrap();
    let (secret, mut rng) = client(&parameters);
    let (tables, mut cells) = encrypted_tables(&parameters, 299);
    let PlaneShape::Encrypted(shape) = tables.shape() else { panic!("{tables:?}") };
    let mut stored = Stored::new(&secret, tables.clone(), &cells, &mut rng);
    assert!(secret.encrypt_entry(&tables, 75, |_| &[], &mut rng).is_err());
    cells[42] = vec![0x77; 300];
    stored.changes.insert(10, encrypted(&secret, &tables, 10, &cells, &mut rng).into());
    let cancel = AtomicBool::new(false);
    for mode in [Mode::Packed, Mode::Bits, Mode::Compact] {
        let keys = secret.keys(mode, &mut rng).unwrap().expand().unwrap();
        for index in [0, 1, 40, 42, 298] {
            let query = secret.query(mode, shape, index, &mut rng).unwrap();
            let responses = encrypted::answer(&keys, &tables, stored.view(), &query, &cancel).unwrap();
            let mut record = Vec::new();
            for (plane, response) in responses.iter().enumerate() {
                record.extend_from_slice(&secret.extract_encrypted(response, &tables, plane, index).unwrap());
                // There is no noise of sums over rows; the noise of the switch to the ring of responses is the same.
                let ratio = secret.measured_noise(response).unwrap().0 / parameters.response_noise(shape).0;
                assert!(ratio < 1.3, "{mode} {index}: {ratio}");
            }
            assert_eq!(record[..300], cells[index as usize], "{mode} {index}");
        }
    }
}

#[test]
fn encrypted_records_have_the_same_responses_on_a_device() {
    let parameters = Preset::InsecureN11.build().unwrap();
    let (secret, mut rng) = client(&parameters);
    let (tables, mut cells) = encrypted_tables(&parameters, 45);
    let PlaneShape::Encrypted(shape) = tables.shape() else { panic!("{tables:?}") };
    let mut stored = Stored::new(&secret, tables.clone(), &cells, &mut rng);
    cells[42] = vec![0x77; 300];
    stored.changes.insert(10, encrypted(&secret, &tables, 10, &cells, &mut rng).into());
    let there = tables.clone().on_device(Some(&unspoken_device_shim::device(1 << 28))).unwrap();
    for mode in [Mode::Packed, Mode::Session] {
        let keys = secret.keys(mode, &mut rng).unwrap();
        let query = match mode {
            Mode::Session => secret.session_query(1, shape, 42, &mut rng).unwrap(),
            mode => secret.query(mode, shape, 42, &mut rng).unwrap(),
        };
        let bytes = query.to_bytes(&parameters);
        let [wanted, found] = [&tables, &there].map(|tables| {
            let keys = sent(tables.parameters(), &keys);
            let query = Query::from_bytes(tables.parameters(), mode, shape, &bytes).unwrap();
            encrypted::answer(&keys, tables, stored.view(), &query, &AtomicBool::new(false)).unwrap()
        });
        assert!(wanted == found, "{mode}");
    }
}

#[test]
fn content_that_the_owner_did_not_store_at_its_place_is_refused() {
    let parameters = Preset::InsecureN11.build().unwrap();
    let (secret, mut rng) = client(&parameters);
    let (tables, cells) = encrypted_tables(&parameters, 40);
    let PlaneShape::Encrypted(shape) = tables.shape() else { panic!("{tables:?}") };
    let mut stored = Stored::new(&secret, tables.clone(), &cells, &mut rng);
    let (keys, cancel) = (secret.keys(Mode::Packed, &mut rng).unwrap().expand().unwrap(), AtomicBool::new(false));
    let length = EncryptedEntry::byte_len(&tables);
    let moved = stored.entries[2 * length..3 * length].to_vec();
    stored.changes.insert(1, moved.into());
    // Adds the message 1 to all values of the body, and with that to the first coefficient.
    let ring = parameters.ring();
    let mut altered = stored.entries[3 * length..4 * length].to_vec();
    let residues = 32..length / 2;
    let mut body = ring.read_residues(&altered[residues.clone()], ring.basis(), Domain::Evaluation).unwrap();
    ring.add_constant_assign(&mut body, 1 << 48).unwrap();
    let mut bytes = Vec::new();
    ring.write_residues(&body, &mut bytes);
    altered[residues].copy_from_slice(&bytes);
    stored.changes.insert(3, altered.into());
    let mut read = |tables: &Tables, plane: usize, index: u64, expected: u64| {
        let query = secret.query(Mode::Packed, shape, index, &mut rng).unwrap();
        let responses = encrypted::answer(&keys, &stored.tables, stored.view(), &query, &cancel).unwrap();
        secret.extract_encrypted(&responses[plane], tables, plane, expected).map(|piece| piece.to_vec())
    };
    assert_eq!(read(&tables, 0, 9, 9).unwrap(), cells[9][..240]);
    let (other, _) = encrypted_tables(&parameters, 39);
    for (what, refused) in [
        ("an entry at another place", read(&tables, 0, 5, 5)),
        ("an altered entry", read(&tables, 0, 12, 12)),
        ("the record of another index", read(&tables, 0, 9, 8)),
        ("a record of another layout", read(&other, 0, 9, 9)),
    ] {
        assert!(matches!(refused, Err(SchemeError::Forged)), "{what}: {refused:?}");
    }
}

#[test]
fn entries_of_another_length_are_an_error_of_the_database() {
    let parameters = Preset::InsecureN11.build().unwrap();
    let (secret, mut rng) = client(&parameters);
    let (tables, cells) = encrypted_tables(&parameters, 40);
    let PlaneShape::Encrypted(shape) = tables.shape() else { panic!("{tables:?}") };
    let mut stored = Stored::new(&secret, tables.clone(), &cells, &mut rng);
    stored.entries.pop();
    let (keys, cancel) = (secret.keys(Mode::Packed, &mut rng).unwrap().expand().unwrap(), AtomicBool::new(false));
    let query = secret.query(Mode::Packed, shape, 0, &mut rng).unwrap();
    let cut_off = encrypted::answer(&keys, &tables, stored.view(), &query, &cancel);
    assert!(matches!(cut_off, Err(SchemeError::Table { .. })));
    let layout = tables.layout();
    let transformed = Tables::new(&parameters, layout, TableKind::Transformed).unwrap();
    let other = encrypted::answer(&keys, &transformed, stored.view(), &query, &cancel);
    assert!(matches!(other, Err(SchemeError::Table { .. })));
}
