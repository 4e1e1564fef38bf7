//! The tokenizer in the metadata of a GGUF file.

use std::collections::BTreeMap;

use unspoken_llama_model::{ChatTemplate, InputError, Tokenizer};

use crate::error::LoadError;
use crate::metadata::Metadata;
use crate::tokenizer::{Piece, Splitting, TokenKind, from_merges, from_scores};

/// Plain text, control tokens, user-defined tokens and unused tokens in `tokenizer.ggml.token_type`.
const NORMAL: i32 = 1;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;
const UNUSED: i32 = 5;

/// The tokenizer, without unused tokens at the end of the vocabulary: they only fill the embedding up.
pub fn tokenizer(metadata: &Metadata, vocabulary: usize) -> Result<Tokenizer, LoadError> {
    let tokens = metadata.texts("tokenizer.ggml.tokens")?;
    if tokens.len() != vocabulary {
        let found = format!("{} tokens for a vocabulary of {vocabulary}", tokens.len());
        return Err(LoadError::content(metadata.path, found, "as many tokens as the vocabulary has"));
    }
    let id = |key: &str| -> Result<Option<u32>, LoadError> {
        match metadata.optional_number(key)? {
            Some(id) if id < vocabulary => Ok(Some(id as u32)),
            Some(id) => Err(LoadError::content(metadata.path, format!("{key} {id}"), "a token of the vocabulary")),
            None => Ok(None),
        }
    };
    let begin = id("tokenizer.ggml.bos_token_id")?;
    let mut ends = vec![];
    for end in ["eos", "eot", "eom"] {
        ends.extend(id(&format!("tokenizer.ggml.{end}_token_id"))?);
    }
    let types = types(metadata, vocabulary)?;
    let stated = begin.iter().chain(&ends).map(|id| *id as usize + 1).max().unwrap_or(0);
    let used = types.iter().rposition(|kind| *kind != UNUSED).map_or(vocabulary, |last| last + 1).max(stated);
    let tokens = &tokens[..used];
    let kinds: Vec<TokenKind> = types[..used].iter().map(|kind| kind_of(*kind)).collect();
    let wants = |key: &str, default: bool| metadata.flag(key).map(|flag| flag.unwrap_or(default));
    let made = match metadata.text("tokenizer.ggml.model")? {
        "gpt2" => {
            let splitting = splitting(metadata)?;
            let wanted = wants("tokenizer.ggml.add_bos_token", splitting == Splitting::Llama3)?;
            let begin = begin.filter(|_| wanted);
            let merges = metadata.texts("tokenizer.ggml.merges")?;
            from_merges(tokens, &kinds, &merges, splitting, begin, &ends)
        }
        "llama" => {
            let scores = metadata.reals("tokenizer.ggml.scores")?;
            if scores.len() != vocabulary {
                Err(format!("scores of {} tokens for a vocabulary of {vocabulary}", scores.len()))
            } else {
                let parts = tokens.iter().zip(scores).zip(kinds);
                let pieces = parts.map(|((text, score), kind)| Piece { text: (*text).into(), score, kind }).collect();
                let wanted = wants("tokenizer.ggml.add_bos_token", true)?;
                let space_in_front = wants("tokenizer.ggml.add_space_prefix", true)?;
                from_scores(pieces, space_in_front, begin.filter(|_| wanted), &ends)
            }
        }
        other => Err(format!("tokenizer {other:?}; \"gpt2\" and \"llama\" are supported")),
    };
    let made = made.map_err(|found| LoadError::content(metadata.path, found, "the tokenizer of a Llama model"))?;
    let mut named = BTreeMap::new();
    for (key, variable) in [("bos", "bos_token"), ("eos", "eos_token"), ("padding", "pad_token")] {
        let id = metadata.optional_number(&format!("tokenizer.ggml.{key}_token_id"))?;
        let text = id.and_then(|id| made.token_text(u32::try_from(id).ok()?));
        named.extend(text.map(|text| (variable.to_owned(), text)));
    }
    let template = metadata.optional_text("tokenizer.chat_template")?.map(|source| ChatTemplate::new(source, named));
    let refused = |error: InputError| LoadError::content(metadata.path, error.to_string(), "a template in Jinja");
    Ok(made.with_chat_template(template.transpose().map_err(refused)?))
}

/// The type of each token; the type of plain text if the file does not say.
fn types(metadata: &Metadata, vocabulary: usize) -> Result<Vec<i32>, LoadError> {
    let Some(types) = metadata.integers("tokenizer.ggml.token_type")? else {
        return Ok(vec![NORMAL; vocabulary]);
    };
    if types.len() != vocabulary {
        let found = format!("types of {} tokens", types.len());
        return Err(LoadError::content(metadata.path, found, format!("of {vocabulary}")));
    }
    Ok(types)
}

fn kind_of(number: i32) -> TokenKind {
    match number {
        CONTROL => TokenKind::Control,
        USER_DEFINED => TokenKind::Added,
        _ => TokenKind::Text,
    }
}

/// How text is split before merges, by the name that llama.cpp gives it.
fn splitting(metadata: &Metadata) -> Result<Splitting, LoadError> {
    match metadata.text("tokenizer.ggml.pre")? {
        "gpt-2" => Ok(Splitting::Gpt2),
        "smollm" => Ok(Splitting::SmolLm),
        "llama-bpe" | "llama3" | "llama-v3" => Ok(Splitting::Llama3),
        "qwen2" => Ok(Splitting::Qwen2),
        other => Err(LoadError::content(
            metadata.path,
            format!("splitting {other:?} of the tokenizer"),
            "\"gpt-2\", \"smollm\", \"llama-bpe\" or \"qwen2\"",
        )),
    }
}
