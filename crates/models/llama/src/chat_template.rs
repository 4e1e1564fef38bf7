//! Templates of conversations: from messages to the text that a model continues.

use std::collections::BTreeMap;

use hf_chat_template::{ChatTemplate as Compiled, FixedClock};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use crate::error::InputError;
use crate::tokenizer::Tokenizer;

/// A message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// Who says it: `system`, `user`, `assistant`, or another role that the template knows.
    pub role: String,
    /// The text.
    pub content: String,
}

impl Message {
    /// A message of a role.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Message { role: role.into(), content: content.into() }
    }
}

/// The template of a model in Jinja, as `tokenizer_config.json`, `chat_template.jinja` and GGUF files have it. It
/// renders as the Python package transformers does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChatTemplate {
    source: String,
    /// Variables of the template with texts of tokens, such as `bos_token`.
    tokens: BTreeMap<String, String>,
}

/// What a template may use beside the messages.
#[derive(Clone, Debug, Default)]
pub struct Rendering {
    /// The time, for templates that tell the model the date, in seconds since 1970.
    pub unix_seconds: i64,
    /// Variables that only some templates have, such as `enable_thinking`.
    pub variables: Map<String, Value>,
}

/// A text to continue: its public part, and the private one after it.
#[derive(Clone, Default)]
pub struct Prompt {
    /// What a service may read.
    pub public: String,
    /// What it must not see.
    pub private: Zeroizing<String>,
}

/// Does not print the private part.
impl std::fmt::Debug for Prompt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Prompt({:?}, ..)", self.public)
    }
}

/// Stands for a private message while the text in front of it is rendered: a noncharacter of Unicode, which texts do
/// not contain.
const PLACE: &str = "\u{fdd0}";

impl ChatTemplate {
    /// A template from its source, and variables with texts of tokens.
    ///
    /// # Errors
    /// [`InputError::Template`] if the source is not a template.
    pub fn new(source: impl Into<String>, tokens: BTreeMap<String, String>) -> Result<Self, InputError> {
        let template = ChatTemplate { source: source.into(), tokens };
        template.compiled(0)?;
        Ok(template)
    }

    /// Its variables with texts of tokens.
    pub fn tokens(&self) -> &BTreeMap<String, String> {
        &self.tokens
    }

    pub(crate) fn into_parts(self) -> (String, BTreeMap<String, String>) {
        (self.source, self.tokens)
    }

    fn compiled(&self, unix_seconds: i64) -> Result<Compiled, InputError> {
        let builder = Compiled::builder(&self.source).clock(FixedClock::from_unix_secs(unix_seconds));
        builder.build().map_err(|error| InputError::Template(error.to_string()))
    }

    /// The text in front of the first private message and of what the template puts around it: it depends on the public
    /// messages, on the role of the first private one, and on the time only.
    fn front(&self, messages: &[Message], public: usize, rendering: &Rendering) -> Result<String, InputError> {
        let place = |role: &str| Message::new(role, PLACE);
        let role = messages[public].role.as_str();
        let mut all = messages[..public].to_vec();
        all.push(place(role));
        let alone = match self.render(&all, false, rendering) {
            // Some templates refuse conversations that end with such a message.
            Err(error) if public > 0 => return Err(error),
            Err(_) => return Ok(String::new()),
            Ok(text) => text,
        };
        let front = &alone[..alone.find(PLACE).unwrap_or(0)];
        if let Some(last) = messages[..public].last() {
            let content = last.content.trim();
            let end = front.rfind(content).map_or(0, |begin| begin + content.len());
            return Ok(front[..end].to_owned());
        }
        // What stands between two messages of which the second has this role, too, belongs to the message.
        let Ok(three) = self.render(&[place(role), place("assistant"), place(role)], false, rendering) else {
            return Ok(String::new());
        };
        let Some(between) = three.split(PLACE).nth(2) else { return Ok(String::new()) };
        let same = front.chars().rev().zip(between.chars().rev()).take_while(|(a, b)| a == b);
        let own: usize = same.map(|(character, _)| character.len_utf8()).sum();
        Ok(front[..front.len() - own].to_owned())
    }

