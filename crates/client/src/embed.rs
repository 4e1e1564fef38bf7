//! Asking an embedding lookup: keys once, then tokens in and embeddings out.

use std::{io::Write, sync::atomic::AtomicBool, time::Instant};

use unspoken_embed::{Description, EmbedError, TokenAsker};
use unspoken_embedding::TokenCodes;
use zeroize::Zeroizing;

use crate::{
    session::{ClientError, KeyOwner, Session, Step, Usage, Watch},
    state::StateDir,
    transport::{Cancel, KeyId, Transport},
};

/// A client of one embedding lookup of one service, its keys made and uploaded.
pub struct EmbedClient {
    transport: Transport,
    application: String,
    asker: TokenAsker,
    key: KeyId,
    usage: Usage,
}

impl EmbedClient {
    /// Connects to an application of a service with the compressed table's client half. Keys are made, uploaded and found
    /// again as [`ClassifyClient::connect`](crate::ClassifyClient::connect) does.
    ///
    /// # Errors
    /// [`ClientError`], with what to do about it.
    pub fn connect(
        transport: Transport,
        application: &str,
        codes: TokenCodes,
        state: &StateDir,
        progress: &mut dyn FnMut(Step),
        cancel: &Cancel,
    ) -> Result<Self, ClientError> {
        let mut watch = Watch { progress, cancel };
        Self::connect_with(transport, application, codes, state, &mut watch, Description::from_bytes)
    }

    /// As [`EmbedClient::connect`], and accepts insecure presets: for tests.
    ///
    /// # Errors
    /// As for [`EmbedClient::connect`].
    pub fn insecure_connect(
        transport: Transport,
        application: &str,
        codes: TokenCodes,
        state: &StateDir,
        progress: &mut dyn FnMut(Step),
        cancel: &Cancel,
    ) -> Result<Self, ClientError> {
        let mut watch = Watch { progress, cancel };
        Self::connect_with(transport, application, codes, state, &mut watch, Description::insecure_from_bytes)
    }

    fn connect_with(
        transport: Transport,
        application: &str,
        codes: TokenCodes,
        state: &StateDir,
        watch: &mut Watch,
        read_description: impl Fn(&[u8]) -> Result<Description, EmbedError>,
    ) -> Result<Self, ClientError> {
        let offer = transport.describe(application, watch.cancel)?;
        let description = read_description(&offer.description)?;
        let fingerprint = description.parameters().rlwe().fingerprint();
        let make = |secret: Option<&[u8]>| match secret {
            Some(secret) => Ok(TokenAsker::with_secret(description, codes, secret)?),
            None => Ok(TokenAsker::new(description, codes)?),
        };
        let session = Session::open(&transport, application, &offer, state, &fingerprint.0, make, watch)?;
        let Session { owner: asker, key, usage } = session;
        Ok(Self { transport, application: application.into(), asker, key, usage })
    }

    /// What the server said of itself.
    pub fn description(&self) -> &Description {
        self.asker.description()
    }

    /// The tokens and their codes.
    pub fn codes(&self) -> &TokenCodes {
        self.asker.codes()
    }

    /// The id of the key bundle at the service.
    pub fn key(&self) -> &KeyId {
        &self.key
    }

    /// Bytes and seconds so far.
    pub fn usage(&self) -> Usage {
        self.usage
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
        let total = ids.len();
        let mut embeddings = Vec::with_capacity(total);
        progress(Step::Embedding { done: 0, total });
        for batch in ids.chunks(self.description().batch()) {
            let start = Instant::now();
            let query = self.asker.query(batch)?;
            let encrypted = start.elapsed();
            self.usage.query_bytes += query.len() as u64;
            let answer = self.transport.ask(&self.application, &self.key, query, cancel)?;
            let answered = start.elapsed();
            self.usage.answer_bytes += answer.len() as u64;
            embeddings.extend(self.asker.read(&answer, batch.len())?);
            let read = start.elapsed();
            self.usage.messages += batch.len();
            self.usage.server_seconds += (answered - encrypted).as_secs_f64();
            self.usage.client_seconds += (encrypted + (read - answered)).as_secs_f64();
            progress(Step::Embedding { done: embeddings.len(), total });
        }
        Ok(embeddings)
    }
}

impl KeyOwner for TokenAsker {
    fn secret(&self) -> Result<Zeroizing<Vec<u8>>, ClientError> {
        Ok(Zeroizing::new(self.secret_bytes()?.to_vec()))
    }

    fn key_bytes(&self) -> u64 {
        self.key_bytes()
    }

    fn write_keys(
        &self,
        out: &mut dyn Write,
        progress: &mut dyn FnMut(usize, usize),
        cancel: &AtomicBool,
    ) -> Result<(), ClientError> {
        let mut out = out;
        Ok(self.write_keys(&mut out, progress, cancel)?)
    }
}
