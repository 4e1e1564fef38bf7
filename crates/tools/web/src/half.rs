//! Client halves without their types, so that one class of JavaScript serves all applications.

use std::collections::BTreeMap;
use std::sync::Arc;

use unspoken_chat::ChatClient;
use unspoken_classify::ClassifyClient;
use unspoken_digits::DigitsClient;
use unspoken_fasttext::Encoder;
use unspoken_llama_model::ClientModel;
use unspoken_model::ModelClient;
use unspoken_pir::{PirClient, PirOptions};
use unspoken_pir_scheme::Mode;
use unspoken_protocol::{AnyHalf, AnyRequest, NoCounters, OpenedHalf, application_kind};
use unspoken_search::SearchClient;
use unspoken_store::ModelFiles;

use crate::application::{Language, WebApplication};
use crate::collection::Collection;
use crate::failure::Failure;
use crate::model::ModelInterface;
use crate::question::{Answer, Question};
use crate::security::Security;

/// The client half of some application, asked in the values of JavaScript.
pub(crate) trait WebHalf {
    /// What it tells and does whatever its application is.
    fn half(&self) -> &dyn AnyHalf;
    /// Identifies parameters and kind of the secret.
    fn key_set(&self) -> String;
    /// Whether the secret is the stored one.
    fn is_restored(&self) -> bool;
    /// The collection that the application searches, if it does.
    fn collection(&self) -> Option<Collection>;
    /// The inputs and outputs of the model, if an owner has brought it.
    fn interface(&self) -> Option<ModelInterface>;
    /// The parameter set, and the security of what the client sends.
    fn security(&self) -> Security;
    /// Encodes questions, to know that they can be asked.
    fn check(&self, questions: &[Question]) -> Result<(), Failure>;
    /// Encodes and encrypts questions.
    fn ask(&mut self, questions: &[Question]) -> Result<AnyRequest, Failure>;
    /// What continues texts, if the application does.
    fn language(&self) -> Result<Language<'_>, Failure>;
    /// Checks everything in the answer to a request that can be checked without the secret.
    fn check_answer(&self, asked: &AnyRequest, answer: &[u8]) -> Result<(), Failure>;
    /// Checks and decrypts the answer to a request.
    fn read(&self, asked: &AnyRequest, answer: &[u8]) -> Result<Vec<Answer>, Failure>;
    /// Takes up a newer description of the same service.
    fn update(&mut self, description: &[u8]) -> Result<(), Failure>;
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

    fn collection(&self) -> Option<Collection> {
        H::collection(self.half().description())
    }

    fn interface(&self) -> Option<ModelInterface> {
        H::interface(self.half().description())
    }

    fn security(&self) -> Security {
        H::security(self.half().description())
    }

    fn check(&self, questions: &[Question]) -> Result<(), Failure> {
        let questions = asked(self.half(), questions)?;
        self.half().encode(&questions).map(drop).map_err(Failure::of)
    }

    fn ask(&mut self, questions: &[Question]) -> Result<AnyRequest, Failure> {
        let questions = asked(self.half(), questions)?;
        Ok(self.ask(&questions)?.into())
    }

    fn language(&self) -> Result<Language<'_>, Failure> {
        self.half().language(self.model())
    }

    fn check_answer(&self, asked: &AnyRequest, answer: &[u8]) -> Result<(), Failure> {
        Ok(self.check_answer(asked.of()?, answer)?)
    }

    fn read(&self, asked: &AnyRequest, answer: &[u8]) -> Result<Vec<Answer>, Failure> {
        let answers = self.read(asked.of()?, answer)?;
        Ok(answers.into_iter().map(|answer| self.half().answer(answer)).collect())
    }

    fn update(&mut self, description: &[u8]) -> Result<(), Failure> {
        Ok(self.update(description)?)
    }
}

/// Questions as the application has them.
fn asked<H: WebApplication>(half: &H, questions: &[Question]) -> Result<Vec<H::Asked>, Failure> {
    questions.iter().map(|question| half.question(question)).collect()
}

/// What a client is opened with, besides the description.
#[derive(Default)]
pub(crate) struct Options<'a> {
    /// The files of the client's part of the model, by name.
    pub(crate) model: BTreeMap<String, Vec<u8>>,
    /// The kind of queries of retrieval.
    pub(crate) mode: Option<String>,
    /// A stored secret.
    pub(crate) secret: Option<&'a [u8]>,
    /// The description with which the secret was stored, or that was accepted before.
    pub(crate) earlier: Option<&'a [u8]>,
    /// Whether insecure presets are accepted: for tests.
    pub(crate) accept_insecure: bool,
}

/// Opens the client half of the application that a description of untrusted bytes names.
pub(crate) fn open(description: &[u8], options: &Options<'_>) -> Result<Box<dyn WebHalf>, Failure> {
    fn opened<H: WebApplication>(
        description: &[u8],
        model: H::Model,
        options: &Options<'_>,
    ) -> Result<Box<dyn WebHalf>, Failure> {
        let stored = (options.secret, options.earlier);
        let opened = OpenedHalf::<H>::open(description, model, stored, options.accept_insecure);
        Ok(Box::new(opened.map_err(Failure::of)?))
    }
    match application_kind(description) {
        Some("classify") => {
            let encoder = Encoder::read(ModelFiles::Memory(&options.model));
            let words = Arc::new(encoder.map_err(|error| Failure::Model(error.to_string()))?);
            opened::<ClassifyClient>(description, words, options)
        }
        Some("digits") => opened::<DigitsClient>(description, (), options),
        Some("llama") => {
            let model = ClientModel::read(ModelFiles::Memory(&options.model));
            let model = Arc::new(model.map_err(|error| Failure::Model(error.to_string()))?);
            opened::<ChatClient>(description, model, options)
        }
        Some("model") => opened::<ModelClient>(description, (), options),
        Some("retrieve") => {
            let queries = PirOptions::new(mode(options.mode.as_deref())?, NoCounters);
            opened::<PirClient>(description, queries, options)
        }
        Some("search") => opened::<SearchClient>(description, (), options),
        found => Err(Failure::Argument {
            what: "description",
            found: found.map_or_else(|| "one that is damaged".into(), |kind| format!("one of kind {kind}")),
            needed:
                "one of kind classify, digits, llama, model, retrieve or search; use a client of the command line or \
                     of Python"
                    .into(),
        }),
    }
}

/// The kind of queries of this name; packed ones by default.
fn mode(name: Option<&str>) -> Result<Mode, Failure> {
    let name = name.unwrap_or("packed");
    let refuse = || Failure::Argument {
        what: "kind of queries",
        found: format!("{name:?}"),
        needed: "packed, bits or compact; session queries need counters on a disk".into(),
    };
    match name.parse().map_err(|_| refuse())? {
        Mode::Session => Err(refuse()),
        mode => Ok(mode),
    }
}
