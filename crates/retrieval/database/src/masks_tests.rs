//! Dense databases of releases that had one constant for the public masks of all of them.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use unspoken_pir_scheme::{
    DatabaseVersion, Layout, Length, Mode, PirSecret, PlaneShape, Planes, Preset, TableKind, dense,
};
use unspoken_ring::SecretRng;

use crate::build::Builder;
use crate::database::Database;
use crate::disk::Disk;
use crate::geometry::Geometry;
use crate::progress::Monitor;
use crate::records::Record;
use crate::snapshot::Snapshot;
use crate::store::Plan;
use crate::writer::Writer;

static GO_ON: AtomicBool = AtomicBool::new(false);

/// Writes a database as those releases did.
fn write_old(dir: &Path) {
    let parameters = Preset::InsecureN11.build().unwrap();
    let layout = Layout::Index { records: 5, length: Length::Fixed(2000) };
    let geometry = Geometry::new(&parameters, layout, TableKind::Dense, None).unwrap();
    std::fs::create_dir(dir).unwrap();
    let disk = Disk::default();
    let plan = Plan { disk: &disk, dir, geometry: &geometry, sealing: None, generation: 1, version: 1, records: 5 };
    let mut cell = |number: u64, to: &mut Vec<u8>| {
        to.extend([number as u8; 2000]);
        Ok(())
    };
    let monitor = &mut Monitor { progress: &mut |_| (), cancel: &GO_ON };
    plan.write(&mut cell, monitor).unwrap().publish(&disk, dir).unwrap();
}

fn ask(version: &Snapshot, cell: u64) -> Vec<u8> {
    let (PlaneShape::Dense(shape), Planes::Dense(planes)) = (version.tables().shape(), version.planes()) else {
        panic!("tables of another kind")
    };
    let (parameters, mut rng) = (version.parameters(), SecretRng::insecure_from_seed(cell));
    let secret = PirSecret::generate(parameters, &mut rng).unwrap();
    let keys = secret.keys(Mode::Packed, &mut rng).unwrap().expand().unwrap();
    let query = secret.dense_query(shape, cell, &mut rng).unwrap();
    let responses = dense::answer(parameters, shape, &planes, &[(&keys, &query)], &GO_ON).unwrap();
    secret.dense_extract(&responses[0][0], shape).unwrap()[..2000].to_vec()
}

#[test]
fn a_dense_database_of_an_earlier_release_is_read_and_changed_as_it_is() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("old");
    write_old(&dir);
    let manifest = || {
        let bytes = std::fs::read(dir.join("manifest.json")).unwrap();
        serde_json::from_slice::<serde_json::Value>(&bytes).unwrap()["manifest"].clone()
    };
    assert_eq!((&manifest()["format"], manifest().get("masks")), (&2.into(), None));
    let database = Database::open(&dir).unwrap();
    assert_eq!(ask(&database.snapshot(), 4), [4; 2000]);
    let mut writer = Writer::open(&dir).unwrap();
    writer.set(4, &[9; 2000]).unwrap();
    writer.commit().unwrap();
    writer.compact(|_| (), &GO_ON).unwrap();
    drop(writer);
    assert_eq!(manifest()["format"], 2);
    assert!(database.refresh().unwrap());
    assert_eq!(ask(&database.snapshot(), 4), [9; 2000]);
    // Building the database again gives it masks of its own, while it is served.
    let mut masks = Vec::new();
    for (tables, format) in [(TableKind::Dense, 5), (TableKind::Wide, 6)] {
        let builder = Builder { tables, replace: true, ..Builder::new(Preset::InsecureN11) };
        let records = (0..5).map(|i| Ok::<_, std::io::Error>(Record { key: None, value: vec![i + 1; 2000] }));
        builder.build(&dir, records, |_| (), &GO_ON).unwrap();
        assert_eq!(manifest()["format"], format);
        assert!(database.refresh().unwrap());
        masks.push(database.snapshot().tables().masks().unwrap());
        assert_eq!(ask(&database.snapshot(), 4), [5; 2000]);
    }
    // Wide tables that replace dense ones keep the masks.
    assert_eq!(masks[0], masks[1]);
}
