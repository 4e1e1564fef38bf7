//! Tokenizers: byte-level merges (GPT-2, Llama 3, SmolLM) and SentencePiece merges by score (Llama 2).

use std::collections::HashSet;

use tokenizers::DecoderWrapper;

use crate::chat_template::ChatTemplate;
use crate::error::InputError;

/// The sign for a space in SentencePiece vocabularies.
pub const SPACE: &str = "\u{2581}";

/// Tokens that end a text or a turn, by the names that models of this architecture give them.
const END_NAMES: [&str; 7] =
    ["<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|im_end|>", "<|endoftext|>", "<|end|>", "<end_of_turn>"];

/// The tokenizer of a model.
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    /// One more than the largest id.
    vocabulary: usize,
    begin: Option<u32>,
    ends: Vec<u32>,
    /// How conversations are written.
    chat_template: Option<ChatTemplate>,
}

/// Text of tokens that come one by one.
pub struct TextStream<'a> {
    tokenizer: &'a Tokenizer,
    /// The last tokens.
    window: Vec<u32>,
    /// Number of bytes of the window's text that were given.
    given: usize,
    /// Number of tokens since text was given last.
    waiting: usize,
    /// A number of tokens in the first half of the window that end with a whole character: it is cut there.
    cut: usize,
}

/// Maximum number of tokens of a window, and of a character.
const WINDOW: usize = 64;
const MAX_TOKENS_OF_CHARACTER: usize = 4;

impl TextStream<'_> {
    /// The text that a token adds. Empty for a control token, and as long as the bytes of a character are incomplete.
    ///
    /// # Errors
    /// [`InputError::Tokenizer`] if the token is outside the vocabulary.
    pub fn push(&mut self, token: u32) -> Result<String, InputError> {
        self.window.push(token);
        self.waiting += 1;
        let text = self.tokenizer.decode(&self.window)?;
        if text.ends_with(char::REPLACEMENT_CHARACTER) && self.waiting < MAX_TOKENS_OF_CHARACTER {
            return Ok(String::new());
        }
        let new = text.get(self.given..).unwrap_or_default().to_owned();
        (self.given, self.waiting) = (text.len(), 0);
        if self.window.len() <= WINDOW / 2 {
            self.cut = self.window.len();
        } else if self.window.len() >= WINDOW {
            self.window.drain(..self.cut);
            self.cut = self.window.len();
            self.given = self.tokenizer.decode(&self.window)?.len();
        }
        Ok(new)
    }
}

