//! Both halves against each other, and everything that a service can get.

#[path = "../../protocol/tests/damage/mod.rs"]
mod damage;
mod support;

use std::sync::Arc;

use support::{CLIENT, GO, Left, PRESET, Scene, contributor, numbers, options};
use unspoken_encrypt::{PoolFile, PoolPaths, PoolShape};
use unspoken_protocol::{
    ApplicationDescription, ApplicationError, CHECKSUM_BYTES, Call, ClientHalf, ErrorKind, KeyGenerator, KeyLoader,
    Request, ServerHalf, append_checksum,
};
use unspoken_ring::SecretRng;
use unspoken_sums::{
    CollectionOptions, CollectorAnswer, CollectorKey, CollectorQuestion, Column, Contribution, ContributionEncryptor,
    Description, Fingerprint, MemoryStore, Receipt, SumStore, SumsCollector, SumsContributor, SumsError, SumsServer,
    Trust, Zeros, create, create_with_preset,
};
use zeroize::Zeroizing;

#[test]
fn the_collector_gets_sums_counts_and_means() {
    let scene = Scene::new(3, 10);
    let sent: Vec<Contribution> = [[20, -5], [0, 0], [7, 5], [1, -4]].iter().map(|v| scene.encrypt(v)).collect();
    assert_eq!(scene.send(&sent).unwrap(), [Receipt::Added; 4]);
    assert_eq!(scene.ask(CollectorQuestion::Count).unwrap(), CollectorAnswer::Count(4));
    let sums = scene.close().unwrap();
    assert_eq!((sums.contributions, numbers(&sums)), (4, vec![28, -4]));
    assert_eq!((sums.columns[0].name.as_str(), sums.columns[0].mean, sums.columns[1].mean), ("visits", 7.0, -1.0));
}

#[test]
fn a_sum_is_released_once_and_nothing_is_added_after_it() {
    let mut scene = Scene::new(3, 10);
    let sent: Vec<Contribution> = (0..4).map(|i| scene.encrypt(&[i, 1])).collect();
    scene.send(&sent[..2]).unwrap();
    let error = scene.close().unwrap_err();
    assert!(matches!(error, SumsError::TooFew { found: 2, needed: 3 }));
    assert!(matches!(error.kind(), ErrorKind::Refused { remedy } if remedy.starts_with("wait for more")));
    assert!(error.to_string().contains("found 2 contributions, needed 3"), "{error}");
    // The refusal changed nothing.
    scene.send(&sent[2..3]).unwrap();
    let sums = scene.close().unwrap();
    assert_eq!(numbers(&sums), [3, 3]);
    // One more contribution would make a second sum, whose difference to the first is a value.
    let error = scene.send(&sent[3..]).unwrap_err();
    assert!(matches!(error, SumsError::Closed));
    assert!(matches!(error.kind(), ErrorKind::Refused { remedy } if remedy.starts_with("nothing was added")));
    // A repeated one has its receipt still.
    assert_eq!(scene.send(&sent[..1]).unwrap(), [Receipt::AddedBefore]);
    assert_eq!(scene.close().unwrap(), sums);
    scene.restart();
    assert!(matches!(scene.send(&sent[3..]).unwrap_err(), SumsError::Closed));
    assert_eq!(scene.close().unwrap(), sums);
}

#[test]
fn a_repeated_contribution_counts_once() {
    let mut scene = Scene::new(2, 10);
    let (one, two) = (scene.encrypt(&[5, 0]), scene.encrypt(&[5, 0]));
    let twice = [one.clone(), one.clone(), two.clone()];
    assert_eq!(scene.send(&twice).unwrap(), [Receipt::Added, Receipt::AddedBefore, Receipt::Added]);
    assert_eq!(scene.send(&twice).unwrap(), [Receipt::AddedBefore; 3]);
    scene.restart();
    assert_eq!(scene.send(&[two]).unwrap(), [Receipt::AddedBefore]);
    // An id that is used again, too.
    let mut encryptor = ContributionEncryptor::new(&scene.description, Zeros::OnDemand).unwrap();
    assert_eq!(scene.send(&[encryptor.encrypt_as([9; 16], &[0, 0]).unwrap()]).unwrap(), [Receipt::Added]);
    assert_eq!(scene.send(&[encryptor.encrypt_as([9; 16], &[1, 1]).unwrap()]).unwrap(), [Receipt::AddedBefore]);
    // The same id with another ciphertext, in a request that was put together.
    let other = scene.query(&[scene.encrypt(&[20, 5])]);
    let mut query = scene.query(&[one]);
    query[17..].copy_from_slice(&other[17..]);
    query.truncate(query.len() - CHECKSUM_BYTES);
    append_checksum(&mut query);
    scene.answer(&query).unwrap();
    assert_eq!(numbers(&scene.close().unwrap()), [10, 0]);
}

