//! Tests of changing databases while they are read, at insecure parameters.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;

use crate::common::{GO_ON, build, builder, check_tables, keyed, plain, value};
use unspoken_database::{Builder, Database, DatabaseError, Writer};
use unspoken_pir_scheme::{DatabaseVersion, SchemeError, Staleness, VersionedDatabase};

#[test]
fn records_are_put_and_deleted_and_each_version_is_whole() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("database");
    build(&builder(), &dir, (0..500).map(|i| keyed(format!("key {i}"), value(i)))).unwrap();
    let database = Database::open(&dir).unwrap();
    let mut writer = Writer::open(&dir).unwrap();
    assert!(matches!(Writer::open(&dir).unwrap_err(), DatabaseError::Locked { .. }));
    let mut expected: HashMap<String, Vec<u8>> = (0..500).map(|i| (format!("key {i}"), value(i))).collect();
    let check = |expected: &HashMap<String, Vec<u8>>| {
        let snapshot = database.snapshot();
        assert_eq!(snapshot.records(), expected.len() as u64);
        for i in 0..520 {
            let key = format!("key {i}");
            assert_eq!(snapshot.get(key.as_bytes()).unwrap().as_ref(), expected.get(&key), "{key}");
        }
        check_tables(&snapshot);
    };
    let first = database.snapshot();
    assert!(writer.put(b"key 7", b"another").unwrap());
    assert!(!writer.put(b"key 510", b"").unwrap());
    assert!(writer.delete(b"key 8").unwrap() && !writer.delete(b"key 8").unwrap());
    assert_eq!(writer.records(), 500);
    assert!(!database.refresh().unwrap());
    check(&expected);
    assert_eq!(writer.commit().unwrap(), 2);
    assert!(database.refresh().unwrap() && !database.refresh().unwrap());
    expected.insert("key 7".into(), b"another".to_vec());
    expected.insert("key 510".into(), vec![]);
    expected.remove("key 8");
    check(&expected);
    assert!(database.snapshot().changed_entries() > 0 && database.resident_bytes() > 0);
    assert_eq!((first.version(), first.get(b"key 8").unwrap()), (1, Some(value(8))));
    // Uncommitted changes are lost; changes without effect do not make a version.
    writer.put(b"key 1", b"x").unwrap();
    writer.discard();
    writer.put(b"key 2", &value(2)).unwrap();
    assert_eq!(writer.commit().unwrap(), 2);
    // Restore the content of the tables.
    assert!(writer.put(b"key 7", &value(7)).unwrap() && writer.delete(b"key 510").unwrap());
    assert!(!writer.put(b"key 8", &value(8)).unwrap());
    assert_eq!(writer.commit().unwrap(), 3);
    drop(writer);
    assert!(database.refresh().unwrap());
    let expected = (0..500).map(|i| (format!("key {i}"), value(i))).collect();
    check(&expected);
    // Another process continues.
    let mut writer = Writer::open(&dir).unwrap();
    assert_eq!((writer.version(), writer.records()), (3, 500));
    assert!(writer.set(0, b"").is_err() && writer.push(b"").is_err());
    assert!(matches!(writer.put(b"long", &[0; 5000]).unwrap_err(), DatabaseError::Pir(SchemeError::Length { .. })));
    assert_eq!(writer.commit().unwrap(), 3);
}

#[test]
fn buckets_are_filled_by_moving_others_until_there_is_no_room() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("database");
    build(&builder(), &dir, (0..100).map(|i| keyed(i.to_string(), vec![i as u8; 50]))).unwrap();
    let database = Database::open(&dir).unwrap();
    let mut writer = Writer::open(&dir).unwrap();
    let mut added = 100;
    let error = loop {
        match writer.put(added.to_string().as_bytes(), &[added as u8; 50]) {
            Ok(_) => added += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, DatabaseError::Full { .. }) && error.to_string().contains("--capacity"), "{error}");
    writer.commit().unwrap();
    database.refresh().unwrap();
    let snapshot = database.snapshot();
    assert_eq!(snapshot.records(), added);
    for i in 0..added {
        assert_eq!(snapshot.get(i.to_string().as_bytes()).unwrap(), Some(vec![i as u8; 50]), "{i}");
    }
    // A bucket of 254 bytes has room for four entries of 59 bytes.
    assert!(snapshot.load().unwrap() > 0.85, "{}", snapshot.load().unwrap());
    check_tables(&snapshot);
}

