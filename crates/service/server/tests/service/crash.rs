//! The service as a separate process that is killed with SIGKILL.

#![expect(unsafe_code, reason = "sends a signal to the service")]

use std::io::{BufRead, BufReader, Cursor, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use unspoken_client::transport::{Cancel, KeyId, UploadProgress};
use unspoken_server::{Applications, Server, shutdown_signal};

use crate::support::*;

const DIR: &str = "UNSPOKEN_TEST_SERVICE_DIR";

/// Not a test: the service process. Does nothing unless the environment variable is set.
#[test]
#[ignore = "started by the tests of this file"]
fn service_process() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let mut config = Setup::new().config;
    config.data_dir = dir.into();
    let apps = Applications::new().with(Xor::new()).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let server = Server::bind(config, apps).await.unwrap();
        println!("\nlistening on {}", server.local_addr().unwrap());
        std::io::stdout().flush().unwrap();
        server.run(shutdown_signal()).await;
        println!("stopped in good order");
    });
}

struct Process {
    child: Child,
    address: SocketAddr,
    output: BufReader<std::process::ChildStdout>,
}

impl Process {
    fn start(dir: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::service_process", "--ignored", "--nocapture"])
            .env(DIR, dir)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        let address = loop {
            line.clear();
            assert!(output.read_line(&mut line).unwrap() > 0, "the process did not start");
            if let Some(address) = line.trim().strip_prefix("listening on ") {
                break address.parse().unwrap();
            }
        };
        Self { child, address, output }
    }

    /// Sends SIGKILL and waits until the process has ended.
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

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
    let mut process = Process::start(dir.path());
    let client = transport(process.address, None);
    let bundle = bundle(1, 1000, 10);
    let id = upload(&client, &bundle).unwrap();
    let asking = std::thread::spawn(move || ask(&client, &id, query(700, b"last")));
    std::thread::sleep(Duration::from_millis(250));
    let pid = libc::pid_t::try_from(process.child.id()).unwrap();
    // SAFETY: `kill` takes no pointers. The process is a child that was not waited for yet, so the id still belongs to
    // it.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGTERM) }, 0);
    assert_eq!(asking.join().unwrap().unwrap(), expected(&bundle, b"last"));
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut process.output, &mut rest).unwrap();
    assert!(rest.contains("stopped in good order"), "{rest}");
    assert!(process.child.wait().unwrap().success());
}

fn count(dir: &Path, kind: &str) -> usize {
    std::fs::read_dir(dir.join(kind)).unwrap().count()
}
