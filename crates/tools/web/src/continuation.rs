//! Texts that a service continues under encryption.

use std::sync::Arc;

use serde::Serialize;
use unspoken_chat::{Answer, ChatClient, ChatError, PrivateGeneration, SessionId, seeded};
use unspoken_llama_model::{ClientModel, Generation, InputError, RotatedModel, Sampler};
use unspoken_protocol::ClientHalf;
use wasm_bindgen::prelude::*;
use zeroize::Zeroizing;

use crate::failure::Failure;
use crate::sampling::SamplingOptions;
use crate::values::written;

/// A text to continue: what the service may read, what it must not see, and how many tokens may follow.
pub(crate) struct Beginning<'a> {
    pub(crate) public: &'a str,
    pub(crate) private: &'a str,
    pub(crate) most_tokens: usize,
    pub(crate) sampling: SamplingOptions,
}

impl Beginning<'_> {
    /// The public and the private tokens. Neither part has a token for the begin of a text: the prefix has it.
    fn tokens(&self, model: &ClientModel) -> Result<(Vec<u32>, Zeroizing<Vec<u32>>), Failure> {
        let encode = |text: &str| model.tokenizer().encode_continuation(text).map_err(refused);
        Ok((encode(self.public)?, Zeroizing::new(encode(self.private)?)))
    }
}

/// What the tokenizer or the model refuses.
fn refused(error: InputError) -> Failure {
    Failure::of(ChatError::from(error))
}

/// A text that a service continues without seeing its private part: which question is next, and the tokens so far.
#[wasm_bindgen]
pub struct Continuation {
    pub(crate) generation: PrivateGeneration,
    model: Arc<ClientModel>,
    /// Number of tokens before the generated ones.
    prompt: usize,
    /// Tokens before the generated ones that the preparation never ran.
    uncovered: Vec<String>,
    sampling: SamplingOptions,
}

/// How far a continuation is.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Told<'a> {
    text: &'a str,
    tokens: usize,
    passes: usize,
    guessed: usize,
    uncovered: &'a [String],
    end: Option<String>,
}

impl Continuation {
    /// Begins a text at a service.
    pub(crate) fn new(
        client: &ChatClient,
        model: &Arc<ClientModel>,
        beginning: &Beginning<'_>,
    ) -> Result<Self, Failure> {
        let (public, private) = beginning.tokens(model)?;
        let texts = (model.prefix(), public.as_slice(), private.as_slice());
        let session = SessionId::random().map_err(Failure::of)?;
        let ends = model.tokenizer().ends();
        let generation = PrivateGeneration::new(client.description(), session, texts, ends, beginning.most_tokens);
        let sampling = beginning.sampling.sampling();
        let generation = generation.and_then(|new| new.with_sampling(client.description(), sampling));
        let generation = generation.map_err(Failure::of)?;
        let prompt = generation.text().len();
        let uncovered = model.uncovered(&Zeroizing::new([public, private.to_vec()].concat()));
        let sampling = beginning.sampling.clone();
        Ok(Continuation { generation, model: Arc::clone(model), prompt, uncovered, sampling })
    }

    /// Takes the answer to the last question, and ends at the first token with which a stop string has come.
    pub(crate) fn answer(&mut self, answer: &Answer) -> Result<(), Failure> {
        let new = self.generation.answer(answer).map_err(Failure::of)?.len();
        let count = self.generation.tokens().len();
        for tokens in count - new + 1..=count {
            if self.sampling.shown(&self.text(tokens)?, false).1 {
                self.generation.stop(tokens);
                break;
            }
        }
        Ok(())
    }

    /// The text of the first generated tokens.
    fn text(&self, tokens: usize) -> Result<Zeroizing<String>, Failure> {
        let (prompt, generated) = self.generation.text().split_at(self.prompt);
        text_after(&self.model, prompt, &generated[..tokens])
    }
}

#[wasm_bindgen]
impl Continuation {
    /// What was generated so far, and why it has ended, if it has: all tokens are known then, though the session may
    /// still be open at the service.
    ///
    /// # Errors
    /// If the model gave a token that its tokenizer does not have.
    #[wasm_bindgen(unchecked_return_type = "Told")]
    pub fn told(&self) -> Result<JsValue, JsValue> {
        let (statistics, end) = (self.generation.statistics(), self.generation.end());
        let (text, _) = self.sampling.shown(&self.text(statistics.tokens)?, end.is_some());
        written(&Told {
            text: &text,
            tokens: statistics.tokens,
            passes: statistics.passes,
            guessed: statistics.guessed,
            uncovered: &self.uncovered,
            end: end.map(|end| end.to_string()),
        })
    }

    /// Asks the last question once more, after a failure that passes.
    pub fn retry(&mut self) {
        self.generation.retry();
    }
}

/// The text of `tokens`, which follow the tokens `before`. The text of `before` is not in it.
fn text_after(model: &ClientModel, before: &[u32], tokens: &[u32]) -> Result<Zeroizing<String>, Failure> {
    let mut stream = model.tokenizer().stream(before).map_err(refused)?;
    let pieces: Vec<Zeroizing<String>> = tokens
        .iter()
        .map(|token| stream.push(*token).map(Zeroizing::new).map_err(refused))
        .collect::<Result<_, _>>()?;
    let mut text = Zeroizing::new(String::with_capacity(pieces.iter().map(|piece| piece.len()).sum()));
    pieces.iter().for_each(|piece| text.push_str(piece));
    Ok(text)
}

/// Continues a text in the clear.
pub(crate) fn continued_in_the_clear(
    (rotated, client): (&RotatedModel, &ClientModel),
    beginning: &Beginning<'_>,
) -> Result<Zeroizing<String>, Failure> {
    let (public, private) = beginning.tokens(client)?;
    let text = Zeroizing::new([public.as_slice(), &private].concat());
    let prompt = Zeroizing::new([client.prefix(), &text].concat());
    let sampling = seeded(beginning.sampling.sampling()).map_err(Failure::of)?;
    let sampler = Sampler::new(sampling, client.config().vocabulary, &text).map_err(refused)?;
    let generation = Generation::sampled(rotated.model(), &prompt, client.tokenizer().ends(), sampler);
    let tokens = generation.map_err(refused)?.take(beginning.most_tokens);
    let tokens = Zeroizing::new(tokens.collect::<Vec<u32>>());
    Ok(beginning.sampling.shown(&text_after(client, &prompt, &tokens)?, true).0)
}
