//! The transport against a peer that misbehaves like an unreliable network. The server's tests use it with the real
//! service.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use unspoken_client::transport::{Cancel, Error, GiveUp, KeyId, Transport, TransportConfig, UnreachableCause, Waiting};
use unspoken_wire::v1::{ApplicationList, KeyStatus, Problem};
use unspoken_wire::{Message, ProblemCode, answer_front, problem_frame, progress_frame};

const KEY: &str = "0123456789abcdef0123456789abcdef";

/// Answers one connection after the other with these bytes, and closes each. The thread returns the number of requests.
struct Peer {
    address: SocketAddr,
    thread: JoinHandle<usize>,
}

impl Peer {
    fn start(responses: Vec<Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            let mut served = 0;
            for response in responses {
                let (mut stream, _) = listener.accept().unwrap();
                read_request(&mut stream);
                served += 1;
                stream.write_all(&response).unwrap();
            }
            served
        });
        Self { address, thread }
    }

    fn served(self) -> usize {
        self.thread.join().unwrap()
    }
}

/// Reads a request, so that the connection is not reset when it is closed, and returns its head in lower case.
fn read_request(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
    stream.read_exact(&mut vec![0; length]).unwrap();
    head
}

fn response(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Type: application/x-protobuf\r\n\
         {headers}Content-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

fn names() -> Vec<u8> {
    response("200 OK", "", &ApplicationList { names: vec!["a/b".into()] }.encode_to_vec())
}

fn refusal(code: ProblemCode, headers: &str) -> Vec<u8> {
    let problem = Problem { code: code.name().into(), ..Problem::default() };
    response(&format!("{} no", code.status()), headers, &problem.encode_to_vec())
}

fn config(address: SocketAddr) -> TransportConfig {
    let mut config = TransportConfig::new(format!("http://{address}"));
    config.retry.first_pause = Duration::from_millis(10);
    config.retry.patience = Duration::from_secs(10);
    config.max_answer_bytes = 1000;
    config
}

#[test]
fn it_comes_again_when_it_is_told_to_and_not_before() {
    let peer = Peer::start(vec![refusal(ProblemCode::QueueFull, "Retry-After: 1\r\n"), names()]);
    let start = Instant::now();
    let found = Transport::new(config(peer.address)).unwrap().applications(&Cancel::new());
    assert_eq!(found.unwrap(), ["a/b"]);
    assert!(start.elapsed() >= Duration::from_secs(1), "{:?}", start.elapsed());
    assert_eq!(peer.served(), 2);
}

#[test]
fn it_does_not_come_again_when_that_cannot_help() {
    let peer = Peer::start(vec![refusal(ProblemCode::Unauthorized, "")]);
    let transport = Transport::new(config(peer.address)).unwrap();
    let refused = transport.applications(&Cancel::new()).unwrap_err();
    assert!(matches!(refused, Error::Refused(_)), "{refused}");
    assert_eq!(refused.code(), Some(ProblemCode::Unauthorized));
    assert_eq!(peer.served(), 1);
}

/// A page of a proxy.
fn page(status: &str, headers: &str) -> Vec<u8> {
    let body = "<html>a page</html>";
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Type: text/html\r\n{headers}Content-Length: {length}\r\n\r\n\
         {body}"
    )
    .into_bytes()
}

#[test]
fn a_proxy_that_does_not_reach_the_service_is_tried_again() {
    let busy = ["429 Too Many Requests", "502 Bad Gateway", "503 Service Unavailable", "504 Gateway Timeout"];
    let pages = busy.map(|status| page(status, ""));
    let peer = Peer::start([pages.as_slice(), &[names()], &pages, &[response("200 OK", "", &[7; 9])]].concat());
    let transport = Transport::new(config(peer.address)).unwrap();
    assert_eq!(transport.applications(&Cancel::new()).unwrap(), ["a/b"]);
    // A query too: after a lost connection it is sent again as well, with the same bytes.
    let key = KeyId::parse(KEY).unwrap();
    assert_eq!(transport.ask("a/b", &key, vec![1], &Cancel::new()).unwrap(), [7; 9].as_slice());
    assert_eq!(peer.served(), 10);
    // Other pages, and refusals of the service itself, say nothing of a later time.
    let final_ones = [page("404 Not Found", ""), page("500 Oops", ""), refusal(ProblemCode::QueueFull, "")];
    let peer = Peer::start(final_ones.to_vec());
    let transport = Transport::new(config(peer.address)).unwrap();
    for status in [404, 500, 503] {
        let error = transport.applications(&Cancel::new()).unwrap_err();
        assert!(matches!(&error, Error::Refused(problem) if problem.status == status), "{error}");
    }
    assert_eq!(peer.served(), 3);
}

