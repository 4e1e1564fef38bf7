//! Building, changing and following collections.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use ndarray::Array2;
use unspoken_collection::{Builder, Built, Collection, CollectionError, Step, Writer};
use unspoken_database::{Database, DatabaseError, Writer as DatabaseWriter};
use unspoken_pir_scheme::{DatabaseVersion, Staleness, VersionedDatabase};
use unspoken_search_index::{Document, IndexEdit, directions};

const WIDTH: usize = 16;

static NEVER: AtomicBool = AtomicBool::new(false);

/// Vectors in all directions, others for each seed.
fn vectors(count: usize, seed: usize) -> Array2<f32> {
    Array2::from_shape_fn((count, WIDTH), |(i, j)| {
        let mixed = ((seed << 40 | i << 8 | j) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        (mixed >> 40) as f32 / (1 << 23) as f32 - 1.0
    })
}

fn documents(count: usize) -> Vec<Document> {
    let document = |number: usize| Document {
        id: Some(format!("id {number}").into_bytes()),
        content: format!("document {number}").into_bytes(),
    };
    (0..count).map(document).collect()
}

fn build(dir: &Path, count: usize, seed: usize, replace: bool) -> Result<Built, CollectionError> {
    let builder = Builder { recall: 1.0, longest: 100, replace, ..Builder::default() };
    builder.build(dir, &documents(count), vectors(count, seed), &mut |_| (), &NEVER)
}

/// The version of the documents, and those that belong to the index.
fn versions(collection: &Collection) -> (u32, [u32; 2]) {
    (VersionedDatabase::current(collection).version() as u32, collection.index().document_versions())
}

fn nearest(collection: &Collection, vector: &[f32]) -> (Document, f32) {
    let found = collection.search(vector, 1).unwrap().remove(0);
    (found.document, found.cosine)
}

#[test]
fn a_collection_is_built_and_every_document_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let mut steps = Vec::new();
    let built = Builder::default()
        .build(dir.path(), &documents(3000), vectors(3000, 1), &mut |step| steps.push(step), &NEVER)
        .unwrap();
    assert_eq!((built.documents, built.width), (3000, WIDTH));
    assert!(built.recall >= 0.9, "{built:?}");
    assert!(steps.contains(&Step::Measure) && steps.iter().any(|step| matches!(step, Step::Store(_))));
    assert!(matches!(steps[0], Step::Cluster { done: 0, total: 2.. }), "{:?}", steps[0]);
    let collection = Collection::open(dir.path(), None).unwrap();
    for number in [0, 1234, 2999] {
        let (document, cosine) = nearest(&collection, &vectors(3000, 1).row(number).to_vec());
        assert_eq!(document, documents(3000)[number]);
        assert!((cosine - 1.0).abs() < 0.02, "{cosine}");
    }
    assert_eq!(collection.search(&[1.0; WIDTH], 5000).unwrap().len(), 3000);
}

#[test]
fn what_cannot_be_built_is_refused_and_an_existing_collection_stays() {
    let dir = tempfile::tempdir().unwrap();
    build(dir.path(), 1, 1, false).unwrap();
    let refused = |documents: &[Document], vectors: Array2<f32>, replace: bool| {
        let builder = Builder { replace, ..Builder::default() };
        builder.build(dir.path(), documents, vectors, &mut |_| (), &NEVER).unwrap_err().to_string()
    };
    assert!(refused(&documents(2), vectors(2, 1), false).contains("has a collection already"));
    assert!(refused(&documents(2), vectors(3, 1), true).contains("2 documents and 3 vectors"));
    assert!(refused(&[], vectors(0, 1), true).contains("found none"));
    let twice = [documents(1), documents(1)].concat();
    assert!(refused(&twice, vectors(2, 1), true).contains("two documents with the id id 0"));
    let mut zero = vectors(2, 1);
    zero.row_mut(1).fill(0.0);
    assert!(refused(&documents(2), zero, true).contains("zeros in vector 1"));
    let long = Document { id: Some(vec![0; 2000]), content: vec![] };
    assert!(refused(&[long], vectors(1, 1), true).contains("needed at most 1024"));
    let cancelled = AtomicBool::new(true);
    let builder = Builder { replace: true, ..Builder::default() };
    let error = builder.build(dir.path(), &documents(9), vectors(9, 1), &mut |_| (), &cancelled).unwrap_err();
    assert!(matches!(error, CollectionError::Cancelled));
    let collection = Collection::open(dir.path(), None).unwrap();
    assert_eq!(nearest(&collection, &vectors(1, 1).row(0).to_vec()).0, documents(1)[0]);
    let mut left: Vec<String> =
        std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    left.sort();
    assert_eq!(left.split_off(1), ["search.json", "writer.lock"], "and the directory of the build");
}