#[test]
fn a_collection_holds_as_many_as_it_may() {
    let scene = Scene::new(2, 4);
    let sent: Vec<Contribution> = (0..5).map(|i| scene.encrypt(&[i, 0])).collect();
    scene.send(&sent[..3]).unwrap();
    // All or none.
    assert!(matches!(scene.send(&sent[3..]).unwrap_err(), SumsError::Full { found: 3, needed: 4 }));
    assert_eq!(scene.ask(CollectorQuestion::Count).unwrap(), CollectorAnswer::Count(3));
    scene.send(&sent[2..4]).unwrap();
    assert!(matches!(scene.send(&sent[4..]).unwrap_err(), SumsError::Full { found: 4, needed: 4 }));
    assert_eq!(numbers(&scene.close().unwrap()), [6, 0]);
}

/// Every write of every request fails once, and leaves nothing, a part or everything; the service goes on or starts
/// again, and the contributors send again what was not acknowledged. No contribution is lost, none counts twice.
#[test]
fn no_failure_of_a_write_loses_or_doubles_a_contribution() {
    let values = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]];
    let mut failures = 0;
    for restarts in [false, true] {
        for left in [Left::Nothing, Left::Half, Left::Everything] {
            // Two writes for each of three requests, and one to close.
            for write in 0..7 {
                let mut scene = Scene::new(2, 10);
                let sent: Vec<Contribution> = values.iter().map(|values| scene.encrypt(values)).collect();
                let stray = scene.encrypt(&[20, 5]);
                scene.store.fail_after(write, left);
                for request in [&sent[..1], &sent[1..3], &sent[3..]] {
                    if let Err(error) = scene.send(request) {
                        // So that a client sends the same bytes again.
                        assert_eq!(error.kind(), ErrorKind::Busy);
                        failures += 1;
                        if restarts {
                            scene.restart();
                        }
                        // Another contributor comes first, whose ids are written in the same place. The request of this
                        // contributor fails before it is added, or the contribution is in the sum.
                        scene.store.fail_after(0, Left::Half);
                        scene.send(std::slice::from_ref(&stray)).unwrap_err();
                        let receipts = scene.send(request).unwrap();
                        let known = left == Left::Everything && write % 2 == 1;
                        assert_eq!(receipts[0] == Receipt::AddedBefore, known, "{left:?} at write {write}");
                    }
                    assert_eq!(scene.send(request).unwrap(), vec![Receipt::AddedBefore; request.len()]);
                }
                let sums = scene.close().or_else(|_| {
                    failures += 1;
                    scene.close()
                });
                assert_eq!(numbers(&sums.unwrap()), [31, 0], "{left:?} at write {write}");
                assert!(!scene.store.will_fail());
            }
        }
    }
    assert_eq!(failures, 2 * 3 * 7);
}

#[test]
fn what_is_stored_is_checked() {
    let full = || {
        let scene = Scene::new(2, 10);
        scene.send(&[scene.encrypt(&[1, 0]), scene.encrypt(&[2, 0])]).unwrap();
        scene
    };
    let refused = |scene: &Scene| {
        let error = SumsServer::new(scene.description.clone(), scene.store.clone()).err().unwrap();
        assert_eq!(
            error.kind(),
            if error.to_string().contains("damaged") { ErrorKind::Malformed } else { ErrorKind::Internal }
        );
        error.to_string()
    };
    let scene = full();
    scene.store.change(|state, _| *state = None);
    assert!(refused(&scene).contains("ids of contributions without a state"));
    let scene = full();
    scene.store.change(|_, ids| ids.truncate(16));
    assert!(refused(&scene).contains("other ids than those of 2 contributions"));
    let scene = full();
    scene.store.change(|_, ids| ids[20] ^= 1);
    assert!(refused(&scene).contains("restore both files"));
    let scene = full();
    scene.store.change(|state, _| state.as_mut().unwrap()[100] ^= 1);
    assert!(refused(&scene).contains("damaged"));
    let (scene, other) = (full(), full());
    let mut taken = None;
    other.store.change(|state, _| taken = state.clone());
    scene.store.change(|state, _| *state = taken);
    assert!(refused(&scene).contains("the state of another collection"));
}

