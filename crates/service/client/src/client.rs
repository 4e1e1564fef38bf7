//! Asking an application of a service: keys once, then as many queries as it takes.

use std::borrow::Borrow;
use std::time::Instant;

use bytes::Bytes;
use unspoken_encrypt::{Needs, Plan};
use unspoken_protocol::{CkksClientHalf, ClientHalf, ErrorKind};
use unspoken_wire::ProblemCode;

use crate::connect::{Connected, Target};
use crate::error::ClientError;
use crate::progress::{CallControl, Progress, UsageStats};
use crate::state::StateDir;
use crate::transport::{self, Cancel, KeyId, Transport};

/// A client of one application of one service, its keys made and uploaded.
pub struct ServiceClient<H: ClientHalf> {
    target: Target<H>,
    half: H,
    key: KeyId,
    described: Vec<u8>,
    usage: UsageStats,
}

impl<H: ClientHalf> ServiceClient<H> {
    /// Connects to an application of a service with the client's part of the model.
    ///
    /// The secret key and the bundle's id are taken from `state` if they are there and the service still has the
    /// bundle; otherwise keys are made and uploaded, and stored there. An upload that was interrupted is resumed.
    ///
    /// # Errors
    /// [`ClientError`], with what to do about it.
    pub fn connect(
        transport: Transport,
        application: &str,
        model: H::Model,
        state: &StateDir,
        progress: &mut dyn FnMut(Progress),
        cancel: &Cancel,
    ) -> Result<Self, ClientError> {
        let target = Target::new(transport, application, model, state, false);
        Self::connect_to(target, &mut CallControl { progress, cancel })
    }

    /// As [`ServiceClient::connect`], and accepts insecure presets: for tests.
    ///
    /// # Errors
    /// As for [`ServiceClient::connect`].
    pub fn insecure_connect(
        transport: Transport,
        application: &str,
        model: H::Model,
        state: &StateDir,
        progress: &mut dyn FnMut(Progress),
        cancel: &Cancel,
    ) -> Result<Self, ClientError> {
        let target = Target::new(transport, application, model, state, true);
        Self::connect_to(target, &mut CallControl { progress, cancel })
    }

    fn connect_to(target: Target<H>, control: &mut CallControl) -> Result<Self, ClientError> {
        let Connected { half, key, described, usage } = target.connect(control)?;
        Ok(ServiceClient { target, half, key, described, usage })
    }

