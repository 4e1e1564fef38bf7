//! Connection to a service: blocking calls that retry, resume and can be cancelled. Keys, queries and answers are plain
//! bytes here.
//!
//! ```no_run
//! use std::fs::File;
//! use unspoken_client::transport::{Cancel, Transport, TransportConfig};
//!
//! let config = TransportConfig::new("https://ask.example.org").with_token("unspoken_…");
//! let transport = Transport::new(config)?;
//! let cancel = Cancel::new();
//! let app = transport.describe("classify/spam", &cancel)?;
//! let format = app.limits.key_format;
//! let mut keys = File::open("spam.keys").map_err(unspoken_client::transport::Error::Source)?;
//! let id = transport.upload_keys("classify/spam", format, &mut keys, |_| {}, &cancel)?;
//! let answer = transport.ask("classify/spam", &id, vec![0; 100], &cancel)?;
//! # Ok::<(), unspoken_client::transport::Error>(())
//! ```
//!
//! Calls block and may be made from any thread, also inside an asynchronous runtime. Each takes a `Cancel`; cancelling
//! closes the connection, so the service stops computing as well. A process that was forked after a `Transport` was
//! made opens connections of its own; the parent's connections are left alone.
//!
//! Calls are retried after lost connections, refusals with `Retry-After` and the statuses 429, 502, 503 and 504 of a
//! proxy, with growing, randomised pauses, for as long as `RetryPolicy` allows: 120 s from the first failure, or 10 s
//! while a service that has never answered accepts no connection, or only a proxy answers for it. A query that the
//! service held, in its queue or at work, when it was lost is asked again with new patience, three times. Before each
//! pause `TransportConfig::on_wait` is called with what is waited for. `TransportConfig::timeout` replaces these times
//! by one for each answer, retries and the service's work included. The last try comes when the time is over.
//!
//! What cannot heal fails at once: a name that does not exist (`UnreachableCause::UnknownHost`), a certificate that is
//! not trusted, `https` to a port that speaks `http` and the reverse, other failures of TLS, and refusals of the
//! service without `Retry-After`. The error names the innermost cause and what to do. Which errors are permanent never
//! depends on secrets.
//!
//! Everything that is sent may be sent twice: the service identifies a key bundle by its hash. For the same reason an
//! upload resumes without a state file: call `upload_keys` with the same bytes, also from another process. The client
//! gives up on a service whose upload offset never grows.
//!
//! An address without a scheme gets `http://` if it is this machine's, and `https://` otherwise. The path of an address
//! is kept: behind a proxy a service may be below a path. TLS trusts the system's authorities and the authorities in
//! `authorities`, in PEM or DER. Plain HTTP to another machine is refused unless `insecure_http` allows it. A token is
//! never printed. Redirects are not followed.

mod authorities;
mod cancel;
mod cause;
mod config;
mod error;
mod live;
mod refusal;
mod request;
mod resolver;
mod retry;
mod scheme;
mod upload;
mod url;
mod wait;

use std::time::Instant;

use bytes::Bytes;

pub use cancel::Cancel;
pub use cause::UnreachableCause;
pub use config::{RetryPolicy, TransportConfig};
pub use error::{Error, GiveUp, Problem};
use request::{Expect, HttpConnection, Outgoing, Watch};
use reqwest::Method;
use retry::Pauses;
use unspoken_wire::decode;
use unspoken_wire::http::{APPS_PATH, KEYS_PATH};
use unspoken_wire::v1::{ApplicationDescription, ApplicationList, KeyList, KeyStatus, Limits};
pub use upload::UploadProgress;
pub use wait::{WaitCallback, Waiting};

/// Where a service says whether it accepts requests.
const READY_PATH: &str = "/readyz";

/// Id of a key bundle at a service: 128 random bits. With a token it is useless to others. At a service without tokens
/// whoever knows it can delete the bundle; it reveals nothing about questions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyId(String);