#[test]
fn only_the_collector_counts_and_closes() {
    let (scene, other) = (Scene::new(2, 10), Scene::new(2, 10));
    scene.send(&[scene.encrypt(&[1, 0]), scene.encrypt(&[2, 0])]).unwrap();
    for question in [CollectorQuestion::Count, CollectorQuestion::Close] {
        let query = other.collector().query(&[question]).unwrap();
        let error = scene.answer(&query).unwrap_err();
        assert!(matches!(error, SumsError::Token) && !error.to_string().contains("contributions"));
        assert!(matches!(error.kind(), ErrorKind::Refused { .. }));
    }
    scene.send(&[scene.encrypt(&[4, 0])]).unwrap();
    // A client with another private file, and one that knows another fingerprint, send nothing.
    let error = SumsCollector::open(scene.description.clone(), Arc::clone(&other.key), None).err().unwrap();
    assert!(error.to_string().contains("to which this private file belongs"), "{error}");
    let known = Trust::Fingerprint(other.description.fingerprint());
    let error = SumsContributor::open(scene.description.clone(), known, None).err().unwrap();
    assert!(error.to_string().contains("do not send anything to this service"), "{error}");
    SumsContributor::open(scene.description.clone(), Trust::Fingerprint(scene.description.fingerprint()), None)
        .unwrap();
    let error = SumsContributor::check_change(&scene.description, &other.description).unwrap_err();
    assert!(error.to_string().contains("if the collector confirms"), "{error}");
    SumsCollector::check_change(&scene.description, &scene.description).unwrap();
}

/// A contributor cannot prove that its values are in range, but the collector notices much of what is wrong.
#[test]
fn spoiled_sums_are_noticed() {
    let spoil = |name: &str, parameters: &[Column], values: &[i64]| {
        let scene = Scene::new(2, 10);
        scene.send(&[scene.encrypt(&[1, 0])]).unwrap();
        // A contributor with a program of its own, that has other columns under the same key.
        let forged = forged(&scene.description, parameters);
        let mut encryptor = ContributionEncryptor::new(&forged, Zeros::OnDemand).unwrap();
        scene.send(&[encryptor.encrypt(values).unwrap()]).unwrap();
        let error = scene.close().unwrap_err().to_string();
        assert!(error.contains("the sums of this collection cannot be used"), "{name}: {error}");
        error
    };
    let column = |name: &str, largest| Column::new(name, 0, largest).unwrap();
    let large = spoil("too large", &[column("visits", 1000), column("change", 5)], &[1000, 0]);
    assert!(large.contains("a sum of 'visits' out of range, needed 0 to 40 for 2 contributions"), "{large}");
    let three = spoil("three columns", &[column("a", 5), column("b", 5), column("c", 5)], &[0, 0, 5]);
    assert!(three.contains("another number of contributions counted in the sum, needed 2, as the"), "{three}");
    // No decrypted number is in an error.
    assert!(!large.contains("1001") && !three.contains('6'), "{large}, {three}");
    let behind = spoil("numbers after", &[column("a", 5), column("b", 5), column("c", 5)], &[0, 0, 1]);
    assert!(behind.contains("numbers after the last column"), "{behind}");
}

/// The description of another collection with the public key of `description`.
fn forged(description: &Description, columns: &[Column]) -> Description {
    let options = CollectionOptions { columns: columns.to_vec(), ..options(2, 10) };
    let (other, _) = create_with_preset(PRESET, &options).unwrap();
    let key = |description: &Description| match description.client_key().0 {
        unspoken_encrypt::ClientKey::Public(key) => key.to_bytes(),
        unspoken_encrypt::ClientKey::Secret(_) => unreachable!("contributors have no secret"),
    };
    // The last value of a field counts.
    let key = key(description);
    let mut field = vec![0x2a];
    let mut length = key.len();
    while length >= 0x80 {
        field.push(length as u8 | 0x80);
        length >>= 7;
    }
    field.push(length as u8);
    field.extend(key);
    Description::read(&damage::with_fields(&other.to_bytes(), &field), true).unwrap()
}

