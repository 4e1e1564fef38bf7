//! Answers that are sent while they are computed.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use unspoken_client::transport::{Cancel, Error, KeyId};
use unspoken_protocol::{Call, Limits, PlainError, Request, ServerHalf};
use unspoken_server::Applications;
use unspoken_wire::{AnswerFrame, AnswerReader, ProblemCode};

use crate::support::*;

const STEPS: &str = "Accept: application/x-unspoken-progress\r\n";

/// Number of queries that were answered with this status.
fn counted(service: &TestService, status: u16) -> f64 {
    service
        .metric(&format!("unspoken_requests_total{{method=\"POST\",route=\"/v1/apps/{{*name}}\",status=\"{status}\"}}"))
}

fn request(application: &str, key: &KeyId, headers: &str, query: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST /v1/apps/{application}?key={key} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\
         Content-Length: {}\r\n\r\n",
        query.len()
    );
    [head.as_bytes(), query].concat()
}

/// Sends a query and reads until the service closes the connection: the head, and the body without its chunks' lengths.
fn send(stream: &mut TcpStream, request: &[u8]) -> (String, Vec<u8>) {
    stream.write_all(request).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let at = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(bytes[..at].to_vec()).unwrap().to_lowercase();
    let mut rest = &bytes[at + 4..];
    if !head.contains("transfer-encoding: chunked") {
        return (head, rest.to_vec());
    }
    let mut body = Vec::new();
    loop {
        let line = rest.windows(2).position(|two| two == b"\r\n").unwrap();
        let length = usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
        if length == 0 {
            return (head, body);
        }
        body.extend(&rest[line + 2..][..length]);
        rest = &rest[line + 2 + length + 2..];
    }
}

fn frames(mut body: &[u8]) -> Vec<AnswerFrame> {
    let mut reader = AnswerReader::new(1 << 30);
    let mut frames = Vec::new();
    while !body.is_empty() {
        frames.extend(reader.read(&mut body).unwrap());
    }
    frames
}

#[test]
fn progress_arrives_in_order_and_before_the_answer() {
    let mut setup = Setup::new();
    // None of these is about answers.
    let timeouts = &mut setup.config.timeouts;
    (timeouts.head, timeouts.stall, timeouts.query_body) = [Duration::from_millis(400); 3].into();
    timeouts.authorization = Duration::from_millis(400);
    let service = setup.start();
    let client = service.client(None);
    let bundle = bundle(1, 10_000, 10);
    let id = upload(&client, &bundle).unwrap();
    let mut steps = Vec::new();
    let report = |done, total| steps.push((done, total, service.seen.answers.load(Ordering::SeqCst)));
    let answer = client.ask_with_progress(APP, &id, query(1500, b"slow"), 4, report, &Cancel::new()).unwrap();
    assert_eq!(answer, expected(&bundle, b"slow"));
    // Four a second, the last ones perhaps not.
    assert!((3..=7).contains(&steps.len()), "{steps:?}");
    assert!(steps.is_sorted() && steps.iter().all(|&(done, total, _)| done < 1500 && total == 1500), "{steps:?}");
    assert_eq!(steps[0].2, 0, "{steps:?}");
    wait_until("it is counted", || counted(&service, 200) == 1.0);
    wait_until("only the keys are counted", || service.metric("unspoken_memory_bytes") == 10.0);
    assert_eq!(service.metric("unspoken_requests_in_flight"), 0.0);
}

#[test]
fn steps_are_sent_to_those_who_ask_and_only_if_there_are_any() {
    let service = Setup::new().start();
    let client = service.client(None);
    let bundle = bundle(1, 10_000, 10);
    let id = upload(&client, &bundle).unwrap();
    let ask = |headers: &str, millis, bytes: &[u8]| {
        let mut stream = TcpStream::connect(service.address).unwrap();
        send(&mut stream, &request(APP, &id, headers, &query(millis, bytes)))
    };
    let (head, body) = ask(&format!("X-Request-Id: mine\r\n{STEPS}"), 800, b"slow");
    for part in ["http/1.1 200", "content-type: application/x-unspoken-progress", "x-request-id: mine", "chunked"] {
        assert!(head.contains(part), "{head}");
    }
    let frames = frames(&body);
    assert_eq!(frames.last(), Some(&AnswerFrame::Answer(expected(&bundle, b"slow"))));
    assert!(frames.len() >= 2, "{frames:?}");
    // One who does not ask, and one whose answer is there before anything was reported.
    for (headers, millis) in [("", 800), ("Accept: application/x-protobuf\r\n", 800), (STEPS, 0)] {
        let (head, body) = ask(headers, millis, b"plain");
        assert!(head.contains("content-type: application/octet-stream"), "{head}");
        assert!(head.contains("content-length: 5"), "{head}");
        assert_eq!(body, expected(&bundle, b"plain"));
    }
    // Refusals that come first have their status.
    let (head, _) = ask(STEPS, 0, b"misfit");
    assert!(head.contains("http/1.1 409"), "{head}");
    let unknown = KeyId::parse(&"0".repeat(32)).unwrap();
    let mut stream = TcpStream::connect(service.address).unwrap();
    let (head, body) = send(&mut stream, &request(APP, &unknown, STEPS, &query(800, b"x")));
    assert!(head.contains("http/1.1 404") && head.contains("application/json"), "{head}");
    assert!(String::from_utf8_lossy(&body).contains("key_not_found"));
}

