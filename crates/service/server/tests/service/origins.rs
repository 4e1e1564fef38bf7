//! Pages of other origins.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::*;

const PAGE: &str = "https://ask.example";

fn send(service: &TestService, method: &str, path: &str, headers: &str) -> RawResponse {
    raw(service.address, format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n"))
}

fn preflight(service: &TestService, origin: &str) -> RawResponse {
    let headers = format!(
        "Origin: {origin}\r\nAccess-Control-Request-Method: PATCH\r\n\
         Access-Control-Request-Headers: authorization,upload-offset\r\n"
    );
    send(service, "OPTIONS", "/v1/keys/00000000000000000000000000000000", &headers)
}

/// The items of a header, in order.
fn items(response: &RawResponse, name: &str) -> Vec<String> {
    let value = response.header(name).unwrap_or_else(|| panic!("no {name} in {}", response.head));
    let mut items: Vec<_> = value.split(',').map(|item| item.trim().to_ascii_lowercase()).collect();
    items.sort();
    items
}

#[test]
fn by_default_no_other_page_is_allowed() {
    let service = Setup::new().start();
    let refused = preflight(&service, PAGE);
    assert_eq!((refused.status, refused.header("allow")), (405, Some("GET,HEAD,PATCH,DELETE")));
    for response in [refused, send(&service, "GET", "/v1/apps", &format!("Origin: {PAGE}\r\n"))] {
        assert!(!response.head.to_ascii_lowercase().contains("access-control"), "{}", response.head);
    }
}

#[test]
fn an_allowed_page_may_use_the_protocol_and_no_other() {
    let mut setup = Setup::new();
    let [ann] = setup.tokens(["ann"]);
    setup.config.allow_origins = vec![PAGE.parse().unwrap(), "http://localhost:3000".parse().unwrap()];
    let service = setup.start();
    // Without a token.
    let allowed = preflight(&service, PAGE);
    assert_eq!((allowed.status, allowed.header("access-control-allow-origin")), (200, Some(PAGE)));
    assert_eq!(items(&allowed, "access-control-allow-methods"), ["delete", "get", "head", "patch", "post"]);
    let headers = ["accept", "authorization", "content-type", "upload-offset", "x-request-id"];
    assert_eq!(items(&allowed, "access-control-allow-headers"), headers);
    assert_eq!(allowed.header("access-control-allow-credentials"), None);
    assert!(items(&allowed, "vary").contains(&"origin".to_owned()));
    assert_eq!(allowed.body, "");
    let long = format!("{PAGE}{}", "x".repeat(10_000));
    for other in ["https://ask.example.evil", "http://ask.example", "https://ask.example:8443", "null", "*", "", &long]
    {
        let refused = preflight(&service, other);
        assert_eq!(refused.header("access-control-allow-origin"), None, "{other}");
    }
    let too_long = preflight(&service, &"x".repeat(20_000));
    assert_eq!((too_long.status, too_long.header("access-control-allow-origin")), (431, None));

    // Answers and refusals can be read by the page, with the headers that it needs.
    let with = |origin: &str, token: &str| {
        send(&service, "GET", "/v1/apps", &format!("Origin: {origin}\r\nAuthorization: Bearer {token}\r\n"))
    };
    for (response, status) in [(with(PAGE, &ann), 200), (with(PAGE, "wrong"), 401)] {
        assert_eq!((response.status, response.header("access-control-allow-origin")), (status, Some(PAGE)));
        let exposed = ["retry-after", "upload-offset", "www-authenticate", "x-request-id"];
        assert_eq!(items(&response, "access-control-expose-headers"), exposed);
        assert!(response.json().is_object());
    }
    assert_eq!(with("https://other.example", &ann).header("access-control-allow-origin"), None);
    // A page needs the metrics of nobody.
    assert_eq!(send(&service, "OPTIONS", "/metrics", &format!("Origin: {PAGE}\r\n")).status, 404);
}

#[test]
fn preflight_requests_take_no_places_of_queries() {
    let mut setup = Setup::new();
    setup.config.allow_origins = vec![PAGE.parse().unwrap()];
    setup.config.workers = 1;
    setup.config.limits.queue = 1;
    setup.config.limits.queue_per_client = 1;
    setup.config.limits.queries_per_client = 2;
    let service = setup.start();
    let client = service.client(None);
    let bundle = bundle(1, 1000, 10);
    let id = upload(&client, &bundle).unwrap();
    std::thread::scope(|scope| {
        // The worker and the only place in the queue are taken.
        let first = scope.spawn(|| ask(&client, &id, query(1500, b"first")));
        wait_until("it runs", || service.seen.running.load(Ordering::SeqCst) == 1);
        let second = scope.spawn(|| ask(&client, &id, query(0, b"second")));
        wait_until("it waits", || service.metric("unspoken_queue_depth") == 1.0);
        for _ in 0..200 {
            let path = format!("/v1/apps/{APP}?key={id}");
            let headers = format!("Origin: {PAGE}\r\nAccess-Control-Request-Method: POST\r\n");
            assert_eq!(send(&service, "OPTIONS", &path, &headers).status, 200);
        }
        assert!(service.metric("unspoken_queue_depth") <= 1.0);
        assert_eq!(first.join().unwrap().unwrap(), expected(&bundle, b"first"));
        assert_eq!(second.join().unwrap().unwrap(), expected(&bundle, b"second"));
    });
    let counted = "unspoken_requests_total{method=\"OPTIONS\",route=\"/v1/apps/{*name}\",status=\"200\"}";
    assert_eq!(service.metric(counted), 200.0);
}

/// A preflight request is no authorization.
#[test]
fn preflight_requests_do_not_keep_connections() {
    let mut setup = Setup::new();
    setup.tokens(["ann"]);
    setup.config.allow_origins = vec![PAGE.parse().unwrap()];
    setup.config.timeouts.authorization = Duration::from_millis(300);
    let service = setup.start();
    let request = format!("OPTIONS /v1/apps HTTP/1.1\r\nHost: x\r\nOrigin: {PAGE}\r\n\r\n");
    // Without `Connection: close`: the service closes it.
    assert_eq!(raw(service.address, request).status, 200);
}

#[test]
fn pages_of_other_origins_change_nothing() {
    let mut setup = Setup::new();
    setup.config.allow_origins = vec![PAGE.parse().unwrap()];
    let service = setup.start();
    // Without a content type browsers send it without a preflight request. The body is no declaration.
    let declare = |origin: &str| {
        let headers = format!("Origin: {origin}\r\nContent-Length: 1\r\n");
        let request = format!("POST /v1/keys HTTP/1.1\r\nHost: x:80\r\nConnection: close\r\n{headers}\r\n\u{7}");
        raw(service.address, request)
    };
    for other in ["https://evil.example", "http://x", "http://x:81", "null", "", "x:80", "https://ask.example.evil"] {
        let refused = declare(other);
        assert_eq!(refused.status, 403, "{other:?}");
        assert!(refused.body.contains("forbidden"), "{}", refused.body);
    }
    for own in ["http://x:80", "https://X:80", PAGE] {
        assert_eq!(declare(own).status, 400, "{own:?}");
    }
    // Reading is for the CORS headers to allow.
    assert_eq!(send(&service, "GET", "/v1/apps", "Origin: https://evil.example\r\n").status, 200);
}
