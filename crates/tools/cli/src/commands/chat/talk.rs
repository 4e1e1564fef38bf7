//! Conversations on the terminal.

use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use unspoken_chat::{ChatClient, Conversation};
use unspoken_client::ServiceClient;
use unspoken_llama_model::{Message, Prompt, Rendering};

use super::{Asking, Seen, Told, ask, look_at_coverage};
use crate::progress::note;

/// Pause between two looks at whether the command was interrupted.
const PAUSE: Duration = Duration::from_millis(200);

/// What a line asks for.
#[derive(Debug, PartialEq)]
enum Line {
    Message(String),
    /// Another message in place of the last one.
    Again(String),
    New,
    Quit,
}

impl Line {
    /// Reads a line; `None` for an empty one.
    fn read(line: &str) -> anyhow::Result<Option<Self>> {
        let line = line.trim();
        let (command, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        Ok(Some(match (command, rest.trim()) {
            ("", _) => return Ok(None),
            ("/again", message) if !message.is_empty() => Line::Again(message.to_owned()),
            ("/new", "") => Line::New,
            ("/quit", "") => Line::Quit,
            (command, _) if command.starts_with('/') => {
                anyhow::bail!("found {line:?}, needed a message, /again MESSAGE, /new or /quit")
            }
            _ => Line::Message(line.to_owned()),
        }))
    }
}

impl Asking<'_> {
    /// Answers the lines of standard input.
    pub(super) fn talk(&mut self) -> anyhow::Result<()> {
        let system = self.system();
        let first: Vec<Message> = system.clone().into_iter().chain([Message::new("user", "a")]).collect();
        // A model without a template, or a template without such messages: this must not cost a key upload.
        self.model.tokenizer().prompt(&first, self.public(), &Rendering::default())?;
        self.finder.as_ref().map(|finder| finder.alone(&self.model, "a")).transpose()?;
        let mut client = self.connect()?;
        let mut conversation = Conversation::new(Arc::clone(&self.model), true)?;
        let mut messages: Vec<Message> = system.iter().cloned().collect();
        let lines = lines();
        while let Some(line) = self.next_line(&lines)? {
            let before = messages.clone();
            let talked = match Line::read(&line) {
                Ok(None) => continue,
                Ok(Some(Line::Quit)) => break,
                Ok(Some(Line::New)) => {
                    messages.truncate(usize::from(system.is_some()));
                    self.forget_passages(&messages);
                    continue;
                }
                Ok(Some(Line::Message(text))) => self.answer(&mut client, &mut conversation, &mut messages, text),
                Ok(Some(Line::Again(text))) => {
                    let last = messages.iter().rposition(|message| message.role == "user");
                    messages.truncate(last.unwrap_or(messages.len()));
                    self.forget_passages(&messages);
                    self.answer(&mut client, &mut conversation, &mut messages, text)
                }
                Err(error) => Err(error),
            };
            match talked {
                // A person can go on after a mistake; a program must notice.
                Err(error) if io::stdin().is_terminal() && !self.cancel.is_cancelled() => {
                    messages = before;
                    self.forget_passages(&messages);
                    note(&format!("error: {error:#}"));
                }
                talked => talked?,
            }
        }
        self.close(&mut client, &mut conversation);
        Ok(())
    }

    /// Forgets the passages of questions that are no longer among the messages. Those of a last question that is
    /// forgotten by mistake are only encoded as any other text.
    fn forget_passages(&mut self, messages: &[Message]) {
        let questions = messages.iter().filter(|message| message.role == "user").count();
        self.finder.iter_mut().for_each(|finder| finder.passages.truncate(questions));
    }

    pub(super) fn system(&self) -> Option<Message> {
        let text = self.arguments.public_system.as_ref().or(self.arguments.private_system.as_ref());
        text.map(|text| Message::new("system", text))
    }

    /// Number of public messages.
    fn public(&self) -> usize {
        usize::from(self.arguments.public_system.is_some())
    }

    /// The prompt of messages.
    pub(super) fn prompt(&self, messages: &[Message]) -> anyhow::Result<Prompt> {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let rendering = Rendering { unix_seconds: seconds as i64, ..Rendering::default() };
        Ok(self.model.tokenizer().prompt(messages, self.public(), &rendering)?)
    }

    /// Answers a message, after the others.
    fn answer(
        &mut self,
        client: &mut ServiceClient<ChatClient>,
        conversation: &mut Conversation,
        messages: &mut Vec<Message>,
        text: String,
    ) -> anyhow::Result<()> {
        let mut found = None;
        if self.finder.is_some() {
            // What is refused must not depend on what is found: the question alone is refused before.
            self.prompt(&[&messages[..], &[Message::new("user", &*text)]].concat())?;
        }
        let content = self.find(&text, &mut found)?.map_or(text, |content| content.to_string());
        messages.push(Message::new("user", content));
        let prompt = self.prompt(messages)?;
        let tokens = self.read((conversation, &self.passages()), &prompt, self.chunk(client))?;
        look_at_coverage(self.arguments, &tokens.uncovered(&self.model))?;
        let mut told = Told::default();
        self.say(client, conversation, (tokens, self.wanted.clone()), &mut told)?;
        told.found = found;
        if self.arguments.json {
            println!("{}", told.object(None));
        } else {
            told.describe_shortly();
        }
        told.check()?;
        messages.push(Message::new("assistant", told.text));
        Ok(())
    }

    /// Ends the session, if the service can be reached.
    pub(super) fn close(&mut self, client: &mut ServiceClient<ChatClient>, conversation: &mut Conversation) {
        conversation.close();
        if let Some(question) = conversation.question() {
            let mut seen = Seen::default();
            if ask(client, &question, &mut self.bars, &mut seen, &self.cancel).is_err() {
                note("session     the service was not told that it has ended; it forgets it after a while");
            }
        }
    }

    /// The next line; `None` at the end of the input, and after an interrupt.
    fn next_line(&self, lines: &Receiver<io::Result<String>>) -> anyhow::Result<Option<String>> {
        if io::stdin().is_terminal() {
            eprint!("> ");
            io::stderr().flush()?;
        }
        loop {
            match lines.recv_timeout(PAUSE) {
                Ok(line) => return line.map(Some).context("cannot read standard input"),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) if self.cancel.is_cancelled() => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

/// The lines of standard input, from a thread: a read cannot be interrupted.
fn lines() -> Receiver<io::Result<String>> {
    let (sender, receiver) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_messages_or_commands() {
        let read = |line: &str| Line::read(line).unwrap();
        assert_eq!(read("  "), None);
        assert_eq!(read(" Why is it? \n"), Some(Line::Message("Why is it?".into())));
        assert_eq!(read("/again  Why not? "), Some(Line::Again("Why not?".into())));
        assert_eq!((read("/new"), read(" /quit ")), (Some(Line::New), Some(Line::Quit)));
        for wrong in ["/again", "/new it", "/help"] {
            let error = Line::read(wrong).unwrap_err().to_string();
            assert!(error.contains(wrong) && error.contains("/again MESSAGE"), "{error}");
        }
    }
}
