//! Private text generation: the client's half of a model, a model of a service, and generations.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use unspoken_chat::{ChatClient, PrivateGeneration, Question, SessionId};
use unspoken_client::{ClientError, Cost, Progress, ServiceClient, UsageStats};
use unspoken_llama_model::{ClientModel, InputError, Probabilities, Scored, StopStream};
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

    /// Tokens of a text that follows another.
    fn tokens(&self, py: Python<'_>, text: &str) -> PyResult<Vec<u32>> {
        Ok(py.detach(|| self.0.tokenizer().encode_continuation(text)).map_err(Failure::from)?)
    }

    /// Refuses options of `SamplingOptions` that cannot be used with this model.
    fn check_sampling(&self, sampling: &Bound<'_, PyDict>) -> PyResult<()> {
        let refused = |error: InputError| ConfigurationError::new_err(error.to_string());
        Choices::read(sampling)?.sampling.check(self.0.config().vocabulary).map_err(refused)
    }

    /// The texts of the tokens that the preparation of the model never ran.
    fn uncovered(&self, tokens: Vec<u32>) -> Vec<String> {
        self.0.uncovered(&tokens)
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

/// A text that is continued: its state between two requests.
#[pyclass(module = "unspoken._unspoken")]
pub(crate) struct LlamaGeneration {
    state: PrivateGeneration,
    stops: StopStream,
    most: usize,
    reporter: Reporter,
    query_bytes: u64,
    answer_bytes: u64,
    seconds: f64,
}

#[pymethods]
impl LlamaGeneration {
    /// What it gave and took so far, by name.
    #[getter]
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let statistics = self.state.statistics();
        let dict = PyDict::new(py);
        dict.set_item("tokens", PyTuple::new(py, self.state.tokens())?)?;
        dict.set_item("end", self.state.end().map(|end| end.to_string()))?;
        let sampling = self.state.sampler().sampling();
        dict.set_item("seed", sampling.seed)?;
        let scored = |scored: &Scored| (scored.token, scored.log_probability);
        let place = |told: &Probabilities| {
            let alternatives: Vec<_> = told.alternatives.iter().map(scored).collect();
            Ok((told.token.log_probability, PyTuple::new(py, alternatives)?))
        };
        let all = || self.state.probabilities().iter().map(place).collect::<PyResult<Vec<_>>>();
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

impl LlamaGeneration {
    /// Begins to continue public and private tokens by at most `most` tokens. Sends nothing.
    pub(crate) fn begin(
        client: &ServiceClient<ChatClient>,
        (public, private, most): (&[u32], Vec<u32>, usize),
        choices: Choices,
        reporter: Reporter,
    ) -> PyResult<Self> {
        let Choices { sampling, stops } = choices;
        let private = Zeroizing::new(private);
        let (model, description) = (client.half().model(), client.description());
        let texts = (model.prefix(), public, &**private);
        let state = SessionId::random()
            .and_then(|session| PrivateGeneration::new(description, session, texts, model.tokenizer().ends(), most))
            .and_then(|state| state.with_sampling(description, sampling))
            .map_err(|error| Failure::from(ClientError::of_application(error)))?;
        let stops = StopStream::new(stops);
        let (query_bytes, answer_bytes, seconds) = (0, 0, 0.0);
        Ok(LlamaGeneration { state, stops, most, reporter, query_bytes, answer_bytes, seconds })
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
        let Some(question) = self.state.question() else { return Ok(None) };
        let statistics = self.state.statistics();
        let note = format!("pass {}, {} of {} tokens", statistics.passes + 1, statistics.tokens, self.most);
        let (before, start) = (client.usage(), Instant::now());
        let answered = interruptible::run(py, &mut self.reporter, |report, cancel| {
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
        self.count(before, client.usage(), start);
        let Some(answer) = answered? else { return Ok(None) };
        let new = py.detach(|| self.state.answer(&answer));
        let new = new.map_err(|error| Failure::from(ClientError::of_application(error)))?;
        let known = self.state.text();
        let before = &known[..known.len() - new.len()];
        // A new stream, because one that stays would borrow the tokenizer. What it does with the text is nothing beside
        // a pass.
        let mut stream = client.half().model().tokenizer().stream(before).map_err(Failure::from)?;
        let mut text = String::new();
        let given = self.state.tokens().len() - new.len();
        for (number, token) in (1..).zip(&*new) {
            text += &self.stops.push(&stream.push(*token).map_err(Failure::from)?);
            if self.stops.is_stopped() {
                self.state.stop(given + number);
                break;
            }
        }
        if self.state.end().is_some() {
            text += &self.stops.rest();
        }
        Ok(Some(text))
    }

    /// Adds what a question took.
    fn count(&mut self, before: UsageStats, after: UsageStats, start: Instant) {
        self.query_bytes += after.query_bytes - before.query_bytes;
        self.answer_bytes += after.answer_bytes - before.answer_bytes;
        self.seconds += start.elapsed().as_secs_f64();
    }
}
