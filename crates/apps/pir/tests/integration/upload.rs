//! Uploads of encrypted entries and questions to them, at insecure parameters.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use unspoken_pir::{
    Description, EncryptedServer, PirClient, PirError, PirOptions, Question, UploadClient, UploadQuestion,
};
use unspoken_pir_scheme::encrypted::EncryptedView;
use unspoken_pir_scheme::layout::Bucket;
use unspoken_pir_scheme::{
    DatabaseVersion, EncryptedEntry, Layout, Length, Mode, PirParameters, Planes, PreparedKeys, Preset, SchemeError,
    TableKind, Tables, Upload, UploadState, UploadedDatabase, VersionedDatabase, WRITE_KEY_BYTES,
};
use unspoken_protocol::{
    ApplicationDescription, ApplicationError, Call, ClientHalf, ClientId, DurableCounters, ErrorKind, KeyGenerator,
    KeyLoader, Request, ServerHalf,
};

const CLIENT: ClientId = ClientId::new([1; 16]);

static GO_ON: AtomicBool = AtomicBool::new(false);

#[derive(Clone)]
struct NoCounters;

impl DurableCounters for NoCounters {
    fn start(&self, _: &[u8; 16]) -> io::Result<()> {
        Ok(())
    }

    fn take(&self, _: &[u8; 16], _: u32) -> io::Result<u32> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Entries of a chunk of an upload, by number.
type Chunk = BTreeMap<u64, Arc<[u8]>>;

/// Entries of a version.
struct Stored {
    tables: Tables,
    version: u64,
    entries: Vec<u8>,
    changes: BTreeMap<u64, Arc<[u8]>>,
}

impl DatabaseVersion for Stored {
    fn version(&self) -> u64 {
        self.version
    }

    fn tables(&self) -> &Tables {
        &self.tables
    }

    fn planes(&self) -> Planes<'_> {
        Planes::Encrypted(EncryptedView { entries: &self.entries, changes: &self.changes })
    }
}

/// A database in memory that stores whatever is uploaded.
struct Memory {
    parameters: PirParameters,
    owner: Mutex<[u8; WRITE_KEY_BYTES]>,
    current: Mutex<Arc<Stored>>,
    staged: Mutex<(Upload, Vec<Chunk>)>,
}

impl Memory {
    fn new(tables: &Tables) -> Self {
        let entries = vec![0; EncryptedEntry::count(tables) as usize * EncryptedEntry::byte_len(tables)];
        let stored = Stored { tables: tables.clone(), version: 1, entries, changes: BTreeMap::new() };
        Memory {
            parameters: tables.parameters().clone(),
            owner: Mutex::new([0; WRITE_KEY_BYTES]),
            current: Mutex::new(Arc::new(stored)),
            staged: Mutex::new((Upload { id: 0, base: 0 }, Vec::new())),
        }
    }
}

impl VersionedDatabase for Memory {
    type Version = Stored;

    fn parameters(&self) -> &PirParameters {
        &self.parameters
    }

    fn current(&self) -> Arc<Stored> {
        Arc::clone(&self.current.lock().unwrap())
    }

    fn resident_bytes(&self) -> u64 {
        0
    }
}

impl UploadedDatabase for Memory {
    fn is_write_key(&self, key: &[u8; WRITE_KEY_BYTES]) -> bool {
        *self.owner.lock().unwrap() == *key
    }

    fn upload_state(&self) -> Result<UploadState, SchemeError> {
        let (upload, chunks) = &*self.staged.lock().unwrap();
        Ok(UploadState { version: self.current().version, upload: *upload, chunks: chunks.len() as u64 })
    }

    fn stage(&self, upload: Upload, chunk: u64, entries: &[(u64, &[u8])]) -> Result<UploadState, SchemeError> {
        let mut staged = self.staged.lock().unwrap();
        if chunk == 0 {
            *staged = (upload, Vec::new());
        }
        staged.1.push(entries.iter().map(|(number, entry)| (*number, Arc::from(*entry))).collect());
        drop(staged);
        self.upload_state()
    }

