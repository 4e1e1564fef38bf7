//! Targets for sealed records: requests that a service decodes, descriptions, answers and sealed records that a client
//! decodes, and stored keys.

use std::sync::LazyLock;

use prost::Message;
use unspoken_oprf::{Allowance, Description, OprfClient, OprfServer, PROTOCOL_VERSION, Question};
use unspoken_protocol::{
    ApplicationDescription, CHECKSUM_BYTES, Call, ClientHalf, Request, ServerHalf, append_checksum,
};
use unspoken_symmetric_pir::{
    Blinded, MAX_RECORD_BYTES, Name, OVERHEAD_BYTES, RecordKey, ServiceKey, request_bytes, response_bytes,
};

use crate::fixtures::CLIENT;
use crate::{Target, messages};

/// Fields of a description.
#[derive(Clone, PartialEq, Message)]
struct DescriptionMessage {
    #[prost(uint32, tag = "1")]
    version: u32,
    #[prost(bytes = "vec", tag = "2")]
    database_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    public_key: Vec<u8>,
    #[prost(uint32, tag = "4")]
    record_bytes: u32,
    #[prost(uint32, tag = "5")]
    evaluations: u32,
    #[prost(uint32, tag = "6")]
    window_seconds: u32,
}

/// Bytes of a stored key before its checksum: format, id, length of records, scalar.
const FIELDS: usize = 8 + 16 + 4 + 32;

/// Bytes of a padded record.
const RECORD_BYTES: u32 = 40;

/// A stored key with these fields: the format is set, and the checksum is right.
fn stored(fields: &[u8]) -> Vec<u8> {
    let mut bytes = fields.to_vec();
    bytes.resize(FIELDS, 1);
    bytes[..8].copy_from_slice(b"USEALK\0\x01");
    let mut sum = [0; 16];
    let mut hasher = blake3::Hasher::new_derive_key("unspoken 2026 checksum of a service key");
    hasher.update(&bytes).finalize_xof().fill(&mut sum);
    bytes.extend(sum);
    bytes
}

/// The same key in every run.
fn service_key() -> ServiceKey {
    let mut fields = [3; FIELDS];
    fields[24..28].copy_from_slice(&RECORD_BYTES.to_le_bytes());
    ServiceKey::from_bytes(&stored(&fields)).expect("a canonical scalar")
}

static SERVER: LazyLock<OprfServer> = LazyLock::new(|| {
    // The largest allowance: requests of a run are not refused for their number.
    OprfServer::new(service_key(), Allowance::new(1_000_000, 1).expect("allowed"))
});

fn client() -> OprfClient {
    OprfClient::open(Description::read(&SERVER.describe(), false).expect("its own"), None, None).expect("a client")
}

/// `Description::read`: a decoded description encodes to the same description; its sizes are bounded.
pub static DESCRIBED: Target = Target {
    name: "oprf_description",
    run: |data| {
        let Ok(description) = Description::read(data, false) else { return false };
        let again = Description::read(&description.to_bytes(), false).expect("its own bytes");
        assert!(again == description, "another description");
        let most = description.allowance().most_questions();
        assert!((1..=256).contains(&most) && description.answer_bytes(most) < 1 << 14);
        assert!((1..=MAX_RECORD_BYTES).contains(&description.sealing().record_bytes()));
        true
    },
    repair: |data| {
        let Ok(mut message) = DescriptionMessage::decode(data.as_slice()) else { return };
        message.version = PROTOCOL_VERSION;
        message.database_id.resize(16, 0);
        message.record_bytes = message.record_bytes.clamp(1, MAX_RECORD_BYTES);
        message.window_seconds = message.window_seconds.clamp(1, 1 << 20);
        message.evaluations = message.evaluations.max(1);
        *data = messages::description(Description::PROTOCOL, &message);
    },
    seeds: || vec![SERVER.describe()],
};

