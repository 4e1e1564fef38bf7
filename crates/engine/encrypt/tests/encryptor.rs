//! The encryptor with every plan, and its errors.

#![expect(unsafe_code, reason = "forks of the test process")]

mod common;

use std::collections::HashSet;
use std::time::Duration;

use common::{Client, TOLERANCE};
use unspoken_ckks::{CkksError, Complex64, Encrypted};
use unspoken_encrypt::{EncryptError, Encryptor, Needs, PoolFile, PoolPaths, PoolShape, WhenEmpty};
use unspoken_rlwe::ZeroEncryption;
use zeroize::Zeroizing;

#[test]
fn every_plan_encrypts() {
    let client = Client::new(21);
    for key in client.keys() {
        let entry = client.entry_bytes(&key);
        for needs in [Needs::default(), Needs { burst: 2, memory_bytes: 10 * entry }] {
            for empty in [WhenEmpty::EncryptDirectly, WhenEmpty::Wait(Duration::from_secs(60))] {
                let encryptor = Encryptor::new(&client.parameters, key.clone(), needs).unwrap().when_empty(empty);
                assert_eq!(encryptor.plan().zeros, needs.burst);
                for i in 0..6 {
                    let values = [Complex64::new(f64::from(i) / 6.0, -1.0)];
                    let sent = encryptor.encrypt(&values).unwrap();
                    assert_eq!(matches!(sent, Encrypted::Seeded(_)), key.is_seeded());
                    assert_eq!(sent.level(), client.parameters.max_level());
                    assert!(client.error(sent, &values) < TOLERANCE);
                }
            }
        }
    }
}

#[test]
fn values_that_cannot_be_encrypted_are_named() {
    let client = Client::new(22);
    let [key, _] = client.keys();
    let encryptor = Encryptor::new(&client.parameters, key, Needs::default()).unwrap();
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let mut values = vec![Complex64::from(1.0); 8];
        values[5].im = bad;
        let error = encryptor.encrypt(&values).unwrap_err();
        assert!(matches!(error, EncryptError::Ckks(CkksError::Value { index: 5, .. })), "{error}");
    }
    let scale = client.parameters.scale();
    let mut values = vec![Complex64::from(1.0); 8];
    for (large, level) in [(1e40, 4), (-1e300, 4), (f64::MAX, 4), (1e10, 0)] {
        values[3] = Complex64::from(large);
        let error = encryptor.encrypt_at(&values, level, scale).unwrap_err();
        assert!(matches!(error, EncryptError::Overflow { index: 3, .. }), "{large}: {error}");
        let message = error.to_string();
        assert!(message.contains("value 3") && message.contains("scale 2^"), "{message}");
        // The message contains neither the value nor its bits.
        let bits = (large.abs().log2() + scale.log2()) as u64;
        assert!(
            ![format!("{large}"), format!("{large:e}"), format!("2^{bits}")].iter().any(|x| message.contains(x)),
            "{message}"
        );
    }
    let error = encryptor.encrypt(&[Complex64::from(1.0); 3]).unwrap_err();
    assert!(matches!(error, EncryptError::Ckks(CkksError::Shape { found: 3, .. })), "{error}");
    assert!(encryptor.encrypt_at(&values[..1], 0, f64::NAN).is_err());
    assert!(encryptor.encrypt_at(&values[..1], 99, scale).is_err());
}

#[test]
fn a_pool_for_low_levels_is_smaller_and_serves_them_alone() {
    let client = Client::new(23);
    let [key, _] = client.keys();
    let (low, top, scale) = (1, client.parameters.max_level(), client.parameters.scale());
    let needs = Needs { burst: 3, memory_bytes: 64 << 20 };
    let encryptor = Encryptor::for_level(&client.parameters, key.clone(), low, needs).unwrap();
    let entry = ZeroEncryption::memory_bytes(client.parameters.rlwe(), client.parameters.basis(low), true);
    assert_eq!((encryptor.plan().zeros, encryptor.plan().memory_bytes), (3, 3 * entry));
    assert!(entry < client.entry_bytes(&key));
    let values = [Complex64::new(0.5, -0.25)];
    for level in [low, top] {
        let sent = encryptor.encrypt_at(&values, level, scale).unwrap();
        assert_eq!(sent.level(), level);
        assert!(client.error(sent, &values) < TOLERANCE);
    }
    let strict = encryptor.when_empty(WhenEmpty::Wait(Duration::from_secs(60)));
    assert!(strict.encrypt_at(&values, low, scale).is_ok());
    let error = strict.encrypt_at(&values, top, scale).unwrap_err();
    assert!(matches!(error, EncryptError::Primes { .. }), "{error}");
}

#[test]
fn threads_share_an_encryptor_and_no_seed() {
    let client = Client::new(24);
    let [key, _] = client.keys();
    let needs = Needs { burst: 2, memory_bytes: 64 << 20 };
    // With a pool that falls back when empty, without a pool, and from a seed.
    let encryptors = [
        Encryptor::new(&client.parameters, key.clone(), needs).unwrap(),
        Encryptor::new(&client.parameters, key.clone(), Needs::default()).unwrap(),
        Encryptor::insecure_from_seed(&client.parameters, key, 7),
    ];
    for encryptor in &encryptors {
        let encrypt = || match encryptor.encrypt(&[Complex64::from(1.0)]).unwrap() {
            Encrypted::Seeded(sent) => *sent.seed(),
            Encrypted::Full(_) => panic!("not seeded"),
        };
        let seeds: HashSet<[u8; 32]> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..4).map(|_| scope.spawn(|| (0..20).map(|_| encrypt()).collect::<Vec<_>>())).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(seeds.len(), 80);
    }
}

#[test]
#[cfg(unix)]
fn a_forked_child_gets_an_error_from_every_pool() {
    let mut client = Client::new(25);
    let [key, _] = client.keys();
    let directory = tempfile::tempdir().unwrap();
    let paths = PoolPaths::beside(directory.path().join("pool"));
    let shape = PoolShape { basis: client.basis(), capacity: 2 };
    let mut file = PoolFile::create(&paths, &Zeroizing::new([1; 32]), key.clone(), shape).unwrap();
    file.refill(&mut client.rng, 2).unwrap();
    let needs = Needs { burst: 2, memory_bytes: 64 << 20 };
    let encryptors = [
        Encryptor::new(&client.parameters, key.clone(), needs).unwrap(),
        Encryptor::with_file(&client.parameters, key, file).unwrap(),
    ];
    let level = client.parameters.max_level();
    let plaintext = client.encoder.encode_real(&[1.0], level, client.parameters.scale()).unwrap();
    // SAFETY: the child only calls the pools, which return errors before they lock or allocate, and exits at once.
    let status = unsafe {
        let pid = libc::fork();
        if pid == 0 {
            let refused = |encryptor: &Encryptor| {
                matches!(encryptor.encrypt_plaintext(&plaintext), Err(EncryptError::Forked { .. }))
            };
            libc::_exit(i32::from(encryptors.iter().all(refused)));
        }
        let mut status = 0;
        libc::waitpid(pid, &mut status, 0);
        status
    };
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 1);
    assert!(encryptors.iter().all(|encryptor| encryptor.encrypt_plaintext(&plaintext).is_ok()));
}
