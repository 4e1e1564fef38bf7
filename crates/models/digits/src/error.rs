//! Errors of this crate.

use std::path::PathBuf;

use unspoken_store::StoreError;

/// Images could not be read, or a network could not be trained, built, read or written.
#[derive(Debug, thiserror::Error)]
pub enum DigitsModelError {
    /// A file of a network could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file of images or labels could not be opened or read.
    #[error(
        "read {path}: {source}; check that the file exists and is readable (`python3 scripts/fetch_data.py mnist` \
         fetches MNIST)",
        path = path.display()
    )]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The content of a file of images or labels does not fit its name.
    #[error(
        "read {path}: found {found}, needed {needed}; write it as an uncompressed IDX file, as MNIST's are",
        path = path.display()
    )]
    Content {
        /// The file.
        path: PathBuf,
        /// What was found.
        found: String,
        /// What was needed.
        needed: String,
    },
    /// The input is not an image.
    #[error("make an image: found {found} pixels, needed {needed}; scale and crop it to 28 x 28 first")]
    Image {
        /// The number of pixels.
        found: usize,
        /// What was needed.
        needed: String,
    },
    /// Images and labels do not fit together.
    #[error("pair images with labels: found {found}, needed {needed}; use the labels that belong to the images")]
    Labels {
        /// What was found.
        found: String,
        /// What was needed.
        needed: &'static str,
    },
    /// A field of a network has an invalid value.
    #[error("check the model: found {field}: {found}, needed {needed}; train or download the model again")]
    Field {
        /// The field.
        field: &'static str,
        /// Its value.
        found: String,
        /// The values allowed.
        needed: String,
    },
    /// An option of the training is outside its range.
    #[error("train: found {name} = {found}, needed {needed}; change the option")]
    Option {
        /// The option's name.
        name: &'static str,
        /// Its value.
        found: String,
        /// The values allowed.
        needed: String,
    },
    /// A weight became infinite or not a number.
    #[error("train: found a weight that is not finite in epoch {epoch}, needed finite weights; lower the rate")]
    Diverged {
        /// The epoch, from 1.
        epoch: usize,
    },
    /// The caller raised the cancellation flag.
    #[error("train: cancelled in epoch {epoch}; nothing was kept, train again from the start")]
    Cancelled {
        /// The epoch, from 1.
        epoch: usize,
    },
}

impl DigitsModelError {
    /// The error of a field with an invalid value.
    pub(crate) fn field(field: &'static str, found: impl ToString, needed: impl ToString) -> Self {
        Self::Field { field, found: found.to_string(), needed: needed.to_string() }
    }
}
