//! Generation: which questions to ask, and the tokens that follow from the answers.

use std::fmt;
use std::sync::Arc;

use unspoken_llama_model::{DraftTexts, Probabilities, Sampler, Sampling};
use unspoken_protocol::ProtocolError;
use unspoken_ring::SecretRng;
use unspoken_rlwe::RlweError;
use zeroize::{Zeroize, Zeroizing};

use crate::client::{Answer, Logits, Question};
use crate::description::Description;
use crate::drafts::Drafts;
use crate::error::ChatError;
use crate::session_id::SessionId;

/// Times that a generation begins its session again, at most.
const MAX_RESTARTS: usize = 3;

/// The options with a new seed, if they need one and have none. A number, so that people can write it down.
///
/// # Errors
/// If the system has no randomness.
pub fn seeded(mut sampling: Sampling) -> Result<Sampling, ChatError> {
    if sampling.is_random() && sampling.seed.is_none() {
        let mut bytes = [0; 8];
        let rng = SecretRng::from_os().map_err(RlweError::from).map_err(ProtocolError::from);
        rng?.fill(&mut bytes);
        // Numbers of JavaScript, and of much that reads JSON, have 53 bits.
        sampling.seed = Some(u64::from_le_bytes(bytes) >> 11);
    }
    Ok(sampling)
}

/// Why a generation has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The model gave a token that ends a text.
    Token,
    /// The maximum number of tokens.
    Maximum,
    /// No further chunk fits the session.
    Context,
    /// [`PrivateGeneration::stop`] was called, for instance at a string that ends the text.
    Stop,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            End::Token => "end token",
            End::Maximum => "maximum",
            End::Context => "context",
            End::Stop => "stop",
        })
    }
}

/// What a generation did so far, since [`PrivateGeneration::go_on`] if the text went on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Passes that were answered.
    pub passes: usize,
    /// Passes that gave tokens. The other passes ran full chunks of the prompt.
    pub generating: usize,
    /// Generated tokens.
    pub tokens: usize,
    /// Generated tokens that a draft had guessed, so that the same pass also gave the token after each of them.
    pub guessed: usize,
    /// Times that the session began again because the service no longer had it.
    pub restarts: usize,
}

/// A text that a service continues without seeing it: public tokens, then private ones. A generation knows no service:
/// it yields questions and takes answers, one after the other.
///
/// Private tokens are cut into chunks. A chunk is always sent full: drafts, which are guessed tokens, fill its unused
/// end. The answer has the logits of every place of the chunk. The logits at the last known token give the next token.
/// If that token equals the draft that was sent, the logits at the draft give the token after it, and so on. Then the
/// chunk is sent again with the new tokens and new drafts; a full chunk is followed by the next one. The service sees
/// the number of passes of each chunk, and when the requests end. If no guess is right, the chunk in which the private
/// text ends takes one pass for each place after that end: then the number of passes tells how many private tokens the
/// chunk has, unless the text is filled up to whole chunks ([`Conversation::read`](crate::Conversation::read)).
///
/// If the service no longer has the session, it begins again, up to three times: the public tokens are sent once more,
/// then all chunks up to the last one. After a lost connection, [`PrivateGeneration::retry`] asks for the last chunk
/// again, also at a service that has been restarted.
///
/// A session that is [kept](PrivateGeneration::kept) can go on with a longer text, or one with another end: a
/// conversation. Chunks that the service has run with the same tokens do not run again. The service sees with which
/// chunk the text goes on.
pub struct PrivateGeneration {
    session: SessionId,
    /// Prefix and public tokens, then all known private ones.
    text: Zeroizing<Vec<u32>>,
    public: Vec<u32>,
    /// Where private and generated tokens begin in the text.
    private: usize,
    generated: usize,
    chunk_tokens: usize,
    chunks: usize,
    ends: Vec<u32>,
    most: usize,
    /// Private tokens that the service has run, guesses among them, chunk by chunk.
    run: Zeroizing<Vec<u32>>,
    /// Whether the session stays when a text has ended.
    kept: bool,
    sampler: Sampler,
    /// Texts of the model, for drafts.
    draft_texts: Option<Arc<DraftTexts>>,
    /// Log-probabilities of the generated tokens, if they are told.
    probabilities: Vec<Probabilities>,
    state: State,
    statistics: Statistics,
}

enum State {
    Begin,
    /// The chunk to run.
    Pass(u32),
    /// The chunk that was sent, and its tokens.
    Sent(u32, Zeroizing<Vec<u32>>),
    /// The text has ended, and the session stays.
    Idle(End),
    Close(End),
    Closed(End),
}