#[test]
fn changes_are_followed() {
    let dir = tempfile::tempdir().unwrap();
    build(dir.path(), 100, 1, false).unwrap();
    let collection = Collection::open(dir.path(), None).unwrap();
    assert!(!collection.refresh().unwrap());
    let before = VersionedDatabase::current(&collection);
    let vector: Vec<f32> = vectors(100, 77).row(3).to_vec();
    let mut writer = Writer::open(dir.path()).unwrap();
    for second in [Writer::open(dir.path()).map(drop), build(dir.path(), 9, 1, true).map(drop)] {
        let refused = second.unwrap_err();
        assert!(matches!(refused, CollectionError::Documents(DatabaseError::Locked { .. })), "{refused}");
    }
    assert_eq!((writer.documents(), writer.width()), (100, WIDTH));
    let added = Document { id: Some(b"new".to_vec()), content: b"first".to_vec() };
    assert!(!writer.put(&added, &vector).unwrap());
    assert!(!collection.refresh().unwrap(), "nothing is committed");
    writer.commit().unwrap();
    assert_eq!(versions(&collection), (1, [1, 1]));
    assert!(collection.refresh().unwrap());
    assert_eq!(versions(&collection), (2, [2, 2]));
    assert_eq!(nearest(&collection, &vector).0, added);
    assert!(VersionedDatabase::current(&collection).version() > before.version());
    let again = Document { content: b"second".to_vec(), ..added.clone() };
    assert!(writer.put(&again, &vector).unwrap());
    assert!(writer.delete(b"id 5").unwrap());
    assert!(!writer.delete(b"id 5").unwrap() && !writer.delete(b"nobody").unwrap());
    let unnamed = Document { id: None, content: b"unnamed".to_vec() };
    assert!(!writer.put(&unnamed, &vectors(100, 78).row(3).to_vec()).unwrap());
    writer.commit().unwrap();
    assert_eq!(writer.documents(), 101);
    assert!(collection.refresh().unwrap());
    // What is new was stored first, and what is gone was removed last.
    assert_eq!(versions(&collection), (4, [3, 4]));
    assert_eq!(nearest(&collection, &vector).0, again);
    assert_eq!(nearest(&collection, &vectors(100, 78).row(3).to_vec()).0, unnamed);
    let all = collection.search(&vector, 1000).unwrap();
    assert_eq!((all.len(), collection.index().documents()), (101, 101));
    assert!(all.iter().all(|found| found.document != added && found.document != documents(100)[5]));
    drop(writer);
    let mut writer = Writer::open(dir.path()).unwrap();
    assert_eq!(writer.documents(), 101);
    for (document, vector, said) in [
        (&unnamed, &[0.0; WIDTH][..], "found zeros"),
        (&unnamed, &[f32::NAN; WIDTH], "not finite"),
        (&unnamed, &[1.0; 3], "found 3 coordinates"),
        (&Document { id: None, content: vec![1; 10_000] }, &[1.0; WIDTH], "bytes"),
    ] {
        let refused = writer.put(document, vector).unwrap_err().to_string();
        assert!(refused.contains(said), "{said}: {refused}");
    }
    writer.commit().unwrap();
    collection.refresh().unwrap();
    assert_eq!(collection.search(&vector, 1000).unwrap().len(), 101);
}

#[test]
fn a_rebuild_is_followed_as_a_whole() {
    let dir = tempfile::tempdir().unwrap();
    build(dir.path(), 100, 1, false).unwrap();
    let collection = Collection::open(dir.path(), None).unwrap();
    let (before, index) = (VersionedDatabase::current(&collection), collection.index());
    build(dir.path(), 3000, 2, true).unwrap();
    // What was opened before can still be read.
    assert_eq!(nearest(&collection, &vectors(100, 1).row(7).to_vec()).0, documents(100)[7]);
    assert!(collection.refresh().unwrap());
    assert_eq!(nearest(&collection, &vectors(3000, 2).row(2345).to_vec()).0, documents(3000)[2345]);
    let now = VersionedDatabase::current(&collection);
    assert_ne!(now.version() >> 32, before.version() >> 32, "another build");
    assert_ne!(collection.index().id(), index.id());
    assert_eq!(collection.staleness(), None);
    std::fs::remove_file(dir.path().join("search.json")).unwrap();
    assert!(collection.refresh().is_err());
    assert_eq!(collection.staleness(), Some(Staleness::Unreadable));
    assert_eq!(nearest(&collection, &vectors(3000, 2).row(2345).to_vec()).0, documents(3000)[2345]);
}

