//! The page for browsers.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use unspoken_server::{Applications, Server, ServerError};

use crate::support::*;

/// More than the buffers of a connection hold.
const WASM_BYTES: usize = 16 << 20;

/// Writes a page beside the data directory of a setup, and has it served.
fn add_page(setup: &mut Setup) -> PathBuf {
    let dir = setup.dir.path().join("web");
    let write = |name: &str, content: &[u8]| std::fs::write(dir.join(name), content).unwrap();
    std::fs::create_dir_all(dir.join("images")).unwrap();
    std::fs::create_dir_all(dir.join(".git")).unwrap();
    write("index.html", b"<!doctype html><title>the page</title>");
    write("index.html.gz", b"gzipped page");
    write("app.js", b"console.log('the page')");
    write("app.wasm", &vec![7; WASM_BYTES]);
    write("app.wasm.br", b"brotli wasm");
    write("app.wasm.gz", b"gzipped wasm");
    write("images/logo.svg", b"<svg xmlns='http://www.w3.org/2000/svg'/>");
    write(".env", b"secret in a dot file");
    write(".git/config", b"secret in a dot directory");
    std::fs::write(setup.dir.path().join("outside"), b"secret outside").unwrap();
    symlink(setup.dir.path().join("outside"), dir.join("link-out")).unwrap();
    symlink(setup.dir.path(), dir.join("directory-out")).unwrap();
    symlink("app.js", dir.join("link-in.js")).unwrap();
    symlink("nowhere", dir.join("dangling")).unwrap();
    setup.config.web = Some(dir.clone());
    dir
}