    fn commit_upload(&self, upload: Upload, chunks: u64, _: &AtomicBool) -> Result<UploadState, SchemeError> {
        let staged = std::mem::take(&mut self.staged.lock().unwrap().1);
        if chunks != staged.len() as u64 {
            return Err(SchemeError::upload("chunks of an upload", chunks, staged.len()));
        }
        let before = self.current();
        let mut changes = before.changes.clone();
        staged.into_iter().for_each(|chunk| changes.extend(chunk));
        let (tables, entries) = (before.tables.clone(), before.entries.clone());
        let after = Stored { tables, version: upload.base + 1, entries, changes };
        *self.current.lock().unwrap() = Arc::new(after);
        self.upload_state()
    }
}

/// An owner, a client with the same secret, and the service.
struct Scene {
    server: EncryptedServer<Memory>,
    database: Arc<Memory>,
    owner: UploadClient,
    reader: PirClient,
    keys: PreparedKeys,
}

impl Scene {
    fn new(layout: Layout, mode: Mode) -> Self {
        let tables = Tables::new(&Preset::InsecureN11.build().unwrap(), layout, TableKind::Encrypted).unwrap();
        let database = Arc::new(Memory::new(&tables));
        let server = EncryptedServer::new(Arc::clone(&database)).unwrap();
        let described = || Description::read(&server.describe(), true).unwrap();
        let options = PirOptions::new(mode, NoCounters);
        let owner = UploadClient::open(described(), options.clone(), None).unwrap();
        let secret = owner.secret_bytes().unwrap();
        let reader = PirClient::open(described(), options, Some(&secret)).unwrap();
        *database.owner.lock().unwrap() = *owner.write_key();
        let mut bundle = Vec::new();
        reader.write_keys(&mut bundle, |_, _| (), &GO_ON).unwrap();
        let keys = server.load_keys(&mut bundle.as_slice()).unwrap();
        Scene { server, database, owner, reader, keys }
    }

    fn answer(&self, query: &[u8]) -> Result<Vec<u8>, PirError> {
        assert!(query.len() <= self.server.limits().query_bytes);
        let answer = self.server.answer(&Request::new(CLIENT, &self.keys, query), &Call::default())?;
        assert!(answer.len() <= self.server.limits().answer_bytes);
        Ok(answer)
    }

    fn operate(&mut self, question: UploadQuestion) -> Result<UploadState, PirError> {
        let query = self.owner.query(&[question]).unwrap();
        let answer = self.answer(&query)?;
        Ok(self.owner.read(&answer, &[]).unwrap()[0])
    }

    fn entries(&self, cells: &[Vec<u8>]) -> Vec<(u64, EncryptedEntry)> {
        let count = EncryptedEntry::count(self.reader.description().tables());
        let encrypt = |number| (number, self.owner.encrypt_entry(number, |cell| &cells[cell as usize]).unwrap());
        (0..count).map(encrypt).collect()
    }

    /// Uploads all cells in chunks of three entries.
    fn upload(&mut self, cells: &[Vec<u8>]) -> UploadState {
        let upload = Upload { id: 5, base: self.operate(UploadQuestion::State).unwrap().version };
        let entries = self.entries(cells);
        let chunks = entries.chunks(3);
        let count = chunks.len() as u64;
        for (chunk, entries) in (0..).zip(chunks) {
            let state = self.operate(UploadQuestion::Chunk { upload, chunk, entries: entries.to_vec() }).unwrap();
            assert_eq!(state, UploadState { version: upload.base, upload, chunks: chunk + 1 });
        }
        self.operate(UploadQuestion::Commit { upload, chunks: count }).unwrap()
    }

    fn ask(&mut self, questions: &[Question]) -> Result<Vec<Option<Vec<u8>>>, PirError> {
        let encoded = self.reader.encode(questions).unwrap();
        let query = self.reader.query(&encoded).unwrap();
        let answers = self.reader.read(&self.answer(&query)?, &encoded)?;
        Ok(answers.into_iter().map(|answer| answer.record.map(|record| record.to_vec())).collect())
    }
}

