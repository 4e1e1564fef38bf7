//! The client's half: encrypts queries for keys or indices, and decrypts records.
//!
//! # What a service can learn from a wrong description
//!
//! For an index that does not exist, the client sends a query for index 0, and reports the error after the answer has
//! arrived. Whatever the question is, the client refuses a database by index that has become smaller, and a database
//! that has changed between index and key: otherwise a service could find an index by bisection.

use std::borrow::Borrow;
use std::fmt::{self, Display};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use unspoken_pir_scheme::{Layout, Mode, PirSecret, PlaneShape, SchemeError, SeededKeys, TableKind};
use unspoken_protocol::{ClientHalf, DurableCounters, KeyGenerator, KeySetId, read_every};
use unspoken_ring::SecretRng;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::description::Description;
use crate::error::PirError;
use crate::message::{self, PlaneResponse, Queries};

/// Bytes of a stored secret.
const SECRET_BYTES: usize = 32;

/// A question. Wiped when dropped.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub enum Question {
    /// Asks for the record with this key.
    Key(Vec<u8>),
    /// Asks for the record with this index.
    Index(u64),
}

/// Does not print the content, which is secret.
impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Question::Key(_) => "Key(..)",
            Question::Index(_) => "Index(..)",
        })
    }
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The record, if there is one. Wiped when dropped.
    pub record: Option<Zeroizing<Vec<u8>>>,
    /// The version of the database from which the record is.
    pub version: u64,
}

/// A question with the cells to query. Wiped when dropped.
pub struct EncodedQuestion {
    question: Question,
    cells: Zeroizing<Vec<u64>>,
    /// The position among all questions, if the index does not exist. The query is then for another cell, so that a
    /// query is sent in any case.
    outside: Option<usize>,
}

/// The kind of queries, and the counters for session queries.
#[derive(Clone)]
pub struct PirOptions {
    mode: Mode,
    counters: Arc<dyn DurableCounters>,
    sealing: Opens,
}

/// Which sealed records a client can open.
#[derive(Clone, Copy)]
enum Opens {
    Nothing,
    Sealed([u8; 16]),
    Anything,
}

impl PirOptions {
    /// Queries of this kind. Session queries take their numbers from `counters`; the other kinds need none, but a new
    /// secret starts them.
    pub fn new(mode: Mode, counters: impl DurableCounters + 'static) -> Self {
        PirOptions { mode, counters: Arc::new(counters), sealing: Opens::Nothing }
    }

    /// The same options for a database whose records are sealed with this id, which the client opens with
    /// [`SealedQuestions`](crate::SealedQuestions). Without an id, a database that is described as sealed is refused:
    /// no record would be found.
    pub fn with_sealing(self, sealing: Option<[u8; 16]>) -> Self {
        PirOptions { sealing: sealing.map_or(Opens::Nothing, Opens::Sealed), ..self }
    }

    /// The same options for a client that predicts costs, also those of sealed databases, and asks nothing.
    pub fn with_any_sealing(self) -> Self {
        PirOptions { sealing: Opens::Anything, ..self }
    }

    /// Checks that the client can open what a database has. Services of earlier releases do not describe sealings.
    fn check_sealing(&self, description: &Description) -> Result<(), PirError> {
        match (description.sealing(), self.sealing) {
            (Some(_), Opens::Nothing) => Err(PirError::Sealed),
            (Some(found), Opens::Sealed(known)) if found != known => Err(PirError::OtherSealing),
            _ => Ok(()),
        }
    }

    /// The kind of queries.
    pub fn mode(&self) -> Mode {
        self.mode
    }
}

/// A client of a database: its secret key, its options, and the service's description.
pub struct PirClient {
    description: Description,
    options: PirOptions,
    /// Boxed, so that a move of the client leaves no copy.
    key: Box<Zeroizing<[u8; SECRET_BYTES]>>,
    secret: PirSecret,
}

/// The decrypted cells of one question.
type Cells = Vec<Zeroizing<Vec<u8>>>;

impl PirClient {
    /// Describes the keys for a kind of queries.
    fn contents(&self, mode: Mode) -> Vec<u8> {
        [&self.description.parameters().fingerprint()[..], mode.to_string().as_bytes()].concat()
    }

