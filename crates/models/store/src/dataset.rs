//! Labelled texts: readers and a stratified split.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::error::DataError;
use crate::random::Random;

/// Random stream of [`Dataset::split`]; trainers use other streams of the same seed.
const SPLIT_STREAM: u64 = 1;

/// Labelled texts, in file order: `labels()[i]` belongs to `texts()[i]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dataset {
    texts: Vec<String>,
    labels: Vec<String>,
}

/// Three disjoint parts of a data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// Training part; the vocabulary is built from it alone.
    pub train: Dataset,
    /// Validation part, for choosing between checkpoints.
    pub validation: Dataset,
    /// Test part, held out: no choice depends on it.
    pub test: Dataset,
}

impl Dataset {
    /// Pairs texts with labels.
    ///
    /// # Errors
    /// [`DataError::Length`] if the numbers of texts and labels differ.
    pub fn new(texts: Vec<String>, labels: Vec<String>) -> Result<Self, DataError> {
        if texts.len() != labels.len() {
            return Err(DataError::Length { texts: texts.len(), labels: labels.len() });
        }
        Ok(Self { texts, labels })
    }

    /// Reads lines of `label<TAB>text`, the format of the SMS spam collection.
    ///
    /// Each line is split at its first tab; later tabs belong to the text. Quotes have no special meaning. Empty lines
    /// are skipped and a carriage return at the end of a line is dropped.
    ///
    /// # Errors
    /// [`DataError::Io`], or [`DataError::Record`] for a line that is not UTF-8,
    /// has no tab or has an empty label.
    pub fn read_tab_separated(path: impl AsRef<Path>) -> Result<Self, DataError> {
        let path = path.as_ref();
        let bytes = fs::read(path).map_err(|source| DataError::Io { path: path.to_owned(), source })?;
        let mut dataset = Self::default();
        for (number, line) in (1..).zip(bytes.split(|&byte| byte == b'\n')) {
            let refuse = |found: &str| DataError::Record {
                path: path.to_owned(),
                line: number,
                found: found.to_owned(),
                needed: "UTF-8 text of the form label<TAB>text".to_owned(),
            };
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() {
                continue;
            }
            let line = std::str::from_utf8(line).map_err(|_| refuse("bytes that are not UTF-8"))?;
            let (label, text) = line.split_once('\t').ok_or_else(|| refuse("no tab"))?;
            if label.is_empty() {
                return Err(refuse("an empty label"));
            }
            dataset.push(text, label);
        }
        Ok(dataset)
    }

    /// Reads a CSV file with a header, quoted as in RFC 4180, using one named column as text and one as label. Other
    /// columns are ignored.
    ///
    /// # Errors
    /// [`DataError::Io`], [`DataError::Column`] when the header lacks a column, or
    /// [`DataError::Record`] for a malformed record or an empty label.
    pub fn read_csv(path: impl AsRef<Path>, text_column: &str, label_column: &str) -> Result<Self, DataError> {
        let path = path.as_ref();
        let file = fs::File::open(path).map_err(|source| DataError::Io { path: path.to_owned(), source })?;
        let mut reader = csv::Reader::from_reader(file);
        let headers = reader.headers().map_err(|error| csv_error(path, error))?.clone();
        let column = |name: &str| {
            headers.iter().position(|header| header == name).ok_or_else(|| DataError::Column {
                path: path.to_owned(),
                found: headers.iter().map(str::to_owned).collect(),
                needed: name.to_owned(),
            })
        };
        let (text, label) = (column(text_column)?, column(label_column)?);
        let mut dataset = Self::default();
        for record in reader.records() {
            let record = record.map_err(|error| csv_error(path, error))?;
            if record[label].is_empty() {
                return Err(DataError::Record {
                    path: path.to_owned(),
                    line: record.position().map_or(0, csv::Position::line),
                    found: "an empty label".to_owned(),
                    needed: format!("a label in column {label_column:?}"),
                });
            }
            dataset.push(&record[text], &record[label]);
        }
        Ok(dataset)
    }

    fn push(&mut self, text: &str, label: &str) {
        self.texts.push(text.to_owned());
        self.labels.push(label.to_owned());
    }

    /// The texts, in file order.
    pub fn texts(&self) -> &[String] {
        &self.texts
    }

    /// The labels, in file order.
    pub fn labels(&self) -> &[String] {
        &self.labels
    }

    /// The number of labelled texts.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Whether there are no texts.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// The fraction of the most frequent label: the accuracy of always predicting it. Zero for an empty set.
    pub fn majority_share(&self) -> f64 {
        let largest = self.by_label().values().map(Vec::len).max().unwrap_or(0);
        largest as f64 / self.len().max(1) as f64
    }

    /// Splits each class at random in the same proportions (Appendix D.2 uses 0.1
    /// and 0.1). Of the `n` records of a class, `round(n * test)` go to the test
    /// part, `round(n * validation)` to the validation part and the rest, in file
    /// order like the others, to training. The same seed gives the same split.
    ///
    /// # Errors
    /// [`DataError::Fractions`] unless both shares are at least 0 and their sum is
    /// below 1.
    pub fn split(&self, validation: f64, test: f64, seed: u64) -> Result<Split, DataError> {
        if !(validation >= 0.0 && test >= 0.0 && validation + test < 1.0) {
            return Err(DataError::Fractions { validation, test });
        }
        let mut random = Random::new(seed, SPLIT_STREAM);
        let mut parts = [Vec::new(), Vec::new(), Vec::new()];
        for mut members in self.by_label().into_values() {
            random.shuffle(&mut members);
            let count = members.len() as f64;
            let tests = (count * test).round() as usize;
            let validations = ((count * validation).round() as usize).min(members.len() - tests);
            parts[2].extend(members.drain(..tests));
            parts[1].extend(members.drain(..validations));
            parts[0].extend(members);
        }
        let [train, validation, test] = parts.map(|mut indices| {
            indices.sort_unstable();
            self.select(&indices)
        });
        Ok(Split { train, validation, test })
    }

