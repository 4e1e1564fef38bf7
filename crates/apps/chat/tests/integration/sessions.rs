//! Sessions that outlive the service, in a small insecure ring: restarts, damage, several clients, expiry.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{CHUNK, CLIENT, Party, options, server, setting, whole};
use unspoken_chat::{Answer, ChatServer, PrivateGeneration, Question, ServerOptions, SessionStore};
use unspoken_protocol::{AnswerProgress, ApplicationError, Call, ClientId, Request, ServerHalf};

const OTHER: ClientId = ClientId::new([2; 16]);

/// A disk that outlives servers.
#[derive(Default)]
struct Disk {
    entries: Mutex<BTreeMap<String, Vec<u8>>>,
    full: AtomicBool,
}

impl Disk {
    fn entries(&self) -> BTreeMap<String, Vec<u8>> {
        self.entries.lock().unwrap().clone()
    }

    /// The content of the only entry.
    fn only(&self) -> (String, Vec<u8>) {
        let mut all = self.entries();
        assert_eq!(all.len(), 1);
        all.pop_first().unwrap()
    }

    fn put(&self, name: &str, bytes: Vec<u8>) {
        self.entries.lock().unwrap().insert(name.into(), bytes);
    }
}

impl SessionStore for Disk {
    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.entries().into_keys().collect())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Read + Send>> {
        let bytes = self.entries().remove(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(io::Cursor::new(bytes)))
    }

    fn replace(&self, name: &str, write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        let mut bytes = Vec::new();
        write(&mut bytes)?;
        if self.full.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.put(name, bytes);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.entries.lock().unwrap().remove(name);
        Ok(())
    }
}

fn start(disk: &Arc<Disk>) -> ChatServer {
    start_with(disk, &options())
}

fn start_with(disk: &Arc<Disk>, options: &ServerOptions) -> ChatServer {
    storing(disk, server(options))
}

fn storing(disk: &Arc<Disk>, server: ChatServer) -> ChatServer {
    server.store_sessions(Arc::clone(disk) as Arc<dyn SessionStore>).unwrap()
}

/// Asks the next question of a generation.
fn step(party: &mut Party, generation: &mut PrivateGeneration) -> Answer {
    let question = generation.question().unwrap();
    let answer = party.ask(&question).unwrap();
    generation.answer(&answer).unwrap();
    answer
}

/// Runs a generation to its end. Returns the questions.
fn finish(party: &mut Party, generation: &mut PrivateGeneration) -> Vec<&'static str> {
    let mut asked = Vec::new();
    while let Some(question) = generation.question() {
        asked.push(match question {
            Question::Begin { .. } => "begin",
            Question::Pass { .. } => "pass",
            Question::End { .. } => "end",
        });
        let answer = party.ask(&question).unwrap();
        generation.answer(&answer).unwrap();
    }
    asked
}