    /// The text of messages; `answer` adds the beginning of the answer.
    ///
    /// # Errors
    /// [`InputError::Template`] if the template refuses the messages, for instance because of their roles.
    pub fn render(
        &self,
        messages: &[Message],
        answer: bool,
        rendering: &Rendering,
    ) -> Result<Zeroizing<String>, InputError> {
        let mut context = rendering.variables.clone();
        for (name, text) in &self.tokens {
            context.insert(name.clone(), Value::from(text.as_str()));
        }
        let message = |message: &Message| {
            let [role, content] = [&message.role, &message.content].map(|text| Value::from(text.as_str()));
            Value::Object(Map::from_iter([("role".to_owned(), role), ("content".to_owned(), content)]))
        };
        context.insert("messages".to_owned(), messages.iter().map(message).collect());
        context.insert("add_generation_prompt".to_owned(), Value::from(answer));
        let rendered = self.compiled(rendering.unix_seconds)?.render_context(&context);
        rendered.map(Zeroizing::new).map_err(|error| InputError::Template(error.to_string()))
    }
}

impl Tokenizer {
    /// The text of a conversation that the model answers. The first `public` messages are public. Without any, what the
    /// template itself says in front of the first message is public, such as a system message of its own.
    ///
    /// # Errors
    /// [`InputError::Template`] if the model has no template, if the template refuses the messages or does not put
    /// public ones first, if no message is private, or if one contains the text of a control token.
    pub fn prompt(&self, messages: &[Message], public: usize, rendering: &Rendering) -> Result<Prompt, InputError> {
        let refused = |found: String| Err(InputError::Template(found));
        let Some(template) = self.chat_template() else {
            return refused("this model has none; continue a text, or prepare the model with --chat-template".into());
        };
        if public >= messages.len() {
            let count = messages.len();
            return refused(format!("found {count} messages of which {public} are public, needed a private one"));
        }
        let controls: Vec<String> = self.controls().into_iter().filter_map(|token| self.token_text(token)).collect();
        for (number, message) in (1..).zip(messages) {
            let is_in =
                |control: &&String| [&message.role, &message.content].iter().any(|text| text.contains(*control));
            let contained = controls.iter().find(is_in);
            if let Some(control) = contained.filter(|control| !control.trim().is_empty()) {
                return refused(format!(
                    "message {number} contains {control}, which would end it or begin another; write it differently"
                ));
            }
        }
        let whole = template.render(messages, true, rendering)?;
        // Variables may have texts of the person who asks.
        let plain = Rendering { unix_seconds: rendering.unix_seconds, ..Rendering::default() };
        let front = template.front(messages, public, &plain)?;
        let has_all = messages[..public].iter().all(|message| front.contains(message.content.trim()));
        match whole.strip_prefix(front.as_str()).filter(|_| has_all) {
            Some(private) => Ok(Prompt { public: front.clone(), private: Zeroizing::new(private.to_owned()) }),
            None if public == 0 => Ok(Prompt { public: String::new(), private: whole }),
            None => refused(format!("it does not put the {public} public messages in front; keep all private")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHATML: &str = "{% for message in messages %}{% if loop.first and message.role != 'system' %}\
        <|start|>system\nbe kind<|end|>\n{% endif %}\
        <|start|>{{ message['role'] }}\n{{ message['content'] | trim }}<|end|>\n{% endfor %}\
        {% if add_generation_prompt %}<|start|>assistant\n{% endif %}";

    /// Two control tokens, and words.
    fn tokenizer(template: &str) -> Tokenizer {
        let special = |id: u32, text: &str| {
            format!(
                r#"{{"id": {id}, "content": "{text}", "special": true, "single_word": false, "lstrip": false,
                    "rstrip": false, "normalized": false}}"#
            )
        };
        let json = format!(
            r#"{{"version": "1.0", "added_tokens": [{}, {}], "pre_tokenizer": {{"type": "WhitespaceSplit"}},
                "model": {{"type": "WordLevel", "vocab": {{"the": 0, "dog": 1}}, "unk_token": "the"}}}}"#,
            special(2, "<|start|>"),
            special(3, "<|end|>")
        );
        let tokens = BTreeMap::from([("bos_token".to_owned(), "<|start|>".to_owned())]);
        let template = ChatTemplate::new(template, tokens).unwrap();
        Tokenizer::from_json(json.as_bytes(), None, &[]).unwrap().with_chat_template(Some(template))
    }

    fn messages(roles: &[&str]) -> Vec<Message> {
        roles.iter().enumerate().map(|(number, role)| Message::new(*role, format!(" text {number} "))).collect()
    }

    fn split(template: &str, messages: &[Message], public: usize) -> Result<(String, String), String> {
        let prompt = tokenizer(template).prompt(messages, public, &Rendering::default());
        prompt.map(|prompt| (prompt.public, prompt.private.to_string())).map_err(|error| error.to_string())
    }

    #[test]
    fn what_the_template_puts_in_front_is_public_and_messages_are_if_they_are_declared() {
        let all = messages(&["system", "user", "assistant", "user"]);
        let rest = "<|start|>system\ntext 0<|end|>\n<|start|>user\ntext 1<|end|>\n<|start|>assistant\ntext 2<|end|>\n\
                    <|start|>user\ntext 3<|end|>\n<|start|>assistant\n";
        assert_eq!(split(CHATML, &all, 0).unwrap(), (String::new(), rest.into()));
        let front = "<|start|>system\ntext 0";
        let rest = rest.strip_prefix(front).unwrap();
        assert_eq!(split(CHATML, &all, 1).unwrap(), (front.into(), rest.into()));
        // What the template says itself.
        let (public, private) = split(CHATML, &all[1..2], 0).unwrap();
        assert_eq!(public, "<|start|>system\nbe kind");
        assert_eq!(private, "<|end|>\n<|start|>user\ntext 1<|end|>\n<|start|>assistant\n");
        // The public part does not depend on the private messages, nor on their number.
        for count in 2..4 {
            let other: Vec<Message> = all[1..count].iter().map(|of| Message::new(&*of.role, "other")).collect();
            assert_eq!(split(CHATML, &other, 0).unwrap().0, public);
        }
    }

    /// A template may write variables, such as tools, in front of all messages.
    #[test]
    fn variables_are_never_public() {
        let source = "<|start|>system\nTools: {{ tools }}.{% for m in messages %}<|end|>{{ m.content }}{% endfor %}";
        let variables = Map::from_iter([("tools".to_owned(), Value::from("secret"))]);
        let rendering = Rendering { variables, ..Rendering::default() };
        let all = messages(&["user", "user"]);
        let prompt = tokenizer(source).prompt(&all, 0, &rendering).unwrap();
        assert_eq!(prompt.public, "");
        assert!(prompt.private.contains("Tools: secret."));
        let error = tokenizer(source).prompt(&all, 1, &rendering).unwrap_err().to_string();
        assert!(error.contains("keep all private"), "{error}");
    }

    #[test]
    fn a_header_belongs_to_its_message() {
        let plain = "Talk.\n{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}";
        assert_eq!(split(plain, &messages(&["user"]), 0).unwrap(), ("Talk.".into(), "\nuser:  text 0 \n".into()));
        // A template that refuses conversations of another form tells nothing of its own.
        let strict =
            "Talk.{% if messages | length > 1 %}{{ raise_exception('one') }}{% endif %}{{ messages[0].content }}";
        assert_eq!(split(strict, &messages(&["user"]), 0).unwrap(), (String::new(), "Talk. text 0 ".into()));
    }

    #[test]
    fn templates_have_the_date_the_tokens_and_variables_of_their_own() {
        let source = "{{ bos_token }}{{ strftime_now('%d %b %Y') }} {{ thinking }}{{ messages[0].content }}";
        let tokens = BTreeMap::from([("bos_token".to_owned(), "<s>".to_owned())]);
        let template = ChatTemplate::new(source, tokens).unwrap();
        let variables = Map::from_iter([("thinking".to_owned(), Value::from("no"))]);
        let rendering = Rendering { unix_seconds: 1_700_000_000, variables };
        let text = template.render(&messages(&["user"]), true, &rendering).unwrap();
        assert_eq!(*text, "<s>14 Nov 2023 no text 0 ");
    }

    #[test]
    fn what_cannot_be_said_is_refused() {
        let all = messages(&["system", "user"]);
        assert!(split(CHATML, &all, 2).unwrap_err().contains("2 messages of which 2 are public"));
        let hidden = [Message::new("user", "a<|end|>b")];
        assert!(split(CHATML, &hidden, 0).unwrap_err().contains("message 1 contains <|end|>"));
        let last_first = "{% for m in messages | reverse %}<|start|>{{ m.content }}<|end|>{% endfor %}";
        assert!(split(last_first, &all, 1).unwrap_err().contains("keep all private"));
        let raising = "{{ raise_exception('no system') if messages[0].role == 'system' }}{{ messages[0].content }}";
        assert!(split(raising, &all, 0).unwrap_err().contains("no system"));
        assert!(ChatTemplate::new("{% for %}", BTreeMap::new()).unwrap_err().to_string().contains("compile"));
        let without = tokenizer(CHATML).with_chat_template(None);
        let error = without.prompt(&all, 0, &Rendering::default()).unwrap_err().to_string();
        assert!(error.contains("--chat-template"), "{error}");
    }
}
