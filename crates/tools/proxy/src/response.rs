//! Answers in OpenAI's protocol.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use unspoken_chat::End;
use unspoken_llama_model::{ClientModel, Probabilities, Scored};

use crate::failure::Failure;
use crate::worker::Usage;

/// The two kinds of completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The next message of a conversation.
    Chat,
    /// What follows a text.
    Text,
}

/// Writes the answer to a request, whole or in pieces.
pub(crate) struct Writer {
    kind: Kind,
    id: String,
    model: String,
    created: u64,
    client: Arc<ClientModel>,
    choices: Vec<Choice>,
}

/// What is known of a choice.
#[derive(Clone, Default)]
struct Choice {
    text: String,
    probabilities: Vec<Probabilities>,
    end: Option<&'static str>,
}

/// Why a choice has ended, in the words of the protocol.
fn reason(end: Option<End>) -> &'static str {
    match end {
        Some(End::Maximum | End::Context) => "length",
        _ => "stop",
    }
}

impl Writer {
    pub fn new(
        kind: Kind,
        model: &str,
        created: u64,
        choices: usize,
        client: Arc<ClientModel>,
    ) -> Result<Self, Failure> {
        let mut number = [0; 12];
        getrandom::fill(&mut number).map_err(|error| Failure::broken(error.to_string()))?;
        let prefix = if kind == Kind::Chat { "chatcmpl" } else { "cmpl" };
        let id = format!("{prefix}-{}", hex::encode(number));
        Ok(Writer { kind, id, model: model.to_owned(), created, client, choices: vec![Choice::default(); choices] })
    }

    pub fn add(&mut self, choice: usize, text: &str, probabilities: Vec<Probabilities>) {
        if let Some(choice) = self.choices.get_mut(choice) {
            choice.text += text;
            choice.probabilities.extend(probabilities);
        }
    }

    pub fn end(&mut self, choice: usize, end: Option<End>) {
        if let Some(choice) = self.choices.get_mut(choice) {
            choice.end = Some(reason(end));
        }
    }

