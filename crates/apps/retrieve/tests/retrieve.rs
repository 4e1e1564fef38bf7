//! Questions and answers over both layouts and all kinds of queries, at insecure parameters.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use unspoken_pir::layout::Bucket;
use unspoken_pir::{
    Database, DatabaseVersion, Layout, Length, Mode, PirParameters, Preset, TableView, VersionedDatabase,
};
use unspoken_protocol::{ClientHalf, Described, Failure, Fault, KeyLoader, KeyMaker, ServerHalf};
use unspoken_retrieve::{Answer, Choice, ClientKeys, Counter, Description, Question, RecordAsker, Retriever};

/// Cells in memory: one version.
struct Cells {
    layout: Layout,
    version: u64,
    planes: Vec<Database>,
}

impl Cells {
    fn new(parameters: &PirParameters, layout: Layout, version: u64, cells: &[Vec<u8>]) -> Arc<Self> {
        let piece = parameters.piece_bytes();
        let plane = |plane: usize| {
            let mut bytes = Vec::new();
            for cell in cells {
                let mut padded = cell.clone();
                padded.resize(layout.planes(parameters) * piece, 0);
                bytes.extend_from_slice(&padded[plane * piece..][..piece]);
            }
            Database::new(parameters, plane, &bytes).unwrap()
        };
        Arc::new(Cells { layout, version, planes: (0..layout.planes(parameters)).map(plane).collect() })
    }
}

impl DatabaseVersion for Cells {
    fn version(&self) -> u64 {
        self.version
    }

    fn layout(&self) -> Layout {
        self.layout
    }

    fn planes(&self) -> Vec<TableView<'_>> {
        self.planes.iter().map(Database::view).collect()
    }
}

struct Shelf {
    parameters: PirParameters,
    current: Arc<Mutex<Arc<Cells>>>,
}

impl VersionedDatabase for Shelf {
    type Version = Cells;

    fn parameters(&self) -> &PirParameters {
        &self.parameters
    }

    fn current(&self) -> Arc<Cells> {
        Arc::clone(&self.current.lock().unwrap())
    }

    fn resident_bytes(&self) -> u64 {
        0
    }
}

#[derive(Clone, Default)]
struct Numbers(Arc<Mutex<u32>>);

impl Counter for Numbers {
    fn begin(&mut self, _session: &[u8; 16]) -> io::Result<()> {
        Ok(())
    }

    fn take(&mut self, _session: &[u8; 16], count: u32) -> io::Result<u32> {
        let mut next = self.0.lock().unwrap();
        *next += count;
        Ok(*next - count)
    }
}

struct Pair {
    retriever: Retriever<Shelf>,
    asker: RecordAsker,
    keys: ClientKeys,
    bundle: Vec<u8>,
}

impl Pair {
    fn new(cells: Arc<Cells>, choice: Choice) -> (Self, Arc<Mutex<Arc<Cells>>>) {
        let current = Arc::new(Mutex::new(cells));
        let parameters = Preset::InsecureN11.build().unwrap();
        let retriever = Retriever::new(Shelf { parameters, current: Arc::clone(&current) }).unwrap();
        let description = Description::read(&retriever.describe(), true).unwrap();
        let asker = RecordAsker::open(description, choice, None).unwrap();
        let mut bundle = Vec::new();
        asker.write_keys(&mut bundle, |_, _| {}, &AtomicBool::new(false)).unwrap();
        assert_eq!(bundle.len() as u64, asker.key_bytes());
        assert!(bundle.len() as u64 <= retriever.max_key_bytes());
        assert!(retriever.loaded_key_bytes(&bundle[..retriever.key_front_bytes()]).unwrap() > 0);
        let keys = retriever.load_keys(&mut bundle.as_slice()).unwrap();
        (Pair { retriever, asker, keys, bundle }, current)
    }

    fn answer(&self, query: &[u8]) -> Vec<u8> {
        assert!(query.len() <= self.retriever.query_bytes());
        let answer = self.retriever.answer(&self.keys, query, &AtomicBool::new(false)).unwrap();
        assert!(answer.len() <= self.retriever.answer_bytes());
        answer
    }

