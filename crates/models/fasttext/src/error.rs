//! Errors of this crate.

use unspoken_store::StoreError;

/// A model, or half of one, could not be trained, built, read or written.
#[derive(Debug, thiserror::Error)]
pub enum FastTextError {
    /// A file could not be read or written, or the numbers of texts and labels differ.
    #[error(transparent)]
    Store(#[from] StoreError),
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
    /// A class has no examples, or its weight is outside its range.
    #[error(
        "train: found the weight {weight} of class {label:?}, needed weights above 0 and at most 10000 of classes with \
         training examples; change the weights"
    )]
    Weights {
        /// The label.
        label: String,
        /// Its weight.
        weight: f32,
    },
    /// A classifier needs two classes or more.
    #[error(
        "train: found {found} distinct labels among {examples} examples, needed 2 to {most}; pass examples of each \
         class"
    )]
    Classes {
        /// Distinct labels found.
        found: usize,
        /// Examples to train on.
        examples: usize,
        /// Maximum number of classes.
        most: usize,
    },
    /// A weight became infinite or not a number.
    #[error(
        "train: found a weight that is not finite in epoch {epoch}, needed finite weights; lower the learning rates"
    )]
    Diverged {
        /// The epoch, from 1, counted over both phases.
        epoch: usize,
    },
    /// The caller raised the cancellation flag.
    #[error("train: cancelled in epoch {epoch}; nothing was kept, train again from the start")]
    Cancelled {
        /// The epoch, from 1, counted over both phases.
        epoch: usize,
    },
    /// A field of a model has an invalid value.
    #[error("check the model: found {field}: {found}, needed {needed}; train or download the model again")]
    Field {
        /// The field.
        field: &'static str,
        /// Its value.
        found: String,
        /// The values allowed.
        needed: String,
    },
    /// The two halves were not trained together.
    #[error(
        "join the halves of a model: found client {client}, server {server}, needed the same {what}; use the two \
         halves of one training run"
    )]
    Halves {
        /// What differs.
        what: &'static str,
        /// The client half's value.
        client: String,
        /// The server half's value.
        server: String,
    },
}

impl FastTextError {
    /// The error of a field with an invalid value.
    pub(crate) fn field(field: &'static str, found: impl ToString, needed: impl ToString) -> Self {
        Self::Field { field, found: found.to_string(), needed: needed.to_string() }
    }
}
