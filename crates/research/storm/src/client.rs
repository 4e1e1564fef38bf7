//! Clients of the service, who check every answer.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use unspoken_classify::ClassifyClient;
use unspoken_client::transport::{self, Cancel, RetryPolicy, Transport, TransportConfig};
use unspoken_client::{ClientError, ServiceClient, StateDir};
use unspoken_fasttext::Model;
use unspoken_pir::{PirClient, PirOptions, Question};
use unspoken_pir_scheme::Mode;

use crate::service::{CLASSIFIER, DATABASE, Files, MESSAGES, RECORDS, record};

/// What a client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Records of the database.
    Retrieve,
    /// Labels of messages.
    Classify,
}

/// A client with keys of its own.
pub enum Client {
    /// Of the database.
    Retrieve(Box<ServiceClient<PirClient>>),
    /// Of the classifier, with the model in the clear.
    Classify(Box<ServiceClient<ClassifyClient>>, Arc<Model>),
}

/// What came of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The right answer.
    Right,
    /// Another answer.
    Wrong(String),
    /// A refusal that asks to come back after some time.
    Later(String, Duration),
    /// No connection, or one that ended early.
    Unreachable,
    /// A refusal or an error that does not pass by itself.
    Failed(String),
}

/// A connection that does not retry by itself, so that every refusal is seen.
pub fn transport(url: &str, token: &str) -> anyhow::Result<Transport> {
    let mut config = TransportConfig::new(url).with_token(token);
    config.retry = RetryPolicy { patience: Duration::ZERO, ..RetryPolicy::default() };
    config.answer_timeout = Duration::from_secs(120);
    config.chunk_bytes = 512 << 10;
    Ok(Transport::new(config)?)
}

impl Client {
    /// Connects, and makes and uploads keys unless `state` has them.
    pub fn connect(kind: Kind, url: &str, token: &str, state: &Path, files: &Files) -> Result<Self, Outcome> {
        let failed = |error: anyhow::Error| Outcome::Failed(format!("{error:#}"));
        let transport = transport(url, token).map_err(failed)?;
        let open = |application| StateDir::open(state, url, application).map_err(|error| failed(error.into()));
        let (progress, cancel) = (&mut |_| {}, &Cancel::new());
        match kind {
            Kind::Retrieve => {
                let state = open(DATABASE)?;
                let options = PirOptions::new(Mode::Packed, state.clone());
                let client = ServiceClient::connect(transport, DATABASE, options, &state, progress, cancel);
                Ok(Client::Retrieve(Box::new(client.map_err(outcome)?)))
            }
            Kind::Classify => {
                let state = open(CLASSIFIER)?;
                let words = Arc::new(files.model.encoder().clone());
                let client = ServiceClient::connect(transport, CLASSIFIER, words, &state, progress, cancel);
                Ok(Client::Classify(Box::new(client.map_err(outcome)?), Arc::new(files.model.clone())))
            }
        }
    }

    /// Asks one question and compares the answer.
    pub fn ask(&mut self, random: &mut fastrand::Rng) -> Outcome {
        let (progress, cancel) = (&mut |_| {}, &Cancel::new());
        let checked = match self {
            Client::Retrieve(client) => {
                let index = random.u64(..RECORDS);
                client.ask(&[Question::Index(index)], progress, cancel).map(|answers| {
                    let found = answers.into_iter().next().and_then(|answer| answer.record);
                    let right = found.is_some_and(|found| *found == record(index));
                    if right { Ok(()) } else { Err(format!("another record than {index}")) }
                })
            }
            Client::Classify(client, model) => {
                let message = MESSAGES[random.usize(..MESSAGES.len())];
                client.ask(&[message], progress, cancel).map(|answers| {
                    let (found, needed) = (answers.first().map(|answer| answer.label.as_str()), model.predict(message));
                    if found == Some(needed) { Ok(()) } else { Err(format!("{found:?} for '{message}'")) }
                })
            }
        };
        match checked {
            Ok(Ok(())) => Outcome::Right,
            Ok(Err(wrong)) => Outcome::Wrong(wrong),
            Err(error) => outcome(error),
        }
    }

    /// Id of the key bundle at the service.
    pub fn key(&self) -> &transport::KeyId {
        match self {
            Client::Retrieve(client) => client.key(),
            Client::Classify(client, _) => client.key(),
        }
    }
}

/// What an error means for a client that may come back.
pub fn outcome(error: ClientError) -> Outcome {
    fn of(error: &transport::Error) -> Option<Outcome> {
        match error {
            transport::Error::Refused(problem) => {
                problem.retry_after.map(|pause| Outcome::Later(problem.code.clone(), pause))
            }
            transport::Error::Unreachable { .. } | transport::Error::TimedOut { .. } => Some(Outcome::Unreachable),
            transport::Error::GaveUp { last, .. } => of(last),
            _ => None,
        }
    }
    let passing = match &error {
        ClientError::Transport(error) => of(error),
        _ => None,
    };
    passing.unwrap_or_else(|| Outcome::Failed(error.to_string()))
}