/// A service that ends in the middle of a pass continues after the last whole pass, in the first chunk and in later
/// ones.
#[test]
fn a_session_continues_after_the_service_ended_in_the_middle_of_a_pass() {
    let (disk, setting) = (Arc::new(Disk::default()), whole());
    let start = || storing(&disk, setting.server(&options()));
    let (public, private) = &setting.stories[0];
    assert!(private.len() > CHUNK && private.len() < 2 * CHUNK);
    let first = start();
    let mut party = Party::of(&first, CLIENT, setting.client(&first));
    let mut generation = party.generation(1, public, private, 4);
    assert!(matches!(step(&mut party, &mut generation), Answer::Begun { .. }));
    assert!(disk.entries().is_empty());
    assert!(matches!(step(&mut party, &mut generation), Answer::Passed(_)));
    let (name, bytes) = disk.only();
    println!("an entry has {} bytes; at most {}", bytes.len(), first.entry_bytes());
    assert!(bytes.len() as u64 <= first.entry_bytes());

    // The service ends in the middle of the next pass, which was to begin the second chunk.
    let question = generation.question().unwrap();
    let (cancel, progress) = (AtomicBool::new(false), AnswerProgress::new());
    let query = party.query(&question);
    let call = Call { progress: Some(&progress), ..Call::new(&cancel) };
    std::thread::scope(|scope| {
        let answer = scope.spawn(|| first.answer(&Request::new(CLIENT, &party.keys, &query), &call));
        while progress.newest().is_none_or(|(done, _)| done < 2) {
            std::thread::sleep(Duration::from_millis(1));
        }
        cancel.store(true, Ordering::Relaxed);
        assert!(answer.join().unwrap().unwrap_err().is_cancelled());
    });
    assert_eq!(disk.only(), (name, bytes));
    let second = start();
    let mut party = party.at(&second);
    generation.retry();
    assert!(matches!(step(&mut party, &mut generation), Answer::Passed(_)));

    // Once more, between two passes of the second chunk, whose answer was lost.
    let question = generation.question().unwrap();
    drop(party.ask(&question).unwrap());
    let third = start();
    let mut party = party.at(&third);
    generation.retry();
    let asked = finish(&mut party, &mut generation);
    assert!(!asked.contains(&"begin"), "{asked:?}");
    assert_eq!(generation.tokens(), setting.told(public, private, 4));
    assert_eq!(generation.statistics().restarts, 0);
    // A session that has ended leaves nothing.
    assert!(disk.entries().is_empty());
}

#[test]
fn without_a_store_the_client_begins_again_at_most_three_times() {
    let setting = setting();
    let (public, private) = &setting.stories[1];
    let one = server(&options());
    let mut party = Party::new(&one, CLIENT);
    let mut generation = party.generation(1, public, private, 2);
    step(&mut party, &mut generation);
    step(&mut party, &mut generation);
    let other = server(&options());
    let mut party = party.at(&other);
    let asked = finish(&mut party, &mut generation);
    assert_eq!(asked[..4], ["pass", "begin", "pass", "pass"]);
    assert_eq!(generation.tokens(), setting.told(public, private, 2));
    assert_eq!(generation.statistics().restarts, 1);

    let mut generation = party.generation(2, public, private, 2);
    let begun = Answer::Begun { public_tokens: 1 + public.len(), chunks: 4 };
    for _ in 0..3 {
        generation.question().unwrap();
        generation.answer(&begun).unwrap();
        generation.question().unwrap();
        generation.answer(&Answer::Unknown).unwrap();
    }
    generation.question().unwrap();
    generation.answer(&begun).unwrap();
    generation.question().unwrap();
    let said = generation.answer(&Answer::Unknown).unwrap_err().to_string();
    assert!(said.contains("lost it 4 times"), "{said}");
    // This is no end of the text: the pass can be asked for once more.
    assert_eq!((generation.end(), generation.question().is_none()), (None, true));
    generation.retry();
    assert!(matches!(generation.question(), Some(Question::Pass { chunk: 0, .. })));
}

/// Runs the first pass of a session.
fn begun<'a>(server: &'a ChatServer, client: ClientId, story: usize) -> (Party<'a>, PrivateGeneration) {
    let (public, private) = &setting().stories[story];
    let mut party = Party::new(server, client);
    let mut generation = party.generation(5, public, private, 2);
    step(&mut party, &mut generation);
    step(&mut party, &mut generation);
    (party, generation)
}

/// Finishes a generation, and returns how many times it began again.
fn restarts(mut party: Party, mut generation: PrivateGeneration, story: usize) -> usize {
    finish(&mut party, &mut generation);
    let (public, private) = &setting().stories[story];
    assert_eq!(generation.tokens(), setting().told(public, private, 2));
    generation.statistics().restarts
}

