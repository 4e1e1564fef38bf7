//! Requests in OpenAI's protocol. A field that is not known is refused with its name, and so is one that asks for what
//! a private model does not do.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny};
use serde_json::{Map, Value};
use unspoken_chat::{ChatError, Wanted};
use unspoken_llama_model::{MAX_ALTERNATIVES, Message, Prompt, Rendering, Sampling, Tokenizer};
use zeroize::Zeroizing;

use crate::failure::Failure;

/// Choices of one request, at most: they are made one after the other.
const MAX_CHOICES: usize = 8;

/// Strings that end a text, at most, and bytes of each.
const MAX_STOPS: usize = 16;
const MAX_STOP_BYTES: usize = 256;

/// What is asked for.
pub(crate) struct Asked {
    pub model: String,
    pub text: Source,
    pub wanted: Wanted,
    pub choices: usize,
    pub stream: bool,
    /// Whether a stream ends with what it took.
    pub usage: bool,
}

/// The text to continue.
pub(crate) enum Source {
    Messages { messages: Vec<Message>, public: Option<usize>, variables: Map<String, Value> },
    Text(Prompt),
}

impl Source {
    /// The text. `system` says whether system messages in front are public where the request does not say so.
    pub fn prompt(&self, tokenizer: &Tokenizer, system: bool, unix_seconds: i64) -> Result<Prompt, ChatError> {
        match self {
            Source::Text(prompt) => Ok(prompt.clone()),
            Source::Messages { messages, public, variables } => {
                let systems = || messages.iter().take_while(|message| system && message.role == "system").count();
                let rendering = Rendering { unix_seconds, variables: variables.clone() };
                Ok(tokenizer.prompt(messages, public.unwrap_or_else(systems), &rendering)?)
            }
        }
    }
}

/// A field that must ask for nothing: null, false, or empty.
#[derive(Default)]
struct Nothing;

impl<'de> Deserialize<'de> for Nothing {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Null | Value::Bool(false) => Ok(Nothing),
            Value::Array(values) if values.is_empty() => Ok(Nothing),
            Value::Object(fields) if fields.is_empty() => Ok(Nothing),
            found => Err(D::Error::custom(format!("found {found}, needed nothing: a private model does not do this"))),
        }
    }
}

/// One string or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum Strings {
    One(String),
    Several(Vec<String>),
}

impl Strings {
    fn into_list(self) -> Vec<String> {
        match self {
            Strings::One(text) => vec![text],
            Strings::Several(texts) => texts,
        }
    }
}

/// The fields of both kinds of requests. `top_k`, `min_p`, `repetition_penalty` and `chat_template_kwargs` are those of
/// other servers of this protocol; `public_messages` and `public` are of this one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)] // Some fields are read only to be refused.
struct Fields {
    model: String,
    temperature: Option<f64>,
    top_p: Option<f64>,
    top_k: Option<i64>,
    min_p: Option<f64>,
    presence_penalty: Option<f64>,
    frequency_penalty: Option<f64>,
    repetition_penalty: Option<f64>,
    logit_bias: Option<BTreeMap<String, f64>>,
    seed: Option<i64>,
    stop: Option<Strings>,
    n: Option<usize>,
    max_tokens: Option<usize>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    // Conversations.
    messages: Option<Vec<MessageFields>>,
    public_messages: Option<usize>,
    max_completion_tokens: Option<usize>,
    top_logprobs: Option<usize>,
    chat_template_kwargs: Option<Map<String, Value>>,
    response_format: Option<ResponseFormat>,
    // Texts.
    prompt: Option<Strings>,
    public: Option<String>,
    // A truth value for conversations, a number for texts.
    logprobs: Option<Value>,
    // Without effect: they go nowhere.
    user: Option<IgnoredAny>,
    metadata: Option<IgnoredAny>,
    service_tier: Option<IgnoredAny>,
    safety_identifier: Option<IgnoredAny>,
    prompt_cache_key: Option<IgnoredAny>,
    prompt_cache_retention: Option<IgnoredAny>,
    parallel_tool_calls: Option<IgnoredAny>,
    // What a private model does not do.
    #[serde(default)]
    store: Nothing,
    #[serde(default)]
    tools: Nothing,
    #[serde(default)]
    functions: Nothing,
    #[serde(default)]
    audio: Nothing,
    #[serde(default)]
    prediction: Nothing,
    #[serde(default)]
    reasoning_effort: Nothing,
    #[serde(default)]
    verbosity: Nothing,
    #[serde(default)]
    web_search_options: Nothing,
    #[serde(default)]
    echo: Nothing,
    #[serde(default)]
    suffix: Nothing,
    tool_choice: Option<ToolChoice>,
    function_call: Option<ToolChoice>,
    modalities: Option<Vec<Modality>>,
    best_of: Option<usize>,
}

