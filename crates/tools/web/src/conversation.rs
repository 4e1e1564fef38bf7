//! Texts that a service continues under encryption: single ones, or the answers of a conversation.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use unspoken_chat::{Answer, ChatClient, ChatError, PrivateGeneration, PromptTokens, Wanted, seeded};
use unspoken_llama_model::{ClientModel, Generation, Message, Prompt, Rendering, RotatedModel, Sampler, StopStream};
use unspoken_protocol::ClientHalf;
use wasm_bindgen::prelude::*;
use zeroize::{Zeroize, Zeroizing};

use crate::failure::Failure;
use crate::sampling::SamplingOptions;
use crate::values::written;

/// Messages to answer, as JavaScript writes them. The texts are wiped when dropped.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct MessagesToAnswer {
    messages: Vec<Message>,
    /// The number of messages in front that the service may read.
    #[serde(default)]
    public_messages: usize,
    most_tokens: usize,
    /// The time, for templates that tell the model the date: the module has no clock.
    unix_seconds: i64,
    sampling: Option<SamplingOptions>,
    /// Whether the private text goes as it is, so that the service can count its tokens.
    #[serde(default)]
    tell_length: bool,
}

impl Drop for MessagesToAnswer {
    fn drop(&mut self) {
        self.messages.iter_mut().for_each(|message| message.content.zeroize());
    }
}

impl MessagesToAnswer {
    /// The text that the model continues.
    pub(crate) fn prompt(&self, model: &ClientModel) -> Result<Prompt, Failure> {
        let rendering = Rendering { unix_seconds: self.unix_seconds, ..Rendering::default() };
        let prompt = model.tokenizer().prompt(&self.messages, self.public_messages, &rendering);
        prompt.map_err(|error| Failure::Refused(error.to_string()))
    }

    /// Whether the private text goes as it is.
    pub(crate) fn tells_length(&self) -> bool {
        self.tell_length
    }

    /// How it is continued.
    pub(crate) fn wanted(&self) -> Wanted {
        self.sampling.clone().unwrap_or_default().wanted(self.most_tokens)
    }
}

/// A text that a service continues without seeing its private part, or several in turn: a conversation. It knows which
/// question is next, and the text so far.
#[wasm_bindgen]
pub struct Conversation {
    pub(crate) state: unspoken_chat::Conversation,
    model: Arc<ClientModel>,
    text: Zeroizing<String>,
    /// Tokens before the generated ones that the preparation never ran.
    uncovered: Vec<String>,
    /// Private tokens before the generated ones in chunks that need not run again.
    reused: usize,
}

/// How far a text is.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Told<'a> {
    text: &'a str,
    tokens: usize,
    passes: usize,
    guessed: usize,
    reused: usize,
    uncovered: &'a [String],
    end: Option<String>,
}

impl Conversation {
    /// A conversation with a model. With `kept`, its session at the service stays when a text has ended.
    pub(crate) fn new(model: &Arc<ClientModel>, kept: bool) -> Result<Self, Failure> {
        let state = unspoken_chat::Conversation::new(Arc::clone(model), kept).map_err(Failure::of)?;
        let (text, uncovered) = (Zeroizing::default(), Vec::new());
        Ok(Conversation { state, model: Arc::clone(model), text, uncovered, reused: 0 })
    }

    /// Begins to continue a text, filled up to whole chunks unless its length may be told. After an error the
    /// conversation is as before.
    pub(crate) fn begin(
        &mut self,
        client: &ChatClient,
        prompt: &Prompt,
        wanted: Wanted,
        tell_length: bool,
    ) -> Result<(), Failure> {
        let chunk = if tell_length { 1 } else { client.description().chunk() };
        let tokens = self.state.read(prompt, chunk).map_err(Failure::of)?;
        let uncovered = tokens.uncovered(&self.model);
        let reused = self.state.reused(&tokens).unwrap_or(0);
        self.state.begin(client, tokens, wanted).map_err(Failure::of)?;
        (self.text, self.uncovered, self.reused) = (Zeroizing::default(), uncovered, reused);
        Ok(())
    }

    /// Takes the answer to the last question.
    pub(crate) fn take(&mut self, answer: &Answer) -> Result<(), Failure> {
        let piece = Zeroizing::new(self.state.answer(answer).map_err(Failure::of)?);
        self.text.push_str(&piece);
        Ok(())
    }
}

#[wasm_bindgen]
impl Conversation {
    /// What was generated so far of the last text, and why it has ended, if it has: all tokens are known then, though
    /// the session may still be open at the service.
    ///
    /// # Errors
    /// None that a caller can cause.
    #[wasm_bindgen(unchecked_return_type = "Told")]
    pub fn told(&self) -> Result<JsValue, JsValue> {
        let statistics = self.state.generation().map(PrivateGeneration::statistics).unwrap_or_default();
        written(&Told {
            text: &self.text,
            tokens: statistics.tokens,
            passes: statistics.passes,
            guessed: statistics.guessed,
            reused: self.reused,
            uncovered: &self.uncovered,
            end: self.state.end().map(|end| end.to_string()),
        })
    }

    /// Asks the last question once more, after a failure that passes.
    pub fn retry(&mut self) {
        self.state.retry();
    }

    /// Ends the text here, also while the answer to a question is outstanding: nobody waits for it any more.
    pub fn stop(&mut self) {
        self.state.retry();
        self.state.stop();
    }
}

/// Continues a text in the clear, filled up to whole chunks of so many tokens.
pub(crate) fn continued_in_the_clear(
    (rotated, client): (&RotatedModel, &Arc<ClientModel>),
    (prompt, chunk): (&Prompt, usize),
    wanted: Wanted,
) -> Result<Zeroizing<String>, Failure> {
    let failed = |error| Failure::of(ChatError::from(error));
    let tokens = PromptTokens::of(client, prompt, chunk).map_err(Failure::of)?;
    let text = Zeroizing::new([tokens.public.as_slice(), &tokens.private].concat());
    let prompt = Zeroizing::new([client.prefix(), &text].concat());
    let sampling = seeded(wanted.sampling).map_err(Failure::of)?;
    let sampler = Sampler::new(sampling, client.config().vocabulary, &text).map_err(failed)?;
    let generation = Generation::sampled(rotated.model(), &prompt, client.tokenizer().ends(), sampler);
    let mut stream = client.tokenizer().stream(&prompt).map_err(failed)?;
    let (mut stops, mut shown) = (StopStream::new(wanted.stops), Zeroizing::new(String::new()));
    for token in generation.map_err(failed)?.take(wanted.tokens) {
        let piece = Zeroizing::new(stream.push(token).map_err(failed)?);
        shown.push_str(&Zeroizing::new(stops.push(&piece)));
        if stops.is_stopped() {
            break;
        }
    }
    shown.push_str(&Zeroizing::new(stops.rest()));
    Ok(shown)
}
