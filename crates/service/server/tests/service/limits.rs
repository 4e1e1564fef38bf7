//! Memory, size and time limits: the service reports that one is exceeded and keeps running.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use unspoken_client::transport::{Cancel, Error};
use unspoken_protocol::{Call, Limits, PlainError, Request, ServerHalf};
use unspoken_server::Applications;
use unspoken_wire::ProblemCode;

use crate::support::*;

const MIB: u64 = 1 << 20;

#[test]
fn a_query_waits_for_memory_and_is_not_refused() {
    let mut setup = Setup::new();
    // 2.5 MiB for bodies, 7.5 MiB for keys and answers: one pair of keys fits, and an answer of up to 1 MiB.
    setup.small_memory(10 * MIB);
    let service = setup.start();
    let client = service.client(None);
    let (one, two) = (bundle(1, 10_000, 4 * MIB), bundle(2, 10_000, 4 * MIB));
    let (one_id, two_id) = (upload(&client, &one).unwrap(), upload(&client, &two).unwrap());
    // Checking the second bundle evicted the first keys; both still answer.
    assert_eq!(ask(&client, &one_id, query(0, b"a")).unwrap(), expected(&one, b"a"));
    assert_eq!(ask(&client, &two_id, query(0, b"b")).unwrap(), expected(&two, b"b"));
    assert_eq!(ask(&client, &one_id, query(0, b"a")).unwrap(), expected(&one, b"a"));
    let loads = service.seen.loads.load(Ordering::SeqCst);

    // While the first keys are in use there is no room for the second. A client that does not ask again is answered.
    let start = Instant::now();
    std::thread::scope(|scope| {
        let busy = scope.spawn(|| ask(&client, &one_id, query(1500, b"slow")));
        wait_until("the slow answer runs", || service.seen.running.load(Ordering::SeqCst) == 1);
        assert_eq!(ask(&impatient(service.address), &two_id, query(0, b"b")).unwrap(), expected(&two, b"b"));
        assert!(start.elapsed() >= Duration::from_millis(1400), "it did not wait");
        assert_eq!(busy.join().unwrap().unwrap(), expected(&one, b"slow"));
    });
    assert_eq!(service.seen.loads.load(Ordering::SeqCst), loads + 1, "keys were loaded before there was memory");
    assert_eq!(service.seen.most_running.load(Ordering::SeqCst), 1);
    assert!(service.metric("unspoken_memory_bytes") <= (10 * MIB) as f64);
    assert_eq!(service.get("/readyz").status, 200);
}

#[test]
fn idle_memory_is_given_back_when_the_last_answer_ends() {
    let mut setup = Setup::new();
    setup.config.workers = 2;
    let service = setup.start();
    let client = service.client(None);
    let keys = bundle(1, 1000, 1000);
    let id = upload(&client, &keys).unwrap();
    let released = || service.seen.released.load(Ordering::SeqCst);
    let before = released();
    assert!(before > 0, "nothing was given back after the keys were checked");
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| ask(&client, &id, query(1500, b"slow")));
        wait_until("the slow answer runs", || service.seen.running.load(Ordering::SeqCst) == 1);
        assert_eq!(ask(&client, &id, query(0, b"quick")).unwrap(), expected(&keys, b"quick"));
        assert_eq!(released(), before, "while another answer was computed");
        assert_eq!(slow.join().unwrap().unwrap(), expected(&keys, b"slow"));
    });
    assert_eq!(released(), before + 1);
    // Also after an answer that failed or panicked.
    ask(&client, &id, query(0, b"misfit")).unwrap_err();
    assert_eq!(released(), before + 2);
    ask(&impatient(service.address), &id, query(0, b"panic")).unwrap_err();
    assert_eq!(released(), before + 3);
}

/// Answers with more zeros than fit in the sockets' buffers.
struct Zeros;

const ZEROS: usize = 48 << 20;

takes_any_keys!(Zeros);

impl ServerHalf for Zeros {
    type Error = PlainError;

    fn describe(&self) -> Vec<u8> {
        Vec::new()
    }

    fn limits(&self) -> Limits {
        let (query_bytes, answer_bytes) = (ZEROS, 2 * ZEROS);
        Limits { query_bytes, answer_bytes, working_bytes: 1000, most_together: 1, waits_for_others: false }
    }

    fn prepared_bytes(&self) -> u64 {
        0
    }

    fn answer(&self, _: &Request<'_, ()>, _: &Call<'_>) -> Result<Vec<u8>, PlainError> {
        Ok(vec![0; ZEROS])
    }
}

