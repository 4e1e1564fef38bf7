//! The texts of `unspoken llama prepare`: for calibration and held out, and which tokens they have.

use std::path::PathBuf;

use unspoken_llama::{Sample, vocabulary_windows};
use unspoken_llama_model::{Coverage, Model, Tokenizer};

use super::own_text::{BROAD, told};
use super::text::{SampleArguments, Sizes, read_tokens, samples, tokens_of};
use crate::progress::Bars;

/// The texts that show how large the values of a model get
#[derive(clap::Args)]
pub struct CalibrationArguments {
    /// Text of the kind that the model will see, UTF-8, many thousand words [default: text that the model tells itself]
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,
    #[command(flatten)]
    pub sizes: SampleArguments,
    /// Fewest public tokens of a text that clients may ask about; with more of them, ranges are narrower
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub least_public: usize,
    /// Do not run all tokens of the vocabulary, which takes long for large models: clients then warn of tokens that no
    /// text had
    #[arg(long)]
    skip_vocabulary: bool,
    /// Share of the text that is held out, in percent
    #[arg(long, value_name = "N", default_value_t = 25, value_parser = clap::value_parser!(u8).range(1..=90))]
    held_out: u8,
}

/// Windows of text, without the prefix.
pub struct Texts {
    /// The text, in calibration and held out.
    text: [Vec<Vec<u32>>; 2],
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
        let tokens = match &self.text {
            Some(path) => read_tokens(path, tokenizer)?,
            None => tokens_of(&told(model, tokenizer, count * sizes.window(), &mut Bars::new())?, tokenizer)?,
        };
        let windows = self.sizes.windows(&tokens, sizes)?;
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
        let unseen = vocabulary.len() * usize::from(self.held_out) / 100;
        let text = split(windows, held_out);
        let filled = text.each_ref().map(|windows| filled(windows, tokenizer.filler(), self.sizes.chunk));
        Ok(Texts { text, filled, broad, vocabulary: split(vocabulary, unseen), least_public: self.least_public })
    }
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
