//! Targets for sums of contributions: requests that a service decodes, descriptions and answers that clients decode,
//! and the collector's private file.

use std::sync::{Arc, LazyLock};

use prost::Message;
use unspoken_protocol::{
    ApplicationDescription, CHECKSUM_BYTES, Call, ClientHalf, Request, ServerHalf, append_checksum,
};
use unspoken_rlwe::HEADER_BYTES;
use unspoken_sums::{
    CollectionOptions, CollectorAnswer, CollectorKey, CollectorQuestion, Column, Contribution, ContributionEncryptor,
    Description, MemoryStore, PROTOCOL_VERSION, Receipt, SumsCollector, SumsContributor, SumsServer, Trust, Zeros,
    create_with_preset,
};

use crate::fixtures::CLIENT;
use crate::{Target, messages};

const PRESET: &str = "insecure_n10_exact17";

/// Bytes of the id of a contribution.
const ID_BYTES: usize = 16;

/// Fields of a description.
#[derive(Clone, PartialEq, Message)]
struct DescriptionMessage {
    #[prost(uint32, tag = "1")]
    version: u32,
    #[prost(string, tag = "2")]
    preset: String,
    #[prost(bytes = "vec", tag = "3")]
    parameters: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    collection_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "5")]
    public_key: Vec<u8>,
    #[prost(bytes = "vec", tag = "6")]
    token_hash: Vec<u8>,
    #[prost(uint32, tag = "7")]
    most_contributions: u32,
    #[prost(uint32, tag = "8")]
    least_contributions: u32,
    #[prost(message, repeated, tag = "9")]
    columns: Vec<ColumnMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct ColumnMessage {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(sint64, tag = "2")]
    smallest: i64,
    #[prost(sint64, tag = "3")]
    largest: i64,
}

/// A collection of at most 40 contributions. The keys are others in every run.
static COLLECTION: LazyLock<(Description, Arc<CollectorKey>)> = LazyLock::new(|| {
    let column = |name: &str, smallest, largest| Column::new(name, smallest, largest).expect("a column");
    let columns = vec![column("visits", 0, 60), column("change", -6, 6)];
    let options = CollectionOptions { columns, most_contributions: 40, least_contributions: 2 };
    let (description, key) = create_with_preset(PRESET, &options).expect("a collection");
    (description, Arc::new(key))
});

/// Header and basis of the ciphertext of a contribution, and its number of components.
static HEAD: LazyLock<Vec<u8>> = LazyLock::new(|| query(1)[1 + ID_BYTES..][..HEADER_BYTES + 3].to_vec());

fn server() -> SumsServer {
    SumsServer::new(COLLECTION.0.clone(), MemoryStore::default()).expect("an empty store")
}

fn contributor() -> SumsContributor {
    SumsContributor::open(COLLECTION.0.clone(), Trust::First, None).expect("a client")
}

fn collector() -> SumsCollector {
    SumsCollector::open(COLLECTION.0.clone(), Arc::clone(&COLLECTION.1), None).expect("a client")
}

fn contributions(count: i64) -> Vec<Contribution> {
    let mut encryptor = ContributionEncryptor::new(&COLLECTION.0, Zeros::OnDemand).expect("randomness");
    (0..count).map(|value| encryptor.encrypt(&[value, -value]).expect("in range")).collect()
}

fn query(count: i64) -> Vec<u8> {
    contributor().query(&contributions(count)).expect("a query")
}

fn answer(server: &SumsServer, query: &[u8]) -> Vec<u8> {
    server.answer(&Request::new(CLIENT, &(), query), &Call::default()).expect("an answer")
}

/// `Description::read`: a decoded description encodes to the same description; its sizes are bounded.
pub static DESCRIBED: Target = Target {
    name: "sums_description",
    run: |data| {
        let Ok(description) = Description::read(data, true) else { return false };
        let again = Description::read(&description.to_bytes(), true).expect("its own bytes");
        assert!(again.fingerprint() == description.fingerprint(), "another description");
        assert!((2..=description.most_contributions()).contains(&description.least_contributions()));
        let zeros = vec![0; description.columns().len()];
        description.check(&zeros).expect("every range has a zero");
        assert!(description.contribution_bytes() < 1 << 23);
        true
    },
    repair: |data| {
        let Ok(mut message) = DescriptionMessage::decode(data.as_slice()) else { return };
        let sound = DescriptionMessage::decode(COLLECTION.0.to_bytes().as_slice()).expect("its own");
        message.version = PROTOCOL_VERSION;
        (message.preset, message.parameters) = (sound.preset, sound.parameters);
        message.collection_id.resize(16, 0);
        message.token_hash.resize(32, 0);
        message.public_key = sound.public_key;
        message.least_contributions = message.least_contributions.clamp(2, 100);
        message.most_contributions = message.most_contributions.clamp(message.least_contributions, 1000);
        for (number, column) in message.columns.iter_mut().enumerate() {
            column.name = format!("c{number}");
            column.smallest = column.smallest.clamp(-50, 0);
            column.largest = column.largest.clamp(1, 50);
        }
        *data = messages::description(Description::PROTOCOL, &message);
    },
    seeds: || vec![COLLECTION.0.to_bytes()],
};