#[test]
fn a_proxy_without_its_service_gets_the_patience_of_a_port_without_one() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut config = config(listener.local_addr().unwrap());
    config.retry.connect_patience = Duration::from_millis(300);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            read_request(&mut stream);
            let _ = stream.write_all(&page("502 Bad Gateway", ""));
        }
    });
    let (error, time, waits) = failure(config);
    let Error::GaveUp { reason: GiveUp::Patience, last, .. } = &error else { panic!("{error}") };
    assert!(matches!(&**last, Error::Refused(problem) if problem.status == 502), "{error}");
    assert!((Duration::from_millis(290)..Duration::from_secs(5)).contains(&time), "{time:?}");
    let of_proxy = "no Unspoken service answered: HTTP status 502 Bad Gateway; check the address";
    assert!(last.to_string().starts_with(of_proxy), "{last}");
    assert!(waits[0].to_string().contains("HTTP status 502 Bad Gateway;"), "{}", waits[0]);
}

#[test]
fn requests_go_below_the_path_of_the_address() {
    for (path, expected) in [("/unspoken", "/unspoken/v1/apps"), ("/a/b/", "/a/b/v1/apps"), ("/", "/v1/apps")] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let serving = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let head = read_request(&mut stream);
            stream.write_all(&names()).unwrap();
            head
        });
        let config = TransportConfig::new(format!("http://{address}{path}")).with_token("unspoken_token");
        Transport::new(config).unwrap().applications(&Cancel::new()).unwrap();
        let head = serving.join().unwrap();
        assert!(head.starts_with(&format!("get {expected} http/1.1\r\n")), "{head}");
    }
}

#[test]
fn lost_connections_are_made_up_for() {
    let half = names()[..40].to_vec();
    let short = [names()[..names().len() - 2].to_vec(), half, Vec::new(), names()];
    let peer = Peer::start(short.to_vec());
    let found = Transport::new(config(peer.address)).unwrap().applications(&Cancel::new());
    assert_eq!(found.unwrap(), ["a/b"]);
    assert_eq!(peer.served(), 4);
}

#[test]
fn it_gives_up_in_the_time_allowed_and_says_why() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut config = config(nobody);
    config.retry.patience = Duration::from_millis(300);
    let start = Instant::now();
    let error = Transport::new(config).unwrap().applications(&Cancel::new()).unwrap_err();
    match &error {
        Error::GaveUp { last, .. } => assert!(matches!(**last, Error::Unreachable { .. })),
        other => panic!("{other}"),
    }
    assert!(error.to_string().contains("connection refused, nothing listens at this port; start the"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(5));
}

/// Fails and returns the error, the time, and what was waited for.
fn failure(mut config: TransportConfig) -> (Error, Duration, Vec<Waiting>) {
    let waits = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&waits);
    config.on_wait = Some(Arc::new(move |wait: &Waiting| seen.lock().unwrap().push(wait.clone())));
    let start = Instant::now();
    let error = Transport::new(config).unwrap().applications(&Cancel::new()).unwrap_err();
    let waits = waits.lock().unwrap().clone();
    (error, start.elapsed(), waits)
}

#[test]
fn errors_that_cannot_heal_are_reported_at_once_with_their_cause() {
    let peer = |response: &[u8]| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, response) = (listener.local_addr().unwrap(), response.to_vec());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(&response);
            }
        });
        address
    };
    let plain = peer(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    // A fatal alert of TLS.
    let tls = peer(&[0x15, 3, 3, 0, 2, 2, 70]);
    // No name server has to be asked about a label of more than 63 letters.
    let nowhere = format!("{}.example:8443", "a".repeat(70));
    for (url, cause, says) in [
        (format!("https://{nowhere}"), UnreachableCause::UnknownHost, "no host has this name; check the spelling"),
        (format!("http://{nowhere}"), UnreachableCause::UnknownHost, "no host has this name; check the spelling"),
        (format!("https://{plain}"), UnreachableCause::NotHttps, "the port speaks http, not https; write http://"),
        (format!("http://{tls}"), UnreachableCause::NotHttp, "write https:// in the address"),
    ] {
        let (error, time, waits) = failure(TransportConfig { insecure_http: true, ..TransportConfig::new(&url) });
        assert!(matches!(&error, Error::Unreachable { cause: found, .. } if *found == cause), "{error}");
        assert!(error.to_string().contains(says) && error.to_string().contains(&url), "{error}");
        assert!(time < Duration::from_secs(5) && waits.is_empty(), "{time:?} {waits:?}");
    }
}

