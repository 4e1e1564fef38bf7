//! Disks that are full, broken or damaged.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use unspoken_client::transport::Cancel;
use unspoken_server::{Disk, LocalDisk};
use unspoken_wire::ProblemCode;

use crate::support::*;

const MIB: u64 = 1 << 20;

/// The local disk with room for a limited number of bytes. Beyond that it fails with the error of a write to
/// `/dev/full`.
struct SmallDisk {
    room: AtomicU64,
    /// Number of calls of `replace`, `sync` and `rename` that still succeed; later ones fail.
    commits: AtomicU64,
    /// Number of files that still cannot be opened, because too many are open.
    closed: AtomicU64,
    /// Whether the next bytes of a bundle are opened only after the bundle was deleted.
    late: AtomicBool,
    /// Whether bytes of a bundle are being opened late.
    waiting: AtomicBool,
}

impl SmallDisk {
    fn new(room: u64) -> Arc<Self> {
        Arc::new(Self {
            room: AtomicU64::new(room),
            commits: AtomicU64::new(u64::MAX),
            closed: AtomicU64::new(0),
            late: AtomicBool::new(false),
            waiting: AtomicBool::new(false),
        })
    }

    fn take(&self, bytes: u64) -> io::Result<()> {
        let room = self.room.load(Ordering::SeqCst);
        if bytes <= room {
            self.room.store(room - bytes, Ordering::SeqCst);
            return Ok(());
        }
        let full = OpenOptions::new().write(true).open("/dev/full")?.write_all(b"x");
        assert_eq!(full.as_ref().unwrap_err().kind(), io::ErrorKind::StorageFull);
        full
    }

