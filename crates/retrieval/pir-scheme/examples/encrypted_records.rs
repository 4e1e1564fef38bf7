//! Database of encrypted records: `encrypted_records [MEGABYTES]`. An owner encrypts records, changes one, and fetches
//! one without revealing which.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use unspoken_pir_scheme::encrypted::{self, EncryptedView};
use unspoken_pir_scheme::{
    EncryptedEntry, Layout, Length, Mode, PirSecret, PlaneShape, Preset, Query, TableKind, Tables,
};
use unspoken_ring::SecretRng;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let megabytes: usize = std::env::args().nth(1).unwrap_or_else(|| "4".into()).parse()?;
    let parameters = Preset::N11.build()?;
    let mut rng = SecretRng::from_os()?;
    let secret = PirSecret::generate(&parameters, &mut rng)?;
    let record = TableKind::Encrypted.piece_bytes(&parameters, 0);
    let mut records = vec![0; (megabytes << 20) / record * record];
    rng.fill(&mut records);
    let count = (records.len() / record) as u64;
    let layout = Layout::Index { records: count, length: Length::Fixed(record as u32) };
    let tables = Tables::new(&parameters, layout, TableKind::Encrypted)?;
    let PlaneShape::Encrypted(shape) = tables.shape() else { return Err("tables of another kind".into()) };

    let started = Instant::now();
    let mut entries = Vec::new();
    for number in 0..EncryptedEntry::count(&tables) {
        let cell = |index: u64| &records[index as usize * record..][..record];
        entries.extend(secret.encrypt_entry(&tables, number, cell, &mut rng)?.to_bytes(&tables));
    }
    let (seconds, bytes) = (started.elapsed().as_secs_f64(), entries.len());
    println!("{} bytes of records encrypted in {seconds:.2} s, {bytes} bytes", records.len());

    records[..record].fill(b'!');
    let cell_now = |index: u64| &records[index as usize * record..][..record];
    let changed = secret.encrypt_entry(&tables, 0, cell_now, &mut rng)?.to_bytes(&tables);
    let changes = BTreeMap::from([(0, changed.into())]);
    let view = EncryptedView { entries: &entries, changes: &changes };
    for mode in [Mode::Packed, Mode::Compact] {
        let keys = secret.keys(mode, &mut rng)?.expand()?;
        for index in [0, count / 3, count - 1] {
            let query = secret.query(mode, shape, index, &mut rng)?;
            let started = Instant::now();
            let responses = encrypted::answer(&keys, &tables, view, &query, &AtomicBool::new(false))?;
            let seconds = started.elapsed().as_secs_f64();
            for (plane, response) in responses.iter().enumerate() {
                assert!(*secret.extract_encrypted(response, &tables, plane, index)? == *cell_now(index));
            }
            let bytes = Query::byte_len(&parameters, mode, shape);
            println!("{mode}, {bytes} bytes: {seconds:.3} s");
        }
    }
    Ok(())
}
