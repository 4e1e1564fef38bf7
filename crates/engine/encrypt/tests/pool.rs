//! The pool in memory: single use of entries, bounds, threads and forks.

#![expect(unsafe_code, reason = "forks of the test process")]

mod common;

use std::collections::HashSet;
use std::time::Duration;

use common::Client;
use unspoken_ckks::CkksError;
use unspoken_encrypt::{EncryptError, Encryptor, Needs, Pool, PoolOptions};
use unspoken_ring::Basis;
use unspoken_rlwe::RlweError;

const PATIENCE: Duration = Duration::from_secs(60);

fn options(client: &Client, key: &unspoken_encrypt::ClientKey, entries: usize, background: bool) -> PoolOptions {
    let capacity_bytes = entries * client.entry_bytes(key);
    PoolOptions { basis: client.basis(), capacity_bytes, background }
}

#[test]
fn threads_share_a_pool_and_no_entry() {
    let client = Client::new(1);
    for key in client.keys() {
        let pool = Pool::new(key.clone(), options(&client, &key, 3, true)).unwrap();
        let (client, pool) = (&client, &pool);
        let taken: Vec<Vec<u8>> = std::thread::scope(|scope| {
            let take = move || (0..25).map(|_| client.bytes(pool.take_within(PATIENCE).unwrap())).collect::<Vec<_>>();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(taken.len(), 100);
        assert_eq!(taken.iter().collect::<HashSet<_>>().len(), 100);
        assert!(pool.available().unwrap() <= pool.capacity());
    }
}

#[test]
fn a_pool_is_bounded_and_says_when_it_is_empty() {
    let mut client = Client::new(2);
    let [key, _] = client.keys();
    let entry = client.entry_bytes(&key);
    let small = PoolOptions { capacity_bytes: entry - 1, ..options(&client, &key, 1, false) };
    let error = Pool::new(key.clone(), small).unwrap_err();
    assert!(matches!(error, EncryptError::Capacity { needed, .. } if needed == entry), "{error}");

    let pool = Pool::new(key.clone(), options(&client, &key, 3, false)).unwrap();
    assert!(pool.take().unwrap().is_none());
    let error = pool.take_within(Duration::from_millis(20)).unwrap_err();
    assert!(matches!(error, EncryptError::Exhausted { .. }), "{error}");
    assert_eq!(pool.fill(&mut client.rng).unwrap(), 3);
    assert_eq!(pool.fill(&mut client.rng).unwrap(), 0);
    assert!(pool.take().unwrap().is_some());
    assert_eq!((pool.available().unwrap(), pool.capacity()), (2, 3));
}

#[test]
fn a_pool_refills_itself_and_no_further() {
    let client = Client::new(3);
    let [key, _] = client.keys();
    let pool = Pool::new(key.clone(), options(&client, &key, 2, true)).unwrap();
    let wait_until_full = || {
        let start = std::time::Instant::now();
        while pool.available().unwrap() < 2 {
            assert!(start.elapsed() < PATIENCE);
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    wait_until_full();
    assert!(pool.take().unwrap().is_some());
    wait_until_full();
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(pool.available().unwrap(), 2);
}

#[test]
fn what_cannot_be_made_or_used_is_refused() {
    let (client, other) = (Client::new(4), Client::new(5));
    let ([own, _], [key, _]) = (client.keys(), other.keys());
    // Both rings have the same parameters, but polynomials of one are not valid in the other.
    let pool = Pool::new(key.clone(), options(&other, &key, 2, true)).unwrap();
    let zero = pool.take_within(PATIENCE).unwrap();
    let plaintext = client.encoder.encode_real(&[1.0], 1, client.parameters.scale()).unwrap();
    assert!(client.encoder.encrypt_with(&plaintext, zero).is_err());
    // More primes than the ring has: the thread stops and reports the reason.
    let options =
        PoolOptions { basis: Basis::chain(client.basis().chain + 1), capacity_bytes: 100 << 20, background: true };
    let error = Pool::new(key, options).unwrap().take_within(PATIENCE).unwrap_err();
    assert!(matches!(error, EncryptError::Refill { .. }), "{error}");
    // A zero cannot be serialised under other parameters.
    let pool = Pool::new(own.clone(), self::options(&client, &own, 1, true)).unwrap();
    let lower = unspoken_ckks::Preset::find("insecure_n11_depth9_scale50").unwrap().build().unwrap();
    for parameters in [&other.parameters, &lower] {
        let stored = pool.take_within(PATIENCE).unwrap().into_bytes(parameters.rlwe());
        assert!(matches!(stored, Err(RlweError::Ring(_))));
        // An encryptor rejects a key of other parameters.
        let error = Encryptor::new(parameters, own.clone(), Needs::default()).map(drop).unwrap_err();
        assert!(matches!(error, EncryptError::Rlwe(RlweError::OtherParameters { .. })), "{error}");
    }
}

#[test]
#[cfg(unix)]
fn a_forked_child_gets_nothing() {
    let client = Client::new(6);
    let [key, _] = client.keys();
    let pool = Pool::new(key.clone(), options(&client, &key, 4, true)).unwrap();
    while pool.available().unwrap() < 4 {
        std::thread::sleep(Duration::from_millis(1));
    }
    // SAFETY: the child only calls the pool, which returns an error before it locks or allocates, and exits at once.
    let status = unsafe {
        let pid = libc::fork();
        if pid == 0 {
            let refused = [
                matches!(pool.take(), Err(EncryptError::Forked { .. })),
                matches!(pool.take_within(PATIENCE), Err(EncryptError::Forked { .. })),
                matches!(pool.available(), Err(EncryptError::Forked { .. })),
            ];
            // The drop neither hangs nor panics.
            drop(pool);
            libc::_exit(i32::from(refused == [true; 3]));
        }
        let mut status = 0;
        libc::waitpid(pid, &mut status, 0);
        status
    };
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 1);
    assert!(pool.take().unwrap().is_some());
}

#[test]
#[cfg(unix)]
fn a_zero_in_hand_is_not_the_childs() {
    let mut client = Client::new(7);
    let plaintext = client.encoder.encode_real(&[1.0], 1, client.parameters.scale()).unwrap();
    for key in client.keys() {
        let mut zero = || key.zero(client.parameters.basis(1), &mut client.rng).unwrap();
        let (carrier, stored) = (zero(), zero());
        // SAFETY: the child gets an error, frees memory that no other thread uses, and exits at once.
        let status = unsafe {
            let pid = libc::fork();
            if pid == 0 {
                let used = client.encoder.encrypt_with(&plaintext, carrier);
                let bytes = stored.into_bytes(client.parameters.rlwe());
                let refused = [
                    matches!(used, Err(CkksError::Rlwe(RlweError::Forked { .. }))),
                    matches!(bytes, Err(RlweError::Forked { .. })),
                ];
                libc::_exit(i32::from(refused == [true; 2]));
            }
            let mut status = 0;
            libc::waitpid(pid, &mut status, 0);
            status
        };
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 1);
        assert!(client.encoder.encrypt_with(&plaintext, carrier).is_ok());
        assert!(stored.into_bytes(client.parameters.rlwe()).is_ok());
    }
}