#[test]
fn it_says_at_once_what_it_waits_for() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut config = config(nobody);
    config.retry.connect_patience = Duration::from_millis(400);
    let (error, time, waits) = failure(config.clone());
    assert!(matches!(error, Error::GaveUp { .. }), "{error}");
    assert!(time < Duration::from_secs(3), "{time:?}");
    assert!(waits.len() >= 2 && waits[0].tries == 1 && waits[0].spent < Duration::from_millis(300), "{waits:?}");
    let said = format!("waiting for http://{nobody}: connection refused, nothing listens at this port; giving up in");
    assert!(waits[0].to_string().starts_with(&said), "{}", waits[0]);
    // It tries until the time that it says.
    assert!(time >= Duration::from_millis(390), "{time:?}");
    assert!(error.to_string().contains("gave up after 0.4 s; to wait for longer, set --timeout"), "{error}");
    // A timeout takes the place of both limits.
    let (error, time, _) = failure(config.with_timeout(3.0).unwrap());
    assert!(matches!(error, Error::GaveUp { reason: GiveUp::Timeout, .. }), "{error}");
    assert!(error.to_string().contains("gave up after 3.0 s, as --timeout SECONDS"), "{error}");
    assert!((Duration::from_millis(2900)..Duration::from_secs(6)).contains(&time), "{time:?}");
}

#[test]
fn a_service_that_answered_once_is_waited_for_longer() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut config = config(listener.local_addr().unwrap());
    (config.retry.connect_patience, config.retry.patience) = (Duration::ZERO, Duration::from_secs(1));
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        read_request(&mut stream);
        stream.write_all(&names()).unwrap();
    });
    let transport = Transport::new(config).unwrap();
    transport.applications(&Cancel::new()).unwrap();
    serving.join().unwrap();
    let start = Instant::now();
    let error = transport.applications(&Cancel::new()).unwrap_err();
    assert!(error.to_string().contains("connection refused"), "{error}");
    assert!(start.elapsed() > Duration::from_millis(300), "{:?}", start.elapsed());
}

#[test]
fn a_timeout_bounds_every_wait() {
    // Connections are accepted by the system, and nobody answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = config(silent.local_addr().unwrap()).with_timeout(0.4).unwrap();
    let transport = Transport::new(config.clone()).unwrap();
    let (key, cancel) = (KeyId::parse(KEY).unwrap(), Cancel::new());
    let start = Instant::now();
    for error in [
        transport.applications(&cancel).unwrap_err(),
        transport.ask("a/b", &key, vec![1], &cancel).unwrap_err(),
        transport.upload_keys("a/b", 1, &mut std::io::Cursor::new([5; 10]), |_| {}, &cancel).unwrap_err(),
    ] {
        assert!(matches!(error, Error::TimedOut { .. }), "{error}");
        assert!(error.to_string().contains("no answer within 0.4 s; allow more with --timeout SECONDS"), "{error}");
    }
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    for seconds in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(config.clone().with_timeout(seconds), Err(Error::Config { .. })), "{seconds}");
    }
}

#[test]
fn a_service_that_accepts_and_does_not_answer_is_shown() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let (error, _, waits) = failure(config(silent.local_addr().unwrap()).with_timeout(3.5).unwrap());
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
    assert_eq!(waits.len(), 1, "{waits:?}");
    assert!(waits[0].to_string().contains("connected, but no answer yet; giving up in 0 s"), "{}", waits[0]);
}

#[test]
fn an_address_without_a_scheme_is_understood() {
    let peer = Peer::start(vec![names()]);
    let transport = Transport::new(TransportConfig::new(peer.address.to_string())).unwrap();
    assert_eq!(transport.url(), format!("http://{}", peer.address));
    assert_eq!(transport.applications(&Cancel::new()).unwrap(), ["a/b"]);
    let distant = Transport::new(TransportConfig::new("ask.example.org:8080")).unwrap();
    assert_eq!(distant.url(), "https://ask.example.org:8080");
}

