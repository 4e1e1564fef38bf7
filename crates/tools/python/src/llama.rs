//! Private text generation: the client's half of a model, a model of a service, and generations.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use unspoken_chat::{ChatClient, ChatError, Conversation, Passages, PrivateGeneration, PromptTokens, Question, Wanted};
use unspoken_client::{ClientError, Cost, Progress, ServiceClient, UsageStats};
use unspoken_llama_model::{ClientModel, InputError, Message, Probabilities, Prompt, Rendering, Scored};
use unspoken_protocol::AnyHalf;
use zeroize::Zeroizing;

use crate::connections::{Answers, Client, Part, Place};
use crate::failure::{ConfigurationError, Failure};
use crate::interruptible;
use crate::progress::{Event, Reporter};
use crate::sampling::Choices;

/// The client's half of a model: its embedding and its tokenizer.
#[pyclass(frozen, module = "unspoken._unspoken")]
pub(crate) struct LlamaModel(Arc<ClientModel>);

#[pymethods]
impl LlamaModel {
    #[staticmethod]
    fn load(py: Python<'_>, directory: PathBuf) -> PyResult<Self> {
        Ok(LlamaModel(Arc::new(py.detach(|| ClientModel::load(&directory)).map_err(Failure::from)?)))
    }

    /// A text to continue: its public part, and the private one.
    #[staticmethod]
    fn text(public: String, private: String) -> LlamaPrompt {
        LlamaPrompt(Prompt { public, private: Zeroizing::new(private) }, Passages::default())
    }

    /// The text of messages, each a role and a content, of which the first `public` are public.
    fn messages(
        &self,
        py: Python<'_>,
        messages: Vec<(String, String)>,
        public: usize,
        unix_seconds: i64,
    ) -> PyResult<LlamaPrompt> {
        let messages: Vec<Message> = messages.into_iter().map(|(role, content)| Message { role, content }).collect();
        let rendering = Rendering { unix_seconds, ..Rendering::default() };
        let prompt = py.detach(|| self.0.tokenizer().prompt(&messages, public, &rendering));
        Ok(LlamaPrompt(prompt.map_err(configuration)?, Passages::default()))
    }

    /// A question with passages in front that take `tokens` tokens. With a template of conversations it is a message,
    /// and `public` a system message if it is not empty; else it is a text after `public`.
    fn question(
        &self,
        py: Python<'_>,
        question: &str,
        found: Vec<String>,
        tokens: usize,
        public: String,
        unix_seconds: i64,
    ) -> PyResult<LlamaPrompt> {
        let mut passages = Passages::new(tokens).map_err(configuration)?;
        let tokenizer = self.0.tokenizer();
        let content = py.detach(|| passages.ask(tokenizer, question, &found)).map_err(configuration)?;
        if tokenizer.chat_template().is_none() {
            let private = Passages::without_template(&content);
            return Ok(LlamaPrompt(Prompt { public, private }, passages));
        }
        let system = (!public.is_empty()).then(|| Message::new("system", public));
        let count = system.iter().len();
        let messages: Vec<Message> = system.into_iter().chain([Message::new("user", content.as_str())]).collect();
        let rendering = Rendering { unix_seconds, ..Rendering::default() };
        let prompt = py.detach(|| tokenizer.prompt(&messages, count, &rendering)).map_err(configuration)?;
        Ok(LlamaPrompt(prompt, passages))
    }

    /// The public and the private tokens of a prompt, and the texts of those that the preparation of the model never
    /// ran.
    fn read(&self, py: Python<'_>, prompt: &LlamaPrompt) -> PyResult<(Vec<u32>, Vec<u32>, Vec<String>)> {
        let model = (self.0.tokenizer(), self.0.prefix());
        let tokens = py.detach(|| PromptTokens::with_passages(model, &prompt.0, &prompt.1, 1)).map_err(refused)?;
        Ok((tokens.public.clone(), tokens.private.to_vec(), tokens.uncovered(&self.0)))
    }