impl Tokenizer {
    /// Tokens of a text. The token for the begin of a text comes first if the model wants one. Control tokens such as
    /// `<|im_start|>` are recognised in the text.
    ///
    /// # Errors
    /// [`InputError::Tokenizer`] if the tokenizer refuses the text.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, InputError> {
        let encoding = self.inner.encode_fast(text, false).map_err(|error| InputError::Tokenizer(error.to_string()))?;
        Ok(self.begin.into_iter().chain(encoding.get_ids().iter().copied()).collect())
    }

    /// Tokens of a text that follows another text, without the token for the begin. A tokenizer that puts a space in
    /// front of every text puts none in front of a text that begins with a space.
    ///
    /// # Errors
    /// The errors of [`Tokenizer::encode`].
    pub fn encode_continuation(&self, text: &str) -> Result<Vec<u32>, InputError> {
        // A space in front would make a token of nothing.
        if text.is_empty() {
            return Ok(Vec::new());
        }
        let rest = text.strip_prefix(' ').filter(|rest| !rest.is_empty());
        let text = rest.filter(|_| self.puts_space_in_front()).unwrap_or(text);
        let mut tokens = self.encode(text)?;
        tokens.drain(..self.begin.iter().len());
        Ok(tokens)
    }

    fn puts_space_in_front(&self) -> bool {
        let Ok(letter) = self.inner.encode_fast("a", false) else { return false };
        let first = letter.get_ids().first().and_then(|id| self.inner.id_to_token(*id));
        first.is_some_and(|token| token.starts_with(SPACE) || token.starts_with(' '))
    }

    /// Text of tokens, without control tokens.
    ///
    /// # Errors
    /// [`InputError::Tokenizer`] if a token is outside the vocabulary.
    pub fn decode(&self, tokens: &[u32]) -> Result<String, InputError> {
        if let Some(id) = tokens.iter().find(|id| self.inner.id_to_token(**id).is_none()) {
            let found = format!("found id {id}, needed an id below {}", self.vocabulary());
            return Err(InputError::Tokenizer(found));
        }
        self.inner.decode(tokens, true).map_err(|error| InputError::Tokenizer(error.to_string()))
    }

    /// A stream of the text after a prompt. It does not give the text of the prompt itself.
    ///
    /// # Errors
    /// [`InputError::Tokenizer`] if a token is outside the vocabulary.
    pub fn stream(&self, prompt: &[u32]) -> Result<TextStream<'_>, InputError> {
        let mut stream = TextStream { tokenizer: self, window: vec![], given: 0, waiting: 0, cut: 0 };
        for token in prompt {
            stream.push(*token)?;
        }
        Ok(stream)
    }

    /// A token to fill up texts whose length is secret: a dot, or else another sign that is a token of its own. A run
    /// of dots changes little of what a model says afterwards.
    pub fn filler(&self) -> u32 {
        let alone = |sign: &&str| {
            let [short, long] = ["a", &format!("a{sign}")].map(|text| self.inner.encode_fast(text, false).ok());
            let (short, long) = (short?, long?);
            let (last, rest) = long.get_ids().split_last()?;
            (rest == short.get_ids()).then_some(*last)
        };
        [".", ",", " ", "\n"].iter().find_map(alone).or(self.begin).unwrap_or(0)
    }

    /// The token of a text that is one token, such as `<|im_start|>`.
    pub fn token(&self, text: &str) -> Option<u32> {
        self.inner.token_to_id(text)
    }

    /// The text of a token as the vocabulary has it; bytes and spaces have the signs of the tokenizer's kind.
    pub fn token_text(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    /// One more than the largest id of a token.
    pub fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// The token for the begin of a text, if the model wants one.
    pub fn begin(&self) -> Option<u32> {
        self.begin
    }

    /// Control tokens such as `<|im_start|>`, in ascending order.
    pub fn controls(&self) -> Vec<u32> {
        let added = self.inner.get_added_tokens_decoder();
        let mut ids: Vec<u32> = added.iter().filter(|(_, token)| token.special).map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids
    }

    /// Tokens that end a text: tokens that the model's files state, and tokens with a name such as `<|eot_id|>`.
    pub fn ends(&self) -> &[u32] {
        &self.ends
    }

    /// A tokenizer of the library tokenizers. `begin` is put in front of texts; `ends` end a text. So do the tokens
    /// that models of this architecture have for this purpose, by their names.
    pub fn new(inner: tokenizers::Tokenizer, begin: Option<u32>, ends: &[u32]) -> Self {
        let vocabulary = inner.get_vocab(true).into_values().max().map_or(0, |id| id as usize + 1);
        Tokenizer { inner, vocabulary, begin: None, ends: vec![], chat_template: None }.with_bounds(begin, ends)
    }

    /// This tokenizer with the template of its model's conversations.
    pub fn with_chat_template(self, template: Option<ChatTemplate>) -> Self {
        Tokenizer { chat_template: template, ..self }
    }

    /// This tokenizer with another template of conversations. Texts of tokens that it may name are those of the
    /// template before, or those of this tokenizer.
    ///
    /// # Errors
    /// [`InputError::Template`] if the source is not a template.
    pub fn with_chat_template_source(self, source: &str) -> Result<Self, InputError> {
        let own = || {
            let named = [("bos_token", self.begin), ("eos_token", self.ends.first().copied())];
            let text = |(name, token): (&str, Option<u32>)| Some((name.to_owned(), self.token_text(token?)?));
            named.into_iter().filter_map(text).collect()
        };
        let tokens = self.chat_template.as_ref().map_or_else(own, |template| template.tokens().clone());
        let template = ChatTemplate::new(source, tokens)?;
        Ok(self.with_chat_template(Some(template)))
    }

    /// The template of conversations, if the model has one.
    pub fn chat_template(&self) -> Option<&ChatTemplate> {
        self.chat_template.as_ref()
    }

    /// This tokenizer with another token for the begin of a text, and other ends.
    pub fn with_bounds(mut self, begin: Option<u32>, ends: &[u32]) -> Self {
        self.begin = begin;
        self.ends.clear();
        for end in ends.iter().copied().chain(END_NAMES.iter().filter_map(|name| self.inner.token_to_id(name))) {
            if !self.ends.contains(&end) {
                self.ends.push(end);
            }
        }
        self
    }

    /// The tokens that a `tokenizer.json` itself puts in front of every text, by its post-processor.
    ///
    /// # Errors
    /// [`InputError::Tokenizer`] if the tokenizer refuses a text of one letter.
    pub fn template_begin(&self) -> Result<Vec<u32>, InputError> {
        let letter = self.inner.encode("a", true).map_err(|error| InputError::Tokenizer(error.to_string()))?;
        let in_front = letter.get_special_tokens_mask().iter().take_while(|special| **special == 1).count();
        Ok(letter.get_ids()[..in_front].to_vec())
    }

    /// Whether a `tokenizer.json` has a post-processor, which decides what stands in front of a text.
    pub fn has_post_processor(&self) -> bool {
        self.inner.get_post_processor().is_some()
    }

    /// Reads the content of a `tokenizer.json` of the library tokenizers.
    ///
    /// # Errors
    /// What was found in its place.
    pub fn from_json(bytes: &[u8], begin: Option<u32>, ends: &[u32]) -> Result<Self, String> {
        // The library panics where a decoder is not JSON.
        let json = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        Ok(Tokenizer::new(read(bytes, &json)?, begin, ends))
    }

    /// As [`Tokenizer::from_json`], for a model whose embedding has `rows` rows. Added tokens beyond these rows, such
    /// as a token for padding, are left out, so that a text with their name is read as any other text. No token is put
    /// in front of a text, and only tokens with a name for the end of a text end it; see [`Tokenizer::with_bounds`].
    ///
    /// # Errors
    /// What was found in its place.
    pub fn from_json_within(bytes: &[u8], rows: usize) -> Result<Self, String> {
        let mut json: serde_json::Value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let beyond = |json: &serde_json::Value, token: &serde_json::Value| {
            let of_texts = token["content"].as_str().is_some_and(|text| json["model"]["vocab"].get(text).is_some());
            !of_texts && token["id"].as_u64().is_some_and(|id| id >= rows as u64)
        };
        let added = json["added_tokens"].as_array().map_or(&[][..], Vec::as_slice);
        let kept: Vec<_> = added.iter().filter(|token| !beyond(&json, token)).cloned().collect();
        if kept.len() == added.len() {
            return Ok(Tokenizer::new(read(bytes, &json)?, None, &[]));
        }
        json["added_tokens"] = kept.into();
        Ok(Tokenizer::new(read(json.to_string().as_bytes(), &json)?, None, &[]))
    }

    /// The content of a `tokenizer.json`; begin and ends are not in it. The error says what was found.
    pub(crate) fn to_json(&self) -> Result<String, String> {
        self.inner.to_string(false).map_err(|error| error.to_string())
    }
}