#[test]
fn values_are_checked_before_they_are_encrypted() {
    let scene = Scene::new(2, 10);
    let mut encryptor = ContributionEncryptor::new(&scene.description, Zeros::OnDemand).unwrap();
    let mut refused = |values: &[i64]| encryptor.encrypt(values).unwrap_err().to_string();
    let range = "encrypt a contribution: the value of 'visits' is out of range, needed 0 to 20";
    assert_eq!(refused(&[21, 0]), range);
    assert_eq!(refused(&[-1, 6]), range);
    assert!(refused(&[20, i64::MIN]).contains("the value of 'change' is out of range, needed -5 to 5"));
    assert!(refused(&[1]).contains("found 1 values, needed 2, one for each column"));
}

#[test]
fn pools_in_memory_and_in_a_file_encrypt_contributions() {
    let scene = Scene::new(2, 10);
    let (key, basis) = scene.description.client_key();
    let mut rng = SecretRng::from_os().unwrap();
    let zeros = Zeros::in_memory(&scene.description, 4).unwrap();
    let Zeros::Memory(pool) = &zeros else { panic!("another pool") };
    pool.fill(&mut rng).unwrap();
    assert_eq!(pool.available().unwrap(), 4);
    let mut encryptor = ContributionEncryptor::new(&scene.description, zeros).unwrap();
    scene.send(&[encryptor.encrypt(&[1, 1]).unwrap()]).unwrap();

    let directory = tempfile::tempdir().unwrap();
    let (paths, sealing) = (PoolPaths::beside(directory.path().join("pool")), Zeroizing::new([7; 32]));
    let mut file = PoolFile::create(&paths, &sealing, key, PoolShape { basis, capacity: 2 }).unwrap();
    file.refill(&mut rng, 2).unwrap();
    let mut encryptor = ContributionEncryptor::new(&scene.description, Zeros::File(file)).unwrap();
    // The third is made when it is needed.
    let sent: Vec<Contribution> = [2, 4, 8].iter().map(|&value| encryptor.encrypt(&[value, 1]).unwrap()).collect();
    let Zeros::File(file) = encryptor.into_zeros() else { panic!("another pool") };
    assert_eq!(file.available().unwrap(), 0);
    scene.send(&sent).unwrap();
    assert_eq!(numbers(&scene.close().unwrap()), [15, 4]);
}

#[test]
fn pools_of_another_collection_are_refused() {
    let (scene, other) = (Scene::new(2, 10), Scene::new(2, 10));
    let zeros = Zeros::in_memory(&other.description, 1).unwrap();
    let error = ContributionEncryptor::new(&scene.description, zeros).err().unwrap().to_string();
    assert!(error.contains("found entries for another key"), "{error}");
}

