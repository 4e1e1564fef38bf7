//! What a chain continues: a served model and a text.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use unspoken_chat::ServedModel;
use unspoken_llama::Preparation;
use unspoken_llama_model::{ClientModel, Model, TamedModel};

use super::stories::Stories;
use crate::error::BenchError;

/// A model as a service and a client have it, and a text that neither calibration nor margins have seen.
pub(super) struct Subject {
    pub(super) name: String,
    pub(super) served: ServedModel,
    pub(super) client: Arc<ClientModel>,
    /// Tokens, the first of which are those of the prefix.
    pub(super) text: Vec<u32>,
}

impl Subject {
    /// stories260K, with polynomials for chunks of `chunk` tokens, and one of its stories.
    pub(super) fn stories(root: &Path, chunk: usize) -> Result<Self, BenchError> {
        let stories = Stories::prepare(root, chunk)?;
        let served = stories.served();
        Ok(Subject { name: "stories260K".into(), served, client: stories.client, text: stories.unseen[0].clone() })
    }

    /// A preparation, named by its directory, and the beginning of a file of text.
    pub(super) fn prepared(prepared: &Prepared) -> Result<Self, BenchError> {
        let Prepared { directory, text } = prepared;
        let preparation = Preparation::load(directory)?;
        let served = ServedModel::new(&preparation, TamedModel::load(directory)?)?;
        let client = ClientModel::load(&Preparation::client_directory(directory))?;
        let text = std::fs::read_to_string(text)
            .map_err(|error| BenchError::File { path: text.clone(), reason: error.to_string() })?;
        let tokens = client.tokenizer().encode(&text)?;
        let text = served.prefix.iter().copied().chain(tokens).take(served.context).collect();
        let name = directory.file_name().unwrap_or(directory.as_os_str()).to_string_lossy().into_owned();
        Ok(Subject { name, served, client: Arc::new(client), text })
    }

    /// The model in the clear.
    pub(super) fn model(&self) -> &Arc<Model> {
        &self.served.model
    }

    /// The first `count` tokens of the text.
    pub(super) fn begin(&self, count: usize) -> Result<&[u32], BenchError> {
        let found = self.text.len();
        self.text.get(..count).ok_or(BenchError::Text { what: "the text of a chain", found, needed: count })
    }
}

/// A preparation and a text, as they were named.
pub(super) struct Prepared {
    pub(super) directory: PathBuf,
    pub(super) text: PathBuf,
}
