//! Uploads that are complete, cut off, too long, of the wrong kind, or damaged.

use std::io::{Cursor, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use unspoken_client::transport::{Cancel, UploadProgress};
use unspoken_wire::v1::KeyDeclaration;
use unspoken_wire::{Message, ProblemCode};

use crate::support::*;

fn declaration(bundle: &[u8]) -> KeyDeclaration {
    KeyDeclaration {
        application: APP.into(),
        key_format: FORMAT,
        length: bundle.len() as u64,
        blake3: blake3::hash(bundle).as_bytes().to_vec(),
    }
}

fn declare(service: &TestService, declaration: &KeyDeclaration) -> RawResponse {
    let body = declaration.encode_to_vec();
    let head =
        format!("POST /v1/keys HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
    raw(service.address, [head.as_bytes(), &body].concat())
}

fn declared_id(service: &TestService, bundle: &[u8]) -> String {
    let response = declare(service, &declaration(bundle));
    assert_eq!(response.status, 201, "{}", response.body);
    response.json()["id"].as_str().unwrap().to_owned()
}

fn patch_head(id: &str, offset: usize, length: usize) -> String {
    format!(
        "PATCH /v1/keys/{id} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nUpload-Offset: {offset}\r\n\
         Content-Length: {length}\r\n\r\n"
    )
}

fn patch(service: &TestService, id: &str, offset: usize, bytes: &[u8]) -> RawResponse {
    let head = patch_head(id, offset, bytes.len());
    raw(service.address, [head.as_bytes(), bytes].concat())
}

fn complete(service: &TestService, id: &str) -> RawResponse {
    let head = "HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    raw(service.address, format!("POST /v1/keys/{id}/complete {head}"))
}

fn code(response: &RawResponse) -> (u16, String) {
    (response.status, response.json()["code"].as_str().unwrap().to_owned())
}

#[test]
fn a_bundle_goes_up_and_answers_questions() {
    let service = Setup::new().start();
    let client = service.client(None);
    let bundle = bundle(1, 3_000_000, 1000);
    let mut steps = Vec::new();
    let cancel = Cancel::new();
    let mut source = Cursor::new(&bundle);
    let id = client.upload_keys(APP, FORMAT, &mut source, |p| steps.push(p), &cancel).unwrap();
    assert_eq!(steps.last(), Some(&UploadProgress::Checking));
    assert!(steps.contains(&UploadProgress::Sending { done: 3_000_000, total: 3_000_000 }));
    let answer = ask(&client, &id, query(0, b"hello")).unwrap();
    assert_eq!(answer, expected(&bundle, b"hello"));
    // Loaded once, by the check; uploading the same bytes again is free.
    assert_eq!(upload(&client, &bundle).unwrap(), id);
    assert_eq!(service.seen.loads.load(Ordering::SeqCst), 1);
    assert_eq!(service.metric("unspoken_upload_bytes_total"), 3_000_000.0);
    assert_eq!(client.describe(APP, &cancel).unwrap().description, b"xor");
    assert_eq!(client.applications(&cancel).unwrap(), [APP]);
    client.delete_key(&id, &cancel).unwrap();
    let gone = ask(&client, &id, query(0, b"hello")).unwrap_err();
    assert_eq!(gone.code(), Some(ProblemCode::KeyNotFound));
    assert_eq!(service.metric("unspoken_key_disk_bytes"), 0.0);
    wait_until("nothing is counted", || service.metric("unspoken_memory_bytes") == 0.0);
}

#[test]
fn a_client_that_stops_in_the_middle_resumes() {
    let service = Setup::new().start();
    let bundle = bundle(1, 5_000_000, 1000);
    let id = declared_id(&service, &bundle);
    // Declares the whole length, sends 3 MB, and disconnects.
    let mut stream = TcpStream::connect(service.address).unwrap();
    stream.write_all(patch_head(&id, 0, bundle.len()).as_bytes()).unwrap();
    stream.write_all(&bundle[..3_000_000]).unwrap();
    wait_until("two megabytes are stored", || service.metric("unspoken_key_disk_bytes") >= 2_000_000.0);
    stream.shutdown(Shutdown::Both).unwrap();
    drop(stream);
    assert_eq!(code(&complete(&service, &id)), (409, "wrong_state".into()));

    let client = service.client(None);
    let mut first = None;
    let mut note = |step| {
        if let UploadProgress::Sending { done, .. } = step {
            first.get_or_insert(done);
        }
    };
    let cancel = Cancel::new();
    let mut source = Cursor::new(&bundle);
    let resumed = client.upload_keys(APP, FORMAT, &mut source, &mut note, &cancel).unwrap();
    assert_eq!(resumed.as_str(), id);
    assert!(first.unwrap() >= 2_000_000, "began again at {first:?}");
    assert_eq!(service.metric("unspoken_upload_bytes_total"), 5_000_000.0);
    assert_eq!(ask(&client, &resumed, query(0, b"x")).unwrap(), expected(&bundle, b"x"));
}

#[test]
fn a_cancelled_upload_resumes_too() {
    let service = Setup::new().start();
    let client = service.client(None);
    let bundle = bundle(2, 4_000_000, 1000);
    let cancel = Cancel::new();
    let stop_halfway = |step| {
        if matches!(step, UploadProgress::Sending { done, .. } if done > 1_000_000) {
            cancel.cancel();
        }
    };
    let mut source = Cursor::new(&bundle);
    let stopped = client.upload_keys(APP, FORMAT, &mut source, stop_halfway, &cancel);
    assert_eq!(stopped.unwrap_err().to_string(), "cancelled");
    upload(&client, &bundle).unwrap();
    assert_eq!(service.metric("unspoken_upload_bytes_total"), 4_000_000.0);
}

#[test]
fn a_later_request_takes_an_upload_over() {
    let service = Setup::new().start();
    let bundle = bundle(3, 3_000_000, 1000);
    let id = declared_id(&service, &bundle);
    let mut stalled = TcpStream::connect(service.address).unwrap();
    stalled.write_all(patch_head(&id, 0, bundle.len()).as_bytes()).unwrap();
    stalled.write_all(&bundle[..2_000_000]).unwrap();
    wait_until("a megabyte is stored", || service.metric("unspoken_key_disk_bytes") > 0.0);
    // The first connection is still open and sends nothing; the service does not wait for it.
    let start = Instant::now();
    upload(&service.client(None), &bundle).unwrap();
    assert!(start.elapsed() < Duration::from_secs(15), "waited {:?}", start.elapsed());
}

#[test]
fn a_truncated_bundle_is_never_used() {
    let service = Setup::new().start();
    let whole = bundle(1, 100_000, 1000);
    // Cut off before it is declared: the application rejects it.
    let client = service.client(None);
    let refused = upload(&client, &whole[..90_000]).unwrap_err();
    assert_eq!(refused.code(), Some(ProblemCode::MalformedKeys), "{refused}");
    assert!(refused.to_string().contains("cut off"), "{refused}");
    // Shorter than its header.
    let refused = upload(&client, &whole[..10]).unwrap_err();
    assert_eq!(refused.code(), Some(ProblemCode::MalformedKeys), "{refused}");
    // Cut off while it is sent: it is not complete.
    let id = declared_id(&service, &whole);
    assert_eq!(patch(&service, &id, 0, &whole[..90_000]).status, 200);
    assert_eq!(code(&complete(&service, &id)), (409, "wrong_state".into()));
    let asked = raw(
        service.address,
        format!(
            "POST /v1/apps/{APP}?key={id} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
             Content-Length: 4\r\n\r\n\0\0\0\0"
        ),
    );
    assert_eq!(code(&asked), (409, "wrong_state".into()));
    // Nothing is left of the refused uploads.
    assert_eq!(service.metric("unspoken_key_bundles{state=\"uploading\"}"), 1.0);
    assert_eq!(service.metric("unspoken_key_bundles{state=\"ready\"}"), 0.0);
}

#[test]
fn an_oversized_bundle_is_refused() {
    let service = Setup::new().start();
    let bundle = bundle(1, 1000, 1000);
    let too_long = KeyDeclaration { length: (64 << 20) + 1, ..declaration(&bundle) };
    assert_eq!(code(&declare(&service, &too_long)), (413, "too_large".into()));
    // More bytes than declared, with and without a Content-Length.
    let id = declared_id(&service, &bundle);
    let longer = [bundle.as_slice(), b"more"].concat();
    assert_eq!(code(&patch(&service, &id, 0, &longer)), (413, "too_large".into()));
    let head = format!(
        "PATCH /v1/keys/{id} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nUpload-Offset: 0\r\n\
         Transfer-Encoding: chunked\r\n\r\n{:x}\r\n",
        longer.len()
    );
    let chunked = [head.as_bytes(), &longer, b"\r\n0\r\n\r\n"].concat();
    assert_eq!(code(&raw(service.address, chunked)), (413, "too_large".into()));
    // A control message of two megabytes.
    let huge = KeyDeclaration { application: "a".repeat(2 << 20), ..declaration(&bundle) };
    assert_eq!(code(&declare(&service, &huge)), (413, "too_large".into()));
    assert!(upload(&service.client(None), &bundle).is_ok());
}

#[test]
fn a_bundle_of_another_version_is_refused_at_once() {
    let service = Setup::new().start();
    let good = bundle(1, 5_000_000, 1000);
    let old = KeyDeclaration { key_format: FORMAT - 1, ..declaration(&good) };
    let response = declare(&service, &old);
    assert_eq!(code(&response), (422, "unsupported_format".into()));
    assert!(response.body.contains("format 6; the application reads 7"), "{}", response.body);
    // The declared format is wrong: the first megabyte shows it, and the rest is not sent.
    let mut wrong = good.clone();
    wrong[..4].copy_from_slice(b"XORJ");
    let refused = upload(&service.client(None), &wrong).unwrap_err();
    assert_eq!(refused.code(), Some(ProblemCode::MalformedKeys), "{refused}");
    assert!(service.metric("unspoken_upload_bytes_total") < 2_000_000.0);
    assert_eq!(service.metric("unspoken_key_bundles{state=\"uploading\"}"), 0.0);
    let unknown = KeyDeclaration { application: "test/other".into(), ..declaration(&good) };
    assert_eq!(code(&declare(&service, &unknown)), (404, "application_not_found".into()));
    assert_eq!(code(&declare(&service, &KeyDeclaration::default())), (400, "malformed_request".into()));
}

#[test]
fn a_flipped_bit_is_noticed() {
    let service = Setup::new().start();
    let bundle = bundle(1, 200_000, 1000);
    for position in [30, 100_000, 199_999] {
        let id = declared_id(&service, &bundle);
        let mut flipped = bundle.clone();
        flipped[position] ^= 4;
        assert_eq!(patch(&service, &id, 0, &flipped).status, 200);
        assert_eq!(code(&complete(&service, &id)), (422, "checksum_mismatch".into()));
        // The upload was removed, so the same bundle can be declared again.
        assert_eq!(code(&complete(&service, &id)), (404, "key_not_found".into()));
    }
    assert!(upload(&service.client(None), &bundle).is_ok());
}

#[test]
fn a_chunk_out_of_place_is_told_where_to_go() {
    let service = Setup::new().start();
    let bundle = bundle(1, 1000, 1000);
    let id = declared_id(&service, &bundle);
    assert_eq!(patch(&service, &id, 0, &bundle[..400]).header("upload-offset"), Some("400"));
    for offset in [0, 399, 401, 2000] {
        let response = patch(&service, &id, offset, b"xx");
        assert_eq!(code(&response), (409, "offset_mismatch".into()));
        assert_eq!(response.header("upload-offset"), Some("400"));
    }
    let status = service.get(&format!("/v1/keys/{id}"));
    assert_eq!((status.status, status.json()["offset"].as_u64()), (200, Some(400)));
    assert_eq!(patch(&service, &id, 400, &bundle[400..]).status, 200);
    assert_eq!(complete(&service, &id).status, 200);
    assert_eq!(complete(&service, &id).status, 200);
    assert_eq!(code(&patch(&service, &id, 1000, b"")), (409, "wrong_state".into()));
}

#[test]
fn bundles_and_uploads_expire() {
    let mut setup = Setup::new();
    setup.config.timeouts.key_lifetime = Duration::from_secs(3);
    setup.config.timeouts.upload_lifetime = Duration::from_millis(300);
    setup.config.timeouts.sweep = Duration::from_millis(50);
    let service = setup.start();
    let client = service.client(None);
    let id = upload(&client, &bundle(1, 50_000, 10)).unwrap();
    declared_id(&service, &bundle(2, 1000, 10));
    assert!(ask(&client, &id, query(0, b"x")).is_ok());
    wait_until("everything expired", || {
        service.metric("unspoken_key_disk_bytes") == 0.0
            && service.metric("unspoken_key_bundles{state=\"uploading\"}") == 0.0
            && service.metric("unspoken_memory_bytes") == 0.0
    });
    let gone = ask(&client, &id, query(0, b"x")).unwrap_err();
    assert_eq!(gone.code(), Some(ProblemCode::KeyNotFound));
    for kind in ["keys", "uploads", "trash"] {
        let dir = service.dir.path().join("data").join(kind);
        wait_until("its files are gone", || std::fs::read_dir(&dir).unwrap().count() == 0);
    }
}

#[test]
fn a_declaration_displaces_nothing_before_bytes_arrive() {
    const ROOM: usize = 4;
    const BYTES: usize = 100_000;
    let mut setup = Setup::new();
    setup.config.limits.key_disk_bytes = (ROOM * BYTES) as u64;
    let service = setup.start();
    let client = service.client(None);
    let stored: Vec<_> = (1..ROOM as u8).map(|seed| upload(&client, &bundle(seed, BYTES, 10)).unwrap()).collect();
    let works = |id| ask(&client, id, query(0, b"x")).is_ok();
    // Declarations of all the room, without a byte.
    let declared: Vec<_> = (0..5).map(|seed| declared_id(&service, &bundle(100 + seed, 3 * BYTES, 10))).collect();
    assert!(stored.iter().all(works));
    // Bytes that arrive take the room of the least recently used bundles.
    let bytes = bundle(100, 3 * BYTES, 10);
    assert_eq!(patch(&service, &declared[0], 0, &bytes[..2 * BYTES]).status, 200);
    let left = stored.iter().filter(|id| works(id)).count();
    assert!((1..stored.len()).contains(&left), "{left} of {} bundles are left", stored.len());
    assert_eq!(patch(&service, &declared[0], 2 * BYTES, &bytes[2 * BYTES..]).status, 200);
    assert_eq!(complete(&service, &declared[0]).status, 200);
    // The room is taken by a bundle that was declared later, and which is in use.
    let busy = bundle(101, 3 * BYTES, 10);
    assert_eq!(patch(&service, &declared[1], 0, &busy[..BYTES]).status, 200);
}

#[test]
fn the_oldest_of_many_empty_uploads_gives_way() {
    const MOST: u32 = 64;
    let service = Setup::new().start();
    let bundle = |seed: u32| [&bundle(1, 1000, 10)[..], &seed.to_le_bytes()].concat();
    let first = declared_id(&service, &bundle(0));
    let second = declared_id(&service, &bundle(1));
    for seed in 2..=MOST {
        declared_id(&service, &bundle(seed));
    }
    assert_eq!(code(&patch(&service, &first, 0, &bundle(0))), (404, "key_not_found".into()));
    assert_eq!(patch(&service, &second, 0, &bundle(1)).status, 200);
}
