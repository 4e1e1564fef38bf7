//! Which client may do what.

use std::time::{Duration, Instant};

use unspoken_client::transport::{Cancel, Error, Transport, TransportConfig};
use unspoken_server::{Applications, Server, ServerConfig, ServerError, TlsFiles};
use unspoken_wire::ProblemCode;

use crate::support::*;

#[test]
fn another_clients_keys_look_like_no_keys() {
    let mut setup = Setup::new();
    let [ann, bob] = setup.tokens(["ann", "bob"]);
    let service = setup.start();
    let (ann_client, bob_client) = (service.client(Some(&ann)), service.client(Some(&bob)));
    let anns = bundle(1, 10_000, 10);
    let id = upload(&ann_client, &anns).unwrap();
    let cancel = Cancel::new();
    for result in [
        ask(&bob_client, &id, query(0, b"x")).map(drop),
        bob_client.key_status(&id, &cancel).map(drop),
        bob_client.delete_key(&id, &cancel),
    ] {
        assert_eq!(result.unwrap_err().code(), Some(ProblemCode::KeyNotFound));
    }
    assert!(bob_client.keys(&cancel).unwrap().is_empty());
    // The response equals, byte for byte, the response for an id that does not exist.
    let requests = ["GET /v1/keys/{}", "DELETE /v1/keys/{}", "POST /v1/keys/{}/complete"];
    for request in requests {
        let send = |id: &str| {
            raw(
                service.address,
                format!(
                    "{} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Request-Id: same\r\n\
                     Authorization: Bearer {bob}\r\nContent-Length: 0\r\n\r\n",
                    request.replace("{}", id)
                ),
            )
        };
        let (other, none) = (send(id.as_str()), send(&"0".repeat(32)));
        assert_eq!((other.status, &other.body), (none.status, &none.body), "{request}");
        assert_eq!(other.status, 404);
    }
    // Bob's upload of the same bytes is a separate bundle.
    assert_ne!(upload(&bob_client, &anns).unwrap(), id);
    assert_eq!(ask(&ann_client, &id, query(0, b"x")).unwrap(), expected(&anns, b"x"));
}

#[test]
fn without_a_known_token_nothing_is_told() {
    let mut setup = Setup::new();
    let [ann] = setup.tokens(["ann"]);
    let service = setup.start();
    let id = upload(&service.client(Some(&ann)), &bundle(1, 10_000, 10)).unwrap();
    let wrong = ann.replace("unspoken_", "unspoken-");
    for token in [None, Some(wrong.as_str())] {
        let client = service.client(token);
        let cancel = Cancel::new();
        for result in [
            client.applications(&cancel).map(drop),
            client.describe(APP, &cancel).map(drop),
            client.keys(&cancel).map(drop),
            ask(&client, &id, query(0, b"x")).map(drop),
            upload(&client, &bundle(2, 10_000, 10)).map(drop),
        ] {
            assert_eq!(result.unwrap_err().code(), Some(ProblemCode::Unauthorized));
        }
    }
    let response = service.get("/v1/apps");
    assert_eq!((response.status, response.header("www-authenticate")), (401, Some("Bearer")));
    for open in ["/healthz", "/readyz"] {
        assert_eq!(service.get(open).status, 200, "{open}");
    }
}

/// Metrics count the requests of all clients.
#[test]
fn clients_do_not_see_metrics() {
    let mut setup = Setup::new();
    let [ann] = setup.tokens(["ann"]);
    let service = setup.start();
    let request =
        format!("GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {ann}\r\n\r\n");
    for refused in [service.get("/metrics"), raw(service.address, &request)] {
        assert_eq!((refused.status, &refused.json()["code"]), (404, &"not_found".into()));
        assert!(refused.json()["remedy"].as_str().unwrap().contains("metrics_listen"), "{}", refused.body);
        assert!(!refused.body.contains("unspoken_requests_total"), "{}", refused.body);
    }
    let at = |path: &str| {
        raw(service.metrics_address, format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
    };
    let metrics = at("/metrics");
    assert_eq!((metrics.status, metrics.header("content-type")), (200, Some("text/plain; version=0.0.4")));
    assert!(metrics.body.contains("unspoken_requests_total"), "{}", metrics.body);
    // The other listener serves metrics and nothing else.
    for path in ["/v1/apps", "/v1/keys", "/healthz"] {
        assert_eq!(at(path).status, 404, "{path}");
    }
}

#[test]
fn a_token_taken_from_the_file_stops_working() {
    let mut setup = Setup::new();
    setup.config.timeouts.sweep = Duration::from_millis(50);
    let [ann, bob] = setup.tokens(["ann", "bob"]);
    let path = setup.config.tokens.clone().unwrap();
    let service = setup.start();
    let cancel = Cancel::new();
    let (ann, bob) = (service.client(Some(&ann)), service.client(Some(&bob)));
    ann.applications(&cancel).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let bobs: Vec<_> = text.lines().filter(|line| line.starts_with("bob:")).collect();
    std::fs::write(&path, bobs.join("\n")).unwrap();
    wait_until("ann is locked out", || ann.applications(&cancel).is_err());
    bob.applications(&cancel).unwrap();
}

#[test]
fn a_service_open_to_the_network_must_be_meant() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = Setup::new().config;
    config.data_dir = dir.path().to_owned();
    config.listen = "0.0.0.0:0".parse().unwrap();
    assert!(matches!(config.check(), Err(ServerError::OpenToAll { .. })));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bound = runtime.block_on(Server::bind(config.clone(), Applications::new()));
    assert!(matches!(bound.err(), Some(ServerError::OpenToAll { .. })));
    config.allow_anonymous = true;
    config.check().unwrap();
}

