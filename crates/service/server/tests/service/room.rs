//! Room for key bundles: whose are deleted, in which order, and whose are not.

use std::io::{Cursor, Read};
use std::sync::atomic::Ordering;
use std::time::Duration;

use unspoken_client::transport::{Cancel, Error, KeyId, Transport};
use unspoken_protocol::{Call, ErrorKind, KeyLimits, KeyLoader, KeySetId, Limits, PlainError, Request, ServerHalf};
use unspoken_server::Applications;
use unspoken_wire::ProblemCode;

use crate::support::*;

/// Bytes of a bundle in these tests.
const BYTES: usize = 100_000;

/// A second name for the application that XORs. If `shares`, it has the same key set, and refuses keys whose first byte
/// is even.
struct Other {
    app: Xor,
    name: &'static str,
    shares: bool,
    /// Number of answers that are waited for at the same time.
    waits: usize,
}

impl KeyLoader for Other {
    type Keys = Vec<u8>;
    type KeyError = PlainError;

    fn key_set(&self) -> KeySetId {
        if self.shares { self.app.key_set() } else { KeySetId::new(self.name, &[1; 16]) }
    }

    fn key_limits(&self) -> KeyLimits {
        self.app.key_limits()
    }

    fn loaded_key_bytes(&self, front: &[u8]) -> Result<u64, PlainError> {
        self.app.loaded_key_bytes(front)
    }

    fn load_keys(&self, bundle: &mut dyn Read) -> Result<Vec<u8>, PlainError> {
        self.app.load_keys(bundle)
    }

    fn check_keys(&self, keys: &Vec<u8>) -> Result<(), PlainError> {
        if self.shares && keys[0].is_multiple_of(2) {
            return Err(PlainError::new(ErrorKind::Mismatch, "key 7 is missing"));
        }
        Ok(())
    }
}

impl ServerHalf for Other {
    type Error = PlainError;

    fn describe(&self) -> Vec<u8> {
        Vec::new()
    }

    fn limits(&self) -> Limits {
        Limits { most_together: self.waits, ..self.app.limits() }
    }

    fn prepared_bytes(&self) -> u64 {
        0
    }

    fn answer(&self, request: &Request<'_, Vec<u8>>, call: &Call<'_>) -> Result<Vec<u8>, PlainError> {
        self.app.answer(request, call)
    }
}

fn beside(name: &'static str, shares: bool) -> Applications {
    Applications::new().with(name, Other { app: Xor::new(), name, shares, waits: 1 }).unwrap()
}

/// A service with room for `bundles` bundles.
fn with_room(bundles: usize) -> Setup {
    let mut setup = Setup::new();
    setup.config.limits.key_disk_bytes = (bundles * BYTES) as u64;
    setup
}

fn put(client: &Transport, seed: u8) -> Result<KeyId, Error> {
    upload(client, &bundle(seed, BYTES, 10))
}

fn upload_for(client: &Transport, application: &str, seed: u8) -> KeyId {
    let mut bytes = Cursor::new(bundle(seed, BYTES, 10));
    client.upload_keys(application, FORMAT, &mut bytes, |_| {}, &Cancel::new()).unwrap()
}

fn is_there(client: &Transport, id: &KeyId) -> bool {
    match client.key_status(id, &Cancel::new()) {
        Ok(_) => true,
        Err(error) if error.code() == Some(ProblemCode::KeyNotFound) => false,
        Err(error) => panic!("{error}"),
    }
}

fn answers(client: &Transport, id: &KeyId) -> bool {
    ask(client, id, query(0, b"x")).is_ok()
}

#[test]
fn any_number_of_anonymous_clients_is_served_and_the_least_recently_used_give_way() {
    let service = with_room(3).start();
    let client = service.client(None);
    let ids: Vec<_> = (0..3).map(|seed| put(&client, seed).unwrap()).collect();
    // The first is used again, so the second is the oldest.
    assert!(answers(&client, &ids[0]));
    let fourth = put(&client, 3).unwrap();
    assert_eq!([&ids[0], &ids[1], &ids[2], &fourth].map(|id| is_there(&client, id)), [true, false, true, true]);
    assert!(answers(&client, &ids[0]) && answers(&client, &fourth));
    for seed in 4..24 {
        let id = put(&client, seed).unwrap();
        assert!(answers(&client, &id));
    }
    assert!(service.metric("unspoken_key_disk_bytes") <= (3 * BYTES) as f64);
    // The last answer is counted until it is sent.
    wait_until("only keys that exist are in memory", || service.metric("unspoken_memory_bytes") <= 30.0);
    let dir = service.stop();
    let count = |kind: &str| std::fs::read_dir(dir.path().join("data").join(kind)).unwrap().count();
    assert_eq!(["keys", "uploads", "trash"].map(count), [3, 0, 0]);
}