/// With parameters whose sums use the pool of threads.
#[test]
fn many_threads_send_at_the_same_time() {
    let (description, key) = create_with_preset("n13_exact30", &options(2, 100)).unwrap();
    let server = SumsServer::new(description.clone(), MemoryStore::default()).unwrap();
    // It must not run on threads of that pool.
    assert!(server.limits().waits_for_others);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut encryptor = ContributionEncryptor::new(&description, Zeros::OnDemand).unwrap();
                let mut client = contributor(&server);
                let mut send = |contributions: &[Contribution]| {
                    let query = client.query(contributions).unwrap();
                    let answer = server.answer(&Request::new(CLIENT, &(), &query), &Call::default()).unwrap();
                    server.check_ready().unwrap();
                    client.read(&answer, contributions).unwrap()
                };
                for _ in 0..4 {
                    let sent = [(); 3].map(|()| encryptor.encrypt(&[2, -1]).unwrap());
                    assert_eq!(send(&sent[..2]), [Receipt::Added; 2]);
                    // A part of it is known.
                    let again = [Receipt::AddedBefore, Receipt::Added];
                    assert_eq!(send(&sent[1..]), again);
                    assert_eq!(send(&sent), [Receipt::AddedBefore; 3]);
                }
            });
        }
    });
    let mut collector = SumsCollector::open(description, Arc::new(key), None).unwrap();
    let query = collector.query(&[CollectorQuestion::Close]).unwrap();
    let answer = server.answer(&Request::new(CLIENT, &(), &query), &Call::default()).unwrap();
    match &collector.read(&answer, &[CollectorQuestion::Close]).unwrap()[..] {
        [CollectorAnswer::Sums(sums)] => assert_eq!((sums.contributions, numbers(sums)), (96, vec![192, -96])),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_service_is_not_ready_after_an_error_of_its_store() {
    let scene = Scene::new(2, 10);
    scene.store.fail_after(0, Left::Nothing);
    let sent = [scene.encrypt(&[1, 0])];
    scene.send(&sent).unwrap_err();
    scene.store.fail_after(0, Left::Nothing);
    let error = scene.server.check_ready().unwrap_err();
    assert!(error.kind() == ErrorKind::Busy && error.to_string().contains("check the disk"), "{error}");
    // The check used no store; the next request does.
    assert!(scene.store.will_fail());
    scene.send(&sent).unwrap_err();
    scene.server.check_ready().unwrap_err();
    scene.send(&sent).unwrap();
    scene.server.check_ready().unwrap();
}

#[test]
fn parameters_are_chosen_so_that_no_sum_wraps_around() {
    let make = |columns: Vec<Column>, most| {
        create(&CollectionOptions { columns, most_contributions: most, least_contributions: 2 })
    };
    let column = |largest| vec![Column::new("n", 0, largest).unwrap()];
    assert_eq!(make(column(57), 1000).unwrap().0.preset(), "n12_exact17");
    assert_eq!(make(column(58), 1000).unwrap().0.preset(), "n12_exact30");
    assert_eq!(make(column(536_000), 1000).unwrap().0.preset(), "n12_exact30");
    let error = make(column(600_000), 1000).unwrap_err().to_string();
    assert!(
        error.starts_with("columns: found a sum of 'n' up to 600000000 for 1000 contributions, needed at most"),
        "{error}"
    );
    assert!(error.ends_with("lower its largest value or the most contributions, or count in larger units"), "{error}");
    // Numbers of contributions are sums, too.
    assert_eq!(make(column(1), 1 << 22).unwrap().0.preset(), "n12_exact30");
    let many = |count: usize| (0..count).map(|i| Column::new(format!("c{i}"), 0, 1).unwrap()).collect::<Vec<_>>();
    assert_eq!(make(many(4095), 100).unwrap().0.preset(), "n12_exact17");
    assert_eq!(make(many(4096), 100).unwrap().0.preset(), "n13_exact30");
    for (most, least, part) in [(1, 1, "most contributions: found 1"), (1 << 23, 2, "make several collections")] {
        let options = CollectionOptions { columns: column(1), most_contributions: most, least_contributions: least };
        let error = create(&options).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    for least in [0, 1, 11] {
        let options = CollectionOptions { columns: column(1), most_contributions: 10, least_contributions: least };
        assert!(create(&options).unwrap_err().to_string().contains("least contributions: found"));
    }
}

/// Adds up all encryptions that a collection may have: by doubling, which the bound on the noise allows as well.
#[test]
fn the_bound_on_the_noise_holds_for_the_most_contributions() {
    use unspoken_exact::{Encoder, EncryptionKey, Evaluator, MIN_BUDGET_BITS, Preset, Scheme};
    use unspoken_rlwe::{PublicKey, SecretKey};
    let parameters = Preset::find("n12_exact30").unwrap().build(Scheme::Bgv).unwrap();
    let (encoder, evaluator) = (Encoder::new(&parameters), Evaluator::new(&parameters));
    let mut rng = SecretRng::from_os().unwrap();
    let secret = SecretKey::generate(parameters.rlwe(), &mut rng).unwrap();
    let public = PublicKey::generate(&secret, &mut rng).unwrap();
    let one = encoder.encode_coefficients(&[1, 127]).unwrap();
    let mut sum = encoder.encrypt_public(&one, &public, &mut rng).unwrap();
    let fresh = parameters.fresh_budget_bits(EncryptionKey::Public);
    assert!((sum.budget_bits() - fresh).abs() < 1e-9);
    for _ in 0..22 {
        sum = evaluator.add(&sum, &sum).unwrap();
    }
    assert!((sum.budget_bits() - (fresh - 22.0)).abs() < 0.1 && fresh - 22.0 > MIN_BUDGET_BITS);
    let read = encoder.decode_coefficients(&encoder.decrypt(&sum, &secret).unwrap()).unwrap();
    assert_eq!(read[..3], [1 << 22, 127 << 22, 0]);
}

#[test]
fn malformed_requests_are_refused_and_change_nothing() {
    let scene = Scene::new(2, 10);
    let query = scene.query(&[scene.encrypt(&[1, 0])]);
    let body = &query[..query.len() - CHECKSUM_BYTES];
    let refused = |body: &[u8]| {
        let mut bytes = body.to_vec();
        append_checksum(&mut bytes);
        let error = scene.answer(&bytes).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Malformed | ErrorKind::Mismatch), "{error}");
        error.to_string()
    };
    for body in [&[][..], &[1], &[4; 33], &[2; 32], &[3; 34], &body[..body.len() - 1], &[body, &[0]].concat()] {
        assert!(refused(body).starts_with("request: found"), "{}", refused(body));
    }
    let many = scene.description.contribution_bytes() * 17;
    assert!(refused(&[&[1][..], &vec![0; many]].concat()).contains("1 to 16 contributions"));
    // Residues that are not below their prime, and the header of another object.
    let mut large = body.to_vec();
    large[200..].fill(0xff);
    refused(&large);
    let mut other = body.to_vec();
    other[17] ^= 1;
    refused(&other);
    assert!(matches!(scene.answer(b"").unwrap_err().kind(), ErrorKind::Malformed));
    assert_eq!(scene.server.count().unwrap(), 0);
    assert_eq!(body.len() + CHECKSUM_BYTES, scene.query(&[scene.encrypt(&[1, 0])]).len());
    assert!(scene.server.limits().query_bytes >= body.len() + CHECKSUM_BYTES);
    // A cancelled request adds nothing.
    let cancelled = std::sync::atomic::AtomicBool::new(true);
    assert!(matches!(
        scene.server.answer(&Request::new(CLIENT, &(), &query), &Call::new(&cancelled)).unwrap_err(),
        SumsError::Cancelled
    ));
    assert_eq!(scene.server.count().unwrap(), 0);
}