impl PrivateGeneration {
    /// Continues public and private tokens at a service by at most `most` tokens. `prefix` are the tokens that the
    /// service puts in front, for drafts; `ends` end a text.
    ///
    /// # Errors
    /// If there is no private token, the tokens do not fit a session, or the model is not prepared for so few public
    /// ones.
    pub fn new(
        description: &Description,
        session: SessionId,
        (prefix, public, private): (&[u32], &[u32], &[u32]),
        ends: &[u32],
        most: usize,
    ) -> Result<Self, ChatError> {
        description.check_public_tokens(public.len())?;
        check_vocabulary(description, public)?;
        check_private(description, public.len(), private)?;
        let chunk_tokens = description.chunk();
        let chunks = description.chunks_after(description.prefix() + public.len());
        // Room for all tokens that may come, so that no copy stays in memory when the text grows.
        let mut text = Zeroizing::new(Vec::with_capacity(prefix.len() + public.len() + chunks * chunk_tokens + 1));
        [prefix, public].into_iter().for_each(|part| text.extend_from_slice(part));
        let begin = text.len();
        text.extend_from_slice(private);
        Ok(PrivateGeneration {
            session,
            private: begin,
            generated: text.len(),
            text,
            public: public.to_vec(),
            chunk_tokens,
            chunks,
            ends: ends.to_vec(),
            most,
            run: Zeroizing::new(Vec::with_capacity(chunks * chunk_tokens)),
            kept: false,
            sampler: Sampler::greedy(),
            draft_texts: None,
            probabilities: Vec::new(),
            state: if most == 0 { State::Closed(End::Maximum) } else { State::Begin },
            statistics: Statistics::default(),
        })
    }

    /// Guesses from texts of the model as well ([`ClientModel::draft_texts`](unspoken_llama_model::ClientModel)). This
    /// changes nothing but the number of passes.
    pub fn with_draft_texts(self, texts: Option<Arc<DraftTexts>>) -> Self {
        PrivateGeneration { draft_texts: texts, ..self }
    }

    /// Chooses tokens as these options say, in place of the most likely ones. Options without a seed get a new one if
    /// they need it: [`PrivateGeneration::sampler`] has it. Before the first question.
    ///
    /// Drafts change nothing but the number of passes: with the same logits the tokens are those that a service would
    /// give which runs one token in each pass.
    ///
    /// # Errors
    /// If an option is out of range, or the system has no randomness.
    pub fn with_sampling(self, description: &Description, sampling: Sampling) -> Result<Self, ChatError> {
        let sampler = self.new_sampler(description, sampling, &self.text[self.private..])?;
        Ok(PrivateGeneration { sampler, ..self })
    }

    fn new_sampler(
        &self,
        description: &Description,
        sampling: Sampling,
        private: &[u32],
    ) -> Result<Sampler, ChatError> {
        // The service's prefix is no part of the prompt.
        let mut prompt = Zeroizing::new(Vec::with_capacity(self.public.len() + private.len()));
        [&self.public, private].into_iter().for_each(|part| prompt.extend_from_slice(part));
        Ok(Sampler::new(seeded(sampling)?, description.vocabulary(), &prompt)?)
    }

    /// Keeps the session when the text has ended, so that [`PrivateGeneration::go_on`] can go on from it, until
    /// [`PrivateGeneration::close`]. Before the first question.
    pub fn kept(self) -> Self {
        PrivateGeneration { kept: true, ..self }
    }

    /// Continues another text with the same public tokens by at most `most` tokens. `private` are all of its private
    /// tokens. The first chunk that differs from what the service has run, or that is not among the first `reused`
    /// tokens, is the first one that it runs now.
    ///
    /// # Errors
    /// As for [`PrivateGeneration::new`] and [`PrivateGeneration::with_sampling`], and if the last text has not ended,
    /// or its session is not kept. Nothing changes then.
    pub fn go_on(
        &mut self,
        description: &Description,
        (private, reused): (&[u32], usize),
        most: usize,
        sampling: Sampling,
    ) -> Result<(), ChatError> {
        if !matches!(self.state, State::Idle(_)) {
            let needed = "one at its end, in a session that is kept";
            return Err(ChatError::mismatch("next text", "a text that has not ended, or was closed", needed));
        }
        check_private(description, self.public.len(), private)?;
        self.sampler = self.new_sampler(description, sampling, private)?;
        let first = self.reused(private, reused) / self.chunk_tokens;
        self.text[self.private..].zeroize();
        self.text.truncate(self.private);
        self.text.extend_from_slice(private);
        self.generated = self.text.len();
        self.most = most;
        self.probabilities.clear();
        self.statistics = Statistics::default();
        self.state = if most == 0 { State::Idle(End::Maximum) } else { State::Pass(first as u32) };
        Ok(())
    }

