//! Tokenizers from tokens: byte-level merges (GPT-2, Llama 3, SmolLM) and SentencePiece merges by score (Llama 2).

use std::collections::HashMap;

use tokenizers::decoders::byte_fallback::ByteFallback;
use tokenizers::decoders::fuse::Fuse;
use tokenizers::decoders::strip::Strip;
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::normalizers::{Prepend, Replace};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{AddedToken, DecoderWrapper, NormalizerWrapper, PreTokenizerWrapper, SplitDelimiterBehavior};
use unspoken_llama_model::{SPACE, Tokenizer};

/// The regular expression by which Llama 3 splits text.
const LLAMA3_PATTERN: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);

/// How text is split before merges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Splitting {
    Gpt2,
    SmolLm,
    Llama3,
}

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// Found by merges.
    Text,
    /// Found as a whole before merges.
    Added,
    /// Found as a whole before merges, and not a part of the text.
    Control,
}

/// A token of a SentencePiece vocabulary.
pub struct Piece {
    pub text: String,
    pub score: f32,
    pub kind: TokenKind,
}

/// Maximum number of bytes of a SentencePiece token: merges are found by trying every cut of every token.
const MAX_PIECE_BYTES: usize = 512;

/// A byte-level tokenizer from its tokens and its merges (`left right`), the first merge first.
pub fn from_merges(
    tokens: &[&str],
    kinds: &[TokenKind],
    merges: &[&str],
    splitting: Splitting,
    begin: Option<u32>,
    ends: &[u32],
) -> Result<Tokenizer, String> {
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
    Ok(Tokenizer::new(inner, begin, ends))
}

/// A SentencePiece tokenizer from tokens with scores. Of two neighbours, those are merged first that make the token
/// with the highest score. With `space_in_front`, a space is put in front of each text and removed again.
pub fn from_scores(
    pieces: Vec<Piece>,
    space_in_front: bool,
    begin: Option<u32>,
    ends: &[u32],
) -> Result<Tokenizer, String> {
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
    inner.with_normalizer(Some(tokenizers::normalizers::Sequence::new(normal))).map_err(|error| error.to_string())?;
    inner.with_decoder(Some(tokenizers::decoders::sequence::Sequence::new(decode)));
    add(&mut inner, texts.iter().zip(&pieces).map(|(text, piece)| (text.as_str(), piece.kind)))?;
    Ok(Tokenizer::new(inner, begin, ends))
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
