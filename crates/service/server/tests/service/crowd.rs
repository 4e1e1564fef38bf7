//! Fifty clients on two workers.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use unspoken_client::transport::Cancel;
use unspoken_wire::ProblemCode;

use crate::support::*;

#[test]
fn fifty_clients_are_all_answered() {
    const CLIENTS: usize = 50;
    const QUESTIONS: usize = 4;
    let mut setup = Setup::new();
    // Fewer places than clients: some are told to try again later.
    setup.config.limits.queue = 20;
    setup.config.limits.memory_bytes = 64 << 20;
    setup.app.max_key_bytes = 200_000;
    let names: Vec<String> = (0..CLIENTS).map(|number| format!("client-{number}")).collect();
    let names: [&str; CLIENTS] = std::array::from_fn(|number| names[number].as_str());
    let tokens = setup.tokens(names);
    let service = setup.start();
    let start = Instant::now();
    std::thread::scope(|scope| {
        for (number, token) in tokens.iter().enumerate() {
            let service = &service;
            scope.spawn(move || {
                let client = service.client(Some(token));
                let bundle = bundle(number as u8, 100_000 + number, 1 << 20);
                let id = upload(&client, &bundle).unwrap();
                for question in 0..QUESTIONS {
                    let bytes = format!("client {number} question {question}");
                    let answer = ask(&client, &id, query(5, bytes.as_bytes())).unwrap();
                    assert_eq!(answer, expected(&bundle, bytes.as_bytes()));
                }
            });
        }
    });
    println!("{CLIENTS} clients, {QUESTIONS} questions each: {:?}", start.elapsed());
    let seen = &service.seen;
    assert_eq!(seen.answers.load(Ordering::SeqCst), CLIENTS * QUESTIONS);
    assert!(seen.most_running.load(Ordering::SeqCst) <= 2, "more than two at once");
    assert_eq!(service.metric("unspoken_queue_depth"), 0.0);
    assert!(service.metric("unspoken_memory_bytes") <= (64 << 20) as f64);
}

#[test]
fn no_client_starves_while_memory_is_short() {
    const CLIENTS: usize = 40;
    let mut setup = Setup::new();
    // Memory for one or two of the four workers, and for two of forty bodies.
    setup.small_memory(10 << 20);
    setup.config.limits.connections = 96;
    setup.config.limits.connections_per_address = 96;
    setup.config.limits.memory_bytes += 2 << 20;
    setup.config.workers = 4;
    let names: Vec<String> = (0..CLIENTS).map(|number| format!("client-{number}")).collect();
    let tokens = setup.tokens::<CLIENTS>(std::array::from_fn(|number| names[number].as_str()));
    let service = setup.start();
    let bundles: Vec<_> = (0..CLIENTS).map(|number| bundle(number as u8, 1000, 3 << 20)).collect();
    let clients: Vec<_> = tokens.iter().map(|token| service.client(Some(token))).collect();
    let ids: Vec<_> = clients.iter().zip(&bundles).map(|(client, bundle)| upload(client, bundle).unwrap()).collect();
    let bytes = vec![5; 900_000];
    let start = Instant::now();
    let mut times: Vec<Duration> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let (service, bytes, token) = (&service, &bytes, &tokens[number]);
                let (id, bundle) = (&ids[number], &bundles[number]);
                scope.spawn(move || {
                    // Clients that do not ask a second time.
                    let client = impatient_with(service.address, Some(token));
                    assert_eq!(ask(&client, id, query(20, bytes)).unwrap(), expected(bundle, bytes));
                    start.elapsed()
                })
            })
            .collect();
        asking.into_iter().map(|client| client.join().unwrap()).collect()
    });
    times.sort();
    println!("{CLIENTS} clients: the first after {:?}, the last after {:?}", times[0], times[CLIENTS - 1]);
    let answered = "unspoken_requests_total{method=\"POST\",route=\"/v1/apps/{*name}\",status=\"200\"}";
    assert_eq!(service.metric(answered), CLIENTS as f64);
    assert!(service.metric("unspoken_memory_bytes") <= (10 << 20) as f64);
}

