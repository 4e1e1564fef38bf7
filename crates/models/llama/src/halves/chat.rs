//! The file with the template of conversations.

use std::path::Path;

use serde::{Deserialize, Serialize};
use unspoken_store::{ModelFiles, ModelId, StoreError};

use super::read_optional;
use crate::chat_template::ChatTemplate;

/// Name of the file, and its largest size.
const FILE: &str = "chat_template.json";
const MAX_BYTES: u64 = 1 << 20;

/// The content of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record<T> {
    /// The id of both halves of the model.
    id: ModelId,
    template: T,
}

/// Writes the file into the directory of a client's half.
pub(super) fn save(template: &ChatTemplate, directory: &Path, id: ModelId) -> Result<(), StoreError> {
    let path = directory.join(FILE);
    let bytes = serde_json::to_vec(&Record { id, template }).map_err(StoreError::json(&path))?;
    unspoken_store::write_file(&path, &bytes)
}

/// Reads what [`save`] wrote; `None` if there is no such file, as for models that only continue texts.
pub(super) fn read(files: ModelFiles<'_>, id: ModelId) -> Result<Option<ChatTemplate>, StoreError> {
    let record: Option<Record<ChatTemplate>> = read_optional(files, FILE, MAX_BYTES)?;
    let Some(Record { id: found, template }) = record else { return Ok(None) };
    let path = files.path(FILE);
    if found != id {
        let needed = format!("that of model {id}; prepare the model again");
        return Err(StoreError::tensor(&path, format!("the template of model {found}"), needed));
    }
    let (source, tokens) = template.into_parts();
    let checked = ChatTemplate::new(source, tokens);
    checked.map(Some).map_err(|error| StoreError::tensor(&path, error.to_string(), "a template in Jinja"))
}
