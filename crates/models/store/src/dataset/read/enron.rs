//! Enron-Spam: folders of mails, or one CSV file.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

use encoding_rs::WINDOWS_1252;

use super::collect::{Collector, MAX_RECORD_BYTES};
use super::table;
use crate::dataset::Dataset;
use crate::error::StoreError;
use crate::pair::read_file;

/// The labels, which are the names of folders and the values of the CSV column.
const LABELS: [&str; 2] = ["ham", "spam"];
/// The columns of the CSV file.
const COLUMNS: [&str; 3] = ["Subject", "Message", "Spam/Ham"];
/// Maximum number of entries of a folder.
const MAX_ENTRIES: usize = 1 << 20;
/// The beginning of the first line of a mail.
const SUBJECT: &str = "Subject:";

pub(super) fn read(path: &Path) -> Result<Dataset, StoreError> {
    if path.is_dir() { read_folders(path) } else { read_csv(path) }
}

fn read_csv(path: &Path) -> Result<Dataset, StoreError> {
    let mut collector = Collector::new(path);
    table::read(path, b',', COLUMNS, |line, [subject, message, label]| {
        if !LABELS.contains(&label) {
            return Err(collector.refuse(line, format!("the label {label:?}"), "ham or spam"));
        }
        collector.push(&join(subject, message), label)
    })?;
    Ok(collector.finish())
}

fn read_folders(root: &Path) -> Result<Dataset, StoreError> {
    let mut collector = Collector::new(root);
    for folder in folders(root)? {
        for label in LABELS {
            for mail in mails(&folder.join(label))? {
                collector.push(&read_mail(&mail)?, label)?;
            }
        }
    }
    Ok(collector.finish())
}

/// The folders that have `ham` and `spam`: the root, or folders in it, by name.
fn folders(root: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let has = |folder: &Path, label: &str| folder.join(label).is_dir();
    let part = |folder: &Path| LABELS.iter().any(|label| has(folder, label));
    let found =
        if part(root) { vec![root.to_owned()] } else { entries(root)?.into_iter().filter(|path| part(path)).collect() };
    let refuse = |path: &Path, found: String| StoreError::Folder {
        path: path.to_owned(),
        found,
        needed: "the folders ham and spam, or folders such as enron1 that have both",
    };
    if found.is_empty() {
        return Err(refuse(root, "no folder ham or spam".to_owned()));
    }
    for folder in &found {
        if let Some(missing) = LABELS.iter().find(|label| !has(folder, label)) {
            return Err(refuse(folder, format!("no folder {missing}")));
        }
    }
    Ok(found)
}

/// The files `*.txt` of a folder, by name. Other files are not mails of the set.
fn mails(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let mut files = entries(folder)?;
    // Opening a pipe would wait for its writer.
    files.retain(|path| path.extension().is_some_and(|ending| ending == "txt") && path.is_file());
    Ok(files)
}

/// The entries of a folder, by name.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let mut found = Vec::new();
    let failed = StoreError::io("read", folder);
    for entry in fs::read_dir(folder).map_err(failed)? {
        if found.len() == MAX_ENTRIES {
            let found = format!("more than {MAX_ENTRIES} entries");
            return Err(StoreError::Folder { path: folder.to_owned(), found, needed: "a folder of mails" });
        }
        found.push(entry.map_err(failed)?.path());
    }
    found.sort_unstable();
    Ok(found)
}

/// The text of a mail's file.
fn read_mail(path: &Path) -> Result<String, StoreError> {
    let bytes = read_file(path, "a mail", MAX_RECORD_BYTES as u64)?;
    let text = decode(&bytes);
    let (first, body) = text.split_once('\n').unwrap_or((&text, ""));
    Ok(match first.strip_prefix(SUBJECT) {
        Some(subject) => join(subject, body),
        None => text.into_owned(),
    })
}

/// UTF-8 if the bytes are, else Windows-1252, the superset of Latin-1 in which most of the mails are written.
fn decode(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => WINDOWS_1252.decode_without_bom_handling(bytes).0,
    }
}

fn join(subject: &str, body: &str) -> String {
    format!("{}\n{}", subject.trim(), body.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, files: &[(&str, &[u8])]) {
        for (name, content) in files {
            let path = root.join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            fs::write(path, content).expect("write");
        }
    }

    #[test]
    fn folders_of_mails_are_read_in_order() {
        let root = tempfile::tempdir().expect("a folder");
        let files: [(&str, &[u8]); 7] = [
            ("enron2/ham/0001.2000-01-17.beck.ham.txt", b"Subject: leaving\r\nsee you\r\n"),
            ("enron2/spam/0002.txt", b"no subject\nat all"),
            ("enron1/Summary.txt", b"Legitimate: 1\n"),
            ("enron1/ham/0003.txt", b"Subject: only this"),
            ("enron1/ham/notes.md", b"not a mail"),
            ("enron1/spam/0004.txt", b"Subject: caf\xe9\nonly \x80 5\n"),
            ("enron1/spam/0003.txt", "Subject: café\nonly € 6\n".as_bytes()),
        ];
        write(root.path(), &files);
        let data = read(root.path()).expect("reads");
        assert_eq!(data.labels(), ["ham", "spam", "spam", "ham", "spam"]);
        let texts = ["only this\n", "café\nonly € 6", "café\nonly € 5", "leaving\nsee you", "no subject\nat all"];
        assert_eq!(data.texts(), texts);
        let one = read(&root.path().join("enron1")).expect("reads");
        assert_eq!(one.texts(), &texts[..3]);
    }

    #[test]
    fn other_layouts_are_named() {
        let root = tempfile::tempdir().expect("a folder");
        let error = read(root.path()).expect_err("refused").to_string();
        assert!(error.contains("found no folder ham or spam, needed the folders ham and spam, or"), "{error}");
        write(root.path(), &[("enron1/ham/1.txt", b"Subject: a\nb")]);
        let error = read(root.path()).expect_err("refused").to_string();
        assert!(error.contains("enron1: found no folder spam"), "{error}");
        assert!(matches!(read(&root.path().join("absent")), Err(StoreError::Io { .. })));
        let long = vec![b'x'; MAX_RECORD_BYTES + 1];
        write(root.path(), &[("enron1/spam/2.txt", &long)]);
        let error = read(root.path()).expect_err("refused").to_string();
        assert!(error.contains("2.txt: found a mail of more than 16777216 bytes"), "{error}");
    }

    #[test]
    fn the_csv_file_has_subject_message_and_label() {
        let root = tempfile::tempdir().expect("a folder");
        let path = root.path().join("enron_spam_data.csv");
        let head = "Message ID,Subject,Message,Spam/Ham,Date\n";
        let records = "0,christmas tree,,ham,1999-12-10\n1,win,\"a prize,\nnow \"\"free\"\"\",spam,2003-12-18\n";
        fs::write(&path, format!("{head}{records}")).expect("write");
        let data = read(&path).expect("reads");
        assert_eq!(data.labels(), ["ham", "spam"]);
        assert_eq!(data.texts(), ["christmas tree\n", "win\na prize,\nnow \"free\""]);

        fs::write(&path, format!("{head}{records}2,a,b,eggs,2004-01-01\n")).expect("write");
        let error = read(&path).expect_err("refused").to_string();
        assert!(error.contains("line 5: found the label \"eggs\", needed ham or spam"), "{error}");
        fs::write(&path, "Subject,Message\na,b\n").expect("write");
        assert!(matches!(read(&path), Err(StoreError::Column { needed, .. }) if needed == "Spam/Ham"));
    }
}
