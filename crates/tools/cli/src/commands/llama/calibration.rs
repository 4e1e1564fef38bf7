//! The texts of `unspoken llama prepare`: for calibration and held out, and which tokens they have.

use std::path::PathBuf;

use unspoken_llama::{Sample, vocabulary_windows};
use unspoken_llama_model::{Coverage, Model, Tokenizer};

use super::own_text::{BROAD, conversations, general, told};
use super::text::{SampleArguments, Sizes, read_tokens, samples, tokens_of};
use crate::progress::Bars;

/// The texts that show how large the values of a model get
#[derive(clap::Args)]
pub struct CalibrationArguments {
    /// Text of the kind that the model will see, UTF-8, many thousand words [default: general English text that the
    /// command brings, and what the model tells itself]. A model with a template of conversations also talks: a quarter
    /// of the windows, half of them without a text, are conversations in the form of its template
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,
    #[command(flatten)]
    pub sizes: SampleArguments,
    /// Fewest public tokens of a text that clients may ask about; with more of them, ranges are narrower
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub least_public: usize,
    /// Do not run all tokens of the vocabulary, which takes long for large models: clients then warn of tokens that no
    /// text had. Where no polynomials fit the ranges with all tokens, they are left out, too
    #[arg(long)]
    skip_vocabulary: bool,
    /// Share of the text that is held out, in percent
    #[arg(long, value_name = "N", default_value_t = 25, value_parser = clap::value_parser!(u8).range(1..=90))]
    held_out: u8,
}

