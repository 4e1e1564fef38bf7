//! Tokenizers: byte-level merges (GPT-2, Llama 3, SmolLM) and SentencePiece merges by score (Llama 2).

use std::collections::{HashMap, HashSet};
use std::path::Path;

use tokenizers::decoders::byte_fallback::ByteFallback;
use tokenizers::decoders::fuse::Fuse;
use tokenizers::decoders::strip::Strip;
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::normalizers::{Prepend, Replace};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{AddedToken, DecoderWrapper, NormalizerWrapper, PreTokenizerWrapper, SplitDelimiterBehavior};

use crate::error::{InputError, LoadError};

/// The sign for a space in SentencePiece vocabularies.
const SPACE: &str = "\u{2581}";

/// The regular expression by which Llama 3 splits text.
const LLAMA3_PATTERN: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);

/// The tokenizer of a model.
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    begin: Option<u32>,
    ends: Vec<u32>,
}

/// How text is split before merges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Splitting {
    Gpt2,
    SmolLm,
    Llama3,
}

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// Found by merges.
    Text,
    /// Found as a whole before merges.
    Added,
    /// Found as a whole before merges, and not a part of the text.
    Control,
}

/// A token of a SentencePiece vocabulary.
pub(crate) struct Piece {
    pub text: String,
    pub score: f32,
    pub kind: TokenKind,
}