#[test]
fn records_are_set_cleared_and_added_by_index() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("variable");
    let spare = Builder { capacity: 22, ..builder() };
    build(&spare, &dir, (0..20).map(|i| plain(vec![i; usize::from(i) * 40]))).unwrap();
    let database = Database::open(&dir).unwrap();
    let mut writer = Writer::open(&dir).unwrap();
    writer.set(3, b"three").unwrap();
    writer.clear(4).unwrap();
    assert_eq!((writer.push(b"").unwrap(), writer.push(&[1; 760]).unwrap()), (20, 21));
    assert!(matches!(writer.push(b"").unwrap_err(), DatabaseError::Full { .. }));
    assert!(matches!(writer.set(22, b"").unwrap_err(), DatabaseError::Pir(SchemeError::Record { .. })));
    assert!(writer.set(0, &[0; 761]).is_err() && writer.put(b"key", b"").is_err() && writer.delete(b"key").is_err());
    writer.commit().unwrap();
    database.refresh().unwrap();
    let snapshot = database.snapshot();
    let record = |i| snapshot.record(i).unwrap();
    assert_eq!([record(3), record(4), record(5)], [Some(b"three".to_vec()), None, Some(vec![5; 200])]);
    assert_eq!([record(20), record(21)], [Some(vec![]), Some(vec![1; 760])]);
    assert_eq!(snapshot.records(), 22);
    check_tables(&snapshot);
    let roomy = temporary.path().join("roomy");
    build(&Builder { longest: 9, ..spare.clone() }, &roomy, (0..20).map(|i| plain(vec![i; 4]))).unwrap();
    Writer::open(&roomy).unwrap().set(0, &[1; 9]).unwrap();
    let fixed = temporary.path().join("fixed");
    build(&builder(), &fixed, (0..20).map(|i| plain(vec![i; 4]))).unwrap();
    let mut writer = Writer::open(&fixed).unwrap();
    assert!(writer.clear(0).is_err() && writer.set(0, &[0; 5]).is_err() && writer.push(&[0; 4]).is_err());
    writer.set(19, &[0; 4]).unwrap();
    assert_eq!(writer.commit().unwrap(), 2);
    // The additional records are absent, not zeros.
    let spared = temporary.path().join("spared");
    build(&spare, &spared, (0..20).map(|i| plain(vec![i; 4]))).unwrap();
    let snapshot = Database::open(&spared).unwrap().snapshot();
    assert_eq!([snapshot.record(19).unwrap(), snapshot.record(20).unwrap()], [Some(vec![19; 4]), None]);
}

#[test]
fn compaction_changes_the_files_and_nothing_else() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("database");
    build(&builder(), &dir, (0..300).map(|i| keyed(i.to_string(), value(i)))).unwrap();
    let database = Database::open(&dir).unwrap();
    let mut writer = Writer::open(&dir).unwrap();
    for i in 0..30 {
        writer.put(i.to_string().as_bytes(), b"changed").unwrap();
        writer.commit().unwrap();
    }
    database.refresh().unwrap();
    let before = database.snapshot();
    writer.put(b"31", b"pending").unwrap();
    let stopped = writer.compact(|_| (), &AtomicBool::new(true)).unwrap_err();
    assert!(matches!(stopped, DatabaseError::Cancelled));
    assert!(!database.refresh().unwrap());
    let journal = writer.journal_bytes();
    writer.compact(|_| (), &GO_ON).unwrap();
    assert!(journal > 1000 && writer.journal_bytes() < 100 && writer.version() == before.version());
    assert!(database.refresh().unwrap());
    let after = database.snapshot();
    assert_eq!((after.version(), after.generation(), after.changed_entries()), (31, 2, 0));
    let cells = |snapshot: &unspoken_database::Snapshot| -> Vec<Vec<u8>> {
        (0..snapshot.layout().cells()).map(|cell| snapshot.cell(cell).to_vec()).collect()
    };
    assert!(cells(&before) == cells(&after) && before.records() == after.records());
    check_tables(&after);
    // Removed files are still readable while they are held.
    check_tables(&before);
    assert_eq!(writer.commit().unwrap(), 32);
    assert!(database.refresh().unwrap());
    assert_eq!(database.snapshot().get(b"31").unwrap(), Some(b"pending".to_vec()));
    check_tables(&database.snapshot());
    let mut names: Vec<_> =
        std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    let files = ["cells-2.bin", "journal-2.log", "manifest.json", "newest-2.txt", "sums-2.bin", "table-2.bin"];
    assert_eq!(names, [&files[..], &["writer.lock"]].concat());
}

#[test]
fn readers_see_whole_versions_while_a_writer_commits_and_compacts() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("database");
    build(&builder(), &dir, (0..40).map(|_| plain(1u64.to_le_bytes().to_vec()))).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let read = || {
            let database = Database::open(&dir).unwrap();
            let (mut versions, mut last) = (0, 0);
            while !done.load(std::sync::atomic::Ordering::Relaxed) || versions == 0 {
                versions += u32::from(database.refresh().unwrap());
                let snapshot = database.snapshot();
                assert!(snapshot.version() >= last);
                last = snapshot.version();
                for i in 0..40 {
                    assert_eq!(snapshot.record(i).unwrap(), Some(last.to_le_bytes().to_vec()));
                }
            }
            last
        };
        let readers = [scope.spawn(read), scope.spawn(read)];
        let mut writer = Writer::open(&dir).unwrap();
        for version in 2..60u64 {
            (0..40).for_each(|i| writer.set(i, &version.to_le_bytes()).unwrap());
            assert_eq!(writer.commit().unwrap(), version);
            if version % 20 == 0 {
                writer.compact(|_| (), &GO_ON).unwrap();
            }
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        readers.into_iter().for_each(|reader| assert!(reader.join().unwrap() > 1));
    });
}

