//! Conversations: text in, text out, on top of generations of tokens.

use std::fmt;
use std::sync::Arc;

use unspoken_llama_model::{ClientModel, Prompt, Sampling, StopStream, Tokenizer};
use unspoken_protocol::ClientHalf;
use zeroize::Zeroizing;

use crate::client::{Answer, ChatClient, Question};
use crate::error::ChatError;
use crate::generation::{End, PrivateGeneration, seeded};
use crate::passages::Passages;
use crate::session_id::SessionId;

/// How a text is continued.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Tokens, at most.
    pub tokens: usize,
    /// How they are chosen.
    pub sampling: Sampling,
    /// Strings before which the text ends.
    pub stops: Vec<String>,
}

impl Wanted {
    /// The same for each of several choices. Every choice has a seed of its own: that of the first one, which is new if
    /// there is none, and the numbers after it.
    ///
    /// # Errors
    /// If the system has no randomness.
    pub fn choices(&self, number: usize) -> Result<Vec<Self>, ChatError> {
        let sampling = seeded(self.sampling.clone())?;
        let choice = |choice: usize| {
            let seed = sampling.seed.map(|seed| seed.wrapping_add(choice as u64));
            Wanted { sampling: Sampling { seed, ..sampling.clone() }, ..self.clone() }
        };
        Ok((0..number).map(choice).collect())
    }
}

/// The tokens of a prompt.
#[derive(Clone, Default)]
pub struct PromptTokens {
    /// Those that the service sees.
    pub public: Vec<u32>,
    /// Those that it must not see.
    pub private: Zeroizing<Vec<u32>>,
    text: Zeroizing<String>,
    /// Marks of the conversation that are kept.
    marks: usize,
    /// Private tokens in front of those that fill the text up; `None` if it is not filled up.
    filled: Option<usize>,
    /// Whether it has passages.
    searched: bool,
}

/// Does not print private tokens.
impl fmt::Debug for PromptTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PromptTokens({} public, ..)", self.public.len())
    }
}

impl PromptTokens {
    /// The tokens of a prompt that no conversation has gone on to, as [`Conversation::read`] of a new one.
    ///
    /// # Errors
    /// If the tokenizer refuses the text.
    pub fn of(model: &ClientModel, prompt: &Prompt, chunk: usize) -> Result<Self, ChatError> {
        Self::with_passages((model.tokenizer(), model.prefix()), prompt, &Passages::default(), chunk)
    }

    /// As [`PromptTokens::of`] for a prompt with passages, from a tokenizer and the prefix of a model.
    ///
    /// # Errors
    /// As for [`PromptTokens::of`].
    pub fn with_passages(
        model: (&Tokenizer, &[u32]),
        prompt: &Prompt,
        passages: &Passages,
        chunk: usize,
    ) -> Result<Self, ChatError> {
        Self::after(model, prompt, passages, chunk, (0, 0, &[]))
    }

    /// The tokens of a prompt of which the first `bytes` private bytes, up to the last of `marks` marks, are `known`.
    fn after(
        (tokenizer, prefix): (&Tokenizer, &[u32]),
        prompt: &Prompt,
        passages: &Passages,
        chunk: usize,
        (marks, bytes, known): (usize, usize, &[u32]),
    ) -> Result<Self, ChatError> {
        let mut public = tokenizer.encode_continuation(&prompt.public)?;
        let (mut rest, missing) = passages.encode(tokenizer, &prompt.private, bytes)?;
        // The prefix of the service has it already.
        let begin = tokenizer.begin().filter(|begin| prefix.first() == Some(begin));
        let first = if public.is_empty() && known.is_empty() { &mut *rest } else { &mut public };
        if begin.is_some() && first.first().copied() == begin {
            first.remove(0);
        }
        let length = known.len() + rest.len();
        let filled = (length + missing).next_multiple_of(chunk.max(1));
        let mut private = Zeroizing::new(Vec::with_capacity(filled));
        private.extend_from_slice(known);
        private.resize(known.len() + filled - length, tokenizer.filler());
        private.extend_from_slice(&rest);
        let searched = passages.is_used();
        let filled = (chunk > 1 || searched).then_some(known.len());
        Ok(PromptTokens { public, private, text: prompt.private.clone(), marks, filled, searched })
    }

    /// The texts of the tokens that the preparation of a model never ran.
    pub fn uncovered(&self, model: &ClientModel) -> Vec<String> {
        model.uncovered(&Zeroizing::new([self.public.as_slice(), &self.private].concat()))
    }
}

