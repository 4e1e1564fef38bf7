//! The client's half: keys or indices in, records out.

use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use unspoken_pir::{Layout, Mode, PirError, PirSecret, Query, SeededKeys};
use unspoken_protocol::{ClientHalf, Described, KeyMaker};
use unspoken_ring::SecretRng;
use zeroize::Zeroizing;

use crate::description::Description;
use crate::error::RetrieveError;
use crate::message;

/// Bytes of a stored secret.
const SECRET_BYTES: usize = 32;

/// What is asked for.
#[derive(Clone, PartialEq, Eq)]
pub enum Question {
    /// The record of a key.
    Key(Vec<u8>),
    /// The record of a number.
    Index(u64),
}

/// It is what nobody may see, so it does not print.
impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Question::Key(_) => "Key(..)",
            Question::Index(_) => "Index(..)",
        })
    }
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The record, if there is one.
    pub record: Option<Vec<u8>>,
    /// The version of the database that it is of.
    pub version: u64,
}

/// Numbers for session queries.
pub trait Counter: Send + Sync {
    /// Begins with a secret that has just been made: its first number will be 0. On disk when this returns, so that the
    /// absence of a record means that it was lost.
    ///
    /// # Errors
    /// If that cannot be stored.
    fn begin(&mut self, session: &[u8; 16]) -> io::Result<()>;

    /// Takes numbers of a secret that follow each other: the first of them. They are never given again, whatever happens next: what
    /// says so is on disk when this returns.
    ///
    /// # Errors
    /// If that cannot be stored, there is no record of the secret, or there are no numbers left.
    fn take(&mut self, session: &[u8; 16], count: u32) -> io::Result<u32>;
}

/// How a client asks.
pub struct Choice {
    mode: Mode,
    counter: Option<Box<dyn Counter>>,
}

impl Choice {
    /// Queries of a kind that need no numbers.
    ///
    /// # Errors
    /// For session queries.
    pub fn new(mode: Mode) -> Result<Self, RetrieveError> {
        match mode {
            Mode::Session => {
                Err(RetrieveError::mismatch("kind of queries", "session", "one without numbers, or numbers"))
            }
            mode => Ok(Choice { mode, counter: None }),
        }
    }

    /// Session queries, with numbers that belong to the secret key that will be used.
    pub fn session(counter: impl Counter + 'static) -> Self {
        Choice { mode: Mode::Session, counter: Some(Box::new(counter)) }
    }

    /// The kind of queries.
    pub fn mode(&self) -> Mode {
        self.mode
    }
}

/// A client of a database: its secret key, how it asks, and what the service said of itself.
pub struct RecordAsker {
    description: Description,
    choice: Choice,
    key: Zeroizing<[u8; SECRET_BYTES]>,
    secret: PirSecret,
}

impl RecordAsker {
    /// The kind of its queries.
    pub fn mode(&self) -> Mode {
        self.choice.mode
    }

    /// Queries for questions, as many as [`Description::most_questions`]. Their number and length do not depend on what is
    /// asked, but for the number of questions.
    ///
    /// # Errors
    /// If there are none or too many questions, an index is out of range, or the database is read the other way.
    pub fn query(&mut self, questions: &[Question]) -> Result<Vec<u8>, RetrieveError> {
        let most = self.description.most_questions();
        if !(1..=most).contains(&questions.len()) {
            let needed = format!("1 to {most}");
            return Err(RetrieveError::mismatch("request", format!("{} questions", questions.len()), needed));
        }
        let layout = self.description.layout();
        let cells = questions.iter().map(|question| cells(layout, question)).collect::<Result<Vec<_>, _>>()?;
        let cells: Zeroizing<Vec<u64>> = Zeroizing::new(cells.iter().flat_map(|cells| cells.iter().copied()).collect());
        let first = match &mut self.choice.counter {
            Some(counter) => {
                let taken = counter.take(&self.secret.session_name(), cells.len() as u32);
                Some(
                    taken
                        .map_err(|source| RetrieveError::Io { what: "store the numbers of session queries", source })?,
                )
            }
            None => None,
        };
        let mut rng = SecretRng::from_os()?;
        let shape = self.description.shape();
        let query = |(i, &cell): (usize, &u64)| match first {
            Some(first) => {
                let spent = || RetrieveError::mismatch("numbers of session queries", "none left", "a new secret key");
                let number = first.checked_add(i as u32).ok_or_else(spent)?;
                Ok::<_, RetrieveError>(self.secret.session_query(number, shape, cell, &mut rng)?)
            }
            None => Ok(self.secret.query(self.choice.mode, shape, cell, &mut rng)?),
        };
        let queries: Vec<Query> = cells.iter().enumerate().map(query).collect::<Result<_, _>>()?;
        Ok(message::write_request(&self.description, &queries))
    }

