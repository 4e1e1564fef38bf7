//! Tests of `unspoken search` at secure parameters.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Service, complaint, npy, text, unspoken};

/// Words with vectors in two directions and a little of their own: sea and land.
const WORDS: [(&str, [f32; 4]); 6] = [
    ("ship", [1.0, 0.1, 0.2, 0.0]),
    ("wave", [1.0, 0.0, 0.0, 0.3]),
    ("harbour", [0.9, 0.2, 0.1, 0.1]),
    ("tree", [0.1, 1.0, 0.0, 0.1]),
    ("meadow", [0.0, 1.0, 0.2, 0.0]),
    ("mountain", [0.1, 0.9, 0.1, 0.3]),
];

const DOCUMENTS: [&str; 4] = ["ship wave", "harbour ship", "meadow tree", "mountain"];

#[test]
fn a_collection_is_built_served_and_searched_by_text_and_by_vector() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let lines = WORDS.map(|(word, v)| format!("{word} {} {} {} {}\n", v[0], v[1], v[2], v[3]));
    std::fs::write(path("words.txt"), lines.concat()).unwrap();
    std::fs::write(path("documents.csv"), format!("text\n{}\n", DOCUMENTS.join("\n"))).unwrap();
    let (documents, table, collection) = (path("documents.csv"), path("words.txt"), path("places"));
    let build = ["search", "build", "--from", &documents, "--value", "text", "--words", &table];
    let explained = text(&unspoken(&[&build[..], &["--explain", "--json"]].concat()));
    let plan: Value = serde_json::from_str(explained.lines().next().unwrap()).unwrap();
    assert_eq!((&plan["blocks"], &plan["groups"], &plan["asked"]), (&1.into(), &1.into(), &1.into()), "{plan}");
    let said = text(&unspoken(&[&build[..], &[&collection]].concat()));
    for part in ["documents   4, 4 coordinates", "recall      1.000", "serve --search"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let again = complaint(&unspoken(&[&build[..], &[&collection]].concat()));
    assert!(again.contains("has a collection already; give --replace"), "{again}");
    text(&unspoken(&[&build[..], &["--replace", &collection]].concat()));
    std::fs::write(path("other.csv"), "text\nunheard\n").unwrap();
    let other = path("other.csv");
    let refused = ["search", "build", "--from", &other, "--value", "text", "--words", &table, &path("other")];
    assert!(complaint(&unspoken(&refused)).contains("record 0 of"), "no word is known");

    let service = Service::start(&["--data-dir", &path("data"), "--search", &collection], Stdio::null());
    let state = path("state");
    let target = ["--url", &service.url, "--application", "search/places", "--state-dir", &state];
    let ask = [&["search", "ask"][..], &target].concat();
    let found = text(&unspoken(&[&ask[..], &["--words", &table, "--json", "-k", "9", "harbour"]].concat()));
    let found: Vec<Value> = found.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<&str> = found.iter().map(|hit| hit["document"].as_str().unwrap()).collect();
    assert_eq!(names, ["harbour ship", "ship wave", "mountain", "meadow tree"]);
    let cosine = |hit: &Value| hit["cosine"].as_f64().unwrap();
    assert!((0.97..1.01).contains(&cosine(&found[0])) && cosine(&found[2]) < 0.5, "{found:?}");
    std::fs::write(path("queries.txt"), "meadow\nwave ship\n").unwrap();
    let queries = path("queries.txt");
    let found = text(&unspoken(&[&ask[..], &["--words", &table, "-k", "1", "--queries", &queries]].concat()));
    assert!(found.contains("  meadow tree\n\n") && found.ends_with("  ship wave\n"), "{found}");
    std::fs::write(path("queries.txt"), "meadow\n\n").unwrap();
    let refused = complaint(&unspoken(&[&ask[..], &["--words", &table, "--queries", &queries]].concat()));
    assert!(refused.contains("query 1: none of its words is in the table"), "{refused}");
    std::fs::write(path("tree.npy"), npy("(4,)", WORDS[3].1)).unwrap();
    let vector = path("tree.npy");
    let found = text(&unspoken(&[&ask[..], &["--vector", &vector, "-k", "1"]].concat()));
    assert!(found.ends_with("  meadow tree\n"), "{found}");
    // Other vectors than those of the collection.
    std::fs::write(path("others.txt"), "ship 1 2 3 4\nwave 2 1 0 0\n").unwrap();
    let others = path("others.txt");
    let refused = complaint(&unspoken(&[&ask[..], &["--words", &others, "ship"]].concat()));
    assert!(refused.contains("needed what made the vectors of the documents"), "{refused}");
    let offer = format!("{collection},words={others}");
    let refused = ["serve", "--listen", "127.0.0.1:0", "--data-dir", &path("none"), "--search", &offer];
    let refused = complaint(&unspoken(&refused));
    assert!(refused.contains("option words") && refused.contains("needed what made the vectors"), "{refused}");
    std::fs::write(path("narrow.npy"), npy("(2,)", [1.0, 2.0])).unwrap();
    let narrow = path("narrow.npy");
    let refused = complaint(&unspoken(&[&ask[..], &["--vector", &narrow]].concat()));
    assert!(refused.contains("needed 4, as the documents have"), "{refused}");
    let other = ["search", "ask", "--url", &service.url, "--application", "search/places-documents"];
    let refused = complaint(&unspoken(&[&other[..], &["--state-dir", &state, "--words", &table, "ship"]].concat()));
    assert!(refused.contains("unspoken pir get"), "{refused}");
}

