//! The texts that commands run a model on, and the search for a prefix over them.

use std::path::{Path, PathBuf};

use anyhow::Context;
use unspoken_llama::Sample;
use unspoken_llama_model::{InputError, Model, PrefixSearch, Tokenizer, find_prefix};

use crate::progress::Bars;

/// Tokens with outliers that each round of the search tries as well as the control tokens, and the factor by which a
/// longer prefix must reduce the largest residual.
const OUTLIERS: usize = 8;
const GAIN: f32 = 1.1;

/// A text in windows, for looking at a model
#[derive(clap::Args)]
pub struct TextArguments {
    /// Text of the kind that the model will see, UTF-8, some thousand words; for instance data/sms/spam_collection.tsv
    #[arg(long, value_name = "FILE")]
    text: PathBuf,
    /// Maximum number of tokens of the text that are used, from its start
    #[arg(long, value_name = "N", default_value_t = 2048)]
    tokens: usize,
    /// Number of tokens that are run together, each time behind the prefix
    #[arg(long, value_name = "N", default_value_t = 256)]
    window: usize,
}

/// A text in windows with a public and a private part
#[derive(clap::Args)]
pub struct SampleArguments {
    /// Text of the kind that the model will see, UTF-8, many thousand words
    #[arg(long, value_name = "FILE")]
    text: PathBuf,
    /// Maximum number of private tokens, from the start of the text
    #[arg(long, value_name = "N", default_value_t = 4096)]
    tokens: usize,
    /// Number of public tokens of a window, behind the prefix
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = parse_public)]
    pub public: usize,
    /// Number of private tokens of a window
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = parse_private)]
    pub private: usize,
    /// Number of private tokens that run together
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = parse_chunk)]
    pub chunk: usize,
}

/// The search for a prefix, and rotations
#[derive(clap::Args)]
pub struct TamingArguments {
    /// Maximum number of tokens of the text that the search for a prefix uses
    #[arg(long, value_name = "N", default_value_t = 512)]
    search_tokens: usize,
    /// Maximum length of the prefix
    #[arg(long, value_name = "N", default_value_t = 4)]
    prefix_length: usize,
    /// Seed of the rotations
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// No context is longer.
const MOST_TOKENS: usize = 1 << 24;

fn parse_public(text: &str) -> Result<usize, String> {
    parse_between(text, 0)
}

fn parse_private(text: &str) -> Result<usize, String> {
    parse_between(text, 2)
}

fn parse_chunk(text: &str) -> Result<usize, String> {
    parse_between(text, 1)
}

fn parse_between(text: &str, least: usize) -> Result<usize, String> {
    let number = text.parse().ok().filter(|count| (least..=MOST_TOKENS).contains(count));
    number.ok_or_else(|| format!("found {text}, needed a number from {least} to {MOST_TOKENS}"))
}

impl TextArguments {
    /// The text in pieces of one window, without the token for its begin.
    pub fn windows(&self, tokenizer: &Tokenizer) -> anyhow::Result<Vec<Vec<u32>>> {
        let mut tokens = read_tokens(&self.text, tokenizer)?;
        tokens.truncate(self.tokens);
        let texts: Vec<Vec<u32>> = tokens.chunks(self.window.max(1)).map(<[u32]>::to_vec).collect();
        anyhow::ensure!(
            texts.first().is_some_and(|text| text.len() >= 2),
            "{}: found {} tokens in windows of {}, needed at least 2; name a longer text, or raise --tokens and \
             --window",
            self.text.display(),
            tokens.len(),
            self.window
        );
        Ok(texts)
    }
}

impl SampleArguments {
    /// The text in windows of public and private tokens, without the token for its begin.
    pub fn windows(&self, tokenizer: &Tokenizer) -> anyhow::Result<Vec<Vec<u32>>> {
        let tokens = read_tokens(&self.text, tokenizer)?;
        let windows = self.tokens.div_ceil(self.private);
        let texts: Vec<Vec<u32>> =
            tokens.chunks_exact(self.public + self.private).take(windows).map(<[u32]>::to_vec).collect();
        anyhow::ensure!(
            !texts.is_empty(),
            "{}: found {} tokens, needed {} public and {} private ones; name a longer text, or lower --public and \
             --private",
            self.text.display(),
            tokens.len(),
            self.public,
            self.private
        );
        Ok(texts)
    }

    /// Windows behind a prefix.
    pub fn samples(&self, prefix: &[u32], windows: &[Vec<u32>]) -> Vec<Sample> {
        let sample = |window: &Vec<u32>| {
            let (public, private) = window.split_at(self.public);
            Sample { public: [prefix, public].concat(), private: private.to_vec() }
        };
        windows.iter().map(sample).collect()
    }
}

impl TamingArguments {
    /// Searches a prefix over the first texts.
    pub fn search(&self, model: &Model, tokenizer: &Tokenizer, texts: &[Vec<u32>]) -> Result<Vec<u32>, InputError> {
        let window = texts[0].len();
        let count = self.search_tokens.div_ceil(window).clamp(1, texts.len());
        let search = PrefixSearch {
            start: tokenizer.begin().into_iter().collect(),
            candidates: tokenizer.controls(),
            outliers: OUTLIERS,
            length: self.prefix_length,
            gain: GAIN,
        };
        let mut bars = Bars::new();
        let mut tried = 0;
        let found = find_prefix(model, &texts[..count], &search, |_| {
            tried += 1;
            bars.prefix(tried);
        })?;
        Ok(found.tokens)
    }
}

/// All tokens of a file, without the token for the begin of a text.
fn read_tokens(path: &Path, tokenizer: &Tokenizer) -> anyhow::Result<Vec<u32>> {
    let text = unspoken_files::read_text(path).with_context(|| format!("--text: cannot read {}", path.display()))?;
    let mut tokens = tokenizer.encode(&text)?;
    if tokenizer.begin().is_some() {
        tokens.remove(0);
    }
    Ok(tokens)
}

/// The ids and the texts of tokens, for people.
pub fn named(tokenizer: &Tokenizer, tokens: &[u32]) -> Vec<(u32, String)> {
    tokens.iter().map(|id| (*id, tokenizer.token_text(*id).unwrap_or_default())).collect()
}

/// The tokens of a prefix in one line.
pub fn prefix_line(prefix: &[(u32, String)]) -> String {
    match prefix {
        [] => "none".into(),
        _ => prefix.iter().map(|(id, text)| format!("{text:?} ({id})")).collect::<Vec<_>>().join(", "),
    }
}