    /// A conversation with this model. With `kept` its session stays at the service when a text has ended.
    fn conversation(&self, kept: bool) -> PyResult<LlamaConversation> {
        let state = Conversation::new(Arc::clone(&self.0), kept);
        let state = state.map_err(|error| Failure::from(ClientError::of_application(error)))?;
        Ok(LlamaConversation { state, most: 0, reporter: None, query_bytes: 0, answer_bytes: 0, seconds: 0.0 })
    }

    /// Refuses options of `SamplingOptions` that cannot be used with this model.
    fn check_sampling(&self, sampling: &Bound<'_, PyDict>) -> PyResult<()> {
        let refused = |error: InputError| ConfigurationError::new_err(error.to_string());
        Choices::read(sampling)?.sampling.check(self.0.config().vocabulary).map_err(refused)
    }

    #[getter]
    fn id(&self) -> String {
        self.0.id().to_string()
    }
}

impl LlamaModel {
    /// What a client brings to the model of a service.
    pub(crate) fn part(&self) -> LlamaPart {
        LlamaPart(Arc::clone(&self.0))
    }
}

/// A text to continue, and the passages in it.
#[pyclass(frozen, module = "unspoken._unspoken")]
pub(crate) struct LlamaPrompt(Prompt, Passages);

/// A text that is continued, or several in turn: their state between two requests.
#[pyclass(module = "unspoken._unspoken")]
pub(crate) struct LlamaConversation {
    state: Conversation,
    most: usize,
    reporter: Option<Reporter>,
    query_bytes: u64,
    answer_bytes: u64,
    seconds: f64,
}

#[pymethods]
impl LlamaConversation {
    /// Whether another text may begin.
    #[getter]
    fn idle(&self) -> bool {
        self.state.generation().is_none() || self.state.end().is_some()
    }

    /// Ends a session that was kept: the next question does it.
    fn close(&mut self) {
        self.state.close();
    }

    /// What it gave and took so far, by name.
    #[getter]
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        let Some(generation) = self.state.generation() else { return Ok(dict) };
        let (statistics, sampling) = (generation.statistics(), generation.sampler().sampling());
        dict.set_item("tokens", PyTuple::new(py, generation.tokens())?)?;
        dict.set_item("end", generation.end().map(|end| end.to_string()))?;
        dict.set_item("seed", sampling.seed)?;
        let scored = |scored: &Scored| (scored.token, scored.log_probability);
        let place = |told: &Probabilities| {
            let alternatives: Vec<_> = told.alternatives.iter().map(scored).collect();
            Ok((told.token.log_probability, PyTuple::new(py, alternatives)?))
        };
        let all = || generation.probabilities().iter().map(place).collect::<PyResult<Vec<_>>>();
        let probabilities = sampling.log_probabilities.map(|_| PyTuple::new(py, all()?)).transpose()?;
        dict.set_item("logprobs", probabilities)?;
        dict.set_item("passes", statistics.passes)?;
        dict.set_item("tokens_per_pass", statistics.tokens as f64 / statistics.generating.max(1) as f64)?;
        dict.set_item("guessed", statistics.guessed)?;
        dict.set_item("seconds", self.seconds)?;
        dict.set_item("query_bytes", self.query_bytes)?;
        dict.set_item("answer_bytes", self.answer_bytes)?;
        Ok(dict)
    }
}

/// The client's part of a language model.
pub(crate) struct LlamaPart(Arc<ClientModel>);

impl Part for LlamaPart {
    fn connect(
        self: Box<Self>,
        py: Python<'_>,
        place: Place<'_>,
        _: (usize, usize),
        progress: &Bound<'_, PyAny>,
    ) -> PyResult<(Box<dyn Client>, String)> {
        let (client, application) = place.connect::<ChatClient>(py, progress, |_| self.0, |_| Ok(()))?;
        Ok((Box::new(client), application))
    }

    fn cost(self: Box<Self>, py: Python<'_>, place: Place<'_>, questions: usize) -> PyResult<Cost> {
        place.cost::<ChatClient>(py, questions, |_| self.0)
    }
}

