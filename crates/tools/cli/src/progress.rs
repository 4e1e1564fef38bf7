//! Progress bars on standard error; hidden if it is not a terminal.

use std::sync::LazyLock;

use indicatif::{DecimalBytes, MultiProgress, ProgressBar, ProgressStyle};
use unspoken_client::transport::UploadProgress;
use unspoken_client::{Cost, Progress};
use unspoken_collection as collection;
use unspoken_database as database;
use unspoken_digits_model as digits;
use unspoken_embedding as embedding;
use unspoken_fasttext as fasttext;
use unspoken_network as network;

/// All bars on standard error.
static BARS: LazyLock<MultiProgress> = LazyLock::new(MultiProgress::new);

/// Writes a line to standard error, above the bar if there is one.
pub fn note(text: &str) {
    BARS.suspend(|| eprintln!("{text}"));
}

/// Progress bars, one at a time.
pub struct Bars {
    current: Option<(&'static str, ProgressBar)>,
}

impl Bars {
    /// No bar shown.
    pub fn new() -> Self {
        Bars { current: None }
    }

    /// Shows a step of a client's work.
    pub fn step(&mut self, step: Progress) {
        match step {
            Progress::MakingKeys { done, total } => self.show("generating keys", done as u64, total as u64, false),
            Progress::Uploading(UploadProgress::Hashing { done, total }) => {
                self.show("hashing keys", done, total, true)
            }
            Progress::Uploading(UploadProgress::Sending { done, total }) => {
                self.show("uploading keys", done, total, true)
            }
            Progress::Uploading(UploadProgress::Checking) => self.show("the service checks the keys", 0, 1, false),
            Progress::KeysToSend { bytes } => {
                note(&format!("keys        {} to make and upload, once", DecimalBytes(bytes)));
            }
            Progress::QueriesToSend(cost) => note(&queries_line(&cost)),
            Progress::Asking { verb, done, total } => self.show(verb, done as u64, total as u64, false),
            Progress::Answering { done, total } => {
                self.show("the service computes", done.into(), u64::from(total), false)
            }
        }
    }

    /// Shows an epoch of training.
    pub fn epoch(&mut self, progress: &fasttext::Progress) {
        self.trained(progress.epoch, progress.epochs, progress.loss, progress.training_accuracy);
    }

    /// Shows an epoch of training on images.
    pub fn image_epoch(&mut self, progress: &digits::Progress) {
        self.trained(progress.epoch, progress.epochs, progress.loss, progress.training_accuracy);
    }

    /// Shows an epoch of training on reviews.
    pub fn review_epoch(&mut self, progress: &embedding::RecurrentProgress) {
        self.trained(progress.epoch, progress.epochs, progress.loss, progress.accuracy);
    }

    fn trained(&mut self, epoch: usize, epochs: usize, loss: f64, accuracy: f64) {
        self.show("training", epoch as u64, epochs as u64, false);
        if let Some((_, bar)) = &self.current {
            bar.set_message(format!("loss {loss:.4}, accuracy {accuracy:.4}"));
        }
    }

    /// Shows a step of compressing a table.
    pub fn compression(&mut self, progress: &embedding::Progress) {
        self.show("compressing", progress.step as u64, progress.steps as u64, false);
        if let (Some((_, bar)), Some(error)) = (&self.current, progress.relative_error) {
            bar.set_message(format!("relative error {error:.4}"));
        }
    }

    /// Shows how many prefixes of a language model were tried.
    pub fn prefix(&mut self, tried: u64) {
        self.show("trying prefixes", tried, None, false);
    }

    /// Shows how many windows of a text went through a language model.
    pub fn windows(&mut self, what: &'static str, done: usize, total: usize) {
        self.show(what, done as u64, total as u64, false);
    }

    /// Shows a step of writing a database.
    pub fn database(&mut self, progress: &database::Progress) {
        let what = match progress.phase {
            database::Phase::Read => "reading records",
            database::Phase::Place => "finding buckets",
            database::Phase::Write => "writing cells",
            database::Phase::Encode => "encoding tables",
        };
        self.show(what, progress.done, progress.total, false);
    }

    /// Shows a step of building a collection.
    pub fn collection(&mut self, step: &collection::Step) {
        let (done, total) = step.counts();
        self.show(step.name(), done, total, false);
    }

    /// Shows how many entries of a database were uploaded.
    pub fn entries(&mut self, done: u64, total: u64) {
        self.show("uploading entries", done, total, false);
    }

    /// Shows how many contributions to sums were sent.
    pub fn contributions(&mut self, done: usize, total: usize) {
        self.show("sending contributions", done as u64, total as u64, false);
    }

    /// Shows how far a model is compiled.
    pub fn compiling(&mut self, progress: network::Progress) {
        match progress {
            network::Progress::Fitting { done, total } => {
                self.show("fitting layers again", done as u64, total as u64, false);
            }
            network::Progress::Planning { done, total } => {
                self.show("planning for each preset", done as u64, total as u64, false);
            }
            network::Progress::Simulating { done, total } => {
                self.show("simulating a batch", done as u64, total as u64, false);
            }
        }
    }

    /// Shows a text to the right of the bar.
    pub fn message(&mut self, text: &str) {
        if let Some((_, bar)) = &self.current {
            bar.set_message(text.to_owned());
        }
    }

    /// Removes the bar.
    pub fn finish(&mut self) {
        if let Some((_, bar)) = self.current.take() {
            bar.finish_and_clear();
        }
    }

    /// Without a total, only the completed count is shown.
    fn show(&mut self, what: &'static str, done: u64, total: impl Into<Option<u64>>, bytes: bool) {
        let total = total.into();
        if self.current.as_ref().is_none_or(|(current, _)| *current != what) {
            self.finish();
            let rest = match (total, bytes) {
                (None, _) => "{pos} {per_sec}",
                (Some(_), true) => "{bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta} {msg}",
                (Some(_), false) => "{bar:30} {pos}/{len} {eta} {msg}",
            };
            let style = ProgressStyle::with_template(&format!("{{prefix:28}} {rest}"));
            let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
            let bar = total.map_or_else(ProgressBar::no_length, ProgressBar::new).with_style(style);
            let bar = BARS.add(bar).with_prefix(what);
            self.current = Some((what, bar));
        }
        if let Some((_, bar)) = &self.current {
            if let Some(total) = total {
                bar.set_length(total);
            }
            bar.set_position(done);
        }
    }
}

/// What queries take, before they are sent.
fn queries_line(cost: &Cost) -> String {
    let Cost { questions, batch, queries, query_bytes, answer_bytes, .. } = *cost;
    let noun = if queries == 1 { "query" } else { "queries" };
    let (up, down) = (DecimalBytes(query_bytes), DecimalBytes(answer_bytes));
    format!("sending     {queries} {noun}, {up}, for {questions} (a query holds up to {batch}); receiving about {down}")
}

impl Drop for Bars {
    fn drop(&mut self) {
        self.finish();
    }
}
