//! Asking a text classifier: messages in and labels out.

use unspoken_classify::{Asker, Classified};

use crate::{
    client::{Client, Questions},
    session::{ClientError, Step, Watch},
    transport::Cancel,
};

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
        let questions = Questions {
            work: "classifying",
            batch: self.description().batch(),
            query: &|asker: &Asker, batch: &[S]| Ok(asker.query(batch)?),
            read: &|asker, answer, count| Ok(asker.read(answer, count)?),
        };
        self.ask(messages, &questions, &mut Watch { progress, cancel }, seen)
    }
}
