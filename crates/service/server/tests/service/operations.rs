//! Health, metrics, logs and shutdown.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use unspoken_server::{Server, ServerConfig, ServerError};
use unspoken_wire::ProblemCode;

use crate::support::*;

#[test]
fn health_metrics_and_problems_are_there() {
    let service = Setup::new().start();
    assert_eq!(service.get("/healthz").body, "ok\n");
    assert_eq!(service.get("/readyz").status, 200);
    let client = service.client(None);
    let id = upload(&client, &bundle(1, 1000, 123)).unwrap();
    ask(&client, &id, query(0, b"x")).unwrap();
    assert_eq!(service.metric("unspoken_answer_seconds_count{application=\"test/xor\"}"), 1.0);
    assert_eq!(service.metric("unspoken_key_load_seconds_count{application=\"test/xor\"}"), 1.0);
    wait_until("only the keys are counted", || service.metric("unspoken_memory_bytes") == 123.0);
    assert_eq!(service.metric("unspoken_key_disk_bytes"), 1000.0);
    assert_eq!(service.metric("unspoken_key_bundles{state=\"ready\"}"), 1.0);
    let asked = "unspoken_requests_total{method=\"POST\",route=\"/v1/apps/{*name}\",status=\"200\"}";
    assert_eq!(service.metric(asked), 1.0);
    // Requests to the metrics listener are not counted.
    assert_eq!(service.metric("unspoken_requests_in_flight"), 0.0);

    for (path, status, code) in [
        ("/nowhere", 404, "not_found"),
        ("/v1/apps/no/such", 404, "application_not_found"),
        ("/v1/keys/x", 404, "key_not_found"),
        (&format!("/v1/keys/{}", id.as_str().to_uppercase()), 404, "key_not_found"),
        (&format!("/v1/keys/{id}/complete"), 405, "method_not_allowed"),
    ] {
        let response = service.get(path);
        assert_eq!((response.status, &response.json()["code"]), (status, &code.into()), "{path}");
        let problem = response.json();
        assert_eq!(response.header("x-request-id"), problem["request_id"].as_str());
    }
}

#[test]
fn a_shutdown_finishes_what_runs() {
    let mut setup = Setup::new();
    setup.config.timeouts.drain_notice = Duration::from_millis(300);
    let mut service = setup.start();
    let client = service.client(None);
    let bundle = bundle(1, 1000, 10);
    let id = upload(&client, &bundle).unwrap();
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| ask(&client, &id, query(1000, b"last")));
        wait_until("it runs", || service.seen.running.load(Ordering::SeqCst) == 1);
        service.begin_stop();
        wait_until("it is not ready", || service.get("/readyz").status == 503);
        assert_eq!(service.get("/healthz").status, 200);
        assert_eq!(asking.join().unwrap().unwrap(), expected(&bundle, b"last"));
    });
    let address = service.address;
    service.stop();
    assert!(std::net::TcpStream::connect(address).is_err());
}

#[test]
fn a_shutdown_that_runs_out_of_patience_cancels() {
    let mut setup = Setup::new();
    setup.config.timeouts.drain = Duration::from_millis(200);
    let service = setup.start();
    let setup_client = service.client(None);
    let id = upload(&setup_client, &bundle(1, 1000, 10)).unwrap();
    let (client, seen) = (impatient(service.address), service.seen.clone());
    let start = Instant::now();
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| ask(&client, &id, query(60_000, b"x")));
        wait_until("it runs", || seen.running.load(Ordering::SeqCst) == 1);
        service.stop();
        let refused = asking.join().unwrap().unwrap_err();
        assert_eq!(refused.code(), Some(ProblemCode::ShuttingDown), "{refused}");
    });
    assert_eq!(seen.cancelled.load(Ordering::SeqCst), 1);
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn logs_name_requests_and_hold_no_content() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .json()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    // Set for the whole process: other tests write to it too, which is harmless.
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let mut setup = Setup::new();
    let [token] = setup.tokens(["a-client-name"]);
    let service = setup.start();
    let client = service.client(Some(&token));
    let bundle = bundle(77, 1000, 10);
    let id = upload(&client, &bundle).unwrap();
    let text = "a very private question";
    let answer = ask(&client, &id, query(0, text.as_bytes())).unwrap();
    assert!(ask(&client, &id, query(0, b"internal")).is_err());
    let steps = "Accept: application/x-unspoken-progress\r\nX-Request-Id: in-steps\r\nConnection: close";
    let head = format!("POST /v1/apps/{APP}?key={id} HTTP/1.1\r\nHost: x\r\n{steps}\r\nContent-Length: 10\r\n");
    let head = format!("{head}Authorization: Bearer {token}\r\n\r\n");
    assert_eq!(raw(service.address, [head.as_bytes(), &query(600, b"misfit")].concat()).status, 200);
    service.stop();
    let bytes = log.0.lock().unwrap().clone();
    let lines = String::from_utf8_lossy(&bytes);
    assert!(lines.contains("a-client-name") && lines.contains("/v1/apps/{*name}"));
    assert!(lines.contains("\"received_bytes\":27"), "sizes are missing");
    let in_steps = lines.lines().find(|line| line.contains("in-steps")).unwrap();
    for part in ["\"status\":409", "\"code\":\"does_not_fit\"", "another model", "sent_bytes", "a-client-name"] {
        assert!(in_steps.contains(part), "{in_steps}");
    }
    let escaped = |bytes: &[u8]| bytes.escape_ascii().to_string();
    for secret in [token.as_str(), text, "private", &escaped(&answer), &escaped(&bundle[20..40])] {
        assert!(!lines.contains(secret), "the log holds {secret:?}");
    }
}

