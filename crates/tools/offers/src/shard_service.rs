//! Access of a router to the service of a shard, over HTTP.

use std::collections::HashMap;
use std::io::Cursor;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use anyhow::Context;
use unspoken_client::transport::{Cancel, Error, KeyId, Transport, TransportConfig};
use unspoken_protocol::{ForwardedKeys, ShardAccess, ShardFailure};
use unspoken_wire::ProblemCode;

/// Time limit of a look at a shard.
const LOOK_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit for a control message, or a chunk of an upload, to a shard.
const CONTROL_TIMEOUT: Duration = Duration::from_secs(30);

/// Interval at which a thread that waits for an upload of another one looks whether it is cancelled.
const POLL: Duration = Duration::from_millis(10);

/// Number of bundles whose ids are kept. Sending a bundle again that the shard has costs a short message.
const MAX_IDS: usize = 1 << 14;

/// The named application, or the only one of a service.
fn choose_application(transport: &Transport, asked: Option<&str>) -> anyhow::Result<String> {
    if let Some(name) = asked {
        return Ok(name.into());
    }
    let mut names = transport.applications(&Cancel::new())?;
    anyhow::ensure!(
        names.len() == 1,
        "the service offers {}; name one of them: application = \"NAME\"",
        if names.is_empty() { "no application".to_owned() } else { names.join(", ") }
    );
    Ok(names.swap_remove(0))
}

/// How long a router waits for a shard.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For a shard that cannot be reached, or is busy.
    pub unreachable: Duration,
    /// For an answer.
    pub answer: Duration,
}

/// The id of a bundle at the service, once it has been sent. Held while it is sent.
type SentKeys = Arc<Mutex<Option<KeyId>>>;

/// The service of a shard.
pub struct ShardService {
    /// Name of the router's application, for the log.
    router: String,
    application: String,
    asking: Transport,
    /// Tries once.
    looking: Transport,
    /// The ids of clients' bundles at the service, by their hashes.
    ids: Mutex<HashMap<[u8; 32], SentKeys>>,
    /// Why the last look failed; empty if it did not.
    complaint: Mutex<String>,
}

impl ShardService {
    /// Connects to the service of a shard: to the named application, or to its only one.
    pub fn connect(
        router: &str,
        config: TransportConfig,
        application: Option<&str>,
        patience: Patience,
    ) -> anyhow::Result<Self> {
        let mut asking = TransportConfig { request_timeout: CONTROL_TIMEOUT, ..config.clone() };
        asking.answer_timeout = patience.answer;
        (asking.retry.patience, asking.retry.connect_patience) = (patience.unreachable, patience.unreachable);
        let mut looking = TransportConfig { request_timeout: LOOK_TIMEOUT, ..config };
        looking.connect_timeout = LOOK_TIMEOUT;
        looking.retry.patience = Duration::ZERO;
        let (asking, looking) = (Transport::new(asking)?, Transport::new(looking)?);
        let application = choose_application(&asking, application)
            .with_context(|| format!("cannot use the shard at {}", asking.url()))?;
        let (ids, complaint) = (Mutex::default(), Mutex::default());
        Ok(ShardService { router: router.into(), application, asking, looking, ids, complaint })
    }

    /// The partial answer. If the service does not have the keys any more, they are sent again, once.
    fn answer(&self, keys: &ForwardedKeys, query: &[u8], most: usize, cancel: &Cancel) -> Result<Vec<u8>, Error> {
        let ask = |key: &KeyId| self.asking.ask_at_most(&self.application, key, query.to_vec(), most, cancel);
        let key = self.key(keys, cancel)?;
        let answered = match ask(&key) {
            Err(error) if is_about_keys(&error) => {
                self.forget(keys, &key, &error, cancel)?;
                ask(&self.key(keys, cancel)?)
            }
            answered => answered,
        };
        answered.map(|answer| answer.to_vec())
    }

    /// The id of a client's keys at the service, which are sent if they have not been.
    fn key(&self, keys: &ForwardedKeys, cancel: &Cancel) -> Result<KeyId, Error> {
        let sent = self.sent(keys);
        let mut sent = held(&sent, cancel)?;
        if let Some(id) = &*sent {
            return Ok(id.clone());
        }
        let mut bundle = Cursor::new(keys.bundle());
        let id = self.asking.upload_keys(&self.application, keys.format(), &mut bundle, |_| {}, cancel)?;
        *sent = Some(id.clone());
        Ok(id)
    }

    /// Where the id of a client's keys is. Requests of other clients do not wait while it is held.
    fn sent(&self, keys: &ForwardedKeys) -> SentKeys {
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        if ids.len() >= MAX_IDS && !ids.contains_key(&keys.id()) {
            ids.clear();
        }
        Arc::clone(ids.entry(keys.id()).or_default())
    }

    /// Forgets the id of keys that the service does not have, or has with damage; then it must delete them first.
    fn forget(&self, keys: &ForwardedKeys, key: &KeyId, why: &Error, cancel: &Cancel) -> Result<(), Error> {
        let sent = self.sent(keys);
        let mut sent = held(&sent, cancel)?;
        if sent.as_ref() == Some(key) {
            *sent = None;
            if why.code() == Some(ProblemCode::KeyDamaged) {
                self.asking.delete_key(key, cancel)?;
            }
        }
        Ok(())
    }
}

/// The id of keys, when no other request of their client sends them.
fn held<'a>(sent: &'a SentKeys, cancel: &Cancel) -> Result<MutexGuard<'a, Option<KeyId>>, Error> {
    loop {
        match sent.try_lock() {
            Ok(sent) => return Ok(sent),
            Err(TryLockError::Poisoned(sent)) => return Ok(sent.into_inner()),
            Err(TryLockError::WouldBlock) if cancel.is_cancelled() => return Err(Error::Cancelled),
            Err(TryLockError::WouldBlock) => std::thread::sleep(POLL),
        }
    }
}

/// Whether a service does not have keys that it had.
fn is_about_keys(error: &Error) -> bool {
    matches!(error.code(), Some(ProblemCode::KeyNotFound | ProblemCode::KeyDamaged))
}

impl ShardAccess for ShardService {
    fn describe(&self) -> Result<Vec<u8>, ShardFailure> {
        let described = self.looking.describe(&self.application, &Cancel::new());
        let reason = described.as_ref().err().map(ToString::to_string).unwrap_or_default();
        let mut complaint = self.complaint.lock().unwrap_or_else(PoisonError::into_inner);
        if !reason.is_empty() && *complaint != reason {
            tracing::warn!(application = self.router, shard = self.looking.url(), reason, "cannot reach a shard");
        }
        *complaint = reason;
        described.map(|offer| offer.description).map_err(|_| ShardFailure::NoAnswer)
    }

    fn ask(
        &self,
        keys: &ForwardedKeys,
        query: &[u8],
        most: usize,
        cancel: &Arc<AtomicBool>,
    ) -> Result<Vec<u8>, ShardFailure> {
        let cancel = Cancel::from(Arc::clone(cancel));
        self.answer(keys, query, most, &cancel).map_err(|error| match error {
            Error::Cancelled => ShardFailure::Cancelled,
            error => {
                let reason = error.to_string();
                tracing::warn!(application = self.router, shard = self.asking.url(), reason, "a shard failed");
                ShardFailure::NoAnswer
            }
        })
    }
}