#[test]
fn a_wait_can_be_cancelled() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let transport = Transport::new(config(listener.local_addr().unwrap())).unwrap();
    let cancel = Cancel::new();
    let start = Instant::now();
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| transport.ask("a/b", &KeyId::parse(KEY).unwrap(), vec![1], &cancel));
        let (mut stream, _) = listener.accept().unwrap();
        read_request(&mut stream);
        cancel.cancel();
        assert!(matches!(asking.join().unwrap(), Err(Error::Cancelled)));
        // The service sees that the client disconnected.
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        assert!(stream.read_to_end(&mut Vec::new()).is_ok());
    });
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn answers_over_the_limit_and_pages_of_strangers_are_errors() {
    let page = b"HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Type: text/html\r\n\
                 Content-Length: 6\r\n\r\n<html>";
    let endless = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
    let endless = [endless.as_slice(), &[7; 1001]].concat();
    let long = response("200 OK", "", &[7; 1001]);
    let garbage = response("200 OK", "", &[0xff; 100]);
    let peer = Peer::start(vec![long, endless, page.to_vec(), garbage]);
    let transport = Transport::new(config(peer.address)).unwrap();
    let (key, cancel) = (KeyId::parse(KEY).unwrap(), Cancel::new());
    for _ in 0..2 {
        let error = transport.ask("a/b", &key, vec![1], &cancel).unwrap_err();
        assert!(error.to_string().contains("over 1000 bytes"), "{error}");
    }
    let error = transport.ask("a/b", &key, vec![1], &cancel).unwrap_err();
    assert!(matches!(&error, Error::Refused(problem) if problem.status == 404), "{error}");
    assert!(matches!(transport.applications(&cancel), Err(Error::Protocol { .. })));
    assert_eq!(peer.served(), 4);
}

#[test]
fn it_works_inside_an_asynchronous_runtime_too() {
    let peer = Peer::start(vec![names()]);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let transport = Transport::new(config(peer.address)).unwrap();
        assert_eq!(transport.applications(&Cancel::new()).unwrap(), ["a/b"]);
    });
}