    fn commit(&self) -> io::Result<()> {
        let left = self.commits.load(Ordering::SeqCst);
        if left == 0 {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        if left != u64::MAX {
            self.commits.store(left - 1, Ordering::SeqCst);
        }
        Ok(())
    }
}

impl Disk for SmallDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        LocalDisk.create_dir(path)
    }

    fn write_at(&self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if let Err(full) = self.take(bytes.len() as u64) {
            // Like a real disk, writes a part.
            LocalDisk.write_at(path, offset, &bytes[..bytes.len() / 2])?;
            return Err(full);
        }
        LocalDisk.write_at(path, offset, bytes)
    }

    fn truncate(&self, path: &Path, length: u64) -> io::Result<()> {
        LocalDisk.truncate(path, length)
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.take(bytes.len() as u64)?;
        self.commit()?;
        LocalDisk.replace(path, bytes)
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        self.commit()?;
        LocalDisk.sync(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.commit()?;
        LocalDisk.rename(from, to)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        let closed = self.closed.load(Ordering::SeqCst);
        if closed > 0 {
            self.closed.store(closed - 1, Ordering::SeqCst);
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        }
        while self.late.load(Ordering::SeqCst) && path.exists() {
            self.waiting.store(true, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(1));
        }
        LocalDisk.open(path)
    }

    fn length(&self, path: &Path) -> io::Result<u64> {
        LocalDisk.length(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        LocalDisk.list(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        LocalDisk.remove_dir(path)
    }

    /// The limits of the service do not get in the way of the disk.
    fn free_bytes(&self, _: &Path) -> io::Result<u64> {
        Ok(1 << 40)
    }
}

fn on(disk: &Arc<SmallDisk>) -> Setup {
    Setup { disk: disk.clone(), ..Setup::new() }
}

#[test]
fn a_disk_that_fills_up_is_a_507_and_the_upload_resumes() {
    let disk = SmallDisk::new(5 * MIB / 2);
    let service = on(&disk).start();
    let client = service.client(None);
    let bundle = bundle(1, 4_000_000, 10);
    let refused = upload(&client, &bundle).unwrap_err();
    assert_eq!(refused.code(), Some(ProblemCode::StorageFull), "{refused}");
    assert!(refused.to_string().contains("disk for keys is full"), "{refused}");
    // The service is still ready; the stored bytes match the status.
    assert_eq!(service.get("/readyz").status, 200);
    let unfinished = &stored_ids(&service.dir.path().join("data"), "uploads")[0];
    let status = client.key_status(unfinished, &Cancel::new()).unwrap();
    assert!(status.offset >= 2 * MIB, "{}", status.offset);
    let data = service.dir.path().join("data/uploads").join(&status.id).join("data");
    let stored = std::fs::read(&data).unwrap();
    assert_eq!(stored, bundle[..status.offset as usize]);
    // Space is freed.
    let before = status.offset;
    disk.room.store(100 * MIB, Ordering::SeqCst);
    let id = upload(&client, &bundle).unwrap();
    assert_eq!(id.as_str(), status.id);
    assert_eq!(ask(&client, &id, query(0, b"x")).unwrap(), expected(&bundle, b"x"));
    assert!(before > 0);
    assert_eq!(service.metric("unspoken_upload_bytes_total"), 4_000_000.0);
}

#[test]
fn a_full_disk_takes_no_declaration_and_keeps_answering() {
    let disk = SmallDisk::new(MIB);
    let service = on(&disk).start();
    let client = service.client(None);
    let kept = bundle(1, 10_000, 10);
    let id = upload(&client, &kept).unwrap();
    disk.room.store(10, Ordering::SeqCst);
    let refused = upload(&client, &bundle(2, 10_000, 10)).unwrap_err();
    assert_eq!(refused.code(), Some(ProblemCode::StorageFull), "{refused}");
    let left = stored_ids(&service.dir.path().join("data"), "uploads");
    assert!(left.is_empty(), "half a declaration is left: {left:?}");
    assert_eq!(ask(&client, &id, query(0, b"x")).unwrap(), expected(&kept, b"x"));
    assert_eq!(service.get("/readyz").status, 200);
}

#[test]
fn a_bundle_is_not_finished_until_every_step_to_disk_succeeded() {
    let bundle = bundle(1, 10_000, 10);
    let mut failures = 0;
    for commits in 0.. {
        let disk = SmallDisk::new(MIB);
        let mut setup = on(&disk);
        // Only the disk operations of this upload count, not the operations of the sweep.
        setup.config.timeouts.sweep = Duration::from_secs(3600);
        let service = setup.start();
        let client = service.client(None);
        disk.commits.store(commits, Ordering::SeqCst);
        let first = upload(&client, &bundle);
        disk.commits.store(u64::MAX, Ordering::SeqCst);
        let kinds = |service: &TestService| {
            ["keys", "uploads"].map(|kind| {
                let dir = service.dir.path().join("data").join(kind);
                std::fs::read_dir(dir).unwrap().count()
            })
        };
        match first {
            Ok(_) => {
                assert_eq!(kinds(&service), [1, 0]);
                break;
            }
            Err(refused) => {
                failures += 1;
                assert_eq!(refused.code(), Some(ProblemCode::StorageFailed), "{refused}");
                assert_eq!(service.get("/readyz").status, 503);
            }
        }
        // The disk works again: the same upload succeeds, also after a restart.
        let service = Setup::at(service.stop()).start();
        let client = service.client(None);
        let id = upload(&client, &bundle).unwrap();
        assert_eq!(ask(&client, &id, query(0, b"x")).unwrap(), expected(&bundle, b"x"));
        assert_eq!(kinds(&service), [1, 0]);
    }
    assert!(failures >= 6, "only {failures} steps can fail");
}

#[test]
fn a_disk_that_recovers_makes_the_service_ready_again() {
    let disk = SmallDisk::new(MIB);
    let mut setup = on(&disk);
    setup.config.timeouts.sweep = Duration::from_millis(50);
    let service = setup.start();
    disk.commits.store(0, Ordering::SeqCst);
    assert!(upload(&service.client(None), &bundle(1, 1000, 10)).is_err());
    disk.commits.store(u64::MAX, Ordering::SeqCst);
    wait_until("the service is ready", || service.get("/readyz").status == 200);
    upload(&service.client(None), &bundle(1, 1000, 10)).unwrap();
}

#[test]
fn too_many_open_files_pass_and_are_no_failure_of_the_disk() {
    let disk = SmallDisk::new(MIB);
    let mut setup = on(&disk);
    setup.config.timeouts.sweep = Duration::from_secs(3600);
    let dir = setup.dir.clone();
    let client_keys = bundle(1, 1000, 10);
    let service = setup.start();
    let id = upload(&service.client(None), &client_keys).unwrap();
    service.stop();
    // Keys are not loaded after a restart.
    let service = Setup { disk: disk.clone(), ..Setup::at(dir) }.start();
    disk.closed.store(1, Ordering::SeqCst);
    let request = format!("POST /v1/apps/{APP}?key={id} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n");
    let refused = raw(service.address, format!("{request}Content-Length: 5\r\n\r\n\0\0\0\0x"));
    assert_eq!((refused.status, &refused.json()["code"]), (503, &"overloaded".into()));
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(service.get("/readyz").status, 200);
    // Also while the keys are read: the client asks again by itself.
    disk.closed.store(2, Ordering::SeqCst);
    assert_eq!(ask(&service.client(None), &id, query(0, b"x")).unwrap(), expected(&client_keys, b"x"));
}

#[test]
fn a_finished_bundle_that_rots_is_not_used() {
    let service = Setup::new().start();
    let client = service.client(None);
    let bundle = bundle(1, 100_000, 10);
    let id = upload(&client, &bundle).unwrap();
    let dir = service.stop();
    let path = dir.path().join("data/keys").join(id.as_str()).join("data");
    for position in [2, 90_000] {
        let mut rotten = bundle.clone();
        rotten[position] ^= 1;
        std::fs::write(&path, &rotten).unwrap();
        let service = Setup::at(dir.clone()).start();
        let refused = ask(&service.client(None), &id, query(0, b"x")).unwrap_err();
        assert_eq!(refused.code(), Some(ProblemCode::KeyDamaged), "{refused}");
        service.stop();
    }
    // The remedy is to delete the bundle and upload it again.
    let service = Setup::at(dir).start();
    let client = service.client(None);
    client.delete_key(&id, &Cancel::new()).unwrap();
    let id = upload(&client, &bundle).unwrap();
    assert_eq!(ask(&client, &id, query(0, b"x")).unwrap(), expected(&bundle, b"x"));
}

#[test]
fn two_services_do_not_share_a_directory() {
    let service = Setup::new().start();
    let config = Setup::at(service.dir.clone()).config;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let second = runtime.block_on(unspoken_server::Server::bind(config, Default::default()));
    let error = second.err().unwrap().to_string();
    assert!(error.contains("another service uses this directory"), "{error}");
}

#[test]
fn a_bundle_deleted_while_a_question_loads_it_is_no_failure_of_the_disk() {
    let disk = SmallDisk::new(MIB);
    let service = on(&disk).start();
    let bundle = bundle(1, 10_000, 10);
    let id = upload(&service.client(None), &bundle).unwrap();
    // After a restart the keys are not in memory.
    let service = Setup { disk: disk.clone(), ..Setup::at(service.stop()) }.start();
    let client = service.client(None);
    disk.late.store(true, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| ask(&client, &id, query(0, b"x")));
        wait_until("the question loads the keys", || disk.waiting.load(Ordering::SeqCst));
        client.delete_key(&id, &Cancel::new()).unwrap();
        let refused = asking.join().unwrap().unwrap_err();
        assert_eq!(refused.code(), Some(ProblemCode::KeyNotFound), "{refused}");
    });
    disk.late.store(false, Ordering::SeqCst);
    assert_eq!(service.get("/readyz").status, 200);
    let id = upload(&client, &bundle).unwrap();
    assert_eq!(ask(&client, &id, query(0, b"x")).unwrap(), expected(&bundle, b"x"));
}