fn by_index() -> (Layout, Vec<Vec<u8>>) {
    let layout = Layout::Index { records: 30, length: Length::Variable { max: 300 } };
    let record = |i: usize| (!i.is_multiple_of(7)).then(|| vec![i as u8; i * 10]);
    let cells = (0..30).map(|i| layout.cell(record(i).as_deref()).unwrap()).collect();
    (layout, cells)
}

fn by_key() -> (Layout, Vec<Vec<u8>>) {
    let layout = Layout::Keys { buckets: 20, bucket_bytes: 300, candidates: 2, seed: [3; 16] };
    let mut buckets = vec![Bucket::default(); 20];
    for i in 0..20 {
        let tag = layout.tag(format!("key {i}").as_bytes()).unwrap();
        let bucket = layout.buckets_of(tag).unwrap()[i % 2];
        buckets[bucket as usize].insert(tag, vec![i as u8; i]);
    }
    (layout, buckets.iter().map(|bucket| bucket.to_bytes(300).unwrap()).collect())
}

#[test]
fn records_are_uploaded_and_read_by_index_and_by_key() {
    for mode in [Mode::Packed, Mode::Compact] {
        let (layout, cells) = by_index();
        let mut scene = Scene::new(layout, mode);
        // Nothing can be read before the first upload.
        assert!(scene.ask(&[Question::Index(3)]).is_err());
        assert_eq!(scene.upload(&cells).version, 2);
        let found = scene.ask(&[Question::Index(3), Question::Index(29), Question::Index(7)]).unwrap();
        assert_eq!(found, [Some(vec![3; 30]), Some(vec![29; 290]), None]);
    }
    let (layout, cells) = by_key();
    let mut scene = Scene::new(layout, Mode::Packed);
    assert_eq!(scene.upload(&cells).version, 2);
    let found = scene.ask(&[Question::Key(b"key 13".into()), Question::Key(b"no key".into())]).unwrap();
    assert_eq!(found, [Some(vec![13; 13]), None]);
}

#[test]
fn what_strangers_send_is_refused() {
    let (layout, cells) = by_index();
    let mut scene = Scene::new(layout, Mode::Packed);
    scene.upload(&cells);
    let options = PirOptions::new(Mode::Packed, NoCounters);
    let mut stranger = UploadClient::open(scene.reader.description().clone(), options, None).unwrap();
    let upload = Upload { id: 9, base: 2 };
    let entries = vec![(0, stranger.encrypt_entry(0, |cell| &cells[cell as usize]).unwrap())];
    for question in [
        UploadQuestion::State,
        UploadQuestion::Chunk { upload, chunk: 0, entries },
        UploadQuestion::Commit { upload, chunks: 1 },
    ] {
        let error = scene.answer(&stranger.query(&[question]).unwrap()).unwrap_err();
        assert!(error.to_string().contains("write key of an upload: found another one"), "{error}");
        assert!(matches!(error.kind(), ErrorKind::Refused { .. }), "{error:?}");
    }
    assert_eq!((scene.database.current().version, scene.database.upload_state().unwrap().chunks), (2, 0));
    assert_eq!(scene.ask(&[Question::Index(3)]).unwrap(), [Some(vec![3; 30])]);
}

#[test]
fn a_database_that_is_not_uploaded_yet_says_so() {
    let (layout, cells) = by_index();
    let mut scene = Scene::new(layout, Mode::Packed);
    let upload = Upload { id: 9, base: 1 };
    let entries = scene.entries(&cells);
    scene.operate(UploadQuestion::Chunk { upload, chunk: 0, entries: entries[..2].to_vec() }).unwrap();
    let error = scene.ask(&[Question::Index(3)]).unwrap_err();
    assert!(error.to_string().contains("not uploaded yet"), "{error}");
    assert!(matches!(error.kind(), ErrorKind::Refused { .. }), "{error:?}");
    scene.operate(UploadQuestion::Chunk { upload, chunk: 1, entries: entries[2..].to_vec() }).unwrap();
    scene.operate(UploadQuestion::Commit { upload, chunks: 2 }).unwrap();
    assert_eq!(scene.ask(&[Question::Index(3)]).unwrap(), [Some(vec![3; 30])]);
}