/// Maximum number of bytes of a SentencePiece token: merges are found by trying every cut of every token.
const MAX_PIECE_BYTES: usize = 512;

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
    /// Tokens of a text, behind the token for the begin of a text if the model wants one. Control tokens such as
    /// `<|im_start|>` are recognised in the text.
    ///
    /// # Errors
    /// [`InputError::Tokenizer`] if the tokenizer refuses the text.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, InputError> {
        let encoding = self.inner.encode_fast(text, false).map_err(|error| InputError::Tokenizer(error.to_string()))?;
        Ok(self.begin.into_iter().chain(encoding.get_ids().iter().copied()).collect())
    }

    /// Tokens of a text behind another one, which has the token for the begin. A tokenizer that puts a space in front
    /// of every text puts none in front of one that begins with a space.
    ///
    /// # Errors
    /// Those of [`Tokenizer::encode`].
    pub fn encode_behind(&self, text: &str) -> Result<Vec<u32>, InputError> {
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

    /// A stream of text behind the tokens of a prompt, whose own text it does not give.
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

    /// The token of a text that is one token, such as `<|im_start|>`.
    pub fn token(&self, text: &str) -> Option<u32> {
        self.inner.token_to_id(text)
    }

    /// The text of a token as the vocabulary has it; bytes and spaces have the signs of the tokenizer's kind.
    pub fn token_text(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    /// Number of tokens.
    pub fn vocabulary(&self) -> usize {
        self.inner.get_vocab_size(true)
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

    /// Tokens that end a text.
    pub fn ends(&self) -> &[u32] {
        &self.ends
    }

    /// Reads a `tokenizer.json` of the library tokenizers.
    pub(crate) fn from_json(path: &Path, begin: Option<u32>, ends: &[u32]) -> Result<Self, LoadError> {
        let bytes = std::fs::read(path).map_err(LoadError::io(path))?;
        Self::from_json_bytes(&bytes, begin, ends).map_err(|found| LoadError::content(path, found, "a tokenizer.json"))
    }

    /// Reads the content of a `tokenizer.json`. The error says what was found.
    pub(crate) fn from_json_bytes(bytes: &[u8], begin: Option<u32>, ends: &[u32]) -> Result<Self, String> {
        let wrong = |error: tokenizers::Error| error.to_string();
        // The library panics where a decoder is not JSON, and at normalizers of this kind that are malformed.
        let json: serde_json::Value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if has_type(&json["normalizer"], "Precompiled") {
            return Err("a precompiled normalizer, which models of this architecture do not have".into());
        }
        let mut inner = tokenizers::Tokenizer::from_bytes(bytes).map_err(wrong)?;
        // The library writes one of several tokens with the same id, and cannot read what it wrote.
        let mut ids = HashSet::new();
        if let Some((token, id)) = inner.get_vocab(false).iter().find(|(_, id)| !ids.insert(**id)) {
            return Err(format!("the token {token:?} with id {id}, which another token has too"));
        }
        // The library panics at tokens that are shorter than what such a decoder cuts off.
        if inner.get_decoder().is_some_and(cuts_ends) {
            return Err(
                "a decoder that cuts off the end of tokens, which models of this architecture do not have".into()
            );
        }
        // Texts are neither cut nor filled up.
        inner.with_padding(None).with_truncation(None).map_err(wrong)?;
        Ok(Tokenizer { inner, begin, ends: ends.to_vec() })
    }

    /// The content of a `tokenizer.json`; begin and ends are not in it. The error says what was found.
    pub(crate) fn to_json(&self) -> Result<String, String> {
        self.inner.to_string(false).map_err(|error| error.to_string())
    }

    /// A byte-level tokenizer from its tokens and its merges (`left right`), the first merge first.
    pub(crate) fn from_merges(
        tokens: &[&str],
        kinds: &[TokenKind],
        merges: &[&str],
        splitting: Splitting,
        begin: Option<u32>,
        ends: &[u32],
    ) -> Result<Self, String> {
        let merges = merges
            .iter()
            .map(|merge| {
                let (left, right) = merge.split_once(' ').ok_or_else(|| format!("merge {merge:?}"))?;
                Ok((left.to_owned(), right.to_owned()))
            })
            .collect::<Result<Vec<_>, String>>()?;
        let bpe = BPE::builder()
            .vocab_and_merges(vocabulary(tokens.iter().copied())?, merges)
            .ignore_merges(splitting == Splitting::Llama3)
            .build()
            .map_err(|error| error.to_string())?;
        let mut inner = tokenizers::Tokenizer::new(bpe);
        let before: Vec<PreTokenizerWrapper> = match splitting {
            Splitting::Gpt2 => vec![],
            Splitting::SmolLm => vec![Digits::new(true).into()],
            Splitting::Llama3 => {
                let pattern = SplitPattern::Regex(LLAMA3_PATTERN.into());
                let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false);
                vec![split.map_err(|error| error.to_string())?.into()]
            }
        };
        let bytes = ByteLevel::new(false, true, splitting != Splitting::Llama3);
        let steps = before.into_iter().chain([bytes.into()]).collect();
        inner.with_pre_tokenizer(Some(tokenizers::pre_tokenizers::sequence::Sequence::new(steps)));
        inner.with_decoder(Some(ByteLevel::default()));
        add(&mut inner, tokens.iter().copied().zip(kinds.iter().copied()))?;
        Ok(Tokenizer { inner, begin, ends: ends.to_vec() })
    }

    /// A SentencePiece tokenizer from tokens with scores. Of two neighbours, those are merged first that make the token
    /// with the highest score. With `space_in_front`, a space is put in front of each text and removed again.
    pub(crate) fn from_scores(
        pieces: Vec<Piece>,
        space_in_front: bool,
        begin: Option<u32>,
        ends: &[u32],
    ) -> Result<Self, String> {
        if let Some(id) = pieces.iter().position(|piece| piece.text.len() > MAX_PIECE_BYTES) {
            return Err(format!("token {id} of {} bytes; at most {MAX_PIECE_BYTES}", pieces[id].text.len()));
        }
        let texts: Vec<String> = pieces.iter().map(|piece| piece.text.replace(' ', SPACE)).collect();
        let ids: HashMap<&str, usize> = texts.iter().enumerate().map(|(id, text)| (text.as_str(), id)).collect();
        let mut merges = vec![];
        for (id, text) in texts.iter().enumerate() {
            for (cut, _) in text.char_indices().skip(1) {
                let (left, right) = text.split_at(cut);
                if ids.contains_key(left) && ids.contains_key(right) {
                    merges.push((id, (left.to_owned(), right.to_owned())));
                }
            }
        }
        merges.sort_by(|(a, _), (b, _)| pieces[*b].score.total_cmp(&pieces[*a].score));
        let bpe = BPE::builder()
            .vocab_and_merges(
                vocabulary(texts.iter().map(String::as_str))?,
                merges.into_iter().map(|(_, merge)| merge).collect(),
            )
            .byte_fallback(true)
            .fuse_unk(true)
            .unk_token("<unk>".into())
            .build()
            .map_err(|error| error.to_string())?;
        let mut inner = tokenizers::Tokenizer::new(bpe);
        let replace = |from: &str, to: &str| Replace::new(from, to).map_err(|error| error.to_string());
        let mut normal: Vec<NormalizerWrapper> = vec![replace(" ", SPACE)?.into()];
        let mut decode: Vec<DecoderWrapper> =
            vec![replace(SPACE, " ")?.into(), ByteFallback::new().into(), Fuse::new().into()];
        if space_in_front {
            normal.insert(0, Prepend::new(SPACE.into()).into());
            decode.push(Strip::new(' ', 1, 0).into());
        }
        inner
            .with_normalizer(Some(tokenizers::normalizers::Sequence::new(normal)))
            .map_err(|error| error.to_string())?;
        inner.with_decoder(Some(tokenizers::decoders::sequence::Sequence::new(decode)));
        add(&mut inner, texts.iter().zip(&pieces).map(|(text, piece)| (text.as_str(), piece.kind)))?;
        Ok(Tokenizer { inner, begin, ends: ends.to_vec() })
    }
}

/// Whether a part of a tokenizer, or a part of that, is of a type.
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

/// Ids of tokens, which must be distinct.
fn vocabulary<'a>(tokens: impl Iterator<Item = &'a str>) -> Result<Vocab, String> {
    let mut ids = Vocab::new();
    for (id, token) in tokens.enumerate() {
        if let Some(other) = ids.insert(token.to_owned(), id as u32) {
            return Err(format!("tokens {other} and {id}, which are equal"));
        }
    }
    Ok(ids)
}

/// Makes the tokenizer recognise added and control tokens as a whole.
fn add<'a>(
    tokenizer: &mut tokenizers::Tokenizer,
    tokens: impl Iterator<Item = (&'a str, TokenKind)>,
) -> Result<(), String> {
    let added: Vec<AddedToken> = tokens
        .filter(|(text, kind)| *kind != TokenKind::Text && !text.is_empty())
        .map(|(text, kind)| AddedToken::from(text, kind == TokenKind::Control).normalized(false))
        .collect();
    tokenizer.add_tokens(added).map(drop).map_err(|error| error.to_string())
}
