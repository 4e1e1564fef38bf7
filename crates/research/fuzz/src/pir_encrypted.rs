//! Targets for databases of encrypted entries: uploads that a service decodes, replies that their owner decodes, and
//! declarations.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};

use unspoken_database::Declaration;
use unspoken_pir::{Description, EncryptedServer, PirOptions, UploadClient, UploadQuestion};
use unspoken_pir_scheme::encrypted::EncryptedView;
use unspoken_pir_scheme::{
    DatabaseVersion, EncryptedEntry, Layout, Mode, PirParameters, Planes, PreparedKeys, Preset, SchemeError, TableKind,
    Tables, Upload, UploadState, UploadedDatabase, VersionedDatabase, WRITE_KEY_BYTES,
};
use unspoken_protocol::{ApplicationDescription, Call, ClientHalf, KeyGenerator, KeyLoader, Request, ServerHalf};

use crate::Target;
use crate::fixtures::CLIENT;
use crate::pir::{CHECKSUM_BYTES, NoCounters, append_checksum};

const LAYOUT: Layout = Layout::Keys { buckets: 20, bucket_bytes: 200, candidates: 2, seed: [3; 16] };

static TABLES: LazyLock<Tables> = LazyLock::new(|| {
    let parameters = Preset::InsecureN11.build().expect("builds");
    Tables::new(&parameters, LAYOUT, TableKind::Encrypted).expect("tables")
});

/// Bytes of an entry with its number.
static EACH: LazyLock<usize> = LazyLock::new(|| 4 + EncryptedEntry::byte_len(&TABLES));

/// Bytes before the entries of a chunk.
const HEAD_BYTES: usize = WRITE_KEY_BYTES + 1 + 24;

/// A version without entries, and a database of it that accepts every upload and stores none.
struct Version;

static NO_CHANGES: BTreeMap<u64, Arc<[u8]>> = BTreeMap::new();

impl DatabaseVersion for Version {
    fn version(&self) -> u64 {
        1
    }

    fn tables(&self) -> &Tables {
        &TABLES
    }

    fn planes(&self) -> Planes<'_> {
        Planes::Encrypted(EncryptedView { entries: &[], changes: &NO_CHANGES })
    }
}

struct Shelf;

fn state(upload: Upload, chunks: u64) -> Result<UploadState, SchemeError> {
    Ok(UploadState { version: 1, upload, chunks })
}

impl VersionedDatabase for Shelf {
    type Version = Version;

    fn parameters(&self) -> &PirParameters {
        TABLES.parameters()
    }

    fn current(&self) -> Arc<Version> {
        Arc::new(Version)
    }

    fn resident_bytes(&self) -> u64 {
        0
    }
}

impl UploadedDatabase for Shelf {
    fn is_write_key(&self, _: &[u8; WRITE_KEY_BYTES]) -> bool {
        true
    }

    fn upload_state(&self) -> Result<UploadState, SchemeError> {
        Ok(UploadState { version: 1, upload: Upload { id: 0, base: 0 }, chunks: 0 })
    }

    fn stage(&self, upload: Upload, chunk: u64, entries: &[(u64, &[u8])]) -> Result<UploadState, SchemeError> {
        assert!(entries.len() <= OWNER.most_entries());
        for (_, bytes) in entries {
            let entry = EncryptedEntry::from_bytes(&TABLES, bytes);
            let entry = entry.map_err(|error| SchemeError::upload("entry", error, "a sound one"))?;
            assert!(entry.to_bytes(&TABLES) == *bytes, "the bytes changed");
        }
        state(upload, chunk)
    }

    fn commit_upload(&self, upload: Upload, chunks: u64, _: &AtomicBool) -> Result<UploadState, SchemeError> {
        state(upload, chunks)
    }
}

static SERVER: LazyLock<EncryptedServer<Shelf>> =
    LazyLock::new(|| EncryptedServer::new(Arc::new(Shelf)).expect("a service"));