#[test]
fn a_configuration_that_makes_no_sense_is_named() {
    let fields = [
        ("[limits]\nqueue = 0", "limits.queue is 0"),
        ("[timeouts]\nstall = \"0s\"", "timeouts.stall is 0ns"),
        ("workers = 5000", "workers is 5000"),
    ];
    for (text, expected) in fields {
        let error = ServerConfig::from_toml(text).unwrap().check().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    assert!(matches!(ServerConfig::from_toml("lisen = 1"), Err(ServerError::Syntax(_))));
    let config = Setup::new().config;
    let json = serde_json::to_string(&config).unwrap();
    assert_eq!(ServerConfig::from_json(&json).unwrap(), config);
}

#[test]
fn a_service_that_has_no_memory_for_one_worker_does_not_start() {
    let bind = |memory_bytes, prepared_bytes| {
        let mut setup = Setup::new();
        setup.config.limits.memory_bytes = memory_bytes;
        setup.config.limits.connections = 32;
        setup.config.limits.bundles = 64;
        setup.app.prepared_bytes = prepared_bytes;
        setup.app.max_key_bytes = 5000;
        let apps = unspoken_server::Applications::new().with(APP, setup.app).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(Server::bind(setup.config, apps)).map(drop)
    };
    // A megabyte for the connections, two for an upload, one for an answer, the entries of bundles, the computation and
    // the keys.
    let enough = (4 << 20) + 64 * ENTRY_BYTES + 1000 + 5000;
    bind(enough, 0).unwrap();
    bind(enough + 1, 1).unwrap();
    for (memory, prepared) in [(enough - 1, 0), (enough, 1), (enough, u64::MAX), (1, 0)] {
        let refused = bind(memory, prepared).unwrap_err();
        assert!(matches!(refused, ServerError::Memory { limit, .. } if limit == memory));
    }
    let refused = bind(enough, 1).unwrap_err().to_string();
    for part in [
        "one worker takes 1054576 bytes of memory (answer 1048576, computation 1000, keys 5000)",
        "requests 2097152, 32 connections 1048576, 64 key bundles 81920",
        "models of all applications 1;",
        "limits.memory_bytes is 4282224, needed at least 4282225: raise it (--memory-mib 5)",
    ] {
        assert!(refused.contains(part), "{refused}");
    }
}

#[test]
fn memory_limits_the_number_of_workers() {
    let workers = |memory: u64| {
        let mut setup = Setup::new();
        setup.small_memory(memory);
        setup.config.workers = 8;
        setup.app.max_key_bytes = 1 << 20;
        let service = setup.start();
        service.metric("unspoken_workers ")
    };
    // A worker takes 1 MiB for keys, 1 MiB and 1000 bytes for the answer; three quarters of the memory are for workers.
    assert_eq!(workers(5 << 20), 1.0);
    assert_eq!(workers(12 << 20), 4.0);
    assert_eq!(workers(64 << 20), 8.0);
}

#[test]
fn half_a_request_does_not_hold_up_a_shutdown() {
    let mut setup = Setup::new();
    setup.config.timeouts.drain = Duration::from_secs(30);
    let mut service = setup.start();
    let client = service.client(None);
    let bundle = bundle(1, 1000, 10);
    let id = upload(&client, &bundle).unwrap();
    let connect = |bytes: &str| {
        let mut stream = TcpStream::connect(service.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(bytes.as_bytes()).unwrap();
        stream
    };
    let silent = connect("");
    let half_a_head = connect("GET /healthz HTTP/1.1\r\nHost:");
    let mut half_a_second_head = connect("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /heal");
    let mut answer = [0; 15];
    half_a_second_head.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
    let half_a_query =
        format!("POST /v1/apps/{APP}?key={id} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nonly this");
    let mut half_a_body = connect(&half_a_query);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| ask(&client, &id, query(1500, b"last")));
        wait_until("it runs", || service.seen.running.load(Ordering::SeqCst) == 1);
        wait_until("a query arrives", || service.metric("unspoken_requests_in_flight") == 2.0);
        let start = Instant::now();
        service.begin_stop();
        // What runs is finished, what cannot finish is not waited for.
        assert_eq!(asking.join().unwrap().unwrap(), expected(&bundle, b"last"));
        let refused = read_response(&mut half_a_body);
        assert_eq!((refused.status, &refused.json()["code"]), (503, &"shutting_down".into()));
        drop(service);
        assert!(start.elapsed() < Duration::from_secs(6), "{:?}", start.elapsed());
    });
    drop((silent, half_a_head));
}

#[test]
fn the_configuration_in_the_guide_is_the_default_one() {
    let guide = include_str!("../../../../../docs/service.md");
    let blocks = || guide.split("```toml\n").skip(1).filter_map(|block| block.split("```").next());
    let text = blocks().find(|block| block.contains("sweep = ")).unwrap();
    let config = ServerConfig::from_toml(text).unwrap();
    assert_eq!(config.limits, ServerConfig::default().limits);
    assert_eq!(config.timeouts, ServerConfig::default().timeouts);
    config.check().unwrap();
    let text = blocks().find(|block| block.contains("kind = ")).unwrap();
    let config = ServerConfig::from_toml(text).unwrap();
    assert_eq!((config.offers.len(), config.offers[1].name.as_deref()), (2, None));
    config.check().unwrap();
}
