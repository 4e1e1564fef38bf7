//! Asking an embedding lookup: tokens in and embeddings out.

use unspoken_embed::TokenAsker;
use unspoken_embedding::TokenCodes;
use unspoken_protocol::ClientHalf;

use crate::client::{Asks, Client};
use crate::session::{ClientError, Step, Watch};
use crate::transport::Cancel;

/// A client of one embedding lookup of one service.
pub type EmbedClient = Client<TokenAsker>;

impl EmbedClient {
    /// The tokens and their codes.
    pub fn codes(&self) -> &TokenCodes {
        self.half.codes()
    }

    /// The embeddings of tokens by id, without showing them: as many queries as their number takes.
    ///
    /// # Errors
    /// [`ClientError`]; with `key_not_found` the keys expired: connect again.
    pub fn embed(
        &mut self,
        ids: &[usize],
        progress: &mut dyn FnMut(Step),
        cancel: &Cancel,
    ) -> Result<Vec<Vec<f64>>, ClientError> {
        self.ask(ids, &mut Watch { progress, cancel }, &mut |_| {})
    }
}

impl Asks<usize> for TokenAsker {
    const WORK: &'static str = "embedding";
    type Answer = Vec<f64>;

    fn batch(&self) -> usize {
        self.description().batch()
    }

    fn query(&mut self, questions: &[usize]) -> Result<Vec<u8>, Self::Error> {
        TokenAsker::query(self, questions)
    }

    fn read(&self, answer: &[u8], questions: &[usize]) -> Result<Vec<Vec<f64>>, Self::Error> {
        TokenAsker::read(self, answer, questions.len())
    }
}