    fn ask(&mut self, questions: &[Question]) -> Vec<Answer> {
        let query = self.asker.query(questions).unwrap();
        self.asker.read(&self.answer(&query), questions).unwrap()
    }
}

fn parameters() -> PirParameters {
    Preset::InsecureN11.build().unwrap()
}

fn by_index() -> (Layout, Vec<Vec<u8>>) {
    let records: Vec<Option<Vec<u8>>> = (0..50).map(|i| (i % 7 != 3).then(|| vec![i as u8; i * 12])).collect();
    let layout = Layout::Index { records: 50, length: Length::Variable { max: 600 } };
    let cells = records.iter().map(|record| layout.cell(record.as_deref()).unwrap()).collect();
    (layout, cells)
}

fn by_key(pairs: &[(&str, &str)]) -> (Layout, Vec<Vec<u8>>) {
    let layout = Layout::Keys { buckets: 40, bucket_bytes: 256, candidates: 2, seed: [5; 16] };
    let mut buckets: BTreeMap<u64, Bucket> = BTreeMap::new();
    for (i, (key, value)) in pairs.iter().enumerate() {
        let candidate = layout.candidates(key.as_bytes()).unwrap()[i % 2];
        let tag = layout.tag(key.as_bytes()).unwrap();
        buckets.entry(candidate).or_default().insert(tag, value.as_bytes().to_vec());
    }
    let cell = |i| buckets.get(&i).unwrap_or(&Bucket::default()).to_bytes(256).unwrap();
    (layout, (0..40).map(cell).collect())
}

#[test]
fn records_are_found_by_index_whatever_the_queries() {
    let (layout, cells) = by_index();
    for mode in Mode::ALL {
        let choice = match mode {
            Mode::Session => Choice::session(Numbers::default()),
            mode => Choice::new(mode).unwrap(),
        };
        let (mut pair, _) = Pair::new(Cells::new(&parameters(), layout, 9, &cells), choice);
        let questions = [4, 0, 3, 49].map(Question::Index);
        let found = pair.ask(&questions);
        let expected = [Some(vec![4; 48]), Some(vec![]), None, Some(vec![49; 588])];
        for (found, expected) in found.into_iter().zip(expected) {
            assert_eq!(found, Answer { record: expected, version: 9 }, "{mode}");
        }
        let error = pair.asker.query(&[Question::Index(50)]).unwrap_err().to_string();
        assert!(error.contains("out of range"), "{error}");
        assert!(pair.asker.query(&[Question::Key(b"4".to_vec())]).is_err());
        assert!(pair.asker.query(&[]).is_err());
        assert!(pair.asker.query(&vec![Question::Index(1); 17]).is_err());
    }
}

#[test]
fn records_are_found_by_key_and_absent_keys_look_alike() {
    let (layout, cells) = by_key(&[("A00", "cholera"), ("A01", ""), ("A02", "other salmonella infections")]);
    let (mut pair, _) = Pair::new(Cells::new(&parameters(), layout, 1, &cells), Choice::new(Mode::Compact).unwrap());
    let key = |key: &str| Question::Key(key.as_bytes().to_vec());
    let lengths =
        ["A00", "Z99", "a very long key that is not there"].map(|name| pair.asker.query(&[key(name)]).unwrap().len());
    assert_eq!(lengths, [72; 3]);
    let questions = [key("A00"), key("A01"), key("Z99"), key("A02")];
    let found: Vec<Option<Vec<u8>>> = pair.ask(&questions).into_iter().map(|answer| answer.record).collect();
    let text = |text: &str| Some(text.as_bytes().to_vec());
    assert_eq!(found, [text("cholera"), text(""), None, text("other salmonella infections")]);
    assert!(pair.asker.query(&[Question::Index(0)]).is_err());
}

