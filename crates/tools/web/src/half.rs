//! Client halves without their types, so that one class of JavaScript serves all applications.

use std::any::Any;

use unspoken_protocol::{AnyHalf, HalfRequest, OpenedError, OpenedHalf};

use crate::application::WebApplication;
use crate::continuation::{Beginning, Continuation};
use crate::failure::Failure;
use crate::question::{Answer, Question};
use crate::security::SecuredObject;

/// A request of some application.
pub(crate) struct Asked {
    /// A [`HalfRequest`] of the client half that made it.
    request: Box<dyn Any>,
    /// The bytes to send.
    pub(crate) bytes: Vec<u8>,
    /// Maximum length of the answer in bytes.
    pub(crate) answer_bytes: usize,
}

/// The client half of some application, asked in the values of JavaScript.
pub(crate) trait WebHalf {
    /// What it tells and does whatever its application is.
    fn half(&self) -> &dyn AnyHalf;
    /// Identifies parameters and kind of the secret.
    fn key_set(&self) -> String;
    /// Whether the secret is the stored one.
    fn is_restored(&self) -> bool;
    /// Name of the parameter set.
    fn preset(&self) -> String;
    /// What the client sends to the service, with its security.
    fn objects(&self) -> Vec<SecuredObject>;
    /// Encodes and encrypts questions.
    fn ask(&mut self, questions: &[Question]) -> Result<Asked, Failure>;
    /// Begins a text that the service continues.
    fn continuation(&self, beginning: &Beginning<'_>) -> Result<Continuation, Failure>;
    /// Checks everything in the answer to a request that can be checked without the secret.
    fn check_answer(&self, asked: &Asked, answer: &[u8]) -> Result<(), Failure>;
    /// Checks and decrypts the answer to a request.
    fn read(&self, asked: &Asked, answer: &[u8]) -> Result<Vec<Answer>, Failure>;
    /// Takes up a newer description of the same service.
    fn update(&mut self, description: &[u8]) -> Result<(), Failure>;
}

/// The request of this application. One of another application is not of this client; one of another client of the same
/// application is refused when it is used.
fn request<H: WebApplication>(asked: &Asked) -> Result<&HalfRequest<H>, Failure> {
    asked.request.downcast_ref().ok_or_else(|| OpenedError::<H::Error>::OtherRequest.into())
}

impl<H: WebApplication> WebHalf for OpenedHalf<H> {
    fn half(&self) -> &dyn AnyHalf {
        self.half()
    }

    fn key_set(&self) -> String {
        H::secret_name(self.half().description(), self.model()).to_string()
    }

    fn is_restored(&self) -> bool {
        self.is_restored()
    }

    fn preset(&self) -> String {
        H::preset(self.half().description())
    }

    fn objects(&self) -> Vec<SecuredObject> {
        H::objects(self.half().description())
    }

    fn ask(&mut self, questions: &[Question]) -> Result<Asked, Failure> {
        let questions: Vec<H::Asked> = questions.iter().map(H::question).collect::<Result<_, _>>()?;
        let mut request = self.ask(&questions)?;
        let (bytes, answer_bytes) = (std::mem::take(&mut request.bytes), request.answer_bytes);
        Ok(Asked { request: Box::new(request), bytes, answer_bytes })
    }

    fn continuation(&self, beginning: &Beginning<'_>) -> Result<Continuation, Failure> {
        self.half().continuation(self.model(), beginning)
    }

    fn check_answer(&self, asked: &Asked, answer: &[u8]) -> Result<(), Failure> {
        Ok(self.check_answer(request::<H>(asked)?, answer)?)
    }

    fn read(&self, asked: &Asked, answer: &[u8]) -> Result<Vec<Answer>, Failure> {
        let answers = self.read(request::<H>(asked)?, answer)?;
        Ok(answers.into_iter().map(|answer| self.half().answer(answer)).collect())
    }

    fn update(&mut self, description: &[u8]) -> Result<(), Failure> {
        Ok(self.update(description)?)
    }
}