#[test]
fn what_cannot_be_sent_is_refused_here() {
    for url in ["", "ftp://localhost", "http://", "two words"] {
        let refused = Transport::new(TransportConfig::new(url));
        assert!(matches!(refused.err(), Some(Error::Config { .. })), "{url:?}");
    }
    for (bytes, says) in [
        (b"".as_slice(), "found an empty file; needed certificates in PEM, or one in DER"),
        (b"\n", "found an empty file"),
        (b"no PEM", "found no certificate"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "found no certificate"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n", "found damaged PEM"),
        (b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "found no certificate"),
    ] {
        let authorities = TransportConfig::new("https://localhost").with_authorities(bytes);
        let error = Transport::new(authorities).err().unwrap();
        assert!(matches!(error, Error::Config { .. }) && error.to_string().contains(says), "{error}");
    }
    for id in ["", "xyz", &KEY.to_uppercase(), &KEY[1..]] {
        assert!(KeyId::parse(id).is_err(), "{id:?}");
    }
    let transport = Transport::new(TransportConfig::new("http://127.0.0.1:9")).unwrap();
    let escape = transport.describe("../keys", &Cancel::new());
    assert!(matches!(escape.err(), Some(Error::Config { .. })));
}

#[test]
fn an_absurd_retry_after_is_no_panic() {
    let absurd = refusal(ProblemCode::QueueFull, "Retry-After: 18446744073709551615\r\n");
    let peer = Peer::start(vec![absurd]);
    let error = Transport::new(config(peer.address)).unwrap().applications(&Cancel::new()).unwrap_err();
    assert!(matches!(&error, Error::GaveUp { reason: GiveUp::ToldToWait { .. }, .. }), "{error}");
    let says = "the service asks to wait for 86400 s, and a call waits for 10 s at most";
    assert!(error.to_string().contains(says), "{error}");
    assert_eq!(peer.served(), 1);
}

#[test]
fn an_answer_is_read_as_far_as_the_application_allows() {
    let peer = Peer::start(vec![response("200 OK", "", &[7; 101]), response("200 OK", "", &[7; 100])]);
    let transport = Transport::new(config(peer.address)).unwrap();
    let (key, cancel) = (KeyId::parse(KEY).unwrap(), Cancel::new());
    let error = transport.ask_at_most("a/b", &key, vec![1], 100, &cancel).unwrap_err();
    assert!(error.to_string().contains("over 100 bytes"), "{error}");
    assert_eq!(transport.ask_at_most("a/b", &key, vec![1], 100, &cancel).unwrap().len(), 100);
    assert_eq!(peer.served(), 2);
}

/// A response in steps that ends with the connection, as far as these parts.
fn in_steps(parts: &[Vec<u8>]) -> Vec<u8> {
    let head = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/x-unspoken-progress\r\n\r\n";
    [head.as_slice(), &parts.concat()].concat()
}

/// Steps done, and in total, as they were reported.
type Steps = Vec<(u32, u32)>;

/// Asks for an answer of at most 100 bytes. Returns it, and the steps that were reported.
fn ask_in_steps(peer: &Peer) -> (Result<Vec<u8>, Error>, Steps) {
    let transport = Transport::new(config(peer.address)).unwrap();
    let mut steps = Vec::new();
    let report = |done, total| steps.push((done, total));
    let key = KeyId::parse(KEY).unwrap();
    let answer = transport.ask_with_progress("a/b", &key, vec![1], 100, report, &Cancel::new());
    (answer.map(Vec::from), steps)
}

#[test]
fn progress_is_shown_as_it_arrives_on_the_thread_that_asks() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let transport = Transport::new(config(listener.local_addr().unwrap())).unwrap();
    let (shown, show) = std::sync::mpsc::channel();
    let asking = std::thread::current().id();
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let head = read_request(&mut stream);
        assert!(head.contains("accept: application/x-unspoken-progress, application/x-protobuf\r\n"), "{head}");
        // A step without a number only keeps the connection open.
        stream.write_all(&in_steps(&[progress_frame(0, 0), progress_frame(0, 9)])).unwrap();
        for step in [1, 5, 9] {
            assert_eq!(show.recv_timeout(Duration::from_secs(5)).unwrap(), step - step.min(4));
            // The same one twice, and in pieces.
            let frame = progress_frame(step, 9).repeat(2);
            let (first, rest) = frame.split_at(3);
            stream.write_all(first).unwrap();
            std::thread::sleep(Duration::from_millis(20));
            stream.write_all(rest).unwrap();
        }
        assert_eq!(show.recv_timeout(Duration::from_secs(5)).unwrap(), 9);
        stream.write_all(&[answer_front(100), vec![7; 100]].concat()).unwrap();
    });
    let report = |done, total| {
        assert_eq!((total, std::thread::current().id()), (9, asking));
        shown.send(done).unwrap();
    };
    let key = KeyId::parse(KEY).unwrap();
    let answer = transport.ask_with_progress("a/b", &key, vec![1], 100, report, &Cancel::new()).unwrap();
    assert_eq!(answer, vec![7; 100]);
    serving.join().unwrap();
}

#[test]
fn a_service_that_knows_no_progress_answers_plainly() {
    let peer = Peer::start(vec![response("200 OK", "", &[7; 100]), refusal(ProblemCode::DoesNotFit, "")]);
    assert_eq!(ask_in_steps(&peer).0.unwrap(), [7; 100]);
    let (refused, steps) = ask_in_steps(&peer);
    assert_eq!((refused.unwrap_err().code(), steps), (Some(ProblemCode::DoesNotFit), Steps::new()));
    assert_eq!(peer.served(), 2);
}

#[test]
fn a_refusal_among_the_steps_is_tried_again_if_it_says_so() {
    let problem = |retry_after_seconds| {
        let code = ProblemCode::ShuttingDown;
        let status = code.status().into();
        let text = "found this".into();
        problem_frame(&Problem {
            code: code.name().into(),
            status,
            message: text,
            retry_after_seconds,
            ..Problem::default()
        })
    };
    let answered = in_steps(&[progress_frame(2, 3), answer_front(1), vec![7]]);
    let peer = Peer::start(vec![in_steps(&[progress_frame(1, 2), problem(1)]), answered]);
    let start = Instant::now();
    let (answer, steps) = ask_in_steps(&peer);
    assert_eq!((answer.unwrap(), steps), (vec![7], vec![(1, 2), (2, 3)]));
    assert!(start.elapsed() >= Duration::from_secs(1), "{:?}", start.elapsed());
    assert_eq!(peer.served(), 2);

    let peer = Peer::start(vec![in_steps(&[problem(0)])]);
    let (refused, _) = ask_in_steps(&peer);
    let Err(Error::Refused(refused)) = refused else { panic!("{refused:?}") };
    assert_eq!((refused.known_code(), refused.status), (Some(ProblemCode::ShuttingDown), 503));
    assert_eq!((refused.message.as_str(), refused.retry_after), ("found this", None));
    assert_eq!(peer.served(), 1);
}

