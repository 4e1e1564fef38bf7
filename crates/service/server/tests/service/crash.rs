//! The service as a separate process that is killed with SIGKILL.

use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use unspoken_client::transport::{Cancel, KeyId, UploadProgress};

use crate::process::Process;
use crate::support::*;

#[test]
fn killed_during_an_upload_nothing_half_is_used_and_nothing_finished_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let finished = bundle(1, 500_000, 10);
    let process = Process::start(dir.path());
    let finished_id = upload(&transport(process.address, None), &finished).unwrap();
    process.kill();

    let large = bundle(2, 6_000_000, 10);
    let mut offsets = Vec::new();
    // Killed at 1, 2, … MB; each process continues where the last one stopped.
    for round in 1..=4u64 {
        let process = Process::start(dir.path());
        let client = transport(process.address, None);
        let kept = ask(&client, &finished_id, query(0, b"kept")).unwrap();
        assert_eq!(kept, expected(&finished, b"kept"));
        let cancel = Cancel::new();
        let mut started_at = None;
        let mut process = Some(process);
        let stop = |step| {
            if let UploadProgress::Sending { done, .. } = step {
                started_at.get_or_insert(done);
                if done >= round * 1_000_000
                    && let Some(process) = process.take()
                {
                    process.kill();
                    cancel.cancel();
                }
            }
        };
        let result = client.upload_keys(APP, FORMAT, &mut Cursor::new(&large), stop, &cancel);
        assert!(result.is_err(), "the upload outlived its service");
        offsets.push(started_at.unwrap());
        assert_eq!(count(dir.path(), "keys"), 1, "a half bundle counts as finished");
    }
    assert_eq!(offsets[0], 0);
    assert!(offsets[1..].iter().zip(1..).all(|(at, mb)| *at >= mb * 900_000), "{offsets:?}");

    let process = Process::start(dir.path());
    let client = transport(process.address, None);
    let half = stored_ids(dir.path(), "uploads").into_iter().find(|id| *id != finished_id).unwrap();
    assert!(ask(&client, &half, query(0, b"x")).is_err(), "a half bundle answers");
    assert_eq!(upload(&client, &large).unwrap(), half);
    assert_eq!(ask(&client, &half, query(0, b"x")).unwrap(), expected(&large, b"x"));
}

#[test]
fn killed_at_any_moment_every_bundle_is_whole_or_can_be_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let bundles: Vec<_> = (1..=3).map(|seed| bundle(seed, 700_000, 10)).collect();
    let mut acknowledged: Vec<(KeyId, usize)> = Vec::new();
    for round in 0..6u64 {
        let process = Process::start(dir.path());
        let client = Arc::new(transport(process.address, None));
        for (id, which) in &acknowledged {
            let answer = ask(&client, id, query(0, b"kept")).unwrap();
            assert_eq!(answer, expected(&bundles[*which], b"kept"), "round {round}");
        }
        let cancel = Cancel::new();
        std::thread::scope(|scope| {
            let uploads: Vec<_> = bundles
                .iter()
                .map(|bundle| {
                    let (client, cancel) = (client.clone(), &cancel);
                    scope.spawn(move || {
                        let mut source = Cursor::new(bundle);
                        client.upload_keys(APP, FORMAT, &mut source, |_| {}, cancel)
                    })
                })
                .collect();
            std::thread::sleep(Duration::from_millis(3 + 7 * round));
            process.kill();
            cancel.cancel();
            for (which, upload) in uploads.into_iter().enumerate() {
                if let Ok(id) = upload.join().unwrap()
                    && !acknowledged.contains(&(id.clone(), which))
                {
                    acknowledged.push((id, which));
                }
            }
        });
    }
    let process = Process::start(dir.path());
    let client = transport(process.address, None);
    for (which, bundle) in bundles.iter().enumerate() {
        let id = upload(&client, bundle).unwrap();
        assert!(acknowledged.iter().all(|(kept, other)| *other != which || *kept == id));
        assert_eq!(ask(&client, &id, query(0, b"x")).unwrap(), expected(bundle, b"x"));
    }
    assert_eq!([count(dir.path(), "keys"), count(dir.path(), "uploads")], [3, 0]);
}

#[test]
fn sigterm_ends_the_process_in_good_order() {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::start(dir.path());
    let client = transport(process.address, None);
    let bundle = bundle(1, 1000, 10);
    let id = upload(&client, &bundle).unwrap();
    let asking = std::thread::spawn(move || ask(&client, &id, query(700, b"last")));
    std::thread::sleep(Duration::from_millis(250));
    process.signal(Signal::TERM);
    assert_eq!(asking.join().unwrap().unwrap(), expected(&bundle, b"last"));
    let (status, output) = process.wait();
    assert!(status.success() && output.contains("stopped in good order"), "{status}: {output}");
}

#[test]
fn a_second_signal_ends_the_process_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::start(dir.path());
    let client = impatient(process.address);
    let id = upload(&client, &bundle(1, 1000, 10)).unwrap();
    let asking = std::thread::spawn(move || ask(&client, &id, query(20_000, b"last")));
    std::thread::sleep(Duration::from_millis(250));
    let start = Instant::now();
    process.signal(Signal::TERM);
    std::thread::sleep(Duration::from_millis(250));
    process.signal(Signal::TERM);
    let (status, output) = process.wait();
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    assert!(status.code() == Some(1) && !output.contains("stopped in good order"), "{status}: {output}");
    assert!(asking.join().unwrap().is_err());
}

fn count(dir: &Path, kind: &str) -> usize {
    std::fs::read_dir(dir.join(kind)).unwrap().count()
}