#[test]
fn two_clients_with_the_same_session_id_continue_their_own() {
    let disk = Arc::new(Disk::default());
    let first = start(&disk);
    let (one, two) = (begun(&first, CLIENT, 2), begun(&first, OTHER, 3));
    let entries = disk.entries();
    let (names, contents): (Vec<_>, Vec<_>) = entries.iter().unzip();
    assert_eq!(names.len(), 2);
    // Entries that changed places are not used: the client's id is inside.
    disk.put(names[0], contents[1].clone());
    disk.put(names[1], contents[0].clone());
    drop(start(&disk));
    assert!(disk.entries().is_empty());
    // Nor is one that takes the place of another while the service runs.
    *disk.entries.lock().unwrap() = entries.clone();
    let second = start(&disk);
    disk.put(names[0], contents[1].clone());
    assert_eq!(restarts(one.0.at(&second), one.1, 2), 1);
    assert_eq!(restarts(two.0.at(&second), two.1, 3), 0);
}

#[test]
fn damaged_entries_are_removed_and_the_client_begins_again() {
    let disk = Arc::new(Disk::default());
    let first = start(&disk);
    let (party, generation) = begun(&first, CLIENT, 4);
    let (name, sound) = disk.only();
    // Lengths, and bits everywhere: in each byte of the front, and in some of the vectors.
    let places = (0..200).chain((200..sound.len()).step_by(sound.len() / 40)).chain([sound.len() - 1]);
    let flipped = places.map(|place| {
        let mut bytes = sound.clone();
        bytes[place] ^= 1 << (place % 8);
        bytes
    });
    let cut = [0, 3, 40, 100, sound.len() / 2, sound.len() - 1].map(|length| sound[..length].to_vec());
    let longer = [[&sound[..], &[0]].concat(), [&sound[..], &sound[..]].concat()];
    let all: Vec<Vec<u8>> = flipped.chain(cut).chain(longer).collect();
    for (number, bytes) in all.iter().enumerate() {
        // Names of other sessions, so that one start reads them all.
        disk.put(&format!("{number:08x}{}", &name[8..]), bytes.clone());
    }
    disk.put("another name.session", sound.clone());
    let second = start(&disk);
    assert_eq!(disk.only(), (name.clone(), sound.clone()));

    // Damage while the service runs is noticed when the session continues; the checksum of the last one is right.
    let mut lying = sound.clone();
    let length = 88 + 4 * setting().stories[4].0.len();
    lying[length..length + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    let end = lying.len() - 32;
    let checksum = blake3::hash(&lying[..end]);
    lying[end..].copy_from_slice(checksum.as_bytes());
    disk.put(&name, lying);
    assert_eq!(restarts(party.at(&second), generation, 4), 1);
    assert!(disk.entries().is_empty());
}

#[test]
fn old_sessions_and_those_of_other_options_are_removed() {
    let disk = Arc::new(Disk::default());
    let first = start(&disk);
    let (party, generation) = begun(&first, CLIENT, 5);
    begun(&first, OTHER, 6);
    let stored = disk.entries();
    // There is room for fewer sessions: the oldest gives way.
    drop(start_with(&disk, &ServerOptions { sessions: 1, ..options() }));
    let (name, _) = disk.only();
    assert!(name.starts_with(&"02".repeat(16)), "{name}");
    // A session of a service with other options, or of another model, has vectors in other places.
    drop(start_with(&disk, &ServerOptions { chunks: 2, ..options() }));
    assert!(disk.entries().is_empty());
    *disk.entries.lock().unwrap() = stored;
    std::thread::sleep(Duration::from_millis(1100));
    let second = start_with(&disk, &ServerOptions { age: Duration::from_secs(1), ..options() });
    assert!(disk.entries().is_empty());
    assert_eq!(restarts(party.at(&second), generation, 5), 1);
}

#[test]
fn a_full_disk_costs_only_the_restart() {
    let disk = Arc::new(Disk::default());
    let first = start(&disk);
    let (mut party, mut generation) = begun(&first, CLIENT, 8);
    assert_eq!(disk.entries().len(), 1);
    disk.full.store(true, Ordering::Relaxed);
    assert!(matches!(step(&mut party, &mut generation), Answer::Passed(_)));
    // The state before this pass would be of no use.
    assert!(disk.entries().is_empty());
    assert_eq!(restarts(party, generation, 8), 0);
}
