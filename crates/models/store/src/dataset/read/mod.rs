//! Readers of labelled texts. A file from outside needs a bounded amount of memory, whatever it contains.

mod collect;
mod drugs;
mod enron;
mod lines;
mod table;

use std::path::Path;

use collect::Collector;

use super::Dataset;
use crate::error::StoreError;

impl Dataset {
    /// Reads lines of `label<TAB>text`, the format of the SMS spam collection.
    ///
    /// Each line is split at its first tab; later tabs belong to the text. Quotes have no special meaning. Empty lines
    /// are skipped; a byte-order mark at the start and a carriage return at the end of a line are dropped.
    ///
    /// # Errors
    /// [`StoreError::Io`], [`StoreError::TooLarge`], or [`StoreError::Record`] for a line that is not UTF-8, has no
    /// tab, has an empty label or is longer than 16 MiB.
    pub fn read_tab_separated(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        lines::read_tab_separated(path.as_ref())
    }

    /// Reads lines in the format of fastText: words that begin with `__label__` are labels, the others the text. A line
    /// with several labels is a record for each of them. Empty lines are skipped.
    ///
    /// # Errors
    /// As for [`Dataset::read_tab_separated`]; [`StoreError::Record`] for a line without a label.
    pub fn read_fasttext(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        lines::read_marked(path.as_ref())
    }

    /// Reads a CSV file with a header, quoted as in RFC 4180, with this byte between fields, using one named column as
    /// text and one as label. Other columns are ignored.
    ///
    /// # Errors
    /// [`StoreError::Io`], [`StoreError::TooLarge`], [`StoreError::Column`] when the header lacks a column or has it
    /// twice, or [`StoreError::Record`] for a malformed record, an empty label or a record longer than 16 MiB.
    pub fn read_csv(
        path: impl AsRef<Path>,
        delimiter: u8,
        text_column: &str,
        label_column: &str,
    ) -> Result<Self, StoreError> {
        let path = path.as_ref();
        let mut collector = Collector::new(path);
        table::read(path, delimiter, [text_column, label_column], |line, [text, label]| {
            if label.is_empty() {
                let needed = format!("a label in column {label_column:?}");
                return Err(collector.refuse(line, "an empty label", needed));
            }
            collector.push(text, label)
        })?;
        Ok(collector.finish())
    }

    /// Reads Enron-Spam (Metsis, Androutsopoulos and Paliouras, CEAS 2006) in one of its public forms, with the labels
    /// `ham` and `spam`. The text of a mail is its subject, a line feed and its body.
    ///
    /// - A folder with the folders `ham` and `spam`, or with several folders that have them (`enron1` to `enron6`).
    ///   Each file `*.txt` is a mail whose first line is `Subject: ...`. A file that is not UTF-8 is read as
    ///   Windows-1252, which decodes all bytes. Mails are in the order of folder, label and file name.
    /// - A CSV file with columns `Subject`, `Message` and `Spam/Ham`, in UTF-8.
    ///
    /// # Errors
    /// [`StoreError::Io`], [`StoreError::TooLarge`] for a mail of more than 16 MiB too, [`StoreError::Folder`] for a
    /// folder with another layout, [`StoreError::Column`] and [`StoreError::Record`] as in [`Dataset::read_csv`].
    pub fn read_enron_spam(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        enron::read(path.as_ref())
    }