fn send(service: &TestService, method: &str, path: &str, headers: &str) -> RawResponse {
    raw(service.address, format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n"))
}

#[test]
fn files_have_media_types_and_the_headers_that_contain_a_page() {
    let mut setup = Setup::new();
    setup.tokens(["ann"]);
    add_page(&mut setup);
    let service = setup.start();
    for (path, media, content) in [
        ("/", "text/html; charset=utf-8", "<!doctype html><title>the page</title>"),
        ("/index.html", "text/html; charset=utf-8", "<!doctype html><title>the page</title>"),
        ("/app.js", "text/javascript; charset=utf-8", "console.log('the page')"),
        ("/link-in.js", "text/javascript; charset=utf-8", "console.log('the page')"),
        ("/images/logo.svg", "image/svg+xml", "<svg xmlns='http://www.w3.org/2000/svg'/>"),
        ("/app.js?version=2", "text/javascript; charset=utf-8", "console.log('the page')"),
    ] {
        let response = service.get(path);
        assert_eq!((response.status, response.header("content-type")), (200, Some(media)), "{path}");
        assert_eq!(response.body, content, "{path}");
        for (name, value) in [
            (
                "content-security-policy",
                "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; style-src 'self'; \
                 img-src 'self' data:; connect-src 'self'; font-src 'self'; manifest-src 'self'; base-uri 'none'; \
                 form-action 'none'; frame-ancestors 'none'",
            ),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
            ("cache-control", "no-cache"),
        ] {
            assert_eq!(response.header(name), Some(value), "{path}");
        }
        assert!(response.header("permissions-policy").unwrap().contains("camera=()"));
        assert!(response.header("etag").is_some() && response.header("access-control-allow-origin").is_none());
    }
    let wasm = service.get("/app.wasm");
    assert_eq!((wasm.header("content-type"), wasm.body.len()), (Some("application/wasm"), WASM_BYTES));
    // The log and the metrics have one route for all files.
    assert_eq!(service.metric("unspoken_requests_total{method=\"GET\",route=\"page\",status=\"200\"}"), 7.0);
    // Answers of the protocol are not stored, and no browser guesses their type.
    let refused = service.get("/v1/apps");
    let about = (refused.header("cache-control"), refused.header("x-content-type-options"));
    assert_eq!((refused.status, about), (401, (Some("no-store"), Some("nosniff"))));
}

#[test]
fn nothing_else_of_the_disk_is_served() {
    let mut setup = Setup::new();
    add_page(&mut setup);
    let service = setup.start();
    for path in [
        "/..",
        "/../outside",
        "/..%2foutside",
        "/%2e%2e/outside",
        "/%2e%2e%2foutside",
        "/images/../../outside",
        "/images/..%5c..%5coutside",
        "/app.js%00",
        "/%00",
        "/app.js%00.html",
        "/.env",
        "/.git/config",
        "/./app.js",
        "//app.js",
        "//etc/passwd",
        "/images",
        "/images/",
        "/app.js/",
        "/link-out",
        "/directory-out",
        "/directory-out/outside",
        "/dangling",
        "/APP.JS",
        "/app.wasm.br",
        "/app.wasm.gz",
        "/app%2ejs",
        "/%ff",
        "/app.js\\",
        "/web/app.js",
        "/v1",
        "/v1/",
        "/v1/app.js",
        "/v1/keys/../../app.js",
    ] {
        let response = service.get(path);
        assert_eq!(response.status, 404, "{path}: {}", response.body);
        assert!(!response.body.contains("secret") && !response.body.contains("the page"), "{path}");
    }
    for (path, status) in [("/healthz", 200), ("/readyz", 200), ("/metrics", 404), ("/openapi.json", 200)] {
        let response = service.get(path);
        assert_eq!(response.status, status, "{path}");
        assert!(!response.body.contains("<!doctype"), "{path}");
    }
    assert_eq!(service.get("/v1/apps").json()["names"], serde_json::json!([APP]));
    // Whole URLs in the request line are the same paths.
    let whole = raw(service.address, "GET http://x/app.js HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert_eq!((whole.status, whole.body.as_str()), (200, "console.log('the page')"));
}

#[test]
fn only_get_and_head_are_taken() {
    let mut setup = Setup::new();
    add_page(&mut setup);
    let service = setup.start();
    let head = send(&service, "HEAD", "/app.wasm", "");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert_eq!(head.header("content-length"), Some("16777216"));
    assert_eq!(head.header("content-type"), Some("application/wasm"));
    for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "NO-SUCH-METHOD"] {
        let refused = send(&service, method, "/app.js", "");
        assert_eq!((refused.status, refused.header("allow")), (405, Some("GET,HEAD")), "{method}");
        assert_eq!(refused.json()["code"], "method_not_allowed", "{method}");
        assert_eq!(send(&service, method, "/no-such-file", "").status, 404, "{method}");
    }
    assert!(matches!(send(&service, "CONNECT", "x:80", "").status, 400 | 404 | 405));
    assert!(matches!(send(&service, "OPTIONS", "*", "").status, 400 | 404 | 405));
}

#[test]
fn compressed_forms_and_entity_tags_save_bytes() {
    let mut setup = Setup::new();
    add_page(&mut setup);
    let service = setup.start();
    let get = |path: &str, headers: &str| send(&service, "GET", path, headers);
    for (accepted, coding, content) in [
        ("gzip, deflate, br, zstd", Some("br"), "brotli wasm"),
        ("GZIP;q=0.5", Some("gzip"), "gzipped wasm"),
        ("br;q=0, gzip", Some("gzip"), "gzipped wasm"),
        ("br;q=0.0,gzip;q=nonsense", None, ""),
        ("identity", None, ""),
        ("brotli", None, ""),
    ] {
        let response = get("/app.wasm", &format!("Accept-Encoding: {accepted}\r\n"));
        assert_eq!((response.status, response.header("content-encoding")), (200, coding), "{accepted}");
        assert_eq!(response.header("content-type"), Some("application/wasm"));
        assert_eq!(response.header("vary"), Some("accept-encoding"));
        match coding {
            Some(_) => assert_eq!(response.body, content),
            None => assert_eq!(response.body.len(), WASM_BYTES),
        }
    }
    // Nothing of the protocol is compressed.
    let apps = get("/v1/apps", "Accept-Encoding: br, gzip\r\n");
    assert_eq!((apps.header("content-encoding"), &apps.json()["names"][0]), (None, &APP.into()));

    let first = get("/", "");
    let tag = first.header("etag").unwrap().to_owned();
    let other = get("/", "Accept-Encoding: gzip\r\n");
    assert_ne!(other.header("etag"), Some(tag.as_str()));
    for known in [tag.clone(), format!("W/{tag}"), format!("\"x\", {tag}"), "*".into()] {
        let response = get("/", &format!("If-None-Match: {known}\r\n"));
        assert_eq!((response.status, response.body.as_str()), (304, ""), "{known}");
        assert_eq!(response.header("etag"), Some(tag.as_str()));
        assert!(response.header("content-security-policy").is_some() && response.header("vary").is_some());
    }
    for unknown in ["\"x\"", "x", "", "\"", ",,,"] {
        assert_eq!(get("/", &format!("If-None-Match: {unknown}\r\n")).status, 200, "{unknown}");
    }
    // Parts are not served; the whole file is a valid answer.
    for range in ["bytes=0-3", "bytes=-1", "bytes=5-2", "bytes=0-0,2-3,4-5", "bytes=99999999999999999999-"] {
        let whole = get("/app.js", &format!("Range: {range}\r\n"));
        assert_eq!((whole.status, whole.body.as_str()), (200, "console.log('the page')"), "{range}");
        assert_eq!(whole.header("accept-ranges"), Some("none"));
    }
}

/// A page is loaded over a slow line, without a token, and the connection ends soon after it.
#[test]
fn a_page_that_loads_slowly_is_not_cut_off() {
    let mut setup = Setup::new();
    setup.tokens(["ann"]);
    setup.config.timeouts.authorization = Duration::from_millis(300);
    add_page(&mut setup);
    let service = setup.start();
    let mut stream = TcpStream::connect(service.address).unwrap();
    stream.write_all(b"GET /app.wasm HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let (start, mut received, mut piece) = (Instant::now(), 0, vec![0; 64 << 10]);
    while received < WASM_BYTES {
        if start.elapsed() < Duration::from_millis(1200) {
            std::thread::sleep(Duration::from_millis(50));
        }
        let count = stream.read(&mut piece).unwrap();
        assert!(count > 0, "cut off after {received} bytes");
        received += count;
    }
    assert!(start.elapsed() > Duration::from_millis(1000), "{:?}", start.elapsed());
    // Another file on the same connection, then it is closed.
    stream.write_all(b"GET /app.js HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut rest = Vec::new();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stream.read_to_end(&mut rest).unwrap();
    assert!(String::from_utf8_lossy(&rest).contains("console.log"));
}

#[test]
fn a_page_does_not_keep_a_connection_for_ever() {
    let mut setup = Setup::new();
    setup.tokens(["ann"]);
    setup.config.timeouts.authorization = Duration::from_millis(200);
    setup.config.timeouts.page = Duration::from_millis(1000);
    add_page(&mut setup);
    let service = setup.start();
    let mut stream = TcpStream::connect(service.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let start = Instant::now();
    let mut closed = false;
    // One small file after the other.
    while !closed && start.elapsed() < Duration::from_secs(5) {
        let sent = stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        closed = sent.is_err() || stream.read(&mut [0; 4096]).map_or(true, |count| count == 0);
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(closed && start.elapsed() > Duration::from_millis(900), "{:?}", start.elapsed());
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    // Requests for no file do not extend the time.
    let mut other = TcpStream::connect(service.address).unwrap();
    let (start, mut closed) = (Instant::now(), false);
    while !closed && start.elapsed() < Duration::from_secs(5) {
        let sent = other.write_all(b"GET /no-such-file HTTP/1.1\r\nHost: x\r\n\r\n");
        closed = sent.is_err() || other.read(&mut [0; 4096]).map_or(true, |count| count == 0);
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(closed && start.elapsed() < Duration::from_millis(800), "{:?}", start.elapsed());
    // One that reads nothing.
    let mut slow = TcpStream::connect(service.address).unwrap();
    slow.write_all(b"GET /app.wasm HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    wait_until("all are closed", || service.metric("unspoken_connections{listener=\"clients\"}") == 0.0);
}

#[test]
fn a_directory_that_is_no_page_is_refused() {
    let bind = |prepare: &dyn Fn(&Path)| {
        let mut setup = Setup::new();
        let dir = add_page(&mut setup);
        prepare(&dir);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(Server::bind(setup.config, Applications::new())).map(drop)
    };
    bind(&|_| {}).unwrap();
    let refused = bind(&|dir| std::fs::remove_file(dir.join("index.html")).unwrap()).unwrap_err();
    assert!(matches!(refused, ServerError::NoPage { .. }));
    assert!(refused.to_string().contains("index.html") && refused.to_string().contains("make web"), "{refused}");
    for (name, says) in [
        ("v1", "URL of a part of the service"),
        ("healthz", "URL of a part of the service"),
        ("openapi.json", "URL of a part of the service"),
        ("a b.html", "characters other than"),
        ("ä.html", "characters other than"),
    ] {
        let refused = bind(&|dir| std::fs::write(dir.join(name), b"x").unwrap()).unwrap_err().to_string();
        assert!(refused.contains(says) && refused.contains("rename or remove it"), "{name}: {refused}");
    }
    let large = bind(&|dir| std::fs::File::create(dir.join("large")).unwrap().set_len(65 << 20).unwrap());
    assert!(large.unwrap_err().to_string().contains("more than 1000 files or 67108864 bytes"));
}
