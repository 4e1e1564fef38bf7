//! What a chain continues: a served model and a text.

use anyhow::Context;
use std::path::Path;
use std::sync::Arc;

use unspoken_chat::ServedModel;
use unspoken_llama::Preparation;
use unspoken_llama_model::{ClientModel, Model, RotatedModel};

use super::stories::Stories;

/// A model as a service and a client have it, and a text that neither calibration nor margins have seen.
pub(super) struct Subject {
    pub(super) name: String,
    pub(super) served: ServedModel,
    pub(super) client: Arc<ClientModel>,
    /// Tokens, which begin with the tokens of the prefix.
    pub(super) text: Vec<u32>,
}

impl Subject {
    /// stories260K, with polynomials for chunks of `chunk` tokens, and one of its stories.
    pub(super) fn stories(root: &Path, chunk: usize) -> anyhow::Result<Self> {
        let stories = Stories::prepare(root, chunk)?;
        let served = stories.served();
        Ok(Subject { name: "stories260K".into(), served, client: stories.client, text: stories.unseen[0].clone() })
    }

    /// A preparation, named by its directory, and the beginning of a file of text.
    pub(super) fn prepared(directory: &Path, text: &Path) -> anyhow::Result<Self> {
        let [record, ranges] = Preparation::FILES.map(|name| read(&directory.join(name)));
        let preparation = Preparation::from_bytes(&record?, &ranges?)?;
        let served = ServedModel::new(&preparation, RotatedModel::load(directory)?)?;
        let client = ClientModel::load(&directory.join("client"))?;
        let text = String::from_utf8_lossy(&read(text)?).into_owned();
        let tokens = client.tokenizer().encode(&text)?;
        let text = served.prefix.iter().copied().chain(tokens).take(served.context).collect();
        let name = directory.file_name().unwrap_or(directory.as_os_str()).to_string_lossy().into_owned();
        Ok(Subject { name, served, client: Arc::new(client), text })
    }

    /// The model in the clear.
    pub(super) fn model(&self) -> &Arc<Model> {
        &self.served.model
    }

    /// The first `public` tokens of the text, with the prefix, and the next `private` ones.
    pub(super) fn begin(&self, (public, private): (usize, usize)) -> anyhow::Result<&[u32]> {
        let needed = public + private;
        match self.text.get(..needed) {
            Some(begin) if self.served.prefix.len() <= public => Ok(begin),
            _ => {
                let (found, prefix, context) = (self.text.len(), self.served.prefix.len(), self.served.context);
                anyhow::bail!(
                    "the text of a chain: found {found} tokens with a prefix of {prefix}, in a context of {context}, \
                     needed {needed}; name a longer text, or prepare the model for more tokens"
                )
            }
        }
    }
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}