impl KeyId {
    /// Parses a printed id.
    ///
    /// # Errors
    /// [`Error::KeyId`] if it is not 32 lower-case hexadecimal digits.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if text.len() == 32 && text.bytes().all(digit) {
            Ok(Self(text.to_owned()))
        } else {
            Err(Error::KeyId { found: text.chars().take(40).collect() })
        }
    }

    /// 32 hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for KeyId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// An application as the service describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribedApplication {
    /// Limits of its messages, in bytes.
    pub limits: Limits,
    /// A message of the application with what a client needs to make keys.
    pub description: Vec<u8>,
}

/// A connection to one service. Calls block; several threads may share it. Every call can be cancelled from another
/// thread, which also makes the service stop. In a forked child, calls open connections of its own.
pub struct Transport {
    connection: HttpConnection,
    config: TransportConfig,
}

impl Transport {
    /// Prepares a connection; nothing is sent yet.
    ///
    /// # Errors
    /// [`Error::Config`] if the URL, the token or the certificate authority cannot be used, or if plain HTTP to another
    /// machine is not allowed.
    pub fn new(config: TransportConfig) -> Result<Self, Error> {
        Ok(Self { connection: HttpConnection::new(&config)?, config })
    }

    /// Address of the service, with its scheme.
    pub fn url(&self) -> &str {
        &self.config.url
    }

    /// Asks whether the service accepts requests; needs no token.
    ///
    /// # Errors
    /// [`Error`] if it does not when the time of the configuration has passed, with the service's reason.
    pub fn ready(&self, cancel: &Cancel) -> Result<(), Error> {
        self.control(Outgoing::new(Method::GET, READY_PATH), cancel).map(drop)
    }

    /// Names of the applications of the service.
    ///
    /// # Errors
    /// [`Error`], after retries where they help.
    pub fn applications(&self, cancel: &Cancel) -> Result<Vec<String>, Error> {
        let answer = self.control(Outgoing::new(Method::GET, APPS_PATH), cancel)?;
        Ok(read::<ApplicationList>(&answer)?.names)
    }

    /// Limits and description of one application.
    ///
    /// # Errors
    /// [`Error::Refused`] with `application_not_found`, or an error of any call.
    pub fn describe(&self, application: &str, cancel: &Cancel) -> Result<DescribedApplication, Error> {
        let path = app_path(application)?;
        let answer = self.control(Outgoing::new(Method::GET, path), cancel)?;
        let message = read::<ApplicationDescription>(&answer)?;
        let limits = message.limits.ok_or_else(|| Error::protocol("the description has no limits"))?;
        Ok(DescribedApplication { limits, description: message.description })
    }

    /// Sends a query and waits for the answer, both bytes of the application.
    ///
    /// # Errors
    /// [`Error::Refused`] with `key_not_found` if the keys expired, with `malformed_query` or `does_not_fit` from the
    /// application, or an error of any call.
    pub fn ask(
        &self,
        application: &str,
        key: &KeyId,
        query: impl Into<Bytes>,
        cancel: &Cancel,
    ) -> Result<Bytes, Error> {
        self.ask_at_most(application, key, query, self.config.max_answer_bytes, cancel)
    }

    /// Like [`Transport::ask`], but reads at most `most` bytes: what the application's description allows.
    ///
    /// # Errors
    /// As for [`Transport::ask`]; [`Error::Protocol`] if the answer is longer.
    pub fn ask_at_most(
        &self,
        application: &str,
        key: &KeyId,
        query: impl Into<Bytes>,
        most: usize,
        cancel: &Cancel,
    ) -> Result<Bytes, Error> {
        let outgoing = self.query(application, key, query.into(), Expect::Answer(most))?;
        self.send_with_retries(&outgoing, &mut |_, _| {}, cancel)
    }