#[test]
fn a_bundle_that_a_question_uses_does_not_give_way() {
    let service = with_room(1).start();
    let client = service.client(None);
    let first = put(&client, 1).unwrap();
    std::thread::scope(|scope| {
        let busy = scope.spawn(|| ask(&client, &first, query(1000, b"slow")));
        wait_until("the slow answer runs", || service.seen.running.load(Ordering::SeqCst) == 1);
        let refused = put(&client, 2).unwrap_err();
        assert_eq!(refused.code(), Some(ProblemCode::StorageFull), "{refused}");
        for part in ["needed at least 1 MiB for keys", "unspoken keys list", "unspoken keys delete", "--key-disk-mib"] {
            assert!(refused.to_string().contains(part), "{refused}");
        }
        busy.join().unwrap().unwrap();
    });
    put(&client, 2).unwrap();
    assert!(!is_there(&client, &first));
}

#[test]
fn bundles_of_applications_that_are_gone_give_way_first() {
    let service = with_room(3).start_beside(beside("test/gone", false));
    let client = service.client(None);
    let kept = put(&client, 1).unwrap();
    let gone = upload_for(&client, "test/gone", 2);
    let also_kept = put(&client, 3).unwrap();
    let dir = service.stop();
    let mut setup = Setup::at(dir);
    setup.config.limits.key_disk_bytes = (3 * BYTES) as u64;
    let service = setup.start();
    let client = service.client(None);
    put(&client, 4).unwrap();
    assert_eq!([&kept, &gone, &also_kept].map(|id| is_there(&client, id)), [true, false, true]);
}

#[test]
fn an_expired_bundle_stops_counting_before_it_is_swept() {
    let mut setup = with_room(2);
    setup.config.timeouts.key_lifetime = Duration::from_secs(2);
    setup.config.limits.key_bytes_per_token = 2 * BYTES as u64;
    let [ann] = setup.tokens(["ann"]);
    let service = setup.start();
    let client = service.client(Some(&ann));
    for seed in [1, 2] {
        put(&client, seed).unwrap();
    }
    assert_eq!(put(&client, 3).unwrap_err().code(), Some(ProblemCode::TooManyKeys));
    wait_until("they have expired", || client.keys(&Cancel::new()).unwrap().is_empty());
    assert_eq!(service.metric("unspoken_key_disk_bytes"), 0.0);
    for seed in [3, 4] {
        put(&client, seed).unwrap();
    }
}

#[test]
fn a_token_has_its_bytes_and_never_gives_way_to_others() {
    let mut setup = with_room(3);
    setup.config.limits.key_bytes_per_token = 2 * BYTES as u64;
    let [ann, bob] = setup.tokens(["ann", "bob"]);
    let service = setup.start();
    let (ann_client, bob_client) = (service.client(Some(&ann)), service.client(Some(&bob)));
    let anns: Vec<_> = (1..=2).map(|seed| put(&ann_client, seed).unwrap()).collect();
    let refused = put(&ann_client, 3).unwrap_err();
    assert_eq!(refused.code(), Some(ProblemCode::TooManyKeys), "{refused}");
    for part in ["200000 of the 200000 bytes", "unspoken keys list", "unspoken keys delete"] {
        assert!(refused.to_string().contains(part), "{refused}");
    }
    put(&bob_client, 1).unwrap();
    let refused = put(&bob_client, 2).unwrap_err();
    assert_eq!(refused.code(), Some(ProblemCode::StorageFull), "{refused}");
    ann_client.delete_key(&anns[0], &Cancel::new()).unwrap();
    put(&bob_client, 2).unwrap();
    assert!(answers(&ann_client, &anns[1]));
    // Nor to clients without a token, when the service is started without tokens.
    let mut setup = Setup::at(service.stop());
    setup.config.limits.key_disk_bytes = 3 * BYTES as u64;
    let service = setup.start();
    assert_eq!(put(&service.client(None), 9).unwrap_err().code(), Some(ProblemCode::StorageFull));
}

