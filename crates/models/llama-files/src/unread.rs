//! Tensors of a file that no part of the model reads.

use std::path::Path;

use crate::error::LoadError;

/// Number of tensors that a message names.
const NAMED: usize = 3;

/// Refuses a file with tensors that were not read: without them, another model would give the text.
pub fn refuse_unread(path: &Path, mut names: Vec<&str>) -> Result<(), LoadError> {
    if names.is_empty() {
        return Ok(());
    }
    names.sort_unstable();
    let more = match names.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let found = format!("tensors that this program does not use, {}{more}", names[..names.len().min(NAMED)].join(", "));
    let needed = "a model whose tensors are all those of its architecture; remove the others if the model does not \
                  need them";
    Err(LoadError::content(path, found, needed))
}
