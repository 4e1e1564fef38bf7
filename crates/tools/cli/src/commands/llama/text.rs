//! The texts that commands run a model on, and the search for a prefix over them.

use std::path::{Path, PathBuf};

use anyhow::Context;
use unspoken_llama::Sample;
use unspoken_llama_model::{Config, InputError, Model, PrefixSearch, Tokenizer, find_prefix};

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
    /// Number of tokens that are run together, each time after the prefix
    #[arg(long, value_name = "N", default_value_t = 256)]
    window: usize,
}

/// Windows of text with a public and a private part
#[derive(clap::Args)]
pub struct SampleArguments {
    /// Maximum number of private tokens, from the start of the text
    #[arg(long, value_name = "N", default_value_t = 4096)]
    tokens: usize,
    /// Number of public tokens of a window, after the prefix [default: 256, or what a short context has room for]
    #[arg(long, value_name = "N", value_parser = parse_public)]
    public: Option<usize>,
    /// Number of private tokens of a window [default: 256, or half of a short context]
    #[arg(long, value_name = "N", value_parser = parse_private)]
    private: Option<usize>,
    /// Number of private tokens that run together: a power of two from 8, as services take it
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = parse_chunk)]
    pub chunk: usize,
}

/// Numbers of public and of private tokens of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    pub public: usize,
    pub private: usize,
}

/// Public and private tokens of a window, unless a context has room for fewer.
const STANDARD: usize = 256;

impl Sizes {
    /// Tokens of a window.
    pub fn window(&self) -> usize {
        self.public + self.private
    }
}

/// The search for a prefix, and rotations
#[derive(clap::Args)]
pub struct RotationArguments {
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
const MAX_TOKENS: usize = 1 << 24;

/// Fewest private tokens of a window: the second one is compared with what follows the first.
const MIN_PRIVATE: usize = 2;

/// Smallest chunk of a service.
const MIN_CHUNK: usize = 8;

fn parse_public(text: &str) -> Result<usize, String> {
    parse_between(text, 0)
}

fn parse_private(text: &str) -> Result<usize, String> {
    parse_between(text, MIN_PRIVATE)
}

fn parse_chunk(text: &str) -> Result<usize, String> {
    let number = parse_between(text, MIN_CHUNK).ok().filter(|number| number.is_power_of_two());
    number.ok_or_else(|| format!("found {text}, needed a power of two from {MIN_CHUNK}"))
}

fn parse_between(text: &str, least: usize) -> Result<usize, String> {
    let number = text.parse().ok().filter(|count| (least..=MAX_TOKENS).contains(count));
    number.ok_or_else(|| format!("found {text}, needed a number from {least} to {MAX_TOKENS}"))
}

impl TextArguments {
    /// The text in pieces of one window, without the token for its begin. `room` tokens fit after the prefix.
    pub fn windows(&self, tokenizer: &Tokenizer, room: usize) -> anyhow::Result<Vec<Vec<u32>>> {
        anyhow::ensure!(
            self.window <= room,
            "--window: found {}, needed at most {room}: so many tokens fit the context of the model after a prefix; \
             lower --window, or --prefix-length",
            self.window
        );
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
    /// Public and private tokens of a window where `room` tokens fit after the prefix.
    pub fn sizes(&self, room: usize) -> anyhow::Result<Sizes> {
        let sizes = match (self.public, self.private) {
            (Some(public), Some(private)) => Sizes { public, private },
            (Some(public), None) => Sizes { public, private: room.saturating_sub(public).min(STANDARD) },
            (None, Some(private)) => Sizes { public: room.saturating_sub(private).min(STANDARD), private },
            (None, None) => {
                let private = room.div_ceil(2).min(STANDARD);
                Sizes { public: (room - private).min(STANDARD), private }
            }
        };
        anyhow::ensure!(
            sizes.window() <= room && sizes.private >= MIN_PRIVATE,
            "--public and --private: found {} public and {} private tokens, needed {MIN_PRIVATE} private ones or \
             more, and at most {room} together: so many fit the context after a prefix; lower --public and --private",
            sizes.public,
            sizes.private
        );
        Ok(sizes)
    }

    /// Windows of a text that the command uses.
    pub fn count(&self, sizes: Sizes) -> usize {
        self.tokens.div_ceil(sizes.private)
    }

    /// A text in windows; what is left after the last whole window is not used.
    pub fn windows(&self, tokens: &[u32], sizes: Sizes) -> anyhow::Result<Vec<Vec<u32>>> {
        let windows = tokens.chunks_exact(sizes.window()).take(self.count(sizes));
        let windows: Vec<Vec<u32>> = windows.map(<[u32]>::to_vec).collect();
        anyhow::ensure!(
            !windows.is_empty(),
            "found a text of {} tokens, needed {} public and {} private ones; name a longer text, or lower --public \
             and --private",
            tokens.len(),
            sizes.public,
            sizes.private
        );
        Ok(windows)
    }
}

/// Windows after a prefix, with `public` public tokens each.
pub fn samples(prefix: &[u32], windows: &[Vec<u32>], public: usize) -> Vec<Sample> {
    // A last window may be short.
    let windows = windows.iter().filter(|window| window.len() > public);
    let sample = |window: &Vec<u32>| {
        let (public, private) = window.split_at(public);
        Sample { public: [prefix, public].concat(), private: private.to_vec() }
    };
    windows.map(sample).collect()
}

impl RotationArguments {
    /// Tokens of a context that the longest prefix leaves.
    pub fn room(&self, config: &Config) -> usize {
        config.context.saturating_sub(self.prefix_length.max(1))
    }

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
pub fn read_tokens(path: &Path, tokenizer: &Tokenizer) -> anyhow::Result<Vec<u32>> {
    let text = unspoken_files::read_text(path).with_context(|| format!("--text: cannot read {}", path.display()))?;
    tokens_of(&text, tokenizer)
}

/// All tokens of a text, without the token for its begin.
pub fn tokens_of(text: &str, tokenizer: &Tokenizer) -> anyhow::Result<Vec<u32>> {
    let mut tokens = tokenizer.encode(text)?;
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
