//! One text to continue, once or several times.

use std::io::{self, IsTerminal, Read};
use std::sync::Arc;

use anyhow::Context;
use unspoken_chat::{ChatClient, Conversation, Passages, Wanted};
use unspoken_client::ServiceClient;
use unspoken_llama_model::Prompt;
use unspoken_search_client::Found;
use zeroize::Zeroizing;

use super::{Arguments, Asking, Told, look_at_coverage, public_text};
use crate::progress::note;

/// A prompt to continue, with the passages in it.
struct Text {
    prompt: Prompt,
    passages: Passages,
    found: Option<Vec<Found>>,
}

impl Asking<'_> {
    /// Continues the text of the arguments.
    pub(super) fn once(&mut self, told: &mut Vec<Told>) -> anyhow::Result<()> {
        let wanted = self.wanted.choices(self.arguments.choices as usize)?;
        let mut conversation = Conversation::new(Arc::clone(&self.model), wanted.len() > 1)?;
        let text = Zeroizing::new(private_text(self.arguments)?);
        // A mistake in the text must not cost a key upload.
        let alone = self.finder.as_ref().map(|finder| finder.alone(&self.model, &text)).transpose()?;
        let (prompt, passages) = match &alone {
            Some((content, passages)) => (self.question(content, &text)?, passages.clone()),
            None => (Prompt { public: public_text(self.arguments)?, private: text.clone() }, Passages::default()),
        };
        let tokens = self.read((&conversation, &passages), &prompt, 1)?;
        let uncovered = tokens.uncovered(&self.model);
        look_at_coverage(self.arguments, &uncovered)?;
        let mut client = self.connect()?;
        let (mut asked, mut found) = (Text { prompt, passages, found: None }, None);
        if let Some(content) = self.find(&text, &mut found)? {
            asked = Text { prompt: self.question(&content, &text)?, passages: self.passages(), found };
        }
        let tokens = self.read((&conversation, &asked.passages), &asked.prompt, self.chunk(&client))?;
        look_at_passages(&uncovered, &tokens.uncovered(&self.model));
        self.choices((&mut client, &mut conversation), &asked, wanted, told)?;
        told.iter().try_for_each(Told::check)
    }

    /// Makes each choice.
    fn choices(
        &mut self,
        (client, conversation): (&mut ServiceClient<ChatClient>, &mut Conversation),
        text: &Text,
        wanted: Vec<Wanted>,
        told: &mut Vec<Told>,
    ) -> anyhow::Result<()> {
        let all = wanted.len();
        for (number, wanted) in (1..).zip(wanted) {
            if all > 1 {
                note(&format!("choice      {number} of {all}"));
            }
            let tokens = self.read((conversation, &text.passages), &text.prompt, self.chunk(client))?;
            let mut this = Told::default();
            let said = self.say(client, conversation, (tokens, wanted), &mut this);
            this.found = text.found.clone();
            if number == 1 {
                // With the keys.
                this.usage = client.usage();
            }
            if !self.arguments.json && said.is_ok() {
                this.describe(client.description().chunk());
            }
            told.push(this);
            said?;
        }
        if all > 1 {
            self.close(client, conversation);
        }
        Ok(())
    }
}

/// Warns of such tokens in passages. Whether they are there depends on what was found, so nothing is refused.
fn look_at_passages(question: &[String], all: &[String]) {
    if all.len() > question.len() {
        note(
            "warning     the preparation of this model never ran some tokens of the passages; the answer may be wrong",
        );
    }
}

fn private_text(arguments: &Arguments) -> anyhow::Result<String> {
    if let Some(text) = &arguments.private {
        return Ok(text.clone());
    }
    if io::stdin().is_terminal() {
        note("private text, ended by Ctrl-D on a line of its own:");
    }
    let failed = "cannot read the private text from standard input";
    let mut text = Vec::new();
    io::stdin().read_to_end(&mut text).context(failed)?;
    let mut text = unspoken_files::decode_text(text).context(failed)?;
    // A line break at the end is the terminal's, not the text's.
    let length = text.strip_suffix('\n').map_or(text.len(), str::len);
    text.truncate(length);
    Ok(text)
}
