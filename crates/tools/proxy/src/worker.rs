//! The thread that asks the service. Requests are answered one after the other: a service runs one pass of a client at
//! a time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::mpsc::{Receiver, UnboundedSender};
use unspoken_chat::{Answer, ChatClient, Conversation, End, PromptTokens, Question, Wanted};
use unspoken_llama_model::{ClientModel, Probabilities, Prompt};
use unspoken_protocol::ClientHalf;

use crate::failure::Failure;
use crate::request::Asked;

/// A service that a proxy asks.
pub trait Service: Send {
    /// The client's half.
    fn half(&self) -> &ChatClient;

    /// Asks a question.
    ///
    /// # Errors
    /// What the caller of the proxy is told.
    fn ask(&mut self, question: &Question) -> Result<Answer, Failure>;

    /// Bytes of all queries and answers so far.
    fn bytes(&self) -> [u64; 2];
}

/// What left this machine for a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Served {
    /// Number of the request, from 1.
    pub number: u64,
    /// The public text, which the service read.
    pub public: String,
    /// Its tokens.
    pub public_tokens: usize,
    /// Whether it was sent, or the service had it from an earlier request.
    pub begun: bool,
    /// Passes of the service.
    pub passes: usize,
    /// Bytes of all queries, and of all answers.
    pub bytes: [u64; 2],
    /// Seconds from the first question to the last answer.
    pub seconds: f64,
    /// Generated tokens.
    pub tokens: usize,
    /// Tokens of the private text that the preparation of the model never ran.
    pub uncovered: usize,
}

/// A request, and where its answer goes.
pub(crate) struct Job {
    pub asked: Asked,
    pub events: UnboundedSender<Event>,
}

/// A part of an answer.
pub(crate) enum Event {
    /// More text of a choice, and the probabilities of its new tokens.
    Piece {
        choice: usize,
        text: String,
        probabilities: Vec<Probabilities>,
    },
    /// A choice has ended.
    Ended {
        choice: usize,
        end: Option<End>,
    },
    /// All have.
    Finished(Usage),
    Failed(Failure),
}

/// Tokens of a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub prompt: usize,
    /// Tokens of the prompt that the service had from an earlier request.
    pub cached: usize,
    pub generated: usize,
}

/// Options of the worker.
pub(crate) struct WorkerOptions {
    /// Sessions that are kept at the service.
    pub sessions: usize,
    /// Whether system messages in front are public where a request does not say so.
    pub public_system: bool,
    /// Whether private texts go as they are, so that a service can count their tokens.
    pub tell_length: bool,
}

/// Told after each request that was served.
pub(crate) type Log = Box<dyn FnMut(&Served) + Send>;

/// Answers jobs.
pub(crate) struct Worker<S> {
    service: S,
    model: Arc<ClientModel>,
    options: WorkerOptions,
    /// Those used last come last.
    conversations: Vec<Conversation>,
    log: Log,
    served: u64,
}

impl<S: Service> Worker<S> {
    pub fn new(service: S, model: Arc<ClientModel>, options: WorkerOptions, log: Log) -> Self {
        Worker { service, model, options, conversations: Vec::new(), log, served: 0 }
    }

    /// Answers until no job can come any more, and then ends the sessions.
    pub fn run(mut self, mut jobs: Receiver<Job>) {
        while let Some(job) = jobs.blocking_recv() {
            if job.events.is_closed() {
                continue;
            }
            // A panic of a library must not end the proxy.
            let answered = catch_unwind(AssertUnwindSafe(|| self.answer(&job)));
            let failed = match answered {
                Ok(answered) => answered.err(),
                Err(_) => {
                    self.conversations.clear();
                    Some(Failure::broken("the proxy failed at this request; this is a bug"))
                }
            };
            if let Some(failure) = failed {
                // Nobody listens any more.
                let _ = job.events.send(Event::Failed(failure));
            }
        }
        for conversation in &mut self.conversations {
            conversation.close();
            if let Some(question) = conversation.question() {
                // The service forgets it by itself after a while.
                let _ = self.service.ask(&question);
            }
        }
    }