/// `OprfServer::answer`: an answer of the announced length, the same elements for the same request.
pub static REQUEST: Target = Target {
    name: "oprf_request",
    run: |data| {
        let answer = || SERVER.answer(&Request::new(CLIENT, &(), data), &Call::default());
        let Ok(first) = answer() else { return false };
        let names = (data.len() - CHECKSUM_BYTES) / request_bytes(1);
        assert_eq!(first.len(), response_bytes(names) + CHECKSUM_BYTES);
        assert!(first.len() <= SERVER.limits().answer_bytes);
        let again = answer().expect("a repetition is not charged");
        assert!(first[..request_bytes(names)] == again[..request_bytes(names)], "other elements");
        true
    },
    repair: |data| {
        data.truncate(data.len().saturating_sub(CHECKSUM_BYTES));
        let names = (data.len() / request_bytes(1)).clamp(1, 16);
        data.resize(request_bytes(names), 0);
        append_checksum(data);
    },
    seeds: || {
        let query = |names: &[Question]| {
            let mut client = client();
            let encoded = client.encode(names).expect("blinded");
            client.query(&encoded).expect("a query")
        };
        vec![query(&[Question::Key(b"key".to_vec())]), query(&[Question::Index(1), Question::Index(2)])]
    },
};

/// Two blinded names and their answer. The blinding differs in every run, so an answer of another run is decoded and
/// then refused for its proof.
static ASKED: LazyLock<(Vec<Blinded>, Vec<u8>)> = LazyLock::new(|| {
    let mut client = client();
    let encoded = client.encode(&[Question::Index(1), Question::Index(2)]).expect("blinded");
    let query = client.query(&encoded).expect("a query");
    let answer = SERVER.answer(&Request::new(CLIENT, &(), &query), &Call::default()).expect("an answer");
    (encoded, answer)
});

/// `OprfClient::read`: accepted answers have the keys that the owner has.
pub static ANSWER: Target = Target {
    name: "oprf_answer",
    run: |data| {
        let client = client();
        let Ok(keys) = client.read(data, &ASKED.0) else { return false };
        client.check_answer(data, 2).expect("an answer that was read");
        let owner = service_key();
        for (key, index) in keys.iter().zip(1..) {
            let expected = owner.record_key(Name::Index(index)).expect("a key");
            assert!(key.label() == expected.label(), "a key that the owner does not have");
        }
        true
    },
    repair: |data| {
        data.resize(response_bytes(2), 0);
        append_checksum(data);
    },
    seeds: || vec![ASKED.1.clone()],
};

/// `ServiceKey::from_bytes`: the same bytes again; the key opens what it sealed.
pub static KEY: Target = Target {
    name: "oprf_key",
    run: |data| {
        let Ok(key) = ServiceKey::from_bytes(data) else { return false };
        assert!(*key.to_bytes() == data, "the bytes changed");
        let record = key.record_key(Name::Index(1)).expect("a key");
        let sealed = record.seal(key.sealing(), b"r").expect("fits");
        assert!(*record.open(key.sealing(), &sealed).expect("its own") == b"r"[..], "another record");
        true
    },
    repair: |data| {
        data.truncate(FIELDS);
        *data = stored(data);
        data.truncate(FIELDS);
        // A scalar below the order of the group, and lengths that a database has.
        data[FIELDS - 1] &= 0x0f;
        data[26..28].fill(0);
        *data = stored(data);
    },
    seeds: || vec![service_key().to_bytes().to_vec()],
};

static RECORD_KEY: LazyLock<RecordKey> = LazyLock::new(|| service_key().record_key(Name::Key(b"key")).expect("a key"));

/// `RecordKey::open`: an opened record is not longer than the padded length, and can be sealed again.
pub static RECORD: Target = Target {
    name: "oprf_record",
    run: |data| {
        let key = service_key();
        let Ok(record) = RECORD_KEY.open(key.sealing(), data) else { return false };
        assert!(record.len() <= RECORD_BYTES as usize);
        RECORD_KEY.seal(key.sealing(), &record).expect("it fitted");
        true
    },
    repair: |data| data.resize(OVERHEAD_BYTES + RECORD_BYTES as usize, 0),
    seeds: || {
        let key = service_key();
        let seal = |record: &[u8]| RECORD_KEY.seal(key.sealing(), record).expect("fits");
        vec![seal(b"record"), seal(b""), seal(&[7; RECORD_BYTES as usize])]
    },
};