    /// Reads reviews of drugs in the format of the UCI set "Drug Review Dataset (Drugs.com)" (Gräßer, Kallumadi,
    /// Malberg and Zaunseder, DH 2018): `drugsComTrain_raw.tsv` or `drugsComTest_raw.tsv`, tab-separated, quoted as in
    /// RFC 4180, with columns `review` and `rating`.
    ///
    /// Ratings of 1 to 5 have the label `negative`, ratings of 6 to 10 `positive`, as in the lookup paper, Appendix
    /// D.2. A rating that is one of these words is the label itself. Of a review the outer quotes are removed, HTML
    /// entities are decoded and white space is one space.
    ///
    /// # Errors
    /// The errors of [`Dataset::read_csv`]; [`StoreError::Record`] for another rating too.
    pub fn read_drug_reviews(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        drugs::read(path.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

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
    fn a_byte_order_mark_is_no_part_of_the_first_label() {
        for content in ["\u{feff}ham\tok\r\n", "\u{feff}text,label\nok,ham\n"] {
            let file = file(content.as_bytes());
            let data = match content.contains('\t') {
                true => Dataset::read_tab_separated(file.path()),
                false => Dataset::read_csv(file.path(), b',', "text", "label"),
            };
            assert_eq!(data.expect("reads").labels(), ["ham"]);
        }
    }

    #[test]
    fn labels_are_marked_as_in_fasttext() {
        let file =
            file("\u{feff}__label__ham see you\r\n\n__label__a __label__b win  now\nsay __label__c\n".as_bytes());
        let data = Dataset::read_fasttext(file.path()).expect("reads");
        assert_eq!(data.labels(), ["ham", "a", "b", "c"]);
        assert_eq!(data.texts(), ["see you", "win now", "win now", "say"]);
        for bad in [&b"__label__a ok\nno label\n"[..], b"__label__a ok\n__label__ text\n", b"__label__a ok\n\xff\n"] {
            let file = self::file(bad);
            let error = Dataset::read_fasttext(file.path()).expect_err("refused");
            assert!(matches!(error, StoreError::Record { line: 2, .. }), "{error}");
        }
    }

    #[test]
    fn csv_has_the_delimiter_that_was_named_and_each_column_once() {
        let semicolons = file("label;text\nham;see, you\n".as_bytes());
        let data = Dataset::read_csv(semicolons.path(), b';', "text", "label").expect("reads");
        assert_eq!((data.labels(), data.texts()), (&["ham".to_owned()][..], &["see, you".to_owned()][..]));
        let twice = file(b"text,label,text\na,b,c\n");
        let error = Dataset::read_csv(twice.path(), b',', "text", "label").expect_err("refused").to_string();
        assert!(error.contains("columns 1 and 3 are both called \"text\""), "{error}");
    }

    #[test]
    fn bad_lines_are_named() {
        for bad in [&b"ham\tok\nno tab\n"[..], b"ham\tok\n\ttext\n", b"ham\tok\nham\t\xff\n"] {
            let file = file(bad);
            let error = Dataset::read_tab_separated(file.path()).expect_err("refused");
            assert!(matches!(error, StoreError::Record { line: 2, .. }), "{error}");
        }
        assert!(matches!(Dataset::read_tab_separated("no/such/file"), Err(StoreError::Io { .. })));
    }

    #[test]
    fn csv_columns_are_found_by_name() {
        let file = file(b"id,label,text\n1,pos,\"good, \"\"very\"\"\ngood\"\n2,neg,bad\n");
        let data = Dataset::read_csv(file.path(), b',', "text", "label").expect("reads");
        assert_eq!(data.labels(), ["pos", "neg"]);
        assert_eq!(data.texts(), ["good, \"very\"\ngood", "bad"]);
        let error = Dataset::read_csv(file.path(), b',', "body", "label").expect_err("refused");
        assert!(error.to_string().contains("\"body\""), "{error}");
    }

    #[test]
    fn malformed_csv_is_refused() {
        for bad in [&b"text,label\na,b,c\n"[..], b"text,label\na,\n", b"text,label\n\xff,x\n"] {
            let file = file(bad);
            let error = Dataset::read_csv(file.path(), b',', "text", "label").expect_err("refused");
            assert!(matches!(error, StoreError::Record { line: 2, .. }), "{error}");
        }
    }

    #[test]
    fn endless_records_are_refused_by_line() {
        // The reader of CSV has read some of the record before it begins.
        let long = "x".repeat(collect::MAX_RECORD_BYTES + (1 << 20));
        let lines = file(format!("ham\tok\nham\t{long}\n").as_bytes());
        let csv = file(format!("text,label\nok,ham\n\"{long}").as_bytes());
        let results = [Dataset::read_tab_separated(lines.path()), Dataset::read_csv(csv.path(), b',', "text", "label")];
        for (error, line) in results.map(|result| result.expect_err("refused")).iter().zip([2, 3]) {
            assert!(error.to_string().contains(&format!("line {line}: found a record of more than")), "{error}");
        }
    }
}