#[test]
fn queries_and_answers_count_as_memory_while_they_are_held() {
    let service = Setup::new().start_beside(Applications::new().with("test/zeros", Zeros).unwrap());
    let client = service.client(None);
    let mut bundle = std::io::Cursor::new(b"keys");
    let key = client.upload_keys("test/zeros", 1, &mut bundle, |_| {}, &Cancel::new()).unwrap();
    assert_eq!(service.metric("unspoken_memory_bytes"), 5.0);
    let head = |length: usize| {
        format!("POST /v1/apps/test/zeros?key={key} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n")
    };
    // A query that is still arriving: bytes count when they have arrived, not when they are declared.
    let mut arriving = TcpStream::connect(service.address).unwrap();
    arriving.write_all(head(ZEROS).as_bytes()).unwrap();
    wait_until("the query is handled", || service.metric("unspoken_requests_in_flight") == 1.0);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(service.metric("unspoken_memory_bytes"), 5.0);
    arriving.write_all(&vec![0; 3 * MIB as usize]).unwrap();
    wait_until("what arrived is counted", || service.metric("unspoken_memory_bytes") == (3 * MIB + 5) as f64);
    drop(arriving);
    wait_until("the query is forgotten", || service.metric("unspoken_memory_bytes") == 5.0);
    // An answer that is not read yet: only its own bytes count, no longer the largest answer and the computation.
    let mut unread = TcpStream::connect(service.address).unwrap();
    unread.write_all(head(0).as_bytes()).unwrap();
    wait_until("the answer is counted", || service.metric("unspoken_memory_bytes") == (ZEROS + 5) as f64);
    assert_eq!(service.metric("unspoken_answer_seconds_count{application=\"test/zeros\"}"), 1.0);
    for _ in 0..20 {
        assert_eq!(service.metric("unspoken_memory_bytes"), (ZEROS + 5) as f64);
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut received = 0;
    let mut part = vec![0; 1 << 20];
    while received < ZEROS {
        received += unread.read(&mut part).unwrap();
    }
    wait_until("the answer is forgotten", || service.metric("unspoken_memory_bytes") == 5.0);
}

#[test]
fn keys_that_can_never_fit_are_refused_early_and_for_good() {
    let mut setup = Setup::new();
    setup.small_memory(10 * MIB);
    let service = setup.start();
    let client = service.client(None);
    let start = Instant::now();
    // 7.5 MiB are for keys and answers, and an answer takes one.
    let refused = upload(&client, &bundle(1, 5_000_000, 7 * MIB)).unwrap_err();
    assert_eq!(refused.code(), Some(ProblemCode::MemoryFull), "{refused}");
    assert!(matches!(refused, Error::Refused(ref problem) if problem.retry_after.is_none()));
    assert!(start.elapsed() < Duration::from_secs(10), "it was tried again");
    assert!(service.metric("unspoken_upload_bytes_total") < 2_000_000.0);
    upload(&client, &bundle(2, 10_000, MIB)).unwrap();
}

#[test]
fn a_query_over_the_limit_is_a_413_that_arrives() {
    let service = Setup::new().start();
    let client = service.client(None);
    let bundle = bundle(1, 10_000, 10);
    let id = upload(&client, &bundle).unwrap();
    // The client is still sending when it is refused, and must receive the refusal.
    for _ in 0..5 {
        let refused = ask(&client, &id, vec![0; 20 << 20]).unwrap_err();
        assert_eq!(refused.code(), Some(ProblemCode::TooLarge), "{refused}");
    }
    // A client that sends everything before it reads must receive it too.
    let head = format!("POST /v1/apps/{APP}?key={id} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", 20 << 20);
    let mut stream = TcpStream::connect(service.address).unwrap();
    stream.write_all(&[head.as_bytes(), &vec![0; 20 << 20]].concat()).unwrap();
    let mut start = [0; 12];
    stream.read_exact(&mut start).unwrap();
    assert_eq!(&start, b"HTTP/1.1 413");
    let head = format!(
        "POST /v1/apps/{APP}?key={id} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
         Transfer-Encoding: chunked\r\n\r\n"
    );
    let piece = [b"100000\r\n".as_slice(), &vec![0; 1 << 20], b"\r\n"].concat();
    let response = raw(service.address, [head.as_bytes(), &piece, &piece].concat());
    assert_eq!(response.status, 413);
    let longest = vec![7; (1 << 20) - 4];
    assert_eq!(ask(&client, &id, query(0, &longest)).unwrap(), expected(&bundle, &longest));
}

#[test]
fn a_client_that_sends_nothing_is_not_waited_for() {
    let mut setup = Setup::new();
    setup.config.timeouts.stall = Duration::from_millis(200);
    setup.config.timeouts.head = Duration::from_millis(200);
    let service = setup.start();
    let client = service.client(None);
    let id = upload(&client, &bundle(1, 10_000, 10)).unwrap();
    let start = Instant::now();
    let response = raw(
        service.address,
        format!(
            "POST /v1/apps/{APP}?key={id} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
             Content-Length: 1000\r\n\r\nonly this"
        ),
    );
    assert_eq!((response.status, &response.json()["code"]), (408, &"body_timeout".into()));
    // A head that never ends: the connection is closed.
    let mut stream = TcpStream::connect(service.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost:").unwrap();
    assert!([0, 408].contains(&read_response(&mut stream).status));
    assert!(start.elapsed() < Duration::from_secs(8));
    wait_until("only the keys are counted", || service.metric("unspoken_memory_bytes") == 10.0);
}

#[test]
fn an_answer_that_takes_too_long_is_cancelled() {
    let mut setup = Setup::new();
    setup.config.timeouts.answer = Duration::from_millis(300);
    let service = setup.start();
    let client = service.client(None);
    let bundle = bundle(1, 10_000, 10);
    let id = upload(&client, &bundle).unwrap();
    let refused = ask(&client, &id, query(60_000, b"x")).unwrap_err();
    assert_eq!(refused.code(), Some(ProblemCode::AnswerTimeout), "{refused}");
    wait_until("the work stopped", || service.seen.cancelled.load(Ordering::SeqCst) == 1);
    assert_eq!(ask(&client, &id, query(0, b"x")).unwrap(), expected(&bundle, b"x"));
}

#[test]
fn a_client_that_goes_away_stops_the_work() {
    let service = Setup::new().start();
    let client = service.client(None);
    let id = upload(&client, &bundle(1, 10_000, 10)).unwrap();
    let cancel = Cancel::new();
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| client.ask(APP, &id, query(60_000, b"x"), &cancel));
        wait_until("the work runs", || service.seen.running.load(Ordering::SeqCst) == 1);
        cancel.cancel();
        assert!(matches!(asking.join().unwrap(), Err(Error::Cancelled)));
    });
    wait_until("the work stopped", || service.seen.cancelled.load(Ordering::SeqCst) == 1);
    wait_until("the worker is free", || service.metric("unspoken_workers_busy") == 0.0);
    wait_until("only the keys are counted", || service.metric("unspoken_memory_bytes") == 10.0);
}

