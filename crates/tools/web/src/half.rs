//! Client halves without their types, so that one class of JavaScript serves all applications.

use std::any::Any;
use std::io::Write;
use std::sync::atomic::AtomicBool;

use unspoken_protocol::{ApplicationDescription, ClientHalf};
use zeroize::Zeroizing;

use crate::application::WebApplication;
use crate::continuation::{Beginning, Continuation};
use crate::failure::Failure;
use crate::question::{Answer, Question};
use crate::security::SecuredObject;

/// Encoded questions of some application.
pub(crate) type Encoded = Box<dyn Any>;

/// The client half of some application.
pub(crate) trait Half {
    fn secret(&self) -> Result<Zeroizing<Vec<u8>>, Failure>;
    fn key_set(&self) -> String;
    fn bundle_contents(&self) -> Vec<u8>;
    fn is_covered_by(&self, contents: &[u8]) -> bool;
    fn key_bytes(&self) -> u64;
    fn write_keys(&self, out: &mut dyn Write, progress: &mut dyn FnMut(usize, usize)) -> Result<(), Failure>;
    fn batch(&self) -> usize;
    fn query_bytes(&self, questions: usize) -> usize;
    fn answer_bytes(&self, questions: usize) -> usize;
    fn expected_answer_bytes(&self, questions: usize) -> usize;
    fn objects(&self) -> Vec<SecuredObject>;
    fn preset(&self) -> String;
    /// Whether the secret is the stored one.
    fn is_restored(&self) -> bool;
    /// Encodes and encrypts questions.
    fn ask(&mut self, questions: &[Question]) -> Result<(Encoded, Vec<u8>), Failure>;
    /// Begins a text that the service continues.
    fn continuation(&self, beginning: &Beginning<'_>) -> Result<Continuation, Failure>;
    /// Checks everything in an answer to `questions` questions that can be checked without the secret.
    fn check_answer(&self, answer: &[u8], questions: usize) -> Result<(), Failure>;
    /// Decrypts the answer to encoded questions of this half.
    fn read(&self, answer: &[u8], encoded: &Encoded) -> Result<Vec<Answer>, Failure>;
    /// Takes up a newer description of the same service.
    fn update(&mut self, description: &[u8]) -> Result<(), Failure>;
}

/// A client half, and what it needs to read a newer description.
pub(crate) struct Opened<H: WebApplication> {
    half: H,
    model: H::Model,
    accept_insecure: bool,
    is_restored: bool,
}

fn failed<H: ClientHalf>(error: H::Error) -> Failure {
    Failure::of(error)
}

fn key_failed<H: ClientHalf>(error: H::KeyError) -> Failure {
    failed::<H>(error.into())
}

fn read_description<H: ClientHalf>(bytes: &[u8], accept_insecure: bool) -> Result<H::Description, Failure> {
    H::Description::read(bytes, accept_insecure).map_err(|error| failed::<H>(error.into()))
}

impl<H: WebApplication> Opened<H> {
    /// Opens the half of an application with a stored secret or with a new one. The description is refused if it must
    /// not follow the `earlier` description that this client accepted, because it would reveal something. A stored
    /// secret is used only if it has the parameters of the earlier description.
    pub(crate) fn open(
        description: &[u8],
        model: H::Model,
        (stored, earlier): (Option<&[u8]>, Option<&[u8]>),
        accept_insecure: bool,
    ) -> Result<Self, Failure> {
        let mut description = read_description::<H>(description, accept_insecure)?;
        // An earlier one that cannot be read belongs to another version.
        let earlier = earlier.and_then(|earlier| read_description::<H>(earlier, accept_insecure).ok());
        let mut stored = stored;
        if let Some(earlier) = &earlier {
            H::check_change(earlier, &description).map_err(failed::<H>)?;
            description.keep_from(earlier);
            let name = |description: &H::Description| H::secret_name(description, &model);
            stored = stored.filter(|_| name(earlier) == name(&description));
        }
        let half = H::open(description, model.clone(), stored).map_err(failed::<H>)?;
        if stored.is_none() {
            half.begin().map_err(failed::<H>)?;
        }
        Ok(Opened { half, model, accept_insecure, is_restored: stored.is_some() })
    }
}

impl<H: WebApplication> Half for Opened<H>
where
    H::Encoded: 'static,
{
    fn secret(&self) -> Result<Zeroizing<Vec<u8>>, Failure> {
        self.half.secret_bytes().map_err(key_failed::<H>)
    }

    fn key_set(&self) -> String {
        H::secret_name(self.half.description(), &self.model).to_string()
    }

    fn bundle_contents(&self) -> Vec<u8> {
        self.half.bundle_contents()
    }

    fn is_covered_by(&self, contents: &[u8]) -> bool {
        self.half.is_covered_by(contents)
    }

    fn key_bytes(&self) -> u64 {
        self.half.key_bytes()
    }

    fn write_keys(&self, mut out: &mut dyn Write, progress: &mut dyn FnMut(usize, usize)) -> Result<(), Failure> {
        self.half.write_keys(&mut out, progress, &AtomicBool::new(false)).map_err(key_failed::<H>)
    }

    fn batch(&self) -> usize {
        self.half.batch()
    }

    fn query_bytes(&self, questions: usize) -> usize {
        self.half.query_bytes(questions)
    }

    fn answer_bytes(&self, questions: usize) -> usize {
        self.half.answer_bytes(questions)
    }

    fn expected_answer_bytes(&self, questions: usize) -> usize {
        self.half.expected_answer_bytes(questions)
    }

    fn objects(&self) -> Vec<SecuredObject> {
        H::objects(self.half.description())
    }

    fn preset(&self) -> String {
        H::preset(self.half.description())
    }

    fn is_restored(&self) -> bool {
        self.is_restored
    }

    fn ask(&mut self, questions: &[Question]) -> Result<(Encoded, Vec<u8>), Failure> {
        let most = self.half.batch();
        if !(1..=most).contains(&questions.len()) {
            let found = questions.len().to_string();
            return Err(Failure::Argument { what: "number of questions", found, needed: format!("1 to {most}") });
        }
        let asked: Vec<H::Asked> = questions.iter().map(H::question).collect::<Result<_, _>>()?;
        let encoded = self.half.encode(&asked).map_err(failed::<H>)?;
        let query = self.half.query(&encoded).map_err(failed::<H>)?;
        Ok((Box::new(encoded), query))
    }

    fn continuation(&self, beginning: &Beginning<'_>) -> Result<Continuation, Failure> {
        self.half.continuation(&self.model, beginning)
    }

    fn check_answer(&self, answer: &[u8], questions: usize) -> Result<(), Failure> {
        let most = self.half.answer_bytes(questions);
        if answer.len() > most {
            let found = format!("{} bytes", answer.len());
            return Err(Failure::Argument { what: "answer", found, needed: format!("at most {most} bytes") });
        }
        self.half.check_answer(answer, questions).map_err(failed::<H>)
    }

    fn read(&self, answer: &[u8], encoded: &Encoded) -> Result<Vec<Answer>, Failure> {
        let encoded = encoded.downcast_ref::<Vec<H::Encoded>>().ok_or_else(other_request)?;
        self.check_answer(answer, encoded.len())?;
        let answers = self.half.read(answer, encoded).map_err(failed::<H>)?;
        Ok(answers.into_iter().map(|answer| self.half.answer(answer)).collect())
    }

    fn update(&mut self, description: &[u8]) -> Result<(), Failure> {
        let mut now = read_description::<H>(description, self.accept_insecure)?;
        let name = |description: &H::Description| H::secret_name(description, &self.model);
        if name(&now) != name(self.half.description()) {
            let needed = "those of before; open another client, with a new secret".into();
            return Err(Failure::Argument { what: "parameters", found: "other ones".into(), needed });
        }
        H::check_change(self.half.description(), &now).map_err(failed::<H>)?;
        now.keep_from(self.half.description());
        let secret = self.secret()?;
        self.half = H::open(now, self.model.clone(), Some(&secret)).map_err(failed::<H>)?;
        Ok(())
    }
}

/// The error for a request of another client, or of an earlier description.
pub(crate) fn other_request() -> Failure {
    Failure::Argument {
        what: "request",
        found: "one of another client, or of an earlier description".into(),
        needed: "one that this client made; ask again".into(),
    }
}
