//! Tests of answers from mapped tables and later changes, at insecure parameters.

mod common;

use common::{GO_ON, build, builder, keyed, value};
use unspoken_database::{Database, Writer};
use unspoken_pir::{DatabaseVersion, Mode, PirSecret, VersionedDatabase, answer};
use unspoken_ring::SecretRng;

#[test]
fn answers_are_of_the_version_that_is_held() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("database");
    build(&builder(), &dir, (0..2000).map(|i| keyed(format!("key {i}"), value(i)))).unwrap();
    let database = Database::open(&dir).unwrap();
    let parameters = database.parameters().clone();
    let mut rng = SecretRng::insecure_from_seed(4);
    let secret = PirSecret::generate(&parameters, &mut rng).unwrap();
    let keys = secret.keys(Mode::Packed, &mut rng).unwrap().expand().unwrap();
    let mut ask = |version: &unspoken_database::Snapshot, key: &str| {
        let layout = version.layout();
        let cell = |bucket: u64| {
            let query = secret.query(Mode::Packed, version.shape(), bucket, &mut rng).unwrap();
            let planes = version.planes();
            let (responses, _) = answer(&keys, version.shape(), &planes, &query, &GO_ON).unwrap();
            responses
                .iter()
                .enumerate()
                .flat_map(|(plane, response)| secret.extract(response, plane, bucket).unwrap().to_vec())
                .collect::<Vec<u8>>()
        };
        let cells: Vec<Vec<u8>> = layout.candidates(key.as_bytes()).unwrap().iter().copied().map(cell).collect();
        layout.find(key.as_bytes(), &cells).unwrap().map(<[u8]>::to_vec)
    };
    let before = database.snapshot();
    assert_eq!(ask(&before, "key 77"), Some(value(77)));
    assert_eq!(ask(&before, "key 2000"), None);
    let mut writer = Writer::open(&dir).unwrap();
    writer.put(b"key 77", b"changed").unwrap();
    writer.delete(b"key 78").unwrap();
    writer.put(b"key 2000", b"added").unwrap();
    for i in 300..330 {
        writer.put(format!("key {i}").as_bytes(), b"another").unwrap();
        writer.commit().unwrap();
    }
    assert!(database.refresh().unwrap());
    let after = database.snapshot();
    assert!(after.changed_entries() > 20);
    writer.compact(|_| (), &GO_ON).unwrap();
    assert!(database.refresh().unwrap());
    for version in [&after, &database.snapshot()] {
        assert_eq!(ask(version, "key 77"), Some(b"changed".to_vec()));
        assert_eq!(ask(version, "key 78"), None);
        assert_eq!(ask(version, "key 79"), Some(value(79)));
        assert_eq!(ask(version, "key 2000"), Some(b"added".to_vec()));
        assert_eq!(ask(version, "key 329"), Some(b"another".to_vec()));
    }
    assert_eq!(ask(&before, "key 77"), Some(value(77)));
    assert_eq!(ask(&before, "key 78"), Some(value(78)));
}
