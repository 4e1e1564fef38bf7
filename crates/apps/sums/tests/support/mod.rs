//! A collection in memory, and a store whose writes fail on request.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use unspoken_protocol::{ApplicationDescription, Call, ClientHalf, ClientId, Request, ServerHalf};
use unspoken_sums::{
    CollectionOptions, CollectorAnswer, CollectorKey, CollectorQuestion, Column, Contribution, ContributionEncryptor,
    Description, Receipt, SumStore, Sums, SumsCollector, SumsContributor, SumsError, SumsServer, Trust, Zeros,
    create_with_preset,
};

pub static GO: AtomicBool = AtomicBool::new(false);
pub const CLIENT: ClientId = ClientId::new([1; 16]);

/// A parameter set for tests.
pub const PRESET: &str = "insecure_n10_exact17";

/// What a write that fails leaves in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    Nothing,
    /// The first half of ids; a state is replaced whole or not at all.
    Half,
    Everything,
}

#[derive(Default)]
struct Files {
    state: Option<Vec<u8>>,
    ids: Vec<u8>,
    writes: usize,
    /// The write that fails, counted from 0.
    failure: Option<(usize, Left)>,
}

/// A store in memory whose writes can fail. Copies share the files, as two runs of a service do.
#[derive(Clone, Default)]
pub struct FailingStore(Arc<Mutex<Files>>);

impl FailingStore {
    /// Lets a write fail: the one after `writes` more.
    pub fn fail_after(&self, writes: usize, left: Left) {
        let mut files = self.0.lock().unwrap();
        files.failure = Some((files.writes + writes, left));
    }

    /// Whether the failure is still to come.
    pub fn will_fail(&self) -> bool {
        self.0.lock().unwrap().failure.is_some()
    }

    /// Changes the files.
    pub fn change(&self, change: impl FnOnce(&mut Option<Vec<u8>>, &mut Vec<u8>)) {
        let files = &mut *self.0.lock().unwrap();
        change(&mut files.state, &mut files.ids);
    }
}

impl Files {
    /// What is left of the next write: all of it, or less and an error.
    fn outcome(&mut self) -> (Left, io::Result<()>) {
        self.writes += 1;
        match self.failure {
            Some((write, left)) if write + 1 == self.writes => {
                self.failure = None;
                (left, Err(io::ErrorKind::StorageFull.into()))
            }
            _ => (Left::Everything, Ok(())),
        }
    }
}

impl SumStore for FailingStore {
    fn state(&self) -> io::Result<Option<Vec<u8>>> {
        Ok(self.0.lock().unwrap().state.clone())
    }

    fn replace_state(&self, state: &[u8]) -> io::Result<()> {
        let mut files = self.0.lock().unwrap();
        let (left, result) = files.outcome();
        if left == Left::Everything {
            files.state = Some(state.to_vec());
        }
        result
    }

    fn ids(&self, count: usize) -> io::Result<Vec<u8>> {
        let files = self.0.lock().unwrap();
        Ok(files.ids[..count.min(files.ids.len())].to_vec())
    }

    fn write_ids(&self, offset: u64, ids: &[u8]) -> io::Result<()> {
        let mut files = self.0.lock().unwrap();
        let (left, result) = files.outcome();
        let length = match left {
            Left::Nothing => 0,
            Left::Half => ids.len() / 2,
            Left::Everything => ids.len(),
        };
        let end = (offset as usize + length).max(files.ids.len());
        files.ids.resize(end, 0);
        files.ids[offset as usize..][..length].copy_from_slice(&ids[..length]);
        result
    }
}

/// A collection with its service.
pub struct Scene {
    pub description: Description,
    pub key: Arc<CollectorKey>,
    pub store: FailingStore,
    pub server: SumsServer,
}

/// Columns "visits" (0 to 20) and "change" (-5 to 5).
pub fn options(least: u32, most: u32) -> CollectionOptions {
    let columns = vec![Column::new("visits", 0, 20).unwrap(), Column::new("change", -5, 5).unwrap()];
    CollectionOptions { columns, most_contributions: most, least_contributions: least }
}

impl Scene {
    pub fn new(least: u32, most: u32) -> Self {
        Self::of(&options(least, most))
    }

    pub fn of(options: &CollectionOptions) -> Self {
        let (description, key) = create_with_preset(PRESET, options).unwrap();
        // As it comes from a file.
        let key = Arc::new(CollectorKey::from_bytes(&key.to_bytes()).unwrap());
        let description = Description::read(&description.to_bytes(), true).unwrap();
        let store = FailingStore::default();
        let server = SumsServer::new(description.clone(), store.clone()).unwrap();
        Scene { description, key, store, server }
    }

    /// Starts the service again with what is stored.
    pub fn restart(&mut self) {
        self.server = SumsServer::new(self.description.clone(), self.store.clone()).unwrap();
    }

    pub fn encrypt(&self, values: &[i64]) -> Contribution {
        ContributionEncryptor::new(&self.description, Zeros::OnDemand).unwrap().encrypt(values).unwrap()
    }

    /// The request of a contributor.
    pub fn query(&self, contributions: &[Contribution]) -> Vec<u8> {
        let mut client = contributor(&self.server);
        let encoded = client.encode(contributions).unwrap();
        let query = client.query(&encoded).unwrap();
        assert_eq!(query.len(), client.query_bytes(contributions.len()));
        query
    }

    pub fn answer(&self, query: &[u8]) -> Result<Vec<u8>, SumsError> {
        self.server.answer(&Request::new(CLIENT, &(), query), &Call::default())
    }

    pub fn send(&self, contributions: &[Contribution]) -> Result<Vec<Receipt>, SumsError> {
        let answer = self.answer(&self.query(contributions))?;
        let client = contributor(&self.server);
        assert_eq!(answer.len(), client.answer_bytes(contributions.len()));
        client.check_answer(&answer, contributions.len())?;
        client.read(&answer, contributions)
    }

    pub fn collector(&self) -> SumsCollector {
        let description = Description::read(&self.server.describe(), true).unwrap();
        SumsCollector::open(description, Arc::clone(&self.key), None).unwrap()
    }

    pub fn ask(&self, question: CollectorQuestion) -> Result<CollectorAnswer, SumsError> {
        let mut client = self.collector();
        let query = client.query(&[question])?;
        assert_eq!(query.len(), client.query_bytes(1));
        let answer = self.answer(&query)?;
        assert!(answer.len() <= client.answer_bytes(1) && answer.len() <= self.server.limits().answer_bytes);
        client.check_answer(&answer, 1)?;
        Ok(client.read(&answer, &[question])?.remove(0))
    }

    pub fn close(&self) -> Result<Sums, SumsError> {
        match self.ask(CollectorQuestion::Close)? {
            CollectorAnswer::Sums(sums) => Ok(sums),
            CollectorAnswer::Count(count) => panic!("{count}"),
        }
    }
}

pub fn contributor(server: &SumsServer) -> SumsContributor {
    SumsContributor::open(Description::read(&server.describe(), true).unwrap(), Trust::First, None).unwrap()
}

/// The sums of each column.
pub fn numbers(sums: &Sums) -> Vec<i64> {
    sums.columns.iter().map(|column| column.sum).collect()
}
