//! Connections that use up the places of others.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use tokio::net::TcpSocket;

use crate::process::Process;
use crate::support::*;

/// A connection from another address of this machine.
fn connect_from(source: &str, target: SocketAddr) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let stream = runtime.block_on(async {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(format!("{source}:0").parse().unwrap()).unwrap();
        socket.connect(target).await.unwrap().into_std().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
}

fn ask_health(mut stream: TcpStream) -> u16 {
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    read_response(&mut stream).status
}

/// Whether the service has closed a connection on which nothing was sent.
fn is_closed(stream: &mut TcpStream, wait: Duration) -> bool {
    stream.set_read_timeout(Some(wait)).unwrap();
    match stream.read(&mut [0; 1]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn one_address_does_not_take_all_connections() {
    let mut setup = Setup::new();
    setup.tokens(["ann"]);
    setup.config.limits.connections = 8;
    setup.config.limits.connections_per_address = 5;
    let service = setup.start();
    let mut silent: Vec<_> = (0..12).map(|_| connect_from("127.0.0.1", service.address)).collect();
    wait_until("the rest are closed", || {
        service.metric("unspoken_connections_refused_total{listener=\"clients\"}") == 7.0
    });
    assert_eq!(service.metric("unspoken_connections{listener=\"clients\"}"), 5.0);
    assert!(silent[5..].iter_mut().all(|stream| is_closed(stream, Duration::from_secs(5))));
    assert!(!silent[..5].iter_mut().any(|stream| is_closed(stream, Duration::from_millis(20))));
    // Another address can connect, and so can the first one after it has closed a connection.
    assert_eq!(ask_health(connect_from("127.0.0.2", service.address)), 200);
    drop(silent);
    wait_until("the connections are closed", || service.metric("unspoken_connections{listener=\"clients\"}") == 0.0);
    assert_eq!(ask_health(connect_from("127.0.0.1", service.address)), 200);
}

#[test]
fn without_a_number_one_address_has_a_quarter_of_the_connections() {
    let mut setup = Setup::new();
    setup.config.limits.connections = 8;
    let service = setup.start();
    let _silent: Vec<_> = (0..8).map(|_| connect_from("127.0.0.1", service.address)).collect();
    wait_until("two are left", || service.metric("unspoken_connections_refused_total{listener=\"clients\"}") == 6.0);
    assert_eq!(service.metric("unspoken_connections{listener=\"clients\"}"), 2.0);
}

#[test]
fn a_connection_without_an_authorized_request_is_closed_soon() {
    let mut setup = Setup::new();
    setup.config.timeouts.authorization = Duration::from_millis(500);
    let [ann] = setup.tokens(["ann"]);
    let service = setup.start();
    let request = |token: &str| format!("GET /v1/apps HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n");
    let status = |stream: &mut TcpStream, token: &str| -> Option<u16> {
        stream.write_all(request(token).as_bytes()).ok()?;
        let mut part = [0; 4096];
        let count = stream.read(&mut part).ok()?;
        String::from_utf8_lossy(&part[..count]).split(' ').nth(1)?.parse().ok()
    };
    let start = Instant::now();
    let mut silent = TcpStream::connect(service.address).unwrap();
    let mut stranger = TcpStream::connect(service.address).unwrap();
    let mut known = TcpStream::connect(service.address).unwrap();
    assert_eq!(status(&mut known, &ann), Some(200));
    // Requests without a known token do not keep a connection open.
    let mut refusals = 0;
    while status(&mut stranger, "guess") == Some(401) {
        refusals += 1;
        assert!(start.elapsed() < Duration::from_secs(8), "{refusals} guesses");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(refusals > 0);
    assert!(is_closed(&mut silent, Duration::from_secs(8)));
    // Requests with a known token do.
    std::thread::sleep(Duration::from_millis(600));
    assert_eq!(status(&mut known, &ann), Some(200));
}

#[test]
fn a_slow_request_of_a_known_client_is_not_cut_off() {
    let mut setup = Setup::new();
    setup.config.timeouts.authorization = Duration::from_millis(300);
    let [ann] = setup.tokens(["ann"]);
    let service = setup.start();
    let client = service.client(Some(&ann));
    let bundle = bundle(1, 1000, 10);
    let id = upload(&client, &bundle).unwrap();
    assert_eq!(ask(&client, &id, query(1200, b"slow")).unwrap(), expected(&bundle, b"slow"));
}

/// Descriptors end before the connections that were configured do.
#[test]
fn idle_connections_leave_descriptors_for_the_store() {
    const HARD: u64 = 300;
    let mut setup = Setup::new();
    setup.config.limits.connections_per_address = 1024;
    setup.config.timeouts.sweep = Duration::from_millis(100);
    setup.config.timeouts.authorization = Duration::from_secs(60);
    let service = Process::start_with(&setup.config, &setup.dir.path().join("data"), Some((64, HARD)));
    let client = transport(service.address, None);
    let bundle = bundle(1, 1000, 10);
    let id = upload(&client, &bundle).unwrap();
    let limit = |name| metric(service.metrics_address, name);
    assert_eq!(limit("process_max_fds"), HARD as f64, "the soft limit was not raised");

    // More connections than there are places: the last ones wait.
    let mut silent: Vec<_> = (0..200).map(|_| TcpStream::connect(service.address).unwrap()).collect();
    let open = "unspoken_connections{listener=\"clients\"}";
    wait_until("all places are taken", || limit(open) > 120.0);
    std::thread::sleep(Duration::from_millis(500));
    assert!(limit(open) < 180.0, "{}", limit(open));
    assert!(limit("process_open_fds") < HARD as f64 - 50.0);
    // Keys are read and written, and the sweep's tests of the disk succeeded.
    silent.truncate(100);
    wait_until("there are places", || limit(open) < 105.0);
    assert_eq!(ask(&client, &id, query(0, b"x")).unwrap(), expected(&bundle, b"x"));
    let mut ready = TcpStream::connect(service.address).unwrap();
    ready.write_all(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    assert_eq!(read_response(&mut ready).status, 200);
}

#[test]
fn heads_that_cannot_be_read_are_answered_and_counted() {
    let service = Setup::new().start();
    let counted = |status: &str| {
        let line = format!("unspoken_requests_total{{method=\"other\",route=\"unreadable\",status=\"{status}\"}}");
        wait_until("it is counted", || service.metrics().contains(&line));
    };
    assert_eq!(raw(service.address, "GET /healthz HTTP/9\r\n\r\n").status, 400);
    counted("400");
    let long = |bytes: usize| {
        let header = "x".repeat(bytes);
        raw(service.address, format!("GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX: {header}\r\n\r\n"))
    };
    assert_eq!(long(14_000).status, 200);
    assert_eq!(long(20_000).status, 431);
    counted("431");
    // What axum refuses has a problem as its body, and is counted as any request.
    let refused = service.get("/v1/keys/%FF");
    assert_eq!((refused.status, &refused.json()["code"]), (400, &"malformed_request".into()));
    assert_eq!(service.metric("unspoken_requests_total{method=\"GET\",route=\"/v1/keys/{id}\",status=\"400\"}"), 1.0);
}