#[test]
fn a_fault_of_the_application_is_one_clients_500() {
    let service = Setup::new().start();
    let client = service.client(None);
    let bundle = bundle(1, 10_000, 10);
    let id = upload(&client, &bundle).unwrap();
    let cases: [(&[u8], ProblemCode); 4] = [
        (b"panic", ProblemCode::Internal),
        (b"long", ProblemCode::Internal),
        (b"internal", ProblemCode::Internal),
        (b"misfit", ProblemCode::DoesNotFit),
    ];
    for (bytes, code) in cases {
        // More requests than workers: no worker is lost.
        for _ in 0..3 {
            let refused = ask(&client, &id, query(0, bytes)).unwrap_err();
            assert_eq!(refused.code(), Some(code), "{refused}");
            assert!(!refused.to_string().contains("secret reason"), "{refused}");
        }
    }
    let refused = ask(&impatient(service.address), &id, query(0, b"busy")).unwrap_err();
    assert_eq!(refused.code(), Some(ProblemCode::Overloaded), "{refused}");
    let Error::GaveUp { last, .. } = refused else { panic!("clients do not ask again: {refused}") };
    let Error::Refused(problem) = *last else { panic!("{last}") };
    assert_eq!((problem.status, problem.retry_after), (503, Some(Duration::from_secs(1))), "{problem}");
    assert!(problem.message.contains("a session in use"), "{problem}");
    let refused = ask(&client, &id, vec![1]).unwrap_err();
    assert_eq!(refused.code(), Some(ProblemCode::MalformedQuery), "{refused}");
    assert_eq!(ask(&client, &id, query(0, b"x")).unwrap(), expected(&bundle, b"x"));
    wait_until("the worker is free", || service.metric("unspoken_workers_busy") == 0.0);
    wait_until("only the keys are counted", || service.metric("unspoken_memory_bytes") == 10.0);
}
