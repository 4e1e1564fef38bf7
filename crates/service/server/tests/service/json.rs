//! Control messages in JSON, in both directions, as a web page sends and reads them.

use serde_json::{Value, json};

use crate::support::*;

fn post(service: &TestService, media: Option<&str>, body: &[u8]) -> RawResponse {
    let media = media.map_or(String::new(), |media| format!("Content-Type: {media}\r\n"));
    let head = format!("POST /v1/keys HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{media}");
    let head = format!("{head}Content-Length: {}\r\n\r\n", body.len());
    raw(service.address, [head.as_bytes(), body].concat())
}

fn declaration(bundle: &[u8]) -> Value {
    let hash = blake3::hash(bundle).to_hex();
    json!({ "application": APP, "key_format": FORMAT, "length": bundle.len(), "blake3": hash.as_str() })
}

#[test]
fn a_page_uploads_keys_and_asks_without_protobuf() {
    let service = Setup::new().start();
    let bundle = bundle(1, 1000, 10);
    let declare = |media| post(&service, Some(media), declaration(&bundle).to_string().as_bytes());
    let declared = declare("application/json");
    let status = declared.json();
    let id = status["id"].as_str().unwrap().to_owned();
    assert_eq!((declared.status, declared.header("upload-offset")), (201, Some("0")));
    assert!(id.len() == 32 && id.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)), "{id}");
    let expires = status["expires"].as_str().unwrap();
    assert!(expires.ends_with('Z') && expires.as_bytes()[10] == b'T', "{expires}");
    let mut expected_status = json!({
        "id": id, "state": "uploading", "application": APP, "length": 1000, "offset": 0, "expires": expires,
    });
    assert_eq!(status, expected_status);
    // Again, written differently: the same bundle.
    let again = declare("Application/JSON; charset=utf-8");
    assert_eq!((again.status, &again.json()["id"]), (200, &json!(id)));

    let send = |method: &str, path: &str, headers: &str, body: &[u8]| {
        let head = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}");
        let head = format!("{head}Content-Length: {}\r\n\r\n", body.len());
        raw(service.address, [head.as_bytes(), body].concat())
    };
    let sent = send("PATCH", &format!("/v1/keys/{id}"), "Upload-Offset: 0\r\n", &bundle);
    assert_eq!((sent.status, &sent.json()["offset"]), (200, &json!(1000)));
    let ready = send("POST", &format!("/v1/keys/{id}/complete"), "", b"");
    expected_status["state"] = json!("ready");
    expected_status["offset"] = json!(1000);
    expected_status["expires"] = ready.json()["expires"].clone();
    assert_eq!((ready.status, ready.json()), (200, expected_status));
    let answer = send("POST", &format!("/v1/apps/{APP}?key={id}"), "", &query(0, &[0; 4]));
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/octet-stream")));

    let described = service.get(&format!("/v1/apps/{APP}")).json();
    let limits = json!({
        "key_format": FORMAT, "max_key_bytes": 64 << 20, "max_query_bytes": 1 << 20, "max_answer_bytes": 1 << 20,
    });
    // The description of the test application is "xor".
    assert_eq!(described, json!({ "name": APP, "limits": limits, "description": "eG9y" }));
    assert_eq!(service.get("/v1/apps").json(), json!({ "names": [APP] }));
    let problem = service.get("/v1/keys").json();
    // Whether objects keep the order of their fields depends on the packages that are built together.
    let mut names: Vec<_> = problem.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["code", "message", "remedy", "request_id", "retry_after_seconds", "status"]);
    assert_eq!((&problem["code"], &problem["status"]), (&json!("forbidden"), &json!(403)));
}

#[test]
fn declarations_in_json_have_one_form_and_the_same_checks() {
    let service = Setup::new().start();
    let bundle = bundle(1, 1000, 10);
    let whole = declaration(&bundle);
    let with = |name: &str, value: Value| {
        let mut changed = whole.clone();
        changed[name] = value;
        changed.to_string()
    };
    let hash = whole["blake3"].as_str().unwrap();
    let without = |name: &str| {
        let mut changed = whole.clone();
        changed.as_object_mut().unwrap().remove(name);
        changed.to_string()
    };
    let text = whole.to_string();
    let twice = text.replace("\"length\":1000", "\"length\":1000,\"length\":1000");
    let deep = "[".repeat(100_000);
    let secret = with("length", json!("a very private text".repeat(100)));
    for wrong in [
        with("blake3", json!(hash.to_uppercase())),
        with("blake3", json!(format!("0x{hash}"))),
        with("blake3", json!(&hash[1..])),
        with("blake3", json!(&hash[2..])),
        with("blake3", json!(format!("{hash}00"))),
        with("blake3", json!(vec![7; 32])),
        with("length", json!("1000")),
        with("length", json!(1000.5)),
        with("length", json!(-1)),
        with("length", json!(0)),
        with("key_format", json!(1_u64 << 32)),
        with("application", json!("../keys")),
        with("application", json!(null)),
        with("more", json!(1)),
        without("blake3"),
        without("length"),
        without("key_format"),
        without("application"),
        twice,
        text[..text.len() - 1].to_owned(),
        format!("{text}{text}"),
        format!("[{text}]"),
        "null".into(),
        String::new(),
        deep,
        secret,
    ] {
        let refused = post(&service, Some("application/json"), wrong.as_bytes());
        let shown = wrong.chars().take(200).collect::<String>();
        assert_eq!((refused.status, &refused.json()["code"]), (400, &json!("malformed_request")), "{shown}");
        assert!(!refused.body.contains("private") && refused.body.len() < 1000, "{}", refused.body);
    }
    let refused = |changed: String, status: u16, code: &str| {
        let refused = post(&service, Some("application/json"), changed.as_bytes());
        assert_eq!((refused.status, &refused.json()["code"]), (status, &json!(code)), "{changed:.200}");
    };
    refused(with("application", json!("no/such")), 404, "application_not_found");
    refused(with("key_format", json!(8)), 422, "unsupported_format");
    refused(with("length", json!(u64::MAX)), 413, "too_large");
    refused(format!("{}{text}", " ".repeat(1 << 20)), 413, "too_large");
    assert_eq!(service.metric("unspoken_key_bundles{state=\"uploading\"}"), 0.0);
}

#[test]
fn other_media_types_are_refused() {
    let service = Setup::new().start();
    let text = declaration(&bundle(1, 1000, 10)).to_string();
    // What forms of other pages can send without asking first, and nonsense.
    for media in [
        "text/plain",
        "multipart/form-data",
        "application/x-www-form-urlencoded",
        "application/jsonp",
        "text/json",
        "application/json,application/x-protobuf",
        "",
        "/",
        "\u{e9}",
    ] {
        let refused = post(&service, Some(media), text.as_bytes());
        assert_eq!((refused.status, &refused.json()["code"]), (415, &json!("unsupported_media_type")), "{media:?}");
    }
    // Protobuf, as all clients before.
    for media in [None, Some("application/x-protobuf"), Some("application/octet-stream")] {
        let refused = post(&service, media, text.as_bytes());
        assert_eq!((refused.status, &refused.json()["code"]), (400, &json!("malformed_request")), "{media:?}");
    }
}