    /// What the answer to these questions says, in their order.
    ///
    /// # Errors
    /// If it is malformed, for another layout, or computed with other keys.
    pub fn read(&self, answer: &[u8], questions: &[Question]) -> Result<Vec<Answer>, RetrieveError> {
        let (layout, parameters) = (self.description.layout(), self.description.parameters());
        let each = crate::description::candidates(layout) as usize;
        let (version, responses) = message::read_answer(&self.description, each * questions.len(), answer)?;
        let mut records = Vec::with_capacity(questions.len());
        for (question, responses) in questions.iter().zip(responses.chunks(each)) {
            let mut found = Vec::with_capacity(each);
            for (planes, &cell) in responses.iter().zip(cells(layout, question)?.iter()) {
                let mut bytes =
                    Zeroizing::new(Vec::with_capacity(layout.planes(parameters) * parameters.piece_bytes()));
                for (plane, response) in planes.iter().enumerate() {
                    bytes.extend_from_slice(&self.secret.extract(response, plane, cell)?);
                }
                found.push(bytes);
            }
            let record = match (question, found.as_slice()) {
                (Question::Key(key), found) => layout.find(key, found)?,
                (Question::Index(_), [cell, ..]) => layout.record(cell)?,
                (Question::Index(_), []) => None,
            };
            records.push(Answer { record: record.map(<[u8]>::to_vec), version });
        }
        Ok(records)
    }
}

/// The cells to ask for.
fn cells(layout: Layout, question: &Question) -> Result<Zeroizing<Vec<u64>>, RetrieveError> {
    match question {
        Question::Key(key) => Ok(layout.candidates(key)?),
        Question::Index(index) => {
            layout.check_index(*index)?;
            Ok(Zeroizing::new(vec![*index]))
        }
    }
}

impl KeyMaker for RecordAsker {
    type KeyError = RetrieveError;

    fn secret_bytes(&self) -> Result<Zeroizing<Vec<u8>>, RetrieveError> {
        Ok(Zeroizing::new(self.key.to_vec()))
    }

    fn key_bytes(&self) -> u64 {
        SeededKeys::byte_len(self.description.parameters(), self.choice.mode)
    }

    fn write_keys(
        &self,
        out: &mut impl Write,
        mut progress: impl FnMut(usize, usize),
        cancel: &AtomicBool,
    ) -> Result<(), RetrieveError> {
        progress(0, 1);
        let keys = self.secret.keys(self.choice.mode, &mut SecretRng::from_os()?)?;
        if cancel.load(Ordering::Relaxed) {
            return Err(PirError::Interrupted.into());
        }
        keys.write(out)?;
        progress(1, 1);
        Ok(())
    }
}

impl ClientHalf for RecordAsker {
    type Error = RetrieveError;
    type Description = Description;
    type Model = Choice;

    /// Each kind of queries has a secret of its own: their keys differ.
    fn secret_name(description: &Description, choice: &Choice) -> [u8; 16] {
        let mut name = description.fingerprint();
        let kind = blake3::hash(choice.mode.to_string().as_bytes());
        name.iter_mut().zip(kind.as_bytes()).for_each(|(byte, kind)| *byte ^= kind);
        name
    }

    fn open(description: Description, mut choice: Choice, stored: Option<&[u8]>) -> Result<Self, RetrieveError> {
        let mut key = Zeroizing::new([0; SECRET_BYTES]);
        match stored {
            Some(bytes) if bytes.len() == SECRET_BYTES => key.copy_from_slice(bytes),
            Some(bytes) => {
                let found = format!("{} bytes", bytes.len());
                let needed = format!("{SECRET_BYTES} bytes; delete it, and a new one is made");
                return Err(RetrieveError::mismatch("stored secret key", found, needed));
            }
            None => SecretRng::from_os()?.fill(key.as_mut_slice()),
        }
        let secret = PirSecret::derive(description.parameters(), &key)?;
        if let (None, Some(counter)) = (stored, &mut choice.counter) {
            let begun = counter.begin(&secret.session_name());
            begun.map_err(|source| RetrieveError::Io { what: "store the numbers of session queries", source })?;
        }
        Ok(RecordAsker { description, choice, key, secret })
    }

    fn description(&self) -> &Description {
        &self.description
    }

    /// The keys know nothing of the database: they stay when it is rebuilt.
    fn keys_are_for(&self, _description: &[u8]) -> Vec<u8> {
        self.description.parameters().fingerprint().to_vec()
    }
}