#[test]
fn clients_without_a_token_cannot_list_bundles_but_delete_by_id() {
    let service = Setup::new().start();
    let client = service.client(None);
    let [one, two] = [1, 2].map(|seed| put(&client, seed).unwrap());
    let refused = client.keys(&Cancel::new()).unwrap_err();
    assert_eq!(refused.code(), Some(ProblemCode::Forbidden), "{refused}");
    assert!(refused.to_string().contains("unspoken keys list"), "{refused}");
    let listed = service.get("/v1/keys");
    assert_eq!((listed.status, listed.json()["code"].as_str()), (403, Some("forbidden")));
    assert!(!listed.body.contains(one.as_str()));
    client.delete_key(&one, &Cancel::new()).unwrap();
    assert_eq!([&one, &two].map(|id| is_there(&client, id)), [false, true]);
    // 128 random bits: no two ids have more than a few leading digits in common.
    let mut ids: Vec<_> = (3..40).map(|seed| put(&client, seed).unwrap().to_string()).collect();
    ids.sort();
    assert!(ids.windows(2).all(|pair| pair[0][..8] != pair[1][..8] && pair[0][24..] != pair[1][24..]));
    // A date, not a number of seconds.
    let status = service.get(&format!("/v1/keys/{two}")).json();
    let expires = status["expires"].as_str().unwrap();
    assert!(expires.len() == 20 && expires.ends_with('Z') && expires.as_bytes()[10] == b'T', "{expires}");
}

#[test]
fn applications_of_a_key_set_share_bundles_and_loaded_keys() {
    let service = Setup::new().start_beside(beside("test/other", true));
    let client = service.client(None);
    let odd = (0..).find(|&seed| !bundle(seed, BYTES, 10)[20].is_multiple_of(2)).unwrap();
    let even = (0..).find(|&seed| bundle(seed, BYTES, 10)[20].is_multiple_of(2)).unwrap();
    let ask_other = |id: &KeyId| client.ask("test/other", id, query(0, b"x"), &Cancel::new());
    let id = put(&client, odd).unwrap();
    assert_eq!(ask_other(&id).unwrap(), expected(&bundle(odd, BYTES, 10), b"x"));
    assert_eq!(service.metric("unspoken_keys_loaded"), 1.0);
    // Keys in memory are checked too, for each application.
    let id = put(&client, even).unwrap();
    assert!(answers(&client, &id));
    let refused = ask_other(&id).unwrap_err();
    assert_eq!(refused.code(), Some(ProblemCode::DoesNotFit), "{refused}");
    assert!(refused.to_string().contains("key 7 is missing"), "{refused}");
    // The same bytes declared for the other application are the same bundle.
    let again =
        client.upload_keys("test/other", FORMAT, &mut Cursor::new(bundle(odd, BYTES, 10)), |_| {}, &Cancel::new());
    assert!(is_there(&client, &again.unwrap()));
    assert_eq!(service.metric("unspoken_key_bundles{state=\"ready\"}"), 2.0);
    // A bundle of another key set is refused.
    let service = Setup::new().start_beside(beside("test/apart", false));
    let client = service.client(None);
    let id = put(&client, odd).unwrap();
    let ask_apart = |client: &Transport, id: &KeyId| client.ask("test/apart", id, query(0, b"x"), &Cancel::new());
    let refused = ask_apart(&client, &id).unwrap_err();
    assert_eq!(refused.code(), Some(ProblemCode::DoesNotFit), "{refused}");
    // A bundle that no application can use any more counts as missing, so that its client makes another one.
    let mut bytes = Cursor::new(bundle(odd, BYTES, 10));
    let apart = client.upload_keys("test/apart", FORMAT, &mut bytes, |_| {}, &Cancel::new()).unwrap();
    assert!(ask_apart(&client, &apart).is_ok() && is_there(&client, &apart));
    let service = Setup::at(service.stop()).start();
    let client = service.client(None);
    assert!(is_there(&client, &id) && !is_there(&client, &apart));
    let refused = ask(&client, &apart, query(0, b"x")).unwrap_err();
    assert_eq!(refused.code(), Some(ProblemCode::KeyNotFound), "{refused}");
    client.delete_key(&apart, &Cancel::new()).unwrap();
}

