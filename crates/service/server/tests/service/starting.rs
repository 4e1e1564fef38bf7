//! A service that listens while it loads.

use std::time::{Duration, Instant};

use unspoken_client::transport::{Cancel, Error, Transport, TransportConfig, Waiting};
use unspoken_server::{Applications, Server, ServerConfig, Starting};
use unspoken_wire::ProblemCode;

use crate::support::*;

#[test]
fn clients_wait_while_a_service_loads_and_are_told_how_far_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let listen = ([127, 0, 0, 1], 0).into();
    let config = ServerConfig { listen, data_dir: directory.path().join("data"), ..ServerConfig::default() };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let starting = runtime.block_on(Starting::listen(&config)).unwrap();
    let address = starting.local_addr();
    starting.step().set("loading test/xor (1 of 2)");

    // Health, readiness, and a client that does not wait.
    let healthy = raw(address, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!((healthy.status, healthy.body.as_str()), (200, "ok\n"));
    let ready = raw(address, "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!((ready.status, ready.body.as_str()), (503, "starting: loading test/xor (1 of 2)\n"));
    let url = format!("http://{address}");
    let hasty = TransportConfig::new(&url).with_timeout(0.5).unwrap();
    let error = Transport::new(hasty).unwrap().applications(&Cancel::new()).unwrap_err();
    assert!(matches!(error, Error::GaveUp { .. }) && error.code() == Some(ProblemCode::Starting), "{error}");

    // A client that waits gets its answer soon after the service is there, though the service never answered before.
    let (told, tells) = std::sync::mpsc::channel();
    let mut config_of_client = TransportConfig::new(&url);
    config_of_client.retry.connect_patience = Duration::ZERO;
    config_of_client.on_wait = Some(std::sync::Arc::new(move |wait: &Waiting| drop(told.send(wait.to_string()))));
    let asking = std::thread::spawn(move || {
        let transport = Transport::new(config_of_client).unwrap();
        transport.applications(&Cancel::new())
    });
    let said = tells.recv_timeout(Duration::from_secs(10)).unwrap();
    assert!(said.contains("the service is starting: loading test/xor (1 of 2) (starting); giving up in"), "{said}");
    let applications = Applications::new().with(APP, Xor::new()).unwrap();
    let server = runtime.block_on(Server::bind_after(starting, config, applications)).unwrap();
    assert_eq!(server.local_addr().unwrap(), address);
    runtime.spawn(server.run(std::future::pending()));
    assert_eq!(asking.join().unwrap().unwrap(), [APP]);
    assert_eq!(raw(address, "GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").body, "ready\n");
}

#[test]
fn a_start_that_is_given_up_stops_answering_and_frees_its_address() {
    let directory = tempfile::tempdir().unwrap();
    let config = ServerConfig {
        listen: ([127, 0, 0, 1], 0).into(),
        data_dir: directory.path().join("data"),
        ..ServerConfig::default()
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let starting = runtime.block_on(Starting::listen(&config)).unwrap();
    let address = starting.local_addr();
    assert_eq!(raw(address, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").status, 200);
    drop(starting);
    let config = ServerConfig { listen: address, ..config };
    let start = Instant::now();
    let again = loop {
        match runtime.block_on(Starting::listen(&config)) {
            Ok(again) => break again,
            Err(error) => assert!(start.elapsed() < Duration::from_secs(10), "{error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(again.local_addr(), address);
}

#[test]
fn wrong_tokens_are_told_before_anything_is_loaded() {
    let directory = tempfile::tempdir().unwrap();
    let tokens = directory.path().join("tokens");
    std::fs::write(&tokens, "no hash\n").unwrap();
    let (listen, data_dir) = (([127, 0, 0, 1], 0).into(), directory.path().join("data"));
    let config = ServerConfig { listen, data_dir, tokens: Some(tokens), ..ServerConfig::default() };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let error = runtime.block_on(Starting::listen(&config)).map(drop).unwrap_err().to_string();
    assert!(error.contains("line 1 is not name:hash"), "{error}");
}
