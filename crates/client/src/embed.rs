//! Asking an embedding lookup: tokens in and embeddings out.

use unspoken_embed::TokenAsker;
use unspoken_embedding::TokenCodes;

use crate::{
    client::{Client, Questions},
    session::{ClientError, Step, Watch},
    transport::Cancel,
};

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
        let questions = Questions {
            work: "embedding",
            batch: self.description().batch(),
            query: &|asker: &TokenAsker, batch: &[usize]| Ok(asker.query(batch)?),
            read: &|asker, answer, count| Ok(asker.read(answer, count)?),
        };
        self.ask(ids, &questions, &mut Watch { progress, cancel }, &mut |_| {})
    }
}
