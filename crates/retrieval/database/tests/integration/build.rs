//! Tests of building and reading databases, at insecure parameters.

use std::sync::atomic::AtomicBool;

use crate::common::{GO_ON, build, builder, check_tables, keyed, plain, value};
use unspoken_database::{Builder, Database, DatabaseError, Duplicates, Phase, Progress, Writer};
use unspoken_pir_scheme::{DatabaseVersion, Layout, Length, Preset, SchemeError, Staleness, VersionedDatabase};

#[test]
fn records_with_keys_are_found_and_absent_ones_are_not() {
    for (count, candidates) in [(1, 1), (3000, 1), (3000, 2), (3000, 3)] {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path().join("database");
        let records = (0..count).map(|i| keyed(format!("key {i}"), value(i)));
        let built = build(&Builder { candidates, ..builder() }, &dir, records).unwrap();
        assert_eq!((built.records, built.dropped, built.version), (count as u64, 0, 1));
        let database = Database::open(&dir).unwrap();
        let snapshot = database.snapshot();
        assert_eq!(
            (snapshot.version(), snapshot.records(), snapshot.layout()),
            (1, count as u64, built.tables.layout())
        );
        for i in 0..count {
            assert_eq!(snapshot.get(format!("key {i}").as_bytes()).unwrap(), Some(value(i)), "{i}");
        }
        assert_eq!(snapshot.get(b"key").unwrap(), None);
        assert!(count == 1 || (0.35..0.95).contains(&snapshot.load().unwrap()), "{:?}", snapshot.load());
        assert!(snapshot.record(0).is_err());
        check_tables(&snapshot);
        assert!(!database.refresh().unwrap());
    }
}

#[test]
fn records_of_all_lengths_are_found_by_index() {
    let long: Vec<u8> = (0..102_400).map(|i| (i * i / 7) as u8).collect();
    for records in [vec![vec![7; 256]; 700], vec![vec![]; 3], vec![vec![], vec![1; 300], vec![]], vec![long, vec![2]]] {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path().join("database");
        let capacity = records.len() as u64 + 2;
        let built = build(&Builder { capacity, ..builder() }, &dir, records.iter().cloned().map(plain)).unwrap();
        let snapshot = Database::open(&dir).unwrap().snapshot();
        for (i, record) in records.iter().enumerate() {
            assert_eq!(snapshot.record(i as u64).unwrap().as_ref(), Some(record), "{i}");
        }
        let fixed = matches!(built.tables.layout(), Layout::Index { length: Length::Fixed(_), .. });
        assert_eq!(snapshot.record(capacity - 1).unwrap().is_some(), fixed);
        let error = snapshot.record(capacity).unwrap_err();
        assert!(matches!(error, DatabaseError::Pir(SchemeError::Record { .. })));
        check_tables(&snapshot);
    }
}

#[test]
fn duplicate_keys_are_refused_or_one_is_kept() {
    let records = || [keyed("a".into(), vec![1]), keyed("b".into(), vec![2]), keyed("a".into(), vec![3])];
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("database");
    let error = build(&builder(), &dir, records()).unwrap_err();
    assert!(error.to_string().contains("record 2 has the key 'a'"), "{error}");
    assert!(std::fs::read_dir(temporary.path()).unwrap().next().is_none());
    for (duplicates, kept) in [(Duplicates::First, 1), (Duplicates::Last, 3)] {
        let dir = temporary.path().join(format!("{kept}"));
        let built = build(&Builder { duplicates, ..builder() }, &dir, records()).unwrap();
        assert_eq!((built.records, built.dropped, built.value_bytes), (2, 1, 2));
        assert_eq!(Database::open(&dir).unwrap().snapshot().get(b"a").unwrap(), Some(vec![kept]));
    }
}