#[test]
fn the_two_files_of_a_collection_are_checked() {
    let (description, key) = create_with_preset(PRESET, &options(2, 10)).unwrap();
    let read = |bytes: &[u8]| Description::read(bytes, true);
    let again = read(&description.to_bytes()).unwrap();
    assert_eq!(again.to_bytes(), description.to_bytes());
    assert_eq!((again.fingerprint(), again.columns()), (key.fingerprint(), description.columns()));
    let insecure = Description::read(&description.to_bytes(), false).unwrap_err().to_string();
    assert!(insecure.contains("needed a secure one"), "{insecure}");
    let text = description.fingerprint().to_string();
    assert_eq!(text.parse::<Fingerprint>().unwrap(), description.fingerprint());
    for text in ["", "00", &"g".repeat(64), &text[1..], &"é".repeat(32)] {
        assert!(text.parse::<Fingerprint>().is_err(), "{text}");
    }
    // Fields that a collection cannot have: the last value of a field counts.
    for (fields, part) in [
        (&[0x08, 2][..], "needed version 1"),
        (&[0x22, 1, 0], "id of a collection: found 1 bytes"),
        (&[0x2a, 1, 0], "public key"),
        (&[0x32, 0], "hash of a collector's token"),
        (&[0x38, 0], "most contributions: found 0"),
        (&[0x38, 0x80, 0x80, 0x80, 0x04], "most contributions: found 8388608"),
        (&[0x40, 1], "least contributions: found 1"),
        (&[0x4a, 9, 0x0a, 1, b'a', 0x18, 0xfe, 0xff, 0xff, 0xff, 0x0f], "columns: found a sum of 'a'"),
        (&[0x4a, 5, 0x0a, 1, b'a', 0x18, 1], "column: found 'a' from 0 to -1"),
        (&[0x4a, 10, 0x0a, 6, b'v', b'i', b's', b'i', b't', b's', 0x18, 2], "two called 'visits'"),
    ] {
        let error = read(&damage::with_fields(&description.to_bytes(), fields)).unwrap_err().to_string();
        assert!(error.contains(part), "{part}: {error}");
    }
    let private = key.to_bytes();
    assert!(CollectorKey::from_bytes(&private[1..]).is_err());
    assert!(!format!("{key:?}").contains("secret"));
    let mut other = private[..private.len() - CHECKSUM_BYTES].to_vec();
    other[0] ^= 1;
    append_checksum(&mut other);
    let error = CollectorKey::from_bytes(&other).unwrap_err().to_string();
    assert!(error.contains("needed the file that was made with the collection"), "{error}");
}