#[test]
fn damaged_and_oversized_uploads_are_refused() {
    let (layout, cells) = by_index();
    let mut scene = Scene::new(layout, Mode::Packed);
    scene.upload(&cells);
    let upload = Upload { id: 9, base: 2 };
    let entries = scene.entries(&cells);
    let chunk = UploadQuestion::Chunk { upload, chunk: 0, entries: entries[..2].to_vec() };
    let sound = scene.owner.query(&[chunk]).unwrap();
    for at in [0, 31, 32, 40, 57, 100, sound.len() / 2, sound.len() - 1] {
        let mut damaged = sound.clone();
        damaged[at] ^= 1;
        assert_eq!(scene.answer(&damaged).unwrap_err().kind(), ErrorKind::Malformed, "{at}");
        scene.answer(&sound[..at]).unwrap_err();
    }
    scene.answer(&[&sound[..], &[0]].concat()).unwrap_err();
    let most = scene.owner.most_entries();
    let many: Vec<_> = entries.iter().cycle().take(most + 1).cloned().collect();
    let large = scene.owner.query(&[UploadQuestion::Chunk { upload, chunk: 0, entries: many }]).unwrap();
    assert!(large.len() > scene.owner.query_bytes(1));
    let error = scene.server.answer(&Request::new(CLIENT, &scene.keys, &large), &Call::default()).unwrap_err();
    assert!(error.to_string().contains(&format!("up to {most} entries")), "{error}");
    assert_eq!(scene.database.upload_state().unwrap().chunks, 0);
    assert!(scene.operate(UploadQuestion::Commit { upload, chunks: 1 }).is_err());
}

#[test]
fn a_reply_is_for_one_layout_and_undamaged() {
    let (layout, _) = by_index();
    let mut scene = Scene::new(layout, Mode::Packed);
    let query = scene.owner.query(&[UploadQuestion::State]).unwrap();
    let reply = scene.answer(&query).unwrap();
    scene.owner.check_answer(&reply, 1).unwrap();
    for at in 0..reply.len() {
        let mut damaged = reply.clone();
        damaged[at] ^= 1;
        assert!(scene.owner.check_answer(&damaged, 1).is_err(), "{at}");
        assert!(scene.owner.check_answer(&reply[..at], 1).is_err(), "{at}");
    }
    let other = Scene::new(by_key().0, Mode::Packed);
    let error = other.owner.check_answer(&reply, 1).unwrap_err();
    assert!(error.to_string().contains("another layout"), "{error}");
    // Only databases of encrypted entries are uploaded.
    let parameters = Preset::InsecureN11.build().unwrap();
    let description = Description::new(&Tables::new(&parameters, layout, TableKind::Transformed).unwrap()).unwrap();
    assert!(UploadClient::open(description, PirOptions::new(Mode::Packed, NoCounters), None).is_err());
}

#[test]
fn fingerprints_tell_which_entries_have_changed() {
    let (layout, mut cells) = by_index();
    let scene = Scene::new(layout, Mode::Packed);
    let all = |cells: &[Vec<u8>]| -> Vec<_> {
        (0..8).map(|number| scene.owner.fingerprint(number, |cell| &cells[cell as usize])).collect()
    };
    let before = all(&cells);
    assert_eq!(all(&cells), before);
    cells[13][50] ^= 1;
    let after = all(&cells);
    let changed: Vec<usize> = (0..8).filter(|&number| before[number] != after[number]).collect();
    assert_eq!(changed, [3]);
    // They depend on the secret.
    let other = Scene::new(layout, Mode::Packed);
    assert_ne!(other.owner.fingerprint(0, |cell| &cells[cell as usize]), after[0]);
}