#[test]
fn a_greedy_client_does_not_hold_up_a_modest_one() {
    let mut setup = Setup::new();
    setup.config.workers = 1;
    let [greedy, modest] = setup.tokens(["greedy", "modest"]);
    let service = setup.start();
    let (greedy, modest) = (service.client(Some(&greedy)), service.client(Some(&modest)));
    let greedy_id = upload(&greedy, &bundle(1, 1000, 10)).unwrap();
    let modest_id = upload(&modest, &bundle(2, 1000, 10)).unwrap();
    let order = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| {
                ask(&greedy, &greedy_id, query(100, b"g")).unwrap();
                order.lock().unwrap().push("greedy");
            });
        }
        wait_until("the greedy one queues", || service.metric("unspoken_queue_depth") == 9.0);
        ask(&modest, &modest_id, query(0, b"m")).unwrap();
        order.lock().unwrap().push("modest");
    });
    let order = order.into_inner().unwrap();
    let place = order.iter().position(|name| *name == "modest").unwrap();
    assert!(place <= 3, "served as number {place} of {order:?}");
}

#[test]
fn queries_that_never_arrive_take_no_more_than_a_clients_share() {
    let mut setup = Setup::new();
    setup.config.limits.queries_per_client = 3;
    let [ann, bob] = setup.tokens(["ann", "bob"]);
    let service = setup.start();
    let clients = [service.client(Some(&ann)), service.client(Some(&bob))];
    let ids = clients.each_ref().map(|client| upload(client, &bundle(1, 1000, 10)).unwrap());
    let head = format!(
        "POST /v1/apps/{APP}?key={} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
         Authorization: Bearer {ann}\r\nContent-Length: 1000\r\n\r\n",
        ids[0]
    );
    let silent: Vec<_> = (0..3)
        .map(|_| {
            let mut stream = TcpStream::connect(service.address).unwrap();
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    wait_until("three queries are arriving", || service.metric("unspoken_requests_in_flight") == 3.0);
    let refused = raw(service.address, &head);
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")));
    assert!(ask(&clients[1], &ids[1], query(0, b"x")).is_ok());
    drop(silent);
    assert!(ask(&clients[0], &ids[0], query(0, b"x")).is_ok());
}

#[test]
fn a_full_queue_says_whose_it_is_and_when_to_come_again() {
    let mut setup = Setup::new();
    setup.config.workers = 1;
    setup.config.limits.queue = 3;
    setup.config.limits.queue_per_client = 2;
    let [ann, bob, eve] = setup.tokens(["ann", "bob", "eve"]);
    let service = setup.start();
    let client = |token| service.client(Some(token));
    let clients = [client(&ann), client(&bob), client(&eve)];
    let ids = clients.each_ref().map(|client| upload(client, &bundle(1, 1000, 10)).unwrap());
    let refusal = |token: &str, id: &str| {
        raw(
            service.address,
            format!(
                "POST /v1/apps/{APP}?key={id} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
                 Authorization: Bearer {token}\r\nContent-Length: 4\r\n\r\n\0\0\0\0"
            ),
        )
    };
    std::thread::scope(|scope| {
        let cancel = Cancel::new();
        let wait = |who: usize, depth: f64| {
            let (client, id, cancel) = (&clients[who], &ids[who], cancel.clone());
            scope.spawn(move || client.ask(APP, id, query(30_000, b"x"), &cancel));
            wait_until("the next one waits", || {
                service.seen.running.load(Ordering::SeqCst) == 1 && service.metric("unspoken_queue_depth") == depth
            });
        };
        wait(0, 0.0);
        wait(0, 1.0);
        wait(0, 2.0);
        let own = refusal(&ann, ids[0].as_str());
        assert_eq!(own.json()["code"], ProblemCode::TooManyRequests.name());
        assert_eq!(own.status, 429);
        wait(1, 3.0);
        let all = refusal(&eve, ids[2].as_str());
        assert_eq!(all.json()["code"], ProblemCode::QueueFull.name());
        assert_eq!(all.status, 503);
        for response in [own, all] {
            let seconds: u64 = response.header("retry-after").unwrap().parse().unwrap();
            assert!((1..=60).contains(&seconds));
        }
        // All clients disconnect; the queue empties without computing anything.
        cancel.cancel();
    });
    wait_until("the queue is empty", || service.metric("unspoken_queue_depth") == 0.0);
    assert_eq!(service.seen.answers.load(Ordering::SeqCst), 0);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(service.seen.running.load(Ordering::SeqCst), 0);
}