#[test]
fn answers_that_are_waited_for_do_not_wait_for_each_other() {
    let waiting = Other { app: Xor::new(), name: "test/waiting", shares: true, waits: 6 };
    let seen = waiting.app.seen.clone();
    let service = Setup::new().start_beside(Applications::new().with("test/waiting", waiting).unwrap());
    let odd = (0..).find(|&seed| !bundle(seed, BYTES, 10)[20].is_multiple_of(2)).unwrap();
    let id = put(&service.client(None), odd).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..6 {
            let client = service.client(None);
            let (id, cancel) = (&id, Cancel::new());
            scope.spawn(move || client.ask("test/waiting", id, query(2000, b"x"), &cancel).unwrap());
        }
        wait_until("all are waited for", || seen.running.load(Ordering::SeqCst) == 6);
    });
}

/// Many short bundles take little disk. Their number is limited for each address, and for each token.
#[test]
fn the_number_of_bundles_is_limited_for_each_address_and_the_least_recently_used_give_way() {
    let mut setup = Setup::new();
    setup.config.limits.bundles = 100;
    setup.config.limits.bundles_per_address = 10;
    let service = setup.start();
    let client = service.client(None);
    let put = |number: usize| upload(&client, &bundle(number as u8, 60 + number, 0)).unwrap();
    let first = put(0);
    let mut last = first.clone();
    for number in 1..50 {
        last = put(number);
        // Used again and again, so it stays.
        assert!(answers(&client, &first), "{number}");
    }
    assert_eq!(service.metric("unspoken_key_bundles{state=\"ready\"}"), 10.0);
    assert!(is_there(&client, &first) && is_there(&client, &last));
    // The same bundle has the same place, and one that was deleted has none.
    assert_eq!(put(49), last);
    client.delete_key(&last, &Cancel::new()).unwrap();
    assert_eq!(service.metric("unspoken_key_bundles{state=\"ready\"}"), 9.0);
}

#[test]
fn a_token_has_a_number_of_bundles_and_all_clients_together_have_one() {
    let mut setup = Setup::new();
    setup.config.limits.bundles = 4;
    setup.config.limits.bundles_per_token = 3;
    let [ann, bob] = setup.tokens(["ann", "bob"]);
    let service = setup.start();
    let (ann, bob) = (service.client(Some(&ann)), impatient_with(service.address, Some(&bob)));
    let put = |client: &Transport, number: usize| upload(client, &bundle(number as u8, 60 + number, 0));
    let anns: Vec<_> = (0..3).map(|number| put(&ann, number).unwrap()).collect();
    let refused = put(&ann, 3).unwrap_err();
    assert_eq!(refused.code(), Some(ProblemCode::TooManyKeys), "{refused}");
    for part in ["3 of the 3", "unspoken keys delete", "limits.bundles_per_token"] {
        assert!(refused.to_string().contains(part), "{refused}");
    }
    put(&bob, 0).unwrap();
    let refused = put(&bob, 1).unwrap_err();
    assert_eq!(refused.code(), Some(ProblemCode::StorageFull), "{refused}");
    assert!(refused.to_string().contains("all 4 bundles"), "{refused}");
    ann.delete_key(&anns[0], &Cancel::new()).unwrap();
    put(&bob, 1).unwrap();
}

/// Uploads of which nothing has arrived are few for each address, and the oldest is deleted. When all bundles of an
/// address are in use, the refusal says when to ask again.
#[test]
fn an_address_whose_bundles_are_all_in_use_is_told_when_to_ask_again() {
    let mut setup = Setup::new();
    setup.config.limits.bundles = 100;
    setup.config.limits.bundles_per_address = 1;
    let service = setup.start();
    let client = service.client(None);
    let first = put(&client, 1).unwrap();
    std::thread::scope(|scope| {
        let busy = scope.spawn(|| ask(&client, &first, query(1500, b"slow")));
        wait_until("the slow answer runs", || service.seen.running.load(Ordering::SeqCst) == 1);
        let body =
            format!(r#"{{"application":"{APP}","key_format":{FORMAT},"length":60,"blake3":"{}"}}"#, "00".repeat(32));
        let head = "POST /v1/keys HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json";
        let declare = format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        let refused = raw(service.address, &declare);
        assert_eq!((refused.status, refused.header("retry-after")), (429, Some("60")), "{}", refused.body);
        assert!(refused.body.contains("limits.bundles_per_address"), "{}", refused.body);
        busy.join().unwrap().unwrap();
        wait_until("the bundle is deleted", || raw(service.address, &declare).status == 201);
    });
}