/// Reads the content of a `tokenizer.json`, which is JSON. The error says what was found.
fn read(bytes: &[u8], json: &serde_json::Value) -> Result<tokenizers::Tokenizer, String> {
    let wrong = |error: tokenizers::Error| error.to_string();
    // The library panics at normalizers of this kind that are malformed.
    if has_type(&json["normalizer"], "Precompiled") {
        return Err("a precompiled normalizer, which models of this architecture do not have".into());
    }
    let mut inner = tokenizers::Tokenizer::from_bytes(bytes).map_err(wrong)?;
    // The library writes one of several tokens with the same id, and cannot read what it wrote.
    let mut ids = HashSet::new();
    if let Some((token, id)) = inner.get_vocab(false).iter().find(|(_, id)| !ids.insert(**id)) {
        return Err(format!("the token {token:?} with id {id}, which another token has too"));
    }
    // The library gives added tokens the next free ids, whatever ids the file gives them.
    for token in json["added_tokens"].as_array().into_iter().flatten() {
        let text = token["content"].as_str().unwrap_or_default();
        let found = inner.token_to_id(text).map(u64::from);
        if let Some(found) = found.filter(|found| token["id"].as_u64() != Some(*found)) {
            return Err(format!("the added token {text:?} with id {}, where {found} would be next", token["id"]));
        }
    }
    // The library panics at tokens that are shorter than what such a decoder cuts off.
    if inner.get_decoder().is_some_and(cuts_ends) {
        return Err("a decoder that cuts off the end of tokens, which models of this architecture do not have".into());
    }
    // Texts are neither cut nor filled up.
    inner.with_padding(None).with_truncation(None).map_err(wrong)?;
    Ok(inner)
}

/// Whether a part of a tokenizer, or a part inside this part, has a type.
fn has_type(part: &serde_json::Value, name: &str) -> bool {
    match part {
        serde_json::Value::Object(fields) => {
            fields.get("type").is_some_and(|found| found == name) || fields.values().any(|part| has_type(part, name))
        }
        serde_json::Value::Array(parts) => parts.iter().any(|part| has_type(part, name)),
        _ => false,
    }
}

/// Whether a decoder, or a part of it, cuts characters off the end of tokens.
fn cuts_ends(decoder: &DecoderWrapper) -> bool {
    match decoder {
        DecoderWrapper::Strip(strip) => strip.stop > 0,
        DecoderWrapper::Sequence(parts) => parts.get_decoders().iter().any(cuts_ends),
        _ => false,
    }
}