    /// Like [`Transport::ask_at_most`]. Meanwhile `progress` receives the number of steps of the answer that are done,
    /// and in total, on the calling thread: the newest when there is a new one, at most twenty times a second. It is
    /// never called if the application or the service reports none, and begins again if the query is sent again. The
    /// service chooses the numbers.
    ///
    /// # Errors
    /// As for [`Transport::ask_at_most`].
    pub fn ask_with_progress(
        &self,
        application: &str,
        key: &KeyId,
        query: impl Into<Bytes>,
        most: usize,
        mut progress: impl FnMut(u32, u32),
        cancel: &Cancel,
    ) -> Result<Bytes, Error> {
        let outgoing = self.query(application, key, query.into(), Expect::AnswerWithProgress(most))?;
        self.send_with_retries(&outgoing, &mut progress, cancel)
    }

    fn query(&self, application: &str, key: &KeyId, query: Bytes, expect: Expect) -> Result<Outgoing, Error> {
        let path = format!("{}?key={key}", app_path(application)?);
        Ok(Outgoing::new(Method::POST, path).with_body(query).expecting(expect, self.config.answer_timeout))
    }

    /// The key bundles of this client's token at the service.
    ///
    /// # Errors
    /// [`Error::Refused`] with `forbidden` without a token; [`StateDir::uploaded_keys`](crate::StateDir::uploaded_keys)
    /// knows the ids. Otherwise an error of any call.
    pub fn keys(&self, cancel: &Cancel) -> Result<Vec<KeyStatus>, Error> {
        let answer = self.control(Outgoing::new(Method::GET, KEYS_PATH), cancel)?;
        Ok(read::<KeyList>(&answer)?.keys)
    }

    /// Status of one key bundle.
    ///
    /// # Errors
    /// [`Error::Refused`] with `key_not_found`, or an error of any call.
    pub fn key_status(&self, key: &KeyId, cancel: &Cancel) -> Result<KeyStatus, Error> {
        read(&self.control(Outgoing::new(Method::GET, key_path(key)), cancel)?)
    }

    /// Deletes a key bundle at the service.
    ///
    /// # Errors
    /// [`Error::Refused`] with `key_not_found`, or an error of any call.
    pub fn delete_key(&self, key: &KeyId, cancel: &Cancel) -> Result<(), Error> {
        self.control(Outgoing::new(Method::DELETE, key_path(key)), cancel).map(drop)
    }

    fn control(&self, outgoing: Outgoing, cancel: &Cancel) -> Result<Bytes, Error> {
        self.send_with_retries(&outgoing, &mut |_, _| {}, cancel)
    }

    fn send_with_retries(
        &self,
        outgoing: &Outgoing,
        progress: &mut dyn FnMut(u32, u32),
        cancel: &Cancel,
    ) -> Result<Bytes, Error> {
        let mut pauses = self.pauses();
        loop {
            let mut watch = Watch { progress: &mut *progress, was_held: false };
            let began = Instant::now();
            match self.connection.send(outgoing, pauses.left(), &mut watch, cancel) {
                Ok(answer) => return Ok(answer),
                Err(error) => {
                    if watch.was_held {
                        pauses.lost_answer();
                    }
                    pauses.after(error, began, cancel)?;
                }
            }
        }
    }

    /// The pauses of one call.
    fn pauses(&self) -> Pauses<'_> {
        Pauses::new(&self.config, self.connection.has_answered())
    }
}

fn app_path(application: &str) -> Result<String, Error> {
    if !unspoken_wire::is_application_name(application) {
        let needed = "needed lower-case segments joined by '/', such as classify/spam";
        let reason = format!("the name {application:?} of the application is not valid in a URL; {needed}");
        return Err(Error::config(reason));
    }
    Ok(format!("{APPS_PATH}/{application}"))
}

fn key_path(key: &KeyId) -> String {
    format!("{KEYS_PATH}/{key}")
}

fn read<M: unspoken_wire::Message + Default>(bytes: &[u8]) -> Result<M, Error> {
    decode(bytes, unspoken_wire::MAX_CONTROL_BYTES).map_err(Error::protocol)
}