#[test]
fn one_query_of_256_bytes_travels_in_36_and_comes_back_in_2000() {
    let layout = Layout::Index { records: 500, length: Length::Fixed(256) };
    let cells: Vec<Vec<u8>> = (0..500).map(|i| vec![i as u8; 256]).collect();
    let cells = Cells::new(&parameters(), layout, 1, &cells);
    for (mode, bytes) in [(Mode::Compact, 36), (Mode::Session, 8), (Mode::Bits, 32 + 4 * 9)] {
        let choice = match mode {
            Mode::Session => Choice::session(Numbers::default()),
            mode => Choice::new(mode).unwrap(),
        };
        let (mut pair, _) = Pair::new(Arc::clone(&cells), choice);
        let query = pair.asker.query(&[Question::Index(300)]).unwrap();
        assert_eq!(query.len(), bytes);
        let answer = pair.answer(&query);
        assert_eq!(answer.len(), 2000);
        let found = pair.asker.read(&answer, &[Question::Index(300)]).unwrap();
        assert_eq!(found[0].record, Some(vec![44; 256]));
    }
}

#[test]
fn every_answer_is_of_one_version_and_says_which() {
    let (layout, mut cells) = by_index();
    let (mut pair, current) =
        Pair::new(Cells::new(&parameters(), layout, 3, &cells), Choice::new(Mode::Packed).unwrap());
    assert_eq!(pair.ask(&[Question::Index(1)])[0], Answer { record: Some(vec![1; 12]), version: 3 });
    cells[1] = layout.cell(Some(b"changed")).unwrap();
    *current.lock().unwrap() = Cells::new(&parameters(), layout, 4, &cells);
    assert_eq!(pair.ask(&[Question::Index(1)])[0], Answer { record: Some(b"changed".to_vec()), version: 4 });
    // Another layout is another service.
    let (layout, cells) = by_key(&[]);
    *current.lock().unwrap() = Cells::new(&parameters(), layout, 5, &cells);
    let query = pair.asker.query(&[Question::Index(1)]).unwrap();
    let refused = pair.retriever.answer(&pair.keys, &query, &AtomicBool::new(false)).unwrap_err();
    assert!(refused.to_string().contains("started anew"), "{refused}");
}

#[test]
fn answers_for_another_layout_are_not_read() {
    let (layout, cells) = by_index();
    let (mut pair, _) = Pair::new(Cells::new(&parameters(), layout, 3, &cells), Choice::new(Mode::Packed).unwrap());
    let other = Layout::Index { records: 51, length: Length::Variable { max: 600 } };
    let longer = [cells, vec![layout.cell(None).unwrap()]].concat();
    let (rebuilt, _) = Pair::new(Cells::new(&parameters(), other, 1, &longer), Choice::new(Mode::Packed).unwrap());
    let query = pair.asker.query(&[Question::Index(1)]).unwrap();
    let keys = rebuilt.retriever.load_keys(&mut pair.bundle.as_slice()).unwrap();
    let answer = rebuilt.retriever.answer(&keys, &query, &AtomicBool::new(false)).unwrap();
    let error = pair.asker.read(&answer, &[Question::Index(1)]).unwrap_err().to_string();
    assert!(error.contains("connect again"), "{error}");
    let answer = pair.answer(&query);
    for wrong in [&answer[..15], &answer[..answer.len() - 1], &[]] {
        assert!(pair.asker.read(wrong, &[Question::Index(1)]).is_err());
    }
    assert!(pair.asker.read(&answer, &[Question::Index(1), Question::Index(2)]).is_err());
}

#[test]
fn session_numbers_that_come_again_are_refused() {
    let (layout, cells) = by_index();
    let numbers = Numbers::default();
    let (mut pair, _) = Pair::new(Cells::new(&parameters(), layout, 3, &cells), Choice::session(numbers.clone()));
    let first = pair.asker.query(&[Question::Index(1), Question::Index(2)]).unwrap();
    assert_eq!(first.len(), 12);
    // The same bytes again are a client that tries again.
    assert_eq!(pair.answer(&first), pair.answer(&first));
    *numbers.0.lock().unwrap() = 1;
    let again = pair.asker.query(&[Question::Index(5)]).unwrap();
    let refused = pair.retriever.answer(&pair.keys, &again, &AtomicBool::new(false)).unwrap_err();
    assert!(refused.to_string().contains("never used"), "{refused}");
    assert!(Choice::new(Mode::Session).is_err());
    *numbers.0.lock().unwrap() = u32::MAX - 1;
    let last = pair.asker.query(&[Question::Index(1)]).unwrap();
    let overflowing = [&last[..], &[0; 8]].concat();
    assert!(pair.retriever.answer(&pair.keys, &overflowing, &AtomicBool::new(false)).is_err());
}