#[test]
fn a_refusal_among_the_steps_is_that_of_a_plain_response() {
    let mut setup = Setup::new();
    setup.config.timeouts.answer = Duration::from_millis(1500);
    let service = setup.start();
    let client = impatient(service.address);
    let id = upload(&client, &bundle(1, 10_000, 10)).unwrap();
    let cases: [(&[u8], u32, ProblemCode); 5] = [
        (b"panic", 500, ProblemCode::Internal),
        (b"long", 500, ProblemCode::Internal),
        (b"internal", 500, ProblemCode::Internal),
        (b"misfit", 500, ProblemCode::DoesNotFit),
        (b"x", 60_000, ProblemCode::AnswerTimeout),
    ];
    for (bytes, millis, code) in cases {
        let plain = ask(&client, &id, query(millis, bytes)).unwrap_err();
        let mut steps = 0;
        let report = |_, _| steps += 1;
        let refused = client.ask_with_progress(APP, &id, query(millis, bytes), 9, report, &Cancel::new()).unwrap_err();
        assert_eq!(refused.code(), Some(code), "{refused}");
        assert!(steps > 0 && !refused.to_string().contains("secret reason"), "{refused}");
        let (Error::Refused(mut plain), Error::Refused(refused)) = (plain, refused) else { panic!("not refused") };
        assert_ne!(plain.request_id, refused.request_id);
        plain.request_id.clone_from(&refused.request_id);
        assert_eq!(plain, refused);
    }
    for (status, count) in [(500, 6.0), (409, 2.0), (504, 2.0)] {
        assert_eq!(counted(&service, status), count, "{status}");
    }
    assert!(!service.metrics().contains("route=\"/v1/apps/{*name}\",status=\"200\""));
    wait_until("the worker is free", || service.metric("unspoken_workers_busy") == 0.0);
    wait_until("only the keys are counted", || service.metric("unspoken_memory_bytes") == 10.0);
}

#[test]
fn a_client_that_goes_away_after_a_step_stops_the_work() {
    let service = Setup::new().start();
    let client = service.client(None);
    let id = upload(&client, &bundle(1, 10_000, 10)).unwrap();
    let cancel = Cancel::new();
    let report = |_, _| cancel.cancel();
    let cancelled = client.ask_with_progress(APP, &id, query(60_000, b"x"), 9, report, &cancel);
    assert!(matches!(cancelled, Err(Error::Cancelled)), "{cancelled:?}");
    wait_until("the work stopped", || service.seen.cancelled.load(Ordering::SeqCst) == 1);
    wait_until("the worker is free", || service.metric("unspoken_workers_busy") == 0.0);
    wait_until("only the keys are counted", || service.metric("unspoken_memory_bytes") == 10.0);
    wait_until("it is counted", || service.metrics().contains("route=\"/v1/apps/{*name}\",status=\"499\"} 1"));
    assert_eq!(service.metric("unspoken_requests_in_flight"), 0.0);
}

#[test]
fn a_shutdown_finishes_an_answer_in_steps_or_says_why_not() {
    let bundle = bundle(1, 10_000, 10);
    for (drain, millis) in [(Duration::from_secs(10), 1500), (Duration::from_millis(200), 60_000)] {
        let mut setup = Setup::new();
        setup.config.timeouts.drain = drain;
        let mut service = setup.start();
        let id = upload(&service.client(None), &bundle).unwrap();
        let (client, seen, start) = (impatient(service.address), service.seen.clone(), Instant::now());
        let mut begun = false;
        let report = |_, _| {
            if !std::mem::replace(&mut begun, true) {
                service.begin_stop();
            }
        };
        let answer = client.ask_with_progress(APP, &id, query(millis, b"last"), 4, report, &Cancel::new());
        service.stop();
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        if seen.cancelled.load(Ordering::SeqCst) == 0 {
            assert_eq!((answer.unwrap().to_vec(), millis), (expected(&bundle, b"last"), 1500));
            continue;
        }
        let refused = answer.unwrap_err();
        assert_eq!((refused.code(), millis), (Some(ProblemCode::ShuttingDown), 60_000), "{refused}");
        let Error::GaveUp { last, .. } = refused else { panic!("it has no Retry-After: {refused}") };
        assert!(matches!(*last, Error::Refused(problem) if problem.retry_after == Some(Duration::from_secs(5))));
    }
}