/// Texts are begun and then continued pass by pass, in place of single questions.
impl Client for ServiceClient<ChatClient> {
    fn half(&self) -> &dyn AnyHalf {
        self.half()
    }

    fn key(&self) -> &str {
        self.key().as_str()
    }

    fn usage(&self) -> UsageStats {
        self.usage()
    }

    fn facts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        Ok(PyDict::new(py))
    }

    fn ask<'py>(&mut self, _: &Bound<'py, PyAny>, _: Option<u32>, _: Reporter) -> PyResult<Answers<'py>> {
        Err(self.unable("single questions"))
    }

    fn texts(&mut self) -> PyResult<&mut ServiceClient<ChatClient>> {
        Ok(self)
    }
}

fn configuration(error: impl std::fmt::Display) -> PyErr {
    ConfigurationError::new_err(error.to_string())
}

fn refused(error: ChatError) -> Failure {
    Failure::from(ClientError::of_application(error))
}

impl LlamaConversation {
    /// Begins to continue a prompt by at most `most` tokens, filled up to whole chunks if its length is to be hidden.
    /// Sends nothing.
    pub(crate) fn begin(
        &mut self,
        client: &ServiceClient<ChatClient>,
        prompt: &LlamaPrompt,
        (most, hide_length): (usize, bool),
        choices: Choices,
        reporter: Reporter,
    ) -> PyResult<()> {
        let Choices { sampling, stops } = choices;
        let wanted = Wanted { tokens: most, sampling, stops };
        let chunk = if hide_length { client.description().chunk() } else { 1 };
        let tokens = self.state.read_with(&prompt.0, &prompt.1, chunk).map_err(refused)?;
        self.state.begin(client.half(), tokens, wanted).map_err(refused)?;
        (self.most, self.reporter) = (most, Some(reporter));
        (self.query_bytes, self.answer_bytes, self.seconds) = (0, 0, 0.0);
        Ok(())
    }

    /// Asks the next question. Returns the text that it gave, which may be empty; `None` when nothing is left to ask.
    /// After an error the same question can be asked again, but not after an answer whose content was refused: then
    /// this client asks nothing more.
    pub(crate) fn proceed(
        &mut self,
        py: Python<'_>,
        client: &mut ServiceClient<ChatClient>,
    ) -> PyResult<Option<String>> {
        // All tokens are known when only the session remains to be ended.
        let ended = self.state.end().is_some();
        // After an error the last question is outstanding.
        self.state.retry();
        let (Some(question), Some(reporter)) = (self.state.question(), &mut self.reporter) else { return Ok(None) };
        let statistics = self.state.generation().map(PrivateGeneration::statistics).unwrap_or_default();
        let note = format!("pass {}, {} of {} tokens", statistics.passes + 1, statistics.tokens, self.most);
        let (before, start) = (client.usage(), Instant::now());
        let answered = interruptible::run(py, reporter, |report, cancel| {
            let first_pass = matches!(question, Question::Pass { .. }) && statistics.passes == 0;
            let mut report = |step: Progress| match step {
                // The cost of each pass is the same.
                Progress::QueriesToSend(_) if !first_pass => {}
                // One question at a time: its number tells nothing.
                Progress::Asking { .. } => {}
                Progress::Answering { .. } => report(Event::from(step).with_note(&note)),
                step => report(step.into()),
            };
            match client.ask(&[&question], &mut report, cancel) {
                Err(_) if ended => Ok(None),
                answers => Ok::<_, Failure>(answers?.into_iter().next()),
            }
        });
        let taken = client.usage().since(before);
        self.query_bytes += taken.query_bytes;
        self.answer_bytes += taken.answer_bytes;
        self.seconds += start.elapsed().as_secs_f64();
        let Some(answer) = answered? else { return Ok(None) };
        Ok(Some(py.detach(|| self.state.answer(&answer)).map_err(refused)?))
    }
}