    fn select(&self, indices: &[usize]) -> Self {
        let mut selected = Self::default();
        for &index in indices {
            selected.push(&self.texts[index], &self.labels[index]);
        }
        selected
    }

    fn by_label(&self) -> BTreeMap<&str, Vec<usize>> {
        let mut members: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (index, label) in self.labels.iter().enumerate() {
            members.entry(label).or_default().push(index);
        }
        members
    }

    /// BLAKE3 of all labels and texts, in hexadecimal, which identifies training data.
    pub fn checksum(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for field in self.labels.iter().zip(&self.texts).flat_map(|(l, t)| [l, t]) {
            hasher.update(&(field.len() as u64).to_le_bytes());
            hasher.update(field.as_bytes());
        }
        hasher.finalize().to_hex().to_string()
    }
}

fn csv_error(path: &Path, error: csv::Error) -> DataError {
    let path = path.to_owned();
    let line = error.position().map_or(0, csv::Position::line);
    let found = error.to_string();
    match error.into_kind() {
        csv::ErrorKind::Io(source) => DataError::Io { path, source },
        _ => DataError::Record {
            path,
            line,
            found,
            needed: "a CSV record with as many fields as the header, in UTF-8".to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(content: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        fs::write(file.path(), content).expect("write");
        file
    }

    #[test]
    fn lines_split_at_the_first_tab() {
        let file = file(b"ham\tsay \"hi\"\tthere\r\n\nspam\tWIN\n");
        let data = Dataset::read_tab_separated(file.path()).expect("reads");
        assert_eq!(data.labels(), ["ham", "spam"]);
        assert_eq!(data.texts(), ["say \"hi\"\tthere", "WIN"]);
    }

    #[test]
    fn bad_lines_are_named() {
        for bad in [&b"ham\tok\nno tab\n"[..], b"ham\tok\n\ttext\n", b"ham\tok\nham\t\xff\n"] {
            let file = file(bad);
            let error = Dataset::read_tab_separated(file.path()).expect_err("refused");
            assert!(matches!(error, DataError::Record { line: 2, .. }), "{error}");
        }
        assert!(matches!(Dataset::read_tab_separated("no/such/file"), Err(DataError::Io { .. })));
    }

    #[test]
    fn csv_columns_are_found_by_name() {
        let file = file(b"id,label,text\n1,pos,\"good, \"\"very\"\"\ngood\"\n2,neg,bad\n");
        let data = Dataset::read_csv(file.path(), "text", "label").expect("reads");
        assert_eq!(data.labels(), ["pos", "neg"]);
        assert_eq!(data.texts(), ["good, \"very\"\ngood", "bad"]);
        let error = Dataset::read_csv(file.path(), "body", "label").expect_err("refused");
        assert!(error.to_string().contains("\"body\""), "{error}");
    }

    #[test]
    fn malformed_csv_is_refused() {
        for bad in [&b"text,label\na,b,c\n"[..], b"text,label\na,\n", b"text,label\n\xff,x\n"] {
            let file = file(bad);
            let error = Dataset::read_csv(file.path(), "text", "label").expect_err("refused");
            assert!(matches!(error, DataError::Record { line: 2, .. }), "{error}");
        }
    }

    fn numbered(ham: usize, spam: usize) -> Dataset {
        let texts = (0..ham + spam).map(|i| i.to_string()).collect();
        let labels = (0..ham + spam).map(|i| if i < ham { "ham" } else { "spam" }.to_owned()).collect();
        Dataset::new(texts, labels).expect("as many of each")
    }

    #[test]
    fn split_is_stratified_disjoint_and_seeded() {
        let data = numbered(870, 130);
        let split = data.split(0.1, 0.1, 7).expect("splits");
        assert_eq!([&split.train, &split.validation, &split.test].map(Dataset::len), [800, 100, 100]);
        for part in [&split.train, &split.validation, &split.test] {
            assert!((part.majority_share() - 0.87).abs() < 1e-9);
        }
        let mut all: Vec<String> =
            [&split.train, &split.validation, &split.test].iter().flat_map(|part| part.texts().to_vec()).collect();
        all.sort_unstable_by_key(|text| text.parse::<usize>().expect("a number"));
        assert_eq!(all, data.texts());
        assert_eq!(split, data.split(0.1, 0.1, 7).expect("splits"));
        assert_ne!(split, data.split(0.1, 0.1, 8).expect("splits"));
    }

    #[test]
    fn impossible_fractions_are_refused() {
        for (validation, test) in [(0.5, 0.5), (-0.1, 0.1), (0.1, f64::NAN)] {
            assert!(numbered(5, 5).split(validation, test, 0).is_err());
        }
    }

    #[test]
    fn checksum_depends_on_content_and_boundaries() {
        let one = |text: &str, label: &str| {
            Dataset::new(vec![text.to_owned()], vec![label.to_owned()]).expect("as many of each").checksum()
        };
        assert_eq!(one("ab", "c"), one("ab", "c"));
        assert_ne!(one("ab", "c"), one("b", "ca"));
        assert_ne!(one("ab", "c"), one("ab", "d"));
    }
}