#[test]
fn what_cannot_be_built_leaves_nothing() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("database");
    let refused = |records: Vec<Result<_, _>>| build(&builder(), &dir, records).unwrap_err();
    assert!(matches!(refused(vec![]), DatabaseError::Empty));
    let mixed = refused(vec![keyed("a".into(), vec![]), plain(vec![])]);
    assert!(matches!(mixed, DatabaseError::Mixed { record: 1, .. }));
    let mixed = refused(vec![plain(vec![]), keyed("a".into(), vec![])]);
    assert!(matches!(mixed, DatabaseError::Mixed { record: 1, .. }));
    assert!(matches!(refused(vec![plain(vec![0; (1 << 20) + 1])]), DatabaseError::TooLong { .. }));
    assert!(matches!(refused(vec![keyed("a".into(), vec![0; 1 << 20])]), DatabaseError::TooLong { .. }));
    let broken = builder().build(&dir, [Err::<unspoken_database::Record, _>("line 7")], |_| (), &GO_ON).unwrap_err();
    assert!(broken.to_string().contains("line 7"));
    let (stop, mut phases) = (AtomicBool::new(false), Vec::new());
    let progress = |progress: Progress| {
        phases.push(progress.phase);
        stop.store(progress.phase == Phase::Encode, std::sync::atomic::Ordering::Relaxed);
    };
    let cancelled = builder().build(&dir, (0..9).map(|i| keyed(i.to_string(), vec![])), progress, &stop).unwrap_err();
    assert!(matches!(cancelled, DatabaseError::Cancelled));
    assert_eq!(phases, [Phase::Read, Phase::Place, Phase::Write, Phase::Encode]);
    assert!(std::fs::read_dir(temporary.path()).unwrap().next().is_none());
    assert!(matches!(Database::open(&dir).unwrap_err(), DatabaseError::Missing { .. }));
}

#[test]
fn what_is_there_is_replaced_only_when_that_is_asked_for() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("database");
    build(&builder(), &dir, [plain(vec![1; 256]), plain(vec![2; 256])]).unwrap();
    let database = Database::open(&dir).unwrap();
    let old = database.snapshot();
    assert!(matches!(build(&builder(), &dir, [plain(vec![3])]).unwrap_err(), DatabaseError::Exists { .. }));
    let replace = Builder { replace: true, ..builder() };
    let built = build(&replace, &dir, [plain(vec![3; 256]), plain(vec![4; 256])]).unwrap();
    assert_eq!(built.version, 2);
    assert!(database.refresh().unwrap());
    let new = database.snapshot();
    assert_eq!((new.version(), new.record(0).unwrap()), (2, Some(vec![3; 256])));
    check_tables(&new);
    // The previous version is complete as long as it is held.
    assert_eq!((old.version(), old.record(0).unwrap()), (1, Some(vec![1; 256])));
    check_tables(&old);
    // A reader switches to another layout, and follows the commits after it.
    build(&replace, &dir, [plain(vec![5; 2])]).unwrap();
    assert!(database.refresh().unwrap());
    let rebuilt = database.snapshot();
    assert_ne!(rebuilt.layout(), new.layout());
    assert_eq!((rebuilt.version(), rebuilt.record(0).unwrap()), (3, Some(vec![5; 2])));
    check_tables(&rebuilt);
    check_tables(&new);
    let mut writer = Writer::open(&dir).unwrap();
    writer.set(0, &[6; 2]).unwrap();
    assert_eq!(writer.commit().unwrap(), 4);
    assert!(database.refresh().unwrap());
    assert_eq!(database.snapshot().record(0).unwrap(), Some(vec![6; 2]));
    drop(writer);
    let replaced = build(&replace, &dir, [plain(vec![7; 2])]).unwrap().version;
    assert!(replaced > 4 && database.refresh().unwrap());
    let names: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 6, "{names:?}");
    let other = temporary.path().join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("file"), "").unwrap();
    assert!(matches!(build(&replace, &other, [plain(vec![3])]).unwrap_err(), DatabaseError::Missing { .. }));
}

#[test]
fn every_file_is_checked_and_damage_is_located() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("database");
    build(&builder(), &dir, (0..50).map(|i| keyed(i.to_string(), value(i)))).unwrap();
    for name in ["manifest.json", "table-1.bin", "cells-1.bin", "sums-1.bin", "journal-1.log"] {
        let path = dir.join(name);
        let good = std::fs::read(&path).unwrap();
        for at in [0, 1, good.len() / 3, good.len() / 2, good.len() - 2, good.len() - 1] {
            let mut bad = good.clone();
            bad[at] ^= 4;
            std::fs::write(&path, bad).unwrap();
            let error = Database::open(&dir).unwrap_err();
            let message = error.to_string();
            assert!(matches!(error, DatabaseError::Corrupted { .. }), "{name} {at}: {error:?}");
            assert!(message.starts_with(&format!("corrupted: {name}, bytes 0..")), "{name} {at}: {message}");
        }
        for bad in [&good[..good.len() - 1], &good[..0], &[&good[..], b" "].concat()] {
            // Bytes after the last frame of a journal are an incomplete commit.
            if name != "journal-1.log" || bad.len() < good.len() {
                std::fs::write(&path, bad).unwrap();
                let error = Database::open(&dir).unwrap_err();
                assert!(error.to_string().starts_with(&format!("corrupted: {name}, bytes ")), "{error}");
            }
        }
        if name != "manifest.json" {
            std::fs::remove_file(&path).unwrap();
            let error = Database::open(&dir).unwrap_err();
            assert!(error.to_string().contains("it is not there"), "{error}");
        }
        std::fs::write(&path, good).unwrap();
        Database::open(&dir).unwrap();
    }
}

