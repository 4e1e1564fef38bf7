//! A client that asks for the key of a sealed record, and opens the record.

use std::path::Path;

use anyhow::Context;
use unspoken_oprf::{Allowance, Description, OprfClient, OprfServer, Question};
use unspoken_protocol::{ApplicationDescription, Call, ClientHalf, ClientId, Request, ServerHalf};
use unspoken_symmetric_pir::{Name, ServiceKey};
use zeroize::Zeroizing;

use crate::constant_time::memcheck::{mark_public, mark_secret};

const NAME: &[u8] = b"the key of a record";
const RECORD: &[u8] = b"the record";

pub fn run(_: &Path) -> anyhow::Result<()> {
    let owner = ServiceKey::generate(64)?;
    let server = OprfServer::new(ServiceKey::from_bytes(&owner.to_bytes())?, Allowance::new(10, 60)?);
    let description = Description::read(&server.describe(), false)?;
    let mut client = OprfClient::open(description, None, None)?;
    let mut name = NAME.to_vec();
    mark_secret(&mut name);
    let encoded = client.encode(&[Question::Key(name)])?;
    let mut query = client.query(&encoded)?;
    // Random elements, which the service gets.
    mark_public(&mut query);
    let answer = server.answer(&Request::new(ClientId::new([1; 16]), &(), &query), &Call::default())?;
    client.check_answer(&answer, 1)?;
    let keys = client.read(&answer, &encoded)?;
    let sealed = owner.record_key(Name::Key(NAME))?.seal(owner.sealing(), RECORD)?;
    let record = keys.first().context("no key")?.open(owner.sealing(), &sealed)?;
    anyhow::ensure!(is_right(record), "another record than the one asked for");
    Ok(())
}

/// Whether a record is the one asked for. It is compared and wiped in a time that depends on its length.
#[inline(never)]
fn is_right(mut record: Zeroizing<Vec<u8>>) -> bool {
    mark_public(&mut record);
    *record == RECORD
}