/// A text that a service continues without seeing its private part, or several in turn: a conversation. A
/// [`PrivateGeneration`] with the text of its tokens. It knows no service: it yields questions and takes answers.
///
/// Texts of a conversation are in one session. What the service has run of an earlier text does not run again, as
/// long as the public part is the same.
pub struct Conversation {
    model: Arc<ClientModel>,
    session: SessionId,
    kept: bool,
    generation: Option<PrivateGeneration>,
    stops: StopStream,
    /// The private text, with the generated one.
    text: Zeroizing<String>,
    /// Private bytes and tokens up to the end of each generated text. The next prompt has the same tokens there, also
    /// where its text could be cut otherwise.
    marks: Vec<(usize, usize)>,
    /// Bytes of the last prompt's private text.
    prompt: usize,
    /// Bytes of the text after each token of the last generated text, and those of it that were given out.
    ends: Vec<usize>,
    given: usize,
}

impl Conversation {
    /// A conversation with a model. With `kept`, the session stays when a text has ended, until
    /// [`Conversation::close`].
    ///
    /// # Errors
    /// If the system has no randomness.
    pub fn new(model: Arc<ClientModel>, kept: bool) -> Result<Self, ChatError> {
        Ok(Conversation {
            model,
            session: SessionId::random()?,
            kept,
            generation: None,
            stops: StopStream::new([]),
            text: Zeroizing::default(),
            marks: Vec::new(),
            prompt: 0,
            ends: Vec::new(),
            given: 0,
        })
    }

    /// The tokens of a prompt. Where it begins as this conversation has gone so far, they are the same. Private tokens
    /// are filled up to whole chunks of `chunk` tokens with dots, before what is new: then a service learns the
    /// number of chunks, and not that of the tokens. A chunk of 1 token changes nothing.
    ///
    /// # Errors
    /// If the tokenizer refuses the text.
    pub fn read(&self, prompt: &Prompt, chunk: usize) -> Result<PromptTokens, ChatError> {
        self.read_with(prompt, &Passages::default(), chunk)
    }

    /// As [`Conversation::read`], for a prompt with passages. These take their number of tokens, whatever they are:
    /// dots fill them up, also where a chunk has 1 token.
    ///
    /// # Errors
    /// As for [`Conversation::read`].
    pub fn read_with(&self, prompt: &Prompt, passages: &Passages, chunk: usize) -> Result<PromptTokens, ChatError> {
        let text = prompt.private.as_bytes();
        let same = |(bytes, _): &(usize, usize)| text.starts_with(&self.text.as_bytes()[..*bytes]);
        let marks = self.marks.iter().rposition(same).map_or(0, |place| place + 1);
        let (bytes, tokens) = self.marks[..marks].last().copied().unwrap_or_default();
        let known = self.generation.as_ref().map_or(&[][..], PrivateGeneration::private);
        let model = (self.model.tokenizer(), self.model.prefix());
        PromptTokens::after(model, prompt, passages, chunk, (marks, bytes, &known[..tokens]))
    }

    /// The number of a prompt's private tokens that the service need not run again, in whole chunks. `None` if a text
    /// has not ended, its session is not kept, or the public part is another one, so that all runs again.
    pub fn reused(&self, prompt: &PromptTokens) -> Option<usize> {
        let generation = self.generation.as_ref()?;
        let same = generation.is_idle() && generation.public() == prompt.public;
        same.then(|| generation.reused(&prompt.private, self.most_reused(generation, prompt)))
    }

    /// The tokens of a prompt of which chunks may be used again. What follows the fillers runs again even if it is the
    /// same: whether it is can depend on the lengths of two texts. Only an answer that is made again has the same ones,
    /// and with passages not even that: whether they are the same depends on what was found.
    fn most_reused(&self, generation: &PrivateGeneration, prompt: &PromptTokens) -> usize {
        match prompt.filled {
            Some(filled) if prompt.searched || *prompt.private != *generation.prompt() => filled,
            _ => prompt.private.len(),
        }
    }