/// Kinds of text, each with a number of windows.
pub type Kinds = Vec<(&'static str, usize)>;

/// One of so many windows decides nothing.
const UNSEEN: usize = 8;

/// Windows of text, without the prefix.
pub struct Texts {
    /// Windows of each kind of text.
    pub kinds: Kinds,
    /// The text, in calibration and held out.
    text: [Vec<Vec<u32>>; 2],
    /// Text that decides nothing, so that it shows how good the preparation is.
    unseen: Vec<Vec<u32>>,
    /// Every other window of the text with a run of the token that fills chunks up, as clients send them.
    filled: [Vec<Vec<u32>>; 2],
    /// A page with many kinds of characters.
    broad: Vec<Vec<u32>>,
    /// All tokens of the vocabulary in random order, in calibration and held out.
    vocabulary: [Vec<Vec<u32>>; 2],
    least_public: usize,
}

impl CalibrationArguments {
    /// The windows for a model.
    pub fn texts(&self, (model, tokenizer): (&Model, &Tokenizer), sizes: Sizes, seed: u64) -> anyhow::Result<Texts> {
        anyhow::ensure!(
            self.least_public <= sizes.public,
            "--least-public: found {}, needed at most the {} of --public",
            self.least_public,
            sizes.public
        );
        let count = self.sizes.count(sizes);
        let (kinds, mut windows) = self.windows((model, tokenizer), sizes, count)?;
        let unseen = windows.split_off(windows.len() - windows.len().div_ceil(UNSEEN).min(windows.len() / 4));
        let held_out = (windows.len() * usize::from(self.held_out)).div_ceil(100);
        anyhow::ensure!(
            held_out < windows.len(),
            "found {} windows of text, needed two or more: name a longer text, raise --tokens, or lower --public and \
             --private",
            windows.len()
        );
        let broad = tokens_of(BROAD, tokenizer)?.chunks(sizes.window()).map(<[u32]>::to_vec).collect();
        let size = model.config.vocabulary;
        // About the number of tokens of the text, and each token at least once.
        let times = if self.skip_vocabulary { 0 } else { (windows.len() * sizes.window() / size).max(1) };
        let parts = (self.least_public, sizes.window() - self.least_public);
        let vocabulary = vocabulary_windows(size, times, parts, seed);
        let last = vocabulary.len() * usize::from(self.held_out) / 100;
        let text = split(windows, held_out);
        let filled = text.each_ref().map(|windows| filled(windows, tokenizer.filler(), self.sizes.chunk));
        let vocabulary = split(vocabulary, last);
        Ok(Texts { kinds, text, unseen, filled, broad, vocabulary, least_public: self.least_public })
    }

    /// The windows of all kinds of text, one kind after the other in turn, and how many each kind has.
    fn windows(
        &self,
        (model, tokenizer): (&Model, &Tokenizer),
        sizes: Sizes,
        count: usize,
    ) -> anyhow::Result<(Kinds, Vec<Vec<u32>>)> {
        let mut bars = Bars::new();
        let share = |part: usize| count.div_ceil(part) * sizes.window();
        let talks = tokenizer.chat_template().is_some();
        let mut kinds: Vec<(&'static str, Vec<u32>)> = Vec::new();
        match &self.text {
            Some(path) => kinds.push(("the text", read_tokens(path, tokenizer)?)),
            None => kinds.push(("general text", tokens_of(&general(), tokenizer)?)),
        }
        if let (None, false) = (&self.text, talks) {
            kinds.push(("told by the model", tokens_of(&told(model, tokenizer, share(2), &mut bars)?, tokenizer)?));
        }
        let part = if self.text.is_some() { 4 } else { 2 };
        if let Some(tokens) = conversations(model, tokenizer, if talks { share(part) } else { 0 }, &mut bars)? {
            kinds.push(("conversations", tokens));
        }
        // Windows that others do not fill are those of the first kind.
        let mut left = count;
        let mut cut = Vec::new();
        for (name, tokens) in kinds.iter().skip(1) {
            let part = if *name == "conversations" { part } else { 2 };
            let most = (count / part).max(1).min(left.saturating_sub(1));
            let windows: Vec<Vec<u32>> = tokens.chunks_exact(sizes.window()).take(most).map(<[u32]>::to_vec).collect();
            left -= windows.len();
            cut.push((*name, windows));
        }
        let (first, tokens) = &kinds[0];
        let windows = self.sizes.windows(tokens, sizes)?;
        cut.insert(0, (*first, windows.into_iter().take(left).collect()));
        let counts = cut.iter().map(|(name, windows)| (*name, windows.len())).filter(|(_, count)| *count > 0).collect();
        Ok((counts, in_turn(cut.into_iter().map(|(_, windows)| windows).collect())))
    }
}

/// The windows of several kinds, so that each part of them has each kind in about the same share.
fn in_turn(kinds: Vec<Vec<Vec<u32>>>) -> Vec<Vec<u32>> {
    let place = |number: usize, count: usize| (number as f64 + 0.5) / count as f64;
    let of_kind = |windows: Vec<Vec<u32>>| {
        let count = windows.len();
        windows.into_iter().enumerate().map(move |(number, window)| (place(number, count), window))
    };
    let mut all: Vec<(f64, Vec<u32>)> = kinds.into_iter().flat_map(of_kind).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all.into_iter().map(|(_, window)| window).collect()
}

/// The first windows, and the last ones.
fn split(mut windows: Vec<Vec<u32>>, last: usize) -> [Vec<Vec<u32>>; 2] {
    let last = windows.split_off(windows.len() - last);
    [windows, last]
}

/// Every other window with a run of a token, of each length below a chunk and at many places.
fn filled(windows: &[Vec<u32>], filler: u32, chunk: usize) -> Vec<Vec<u32>> {
    let filled = |(number, window): (usize, &Vec<u32>)| {
        let count = (1 + number / 4 % chunk.saturating_sub(1).max(1)).min(window.len());
        // In front, where the first private text has it, or at places that are far from regular: multiples of the
        // golden ratio.
        let place = (number as f64 * 0.618).fract() * (window.len() - count) as f64;
        let place = if number % 4 == 0 { 0.0 } else { place };
        let (before, rest) = window.split_at(place as usize);
        let rest = &rest[..window.len() - count - before.len()];
        before.iter().copied().chain(std::iter::repeat_n(filler, count)).chain(rest.iter().copied()).collect()
    };
    windows.iter().enumerate().step_by(2).map(filled).collect()
}

impl Texts {
    /// The text for calibration.
    pub fn text(&self) -> &[Vec<u32>] {
        &self.text[0]
    }

    /// Leaves the random tokens of the vocabulary out. Returns whether there were any.
    pub fn leave_out_vocabulary(&mut self) -> bool {
        let were = self.vocabulary.iter().any(|windows| !windows.is_empty());
        self.vocabulary = Default::default();
        were
    }

    /// Text that decided nothing, after a prefix.
    pub fn unseen(&self, prefix: &[u32]) -> Vec<Sample> {
        samples(prefix, &self.unseen, self.least_public)
    }

    /// All windows for calibration after a prefix. All tokens after the fewest public ones are private, so that a text
    /// may have more public tokens: which tokens are public does not matter to the values.
    pub fn calibration(&self, prefix: &[u32]) -> Vec<Sample> {
        let kinds = [&self.text[0], &self.filled[0], &self.broad, &self.vocabulary[0]];
        kinds.iter().flat_map(|windows| samples(prefix, windows, self.least_public)).collect()
    }

    /// The held-out text after a prefix, the held-out part of the vocabulary, and held-out text with runs of the token
    /// that fills chunks up.
    pub fn held_out(&self, prefix: &[u32]) -> [Vec<Sample>; 3] {
        [&self.text[1], &self.vocabulary[1], &self.filled[1]].map(|windows| samples(prefix, windows, self.least_public))
    }

    /// The tokens that ran as private ones, and how many of them text had.
    pub fn coverage(&self, prefix: &[u32]) -> (Coverage, usize) {
        let private =
            |windows: &[Vec<u32>]| samples(&[], windows, self.least_public).into_iter().map(|run| run.private);
        let text =
            self.text.iter().chain(&self.filled).chain([&self.broad]).flat_map(|windows| private(windows)).flatten();
        let text: Vec<u32> = text.chain(prefix.iter().copied()).collect();
        let all = self.vocabulary.iter().flat_map(|windows| private(windows)).flatten();
        (Coverage::new(text.iter().copied().chain(all)), Coverage::new(text.iter().copied()).len())
    }
}
