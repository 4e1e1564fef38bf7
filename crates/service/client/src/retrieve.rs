//! Asking a database: keys or indices in and records out.

use std::io;

use unspoken_pir::{Layout, Mode};
use unspoken_protocol::ClientHalf;
use unspoken_retrieve::{Answer, Choice, Counter, Question, RecordAsker, RetrieveError};
use unspoken_wire::ProblemCode;

use crate::client::{Asks, Client};
use crate::session::{ClientError, Step, Watch};
use crate::state::StateDir;
use crate::transport::{self, Cancel, Transport};

/// A client of one database of one service. It needs no part of the database.
pub type RetrieveClient = Client<RecordAsker>;

impl RetrieveClient {
    /// As [`Client::connect`], for queries of a kind. The numbers of session queries are kept in `state`, which must not be
    /// restored from a copy.
    ///
    /// # Errors
    /// [`ClientError`], with what to do about it.
    pub fn open(
        transport: Transport,
        application: &str,
        mode: Mode,
        state: &StateDir,
        progress: &mut dyn FnMut(Step),
        cancel: &Cancel,
    ) -> Result<Self, ClientError> {
        Self::connect(transport, application, choice(mode, state)?, state, progress, cancel)
    }

    /// As [`RetrieveClient::open`], and accepts insecure presets: for tests.
    ///
    /// # Errors
    /// As for [`RetrieveClient::open`].
    pub fn insecure_open(
        transport: Transport,
        application: &str,
        mode: Mode,
        state: &StateDir,
        progress: &mut dyn FnMut(Step),
        cancel: &Cancel,
    ) -> Result<Self, ClientError> {
        Self::insecure_connect(transport, application, choice(mode, state)?, state, progress, cancel)
    }

    /// The record of a key, if there is one, without showing the key.
    ///
    /// # Errors
    /// As for [`RetrieveClient::get_many`].
    pub fn get(&mut self, key: &[u8], cancel: &Cancel) -> Result<Option<Vec<u8>>, ClientError> {
        self.get_one(Question::Key(key.to_vec()), cancel)
    }

    /// The record of an index, if there is one, without showing the index.
    ///
    /// # Errors
    /// As for [`RetrieveClient::get_many`].
    pub fn get_index(&mut self, index: u64, cancel: &Cancel) -> Result<Option<Vec<u8>>, ClientError> {
        self.get_one(Question::Index(index), cancel)
    }

    /// The records that questions are about, and the version of the database each is of: as many requests as the number of
    /// questions takes, each answered from one version. `seen` is handed the bytes of every request as the service sees them.
    ///
    /// If the database was rebuilt in another layout since this client connected, it connects again and asks once more.
    ///
    /// # Errors
    /// [`ClientError`]; with `key_not_found` the keys expired: connect again. If an index is out of range, or the database is
    /// read the other way, before anything is sent.
    pub fn get_many(
        &mut self,
        questions: &[Question],
        progress: &mut dyn FnMut(Step),
        seen: &mut dyn FnMut(&[u8]),
        cancel: &Cancel,
    ) -> Result<Vec<Answer>, ClientError> {
        let watch = &mut Watch { progress, cancel };
        // A question that cannot be asked tells the service nothing.
        check(self.description().layout(), questions)?;
        let error = match self.ask(questions, watch, seen) {
            Ok(answers) => return Ok(answers),
            Err(error) => error,
        };
        if !may_be_rebuilt(&error) || self.describe(cancel)? == self.description().to_bytes() {
            return Err(error);
        }
        self.reconnect(choice(self.half.mode(), self.state())?, watch)?;
        check(self.description().layout(), questions)?;
        self.ask(questions, watch, seen)
    }

    fn get_one(&mut self, question: Question, cancel: &Cancel) -> Result<Option<Vec<u8>>, ClientError> {
        let answers = self.get_many(&[question], &mut |_| {}, &mut |_| {}, cancel)?;
        Ok(answers.into_iter().next().and_then(|answer| answer.record))
    }
}

/// Whether all questions can be asked, so that none is sent if one cannot.
fn check(layout: Layout, questions: &[Question]) -> Result<(), RetrieveError> {
    Ok(questions.iter().try_for_each(|question| match question {
        Question::Key(key) => layout.candidates(key).map(drop),
        Question::Index(index) => layout.check_index(*index),
    })?)
}

/// Whether it is what a client sees whose description is of an earlier layout. Never anything that depends on what was
/// decrypted: a service that damages a cell must not see by what the client does next whether that cell was asked for.
fn may_be_rebuilt(error: &ClientError) -> bool {
    match error {
        ClientError::Transport(transport::Error::Refused(problem)) => {
            matches!(problem.known_code(), Some(ProblemCode::DoesNotFit | ProblemCode::MalformedQuery))
        }
        ClientError::Retrieve(RetrieveError::Protocol(_)) => true,
        _ => false,
    }
}

fn choice(mode: Mode, state: &StateDir) -> Result<Choice, ClientError> {
    Ok(match mode {
        Mode::Session => Choice::session(Numbers(state.clone())),
        mode => Choice::new(mode)?,
    })
}

/// The numbers of session queries of all clients with one state directory.
struct Numbers(StateDir);

impl Counter for Numbers {
    fn begin(&mut self, session: &[u8; 16]) -> io::Result<()> {
        self.0.begin_numbers(session)
    }

    fn take(&mut self, session: &[u8; 16], count: u32) -> io::Result<u32> {
        self.0.take_numbers(session, count)
    }
}

impl Asks<Question> for RecordAsker {
    const WORK: &'static str = "retrieving";
    type Answer = Answer;

    fn batch(&self) -> usize {
        self.description().most_questions()
    }

    fn query(&mut self, questions: &[Question]) -> Result<Vec<u8>, Self::Error> {
        RecordAsker::query(self, questions)
    }

    fn read(&self, answer: &[u8], questions: &[Question]) -> Result<Vec<Answer>, Self::Error> {
        RecordAsker::read(self, answer, questions)
    }
}