    fn answer(&mut self, job: &Job) -> Result<(), Failure> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let prompt = job.asked.text.prompt(self.model.tokenizer(), self.options.public_system, now as i64)?;
        let choices = job.asked.wanted.choices(job.asked.choices)?;
        let (start, before) = (Instant::now(), self.service.bytes());
        self.served += 1;
        let mut served = Served { number: self.served, public: prompt.public.clone(), ..Served::default() };
        let mut usage = Usage::default();
        let result = choices
            .into_iter()
            .enumerate()
            .try_for_each(|(choice, wanted)| self.choice((job, choice), (&prompt, wanted), (&mut served, &mut usage)));
        let after = self.service.bytes();
        served.bytes = [after[0] - before[0], after[1] - before[1]];
        (served.seconds, served.tokens) = (start.elapsed().as_secs_f64(), usage.generated);
        (self.log)(&served);
        result?;
        let _ = job.events.send(Event::Finished(usage));
        Ok(())
    }

    /// Makes one choice.
    fn choice(
        &mut self,
        (job, choice): (&Job, usize),
        (prompt, wanted): (&Prompt, Wanted),
        (served, usage): (&mut Served, &mut Usage),
    ) -> Result<(), Failure> {
        if job.events.is_closed() {
            return Ok(());
        }
        let (mut conversation, tokens) = self.conversation(prompt)?;
        if tokens.private.is_empty() {
            self.conversations.push(conversation);
            return Err(Failure::request(None, "found no private text, needed one token or more"));
        }
        served.public_tokens = tokens.public.len();
        served.uncovered = tokens.uncovered(&self.model).len();
        let (reused, prompt) = (conversation.reused(&tokens), tokens.public.len() + tokens.private.len());
        let public = tokens.public.len();
        if let Err(error) = conversation.begin(self.service.half(), tokens, wanted) {
            // It is as before.
            self.conversations.push(conversation);
            return Err(error.into());
        }
        if choice == 0 {
            (usage.prompt, usage.cached) = (prompt, reused.map_or(0, |reused| public + reused));
        }
        let asked = ask_all(&mut self.service, &mut conversation, (choice, &job.events));
        let statistics = conversation.generation().map(|generation| generation.statistics()).unwrap_or_default();
        usage.generated += statistics.tokens;
        served.passes += statistics.passes;
        served.begun |= reused.is_none() || statistics.restarts > 0;
        // One that has failed in the middle is of no use to others.
        if conversation.end().is_some() {
            self.conversations.push(conversation);
        }
        asked
    }

    /// Takes the conversation that has most of a prompt, or another one.
    fn conversation(&mut self, prompt: &Prompt) -> Result<(Conversation, PromptTokens), Failure> {
        let chunk = if self.options.tell_length { 1 } else { self.service.half().description().chunk() };
        let mut best: Option<(usize, usize, PromptTokens)> = None;
        for (place, conversation) in self.conversations.iter().enumerate() {
            let tokens = conversation.read(prompt, chunk)?;
            let Some(reused) = conversation.reused(&tokens) else { continue };
            // Of equal ones the least recently used: another may be needed again.
            if best.as_ref().is_none_or(|(most, ..)| reused > *most) {
                best = Some((reused, place, tokens));
            }
        }
        let full = self.conversations.len() >= self.options.sessions;
        match best {
            // It saves a chunk, or there is no room for another.
            Some((reused, place, tokens)) if reused > 0 || full => Ok((self.conversations.remove(place), tokens)),
            _ if full => {
                let conversation = self.conversations.remove(0);
                let tokens = conversation.read(prompt, chunk)?;
                Ok((conversation, tokens))
            }
            _ => {
                let conversation = Conversation::new(Arc::clone(&self.model), true)?;
                let tokens = conversation.read(prompt, chunk)?;
                Ok((conversation, tokens))
            }
        }
    }
}

/// Asks until the text has ended. Stops between two passes if nobody listens any more.
fn ask_all(
    service: &mut impl Service,
    conversation: &mut Conversation,
    (choice, events): (usize, &UnboundedSender<Event>),
) -> Result<(), Failure> {
    let mut told = 0;
    while let Some(question) = conversation.question() {
        let answer = service.ask(&question)?;
        let text = conversation.answer(&answer)?;
        let known = conversation.generation().map_or(&[][..], |generation| generation.probabilities());
        let probabilities = known.get(told..).unwrap_or_default().to_vec();
        told = known.len();
        let gone = match text.is_empty() && probabilities.is_empty() {
            true => events.is_closed(),
            false => events.send(Event::Piece { choice, text, probabilities }).is_err(),
        };
        if gone {
            conversation.stop();
        }
    }
    // If nobody listens any more, nobody needs it.
    let _ = events.send(Event::Ended { choice, end: conversation.end() });
    Ok(())
}