    /// The secrets of the retrieval.
    pub(crate) fn secret(&self) -> &PirSecret {
        &self.secret
    }

    /// The version of the database from which an answer was computed, which is not encrypted: for callers who must know
    /// it before they read answers. Nothing, if the answer is too short.
    pub fn version_of(answer: &[u8]) -> Option<u64> {
        message::version_of(answer)
    }

    /// The kind of its queries.
    pub fn mode(&self) -> Mode {
        self.options.mode
    }

    /// The cells of a question. An index that does not exist has a cell, too: otherwise a service that describes fewer
    /// records than it has would learn from a missing query.
    fn encode_one(&self, position: usize, question: &Question) -> Result<EncodedQuestion, PirError> {
        let layout = self.description.layout();
        let (cells, outside) = match question {
            Question::Key(key) => (layout.candidates(key)?, None),
            Question::Index(index) => match layout.check_index(*index) {
                Ok(()) => (Zeroizing::new(vec![*index]), None),
                Err(SchemeError::Record { .. }) => (Zeroizing::new(vec![0]), Some(position)),
                Err(error) => return Err(error.into()),
            },
        };
        Ok(EncodedQuestion { question: question.clone(), cells, outside })
    }

    /// [`ClientHalf::read`] with `extract`, which decrypts the response of a plane to a query for a cell. The number of
    /// its calls depends only on the number of questions, not on what it returns: the service sees when a client that
    /// returns an error closes the connection.
    fn read_with(
        &self,
        answer: &[u8],
        questions: &[EncodedQuestion],
        mut extract: impl FnMut(&PlaneResponse, usize, u64) -> Result<Zeroizing<Vec<u8>>, SchemeError>,
    ) -> Result<Vec<Answer>, PirError> {
        let each = self.description.tables().queries();
        let (version, responses) = message::read_answer(&self.description, each * questions.len(), answer)?;
        let piece_bytes = self.description.tables().piece_bytes();
        let mut decrypt = |planes: &[PlaneResponse], cell: u64| {
            let mut bytes = Zeroizing::new(Vec::with_capacity(planes.len() * piece_bytes));
            let mut first = Ok(());
            for (plane, response) in planes.iter().enumerate() {
                match extract(response, plane, cell) {
                    Ok(piece) => bytes.extend_from_slice(&piece),
                    Err(error) => first = first.and(Err(error)),
                }
            }
            first.map(|()| bytes)
        };
        let decrypt_cells = |(question, responses): (&EncodedQuestion, &[Vec<PlaneResponse>])| {
            let cells = responses.iter().zip(question.cells.iter());
            // All of them, before an error ends it.
            read_every(cells.map(|(planes, &cell)| decrypt(planes, cell)))
        };
        let cells = questions.iter().zip(responses.chunks(each)).map(decrypt_cells).collect();
        self.find_records(questions, cells, version)
    }

    /// The records in decrypted cells. The time of this function alone depends on the content of cells (SECURITY.md).
    /// Not inlined, so that tools can name it.
    #[inline(never)]
    fn find_records(
        &self,
        questions: &[EncodedQuestion],
        cells: Vec<Result<Cells, SchemeError>>,
        version: u64,
    ) -> Result<Vec<Answer>, PirError> {
        let layout = self.description.layout();
        let find = |(question, cells): (&EncodedQuestion, Result<Cells, SchemeError>)| {
            if let Some(position) = question.outside {
                return Err(PirError::NoSuchIndex { position, records: layout.cells() });
            }
            let cells = cells?;
            let record = match (&question.question, cells.as_slice()) {
                (Question::Key(key), cells) => layout.find(key, cells)?,
                (Question::Index(_), [cell, ..]) => layout.record(cell)?,
                (Question::Index(_), []) => None,
            };
            Ok(Answer { record: record.map(|record| Zeroizing::new(record.to_vec())), version })
        };
        read_every(questions.iter().zip(cells).map(find))
    }
}

impl KeyGenerator for PirClient {
    type KeyError = PirError;

    fn secret_bytes(&self) -> Result<Zeroizing<Vec<u8>>, PirError> {
        Ok(Zeroizing::new(self.key.to_vec()))
    }

