//! Tokenizers from tokens: byte-level merges (GPT-2, Llama 3, SmolLM) and SentencePiece merges by score (Llama 2).

use std::collections::HashMap;

use tokenizers::decoders::byte_fallback::ByteFallback;
use tokenizers::decoders::fuse::Fuse;
use tokenizers::decoders::strip::Strip;
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::normalizers::{NFC, Prepend, Replace};
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

/// The regular expression by which Qwen 2 splits text, after it is composed (NFC).
const QWEN2_PATTERN: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);

/// How text is split before merges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Splitting {
    Gpt2,
    SmolLm,
    Llama3,
    Qwen2,
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
    let by = |pattern: &str| -> Result<PreTokenizerWrapper, String> {
        let split = Split::new(SplitPattern::Regex(pattern.into()), SplitDelimiterBehavior::Isolated, false);
        Ok(split.map_err(|error| error.to_string())?.into())
    };
    let before: Vec<PreTokenizerWrapper> = match splitting {
        Splitting::Gpt2 => vec![],
        Splitting::SmolLm => vec![Digits::new(true).into()],
        Splitting::Llama3 => vec![by(LLAMA3_PATTERN)?],
        Splitting::Qwen2 => vec![by(QWEN2_PATTERN)?],
    };
    let own_pattern = matches!(splitting, Splitting::Llama3 | Splitting::Qwen2);
    let bytes = ByteLevel::new(false, true, !own_pattern);
    if splitting == Splitting::Qwen2 {
        inner.with_normalizer(Some(NFC)).map_err(|error| error.to_string())?;
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qwen2_splits_digits_one_by_one_and_composes_letters() {
        // The bytes of the composed letter are two signs of GPT-2's alphabet of bytes.
        let tokens = ["1", "2", "12", "\u{c3}", "\u{a9}", "\u{c3}\u{a9}", "a", "\u{120}", "\u{120}a"];
        let merges = ["1 2", "\u{c3} \u{a9}", "\u{120} a"];
        let tokenizer = |splitting| from_merges(&tokens, &[TokenKind::Text; 9], &merges, splitting, None, &[]).unwrap();
        let qwen2 = tokenizer(Splitting::Qwen2);
        assert_eq!(qwen2.encode("12 a ").unwrap(), [0, 1, 8, 7]);
        assert_eq!(qwen2.encode("e\u{301}a").unwrap(), [5, 6]);
        assert_eq!(tokenizer(Splitting::Llama3).encode("12 a").unwrap(), [2, 8]);
        assert_eq!(qwen2.decode(&[0, 1, 8, 5]).unwrap(), "12 a\u{e9}");
    }
}
