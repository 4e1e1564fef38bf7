//! The class of connections.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use unspoken_classify::{ClassifyClient, HeadClient, HeadModel};
use unspoken_digits::DigitsClient;
use unspoken_embed::EmbedClient;
use unspoken_matrix::MatrixClient;
use unspoken_model::ModelClient;

use super::client::{Answers, Client, ModelPart, Part};
use super::place::{Place, Service};
use crate::embedding::Codes;
use crate::failure::ConfigurationError;
use crate::llama::{LlamaConversation, LlamaModel, LlamaPrompt};
use crate::model::Words;
use crate::progress::Reporter;
use crate::retrieval::Database;
use crate::sampling::Choices;
use crate::search::Collection;
use crate::sums;

/// An application of a service, with generated and uploaded keys.
#[pyclass(module = "unspoken._unspoken")]
pub(crate) struct Connection {
    client: Box<dyn Client>,
    application: String,
}

/// What a client brings to an application of this kind. Each kind has one line here.
fn part(kind: &str, part: &Bound<'_, PyAny>) -> PyResult<Box<dyn Part>> {
    Ok(match kind {
        "classify" => Box::new(ModelPart::<ClassifyClient>(part.cast::<Words>()?.get().encoder().clone())),
        "digits" => Box::new(ModelPart::<DigitsClient>(())),
        "embed" => Box::new(ModelPart::<EmbedClient>(part.cast::<Codes>()?.get().codes().clone())),
        "layer" => {
            let (codes, cut): (Bound<'_, Codes>, bool) = part.extract()?;
            Box::new(ModelPart::<HeadClient>(HeadModel { codes: codes.get().codes().clone(), cut }))
        }
        "llama" => Box::new(part.cast::<LlamaModel>()?.get().part()),
        "matrix" => Box::new(ModelPart::<MatrixClient>(())),
        "model" => Box::new(ModelPart::<ModelClient>(())),
        "retrieve" => Box::new(Database::read(part)?),
        "search" => Box::new(Collection),
        "sums" => Box::new(sums::Collection::read(part)?),
        _ => {
            let needed = "classify, digits, embed, layer, llama, matrix, model, retrieve, search or sums";
            return Err(ConfigurationError::new_err(format!("connect: found kind {kind:?}, needed {needed}")));
        }
    })
}

#[pymethods]
impl Connection {
    /// Connects. `kind` and `model` are what the client brings: see [`part`].
    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "each is an argument of the Python class")]
    fn open(
        py: Python<'_>,
        service: &Service,
        application: Option<&str>,
        kind: &str,
        model: &Bound<'_, PyAny>,
        state_dir: PathBuf,
        ready: (usize, usize),
        progress: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let place = Place { service, application, state_dir: &state_dir };
        let (client, application) = part(kind, model)?.connect(py, place, ready, progress)?;
        Ok(Connection { client, application })
    }

    /// What `questions` questions will take, by name.
    #[staticmethod]
    fn cost<'py>(
        py: Python<'py>,
        service: &Service,
        application: Option<&str>,
        kind: &str,
        model: &Bound<'py, PyAny>,
        state_dir: PathBuf,
        questions: usize,
    ) -> PyResult<Bound<'py, PyDict>> {
        let place = Place { service, application, state_dir: &state_dir };
        let cost = part(kind, model)?.cost(py, place, questions)?;
        let dict = PyDict::new(py);
        dict.set_item("questions", cost.questions)?;
        dict.set_item("batch", cost.batch)?;
        dict.set_item("queries", cost.queries)?;
        dict.set_item("key_bytes", cost.key_bytes)?;
        dict.set_item("query_bytes", cost.query_bytes)?;
        dict.set_item("answer_bytes", cost.answer_bytes)?;
        Ok(dict)
    }

    /// The answers to questions; with noise of `share_bits` bits, they may be shared, and it says how certain each
    /// label is.
    fn ask<'py>(
        &mut self,
        questions: &Bound<'py, PyAny>,
        share_bits: Option<u32>,
        progress: &Bound<'py, PyAny>,
    ) -> PyResult<Answers<'py>> {
        self.client.ask(questions, share_bits, Reporter::from_argument(progress)?)
    }

    /// A query of one batch at most, to be answered later.
    fn encrypt<'py>(&mut self, questions: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        self.client.encrypt(questions)
    }

    /// The answers that `ask` returns, from the answer to a query of `encrypt` with these questions.
    fn decrypt<'py>(&mut self, questions: &Bound<'py, PyAny>, answer: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        self.client.decrypt(questions, answer)
    }

    /// Authenticates bytes, such that only this client can.
    fn tag<'py>(&self, py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.client.tag(bytes)?))
    }

    /// Begins to continue a prompt in a conversation by at most `most` tokens, which are chosen as the keyword
    /// arguments of `SamplingOptions` say. With `hide_length` its private tokens are filled up to whole chunks. Sends
    /// nothing. Returns the conversation.
    fn begin<'py>(
        &mut self,
        conversation: Bound<'py, LlamaConversation>,
        prompt: &LlamaPrompt,
        most: usize,
        hide_length: bool,
        progress: &Bound<'_, PyAny>,
        sampling: &Bound<'_, PyDict>,
    ) -> PyResult<Bound<'py, LlamaConversation>> {
        let (choices, reporter) = (Choices::read(sampling)?, Reporter::from_argument(progress)?);
        conversation.try_borrow_mut()?.begin(self.client.texts()?, prompt, (most, hide_length), choices, reporter)?;
        Ok(conversation)
    }

    /// Asks the next question of a text that is continued. Returns the text that it gave, which may be empty; `None`
    /// when nothing is left to ask.
    fn proceed(&mut self, py: Python<'_>, conversation: &mut LlamaConversation) -> PyResult<Option<String>> {
        conversation.proceed(py, self.client.texts()?)
    }

    /// What else is known of the application, by name.
    fn facts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.client.facts(py)
    }

    /// The id of the keys at the service.
    #[getter]
    fn key(&self) -> &str {
        self.client.key()
    }

    #[getter]
    fn application(&self) -> &str {
        &self.application
    }

    /// Number of questions in one query.
    #[getter]
    fn batch(&self) -> usize {
        self.client.half().batch()
    }

    /// Bytes of the longest answer to one query.
    #[getter]
    fn answer_bytes(&self) -> usize {
        let half = self.client.half();
        half.answer_bytes(half.batch())
    }

    /// Bytes and seconds so far, by name.
    #[getter]
    fn usage<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let usage = self.client.usage();
        let dict = PyDict::new(py);
        dict.set_item("messages", usage.questions)?;
        dict.set_item("key_bytes", usage.key_bytes)?;
        dict.set_item("query_bytes", usage.query_bytes)?;
        dict.set_item("answer_bytes", usage.answer_bytes)?;
        dict.set_item("key_seconds", usage.key_seconds)?;
        dict.set_item("client_seconds", usage.client_seconds)?;
        dict.set_item("server_seconds", usage.server_seconds)?;
        Ok(dict)
    }
}
