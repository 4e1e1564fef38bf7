//! Connections that use up the places of others.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use tokio::net::TcpSocket;

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
