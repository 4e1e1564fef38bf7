//! Asking a text classifier: keys once, then messages in and labels out.

use std::{io::Write, sync::atomic::AtomicBool, time::Instant};

use unspoken_classify::{Asker, Classified, ClassifyError, Description};
use unspoken_fasttext as fasttext;
use zeroize::Zeroizing;

use crate::{
    session::{ClientError, KeyOwner, Session, Step, Usage, Watch},
    state::StateDir,
    transport::{Cancel, KeyId, Transport},
};

/// A client of one classifier of one service, its keys made and uploaded.
pub struct ClassifyClient {
    transport: Transport,
    application: String,
    asker: Asker,
    key: KeyId,
    usage: Usage,
}

impl ClassifyClient {
    /// Connects to an application of a service with the model's client half.
    ///
    /// The secret key and the bundle's id are taken from `state` if they are there and the service still has the bundle;
    /// otherwise keys are made and uploaded, and stored there. An upload that was cut off goes on where it stopped.
    ///
    /// # Errors
    /// [`ClientError`], with what to do about it.
    pub fn connect(
        transport: Transport,
        application: &str,
        words: fasttext::Encoder,
        state: &StateDir,
        progress: &mut dyn FnMut(Step),
        cancel: &Cancel,
    ) -> Result<Self, ClientError> {
        Self::connect_with(transport, application, words, state, progress, cancel, Description::from_bytes)
    }

    /// As [`ClassifyClient::connect`], and accepts insecure presets: for tests.
    ///
    /// # Errors
    /// As for [`ClassifyClient::connect`].
    pub fn insecure_connect(
        transport: Transport,
        application: &str,
        words: fasttext::Encoder,
        state: &StateDir,
        progress: &mut dyn FnMut(Step),
        cancel: &Cancel,
    ) -> Result<Self, ClientError> {
        Self::connect_with(transport, application, words, state, progress, cancel, Description::insecure_from_bytes)
    }

    fn connect_with(
        transport: Transport,
        application: &str,
        words: fasttext::Encoder,
        state: &StateDir,
        progress: &mut dyn FnMut(Step),
        cancel: &Cancel,
        read_description: impl Fn(&[u8]) -> Result<Description, ClassifyError>,
    ) -> Result<Self, ClientError> {
        let offer = transport.describe(application, cancel)?;
        let description = read_description(&offer.description)?;
        let fingerprint = description.parameters().rlwe().fingerprint();
        let make = |secret: Option<&[u8]>| match secret {
            Some(secret) => Ok(Asker::with_secret(description, words, secret)?),
            None => Ok(Asker::new(description, words)?),
        };
        let session = Session::open(
            &transport,
            application,
            &offer,
            state,
            &fingerprint.0,
            make,
            &mut Watch { progress, cancel },
        )?;
        let Session { owner: asker, key, usage } = session;
        Ok(Self { transport, application: application.into(), asker, key, usage })
    }

    /// What the server said of itself.
    pub fn description(&self) -> &Description {
        self.asker.description()
    }

    /// The label names, in the order of the scores.
    pub fn labels(&self) -> &[String] {
        self.asker.labels()
    }

    /// The id of the key bundle at the service.
    pub fn key(&self) -> &KeyId {
        &self.key
    }

    /// Bytes and seconds so far.
    pub fn usage(&self) -> Usage {
        self.usage
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
        let total = messages.len();
        let mut results = Vec::with_capacity(total);
        progress(Step::Classifying { done: 0, total });
        for batch in messages.chunks(self.description().batch()) {
            let start = Instant::now();
            let query = self.asker.query(batch)?;
            seen(&query);
            let encrypted = start.elapsed();
            self.usage.query_bytes += query.len() as u64;
            let answer = self.transport.ask(&self.application, &self.key, query, cancel)?;
            let answered = start.elapsed();
            self.usage.answer_bytes += answer.len() as u64;
            results.extend(self.asker.read(&answer, batch.len())?);
            let read = start.elapsed();
            self.usage.messages += batch.len();
            self.usage.server_seconds += (answered - encrypted).as_secs_f64();
            self.usage.client_seconds += (encrypted + (read - answered)).as_secs_f64();
            progress(Step::Classifying { done: results.len(), total });
        }
        Ok(results)
    }
}

impl KeyOwner for Asker {
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