/// A service that works on an answer for longer than a client is patient, and loses the answer a number of times.
#[test]
fn patience_begins_with_the_loss_of_an_answer_three_times() {
    for (losses, answered) in [(3, true), (4, false)] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut config = config(listener.local_addr().unwrap());
        config.retry.patience = Duration::from_millis(300);
        std::thread::spawn(move || {
            for number in 0.. {
                let (mut stream, _) = listener.accept().unwrap();
                read_request(&mut stream);
                stream.write_all(&in_steps(&[progress_frame(1, 9)])).unwrap();
                std::thread::sleep(Duration::from_millis(500));
                if number == losses {
                    stream.write_all(&[answer_front(1), vec![7]].concat()).unwrap();
                }
            }
        });
        let (transport, key) = (Transport::new(config).unwrap(), KeyId::parse(KEY).unwrap());
        let mut works = 0;
        let report = |_, _| works += 1;
        let answer = transport.ask_with_progress("a/b", &key, vec![1], 100, report, &Cancel::new());
        assert_eq!(works, 4);
        match answered {
            true => assert_eq!(answer.unwrap(), [7].as_slice()),
            false => assert!(matches!(answer, Err(Error::GaveUp { .. })), "{answer:?}"),
        }
    }
}

/// The service dies while a query has waited there for longer than a client is patient, and comes back.
#[test]
fn patience_with_a_query_that_waited_begins_with_its_loss() {
    // With steps, of which none has a number, and without.
    for in_queue in [in_steps(&[progress_frame(0, 0)]), Vec::new()] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut config = config(listener.local_addr().unwrap());
        config.retry.patience = Duration::from_millis(300);
        let losses = if in_queue.is_empty() { 1 } else { 3 };
        std::thread::spawn(move || {
            for number in 0..=losses {
                let (mut stream, _) = listener.accept().unwrap();
                read_request(&mut stream);
                if number == losses {
                    stream.write_all(&in_steps(&[answer_front(1), vec![7]])).unwrap();
                } else {
                    stream.write_all(&in_queue).unwrap();
                    std::thread::sleep(Duration::from_millis(500));
                }
            }
        });
        let (transport, key) = (Transport::new(config).unwrap(), KeyId::parse(KEY).unwrap());
        let answer = transport.ask_with_progress("a/b", &key, vec![1], 100, |_, _| {}, &Cancel::new());
        assert_eq!(answer.unwrap(), [7].as_slice());
    }
}

#[test]
fn steps_without_an_answer_are_a_lost_connection() {
    let whole = in_steps(&[progress_frame(1, 2), answer_front(9), vec![7; 9]]);
    let cuts = [1, 9, 10, 11, 17].map(|missing| whole[..whole.len() - missing].to_vec());
    let peer = Peer::start([cuts.as_slice(), &[whole]].concat());
    assert_eq!(ask_in_steps(&peer).0.unwrap(), [7; 9]);
    assert_eq!(peer.served(), 6);
}

/// The caller's timeout counts, also where it is longer than the usual time for an answer.
#[test]
fn a_timeout_may_be_longer_than_the_time_for_an_answer() {
    for (timeout, answered) in [(None, false), (Some(20.0), true)] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut config = config(listener.local_addr().unwrap());
        config.answer_timeout = Duration::from_millis(300);
        if let Some(seconds) = timeout {
            config = config.with_timeout(seconds).unwrap();
        }
        let serving = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            read_request(&mut stream);
            std::thread::sleep(Duration::from_millis(900));
            let _ = stream.write_all(&in_steps(&[answer_front(1), vec![7]]));
        });
        let (transport, key) = (Transport::new(config).unwrap(), KeyId::parse(KEY).unwrap());
        let answer = transport.ask_with_progress("a/b", &key, vec![1], 100, |_, _| {}, &Cancel::new());
        match answered {
            true => assert_eq!(answer.unwrap(), [7].as_slice()),
            false => assert!(matches!(answer, Err(Error::TimedOut { .. })), "{answer:?}"),
        }
        serving.join().unwrap();
    }
}