#[test]
fn tls_works_with_an_authority_of_ones_own_and_only_then() {
    let mut setup = Setup::new();
    let [ann] = setup.tokens(["ann"]);
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key) = (setup.dir.path().join("cert.pem"), setup.dir.path().join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    setup.config.tls = Some(TlsFiles { certificate, key });
    let service = setup.start();

    let url = format!("https://localhost:{}", service.address.port());
    let config = TransportConfig::new(url).with_token(ann);
    let trusting = config.clone().with_authorities(made.cert.pem());
    let elsewhere = format!("127.0.0.1:{}", service.address.port());
    let (name, plain) = (format!("https://{elsewhere}"), format!("http://{elsewhere}"));
    let cancel = Cancel::new();
    for (config, says) in [
        (config, "the certificate of the service is signed by an unknown authority; trust the authority"),
        (TransportConfig { url: name, ..trusting.clone() }, "the certificate of the service is for another host name"),
        (TransportConfig { url: plain, ..trusting.clone() }, "the port does not speak http; write https://"),
    ] {
        // None of these heals, so none is tried again.
        let start = Instant::now();
        let error = Transport::new(config).unwrap().applications(&cancel).unwrap_err();
        assert!(error.to_string().contains(says) && start.elapsed() < Duration::from_secs(5), "{error}");
    }
    // The authority may be in DER.
    let config = trusting.with_authorities(made.cert.der().to_vec());
    let client = Transport::new(config).unwrap();
    let bundle = bundle(1, 2_000_000, 10);
    let id = upload(&client, &bundle).unwrap();
    assert_eq!(ask(&client, &id, query(0, b"tls")).unwrap(), expected(&bundle, b"tls"));
}

#[test]
fn a_service_reads_certificates_in_der_and_says_what_it_found_instead_of_one() {
    let mut setup = Setup::new();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let path = |name: &str| setup.dir.path().join(name);
    let (certificate, key) = (path("cert.der"), path("key.der"));
    std::fs::write(&certificate, made.cert.der()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_der()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for (content, says) in [
        (b"".as_slice(), "found an empty file; needed PEM or DER"),
        (b" \n", "found an empty file"),
        (b"a text", "found no certificate"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n", "found damaged PEM"),
    ] {
        let wrong = path("wrong.pem");
        std::fs::write(&wrong, content).unwrap();
        for (tls, what) in [
            (TlsFiles { certificate: wrong.clone(), key: key.clone() }, "certificate"),
            (TlsFiles { certificate: certificate.clone(), key: wrong.clone() }, "private key"),
        ] {
            let config = ServerConfig { tls: Some(tls), ..setup.config.clone() };
            let said = runtime.block_on(Server::bind(config, Applications::new())).err().unwrap().to_string();
            let says = says.replace("certificate", what);
            assert!(said.starts_with(&format!("read {what} ")) && said.contains("wrong.pem"), "{said}");
            assert!(said.contains(&says), "{said}");
        }
    }
    setup.config.tls = Some(TlsFiles { certificate, key });
    let service = setup.start();
    let url = format!("https://localhost:{}", service.address.port());
    let trusting = TransportConfig::new(url).with_authorities(made.cert.pem());
    assert_eq!(Transport::new(trusting).unwrap().applications(&Cancel::new()).unwrap(), [APP]);
}

#[test]
fn a_token_does_not_travel_in_the_clear_unless_allowed() {
    let mut config = TransportConfig::new("http://192.0.2.1").with_token("secret");
    let refused = Transport::new(config.clone()).err().unwrap();
    assert!(matches!(refused, Error::Config { .. }), "{refused}");
    assert!(!format!("{config:?} {refused}").contains("\"secret\""));
    config.insecure_http = true;
    assert!(Transport::new(config).is_ok());
}