/// Reports a million steps in a second and answers with more zeros than fit in the sockets' buffers. Takes no thread of
/// the pool, which other tests use.
struct Busy;

const STEPS_OF_BUSY: u32 = 1_000_000;
const ZEROS: usize = 48 << 20;

takes_any_keys!(Busy);

impl ServerHalf for Busy {
    type Error = PlainError;

    fn describe(&self) -> Vec<u8> {
        Vec::new()
    }

    fn limits(&self) -> Limits {
        let (query_bytes, answer_bytes) = (100, ZEROS);
        Limits { query_bytes, answer_bytes, working_bytes: 1000, most_together: 1, waits_for_others: true }
    }

    fn prepared_bytes(&self) -> u64 {
        0
    }

    fn answer(&self, _: &Request<'_, ()>, call: &Call<'_>) -> Result<Vec<u8>, PlainError> {
        let start = Instant::now();
        for done in 0..STEPS_OF_BUSY {
            call.report(done, STEPS_OF_BUSY);
            while start.elapsed() < Duration::from_micros(done.into()) {
                std::hint::spin_loop();
            }
        }
        Ok(vec![0; ZEROS])
    }
}

#[test]
fn a_slow_reader_holds_up_its_answer_and_no_computation() {
    let mut setup = Setup::new();
    setup.config.timeouts.stall = Duration::from_secs(3);
    let service = setup.start_beside(Applications::new().with("test/busy", Busy).unwrap());
    let client = service.client(None);
    let mut bundle = std::io::Cursor::new(b"keys");
    let key = client.upload_keys("test/busy", 1, &mut bundle, |_| {}, &Cancel::new()).unwrap();
    let request = request("test/busy", &key, STEPS, b"");
    let answered = "unspoken_answer_seconds_count{application=\"test/busy\"}";
    let memory = || service.metric("unspoken_memory_bytes");
    let mut unread = TcpStream::connect(service.address).unwrap();
    unread.write_all(&request).unwrap();
    wait_until("the answer is counted", || memory() == (ZEROS + 5) as f64);
    assert_eq!(service.metric(answered), 1.0);
    wait_until("the worker is free", || service.metric("unspoken_workers_busy") == 0.0);
    assert_eq!(memory(), (ZEROS + 5) as f64);
    let (_, body) = send(&mut unread, b"");
    let mut frames = frames(&body);
    assert_eq!(frames.pop(), Some(AnswerFrame::Answer(vec![0; ZEROS])));
    assert!((1..10).contains(&frames.len()), "{} steps of a million", frames.len());
    wait_until("the answer is forgotten", || memory() == 5.0);
    // One that never reads is not waited for.
    let mut never = TcpStream::connect(service.address).unwrap();
    never.write_all(&request).unwrap();
    wait_until("the answer is there", || service.metric(answered) == 2.0);
    wait_until("the answer is forgotten", || memory() == 5.0);
    assert_eq!(service.metric("unspoken_requests_in_flight"), 0.0);
    // The client reads this answer as it reads every other.
    let mut steps = 0;
    let report = |_, _| steps += 1;
    let answer = client.ask_with_progress("test/busy", &key, vec![], ZEROS, report, &Cancel::new()).unwrap();
    assert!(answer.len() == ZEROS && steps > 0, "{} {steps}", answer.len());
    let error = client.ask_with_progress("test/busy", &key, vec![], ZEROS - 1, |_, _| {}, &Cancel::new()).unwrap_err();
    assert!(matches!(&error, Error::Protocol { .. }), "{error}");
}

#[test]
fn memory_counts_until_a_computation_has_ended_although_its_client_is_gone() {
    let service = Setup::new().start_beside(Applications::new().with("test/busy", Busy).unwrap());
    let client = service.client(None);
    let mut bundle = std::io::Cursor::new(b"keys");
    let key = client.upload_keys("test/busy", 1, &mut bundle, |_| {}, &Cancel::new()).unwrap();
    for headers in ["", STEPS] {
        let mut stream = TcpStream::connect(service.address).unwrap();
        stream.write_all(&request("test/busy", &key, headers, &[7; 100])).unwrap();
        wait_until("it runs", || service.metric("unspoken_workers_busy") == 1.0);
        drop(stream);
        wait_until("the client is gone", || service.metric("unspoken_requests_in_flight") == 0.0);
        // Keys, computation, answer and query.
        let (memory, busy) = (service.metric("unspoken_memory_bytes"), service.metric("unspoken_workers_busy"));
        assert_eq!((memory, busy), ((5 + 1000 + ZEROS + 100) as f64, 1.0), "{headers:?}");
        wait_until("it has ended", || service.metric("unspoken_memory_bytes") == 5.0);
    }
}