#[test]
fn a_journal_that_lost_its_tail_is_found_out() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("database");
    build(&builder(), &dir, (0..20).map(|i| keyed(format!("key {i}"), value(i)))).unwrap();
    let mut writer = Writer::open(&dir).unwrap();
    let mut ends = vec![writer.journal_bytes()];
    for version in 2..6 {
        writer.put(b"key 3", version.to_string().as_bytes()).unwrap();
        assert_eq!(writer.commit().unwrap(), version);
        ends.push(writer.journal_bytes());
    }
    drop(writer);
    let running = Database::open(&dir).unwrap();
    let (journal, newest) = (dir.join("journal-1.log"), dir.join("newest-1.txt"));
    let whole = std::fs::read(&journal).unwrap();
    assert_eq!(*ends.last().unwrap(), whole.len() as u64);
    for (version, &end) in (1..5u64).zip(&ends) {
        // Between two frames, and inside one.
        for cut in [end, end + 1, end + 100] {
            std::fs::write(&journal, &whole[..cut as usize]).unwrap();
            for error in [Database::open(&dir).unwrap_err(), Writer::open(&dir).unwrap_err()] {
                let lost = matches!(error, DatabaseError::VersionsLost { found, needed: 5, .. } if found == version);
                assert!(lost, "{version}: {error:?}");
                assert!(error.to_string().contains("remove newest-1.txt"), "{error}");
            }
            let error = running.refresh().unwrap_err();
            assert!(error.to_string().contains("cut off"), "{error}");
            assert_eq!(running.staleness(), Some(Staleness::Unreadable));
        }
    }
    // A replacement counts on from the newest version, whatever is left of the journal.
    let copy = temporary.path().join("copy");
    std::fs::create_dir(&copy).unwrap();
    for entry in std::fs::read_dir(&dir).unwrap().map(Result::unwrap) {
        std::fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
    }
    let replaced = build(&Builder { replace: true, ..builder() }, &copy, [keyed("a".into(), vec![1])]).unwrap();
    assert!(replaced.version > 5, "{}", replaced.version);
    // Whoever accepts the loss can go on.
    std::fs::write(&journal, &whole[..ends[1] as usize]).unwrap();
    let number = std::fs::read(&newest).unwrap();
    std::fs::remove_file(&newest).unwrap();
    assert_eq!(Database::open(&dir).unwrap().snapshot().version(), 2);
    std::fs::write(&journal, &whole).unwrap();
    // A damaged number is found out. Without it, the writer takes the number of the journal.
    for at in 0..number.len() {
        let mut bad = number.clone();
        bad[at] ^= 1;
        std::fs::write(&newest, bad).unwrap();
        let error = Database::open(&dir).unwrap_err();
        assert!(matches!(&error, DatabaseError::Corrupted { file, .. } if file == "newest-1.txt"), "{at}: {error}");
    }
    std::fs::remove_file(&newest).unwrap();
    assert_eq!(Writer::open(&dir).unwrap().version(), 5);
    assert_eq!(std::fs::read(&newest).unwrap(), number);
    assert!(!running.refresh().unwrap());
    // A compaction begins again, without files of before.
    Writer::open(&dir).unwrap().compact(|_| (), &GO_ON).unwrap();
    assert!(!newest.exists() && running.refresh().unwrap());
    let mut writer = Writer::open(&dir).unwrap();
    writer.put(b"key 3", b"six").unwrap();
    assert_eq!(writer.commit().unwrap(), 6);
    drop(writer);
    std::fs::write(dir.join("journal-2.log"), &std::fs::read(dir.join("journal-2.log")).unwrap()[..64]).unwrap();
    assert!(matches!(Database::open(&dir).unwrap_err(), DatabaseError::VersionsLost { found: 5, needed: 6, .. }));
}

#[test]
fn a_sealing_is_kept_by_changes_and_compactions() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("database");
    let builder = Builder { sealing: Some([7; 16]), ..builder() };
    build(&builder, &dir, (0..10).map(|i| plain(value(i)))).unwrap();
    let mut writer = Writer::open(&dir).unwrap();
    assert_eq!(writer.sealing(), Some([7; 16]));
    writer.set(3, b"changed").unwrap();
    writer.commit().unwrap();
    writer.compact(|_| (), &GO_ON).unwrap();
    assert_eq!((writer.sealing(), Database::open(&dir).unwrap().snapshot().sealing()), (Some([7; 16]), Some([7; 16])));
    drop(writer);
    // It is not replaced by a database whose records everybody can read, nor by one with another key.
    for sealing in [None, Some([8; 16])] {
        let replacing = Builder { sealing, replace: true, ..crate::common::builder() };
        let refused = build(&replacing, &dir, [plain(value(1))]);
        assert!(matches!(refused, Err(DatabaseError::Sealed { .. })), "{refused:?}");
    }
    build(&Builder { replace: true, ..builder }, &dir, [plain(value(1))]).unwrap();
}