    /// An object of the answer.
    fn object(&self, streamed: bool, choices: Vec<Value>) -> Map<String, Value> {
        let object = match (self.kind, streamed) {
            (Kind::Chat, true) => "chat.completion.chunk",
            (Kind::Chat, false) => "chat.completion",
            (Kind::Text, _) => "text_completion",
        };
        let fields = [
            ("id", json!(self.id)),
            ("object", json!(object)),
            ("created", json!(self.created)),
            ("model", json!(self.model)),
            ("choices", Value::Array(choices)),
        ];
        fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// The whole answer.
    pub fn whole(&self, usage: Usage) -> Value {
        let choices = self.choices.iter().enumerate().map(|(index, choice)| {
            let logprobs = self.log_probabilities(&choice.probabilities, 0);
            match self.kind {
                Kind::Chat => json!({
                    "index": index, "finish_reason": choice.end, "logprobs": logprobs,
                    "message": { "role": "assistant", "content": choice.text, "refusal": null },
                }),
                Kind::Text => json!({
                    "index": index, "finish_reason": choice.end, "logprobs": logprobs, "text": choice.text,
                }),
            }
        });
        let mut object = self.object(false, choices.collect());
        object.insert("usage".to_owned(), usage_object(usage));
        Value::Object(object)
    }

    /// What a stream begins with.
    pub fn begin(&self) -> Vec<Value> {
        let role = json!({ "role": "assistant", "content": "" });
        match self.kind {
            Kind::Chat => (0..self.choices.len()).map(|index| self.delta(index, &role, Value::Null, None)).collect(),
            Kind::Text => Vec::new(),
        }
    }

    /// A piece of a choice.
    pub fn piece(&mut self, choice: usize, text: &str, probabilities: Vec<Probabilities>) -> Value {
        let before = self.choices.get(choice).map_or(0, |choice| choice.text.chars().count());
        let logprobs = self.log_probabilities(&probabilities, before);
        self.add(choice, text, Vec::new());
        match self.kind {
            Kind::Chat => self.delta(choice, &json!({ "content": text }), logprobs, None),
            Kind::Text => self.text(choice, text, logprobs, None),
        }
    }

    /// The end of a choice.
    pub fn last(&self, choice: usize, end: Option<End>) -> Value {
        match self.kind {
            Kind::Chat => self.delta(choice, &json!({}), Value::Null, Some(reason(end))),
            Kind::Text => self.text(choice, "", Value::Null, Some(reason(end))),
        }
    }

    fn delta(&self, index: usize, delta: &Value, logprobs: Value, end: Option<&str>) -> Value {
        let choice = json!({ "index": index, "delta": delta, "logprobs": logprobs, "finish_reason": end });
        Value::Object(self.object(true, vec![choice]))
    }

    fn text(&self, index: usize, text: &str, logprobs: Value, end: Option<&str>) -> Value {
        let choice = json!({ "index": index, "text": text, "logprobs": logprobs, "finish_reason": end });
        Value::Object(self.object(true, vec![choice]))
    }

    /// What a stream took.
    pub fn usage(&self, usage: Usage) -> Value {
        let mut object = self.object(true, Vec::new());
        object.insert("usage".to_owned(), usage_object(usage));
        Value::Object(object)
    }

    /// Log-probabilities of tokens and of others in their places, after a number of characters; null if they were not
    /// asked for.
    fn log_probabilities(&self, places: &[Probabilities], before: usize) -> Value {
        if places.is_empty() {
            return Value::Null;
        }
        let text = |scored: &Scored| self.client.tokenizer().decode(&[scored.token]).unwrap_or_default();
        let scored = |of: &Scored| {
            let text = text(of);
            json!({ "token": text, "logprob": of.log_probability, "bytes": text.as_bytes() })
        };
        match self.kind {
            Kind::Chat => {
                let place = |place: &Probabilities| {
                    let mut told = scored(&place.token);
                    told["top_logprobs"] = place.alternatives.iter().map(scored).collect();
                    told
                };
                json!({ "content": places.iter().map(place).collect::<Vec<_>>() })
            }
            Kind::Text => {
                let top = |place: &Probabilities| -> Value {
                    let all = place.alternatives.iter();
                    Value::Object(all.map(|of| (text(of), json!(of.log_probability))).collect())
                };
                let texts: Vec<String> = places.iter().map(|place| text(&place.token)).collect();
                let offsets: Vec<usize> = texts
                    .iter()
                    .scan(before, |end, text| Some(std::mem::replace(end, *end + text.chars().count())))
                    .collect();
                json!({
                    "tokens": texts,
                    "token_logprobs": places.iter().map(|place| place.token.log_probability).collect::<Vec<_>>(),
                    "top_logprobs": places.iter().map(top).collect::<Vec<_>>(),
                    "text_offset": offsets,
                })
            }
        }
    }
}

fn usage_object(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.generated,
        "total_tokens": usage.prompt + usage.generated,
        "prompt_tokens_details": { "cached_tokens": usage.cached },
    })
}

/// Vectors of texts.
pub(crate) fn embeddings(model: &str, vectors: &[Vec<f32>], base64: bool) -> Value {
    let vector = |vector: &Vec<f32>| {
        if base64 {
            let bytes: Vec<u8> = vector.iter().flat_map(|value| value.to_le_bytes()).collect();
            return json!(STANDARD.encode(bytes));
        }
        json!(vector)
    };
    let object =
        |(index, of): (usize, &Vec<f32>)| json!({ "object": "embedding", "index": index, "embedding": vector(of) });
    json!({
        "object": "list", "model": model, "data": vectors.iter().enumerate().map(object).collect::<Vec<_>>(),
        // Words are looked up, and have no price.
        "usage": { "prompt_tokens": 0, "total_tokens": 0 },
    })
}