/// `SumsServer::answer`: what is accepted is counted, once; an answer is as long as announced.
pub static REQUEST: Target = Target {
    name: "sums_request",
    run: |data| {
        let server = server();
        let answer = || server.answer(&Request::new(CLIENT, &(), data), &Call::default());
        let Ok(first) = answer() else {
            assert_eq!(server.count().expect("a state"), 0, "a refused request was counted");
            return false;
        };
        assert!(first.len() <= server.limits().answer_bytes && data.len() <= server.limits().query_bytes);
        let counted = server.count().expect("a state");
        answer().expect("a repetition");
        assert_eq!(server.count().expect("a state"), counted, "a repetition was counted");
        true
    },
    repair: |data| {
        data.truncate(data.len().saturating_sub(CHECKSUM_BYTES));
        let each = COLLECTION.0.contribution_bytes();
        let count = (data.len().saturating_sub(1) / each).clamp(1, 3);
        data.resize(1 + count * each, 0);
        data[0] = 1;
        for place in 0..count {
            data[1 + place * each + ID_BYTES..][..HEAD.len()].copy_from_slice(&HEAD);
        }
        append_checksum(data);
    },
    seeds: || vec![query(1), query(2)],
};

/// `SumsContributor::read`: a receipt for each contribution.
pub static RECEIPTS: Target = Target {
    name: "sums_receipts",
    run: |data| {
        static SENT: LazyLock<Vec<Contribution>> = LazyLock::new(|| contributions(3));
        let client = contributor();
        let Ok(receipts) = client.read(data, &SENT) else { return false };
        client.check_answer(data, 3).expect("an answer that was read");
        assert!(receipts.len() == 3 && data.len() == client.answer_bytes(3));
        assert!(receipts.iter().all(|receipt| matches!(receipt, Receipt::Added | Receipt::AddedBefore)));
        true
    },
    repair: |data| {
        data.truncate(data.len().saturating_sub(CHECKSUM_BYTES));
        data.resize(4, 1);
        data[0] = 1;
        data[1..].iter_mut().for_each(|receipt| *receipt = 1 + *receipt % 2);
        append_checksum(data);
    },
    seeds: || vec![answer(&server(), &query(3))],
};

/// `SumsCollector::read`: numbers of contributions, and sums in range.
pub static SUM: Target = Target {
    name: "sums_sum",
    run: |data| {
        let client = collector();
        let count = client.read(data, &[CollectorQuestion::Count]).is_ok();
        let Ok(answers) = client.read(data, &[CollectorQuestion::Close]) else { return count };
        let [CollectorAnswer::Sums(sums)] = answers.as_slice() else { panic!("another answer") };
        assert!((2..=40).contains(&sums.contributions) && sums.columns.len() == 2);
        assert!((0..=2400).contains(&sums.columns[0].sum) && (-240..=240).contains(&sums.columns[1].sum));
        true
    },
    repair: |data| {
        data.truncate(data.len().saturating_sub(CHECKSUM_BYTES));
        data.truncate(data.len().max(1));
        append_checksum(data);
    },
    seeds: || {
        let server = server();
        answer(&server, &query(3));
        let ask = |question| answer(&server, &collector().query(&[question]).expect("a query"));
        vec![ask(CollectorQuestion::Count), ask(CollectorQuestion::Close)]
    },
};

/// `CollectorKey::from_bytes`: the same bytes again; a key with this fingerprint opens the collection or is refused.
pub static KEY: Target = Target {
    name: "sums_key",
    run: |data| {
        let Ok(key) = CollectorKey::from_bytes(data) else { return false };
        assert!(*key.to_bytes() == data, "the bytes changed");
        // Malformed secrets are refused here.
        let _ = key.check(&COLLECTION.0);
        true
    },
    repair: |data| {
        data.truncate(data.len().saturating_sub(CHECKSUM_BYTES));
        let sound = COLLECTION.1.to_bytes();
        data.resize(sound.len() - CHECKSUM_BYTES, 0);
        data[..40].copy_from_slice(&sound[..40]);
        append_checksum(data);
    },
    seeds: || vec![COLLECTION.1.to_bytes().to_vec()],
};