    /// The parameters and the kind of queries. The keys do not depend on the database: they serve all databases of
    /// these parameters, and stay valid when one is rebuilt.
    fn bundle_contents(&self) -> Vec<u8> {
        self.contents(self.options.mode)
    }

    /// Keys for larger kinds of keys serve queries of smaller ones too.
    fn is_covered_by(&self, contents: &[u8]) -> bool {
        Mode::ALL.into_iter().any(|held| contents == self.contents(held) && held.keys_serve(self.options.mode))
    }

    /// The bundle has the keys of this client's kind of queries. They may serve the queries of the other bundle, too.
    fn set_shared_keys(&mut self, contents: &[u8], _most_bytes: u64) -> bool {
        Mode::ALL.into_iter().any(|held| contents == self.contents(held) && self.options.mode.keys_serve(held))
    }

    fn key_bytes(&self) -> u64 {
        SeededKeys::byte_len(self.description.parameters(), self.options.mode)
    }

    fn write_keys(
        &self,
        out: &mut impl Write,
        mut progress: impl FnMut(usize, usize),
        cancel: &AtomicBool,
    ) -> Result<(), PirError> {
        progress(0, 1);
        let keys = self.secret.keys(self.options.mode, &mut SecretRng::from_os()?)?;
        if cancel.load(Ordering::Relaxed) {
            return Err(SchemeError::Interrupted.into());
        }
        keys.write(out)?;
        progress(1, 1);
        Ok(())
    }
}

impl ClientHalf for PirClient {
    type Error = PirError;
    type Description = Description;
    type Model = PirOptions;
    type Question = Question;
    type Encoded = EncodedQuestion;
    type Answer = Answer;

    const VERB: &'static str = "retrieving";

    /// One secret for all kinds of queries, so that the keys of one serve others.
    fn secret_name(description: &Description, _options: &PirOptions) -> KeySetId {
        KeySetId::new("private retrieval, queries of all kinds", &description.parameters().fingerprint())
    }

    fn open(description: Description, options: PirOptions, stored: Option<&[u8]>) -> Result<Self, PirError> {
        if !description.tables().kind().modes().contains(&options.mode) {
            return Err(message::other_tables(&description, options.mode));
        }
        options.check_sealing(&description)?;
        let mut key = Box::new(Zeroizing::new([0; SECRET_BYTES]));
        match stored {
            Some(bytes) if bytes.len() == SECRET_BYTES => key.copy_from_slice(bytes),
            Some(bytes) => {
                let found = format!("{} bytes", bytes.len());
                let needed = format!("{SECRET_BYTES} bytes; delete it, and a new one is made");
                return Err(PirError::mismatch("stored secret key", found, needed));
            }
            None => SecretRng::from_os()?.fill(key.as_mut_slice()),
        }
        let secret = PirSecret::derive(description.parameters(), &key)?;
        Ok(PirClient { description, options, key, secret })
    }

    /// Starts the numbers of session queries, whatever the kind of this client's queries: another client with the same
    /// secret may ask them.
    fn begin(&self) -> Result<(), PirError> {
        self.options.counters.start(&self.secret.session_name()).map_err(numbers_not_stored)
    }

    fn description(&self) -> &Description {
        &self.description
    }

    /// Refuses a database by index with room for fewer records than before. A client that asks for one of the missing
    /// records would stop or report an error, so a service that describes any size it likes could find the index by
    /// bisection. A change between index and key is refused too: after it, the number of records of before is unknown.
    /// So is a change from encrypted tables to others: the records of others are the service's own, without tags.
    fn check_change(earlier: &Description, now: &Description) -> Result<(), PirError> {
        let (before, after) = (earlier.tables().kind(), now.tables().kind());
        if before == TableKind::Encrypted && after != TableKind::Encrypted {
            return Err(changed("tables", format!("{after} ones"), format!("{before} ones")));
        }
        match (earlier.layout(), now.layout()) {
            (Layout::Index { records: before, .. }, Layout::Index { records: after, .. }) if after < before => {
                let found = format!("room for {after} records");
                let needed = format!(
                    "at least the {before} of before; do not trust this service, unless you know that its database was \
                     made smaller: then delete this client's state directory"
                );
                Err(PirError::mismatch("layout", found, needed))
            }
            (Layout::Index { .. }, Layout::Keys { .. }) => Err(changed("layout", "one by key", "one by index")),
            (Layout::Keys { .. }, Layout::Index { .. }) => Err(changed("layout", "one by index", "one by key")),
            _ => Ok(()),
        }
    }

