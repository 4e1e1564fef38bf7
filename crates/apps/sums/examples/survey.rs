//! A survey of 200 households, of which only the sums of the answers are read: `survey [PRESET]`.
//!
//! A health office asks each household how many visits to a doctor its members had in a year, how many falls, the sum
//! of their ages and how their number changed. A statistics office runs the service. It sees no answer; the health
//! office sees the sums.

use std::sync::Arc;
use std::time::{Duration, Instant};

use unspoken_protocol::{ApplicationDescription, Call, ClientHalf, ClientId, Request, ServerHalf};
use unspoken_sums::{
    CollectionOptions, CollectorAnswer, CollectorQuestion, Column, ContributionEncryptor, Description, MemoryStore,
    SumsCollector, SumsContributor, SumsServer, Trust, Zeros, create_with_preset,
};

const HOUSEHOLDS: usize = 200;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    survey(&std::env::args().nth(1).unwrap_or_else(|| "n12_exact17".into()))
}

#[test]
fn the_example_runs() {
    survey("insecure_n10_exact17").unwrap();
}

fn survey(preset: &str) -> Result<(), Failure> {
    let columns = ["visits=60", "falls=12", "age_sum=280", "change=-6..6"];
    let columns = columns.iter().map(|column| column.parse()).collect::<Result<Vec<Column>, _>>()?;
    let options = CollectionOptions { columns, most_contributions: 200, least_contributions: 50 };
    let (description, key) = create_with_preset(preset, &options)?;
    println!("collection  {}, {} bytes, public", description.fingerprint(), description.to_bytes().len());
    println!("each sends  {} bytes", description.contribution_bytes());

    // The service has the public half.
    // What the health office tells every household.
    let fingerprint = description.fingerprint();
    let server = SumsServer::new(description, MemoryStore::default())?;

    // Each household reads the description, encrypts its answers and sends them.
    let (mut expected, mut encrypting, mut adding) = ([0; 4], Duration::ZERO, Duration::ZERO);
    for household in 0..HOUSEHOLDS {
        let answers = answers(household);
        expected.iter_mut().zip(answers).for_each(|(sum, answer)| *sum += answer);
        let description = Description::read(&server.describe(), true)?;
        let mut encryptor = ContributionEncryptor::new(&description, Zeros::OnDemand)?;
        let start = Instant::now();
        let contribution = encryptor.encrypt(&answers)?;
        encrypting += start.elapsed();
        let mut client = SumsContributor::open(description, Trust::Fingerprint(fingerprint), None)?;
        let encoded = client.encode(&[contribution])?;
        let query = client.query(&encoded)?;
        let start = Instant::now();
        server.answer(&Request::new(ClientId::new([household as u8; 16]), &(), &query), &Call::default())?;
        adding += start.elapsed();
    }
    let each = |time: Duration| time / HOUSEHOLDS as u32;
    println!("encrypted   {HOUSEHOLDS} contributions in {:.2?} each", each(encrypting));
    println!("added       in {:.2?} each, without a disk", each(adding));

    // The health office closes the collection and decrypts the sums.
    let mut collector = SumsCollector::open(Description::read(&server.describe(), true)?, Arc::new(key), None)?;
    let query = collector.query(&[CollectorQuestion::Close])?;
    let answer = server.answer(&Request::new(ClientId::new([255; 16]), &(), &query), &Call::default())?;
    let CollectorAnswer::Sums(sums) = collector.read(&answer, &[CollectorQuestion::Close])?.remove(0) else {
        return Err("another answer".into());
    };
    for (column, expected) in sums.columns.iter().zip(expected) {
        println!("{:11} {:6}, mean {:.2}", column.name, column.sum, column.mean);
        assert_eq!(column.sum, expected);
    }
    assert_eq!(sums.contributions as usize, HOUSEHOLDS);
    Ok(())
}

/// The answers of a household: visits, falls, ages, change.
fn answers(household: usize) -> [i64; 4] {
    let draw = |salt: usize, below: usize| ((household + 1) * salt % 997 % below) as i64;
    let members = 1 + draw(31, 5);
    [members * draw(57, 12), draw(73, 4), members * (5 + draw(91, 50)), draw(113, 5) - 2]
}
