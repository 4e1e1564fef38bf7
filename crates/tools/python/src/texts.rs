//! Labelled texts of files.

use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use unspoken_store::Dataset;

use crate::failure::Failure;

/// The texts and the labels of a file or folder.
type Texts = (Vec<String>, Vec<String>);

/// Reads texts and their labels; the columns belong to the kind `csv`.
#[pyfunction]
pub(crate) fn load_texts(
    py: Python<'_>,
    path: PathBuf,
    kind: &str,
    text_column: Option<&str>,
    label_column: Option<&str>,
    delimiter: u8,
) -> PyResult<Texts> {
    let read = || match (kind, text_column, label_column) {
        ("tab", None, None) => Ok(Dataset::read_tab_separated(&path)),
        ("fasttext", None, None) => Ok(Dataset::read_fasttext(&path)),
        ("csv", Some(text), Some(label)) => Ok(Dataset::read_csv(&path, delimiter, text, label)),
        ("enron-spam", None, None) => Ok(Dataset::read_enron_spam(&path)),
        ("drug-reviews", None, None) => Ok(Dataset::read_drug_reviews(&path)),
        _ => Err(PyValueError::new_err(format!(
            "read texts: found kind={kind:?}, needed \"tab\", \"fasttext\", \"enron-spam\", \
             \"drug-reviews\", or \"csv\" with text_column= and label_column=, which only that kind has"
        ))),
    };
    let data = py.detach(read)?.map_err(Failure::training)?;
    Ok((data.texts().to_vec(), data.labels().to_vec()))
}
