//! A service that is asked over HTTP.

use unspoken_chat::{Answer, ChatClient, Question};
use unspoken_client::transport::{self, Cancel};
use unspoken_client::{ClientError, Progress, ServiceClient};
use unspoken_protocol::ErrorKind;

use crate::failure::Failure;
use crate::worker::Service;

/// A connection to a service, with a report of what takes long.
pub struct RemoteService {
    client: ServiceClient<ChatClient>,
    progress: Box<dyn FnMut(Progress) + Send>,
    cancel: Cancel,
}

impl RemoteService {
    /// A service that is asked by a client, until `cancel`.
    pub fn new(
        client: ServiceClient<ChatClient>,
        progress: impl FnMut(Progress) + Send + 'static,
        cancel: Cancel,
    ) -> Self {
        RemoteService { client, progress: Box::new(progress), cancel }
    }
}

impl Service for RemoteService {
    fn half(&self) -> &ChatClient {
        self.client.half()
    }

    fn ask(&mut self, question: &Question) -> Result<Answer, Failure> {
        // A session is ended also when the proxy itself ends.
        let last = Cancel::new();
        let cancel = if matches!(question, Question::End { .. }) { &last } else { &self.cancel };
        let answers = self.client.ask(&[question], &mut self.progress, cancel).map_err(failure)?;
        answers.into_iter().next().ok_or_else(|| Failure::broken("the service gave no answer"))
    }

    fn bytes(&self) -> [u64; 2] {
        let usage = self.client.usage();
        [usage.query_bytes, usage.answer_bytes]
    }
}

fn failure(error: ClientError) -> Failure {
    use transport::Error;
    let text = error.to_string();
    match &error {
        ClientError::Application(error) => match error.kind() {
            ErrorKind::Unreadable => Failure::refused(text),
            ErrorKind::Busy | ErrorKind::Exhausted { .. } | ErrorKind::Cancelled => Failure::unavailable(text),
            _ => Failure::broken(text),
        },
        ClientError::Transport(
            Error::Unreachable { .. } | Error::TimedOut { .. } | Error::GaveUp { .. } | Error::Cancelled,
        ) => Failure::unavailable(text),
        _ => Failure::broken(text),
    }
}
