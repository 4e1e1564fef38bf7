//! Asking any application: keys once, then as many queries as it takes.

use std::time::Instant;

use unspoken_encrypt::{Needs, Plan};
use unspoken_protocol::{CkksClientHalf, ClientHalf};

use crate::session::{ClientError, Session, Step, Usage, Watch};
use crate::state::StateDir;
use crate::transport::{Cancel, KeyId, Transport};

/// A client of one application of one service, its keys made and uploaded.
pub struct Client<H> {
    transport: Transport,
    application: String,
    state: StateDir,
    accept_insecure: bool,
    pub(crate) half: H,
    key: KeyId,
    usage: Usage,
}

/// A half that asks questions of one kind, many in a query.
pub(crate) trait Asks<Q>: ClientHalf {
    /// What it is called while it is done.
    const WORK: &'static str;
    /// What one question gets.
    type Answer;

    /// Most questions of one query.
    fn batch(&self) -> usize;

    /// A query of a batch.
    fn query(&mut self, questions: &[Q]) -> Result<Vec<u8>, Self::Error>;

    /// What the answer to these questions says, in their order.
    fn read(&self, answer: &[u8], questions: &[Q]) -> Result<Vec<Self::Answer>, Self::Error>;
}

impl<H: ClientHalf> Client<H>
where
    ClientError: From<H::Error>,
{
    /// Connects to an application of a service with the client's part of the model.
    ///
    /// The secret key and the bundle's id are taken from `state` if they are there and the service still has the bundle;
    /// otherwise keys are made and uploaded, and stored there. An upload that was cut off goes on where it stopped.
    ///
    /// # Errors
    /// [`ClientError`], with what to do about it.
    pub fn connect(
        transport: Transport,
        application: &str,
        model: H::Model,
        state: &StateDir,
        progress: &mut dyn FnMut(Step),
        cancel: &Cancel,
    ) -> Result<Self, ClientError> {
        Self::connect_with(transport, application, model, state, false, &mut Watch { progress, cancel })
    }

    /// As [`Client::connect`], and accepts insecure presets: for tests.
    ///
    /// # Errors
    /// As for [`Client::connect`].
    pub fn insecure_connect(
        transport: Transport,
        application: &str,
        model: H::Model,
        state: &StateDir,
        progress: &mut dyn FnMut(Step),
        cancel: &Cancel,
    ) -> Result<Self, ClientError> {
        Self::connect_with(transport, application, model, state, true, &mut Watch { progress, cancel })
    }

    fn connect_with(
        transport: Transport,
        application: &str,
        model: H::Model,
        state: &StateDir,
        accept_insecure: bool,
        watch: &mut Watch,
    ) -> Result<Self, ClientError> {
        let Session { half, key, usage } =
            Session::open(&transport, application, model, state, accept_insecure, watch)?;
        let (application, state) = (application.into(), state.clone());
        Ok(Self { transport, application, state, accept_insecure, half, key, usage })
    }

    /// What the service says of the application now.
    pub(crate) fn describe(&self, cancel: &Cancel) -> Result<Vec<u8>, ClientError> {
        Ok(self.transport.describe(&self.application, cancel)?.description)
    }

    /// As if it were connected now.
    pub(crate) fn reconnect(&mut self, model: H::Model, watch: &mut Watch) -> Result<(), ClientError> {
        let (application, state) = (&self.application, &self.state);
        let Session { half, key, usage } =
            Session::open(&self.transport, application, model, state, self.accept_insecure, watch)?;
        (self.half, self.key) = (half, key);
        self.usage.key_bytes += usage.key_bytes;
        self.usage.key_seconds += usage.key_seconds;
        Ok(())
    }

    /// Where its keys lie.
    pub(crate) fn state(&self) -> &StateDir {
        &self.state
    }

    /// What the server said of itself.
    pub fn description(&self) -> &H::Description {
        self.half.description()
    }

    /// The id of the key bundle at the service.
    pub fn key(&self) -> &KeyId {
        &self.key
    }

    /// Bytes and seconds so far.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Asks questions, as many queries as their number takes. `seen` is handed the bytes of every query as the server sees
    /// them.
    pub(crate) fn ask<Q>(
        &mut self,
        questions: &[Q],
        watch: &mut Watch,
        seen: &mut dyn FnMut(&[u8]),
    ) -> Result<Vec<H::Answer>, ClientError>
    where
        H: Asks<Q>,
    {
        let (work, total) = (H::WORK, questions.len());
        let mut results = Vec::with_capacity(total);
        (watch.progress)(Step::Asking { work, done: 0, total });
        for batch in questions.chunks(self.half.batch()) {
            let start = Instant::now();
            let query = self.half.query(batch)?;
            seen(&query);
            let encrypted = start.elapsed();
            self.usage.query_bytes += query.len() as u64;
            let answer = self.transport.ask(&self.application, &self.key, query, watch.cancel)?;
            let answered = start.elapsed();
            self.usage.answer_bytes += answer.len() as u64;
            results.extend(self.half.read(&answer, batch)?);
            let read = start.elapsed();
            self.usage.messages += batch.len();
            self.usage.server_seconds += (answered - encrypted).as_secs_f64();
            self.usage.client_seconds += (encrypted + (read - answered)).as_secs_f64();
            (watch.progress)(Step::Asking { work, done: results.len(), total });
        }
        Ok(results)
    }
}

impl<H: CkksClientHalf> Client<H> {
    /// From now on keeps encryptions of zero ready in memory, so that encrypting a query takes encoding and an addition
    /// alone. That is milliseconds; whether they matter beside the service's time, `crates/engine/encrypt/README.md` says. A thread
    /// makes them, on one core. `needs.burst` counts the queries
    /// that must go out at once, `needs.memory_bytes` bounds the memory; a second call replaces the first. What was decided:
    /// nothing is kept for compact queries, or where memory does not suffice for one vector.
    ///
    /// Not for a process whose memory may be restored from a snapshot: both copies would have the same entries.
    ///
    /// # Errors
    /// [`ClientError`], if the system has no randomness or no thread.
    pub fn prepare(&mut self, needs: Needs) -> Result<Plan, ClientError> {
        Ok(self.half.prepare(needs)?)
    }
}