    /// [`Description::most_questions`].
    fn batch(&self) -> usize {
        self.description.most_questions()
    }

    fn query_bytes(&self, questions: usize) -> usize {
        let queries = self.description.tables().queries() * questions;
        message::request_bytes(&self.description, self.options.mode, queries)
    }

    fn answer_bytes(&self, questions: usize) -> usize {
        self.description.answer_bytes(self.description.tables().queries() * questions)
    }

    /// An index that does not exist causes no error here; [`ClientHalf::read`] reports it.
    fn encode<Q: Borrow<Question>>(&self, questions: &[Q]) -> Result<Vec<EncodedQuestion>, PirError> {
        let encode = |(position, question): (usize, &Q)| self.encode_one(position, question.borrow());
        questions.iter().enumerate().map(encode).collect()
    }

    fn query(&mut self, questions: &[EncodedQuestion]) -> Result<Vec<u8>, PirError> {
        let most = self.description.most_questions();
        if !(1..=most).contains(&questions.len()) {
            let needed = format!("1 to {most}");
            return Err(PirError::mismatch("request", format!("{} questions", questions.len()), needed));
        }
        let mode = self.options.mode;
        let cells = || questions.iter().flat_map(|question| question.cells.iter().copied());
        let first = match mode {
            Mode::Session => {
                let taken = self.options.counters.take(&self.secret.session_name(), cells().count() as u32);
                Some(taken.map_err(numbers_not_stored)?)
            }
            _ => None,
        };
        let mut rng = SecretRng::from_os()?;
        let queries = match self.description.tables().shape() {
            PlaneShape::Transformed(shape) | PlaneShape::Encrypted(shape) => {
                let query = |(i, cell): (usize, u64)| match first {
                    Some(first) => {
                        let spent =
                            || PirError::mismatch("numbers of session queries", "none left", "a new secret key");
                        let number = first.checked_add(i as u32).ok_or_else(spent)?;
                        Ok::<_, PirError>(self.secret.session_query(number, shape, cell, &mut rng)?)
                    }
                    None => Ok(self.secret.query(mode, shape, cell, &mut rng)?),
                };
                Queries::Transformed(cells().enumerate().map(query).collect::<Result<_, _>>()?)
            }
            PlaneShape::Dense(shape) => {
                let query = |cell| self.secret.dense_query(shape, cell, &mut rng);
                Queries::Dense(cells().map(query).collect::<Result<_, _>>()?)
            }
        };
        Ok(message::write_request(&self.description, mode, &queries))
    }

    fn check_answer(&self, answer: &[u8], questions: usize) -> Result<(), PirError> {
        let each = self.description.tables().queries();
        message::read_answer(&self.description, each * questions, answer).map(drop)
    }

    /// Decrypts all responses before it returns an error, also those for an index that does not exist.
    fn read(&self, answer: &[u8], questions: &[EncodedQuestion]) -> Result<Vec<Answer>, PirError> {
        let tables = self.description.tables();
        self.read_with(answer, questions, |response, plane, cell| match (response, tables.shape()) {
            (PlaneResponse::Transformed(response), PlaneShape::Encrypted(_)) => {
                self.secret.extract_encrypted(response, tables, plane, cell)
            }
            (PlaneResponse::Transformed(response), _) => self.secret.extract(response, plane, cell),
            (PlaneResponse::Dense(response), PlaneShape::Dense(shape)) => self.secret.dense_extract(response, shape),
            (PlaneResponse::Dense(_), _) => Err(SchemeError::Unreadable),
        })
    }
}

fn changed(what: &'static str, now: impl ToString, before: impl Display) -> PirError {
    let needed = format!(
        "{before}, as before; if the owner of the database confirms the change, delete this client's state directory, \
         otherwise do not trust this service"
    );
    PirError::mismatch(what, now, needed)
}