#[test]
fn a_timeout_bounds_the_wait_for_the_answer_after_the_last_step() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = config(listener.local_addr().unwrap()).with_timeout(1.0).unwrap();
    let (asked, ask) = std::sync::mpsc::channel();
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        read_request(&mut stream);
        stream.write_all(&in_steps(&[progress_frame(1, 2)])).unwrap();
        // Steps without news are no answer either.
        while ask.try_recv().is_err() {
            let _ = stream.write_all(&progress_frame(1, 2));
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let (transport, key) = (Transport::new(config).unwrap(), KeyId::parse(KEY).unwrap());
    let mut steps = Steps::new();
    let report = |done, total| steps.push((done, total));
    let error = transport.ask_with_progress("a/b", &key, vec![1], 100, report, &Cancel::new()).unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
    assert_eq!(steps, [(1, 2)]);
    asked.send(()).unwrap();
    serving.join().unwrap();
}

#[test]
fn steps_that_make_no_sense_are_errors() {
    let cases: [(&[Vec<u8>], &str); 5] = [
        (&[answer_front(101)], "101 bytes, at most 100 are accepted"),
        (&[answer_front(1), vec![7], progress_frame(1, 2)], "the answer or the problem last"),
        (&[progress_frame(2, 1)], "2 of 1"),
        (&[vec![0xff; 20]], "tag is 0xff"),
        (&[problem_frame(&Problem::default())], "status of the problem is 0"),
    ];
    let peer = Peer::start(cases.iter().map(|(parts, _)| in_steps(parts)).collect());
    for (_, says) in cases {
        let error = ask_in_steps(&peer).0.unwrap_err();
        assert!(matches!(error, Error::Protocol { .. }) && error.to_string().contains(says), "{error}");
    }
    assert_eq!(peer.served(), 5);
    // Who did not ask for steps gets the bytes as they are.
    let peer = Peer::start(vec![in_steps(&[progress_frame(1, 2)])]);
    let transport = Transport::new(config(peer.address)).unwrap();
    let answer = transport.ask("a/b", &KeyId::parse(KEY).unwrap(), vec![1], &Cancel::new()).unwrap();
    assert_eq!(answer, progress_frame(1, 2));
}

#[test]
fn a_service_that_never_has_more_is_not_fed_for_ever() {
    // The offset never grows; or it grows by one and then falls back to zero.
    for offsets in [[0, 0], [1, 0]] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let status = |offset| {
                let status = KeyStatus { id: KEY.into(), offset, ..KeyStatus::default() };
                response("200 OK", "", &status.encode_to_vec())
            };
            for turn in 0.. {
                let (mut stream, _) = listener.accept().unwrap();
                // Reads the whole request, so that the connection is not reset before the answer is read.
                stream.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
                let mut request = [0; 1 << 14];
                while stream.read(&mut request).is_ok_and(|count| count > 0) {}
                let _ = stream.write_all(&status(offsets[turn % 2]));
            }
        });
        let mut config = config(address);
        config.chunk_bytes = 1000;
        let transport = Transport::new(config).unwrap();
        let mut sent = 0;
        let mut bundle = std::io::Cursor::new(vec![5; 3000]);
        let error = transport.upload_keys("a/b", 1, &mut bundle, |_| sent += 1, &Cancel::new()).unwrap_err();
        assert!(matches!(&error, Error::Protocol { .. }), "{error}");
        assert!(error.to_string().contains("of an upload"), "{error}");
    }
}

#[test]
fn plain_http_to_another_machine_needs_to_be_allowed() {
    for token in [None, Some("unspoken_token")] {
        let mut config = TransportConfig::new("http://192.0.2.1:8080");
        config.token = token.map(str::to_owned);
        let error = Transport::new(config.clone()).err().unwrap().to_string();
        assert!(error.contains("insecure-http") && error.contains("in the clear"), "{error}");
        config.insecure_http = true;
        assert!(Transport::new(config).is_ok());
    }
    for url in ["http://localhost:1", "http://127.0.0.1:1", "http://[::1]:1", "https://192.0.2.1"] {
        assert!(Transport::new(TransportConfig::new(url)).is_ok(), "{url}");
    }
}