#[test]
fn files_of_other_versions_are_named() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("database");
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join("manifest.json"), r#"{"manifest":{"format":9,"more":[]}}"#).unwrap();
    let error = Database::open(&dir).unwrap_err();
    assert!(matches!(&error, DatabaseError::Format { found, .. } if found == "9"), "{error}");
}

#[test]
fn a_disk_that_is_too_small_is_told_before_it_is_filled() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("database");
    let vast = Builder { capacity: 1 << 25, longest: 30_000, ..builder() };
    let error = vast.build(&dir, [plain(vec![1])], |_| {}, &AtomicBool::new(false)).unwrap_err();
    assert!(matches!(error, DatabaseError::Space { .. }), "{error}");
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0);
}

#[test]
fn a_database_that_cannot_continue_the_open_one_is_refused_and_said_to_be_stale() {
    let temporary = tempfile::tempdir().unwrap();
    let (dir, moved) = (temporary.path().join("database"), temporary.path().join("moved"));
    build(&builder(), &dir, [plain(vec![1; 256])]).unwrap();
    let database = Database::open(&dir).unwrap();
    assert_eq!(database.staleness(), None);
    // Removed: what is served stays until it is back.
    std::fs::rename(&dir, &moved).unwrap();
    assert!(matches!(database.refresh().unwrap_err(), DatabaseError::Missing { .. }));
    assert_eq!(database.staleness(), Some(Staleness::Unreadable));
    // Built again from nothing: version 1 has another content now.
    build(&builder(), &dir, [plain(vec![2; 256])]).unwrap();
    let error = database.refresh().unwrap_err().to_string();
    assert!(error.contains("not later") && error.contains("restart the service"), "{error}");
    assert_eq!((database.staleness(), database.snapshot().version()), (Some(Staleness::Replaced), 1));
    std::fs::rename(&dir, temporary.path().join("again")).unwrap();
    std::fs::rename(&moved, &dir).unwrap();
    assert!(!database.refresh().unwrap());
    assert_eq!(database.staleness(), None);
    // Other parameters: the keys of clients do not fit.
    build(&Builder { replace: true, ..Builder::new(Preset::N11) }, &dir, [plain(vec![3; 256])]).unwrap();
    let error = database.refresh().unwrap_err().to_string();
    assert!(error.contains("other parameters"), "{error}");
    assert_eq!(database.staleness(), Some(Staleness::Replaced));
}

#[test]
fn directories_that_killed_builds_have_left_are_removed() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("database");
    let names = || {
        let entries = std::fs::read_dir(temporary.path()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    let leave = |name: &str| {
        std::fs::create_dir(temporary.path().join(name)).unwrap();
        std::fs::write(temporary.path().join(name).join("table-1.bin"), "x").unwrap();
    };
    leave(".database.building-0123456789abcdef");
    // Not of this database, or not of a build.
    let others =
        [".database.building-0123456789abcdef.old", ".database.building-7", ".other.building-0123456789abcdef"];
    others.iter().for_each(|name| leave(name));
    // While one build runs, another one, which fails, does not remove its directory.
    let progress = |progress: Progress| {
        if progress.phase == Phase::Encode {
            let running = names();
            assert!(matches!(build(&builder(), &dir, []).unwrap_err(), DatabaseError::Empty));
            assert_eq!(names(), running);
            assert_eq!(running.len(), 4, "{running:?}");
        }
    };
    builder().build(&dir, [plain(vec![1; 256])], progress, &GO_ON).unwrap();
    let mut expected: Vec<&str> = others.to_vec();
    expected.push("database");
    expected.sort();
    assert_eq!(names(), expected);
    // A refused build removes them too.
    leave(".database.building-0123456789abcdef");
    assert!(matches!(build(&builder(), &dir, [plain(vec![3])]).unwrap_err(), DatabaseError::Exists { .. }));
    assert_eq!(names(), expected);
}
