//! Tests of `unspoken keys` by a client without a token, at secure parameters.

use std::convert::Infallible;
use std::fs::File;
use std::sync::atomic::AtomicBool;

use crate::support::{Service, complaint, text, unspoken};
use unspoken_database::{Builder, Record};
use unspoken_pir_scheme::Preset;

static GO: AtomicBool = AtomicBool::new(false);

#[test]
fn two_databases_share_a_bundle_which_is_listed_and_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    for (name, byte) in [("one", 0xfe), ("two", 0xff)] {
        let records = (0..20).map(|_| Ok::<_, Infallible>(Record { key: None, value: vec![byte; 100] }));
        Builder::new(Preset::N11).build(path(name), records, |_| {}, &GO).unwrap();
    }
    let (one, two, data) = (path("one"), path("two"), path("data"));
    let arguments = ["--pir", &one, "--pir", &two, "--data-dir", &data, "--key-disk-mib", "256"];
    let service = Service::start(&arguments, File::create(path("log")).unwrap());
    let log = std::fs::read_to_string(path("log")).unwrap();
    assert!(log.contains("room for key bundles") && log.contains("key_disk_bytes=268435456"), "{log}");

    let get = |application: &str| {
        let state = path("state");
        let target = ["pir", "get", "--url", &service.url, "--app", application, "--state-dir", &state];
        let output = unspoken(&[&target[..], &["--index", "7", "--json", "--usage"]].concat());
        assert!(text(&output).contains("record_hex"));
        String::from_utf8(output.stderr).unwrap().contains("at the service already")
    };
    let list = |state: &str| {
        let lines = text(&unspoken(&["keys", "list", "--url", &service.url, "--state-dir", &path(state)]));
        lines.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(list("state").is_empty());
    assert!(!get("pir/one"));
    assert!(get("pir/two"), "the second database uses the keys of the first");
    let listed = list("state");
    let [line] = listed.as_slice() else { panic!("{listed:?}") };
    assert!(line.contains("ready\tpir/one") && line.ends_with(" UTC (in 29 days)"), "{line}");
    // Another client without a token sees nothing.
    assert!(list("other").is_empty());
    let id = line.split('\t').next().unwrap();
    text(&unspoken(&["keys", "delete", "--url", &service.url, id]));
    assert!(list("state").is_empty());
    assert!(complaint(&unspoken(&["keys", "delete", "--url", &service.url, id])).contains("key_not_found"));
    assert!(!get("pir/two"));
    assert!(get("pir/one"));
}