fn owner() -> UploadClient {
    let description = Description::read(&SERVER.describe(), true).expect("its own");
    let options = PirOptions::new(Mode::Packed, NoCounters);
    UploadClient::open(description, options, Some(&[7; 32])).expect("an owner")
}

static OWNER: LazyLock<UploadClient> = LazyLock::new(owner);

static KEYS: LazyLock<PreparedKeys> = LazyLock::new(|| {
    let mut bundle = Vec::new();
    OWNER.write_keys(&mut bundle, |_, _| {}, &AtomicBool::new(false)).expect("writes to memory");
    SERVER.load_keys(&mut bundle.as_slice()).expect("the owner's keys")
});

fn request(question: UploadQuestion) -> Vec<u8> {
    owner().query(&[question]).expect("a request")
}

/// `EncryptedServer::answer` for uploads: the owner reads the reply to an accepted one.
pub static UPLOAD: Target = Target {
    name: "pir_upload",
    run: |data| match SERVER.answer(&Request::new(CLIENT, &KEYS, data), &Call::new(&AtomicBool::new(true))) {
        Ok(reply) => {
            OWNER.check_answer(&reply, 1).expect("a reply");
            true
        }
        Err(_) => false,
    },
    repair: |data| {
        data.truncate(data.len().saturating_sub(CHECKSUM_BYTES));
        let entries = (data.len().saturating_sub(HEAD_BYTES) / *EACH).min(OWNER.most_entries() + 1);
        data.resize(HEAD_BYTES + entries * *EACH, 0);
        data[WRITE_KEY_BYTES] %= 4;
        let checksum = blake3::derive_key("unspoken 2026 upload of encrypted entries", data);
        data.extend(&checksum[..CHECKSUM_BYTES]);
    },
    seeds: || {
        let upload = Upload { id: 5, base: 1 };
        let entry = OWNER.encrypt_entry(0, |_| b"cell").expect("an entry");
        let chunk = UploadQuestion::Chunk { upload, chunk: 0, entries: vec![(0, entry)] };
        [UploadQuestion::State, chunk, UploadQuestion::Commit { upload, chunks: 1 }].map(request).into()
    },
};

/// `UploadClient::read`: an accepted reply is of the owner's layout.
pub static REPLY: Target = Target {
    name: "pir_upload_reply",
    run: |data| match OWNER.read(data, &[]) {
        Ok(states) => {
            assert!(matches!(states.as_slice(), [state] if data.starts_with(&state.version.to_le_bytes())));
            true
        }
        Err(_) => false,
    },
    repair: |data| {
        let sound = SERVER.answer(&Request::new(CLIENT, &KEYS, &request(UploadQuestion::State)), &Call::default());
        let sound = sound.expect("a reply");
        data.resize(sound.len() - CHECKSUM_BYTES, 0);
        data[8..16].copy_from_slice(&sound[8..16]);
        append_checksum(data);
    },
    seeds: || {
        let reply = SERVER.answer(&Request::new(CLIENT, &KEYS, &request(UploadQuestion::State)), &Call::default());
        vec![reply.expect("a reply")]
    },
};

/// `Declaration::from_bytes`: the same declaration again; its size is bounded.
pub static DECLARATION: Target = Target {
    name: "pir_declaration",
    run: |data| {
        let Ok(declaration) = Declaration::from_bytes(data) else { return false };
        let again = Declaration::from_bytes(&declaration.to_bytes().expect("a text")).expect("its own bytes");
        assert_eq!(again, declaration);
        assert!(declaration.disk_bytes().expect("checked") < 1 << 50);
        true
    },
    repair: |_| {},
    seeds: || {
        let declaration = Declaration::new(&TABLES, &[7; WRITE_KEY_BYTES]).expect("encrypted tables");
        vec![declaration.to_bytes().expect("a text")]
    },
};
