//! Client of an application of a service: uploads keys once, then sends any number of queries.

use std::borrow::Borrow;
use std::time::Instant;

use bytes::Bytes;
use unspoken_encrypt::{EncryptionPlan, Needs};
use unspoken_protocol::{CkksClientHalf, ClientHalf, ErrorKind};
use unspoken_wire::ProblemCode;
use zeroize::Zeroizing;

use crate::connect::{Bundle, Connected, Target, locked, of_key_error, open_stored};
use crate::cost::Cost;
use crate::error::ClientError;
use crate::progress::{CallControl, Progress, UsageStats};
use crate::state::StateDir;
use crate::transport::{self, Cancel, KeyId, Transport};

/// Bytes of answers that one call keeps in memory, at most.
const MAX_KEPT_BYTES: u64 = 2 << 30;

/// A client of one application of one service, whose keys are made and uploaded.
pub struct ServiceClient<H: ClientHalf> {
    target: Target<H>,
    half: H,
    key: KeyId,
    /// Whether the bundle has more keys than this application needs.
    surplus: bool,
    described: Vec<u8>,
    usage: UsageStats,
}

impl<H: ClientHalf> ServiceClient<H> {
    /// Connects to an application of a service with the client's part of the model.
    ///
    /// The secret key and the bundle's id are taken from `state` if they are stored there and the service still has the
    /// bundle. A bundle that another application of the service uploaded will do, if it has all keys that this
    /// application needs. Otherwise keys are made, uploaded and stored in `state`, also keys of the other applications,
    /// so that one bundle serves all; the earlier bundle is then deleted. An interrupted upload is resumed.
    ///
    /// # Errors
    /// [`ClientError`], which says what to do about it.
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