#[test]
fn damage_of_messages_is_detected() {
    let scene = Scene::new(2, 10);
    let (one, two) = (scene.encrypt(&[1, 0]), scene.encrypt(&[2, 0]));
    let query = scene.query(&[one.clone(), two]);
    let receipts = scene.answer(&query).unwrap();
    let mut collector = scene.collector();
    let ask = collector.query(&[CollectorQuestion::Close]).unwrap();
    let closed = scene.answer(&ask).unwrap();
    let count = collector.query(&[CollectorQuestion::Count]).unwrap();
    let count = scene.answer(&count).unwrap();
    let client = contributor(&scene.server);
    let text = |error: SumsError| error.to_string();
    let sent = [one.clone(), one];
    damage::assert_damage_is_refused(&[
        ("description", scene.server.describe(), &|bytes| Description::read(bytes, true).map(drop).map_err(text)),
        ("private file", scene.key.to_bytes().to_vec(), &|bytes| {
            CollectorKey::from_bytes(bytes).map(drop).map_err(text)
        }),
        ("contributions", query, &|bytes| scene.answer(bytes).map(drop).map_err(text)),
        ("close", ask, &|bytes| scene.answer(bytes).map(drop).map_err(text)),
        ("receipts", receipts, &|bytes| client.read(bytes, &sent).map(drop).map_err(text)),
        ("count", count, &|bytes| collector.read(bytes, &[CollectorQuestion::Count]).map(drop).map_err(text)),
        ("sums", closed, &|bytes| collector.read(bytes, &[CollectorQuestion::Close]).map(drop).map_err(text)),
    ]);
}

#[test]
fn clients_have_no_keys_but_a_bundle() {
    let scene = Scene::new(2, 10);
    let client = contributor(&scene.server);
    let mut bundle = Vec::new();
    client.write_keys(&mut bundle, |_, _| {}, &GO).unwrap();
    assert_eq!(bundle.len() as u64, client.key_bytes());
    assert_eq!(scene.server.loaded_key_bytes(&bundle).unwrap(), 0);
    scene.server.load_keys(&mut bundle.as_slice()).unwrap();
    // Collector and contributor of one machine share it.
    let stored = client.secret_bytes().unwrap();
    let collector = SumsCollector::open(scene.description.clone(), Arc::clone(&scene.key), Some(&stored)).unwrap();
    assert_eq!(*collector.bundle_contents(), bundle);
    assert!(scene.server.prepared_bytes() > 10 * 16 && scene.server.check_ready().is_ok());
}

#[test]
fn a_collection_in_memory_adds_as_one_on_disk_does() {
    let scene = Scene::new(2, 10);
    let server = SumsServer::new(scene.description.clone(), MemoryStore::default()).unwrap();
    for value in 0..3 {
        let query = scene.query(&[scene.encrypt(&[value, 0])]);
        (0..2).for_each(|_| drop(server.answer(&Request::new(CLIENT, &(), &query), &Call::default()).unwrap()));
    }
    assert_eq!(server.count().unwrap(), 3);
    let store = MemoryStore::default();
    store.write_ids(0, b"abc").unwrap();
    store.write_ids(1, b"xyz").unwrap();
    assert_eq!(store.ids(9).unwrap(), b"axyz");
    assert!(store.write_ids(5, b"").is_err());
}
