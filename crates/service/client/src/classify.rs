//! Asking a text classifier: messages in and labels out.

use unspoken_classify::{Asker, Classified};
use unspoken_protocol::ClientHalf;

use crate::client::{Asks, Client};
use crate::session::{ClientError, Step, Watch};
use crate::transport::Cancel;

/// A client of one classifier of one service.
pub type ClassifyClient = Client<Asker>;

impl ClassifyClient {
    /// The label names, in the order of the scores.
    pub fn labels(&self) -> &[String] {
        self.half.labels()
    }

    /// Classifies messages without showing them: as many queries as their number takes. `seen` is handed the bytes of
    /// every query as the server sees them.
    ///
    /// # Errors
    /// [`ClientError`]; with `key_not_found` the keys expired: connect again.
    pub fn classify<S: AsRef<str>>(
        &mut self,
        messages: &[S],
        progress: &mut dyn FnMut(Step),
        seen: &mut dyn FnMut(&[u8]),
        cancel: &Cancel,
    ) -> Result<Vec<Classified>, ClientError> {
        self.ask(messages, &mut Watch { progress, cancel }, seen)
    }
}

impl<S: AsRef<str>> Asks<S> for Asker {
    const WORK: &'static str = "classifying";
    type Answer = Classified;

    fn batch(&self) -> usize {
        self.description().batch()
    }

    fn query(&mut self, questions: &[S]) -> Result<Vec<u8>, Self::Error> {
        Asker::query(self, questions)
    }

    fn read(&self, answer: &[u8], questions: &[S]) -> Result<Vec<Classified>, Self::Error> {
        Asker::read(self, answer, questions.len())
    }
}
