//! Labelled messages: where they are, and which of them are held out.

use std::path::{Path, PathBuf};

use unspoken_store::{Dataset, Split, StoreError};

/// Format of a data set.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    /// Lines with a label, a tab and a text
    Tab,
    /// Lines of fastText: words that begin with __label__ are labels, and a line with several counts once for each
    Fasttext,
    /// Enron-Spam: its folders enron1 to enron6, one of them, or the CSV file with the columns Subject, Message and
    /// Spam/Ham
    EnronSpam,
    /// Drugs.com: the file drugsComTrain_raw.tsv; ratings of 1 to 5 are negative, 6 to 10 positive
    DrugReviews,
}

/// The labelled messages.
#[derive(clap::Args)]
pub struct DataArguments {
    /// File or folder of labelled messages
    #[arg(long)]
    data: PathBuf,
    /// Format of the messages
    #[arg(long, value_enum, default_value = "tab")]
    format: Format,
    /// CSV column of the text; if given, the file is read as CSV
    #[arg(long, requires = "label_column", conflicts_with = "format")]
    text_column: Option<String>,
    /// CSV column of the label
    #[arg(long, requires = "text_column")]
    label_column: Option<String>,
    /// What is between the fields of a CSV file: one ASCII character, or "tab"
    #[arg(long, default_value = ",", requires = "text_column", value_parser = delimiter)]
    delimiter: u8,
    /// Share of the messages held out for testing
    #[arg(long, default_value_t = 0.1)]
    test_share: f64,
    /// File or folder of the messages for testing, in the format of --data, instead of a share of those
    #[arg(long, conflicts_with = "test_share")]
    test_data: Option<PathBuf>,
}

/// A delimiter of fields.
fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        _ if text == "tab" => Ok(b'\t'),
        &[byte] if byte.is_ascii() && !byte.is_ascii_alphanumeric() && byte != b'"' => Ok(byte),
        _ => Err("needed one ASCII character that is no letter, digit or quote, for instance ';', or tab".into()),
    }
}

impl DataArguments {
    /// Reads the messages and holds some out for testing. No message is set aside for validation.
    pub fn read(&self, seed: u64) -> anyhow::Result<Split> {
        let data = self.read_file(&self.data)?;
        let Some(test) = &self.test_data else { return Ok(data.split(0.0, self.test_share, seed)?) };
        Ok(Split { train: data, validation: Dataset::default(), test: self.read_file(test)? })
    }

    fn read_file(&self, path: &Path) -> Result<Dataset, StoreError> {
        if let (Some(text), Some(label)) = (&self.text_column, &self.label_column) {
            return Dataset::read_csv(path, self.delimiter, text, label);
        }
        match self.format {
            Format::Tab => Dataset::read_tab_separated(path),
            Format::Fasttext => Dataset::read_fasttext(path),
            Format::EnronSpam => Dataset::read_enron_spam(path),
            Format::DrugReviews => Dataset::read_drug_reviews(path),
        }
    }
}
