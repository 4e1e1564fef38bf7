//! What the files beside a tokenizer say about texts: the token for their begin, the tokens that end one, and the
//! template of conversations.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde::Deserialize;
use unspoken_llama_model::{ChatTemplate, Tokenizer};

use super::config::{Ids, Json};
use super::json_file::optional;
use crate::error::LoadError;

/// The part of `tokenizer_config.json` that matters.
#[derive(Default, Deserialize)]
struct TokenizerConfig {
    add_bos_token: Option<bool>,
    bos_token: Option<Named>,
    eos_token: Option<Named>,
    pad_token: Option<Named>,
    unk_token: Option<Named>,
    chat_template: Option<Templates>,
}

/// A template of conversations, or several with names.
#[derive(Deserialize)]
#[serde(untagged)]
enum Templates {
    One(String),
    Several(Vec<NamedTemplate>),
}

#[derive(Deserialize)]
struct NamedTemplate {
    name: String,
    template: String,
}

impl Templates {
    /// The only template, or the one that is named `default`.
    fn source(self) -> Result<String, String> {
        let mut several = match self {
            Templates::One(source) => return Ok(source),
            Templates::Several(several) => several,
        };
        let names: Vec<String> = several.iter().map(|template| format!("{:?}", template.name)).collect();
        let place = several.iter().position(|template| template.name == "default");
        match place.or((several.len() == 1).then_some(0)) {
            Some(place) => Ok(several.swap_remove(place).template),
            None => Err(format!("chat templates {}", names.join(", "))),
        }
    }
}

/// A token by its text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Named {
    Text(String),
    Described { content: String },
}

impl Named {
    fn text(&self) -> &str {
        match self {
            Named::Text(text) | Named::Described { content: text } => text,
        }
    }

    /// The token. The vocabularies of llama2.c have line breaks around the names of control tokens.
    fn token(&self, tokenizer: &Tokenizer) -> Option<u32> {
        let between_breaks = |id: &u32| tokenizer.token_text(*id).is_some_and(|text| text.trim() == self.text());
        tokenizer.token(self.text()).or_else(|| tokenizer.controls().into_iter().find(between_breaks))
    }
}

/// The part of `generation_config.json` that matters.
#[derive(Deserialize)]
struct GenerationConfig {
    eos_token_id: Option<Ids>,
}

/// The tokenizer with the begin and the ends that the files of its directory state.
pub(super) fn find(directory: &Path, json: &Json, tokenizer: Tokenizer) -> Result<Tokenizer, LoadError> {
    let path = directory.join("tokenizer_config.json");
    let own: Option<TokenizerConfig> = optional(&path, "the configuration of a tokenizer")?;
    let begin = begin(directory, json, &tokenizer, own.as_ref())?;
    let path = directory.join("generation_config.json");
    let generation: Option<GenerationConfig> = optional(&path, "the configuration of generation")?;
    let generation = generation.and_then(|config| config.eos_token_id);
    let mut ends = vec![];
    for (file, ids) in [("config.json", &json.eos_token_id), ("generation_config.json", &generation)] {
        for id in ids.iter().flat_map(Ids::list) {
            ends.push(token_of(&tokenizer, id, &directory.join(file), "eos_token_id")?);
        }
    }
    let named = own.as_ref().and_then(|own| own.eos_token.as_ref());
    ends.extend(named.and_then(|named| named.token(&tokenizer)));
    let template = chat_template(directory, own)?;
    Ok(tokenizer.with_bounds(begin, &ends).with_chat_template(template))
}

/// The template of conversations: `chat_template.jinja`, or else that of `tokenizer_config.json`.
fn chat_template(directory: &Path, own: Option<TokenizerConfig>) -> Result<Option<ChatTemplate>, LoadError> {
    let config = directory.join("tokenizer_config.json");
    let path = directory.join("chat_template.jinja");
    let mut own = own.unwrap_or_default();
    let (path, source) = match (fs::read_to_string(&path), own.chat_template.take()) {
        (Ok(source), _) => (path, source),
        (Err(error), _) if error.kind() != ErrorKind::NotFound => return Err(LoadError::io(&path)(error)),
        (_, None) => return Ok(None),
        (_, Some(templates)) => {
            let source = templates.source();
            let needed = "one with the name \"default\", or only one";
            (config.clone(), source.map_err(|found| LoadError::content(&config, found, needed))?)
        }
    };
    let named = [
        ("bos_token", own.bos_token),
        ("eos_token", own.eos_token),
        ("pad_token", own.pad_token),
        ("unk_token", own.unk_token),
    ];
    let text = |(name, token): (&str, Option<Named>)| token.map(|token| (name.to_owned(), token.text().to_owned()));
    let template = ChatTemplate::new(source, named.into_iter().filter_map(text).collect());
    template.map(Some).map_err(|error| LoadError::content(path, error.to_string(), "a template in Jinja"))
}

/// The token in front of each text. The post-processor of `tokenizer.json` decides. Without one, it is what
/// `tokenizer_config.json` says, and without that file the token of `config.json`.
fn begin(
    directory: &Path,
    json: &Json,
    tokenizer: &Tokenizer,
    own: Option<&TokenizerConfig>,
) -> Result<Option<u32>, LoadError> {
    let path = directory.join("tokenizer.json");
    let template = tokenizer
        .template_begin()
        .map_err(|error| LoadError::content(&path, error.to_string(), "a tokenizer of text"))?;
    if let [first, more @ ..] = template.as_slice() {
        return match more {
            [] => token_of(tokenizer, *first, &path, "first token of the template").map(Some),
            _ => {
                let found = format!("a template with {} tokens in front of a text", template.len());
                Err(LoadError::content(&path, found, "one or none"))
            }
        };
    }
    let wanted = own.is_none_or(|own| own.add_bos_token == Some(true));
    if tokenizer.has_post_processor() || !wanted {
        return Ok(None);
    }
    if let Some(named) = own.and_then(|own| own.bos_token.as_ref()) {
        let id = named.token(tokenizer).ok_or_else(|| {
            let found = format!("bos_token {:?}", named.text());
            LoadError::content(directory.join("tokenizer_config.json"), found, "a token of tokenizer.json")
        })?;
        return Ok(Some(id));
    }
    json.bos_token_id.map(|id| token_of(tokenizer, id, &directory.join("config.json"), "bos_token_id")).transpose()
}

/// An id that a file states, if it is one of the tokenizer's.
fn token_of(tokenizer: &Tokenizer, id: u32, path: &Path, what: &str) -> Result<u32, LoadError> {
    if (id as usize) < tokenizer.vocabulary() {
        return Ok(id);
    }
    let needed = format!("an id of tokenizer.json, below {}", tokenizer.vocabulary());
    Err(LoadError::content(path, format!("{what} {id}"), needed))
}
