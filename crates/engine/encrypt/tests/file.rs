//! The public interface of pool files.

#![expect(unsafe_code, reason = "forks of the test process")]
#![cfg(unix)]

mod common;

use std::collections::HashSet;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use common::{Client, TOLERANCE};
use unspoken_ckks::Complex64;
use unspoken_encrypt::{ClientKey, EncryptError, Encryptor, PoolFile, PoolPaths, PoolShape, WhenEmpty};
use unspoken_ring::Basis;
use unspoken_rlwe::{RlweError, SecretKey};
use zeroize::Zeroizing;

fn sealing_key(byte: u8) -> Zeroizing<[u8; 32]> {
    Zeroizing::new([byte; 32])
}

#[test]
fn entries_survive_until_they_are_used_and_no_longer() {
    let mut client = Client::new(11);
    let shape = PoolShape { basis: client.basis(), capacity: 4 };
    for key in client.keys() {
        let directory = tempfile::tempdir().unwrap();
        let paths = PoolPaths::beside(directory.path().join("pool"));
        let sealing = sealing_key(1);
        let mut pool = PoolFile::create(&paths, &sealing, key.clone(), shape).unwrap();
        assert_eq!(pool.refill(&mut client.rng, 3).unwrap(), 3);
        assert_eq!(pool.refill(&mut client.rng, 3).unwrap(), 1);
        let metadata = std::fs::metadata(&paths.entries).unwrap();
        assert_eq!(metadata.len(), shape.file_bytes(client.parameters.rlwe(), key.is_seeded()));
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600);

        let mut seen = HashSet::from([client.bytes(pool.take().unwrap().unwrap())]);
        drop(pool);
        let open = || PoolFile::open(&paths, &sealing, key.clone(), shape);
        let mut handles = [open().unwrap(), open().unwrap()];
        assert_eq!(handles[0].available().unwrap(), 3);
        for handle in [0, 1, 0] {
            assert!(seen.insert(client.bytes(handles[handle].take().unwrap().unwrap())));
        }
        assert!(handles[1].take().unwrap().is_none());
        assert!(PoolFile::create(&paths, &sealing, key.clone(), shape).is_err(), "overwritten");
    }
}

#[test]
fn an_encryptor_uses_a_file_and_falls_back_or_does_not() {
    let mut client = Client::new(12);
    let [key, _] = client.keys();
    let directory = tempfile::tempdir().unwrap();
    let paths = PoolPaths::beside(directory.path().join("pool"));
    let level = client.parameters.max_level() - 1;
    let shape = PoolShape { basis: client.parameters.basis(level), capacity: 2 };
    let mut pool = PoolFile::create(&paths, &sealing_key(1), key.clone(), shape).unwrap();
    pool.refill(&mut client.rng, 2).unwrap();
    let observer = PoolFile::open(&paths, &sealing_key(1), key.clone(), shape).unwrap();
    let encryptor = Encryptor::with_file(&client.parameters, key, pool).unwrap();
    let (values, scale) = ([Complex64::new(0.5, -0.25), Complex64::new(1.0, 0.0)], client.parameters.scale());
    for left in [1, 0, 0] {
        let sent = encryptor.encrypt_at(&values, level, scale).unwrap();
        assert!(client.error(sent, &values) < TOLERANCE);
        assert_eq!(observer.available().unwrap(), left);
    }
    // The entries of the file have fewer primes than the highest level.
    assert!(client.error(encryptor.encrypt(&values).unwrap(), &values) < TOLERANCE);
    let strict = encryptor.when_empty(WhenEmpty::Wait(std::time::Duration::ZERO));
    assert!(matches!(strict.encrypt(&values), Err(EncryptError::Primes { .. })));
    assert!(matches!(strict.encrypt_at(&values, level, scale), Err(EncryptError::Exhausted { .. })));
}

#[test]
fn an_encryptor_refuses_a_file_for_another_key() {
    let mut client = Client::new(16);
    let stranger = Client::new(17);
    let own = SecretKey::generate(client.parameters.rlwe(), &mut client.rng).unwrap();
    let [key, public] = client.keys();
    let directory = tempfile::tempdir().unwrap();
    let shape = PoolShape { basis: Basis::chain(1), capacity: 1 };
    let file = |name: &str| {
        let paths = PoolPaths::beside(directory.path().join(name));
        PoolFile::create(&paths, &sealing_key(1), key.clone(), shape).unwrap()
    };
    let other = ClientKey::Secret(Arc::new(own));
    for (name, wrong) in [("other", other), ("public", public)] {
        let error = Encryptor::with_file(&client.parameters, wrong, file(name)).map(drop).unwrap_err();
        assert!(error.to_string().contains("another key"), "{error}");
    }
    let error = Encryptor::with_file(&stranger.parameters, key.clone(), file("ring")).map(drop).unwrap_err();
    assert!(matches!(error, EncryptError::Rlwe(RlweError::OtherParameters { .. })), "{error}");
    assert!(Encryptor::with_file(&client.parameters, key.clone(), file("right")).is_ok());
}

#[test]
fn files_of_something_else_are_refused() {
    let mut client = Client::new(13);
    let [key, public] = client.keys();
    let [other, _] = Client::new(14).keys();
    let directory = tempfile::tempdir().unwrap();
    let paths = PoolPaths::beside(directory.path().join("pool"));
    let shape = PoolShape { basis: client.parameters.basis(2), capacity: 2 };
    let mut pool = PoolFile::create(&paths, &sealing_key(1), key.clone(), shape).unwrap();
    pool.refill(&mut client.rng, 1).unwrap();
    let open =
        |sealing, key: &_, shape| PoolFile::open(&paths, &sealing_key(sealing), std::clone::Clone::clone(key), shape);
    assert!(open(1, &key, shape).is_ok());
    assert!(matches!(open(2, &key, shape), Err(EncryptError::Files { .. })), "another sealing key");
    assert!(matches!(open(1, &other, shape), Err(EncryptError::Files { .. })), "another secret");
    assert!(open(1, &public, shape).is_err(), "a public key");
    assert!(open(1, &key, PoolShape { capacity: 3, ..shape }).is_err());
    assert!(open(1, &key, PoolShape { basis: Basis::chain(1), ..shape }).is_err());
    let missing = PoolPaths::beside(directory.path().join("none"));
    let error = PoolFile::open(&missing, &sealing_key(1), key.clone(), shape).unwrap_err();
    assert!(matches!(error, EncryptError::Io(_)), "{error}");
    std::fs::write(&paths.state_file, b"short").unwrap();
    assert!(matches!(open(1, &key, shape), Err(EncryptError::Files { .. })));
}

#[test]
fn a_forked_child_gets_nothing() {
    let mut client = Client::new(15);
    let [key, _] = client.keys();
    let directory = tempfile::tempdir().unwrap();
    let paths = PoolPaths::beside(directory.path().join("pool"));
    let shape = PoolShape { basis: Basis::chain(1), capacity: 2 };
    let mut pool = PoolFile::create(&paths, &sealing_key(1), key, shape).unwrap();
    pool.refill(&mut client.rng, 2).unwrap();
    // SAFETY: the child only calls the pool, which returns an error before it locks or allocates, and exits at once.
    let status = unsafe {
        let pid = libc::fork();
        if pid == 0 {
            libc::_exit(i32::from(matches!(pool.take(), Err(EncryptError::Forked { .. }))));
        }
        let mut status = 0;
        libc::waitpid(pid, &mut status, 0);
        status
    };
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 1);
    assert_eq!(pool.available().unwrap(), 2);
}