#[test]
fn what_does_not_fit_is_named() {
    let (layout, cells) = by_index();
    let (mut pair, _) = Pair::new(Cells::new(&parameters(), layout, 3, &cells), Choice::new(Mode::Packed).unwrap());
    let query = pair.asker.query(&[Question::Index(1)]).unwrap();
    for wrong in [&query[..query.len() - 1], &[], &query.repeat(17)] {
        let error = pair.retriever.answer(&pair.keys, wrong, &AtomicBool::new(false)).unwrap_err();
        assert_eq!(error.fault(), Fault::DoesNotFit, "{error}");
        assert!(error.to_string().contains("packed queries"), "{error}");
    }
    let stopped = pair.retriever.answer(&pair.keys, &query, &AtomicBool::new(true)).unwrap_err();
    assert_eq!(stopped.fault(), Fault::Interrupted);
    let secure = Preset::N11.build().unwrap();
    let theirs =
        RecordAsker::open(Description::new(&secure, layout).unwrap(), Choice::new(Mode::Packed).unwrap(), None);
    let mut bundle = Vec::new();
    theirs.unwrap().write_keys(&mut bundle, |_, _| {}, &AtomicBool::new(false)).unwrap();
    let refused = pair.retriever.load_keys(&mut bundle.as_slice()).unwrap_err();
    assert_eq!(refused.fault(), Fault::DoesNotFit, "{refused}");
    let short = pair.retriever.load_keys(&mut &bundle[..40]).unwrap_err();
    assert_eq!(short.fault(), Fault::Malformed, "{short}");
}

#[test]
fn descriptions_are_checked() {
    let (layout, _) = by_key(&[]);
    let description = Description::new(&parameters(), layout).unwrap();
    let bytes = description.to_bytes();
    assert_eq!(Description::read(&bytes, true).unwrap().layout(), layout);
    let error = Description::read(&bytes, false).unwrap_err().to_string();
    assert!(error.contains("a secure one"), "{error}");
    assert!(Description::read(&bytes[..bytes.len() - 1], true).is_err());
    assert!(Description::read(&[], true).is_err());
    // The last field says how records become entries: a client of another version would read pads.
    let (format, before) = bytes.split_last().unwrap();
    let error = Description::read(&[before, &[format + 1]].concat(), true).unwrap_err().to_string();
    assert!(error.contains("entries") && error.contains("update"), "{error}");
    for wrong in [
        Layout::Keys { buckets: 0, bucket_bytes: 256, candidates: 2, seed: [0; 16] },
        Layout::Keys { buckets: 1 << 60, bucket_bytes: 256, candidates: 2, seed: [0; 16] },
        Layout::Keys { buckets: 40, bucket_bytes: u32::MAX, candidates: 2, seed: [0; 16] },
        Layout::Keys { buckets: 40, bucket_bytes: 256, candidates: 9, seed: [0; 16] },
        Layout::Index { records: u64::MAX, length: Length::Fixed(256) },
        Layout::Index { records: 5, length: Length::Variable { max: u32::MAX } },
    ] {
        assert!(Description::new(&parameters(), wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn a_stored_secret_reads_what_it_asked_for_before() {
    let (layout, cells) = by_index();
    let (mut pair, _) = Pair::new(Cells::new(&parameters(), layout, 3, &cells), Choice::new(Mode::Bits).unwrap());
    let secret = pair.asker.secret_bytes().unwrap();
    let description = pair.asker.description().clone();
    let open = |bytes: &[u8]| RecordAsker::open(description.clone(), Choice::new(Mode::Bits).unwrap(), Some(bytes));
    let query = pair.asker.query(&[Question::Index(8)]).unwrap();
    let answer = pair.answer(&query);
    let found = open(&secret).unwrap().read(&answer, &[Question::Index(8)]).unwrap();
    assert_eq!(found[0].record, Some(vec![8; 96]));
    assert!(open(&secret[1..]).is_err());
}