#[test]
fn a_writer_that_stopped_between_two_steps_leaves_nothing_that_is_found() {
    let dir = tempfile::tempdir().unwrap();
    build(dir.path(), 100, 1, false).unwrap();
    let vector: Vec<f32> = vectors(100, 77).row(3).to_vec();
    let added = Document { id: Some(b"new".to_vec()), content: b"first".to_vec() };
    // As if it had stopped before the index was written: the documents have a version that the index lacks.
    let manifest = std::fs::read(dir.path().join("search.json")).unwrap();
    let backup = tempfile::tempdir().unwrap();
    let id = collection_id(dir.path());
    for entry in std::fs::read_dir(dir.path().join(&id)).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            std::fs::copy(&path, backup.path().join(path.file_name().unwrap())).unwrap();
        }
    }
    let mut writer = Writer::open(dir.path()).unwrap();
    writer.put(&added, &vector).unwrap();
    writer.commit().unwrap();
    drop(writer);
    for entry in std::fs::read_dir(backup.path()).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, dir.path().join(&id).join(path.file_name().unwrap())).unwrap();
    }
    std::fs::write(dir.path().join("search.json"), manifest).unwrap();
    let collection = Collection::open(dir.path(), None).unwrap();
    assert_eq!(collection.search(&vector, 1000).unwrap().len(), 100);
    assert_eq!(versions(&collection), (2, [1, 1]));
    let mut writer = Writer::open(dir.path()).unwrap();
    collection.refresh().unwrap();
    assert_eq!(versions(&collection), (3, [1, 3]), "what was stored, and what is left of it");
    assert_eq!(writer.documents(), 100);
    // What the writer that stopped had stored is gone.
    writer.commit().unwrap();
    collection.refresh().unwrap();
    let stored = Database::open(dir.path().join(&id).join("documents")).unwrap().snapshot();
    let is_there = |place: &u64| stored.record(*place).unwrap().is_some_and(|record| !record.is_empty());
    assert_eq!((0..stored.records()).filter(is_there).count(), 100);
    let other = Document { id: Some(b"other".to_vec()), content: b"another".to_vec() };
    assert!(!writer.put(&other, &vector).unwrap());
    writer.commit().unwrap();
    collection.refresh().unwrap();
    assert_eq!(versions(&collection), (4, [4, 4]));
    assert_eq!(nearest(&collection, &vector).0, other);
    assert_eq!(collection.search(&vector, 1000).unwrap().len(), 101);
}

#[test]
fn documents_that_are_older_than_the_index_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    build(dir.path(), 100, 1, false).unwrap();
    let manifest = std::fs::read_to_string(dir.path().join("search.json")).unwrap();
    let later = manifest.replace("\"document_versions\": [\n    1,\n    1\n  ]", "\"document_versions\": [2, 3]");
    assert_ne!(later, manifest);
    std::fs::write(dir.path().join("search.json"), later).unwrap();
    let refused = Collection::open(dir.path(), None).unwrap_err().to_string();
    assert!(refused.contains("found version 1") && refused.contains("needed 2 or later"), "{refused}");
}

#[test]
fn a_writer_that_stopped_before_it_removed_a_document_leaves_nothing_that_is_found() {
    let dir = tempfile::tempdir().unwrap();
    build(dir.path(), 100, 1, false).unwrap();
    let collection = Collection::open(dir.path(), None).unwrap();
    let vector = directions(vectors(100, 1)).unwrap().row(5).to_vec();
    let before = collection.search(&vector, 1).unwrap()[0].position;
    // The steps of a commit that replaces a document, without the last one.
    let again = Document { content: b"again".to_vec(), ..documents(100)[5].clone() };
    let mut index = IndexEdit::open(dir.path()).unwrap();
    let position = index.add(&vector).unwrap();
    let mut stored = DatabaseWriter::open(dir.path().join(collection_id(dir.path())).join("documents")).unwrap();
    stored.set(position, &again.to_record().unwrap()).unwrap();
    assert_eq!(stored.commit().unwrap(), 2);
    drop(stored);
    index.remove(before);
    index.commit([2, 3]).unwrap();
    drop(Writer::open(dir.path()).unwrap());
    collection.refresh().unwrap();
    assert_eq!(versions(&collection), (3, [2, 3]), "as if it had not stopped");
    assert_eq!(nearest(&collection, &vector).0, again);
    let stored = Database::open(dir.path().join(collection_id(dir.path())).join("documents")).unwrap().snapshot();
    assert!(stored.record(before).unwrap().unwrap_or_default().is_empty());
    let mut writer = Writer::open(dir.path()).unwrap();
    assert!(writer.put(&Document { content: b"third".to_vec(), ..again }, &vector).unwrap());
    writer.commit().unwrap();
    collection.refresh().unwrap();
    assert_eq!(versions(&collection), (5, [4, 5]), "no version belongs to both");
}

/// Name of the directory of the build.
fn collection_id(dir: &Path) -> String {
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let builds = names.filter(|entry| entry.path().is_dir());
    builds.map(|entry| entry.file_name().into_string().unwrap()).next().unwrap()
}