    /// The client's half of the application.
    pub fn half(&self) -> &H {
        &self.half
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
    pub fn usage(&self) -> UsageStats {
        self.usage
    }

    /// Asks questions without showing them: as many queries as their number takes. If the service has another model or
    /// database since this client connected, it connects again and asks once more.
    ///
    /// All answers are in memory before the first is decrypted, because the number and the times of the queries must
    /// not depend on what was answered. For the same reason, do not let an error or an answer of one call decide
    /// whether you make the next.
    ///
    /// # Errors
    /// [`ClientError`]; with `key_not_found` the keys expired: connect again. If a question cannot be asked, before
    /// anything is sent.
    pub fn ask<Q: Borrow<H::Question>>(
        &mut self,
        questions: &[Q],
        progress: &mut dyn FnMut(Progress),
        cancel: &Cancel,
    ) -> Result<Vec<H::Answer>, ClientError> {
        self.ask_and_show(questions, progress, &mut |_| {}, cancel)
    }

    /// As [`ServiceClient::ask`], and hands `show` the bytes of every query as the service sees them.
    ///
    /// # Errors
    /// As for [`ServiceClient::ask`].
    pub fn ask_and_show<Q: Borrow<H::Question>>(
        &mut self,
        questions: &[Q],
        progress: &mut dyn FnMut(Progress),
        show: &mut dyn FnMut(&[u8]),
        cancel: &Cancel,
    ) -> Result<Vec<H::Answer>, ClientError> {
        let control = &mut CallControl { progress, cancel };
        let mut encoded = self.encode(questions)?;
        let answers = match self.send(&encoded, control, show) {
            Ok(answers) => answers,
            Err(error) => {
                if !may_be_outdated(&error) || !self.target.has_changed(&self.described, cancel)? {
                    return Err(error);
                }
                let Connected { half, key, described, usage } = self.target.connect(control)?;
                (self.half, self.key, self.described) = (half, key, described);
                self.usage.key_bytes += usage.key_bytes;
                self.usage.key_seconds += usage.key_seconds;
                encoded = self.encode(questions)?;
                self.send(&encoded, control, show)?
            }
        };
        let start = Instant::now();
        let mut results = Vec::with_capacity(encoded.len());
        for (answer, batch) in answers.iter().zip(encoded.chunks(self.half.batch().max(1))) {
            results.extend(self.half.read(answer, batch).map_err(ClientError::of_application)?);
        }
        self.usage.client_seconds += start.elapsed().as_secs_f64();
        Ok(results)
    }

    fn encode<Q: Borrow<H::Question>>(&mut self, questions: &[Q]) -> Result<Vec<H::Encoded>, ClientError> {
        let start = Instant::now();
        let encoded = self.half.encode(questions).map_err(ClientError::of_application);
        self.usage.client_seconds += start.elapsed().as_secs_f64();
        encoded
    }

    /// Sends all queries, one after the other, and collects the answers. Nothing in here depends on what was asked or
    /// answered, but for the number of questions.
    fn send(
        &mut self,
        encoded: &[H::Encoded],
        control: &mut CallControl,
        show: &mut dyn FnMut(&[u8]),
    ) -> Result<Vec<Bytes>, ClientError> {
        let (verb, total, mut done) = (H::VERB, encoded.len(), 0);
        let mut answers = Vec::new();
        (control.progress)(Progress::Asking { verb, done, total });
        for batch in encoded.chunks(self.half.batch().max(1)) {
            let start = Instant::now();
            let query = self.half.query(batch).map_err(ClientError::of_application)?;
            show(&query);
            let encrypted = start.elapsed();
            self.usage.query_bytes += query.len() as u64;
            let most = self.half.answer_bytes(batch.len());
            let answer = self.target.ask(&self.key, query, most, control.cancel)?;
            let answered = start.elapsed();
            self.usage.answer_bytes += answer.len() as u64;
            self.half.check_answer(&answer, batch.len()).map_err(ClientError::of_application)?;
            answers.push(answer);
            done += batch.len();
            self.usage.questions += batch.len();
            self.usage.server_seconds += (answered - encrypted).as_secs_f64();
            self.usage.client_seconds += (encrypted + (start.elapsed() - answered)).as_secs_f64();
            (control.progress)(Progress::Asking { verb, done, total });
        }
        Ok(answers)
    }
}

/// Whether an error of [`ServiceClient::send`] is what a client sees whose description is of an earlier model or
/// database. None of them depends on what was decrypted: a service that damages an answer must not see by what the
/// client does next whether that answer mattered.
fn may_be_outdated(error: &ClientError) -> bool {
    match error {
        ClientError::Transport(transport::Error::Refused(problem)) => {
            matches!(problem.known_code(), Some(ProblemCode::DoesNotFit | ProblemCode::MalformedQuery))
        }
        ClientError::Application(error) => matches!(error.kind(), ErrorKind::Mismatch | ErrorKind::Malformed),
        _ => false,
    }
}

impl<H: ClientHalf + CkksClientHalf> ServiceClient<H> {
    /// From now on keeps encryptions of zero ready in memory, so that encrypting a query takes encoding and an addition
    /// alone. That is milliseconds; whether they matter beside the service's time, the README of `unspoken-encrypt`
    /// says. A thread makes them, on one core. `needs.burst` counts the queries that must go out at once,
    /// `needs.memory_bytes` bounds the memory; a second call replaces the first. What was decided: nothing is kept for
    /// compact queries, or where memory does not suffice for one vector.
    ///
    /// Not for a process whose memory may be restored from a snapshot: both copies would have the same entries.
    ///
    /// # Errors
    /// [`ClientError`], if the system has no randomness or no thread.
    pub fn prepare(&mut self, needs: Needs) -> Result<Plan, ClientError> {
        self.half.prepare(needs).map_err(ClientError::of_application)
    }
}