/// A safetensors file with one tensor of shape [rows, 4].
fn safetensors(rows: &[[f32; 4]]) -> Vec<u8> {
    let bytes: Vec<u8> = rows.iter().flatten().flat_map(|x| x.to_le_bytes()).collect();
    let shape = [rows.len(), 4];
    let header = format!(r#"{{"rows":{{"dtype":"F32","shape":{shape:?},"data_offsets":[0,{}]}}}}"#, bytes.len());
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &bytes].concat()
}

#[test]
fn vectors_come_from_files_and_columns_and_queries_are_asked_together() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let line = |(word, v): &(&str, [f32; 4])| format!("{{\"id\":\"{word}\",\"text\":\"a {word}\",\"v\":{v:?}}}\n");
    std::fs::write(path("words.jsonl"), WORDS.iter().map(line).collect::<String>()).unwrap();
    std::fs::write(path("words.safetensors"), safetensors(&WORDS.map(|(_, vector)| vector))).unwrap();
    let (words, tensors) = (path("words.jsonl"), path("words.safetensors"));
    let build = ["search", "build", "--from", &words, "--key", "id", "--value", "text", "--embedder", "by hand"];
    for (name, source) in [("column", ["--vector-column", "v"]), ("tensor", ["--vectors", &tensors])] {
        text(&unspoken(&[&build[..], &source, &[&path(name)]].concat()));
        let info = text(&unspoken(&["search", "info", &path(name)]));
        assert!(info.contains("documents   6, 4 coordinates") && info.contains("by hand"), "{info}");
    }
    let none = path("none");
    // Which columns are documents must be said: the vectors are none of them.
    let refused = unspoken(&[&build[..6], &["--vector-column", "v", &none]].concat());
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("--value"));
    let refused = [&build[..], &["--vector-column", "text", &none]].concat();
    let refused = complaint(&unspoken(&refused));
    assert!(refused.contains("record 0 of") && refused.contains("needed a list of numbers"), "{refused}");
    let refused = [&build[..], &["--vectors", &tensors, "--vectors-tensor", "other", &none]].concat();
    let refused = complaint(&unspoken(&refused));
    assert!(refused.contains("\"rows\"") && refused.contains("one named \"other\""), "{refused}");

    let (column, tensor) = (path("column"), path("tensor"));
    let offers = ["--search", &column, "--search", &tensor];
    let service = Service::start(&[&["--data-dir", &path("data")][..], &offers].concat(), Stdio::null());
    let rows = [WORDS[3].1, WORDS[0].1].concat();
    std::fs::write(path("queries.npy"), npy("(2, 4)", rows)).unwrap();
    let (queries, state) = (path("queries.npy"), path("state"));
    for application in ["search/column", "search/tensor"] {
        let ask = ["search", "ask", "--url", &service.url, "--application", application, "--state-dir", &state];
        let ask = [&ask[..], &["--vector", &queries, "-k", "2"]].concat();
        let found = text(&unspoken(&ask));
        let blocks: Vec<&str> = found.split("\n\n").collect();
        assert_eq!(blocks.len(), 2, "{found}");
        let first = |block: &str| block.lines().next().unwrap()[7..].to_owned();
        assert_eq!([first(blocks[0]), first(blocks[1])], ["a tree", "a ship"]);
        let found = text(&unspoken(&[&ask[..], &["--json"]].concat()));
        let of_query = |line: &str| serde_json::from_str::<Value>(line).unwrap()["query"].as_u64().unwrap();
        assert_eq!(found.lines().map(of_query).collect::<Vec<u64>>(), [0, 0, 1, 1]);
    }
}

