//! Parts of a task, and the accuracy on them.

pub(super) struct Part {
    /// The token ids of each text.
    pub(super) texts: Vec<Vec<u32>>,
    /// Whether the label of each text is the second one.
    pub(super) labels: Vec<bool>,
}

/// Accuracy: fractions of texts whose label was predicted correctly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Accuracy {
    /// In the training part.
    pub training: f64,
    /// In the held-out part.
    pub held_out: f64,
}
