//! Tests of databases that are cut into shards, at insecure parameters.

use std::path::Path;
use std::sync::Arc;

use crate::common::{GO_ON, build, builder, plain};
use unspoken_database::{Builder, Database, DatabaseError, SealingId, Shard, Snapshot, Split, Writer};
use unspoken_pir_scheme::dense::{DenseResponse, partial_answer};
use unspoken_pir_scheme::{DatabaseShard, DatabaseVersion, Mode, PirSecret, PlaneShape, SchemeError, TableKind};
use unspoken_ring::SecretRng;

/// Records of 4,096 bytes, in two planes: rows enough for three blocks.
const RECORDS: usize = 4200;

fn record(i: usize) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    SecretRng::insecure_from_seed(i as u64).fill(&mut bytes);
    bytes
}

fn dense(dir: &Path, sealing: Option<SealingId>) -> Database {
    let builder = Builder { tables: TableKind::Dense, sealing, ..builder() };
    build(&builder, dir, (0..RECORDS).map(|i| plain(record(i)))).unwrap();
    Database::open(dir).unwrap()
}

/// The record at an index, from the partial responses of shards.
fn ask(snapshot: &Snapshot, shards: &[Shard], index: u64) -> Vec<u8> {
    let parameters = snapshot.parameters();
    let PlaneShape::Dense(shape) = snapshot.tables().shape() else { panic!("tables of another kind") };
    let mut rng = SecretRng::insecure_from_seed(index);
    let secret = PirSecret::generate(parameters, &mut rng).unwrap();
    let keys = secret.keys(Mode::Packed, &mut rng).unwrap().expand().unwrap();
    let query = secret.dense_query(shape, index, &mut rng).unwrap();
    let partial = |shard: &Shard| {
        let queries = [(&keys, &query)];
        partial_answer(parameters, shard.part(), &shard.planes(), &queries, &GO_ON).unwrap().swap_remove(0)
    };
    let partials: Vec<_> = shards.iter().map(partial).collect();
    let piece = |plane: usize| {
        let all: Vec<_> = partials.iter().map(|planes: &Vec<_>| planes[plane].clone()).collect();
        let response = DenseResponse::merged(parameters, shape, &all).unwrap();
        secret.dense_extract(&response, shape).unwrap().to_vec()
    };
    (0..snapshot.tables().planes()).flat_map(piece).collect()
}

#[test]
fn shards_have_the_records_of_the_version_that_was_cut() {
    let temporary = tempfile::tempdir().unwrap();
    let (dir, at) = (temporary.path().join("whole"), |name: String| temporary.path().join(name));
    let database = dense(&dir, Some([7; 16]));
    let mut writer = Writer::open(&dir).unwrap();
    writer.set(4000, &record(7)).unwrap();
    writer.commit().unwrap();
    assert!(database.refresh().unwrap());
    let snapshot = database.snapshot();
    let split = Split::new(Arc::clone(&snapshot), 2, &GO_ON).unwrap();
    for number in 1..=split.shards() {
        split.write(number, at(format!("shard-{number}")), |_| (), &GO_ON).unwrap();
    }
    let shards: Vec<Shard> = (1..=2).map(|number| Shard::open(at(format!("shard-{number}"))).unwrap()).collect();
    for (number, shard) in (1..).zip(&shards) {
        assert_eq!((shard.id(), shard.version()), (split.shard(number), 2));
        assert_eq!(shard.tables(), snapshot.tables());
        assert_eq!(shard.id().to_string(), format!("shard {number} of 2"));
    }
    for index in [0, 2047, 2048, 4000, RECORDS as u64 - 1] {
        let expected = if index == 4000 { 7 } else { index as usize };
        assert_eq!(ask(&snapshot, &shards, index), record(expected), "{index}");
    }

    // The shards of a sealed database say so.
    let manifest = std::fs::read(at("shard-1".into()).join("manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    assert_eq!((&manifest["manifest"]["sealing"], &manifest["manifest"]["format"]), (&vec![7; 16].into(), &5.into()));

    // One that is written again, from the same version, has the same bytes.
    let again = Split::new(Database::open(&dir).unwrap().snapshot(), 2, &GO_ON).unwrap();
    again.write(2, at("again".into()), |_| (), &GO_ON).unwrap();
    let bytes = |name: &str| std::fs::read(at(name.into()).join("manifest.json")).unwrap();
    assert_eq!(bytes("again"), bytes("shard-2"));
    // Another version, or another number of shards, is another split.
    writer.set(4000, &record(4000)).unwrap();
    writer.commit().unwrap();
    let later = Split::new(Database::open(&dir).unwrap().snapshot(), 2, &GO_ON).unwrap();
    let three = Split::new(Arc::clone(&snapshot), 3, &GO_ON).unwrap();
    assert_ne!(later.shard(1).split, split.shard(1).split);
    assert_ne!(three.shard(1).split, split.shard(1).split);
}

#[test]
fn what_is_no_shard_is_refused() {
    let temporary = tempfile::tempdir().unwrap();
    let (dir, out) = (temporary.path().join("whole"), temporary.path().join("shard"));
    let database = dense(&dir, None);
    let split = Split::new(database.snapshot(), 2, &GO_ON).unwrap();
    for number in [0, 3] {
        let refused = split.write(number, &out, |_| (), &GO_ON);
        assert!(matches!(refused, Err(DatabaseError::Pir(SchemeError::Range { .. }))), "{refused:?}");
        assert!(!out.exists());
    }
    split.write(1, &out, |_| (), &GO_ON).unwrap();
    assert!(matches!(split.write(1, &out, |_| (), &GO_ON), Err(DatabaseError::Exists { .. })));
    // A shard is no database, and a database no shard.
    assert!(matches!(Database::open(&out), Err(DatabaseError::OtherPart { .. })));
    assert!(matches!(Writer::open(&out), Err(DatabaseError::OtherPart { .. })));
    let error = Shard::open(&dir).unwrap_err().to_string();
    assert!(error.contains("is a whole database, needed a shard; make shards of it with"), "{error}");
    assert!(matches!(Shard::open(temporary.path()), Err(DatabaseError::Missing { .. })));
    // Damage is found.
    let table = out.join("table-1.bin");
    let mut bytes = std::fs::read(&table).unwrap();
    bytes[100_000] ^= 1;
    std::fs::write(&table, &bytes).unwrap();
    let error = Shard::open(&out).unwrap_err().to_string();
    assert!(error.starts_with("corrupted: table-1.bin, bytes 0..16777216: its hash is wrong"), "{error}");
    // Too many shards, and tables of the other kind.
    for shards in [0, 4] {
        let refused = Split::new(database.snapshot(), shards, &GO_ON);
        assert!(matches!(refused, Err(DatabaseError::Pir(SchemeError::Range { .. }))), "{refused:?}");
    }
    let small = temporary.path().join("small");
    build(&builder(), &small, [plain(vec![1; 256])]).unwrap();
    let error = Split::new(Database::open(&small).unwrap().snapshot(), 1, &GO_ON).unwrap_err().to_string();
    assert!(error.contains("found transformed, needed dense or wide ones: rebuild with --tables dense"), "{error}");
}