/// Asks until a document is found, or is no longer found: a service takes up changes within seconds.
fn ask_until(ask: &[&str], document: &str, is_there: bool) -> String {
    let start = Instant::now();
    loop {
        let found = text(&unspoken(ask));
        if found.contains(document) == is_there {
            return found;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{document}: {found}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn a_service_takes_up_changes_and_rebuilds() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let lines = WORDS.map(|(word, v)| format!("{word} {} {} {} {}\n", v[0], v[1], v[2], v[3]));
    std::fs::write(path("words.txt"), lines.concat()).unwrap();
    let rows: Vec<String> = DOCUMENTS.iter().enumerate().map(|(id, text)| format!("{id},{text}\n")).collect();
    std::fs::write(path("documents.csv"), format!("id,text\n{}", rows.concat())).unwrap();
    let (documents, table, collection) = (path("documents.csv"), path("words.txt"), path("places"));
    let columns = ["--key", "id", "--value", "text", "--words", &table];
    let build = [&["search", "build", "--from", &documents][..], &columns].concat();
    text(&unspoken(&[&build[..], &["--longest", "60", &collection]].concat()));
    let service = Service::start(&["--data-dir", &path("data"), "--search", &collection], Stdio::null());
    let state = path("state");
    let target = ["--url", &service.url, "--application", "search/places", "--state-dir", &state];
    let ask = [&["search", "ask"][..], &target, &["--words", &table, "--json", "meadow"]].concat();
    let found = ask_until(&ask, "meadow tree", true);
    assert!(found.starts_with("{\"cosine\":") && found.contains("\"id\":\"2\""), "{found}");

    std::fs::write(path("more.csv"), "id,text\n9,meadow meadow\n0,ship harbour ship\n").unwrap();
    let more = path("more.csv");
    let put = [&["search", "put", "--from", &more][..], &columns, &[collection.as_str()]].concat();
    assert_eq!(text(&unspoken(&put)), "added 1, replaced 1; 5 documents\n");
    let found = ask_until(&ask, "meadow meadow", true);
    assert!(found.contains("ship harbour ship") && !found.contains("ship wave"), "{found}");
    assert_eq!(text(&unspoken(&["search", "delete", &collection, "9"])), "removed 1; 4 documents\n");
    ask_until(&ask, "meadow meadow", false);
    let refused = complaint(&unspoken(&["search", "delete", &collection, "1", "9"]));
    assert!(refused.contains("found no document with the id 9; nothing was changed"), "{refused}");
    let info = text(&unspoken(&["search", "info", &collection, "--json"]));
    let info: Value = serde_json::from_str(&info).unwrap();
    assert_eq!((&info["documents"], &info["removed"]), (&4.into(), &2.into()), "{info}");

    std::fs::write(path("documents.csv"), "id,text\n1,tree\n2,harbour wave\n").unwrap();
    text(&unspoken(&[&build[..], &["--replace", &collection]].concat()));
    let found = ask_until(&ask, "harbour wave", true);
    assert!(!found.contains("mountain"), "{found}");
}

#[test]
fn a_collection_in_shards_is_searched_as_one() {
    const DOCUMENTS: usize = 9000;
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let texts: String = (0..DOCUMENTS).map(|number| format!("note {number}\n")).collect();
    std::fs::write(path("notes.csv"), format!("text\n{texts}")).unwrap();
    // In all directions.
    let coordinate = |number: usize| {
        let mixed = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        (mixed >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    let vector = |number: usize| (0..16).map(move |j| coordinate(16 * number + j));
    let vectors = npy(&format!("({DOCUMENTS}, 16)"), (0..DOCUMENTS).flat_map(vector));
    std::fs::write(path("vectors.npy"), vectors).unwrap();
    let (notes, vectors, collection) = (path("notes.csv"), path("vectors.npy"), path("notes"));
    let build = ["search", "build", "--from", &notes, "--value", "text", "--vectors", &vectors, "--recall", "1"];
    text(&unspoken(&[&build[..], &[&collection]].concat()));
    let info = text(&unspoken(&["search", "info", &collection, "--json"]));
    let info: Value = serde_json::from_str(&info).unwrap();
    assert!(info["groups"].as_u64() >= Some(2), "{info}");

    let start = |arguments: &[&str], keys: &str| {
        Service::start(&[arguments, &["--data-dir", &path(keys)]].concat(), Stdio::null())
    };
    let shard =
        |number: usize| start(&["--search-shard", &format!("{collection},part={number}/2")], &format!("keys {number}"));
    let mut shards = vec![shard(1), shard(2)];
    let entries = shards.iter().map(|shard| format!("[[shard]]\nurl = {:?}\n", shard.url));
    std::fs::write(path("shards.toml"), entries.collect::<String>()).unwrap();
    let router = format!("search/notes={},patience=1", path("shards.toml"));
    let router = start(&["--search-router", &router, "--search-documents", &collection], "router keys");
    let state = path("state");
    let ask = |number: usize| {
        std::fs::write(path("query.npy"), npy("(16,)", vector(number))).unwrap();
        let target = ["search", "ask", "--url", &router.url, "--state-dir", &state, "-k", "1"];
        unspoken(&[&target[..], &["--vector", &path("query.npy")]].concat())
    };
    for number in [0, 4567, 8999] {
        assert!(text(&ask(number)).ends_with(&format!("  note {number}\n")), "{number}");
    }
    drop(shards.remove(0));
    let refused = complaint(&ask(77));
    assert!(refused.contains("shard 1 of 2 does not answer"), "{refused}");
    let refused = complaint(&unspoken(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        &path("none"),
        "--search-shard",
        &format!("{collection},part=9/9"),
    ]));
    assert!(refused.contains("found shard 9 of 9"), "{refused}");
}