#[test]
fn a_bundle_whose_files_are_gone_is_uploaded_again() {
    let service = Setup::new().start();
    let bundle = bundle(1, 10_000, 10);
    let id = upload(&service.client(None), &bundle).unwrap();
    let service = Setup::at(service.stop()).start();
    let client = service.client(None);
    std::fs::remove_dir_all(service.dir.path().join("data/keys").join(id.as_str())).unwrap();
    let refused = ask(&client, &id, query(0, b"x")).unwrap_err();
    assert_eq!(refused.code(), Some(ProblemCode::KeyNotFound), "{refused}");
    assert_eq!(service.get("/readyz").status, 200);
    let again = upload(&client, &bundle).unwrap();
    assert_ne!(again, id);
    assert_eq!(ask(&client, &again, query(0, b"x")).unwrap(), expected(&bundle, b"x"));
}

#[test]
fn a_data_directory_that_another_user_prepared_is_refused() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let error = |config: unspoken_server::ServerConfig| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let bound = runtime.block_on(unspoken_server::Server::bind(config, Default::default()));
        bound.err().map(|error| error.to_string()).unwrap_or_default()
    };
    let setup = Setup::new();
    let (config, data) = (setup.config.clone(), setup.config.data_dir.clone());
    let mode = |mode| std::fs::set_permissions(&data, std::fs::Permissions::from_mode(mode)).unwrap();
    std::fs::create_dir(&data).unwrap();
    mode(0o777);
    assert!(error(config.clone()).contains("every user may write"), "{}", error(config.clone()));
    mode(0o700);
    // A link in place of the lock is not followed.
    let target = setup.dir.path().join("target");
    symlink(&target, data.join("lock")).unwrap();
    assert!(error(config.clone()).contains("found a symbolic link"), "{}", error(config.clone()));
    assert!(!target.exists());
    std::fs::remove_file(data.join("lock")).unwrap();
    assert_eq!(error(config.clone()), "");
    // Only root can give a directory to another user, and root must not use it.
    if std::os::unix::fs::chown(&data, Some(12345), None).is_ok() {
        assert!(error(config.clone()).contains("a directory of user 12345"), "{}", error(config));
    }
}