    /// Begins to continue a prompt.
    ///
    /// # Errors
    /// As for [`PrivateGeneration::new`] and [`PrivateGeneration::with_sampling`]. The conversation stays as it was.
    pub fn begin(&mut self, client: &ChatClient, prompt: PromptTokens, wanted: Wanted) -> Result<(), ChatError> {
        let Wanted { tokens, sampling, stops } = wanted;
        let description = client.description();
        let most = self.generation.as_ref().map_or(0, |generation| self.most_reused(generation, &prompt));
        match &mut self.generation {
            Some(generation) if generation.is_idle() && generation.public() == prompt.public => {
                generation.go_on(description, (&prompt.private, most), tokens, sampling)?;
            }
            // A session with the same id takes the place of the earlier one.
            generation => {
                let texts = (self.model.prefix(), prompt.public.as_slice(), prompt.private.as_slice());
                let ends = self.model.tokenizer().ends();
                let new = PrivateGeneration::new(description, self.session, texts, ends, tokens)?;
                let new = new.with_draft_texts(self.model.draft_texts().cloned());
                let new = new.with_sampling(description, sampling)?;
                *generation = Some(if self.kept { new.kept() } else { new });
            }
        }
        self.prompt = prompt.text.len();
        self.stops = StopStream::new(stops);
        self.marks.truncate(prompt.marks);
        (self.text, self.given) = (prompt.text, self.prompt);
        self.ends.clear();
        Ok(())
    }

    /// The generation that is going on, or that has ended last.
    pub fn generation(&self) -> Option<&PrivateGeneration> {
        self.generation.as_ref()
    }

    /// Why the text has ended, if it has: all of it is known then, though the session may still be open.
    pub fn end(&self) -> Option<End> {
        self.generation.as_ref()?.end()
    }

    /// The next question; `None` when nothing is left to ask, and while an answer is outstanding.
    pub fn question(&mut self) -> Option<Question> {
        self.generation.as_mut()?.question()
    }

    /// Asks the question of a pass once more, for instance after a failure that passes.
    pub fn retry(&mut self) {
        self.generation.iter_mut().for_each(PrivateGeneration::retry);
    }

    /// Takes the answer to the last question. Returns the text that it gives, which may be empty.
    ///
    /// # Errors
    /// As for [`PrivateGeneration::answer`], and if the tokenizer does not have a token.
    pub fn answer(&mut self, answer: &Answer) -> Result<String, ChatError> {
        let Some(generation) = &mut self.generation else {
            return Err(ChatError::mismatch("answer", "one before a question", "the answer to the last question"));
        };
        let new = generation.answer(answer)?;
        let given = generation.tokens().len() - new.len();
        let known = generation.text();
        // A new stream, because one that stays would borrow the tokenizer. Its work is negligible beside a pass.
        let mut stream = self.model.tokenizer().stream(&known[..known.len() - new.len()])?;
        let mut text = String::new();
        for (number, token) in (1..).zip(&*new) {
            let piece = stream.push(*token)?;
            text += &self.stops.push(&piece);
            append(&mut self.text, &piece);
            self.ends.push(self.text.len());
            if self.stops.is_stopped() {
                generation.stop(given + number);
                break;
            }
        }
        if generation.end().is_some() {
            text += &self.stops.rest();
        }
        self.given += text.len();
        self.mark();
        Ok(text)
    }

    /// Marks the end of a text that has ended, or where it was cut before a string that ends it: after the last token
    /// that was given out whole. Tokens without text are no mark: the same prompt would have them, when it is continued
    /// once more.
    fn mark(&mut self) {
        let Some(generation) = self.generation.as_ref().filter(|generation| generation.end().is_some()) else { return };
        let prompt = generation.prompt().len();
        let is_marked = self.marks.last().is_some_and(|(_, tokens)| *tokens > prompt);
        let whole = self.ends.iter().take_while(|end| **end <= self.given).count().min(generation.tokens().len());
        let end = whole.checked_sub(1).map(|last| self.ends[last]).filter(|end| *end > self.prompt);
        if let (false, Some(end)) = (is_marked, end) {
            self.marks.push((end, prompt + whole));
        }
    }

    /// Ends the text here, for instance because nobody reads it any more.
    pub fn stop(&mut self) {
        if let Some(generation) = &mut self.generation {
            generation.stop(generation.tokens().len());
        }
        self.mark();
    }

    /// Ends a session that was kept: the next question does it.
    pub fn close(&mut self) {
        self.generation.iter_mut().for_each(PrivateGeneration::close);
    }
}

/// Appends to a private text, so that no copy of it stays in memory when it grows.
fn append(text: &mut Zeroizing<String>, piece: &str) {
    let length = text.len() + piece.len();
    if length > text.capacity() {
        let mut larger = Zeroizing::new(String::with_capacity(2 * length));
        larger.push_str(text);
        *text = larger;
    }
    text.push_str(piece);
}
