//! `unspoken pir oprf-key`, and sealing of records before they are stored.

use std::path::PathBuf;

use anyhow::Context;
use unspoken_database::{Record, SealingId, Writer};
use unspoken_files::{Access, replace_file};
use unspoken_symmetric_pir::{MAX_RECORD_BYTES, Name, OVERHEAD_BYTES, ServiceKey};

/// Make the secret key of a database for symmetric PIR, whose records are sealed
///
/// The records of a sealed database are encrypted, each under a key of its own. A client gets whole buckets, but opens
/// only the records whose keys it asked for: `unspoken serve --offer oprf=FILE` gives these keys, without learning
/// which, and counts them. The file opens all records; the database's owner and its service need it, nobody else.
#[derive(clap::Args)]
pub struct Arguments {
    /// Bytes to which all records are padded, so that their length tells nothing; longer ones are refused. A sealed
    /// record has 44 bytes more
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_RECORD_BYTES)))]
    record_bytes: u32,
    /// The file to write, readable by its owner only. It must not exist
    file: PathBuf,
}

/// Option of commands that write records.
#[derive(clap::Args)]
pub struct OprfKeyOption {
    /// Seal the records with the key in this file, made by `unspoken pir oprf-key`. All records of a database are
    /// sealed with one key, or none
    #[arg(long, value_name = "FILE")]
    oprf_key: Option<PathBuf>,
}

/// Runs `unspoken pir oprf-key`.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let path = &arguments.file;
    anyhow::ensure!(
        !path.try_exists().with_context(|| format!("cannot look for {}", path.display()))?,
        "{} exists; without it, the records that are sealed with it are lost: name another file",
        path.display()
    );
    let key = ServiceKey::generate(arguments.record_bytes)?;
    replace_file(path, &key.to_bytes(), Access::Owner).with_context(|| format!("cannot write {}", path.display()))?;
    println!("records     padded to {} bytes, sealed {}", arguments.record_bytes, sealed_bytes(&key));
    println!("public key  {}", hex::encode(key.sealing().public_key()));
    println!("seal with   unspoken pir build --oprf-key {}", path.display());
    Ok(())
}

/// Bytes of a sealed record.
fn sealed_bytes(key: &ServiceKey) -> usize {
    OVERHEAD_BYTES + key.sealing().record_bytes() as usize
}

impl OprfKeyOption {
    /// Reads the key, if one is named.
    pub fn open(&self) -> anyhow::Result<Sealer> {
        Ok(Sealer(self.oprf_key.as_deref().map(unspoken_offers::read_key).transpose()?))
    }

    /// Reads the key for a database: the key with which its records are sealed, or none if they are not sealed.
    pub fn open_for(&self, writer: &Writer) -> anyhow::Result<Sealer> {
        let sealer = self.open()?;
        match (writer.sealing(), sealer.id()) {
            (needed, found) if needed == found => Ok(sealer),
            (None, _) => anyhow::bail!("the records of the database are not sealed; leave out --oprf-key"),
            (Some(_), None) => anyhow::bail!("the records of the database are sealed; name their key: --oprf-key"),
            (Some(_), Some(_)) => {
                anyhow::bail!("the records of the database are sealed with another key than --oprf-key")
            }
        }
    }
}

/// Seals records, or leaves them as they are.
pub struct Sealer(Option<ServiceKey>);

impl Sealer {
    /// Id of the sealing, if there is one.
    pub fn id(&self) -> Option<SealingId> {
        self.0.as_ref().map(|service| service.sealing().id())
    }

    /// Bytes that are stored for a record of this length.
    pub fn stored_bytes(&self, length: usize) -> usize {
        self.0.as_ref().map_or(length, sealed_bytes)
    }

    /// The record as it is stored. One without a key is stored at this index.
    pub fn record(&self, record: &Record, index: u64) -> anyhow::Result<Record> {
        match &record.key {
            Some(key) => Ok(Record { key: Some(self.key(key)?), value: self.value(Name::Key(key), &record.value)? }),
            None => Ok(Record { key: None, value: self.value(Name::Index(index), &record.value)? }),
        }
    }

    /// The key under which a record is stored: a label, if it is sealed.
    pub fn key(&self, key: &[u8]) -> anyhow::Result<Vec<u8>> {
        match &self.0 {
            Some(service) => Ok(service.record_key(Name::Key(key))?.label().to_vec()),
            None => Ok(key.to_vec()),
        }
    }

    /// The bytes that are stored for a record.
    pub fn value(&self, name: Name<'_>, record: &[u8]) -> anyhow::Result<Vec<u8>> {
        match &self.0 {
            Some(service) => Ok(service.record_key(name)?.seal(service.sealing(), record)?),
            None => Ok(record.to_vec()),
        }
    }
}
