//! Measures building, opening and changing a database: `updates [RECORDS [BYTES]]`, in a temporary directory.

use std::convert::Infallible;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use unspoken_database::{Builder, Database, Record, Writer};
use unspoken_pir_scheme::Preset;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let count: u64 = arguments.next().unwrap_or_else(|| "20000".into()).parse()?;
    let bytes: usize = arguments.next().unwrap_or_else(|| "80".into()).parse()?;
    let temporary = tempfile::tempdir_in(".")?;
    let (dir, go_on) = (temporary.path().join("database"), AtomicBool::new(false));
    let key = |i: u64| format!("key {i}").into_bytes();
    let value = |i: u64| -> Vec<u8> { (0..bytes).map(|j| (i >> (j % 8)) as u8 ^ j as u8).collect() };
    let records = (0..count).map(|i| Ok::<_, Infallible>(Record { key: Some(key(i)), value: value(i) }));

    let started = Instant::now();
    let built = Builder::new(Preset::N11).build(&dir, records, |_| (), &go_on)?;
    println!("{built:?}");
    println!("built in {:.2} s", started.elapsed().as_secs_f64());
    let started = Instant::now();
    let database = Database::open(&dir)?;
    println!("opened and checked in {:.3} s, load {:.3}", started.elapsed().as_secs_f64(), database.snapshot().load()?);

    let mut writer = Writer::open(&dir)?;
    let mut next = 0;
    for (batch, commits) in [(1, 300), (100, 30)] {
        let started = Instant::now();
        for _ in 0..commits {
            for _ in 0..batch {
                next = (next + 7919) % count;
                writer.put(&key(next), &value(next + 1))?;
            }
            writer.commit()?;
        }
        let rate = f64::from(batch * commits) / started.elapsed().as_secs_f64();
        println!("commits of {batch}: {rate:.0} changes per second");
    }
    let started = Instant::now();
    assert!(database.refresh()?);
    let (seconds, changed) = (started.elapsed().as_secs_f64(), database.snapshot().changed_entries());
    println!(
        "read by a service in {seconds:.3} s: {changed} entries encoded, {:.0} per second",
        changed as f64 / seconds
    );
    let started = Instant::now();
    for _ in 0..1000 {
        assert!(!database.refresh()?);
    }
    println!("finding out that nothing has changed: {:.1} microseconds", started.elapsed().as_secs_f64() * 1e3);
    let started = Instant::now();
    writer.compact(|_| (), &go_on)?;
    println!("compacted in {:.2} s", started.elapsed().as_secs_f64());
    assert!(database.refresh()?);
    assert_eq!(database.snapshot().get(&key(next))?, Some(value(next + 1)));
    Ok(())
}