/// Without tools there is nothing to choose.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum ToolChoice {
    None,
    Auto,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Modality {
    Text,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
    #[serde(default)]
    include_obfuscation: Nothing,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum ResponseFormat {
    Text,
}

/// A message. Those of earlier answers come with fields that are empty.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)]
struct MessageFields {
    role: String,
    content: Option<Content>,
    #[serde(default)]
    name: Nothing,
    #[serde(default)]
    refusal: Nothing,
    #[serde(default)]
    annotations: Nothing,
    #[serde(default)]
    audio: Nothing,
    #[serde(default)]
    function_call: Nothing,
    #[serde(default)]
    tool_calls: Nothing,
    #[serde(default)]
    tool_call_id: Nothing,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum Part {
    Text { text: String },
}

impl MessageFields {
    fn message(self) -> Message {
        let content = match self.content {
            None => String::new(),
            Some(Content::Text(text)) => text,
            Some(Content::Parts(parts)) => parts.into_iter().map(|Part::Text { text }| text).collect(),
        };
        // The newer name.
        let role = if self.role == "developer" { "system".to_owned() } else { self.role };
        Message { role, content }
    }
}

/// A refusal of a field.
fn refused(field: &'static str, found: impl std::fmt::Display, needed: &str) -> Failure {
    Failure::request(Some(field), format!("{field}: found {found}, needed {needed}"))
}

impl Asked {
    /// Reads a request for the next message of a conversation.
    pub fn chat(body: &[u8], most: usize) -> Result<Self, Failure> {
        let mut fields = Fields::read(body)?;
        for (name, is_there) in [("prompt", fields.prompt.is_some()), ("public", fields.public.is_some())] {
            if is_there {
                return Err(refused(name, "it", "messages; /v1/completions continues a text"));
            }
        }
        let messages = fields.messages.take().unwrap_or_default();
        if messages.is_empty() {
            return Err(refused("messages", "none", "one or more"));
        }
        let told = match (fields.logprobs.take(), fields.top_logprobs) {
            (None | Some(Value::Null | Value::Bool(false)), None | Some(0)) => None,
            (Some(Value::Bool(true)), number) => Some(number.unwrap_or(0)),
            (Some(Value::Bool(_)) | Some(Value::Null) | None, Some(number)) => {
                return Err(refused("top_logprobs", number, "\"logprobs\": true"));
            }
            (Some(found), _) => return Err(refused("logprobs", found, "true or false")),
        };
        let text = Source::Messages {
            messages: messages.into_iter().map(MessageFields::message).collect(),
            public: fields.public_messages,
            variables: fields.chat_template_kwargs.take().unwrap_or_default(),
        };
        fields.asked(text, told, most)
    }

    /// Reads a request to continue a text.
    pub fn text(body: &[u8], most: usize) -> Result<Self, Failure> {
        let mut fields = Fields::read(body)?;
        for (name, is_there) in [
            ("messages", fields.messages.is_some()),
            ("public_messages", fields.public_messages.is_some()),
            ("top_logprobs", fields.top_logprobs.is_some()),
            ("chat_template_kwargs", fields.chat_template_kwargs.is_some()),
            ("response_format", fields.response_format.is_some()),
        ] {
            if is_there {
                return Err(refused(name, "it", "a prompt; /v1/chat/completions takes messages"));
            }
        }
        let mut prompts = fields.prompt.take().map(Strings::into_list).unwrap_or_default();
        let (Some(private), true) = (prompts.pop(), prompts.is_empty()) else {
            return Err(refused("prompt", format!("{} texts", prompts.len() + 1), "one; ask for each by itself"));
        };
        let told = match fields.logprobs.take() {
            None | Some(Value::Null) => None,
            Some(found) => {
                let number = found.as_u64().and_then(|number| usize::try_from(number).ok());
                Some(number.ok_or_else(|| refused("logprobs", found, "a number"))?)
            }
        };
        let public = fields.public.take().unwrap_or_default();
        let text = Source::Text(Prompt { public, private: Zeroizing::new(private) });
        fields.asked(text, told, most)
    }
}

impl Fields {
    fn read(body: &[u8]) -> Result<Self, Failure> {
        serde_json::from_slice(body).map_err(|error| Failure::request(None, format!("the request: {error}")))
    }

    /// The request. `most` tokens are generated if it does not say how many.
    fn asked(self, text: Source, told: Option<usize>, most: usize) -> Result<Asked, Failure> {
        let choices = self.n.unwrap_or(1);
        if !(1..=MAX_CHOICES).contains(&choices) {
            return Err(refused("n", choices, &format!("1 to {MAX_CHOICES}")));
        }
        if self.best_of.is_some_and(|best| best != choices) {
            return Err(refused("best_of", "another number than n", "that of n"));
        }
        if told.is_some_and(|told| told > MAX_ALTERNATIVES) {
            return Err(refused("top_logprobs", told.unwrap_or(0), &format!("at most {MAX_ALTERNATIVES}")));
        }
        let tokens = self.max_completion_tokens.or(self.max_tokens).unwrap_or(most);
        if tokens == 0 {
            return Err(refused("max_tokens", 0, "1 or more"));
        }
        let mut biases = BTreeMap::new();
        for (token, bias) in self.logit_bias.unwrap_or_default() {
            let id = token.parse().map_err(|_| refused("logit_bias", format!("{token:?}"), "ids of tokens"))?;
            biases.insert(id, bias);
        }
        // By the protocol, tokens are chosen at random if nothing is said.
        let temperature = self.temperature.unwrap_or(1.0);
        let random = temperature > 0.0;
        let top_k = match self.top_k {
            // Other servers of this protocol have -1 for all.
            None | Some(-1) => 0,
            Some(number) => {
                usize::try_from(number).map_err(|_| refused("top_k", number, "0 or more, or -1 for all"))?
            }
        };
        let sampling = Sampling {
            temperature: Some(temperature),
            // Without randomness they change nothing.
            top_k: if random { top_k } else { 0 },
            top_p: self.top_p.filter(|_| random).unwrap_or(1.0),
            min_p: self.min_p.filter(|_| random).unwrap_or(0.0),
            seed: self.seed.filter(|_| random).map(|seed| seed as u64),
            repetition_penalty: self.repetition_penalty.unwrap_or(1.0),
            presence_penalty: self.presence_penalty.unwrap_or(0.0),
            frequency_penalty: self.frequency_penalty.unwrap_or(0.0),
            logit_bias: biases,
            log_probabilities: told,
        };
        let stops = self.stop.map(Strings::into_list).unwrap_or_default();
        if stops.len() > MAX_STOPS || stops.iter().any(|stop| stop.len() > MAX_STOP_BYTES) {
            let needed = format!("at most {MAX_STOPS} strings of {MAX_STOP_BYTES} bytes");
            return Err(refused("stop", format!("{} strings, or a long one", stops.len()), &needed));
        }
        Ok(Asked {
            model: self.model,
            text,
            wanted: Wanted { tokens, sampling, stops },
            choices,
            stream: self.stream.unwrap_or(false),
            usage: self.stream_options.is_some_and(|options| options.include_usage),
        })
    }
}

/// What is to be embedded: `POST /v1/embeddings`.
pub(crate) struct EmbeddingsAsked {
    pub model: String,
    pub texts: Vec<String>,
    /// Whether vectors are 32-bit numbers in base64.
    pub base64: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)]
struct EmbeddingFields {
    model: String,
    input: Strings,
    encoding_format: Option<EncodingFormat>,
    #[serde(default)]
    dimensions: Nothing,
    user: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum EncodingFormat {
    Float,
    Base64,
}

impl EmbeddingsAsked {
    pub fn read(body: &[u8]) -> Result<Self, Failure> {
        let fields: EmbeddingFields =
            serde_json::from_slice(body).map_err(|error| Failure::request(None, format!("the request: {error}")))?;
        let base64 = matches!(fields.encoding_format, Some(EncodingFormat::Base64));
        Ok(EmbeddingsAsked { model: fields.model, texts: fields.input.into_list(), base64 })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn chat(more: Value) -> Result<Asked, String> {
        let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "Why?"}]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Asked::chat(body.to_string().as_bytes(), 99).map_err(|failure| failure.message)
    }

    #[test]
    fn a_request_is_read_with_the_defaults_of_the_protocol() {
        let asked = chat(json!({})).unwrap();
        assert_eq!((asked.model.as_str(), asked.choices, asked.stream, asked.usage), ("m", 1, false, false));
        assert_eq!((asked.wanted.tokens, asked.wanted.sampling.temperature), (99, Some(1.0)));
        let Source::Messages { messages, public: None, .. } = asked.text else { panic!() };
        assert_eq!(messages, [Message::new("user", "Why?")]);
        let asked = chat(json!({
            "max_completion_tokens": 5, "temperature": 0.5, "top_p": 0.9, "top_k": -1, "seed": -3, "n": 2,
            "stop": "x", "logit_bias": {"17": -100}, "logprobs": true, "top_logprobs": 2, "stream": true,
            "stream_options": {"include_usage": true}, "user": "me", "tools": [], "tool_choice": "none",
            "response_format": {"type": "text"}, "modalities": ["text"], "public_messages": 0, "store": null,
        }))
        .unwrap();
        let Wanted { tokens, sampling, stops } = asked.wanted;
        assert_eq!((tokens, stops, asked.choices), (5, vec!["x".to_owned()], 2));
        assert_eq!((sampling.top_k, sampling.seed), (0, Some(-3i64 as u64)));
        assert_eq!((sampling.logit_bias, sampling.log_probabilities), ([(17, -100.0)].into(), Some(2)));
        assert!(asked.stream && asked.usage);
    }

    #[test]
    fn messages_come_as_clients_send_them() {
        let asked = chat(json!({"messages": [
            {"role": "developer", "content": "Be kind."},
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            {"role": "assistant", "content": "c", "refusal": null, "annotations": [], "tool_calls": null},
        ]}));
        let Source::Messages { messages, .. } = asked.unwrap().text else { panic!() };
        let needed = [("system", "Be kind."), ("user", "ab"), ("assistant", "c")];
        assert_eq!(messages, needed.map(|(role, content)| Message::new(role, content)));
    }

    #[test]
    fn what_is_not_done_is_refused_by_its_name() {
        for (more, part) in [
            (json!({"colour": "red"}), "colour"),
            (json!({"tools": [{"type": "function"}]}), "needed nothing"),
            (json!({"tool_choice": "required"}), "required"),
            (json!({"response_format": {"type": "json_object"}}), "json_object"),
            (json!({"messages": []}), "messages: found none"),
            (json!({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}), "Content"),
            (json!({"n": 9}), "n: found 9, needed 1 to 8"),
            (json!({"max_tokens": 0}), "max_tokens"),
            (json!({"logprobs": 3}), "true or false"),
            (json!({"stop": vec!["a"; 17]}), "at most 16 strings"),
            (json!({"stop": "a".repeat(257)}), "of 256 bytes"),
            (json!({"top_logprobs": 3}), "\"logprobs\": true"),
            (json!({"logprobs": true, "top_logprobs": 21}), "at most 20"),
            (json!({"logit_bias": {"cat": 1}}), "ids of tokens"),
            (json!({"prompt": "a"}), "/v1/completions"),
        ] {
            let error = chat(more.clone()).err().unwrap_or_else(|| panic!("{more}"));
            assert!(error.contains(part), "{part}: {error}");
        }
        let text = |body: Value| Asked::text(body.to_string().as_bytes(), 9).map_err(|failure| failure.message);
        assert!(text(json!({"model": "m", "prompt": ["a", "b"]})).err().unwrap().contains("2 texts"));
        assert!(text(json!({"model": "m", "prompt": "a", "echo": true})).err().unwrap().contains("needed nothing"));
        assert!(text(json!({"model": "m", "messages": []})).err().unwrap().contains("/v1/chat/completions"));
        let Source::Text(prompt) = text(json!({"model": "m", "prompt": ["a"], "public": "b"})).unwrap().text else {
            panic!()
        };
        assert_eq!((prompt.public.as_str(), prompt.private.as_str()), ("b", "a"));
    }
}
