//! A contributor that encrypts values, and a collector that decrypts their sums.

use std::path::Path;
use std::sync::Arc;

use unspoken_protocol::{Call, ClientHalf, ClientId, Request, ServerHalf};
use unspoken_sums::{
    CollectionOptions, CollectorAnswer, CollectorKey, CollectorQuestion, Column, ContributionEncryptor, MemoryStore,
    SumsCollector, SumsContributor, SumsServer, Trust, Zeros, create_with_preset,
};

use crate::constant_time::memcheck::{mark_public, mark_secret};

const CLIENT: ClientId = ClientId::new([1; 16]);

pub fn run(_: &Path) -> anyhow::Result<()> {
    let columns = vec![Column::new("visits", 0, 20)?, Column::new("change", -5, 5)?];
    let options = CollectionOptions { columns, most_contributions: 10, least_contributions: 2 };
    let (description, key) = create_with_preset("insecure_n10_exact17", &options)?;
    let server = SumsServer::new(description.clone(), MemoryStore::default())?;
    let mut contributor = SumsContributor::open(description.clone(), Trust::First, None)?;
    for numbers in [[3, -1], [20, 5]] {
        let mut values = numbers.to_vec();
        mark_secret(&mut values);
        let contribution = ContributionEncryptor::new(&description, Zeros::OnDemand)?.encrypt(&values)?;
        let encoded = contributor.encode(&[contribution])?;
        let mut query = contributor.query(&encoded)?;
        // A ciphertext, which the service gets.
        mark_public(&mut query);
        server.answer(&Request::new(CLIENT, &(), &query), &Call::default())?;
    }
    let mut private = key.to_bytes();
    // The secret follows the format and the fingerprint.
    mark_secret(&mut private[40..]);
    let key = CollectorKey::from_bytes(&private)?;
    let mut collector = SumsCollector::open(description, Arc::new(key), None)?;
    let mut query = collector.query(&[CollectorQuestion::Close])?;
    // The token, which the service gets.
    mark_public(&mut query);
    let answer = server.answer(&Request::new(CLIENT, &(), &query), &Call::default())?;
    let sums = collector.read(&answer, &[CollectorQuestion::Close])?;
    anyhow::ensure!(matches!(sums.as_slice(), [CollectorAnswer::Sums(_)]), "another answer");
    Ok(())
}
