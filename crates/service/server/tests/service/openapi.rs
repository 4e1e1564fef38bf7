//! The OpenAPI description, compared with the service and with the documents.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use unspoken_wire::ProblemCode;

use crate::support::*;

/// Methods of each path, in capitals.
fn methods_of(document: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let paths = document["paths"].as_object().unwrap();
    let methods = |item: &Value| item.as_object().unwrap().keys().map(|name| name.to_uppercase()).collect();
    paths.iter().map(|(path, item)| (path.clone(), methods(item))).collect()
}

#[test]
fn the_service_has_the_methods_that_are_described_and_no_others() {
    let mut setup = Setup::new();
    setup.tokens(["ann"]);
    let service = setup.start();
    let response = service.get("/openapi.json");
    assert_eq!((response.status, response.header("content-type")), (200, Some("application/json")));
    let document = response.json();
    assert_eq!(document, serde_json::from_str::<Value>(&unspoken_server::openapi()).unwrap());
    for (path, methods) in methods_of(&document) {
        let real = path.replace("{name}", "a/b").replace("{id}", "00");
        for method in ["GET", "HEAD", "POST", "PATCH", "DELETE", "PUT", "OPTIONS", "TRACE", "NONE"] {
            let request =
                format!("{method} {real} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
            let response = raw(service.address, request);
            match methods.contains(method) {
                true => {
                    assert!(!matches!(response.status, 404 | 405), "{method} {path}: {}", response.status);
                    let operation = &document["paths"][&path][method.to_lowercase()];
                    let described = &operation["responses"][response.status.to_string()];
                    assert!(described.is_object(), "{method} {path}: {}", response.status);
                }
                false => {
                    assert_eq!(response.status, 405, "{method} {path}");
                    let allowed = response.header("allow").unwrap().split(',').map(str::to_owned).collect();
                    assert_eq!(methods, allowed, "{method} {path}");
                }
            }
        }
    }
}

#[test]
fn the_description_has_the_routes_of_the_protocol() {
    let protocol = include_str!("../../../../../docs/protocol.md");
    let table = protocol.split("## Requests").nth(1).unwrap().split("\n\n").next().unwrap();
    let mut listed = BTreeMap::<String, BTreeSet<String>>::new();
    for row in table.lines().filter(|line| line.contains('/')) {
        let words: Vec<_> =
            row.split('|').nth(1).unwrap().split_whitespace().map(|word| word.trim_matches('`')).collect();
        let path = words.iter().find(|word| word.starts_with('/')).unwrap();
        let path = path.split(['?', '`', ',']).next().unwrap().to_owned();
        let methods =
            words.iter().map(|word| word.to_string()).filter(|word| word.chars().all(|c| c.is_ascii_uppercase()));
        listed.entry(path).or_default().extend(methods);
    }
    let mut described = methods_of(&serde_json::from_str(&unspoken_server::openapi()).unwrap());
    for methods in described.values_mut().chain(listed.values_mut()) {
        // The table names it where it is of use.
        methods.remove("HEAD");
    }
    assert_eq!(listed, described);
    for code in ProblemCode::ALL {
        assert!(protocol.contains(&format!("`{code}`")), "{code} is not in docs/protocol.md");
    }
}

#[test]
fn every_reference_leads_somewhere_and_every_problem_is_described() {
    let text = unspoken_server::openapi();
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["openapi"], "3.1.0");
    for reference in text.split("\"$ref\": \"#").skip(1) {
        let pointer = reference.split('"').next().unwrap();
        assert!(document.pointer(pointer).is_some(), "{pointer}");
    }
    for code in
        ProblemCode::ALL.iter().filter(|code| !matches!(code, ProblemCode::NotFound | ProblemCode::MethodNotAllowed))
    {
        assert!(text.contains(&format!("`{code}`: ")), "no route reports {code}");
    }
    let declaration = &document["components"]["schemas"]["KeyDeclaration"];
    assert_eq!(declaration["additionalProperties"], false);
    assert_eq!(declaration["properties"]["blake3"]["pattern"], "^[0-9a-f]{64}$");
    assert_eq!(declaration["required"].as_array().unwrap().len(), 4);
}