    /// Like [`ServiceClient::connect`], but accepts insecure presets: for tests.
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
        let Connected { half, key, surplus, described, usage } = target.connect(None, Bundle::Shared, control)?;
        Ok(ServiceClient { target, half, key, surplus, described, usage })
    }

    /// Opens the client's half of an application that the service does not offer yet, with the secret key that clients
    /// with this state will use for it. A new one is made and stored if there is none. Nothing is sent.
    ///
    /// # Errors
    /// If the state cannot be read or written, or the stored key does not fit the description.
    pub fn open_half(
        description: H::Description,
        model: H::Model,
        state: &StateDir,
        cancel: &Cancel,
    ) -> Result<H, ClientError> {
        let files = state.key_set(H::secret_name(&description, &model));
        let _lock = locked(state, &files, cancel)?;
        Ok(open_stored(state, &files, description, model)?.0)
    }

    /// The client's half of the application.
    pub fn half(&self) -> &H {
        &self.half
    }

    /// The server's description of the application.
    pub fn description(&self) -> &H::Description {
        self.half.description()
    }

    /// The id of the key bundle at the service.
    pub fn key(&self) -> &KeyId {
        &self.key
    }

    /// The bytes that `questions` questions will take. The service has the keys already.
    pub fn cost(&self, questions: usize) -> Cost {
        Cost::of_questions(&self.half, questions)
    }

    /// The bytes that `questions` questions to an application will take, and the bytes of the keys if the service does
    /// not have them. Only the description is fetched; no keys are made, and nothing is stored.
    ///
    /// # Errors
    /// As for [`ServiceClient::connect`].
    pub fn predict_cost(
        transport: Transport,
        application: &str,
        model: H::Model,
        state: &StateDir,
        questions: usize,
        cancel: &Cancel,
    ) -> Result<Cost, ClientError> {
        Target::<H>::new(transport, application, model, state, false).cost(questions, cancel)
    }

    /// Bytes and seconds used so far.
    pub fn usage(&self) -> UsageStats {
        self.usage
    }

    /// Asks questions under encryption, in as many queries as their number needs. If the service has changed its model
    /// or database since this client connected, or no longer has the client's keys, it connects again and asks once
    /// more. If the service has no memory for a bundle with keys of other applications, it connects with a bundle of
    /// its own and asks once more.
    ///
    /// All answers are in memory before the first is decrypted, because the number and the times of the queries must
    /// not depend on the answers. If an answer cannot be read, the other answers are read before the error is returned.
    /// For the same reason, do not let an error or an answer of one call decide whether you make the next.
    ///
    /// # Errors
    /// [`ClientError`]. If a question cannot be encoded, the error is returned before anything is sent. So is
    /// [`ClientError::TooMuch`], if the answers may have more than 2 GiB.
    pub fn ask<Q: Borrow<H::Question>>(
        &mut self,
        questions: &[Q],
        progress: &mut dyn FnMut(Progress),
        cancel: &Cancel,
    ) -> Result<Vec<H::Answer>, ClientError> {
        self.ask_and_show(questions, progress, &mut |_| {}, cancel)
    }

    /// Like [`ServiceClient::ask`], and passes the bytes of every query, as the service sees them, to `show`.
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
        self.ask_and_see(questions, progress, show, &mut |_| {}, cancel)
    }

    /// Like [`ServiceClient::ask_and_show`], and passes the bytes of each answer to `arrived` when all are there,
    /// before one is decrypted. A later error depends on what they decrypt to, so what is asked next must
    /// not depend on it.
    ///
    /// # Errors
    /// As for [`ServiceClient::ask`].
    pub fn ask_and_see<Q: Borrow<H::Question>>(
        &mut self,
        questions: &[Q],
        progress: &mut dyn FnMut(Progress),
        show: &mut dyn FnMut(&[u8]),
        arrived: &mut dyn FnMut(&[u8]),
        cancel: &Cancel,
    ) -> Result<Vec<H::Answer>, ClientError> {
        let control = &mut CallControl { progress, cancel };
        let mut encoded = self.encode(questions)?;
        let mut may_refresh = true;
        let answers = loop {
            let error = match self.send(&encoded, control, show) {
                Ok(answers) => break answers,
                Err(error) => error,
            };
            // The bundle that replaced one that is gone may be too large. One with this application's keys alone has no
            // surplus, so this ends.
            let bundle = if self.surplus && keys_are_too_large(&error) {
                Bundle::Own
            } else if may_refresh && self.is_outdated(&error, cancel)? {
                may_refresh = false;
                Bundle::Shared
            } else {
                return Err(error);
            };
            self.reconnect(bundle, control)?;
            encoded = self.encode(questions)?;
        };
        answers.iter().for_each(|answer| arrived(answer));
        let start = Instant::now();
        // All answers are read before an error is returned: the service sees when the connection closes.
        let batches = encoded.chunks(self.half.batch().max(1));
        let read: Vec<_> = answers.iter().zip(batches).map(|(answer, batch)| self.half.read(answer, batch)).collect();
        self.usage.client_seconds += start.elapsed().as_secs_f64();
        let read = read.into_iter().collect::<Result<Vec<_>, _>>().map_err(ClientError::of_application)?;
        Ok(read.into_iter().flatten().collect())
    }

    /// Whether an error of [`ServiceClient::send`] comes from keys that the service no longer has, or from an earlier
    /// model or database.
    fn is_outdated(&self, error: &ClientError, cancel: &Cancel) -> Result<bool, ClientError> {
        Ok(keys_are_gone(error) || may_be_outdated(error) && self.target.has_changed(&self.described, cancel)?)
    }

    fn reconnect(&mut self, bundle: Bundle, control: &mut CallControl) -> Result<(), ClientError> {
        let earlier = Some(self.half.description());
        let Connected { half, key, surplus, described, usage } = self.target.connect(earlier, bundle, control)?;
        (self.half, self.key, self.surplus, self.described) = (half, key, surplus, described);
        self.usage.key_bytes += usage.key_bytes;
        self.usage.key_seconds += usage.key_seconds;
        Ok(())
    }

    fn encode<Q: Borrow<H::Question>>(&mut self, questions: &[Q]) -> Result<Vec<H::Encoded>, ClientError> {
        let start = Instant::now();
        let encoded = self.half.encode(questions).map_err(ClientError::of_application);
        self.usage.client_seconds += start.elapsed().as_secs_f64();
        encoded
    }

    /// Refuses a call whose answers, as the service describes them, are too large to keep until all have arrived.
    fn check_kept_bytes(&self, questions: usize) -> Result<(), ClientError> {
        let batch = self.half.batch().max(1);
        let each = (self.half.answer_bytes(batch) as u64).max(1);
        let found = each.saturating_mul(questions.div_ceil(batch) as u64);
        let needed = MAX_KEPT_BYTES;
        if found <= needed {
            return Ok(());
        }
        Err(ClientError::TooMuch { found, needed, questions: (needed / each).saturating_mul(batch as u64) })
    }

    /// Sends all queries, one after the other, and collects the answers. Nothing in here depends on the content of
    /// questions or answers, only on the number of questions.
    fn send(
        &mut self,
        encoded: &[H::Encoded],
        control: &mut CallControl,
        show: &mut dyn FnMut(&[u8]),
    ) -> Result<Vec<Bytes>, ClientError> {
        self.check_kept_bytes(encoded.len())?;
        let (verb, total, mut done) = (H::VERB, encoded.len(), 0);
        let mut answers = Vec::new();
        if total > 0 {
            (control.progress)(Progress::QueriesToSend(self.cost(total)));
        }
        (control.progress)(Progress::Asking { verb, done, total });
        for batch in encoded.chunks(self.half.batch().max(1)) {
            let start = Instant::now();
            let query = self.half.query(batch).map_err(ClientError::of_application)?;
            show(&query);
            let encrypted = start.elapsed();
            self.usage.query_bytes += query.len() as u64;
            let most = self.half.answer_bytes(batch.len());
            let answer = self.target.ask(&self.key, query, most, control)?;
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

/// Whether the service no longer has the keys: they expired, were deleted for others, or were replaced by a bundle that
/// another application of this client needed.
fn keys_are_gone(error: &ClientError) -> bool {
    matches!(error, ClientError::Transport(error) if error.code() == Some(ProblemCode::KeyNotFound))
}

/// Whether the service has no memory for the keys together with the work of an answer, and never will.
fn keys_are_too_large(error: &ClientError) -> bool {
    let ClientError::Transport(transport::Error::Refused(problem)) = error else { return false };
    problem.known_code() == Some(ProblemCode::MemoryFull) && problem.retry_after.is_none()
}

/// Whether an error of [`ServiceClient::send`] may mean that the client's description is of an earlier model or
/// database: its query does not fit, or the answer has another length. None of these errors depends on decrypted data:
/// a service that damages an answer must not learn from the client's next request whether that answer mattered.
fn may_be_outdated(error: &ClientError) -> bool {
    match error {
        ClientError::Transport(transport::Error::Refused(problem)) => {
            use ProblemCode::{DoesNotFit, MalformedQuery, TooLarge};
            matches!(problem.known_code(), Some(DoesNotFit | MalformedQuery | TooLarge))
        }
        // An answer that is longer than the description allows.
        ClientError::Transport(transport::Error::Protocol { .. }) => true,
        ClientError::Application(error) => matches!(error.kind(), ErrorKind::Mismatch | ErrorKind::Malformed),
        _ => false,
    }
}

impl<H: ClientHalf + CkksClientHalf> ServiceClient<H> {
    /// Keeps encryptions of zero ready in memory from now on, so that encrypting a query needs only encoding and an
    /// addition. That takes milliseconds; the README of `unspoken-encrypt` says whether they matter compared with the
    /// service's time. A thread makes them, on one core. `needs.burst` is the number of queries that must be sent at
    /// once, `needs.memory_bytes` bounds the memory; a second call replaces the first. Returns the plan: nothing is
    /// kept for compact queries, or where the memory is too small for one vector.
    ///
    /// Not for a process whose memory may be restored from a snapshot: both copies would use the same encryptions of
    /// zero.
    ///
    /// # Errors
    /// [`ClientError`], if the system has no randomness or no thread.
    pub fn prepare(&mut self, needs: Needs) -> Result<EncryptionPlan, ClientError> {
        self.half.prepare(needs).map_err(ClientError::of_application)
    }

    /// Encrypts one to [`batch`](ClientHalf::batch) questions as a query, and sends nothing: for answers that are
    /// computed later and elsewhere, which [`ServiceClient::decrypt`] reads. Encrypting the same questions again gives
    /// another query.
    ///
    /// # Errors
    /// If a question cannot be encoded, or there are none or too many.
    pub fn encrypt<Q: Borrow<H::Question>>(&mut self, questions: &[Q]) -> Result<Vec<u8>, ClientError> {
        let encoded = self.encode(questions)?;
        let start = Instant::now();
        let query = self.half.query(&encoded).map_err(ClientError::of_application)?;
        self.usage.client_seconds += start.elapsed().as_secs_f64();
        self.usage.query_bytes += query.len() as u64;
        self.usage.questions += questions.len();
        Ok(query)
    }

    /// Authenticates bytes under a key that only holders of this client's secret can derive (BLAKE3): so a client
    /// recognises its own bytes when somebody without the secret gives them back.
    ///
    /// # Errors
    /// As for [`KeyGenerator::secret_bytes`](unspoken_protocol::KeyGenerator::secret_bytes).
    pub fn tag(&self, bytes: &[u8]) -> Result<[u8; 32], ClientError> {
        let secret = self.half.secret_bytes().map_err(of_key_error::<H>)?;
        let key = Zeroizing::new(blake3::derive_key("unspoken 2026 questions that are answered later", &secret));
        Ok(*blake3::keyed_hash(&key, bytes).as_bytes())
    }

    /// Decrypts the answer to a query of [`ServiceClient::encrypt`] with these questions. They are encoded again, which
    /// gives the same for applications of this kind.
    ///
    /// # Errors
    /// If the answer is malformed, or was computed for another description, with other keys or for another number of
    /// questions.
    pub fn decrypt<Q: Borrow<H::Question>>(
        &mut self,
        questions: &[Q],
        answer: &[u8],
    ) -> Result<Vec<H::Answer>, ClientError> {
        let encoded = self.encode(questions)?;
        let start = Instant::now();
        self.half.check_answer(answer, encoded.len()).map_err(ClientError::of_application)?;
        let read = self.half.read(answer, &encoded).map_err(ClientError::of_application)?;
        self.usage.client_seconds += start.elapsed().as_secs_f64();
        self.usage.answer_bytes += answer.len() as u64;
        Ok(read)
    }
}
