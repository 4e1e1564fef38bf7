//! Passages of a collection in front of questions, found without revealing the question.

use std::path::PathBuf;

use anyhow::Context;
use serde_json::{Value, json};
use unspoken_chat::Passages;
use unspoken_client::ClientError;
use unspoken_client::transport::Cancel;
use unspoken_llama_model::ClientModel;
use unspoken_protocol::ErrorKind;
use unspoken_search_client::{Found, Searcher};
use zeroize::Zeroizing;

use crate::commands::connection::Target;
use crate::commands::search::{Embedder, TextEmbedder, check_embedder};
use crate::progress::{Bars, note};

/// Characters of a passage that are shown.
const SHOWN: usize = 60;

/// Passages of a collection in front of each question
#[derive(clap::Args)]
pub struct SearchOptions {
    /// Search a collection for passages before each question is answered: the address of its service, as for --url. The
    /// text is a question then. Neither service sees the question or what is found: passages are a part of the private
    /// text. As many passages are fetched, and as many tokens sent, whatever is found
    #[arg(long, value_name = "URL", requires = "words", conflicts_with = "covered_only")]
    search: Option<String>,
    /// The collection; not needed if that service has only one
    #[arg(long, value_name = "APPLICATION", requires = "search")]
    search_application: Option<String>,
    /// File with the access token for that service; without it none is sent to another service than that of --url
    #[arg(long, value_name = "FILE", requires = "search")]
    search_token_file: Option<PathBuf>,
    /// Passages that are fetched for each question
    #[arg(long, value_name = "N", default_value_t = 3, requires = "search",
        value_parser = clap::value_parser!(u16).range(1..=100))]
    passages: u16,
    /// Tokens that passages take in front of each question: longer ones are cut, and dots fill up what is missing
    #[arg(long, value_name = "N", default_value_t = 192, requires = "search")]
    passage_tokens: usize,
    #[command(flatten)]
    words: Embedder,
}

impl SearchOptions {
    /// What makes the vectors of questions, and the room for passages; nothing is sent.
    pub fn open(&self) -> anyhow::Result<Option<Finder>> {
        let embedder = self.words.open()?;
        if self.search.is_none() {
            anyhow::ensure!(
                embedder.is_none(),
                "--words: found no --search, needed the address of a collection's service"
            );
            return Ok(None);
        }
        let embedder = embedder.context("--search: needed --words, the one that the collection was built with")?;
        let passages = Passages::new(self.passage_tokens).context("--passage-tokens")?;
        Ok(Some(Finder { embedder, passages, count: self.passages.into(), searcher: None, refused: false }))
    }
}

/// Finds passages for the questions of a conversation.
pub struct Finder {
    embedder: TextEmbedder,
    pub passages: Passages,
    count: usize,
    searcher: Option<Searcher>,
    /// Whether an answer of the service was refused, which is final.
    refused: bool,
}

impl Finder {
    /// Connects to the collection, for which `target` has the options of a connection.
    pub fn connect(
        &mut self,
        (target, options): (&Target, &SearchOptions),
        bars: &mut Bars,
        cancel: &Cancel,
    ) -> anyhow::Result<()> {
        let url = options.search.as_deref().unwrap_or_default();
        let target = target.of_service(url, options.search_application.clone(), options.search_token_file.clone());
        let application = target.collection(cancel).context("--search")?;
        let open = |application: &str| target.open_beside(application);
        let searcher =
            Searcher::connect(&application, open, &mut |step| bars.step(step), cancel).context("--search")?;
        check_embedder(Some(&self.embedder), searcher.description())?;
        self.searcher = Some(searcher);
        Ok(())
    }

    /// A question without passages: whether its tokens are right is known before anything is sent.
    pub fn alone(&self, model: &ClientModel, question: &str) -> anyhow::Result<(Zeroizing<String>, Passages)> {
        let mut passages = self.passages.clone();
        let content = passages.ask::<&str>(model.tokenizer(), question, &[]).context("--passage-tokens")?;
        Ok((content, passages))
    }

    /// Finds passages, and puts them in front of the question. The same is sent for each question.
    pub fn ask(
        &mut self,
        model: &ClientModel,
        question: &str,
        bars: &mut Bars,
        cancel: &Cancel,
    ) -> anyhow::Result<(Zeroizing<String>, Vec<Found>)> {
        anyhow::ensure!(
            !self.refused,
            "--search: found a service whose answer was refused before, needed another one; nothing was sent"
        );
        let searcher = self.searcher.as_mut().context("--search: the collection is not connected")?;
        let vector = self.embedder.vector(question);
        if vector.is_none() {
            note("search      the table --words has no word of the question; passages are not used");
        }
        // The search must not depend on the words.
        let asked = vector.clone().unwrap_or_else(|| vec![1.0; searcher.description().shape().width()]);
        let found = searcher.find(&[asked], self.count, &mut |step| bars.step(step), cancel);
        let mut found = match found {
            Ok(found) => found.concat(),
            // What was found decides whether there is such an error, so the model is asked all the same.
            Err(ClientError::Application(error)) => {
                self.refused |= error.kind() == ErrorKind::Unreadable;
                note(&format!("warning     the search failed, and no passages are used: {error}"));
                Vec::new()
            }
            Err(error) => return Err(error).context("--search"),
        };
        if vector.is_none() {
            found.clear();
        }
        let texts: Vec<String> = found.iter().map(text).collect();
        let content = self.passages.ask(model.tokenizer(), question, &texts)?;
        Ok((content, found))
    }
}

/// The text of a document.
fn text(found: &Found) -> String {
    String::from_utf8_lossy(&found.document.content).into_owned()
}

/// Passages, as `--json` prints them.
pub fn objects(found: &[Found]) -> Value {
    let id = |found: &Found| found.document.id.as_deref().map(|id| String::from_utf8_lossy(id).into_owned());
    found.iter().map(|one| json!({ "cosine": one.cosine, "id": id(one), "text": text(one) })).collect()
}

/// Prints the beginnings of passages.
pub fn describe(found: &[Found]) {
    for one in found {
        let text = text(one);
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let shown: String = line.chars().take(SHOWN).collect();
        let dots = if line.chars().count() > SHOWN { ".." } else { "" };
        note(&format!("passage     {:.3}  {shown}{dots}", one.cosine));
    }
}
