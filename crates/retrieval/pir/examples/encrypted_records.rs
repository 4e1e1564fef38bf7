//! Database of encrypted records: `encrypted_records [MEGABYTES]`. A client stores encrypted records at a server,
//! replaces one, and fetches one without revealing which.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use unspoken_pir::{EncryptedDatabase, EncryptedEntry, Mode, PirSecret, Preset, Query};
use unspoken_ring::SecretRng;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let megabytes: usize = std::env::args().nth(1).unwrap_or_else(|| "4".into()).parse()?;
    let parameters = Preset::N11.build()?;
    let mut rng = SecretRng::from_os()?;
    let secret = PirSecret::generate(&parameters, &mut rng)?;
    let mut records = vec![0; megabytes << 20];
    rng.fill(&mut records);
    let piece = parameters.piece_bytes();
    let entry_bytes = piece * parameters.pieces();
    let mut database = EncryptedDatabase::new(&parameters, (records.len() / piece) as u64)?;
    let started = Instant::now();
    for (number, pieces) in records.chunks(entry_bytes).enumerate() {
        database.write(number as u64, &secret.encrypt_entry(pieces, &mut rng)?)?;
    }
    println!("{megabytes} MB encrypted and stored in {:.2} s", started.elapsed().as_secs_f64());
    println!("{} bytes sent for each {entry_bytes}", EncryptedEntry::byte_len(&parameters));
    records[..entry_bytes].fill(b'!');
    database.write(0, &secret.encrypt_entry(&records[..entry_bytes], &mut rng)?)?;
    let shape = database.shape();
    for mode in [Mode::Packed, Mode::Compact] {
        let keys = secret.keys(mode, &mut rng)?.expand()?;
        for index in [0, shape.pieces / 3, shape.pieces - 1] {
            let query = secret.query(mode, shape, index, &mut rng)?;
            let started = Instant::now();
            let (response, phases) = database.answer(&keys, &query, &AtomicBool::new(false))?;
            let seconds = started.elapsed().as_secs_f64();
            let start = index as usize * piece;
            assert!(*secret.extract_encrypted(&response)? == records[start..start + piece]);
            let bytes = Query::byte_len(&parameters, mode, shape);
            println!(
                "{mode}, {bytes} bytes: {seconds:.3} s, of which expansion {:.3} s",
                phases.expansion.as_secs_f64()
            );
        }
    }
    Ok(())
}
