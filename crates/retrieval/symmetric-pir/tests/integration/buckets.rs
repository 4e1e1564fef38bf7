//! Sealed records in the buckets of a database by key.

use unspoken_pir_scheme::layout::{Bucket, KeysPlan};
use unspoken_pir_scheme::{Layout, Preset, TableKind};
use unspoken_symmetric_pir::{Blinded, Name, OVERHEAD_BYTES, ServiceKey, SymmetricPirError};

const CODES: [(&str, &str); 4] =
    [("A00", "Cholera"), ("B01", "Varicella"), ("B05", "Measles"), ("J45", "Asthma, which is longer")];

/// All records in one bucket, under their labels.
fn build(service: &ServiceKey) -> (Layout, Vec<u8>) {
    let sealed_bytes = OVERHEAD_BYTES + service.sealing().record_bytes() as usize;
    let parameters = Preset::InsecureN11.build().unwrap();
    let lengths = CODES.iter().map(|_| sealed_bytes);
    let layout = Layout::for_keys(&parameters, lengths, &KeysPlan::new(TableKind::Transformed, 1, [5; 16])).unwrap();
    let mut bucket = Bucket::default();
    for (code, title) in CODES {
        let key = service.record_key(Name::Key(code.as_bytes())).unwrap();
        let sealed = key.seal(service.sealing(), title.as_bytes()).unwrap();
        assert_eq!(bucket.insert(layout.tag(key.label()).unwrap(), sealed), None);
    }
    let bytes = bucket.to_bytes(bucket.bytes()).unwrap();
    (layout, bytes)
}

#[test]
fn a_bucket_gives_the_record_that_was_asked_for() {
    let service = ServiceKey::generate(32).unwrap();
    let (layout, bucket) = build(&service);
    for (code, title) in CODES.into_iter().chain([("Z99", "")]) {
        let blinded = [Blinded::new(service.sealing(), Name::Key(code.as_bytes())).unwrap()];
        let response = service.evaluate(&Blinded::request(&blinded), 1).unwrap();
        let [key] = &Blinded::finalize(service.sealing(), &blinded, &response).unwrap()[..] else { panic!("one key") };
        let found = Bucket::find(&bucket, layout.tag(key.label()).unwrap()).unwrap();
        let opened = found.map(|sealed| key.open(service.sealing(), sealed).unwrap().to_vec());
        assert_eq!(opened.unwrap_or_default(), title.as_bytes(), "{code}");
        assert_eq!(found.is_none(), code == "Z99");
        // The other entries of the bucket do not open.
        let entries = Bucket::read(&bucket).unwrap();
        let opened = entries.entries().iter().filter(|(_, sealed)| match key.open(service.sealing(), sealed) {
            Ok(_) => true,
            Err(SymmetricPirError::Unopened) => false,
            Err(error) => panic!("{error}"),
        });
        assert_eq!(opened.count(), usize::from(found.is_some()));
    }
}

#[test]
fn guesses_of_keys_match_no_tag_of_a_bucket() {
    let service = ServiceKey::generate(32).unwrap();
    let (layout, bucket) = build(&service);
    // A client has the seed of the layout, and the keys of another service: neither gives the tags of these labels.
    let other = ServiceKey::generate(32).unwrap();
    for (code, _) in CODES {
        let guess = layout.tag(code.as_bytes()).unwrap();
        let label = *other.record_key(Name::Key(code.as_bytes())).unwrap().label();
        for tag in [guess, layout.tag(&label).unwrap()] {
            assert_eq!(Bucket::find(&bucket, tag).unwrap(), None);
        }
    }
    // All entries have one length, so a record is not recognised by it.
    let bucket = Bucket::read(&bucket).unwrap();
    assert!(bucket.entries().iter().all(|(_, sealed)| sealed.len() == OVERHEAD_BYTES + 32));
}
