//! The broken schemes are out of reach of the service and of clients.

use std::collections::{BTreeMap, BTreeSet};

/// Everything `root` depends on, by the lock file.
fn dependencies(lock: &BTreeMap<String, Vec<String>>, root: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(name) = waiting.pop() {
        if found.insert(name.clone()) {
            waiting.extend(lock.get(&name).into_iter().flatten().cloned());
        }
    }
    found
}

#[test]
fn neither_service_nor_clients_depend_on_the_reproductions() {
    let text = include_str!("../../../../Cargo.lock");
    let lock: toml::Table = text.parse().unwrap();
    let mut graph: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in lock["package"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap().to_owned();
        let empty = Vec::new();
        let needs = package.get("dependencies").and_then(toml::Value::as_array).unwrap_or(&empty);
        let bare = |d: &toml::Value| d.as_str().unwrap().split(' ').next().unwrap_or_default().to_owned();
        graph.entry(name).or_default().extend(needs.iter().map(bare));
    }
    for root in ["unspoken-server", "unspoken-client", "unspoken-classify", "unspoken-embed", "unspoken-python"] {
        let all = dependencies(&graph, root);
        assert!(all.contains("unspoken-rlwe"), "{root} is not in the lock file as expected");
        assert!(!all.contains("unspoken-audit"), "{root} reaches the reproductions");
    }
}