fn numbers_not_stored(source: std::io::Error) -> PirError {
    PirError::Io { what: "store the numbers of session queries", source }
}

#[cfg(test)]
mod tests {
    use std::io;

    use unspoken_pir_scheme::{Length, Preset, Response, Tables};
    use unspoken_protocol::ApplicationDescription;

    use super::*;

    /// Packed queries need no numbers.
    struct NoCounters;

    impl DurableCounters for NoCounters {
        fn start(&self, _: &[u8; 16]) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn take(&self, _: &[u8; 16], _: u32) -> io::Result<u32> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    #[test]
    fn a_sealed_database_is_refused_by_clients_that_cannot_open_it() {
        let parameters = Preset::InsecureN11.build().unwrap();
        let layout = Layout::Index { records: 50, length: Length::Fixed(7) };
        let plain = Description::new(&Tables::new(&parameters, layout, TableKind::Transformed).unwrap()).unwrap();
        let sealed = plain.clone().with_sealing(Some([7; 16]));
        let read = Description::read(&sealed.to_bytes(), true).unwrap();
        assert_eq!((read.sealing(), plain.sealing()), (Some([7; 16]), None));
        let open = |description: &Description, options| PirClient::open(description.clone(), options, None);
        let options = || PirOptions::new(Mode::Packed, NoCounters);
        assert!(matches!(open(&read, options()), Err(PirError::Sealed)));
        assert!(matches!(open(&read, options().with_sealing(Some([8; 16]))), Err(PirError::OtherSealing)));
        for options in [options().with_sealing(Some([7; 16])), options().with_any_sealing()] {
            assert!(open(&read, options).is_ok());
        }
        // A service of an earlier release does not tell.
        assert!(open(&plain, options()).is_ok() && open(&plain, options().with_sealing(Some([7; 16]))).is_ok());
        assert!(sealed.to_bytes().len() > plain.to_bytes().len() && sealed.layout_id() == plain.layout_id());
    }

    #[test]
    fn all_responses_are_decrypted_whatever_they_contain() {
        let parameters = Preset::InsecureN11.build().unwrap();
        let layout = Layout::Index { records: 50, length: Length::Fixed(3 * parameters.piece_bytes() as u32) };
        let tables = Tables::new(&parameters, layout, TableKind::Transformed).unwrap();
        let description = Description::new(&tables).unwrap();
        let options = PirOptions::new(Mode::Packed, NoCounters);
        let client = PirClient::open(description.clone(), options, None).unwrap();
        let planes = 4 * tables.planes();
        let zero = Response::from_bytes(&parameters, &vec![0; Response::byte_len(&parameters)]).unwrap();
        let zero = PlaneResponse::Transformed(zero);
        let answer = message::write_answer(&description, 1, std::iter::repeat_n(&zero, planes));
        // Reads with a failure at every response in `failing`, and counts the responses.
        let read = |indices: [u64; 4], failing: &[usize]| {
            let encoded = client.encode(&indices.map(Question::Index)).unwrap();
            let mut calls = 0;
            let result = client.read_with(&answer, &encoded, |_, _, _| {
                calls += 1;
                let piece = || Zeroizing::new(vec![0; parameters.piece_bytes()]);
                if failing.contains(&calls) { Err(SchemeError::Unreadable) } else { Ok(piece()) }
            });
            (calls, result)
        };
        let all = 4 * tables.planes();
        assert!(all >= 12);
        let (calls, sound) = read([0, 1, 2, 3], &[]);
        assert_eq!((calls, sound.unwrap().len()), (all, 4));
        for failing in [&[1][..], &[2, 5], &[all]] {
            let (calls, damaged) = read([0, 1, 2, 3], failing);
            assert_eq!(calls, all);
            assert!(matches!(damaged, Err(PirError::Pir(SchemeError::Unreadable))));
        }
        // The first error in the order of the questions is returned.
        let (calls, outside) = read([50, 1, 2, 3], &[1, 7]);
        assert_eq!(calls, all);
        assert!(matches!(outside, Err(PirError::NoSuchIndex { position: 0, records: 50 })));
    }
}