    /// The number of tokens at the begin of a private text that need not run again, in whole chunks and at most `most`.
    pub fn reused(&self, private: &[u32], most: usize) -> usize {
        let same = self.run.iter().zip(private).take_while(|(run, new)| run == new).count();
        // A chunk has to run for the logits after its last known token.
        same.min(most).min(private.len().saturating_sub(1)) / self.chunk_tokens * self.chunk_tokens
    }

    /// All private tokens: those of the prompt, and the generated ones.
    pub fn private(&self) -> &[u32] {
        &self.text[self.private..]
    }

    /// The private tokens of the prompt.
    pub fn prompt(&self) -> &[u32] {
        &self.text[self.private..self.generated]
    }

    /// The public tokens.
    pub fn public(&self) -> &[u32] {
        &self.public
    }

    /// Whether the text has ended and its session is kept, so that another can go on from it.
    pub fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle(_))
    }

    /// Ends a session that was kept: the next question does it.
    pub fn close(&mut self) {
        if let State::Idle(end) = self.state {
            self.state = State::Close(end);
        }
    }

    /// What chooses the tokens, as it is now. Before the first question it chooses the same tokens of a model in the
    /// clear, up to the error of the encryption.
    pub fn sampler(&self) -> &Sampler {
        &self.sampler
    }

    /// Ends the generation after a number of its tokens, and forgets the others. The next question ends the session.
    /// Nothing changes if it has fewer tokens, while the answer to a pass is outstanding, and after the session has
    /// ended. For texts that end at a string: when the client no longer asks depends on the text then, as it does at a
    /// token that ends a text.
    pub fn stop(&mut self, tokens: usize) {
        if tokens > self.tokens().len() || matches!(self.state, State::Sent(..) | State::Closed(_)) {
            return;
        }
        self.text[self.generated + tokens..].zeroize();
        self.text.truncate(self.generated + tokens);
        self.probabilities.truncate(tokens);
        self.statistics.tokens = tokens;
        self.statistics.guessed = self.statistics.guessed.min(tokens);
        self.state = self.ended(End::Stop);
    }

    fn ended(&self, end: End) -> State {
        if self.kept { State::Idle(end) } else { State::Close(end) }
    }

    /// The next question; `None` when the generation has ended, and while an answer is outstanding.
    pub fn question(&mut self) -> Option<Question> {
        let session = self.session;
        match self.state {
            State::Begin => Some(Question::Begin { session, public: self.public.clone() }),
            State::Pass(chunk) => {
                let first = self.private + chunk as usize * self.chunk_tokens;
                let known = &self.text[first..self.text.len().min(first + self.chunk_tokens)];
                let mut tokens = Zeroizing::new(Vec::with_capacity(self.chunk_tokens));
                tokens.extend_from_slice(known);
                let missing = self.chunk_tokens - known.len();
                if missing > 0 {
                    tokens.extend_from_slice(&Drafts::guess(&self.text, missing, self.draft_texts.as_deref()));
                }
                self.state = State::Sent(chunk, tokens.clone());
                Some(Question::Pass { session, chunk, tokens })
            }
            State::Close(_) => Some(Question::End { session }),
            State::Sent(..) | State::Idle(_) | State::Closed(_) => None,
        }
    }

    /// Asks the question of a pass once more, for instance after a failure that passes. The text stays.
    pub fn retry(&mut self) {
        if let State::Sent(chunk, _) = self.state {
            // Nobody knows which tokens the service has in this chunk now.
            self.run.truncate(chunk as usize * self.chunk_tokens);
            self.state = State::Pass(chunk);
        }
    }

    /// Takes the answer to the last question. Returns the new tokens.
    ///
    /// # Errors
    /// If it answers another question, or the service has lost the session too often. The question is outstanding as
    /// before.
    pub fn answer(&mut self, answer: &Answer) -> Result<Zeroizing<Vec<u32>>, ChatError> {
        let none = || Zeroizing::new(Vec::new());
        // What is refused changes no state.
        match (&self.state, answer) {
            (State::Begin, Answer::Begun { .. }) => {
                self.state = State::Pass(0);
                Ok(none())
            }
            (State::Sent(chunk, tokens), Answer::Passed(logits)) => {
                if logits.len() != self.chunk_tokens {
                    let needed = format!("{}", self.chunk_tokens);
                    return Err(ChatError::mismatch("answer", format!("logits of {} tokens", logits.len()), needed));
                }
                self.statistics.passes += 1;
                let (chunk, tokens) = (*chunk, tokens.clone());
                self.run.truncate(chunk as usize * self.chunk_tokens);
                self.run.extend_from_slice(&tokens);
                self.passed(chunk, &tokens, logits)
            }
            (State::Sent(..), Answer::Unknown) if self.statistics.restarts == MAX_RESTARTS => {
                let found = format!("a service that has lost it {} times", MAX_RESTARTS + 1);
                let needed = "one that keeps it; its owner can allow more sessions, or a longer age";
                Err(ChatError::session(found, needed))
            }
            (State::Sent(..), Answer::Unknown) => {
                self.statistics.restarts += 1;
                self.run.clear();
                self.state = State::Begin;
                Ok(none())
            }
            (State::Close(end), Answer::Ended) => {
                self.state = State::Closed(*end);
                Ok(none())
            }
            _ => Err(ChatError::mismatch("answer", "one of another kind", "the answer to the last question")),
        }
    }

    /// The new tokens, from the logits after each token of a chunk.
    fn passed(&mut self, chunk: u32, sent: &[u32], logits: &Logits) -> Result<Zeroizing<Vec<u32>>, ChatError> {
        let mut new = Zeroizing::new(Vec::with_capacity(self.chunk_tokens));
        let first = self.private + chunk as usize * self.chunk_tokens;
        let behind = first + self.chunk_tokens;
        if self.text.len() > behind {
            // A full chunk of the prompt.
            self.state = State::Pass(chunk + 1);
            return Ok(new);
        }
        self.statistics.generating += 1;
        let mut place = self.text.len() - 1 - first;
        let (mut end, mut choices) = (None, 0);
        let places = self.chunk_tokens - place;
        loop {
            let row = logits.row(place);
            let row = row.ok_or_else(|| ChatError::mismatch("answer", "too few logits", "those of a whole chunk"))?;
            let chosen = self.sampler.choose(row);
            let next = chosen.token;
            choices += 1;
            if self.ends.contains(&next) {
                end = Some(End::Token);
                break;
            }
            self.text.push(next);
            self.probabilities.extend(chosen.probabilities);
            new.push(next);
            self.statistics.tokens += 1;
            if self.statistics.tokens == self.most {
                end = Some(End::Maximum);
                break;
            }
            place += 1;
            if sent.get(place) != Some(&next) {
                break;
            }
            self.statistics.guessed += 1;
        }
        // Each place of the chunk costs a choice, so that the time does not tell how many guesses were right.
        let mut spare = self.sampler.clone();
        (choices..places).filter_map(|place| logits.row(place)).for_each(|row| drop(spare.choose(row)));
        let chunk = if self.text.len() > behind { chunk + 1 } else { chunk };
        self.state = match end {
            Some(end) => self.ended(end),
            None if chunk as usize >= self.chunks => self.ended(End::Context),
            None => State::Pass(chunk),
        };
        Ok(new)
    }

    /// Why it has ended, if it has: all tokens are known then, though the session may still be open.
    pub fn end(&self) -> Option<End> {
        match self.state {
            State::Idle(end) | State::Close(end) | State::Closed(end) => Some(end),
            _ => None,
        }
    }

    /// The generated tokens.
    pub fn tokens(&self) -> &[u32] {
        &self.text[self.generated..]
    }

    /// Log-probabilities of each generated token and of others in its place; none if they were not asked for. They
    /// contain the noise of the encryption, which depends on the secret key: they are for the holder of the key.
    pub fn probabilities(&self) -> &[Probabilities] {
        &self.probabilities
    }

    /// All known tokens: prefix, public, private and generated ones.
    pub fn text(&self) -> &[u32] {
        &self.text
    }

    /// What it did so far.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }
}

/// Checks private tokens: one or more, of the vocabulary, and not more than a session has room for.
fn check_private(description: &Description, public: usize, private: &[u32]) -> Result<(), ChatError> {
    if private.is_empty() {
        let needed = "one or more; the answer to a pass follows private tokens";
        return Err(ChatError::mismatch("private text", "no tokens", needed));
    }
    check_vocabulary(description, private)?;
    let (before, chunk) = (description.prefix() + public, description.chunk());
    let chunks = description.chunks_after(before);
    if private.len() > chunks * chunk {
        let needed = format!(
            "at most {} after a prefix and public text of {before}: {chunks} chunks of {chunk} in a context of {}; \
             shorten the text",
            chunks * chunk,
            description.context()
        );
        return Err(ChatError::mismatch("private text", format!("{} tokens", private.len()), needed));
    }
    Ok(())
}

fn check_vocabulary(description: &Description, tokens: &[u32]) -> Result<(), ChatError> {
    let vocabulary = description.vocabulary();
    if tokens.iter().any(|token| *token as usize >= vocabulary) {
        let needed = format!("ids below {vocabulary}; use the tokenizer of this model");
        return Err(ChatError::mismatch("text", "a token outside the vocabulary", needed));
    }
    Ok(())
}
