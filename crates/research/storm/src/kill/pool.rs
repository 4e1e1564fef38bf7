//! Owners of a pool file that are killed at random moments.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use unspoken_ckks::{CkksParameters, Preset};
use unspoken_encrypt::{ClientKey, PoolFile, PoolPaths, PoolShape};
use unspoken_ring::SecretRng;
use unspoken_rlwe::SecretKey;
use zeroize::Zeroizing;

use super::{End, kill_after};
use crate::amount::Amount;
use crate::child;
use crate::verdict::Verdict;

/// Owners that run at the same time.
const OWNERS: usize = 2;
/// Entries of the file: few, so that its places are used again and again.
const ENTRIES: u32 = 6;
/// Longest life of an owner, counted from its start.
const LONGEST: Duration = Duration::from_millis(60);
/// Bytes of the name of an entry in a log.
const NAME_BYTES: usize = 32;

/// An owner: adds entries, takes them, and logs the name of each entry that it takes.
#[derive(clap::Args)]
pub struct Owner {
    directory: PathBuf,
    log: PathBuf,
}

/// Runs the command.
pub fn run(amount: &Amount) -> anyhow::Result<ExitCode> {
    let folder = tempfile::tempdir()?;
    let (mut rounds, mut random) = (amount.rounds(200), amount.random());
    let mut verdict = Verdict::new("kill pool");
    drop(PoolFile::create(&paths(folder.path()), &sealing_key(), key()?, shape()?)?);
    let directory = folder.path().to_str().context("a directory with a name that is not UTF-8")?;
    let (mut kills, mut ended, mut started) = (0u64, 0u64, 0u64);
    let mut logs = Vec::new();
    while rounds.next() {
        let mut owners = Vec::new();
        for _ in 0..OWNERS {
            let log = folder.path().join(format!("log{started}"));
            started += 1;
            let path = log.to_str().context("a directory with a name that is not UTF-8")?;
            owners.push(child::start(&["child", "pool", directory, path])?);
            logs.push(log);
        }
        for owner in owners {
            let life = LONGEST.mul_f64(random.f64());
            match kill_after(owner, life)? {
                End::Killed => kills += 1,
                End::Done => ended += 1,
                End::Failed(error) => verdict.finding(format!("an owner failed: {error}")),
            }
        }
    }
    let mut taken = HashMap::new();
    for (owner, log) in logs.iter().enumerate() {
        // A killed owner may not have made its log yet. A name that is cut off was not used.
        let bytes = std::fs::read(log).unwrap_or_default();
        for name in bytes.as_chunks::<NAME_BYTES>().0 {
            if let Some(first) = taken.insert(*name, owner) {
                let name = hex::encode(&name[..8]);
                verdict.finding(format!("entry {name} was handed out twice, to owners {first} and {owner}"));
            }
        }
    }
    if kills > 20 && taken.is_empty() {
        verdict.finding("no owner took an entry: the storm tested nothing");
    }
    verdict.number("kills", kills);
    verdict.number("ended", ended);
    verdict.number("entries", taken.len());
    verdict.number("seconds", rounds.elapsed().as_secs());
    Ok(verdict.print(amount.json))
}

/// Runs an owner until it is killed.
pub fn run_owner(owner: &Owner) -> anyhow::Result<()> {
    let parameters = parameters()?;
    let mut pool = PoolFile::open(&paths(&owner.directory), &sealing_key(), key()?, shape()?)?;
    let mut log = OpenOptions::new().append(true).create(true).open(&owner.log)?;
    let mut random = SecretRng::from_os()?;
    loop {
        pool.refill(&mut random, 2)?;
        for _ in 0..2 {
            if let Some(zero) = pool.take()? {
                let name = blake3::hash(&zero.into_bytes(parameters.rlwe())?);
                log.write_all(name.as_bytes())?;
            }
        }
    }
}

fn parameters() -> anyhow::Result<CkksParameters> {
    Ok(Preset::find("insecure_n11_linear_depth4_scale30")?.build()?)
}

/// The same key in every process.
fn key() -> anyhow::Result<ClientKey> {
    let secret = SecretKey::generate(parameters()?.rlwe(), &mut SecretRng::insecure_from_seed(3))?;
    Ok(ClientKey::Secret(Arc::new(secret)))
}

fn sealing_key() -> Zeroizing<[u8; 32]> {
    Zeroizing::new([9; 32])
}

fn shape() -> anyhow::Result<PoolShape> {
    Ok(PoolShape { basis: parameters()?.basis(0), capacity: ENTRIES })
}

fn paths(directory: &Path) -> PoolPaths {
    PoolPaths::beside(directory.join("pool"))
}
