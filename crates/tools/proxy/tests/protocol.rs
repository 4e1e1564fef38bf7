//! Requests to a proxy over HTTP, and a service in a small insecure ring.

mod support;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use support::{KEY, MODEL, SmallService};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use unspoken_llama_model::{ClientModel, Generation, Message, Rendering, RotatedModel};
use unspoken_proxy::Served;

/// A proxy, and what its texts must be.
struct Setting {
    address: SocketAddr,
    half: Arc<ClientModel>,
    clear: RotatedModel,
    served: Arc<Mutex<Vec<Served>>>,
}

impl Setting {
    async fn new(left: Option<usize>) -> Self {
        let (mut service, half, clear) = SmallService::new();
        service.left = left;
        let (address, served) = support::start(service, Arc::clone(&half)).await;
        Setting { address, half, clear, served }
    }

    /// A request with a key: the status and the body.
    async fn request(&self, method: &str, path: &str, body: &Value, key: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        let (status, body) = self.request("POST", path, &body, KEY).await;
        (status, serde_json::from_str(&body).unwrap_or(Value::Null))
    }

    /// The objects of a stream.
    async fn stream(&self, path: &str, body: Value) -> Vec<Value> {
        let (status, body) = self.request("POST", path, &body, KEY).await;
        assert_eq!(status, 200, "{body}");
        let mut data: Vec<&str> = body.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
        assert_eq!(data.pop(), Some("[DONE]"));
        data.into_iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// What the model in the clear says.
    fn told(&self, messages: &[Message], count: usize) -> String {
        let tokenizer = self.half.tokenizer();
        let prompt = tokenizer.prompt(messages, 0, &Rendering::default()).unwrap();
        let parts = [&*prompt.public, &prompt.private].map(|text| tokenizer.encode_continuation(text).unwrap());
        let prompt = [self.clear.prefix(), &parts.concat()].concat();
        let tokens = Generation::new(self.clear.model(), &prompt, tokenizer.ends()).unwrap().take(count);
        let mut stream = tokenizer.stream(&prompt).unwrap();
        tokens.map(|token| stream.push(token).unwrap()).collect()
    }

    fn served(&self) -> Served {
        self.served.lock().unwrap().last().unwrap().clone()
    }
}

fn messages(texts: &[(&str, &str)]) -> (Vec<Message>, Value) {
    let all: Vec<Message> = texts.iter().map(|(role, content)| Message::new(*role, *content)).collect();
    let value = serde_json::to_value(&all).unwrap();
    (all, value)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_is_answered_as_by_the_model_and_runs_what_is_new() {
    let setting = Setting::new(None).await;
    let greedy = |messages: &Value| json!({"model": MODEL, "messages": messages, "temperature": 0, "max_tokens": 3});
    let (first, value) = messages(&[("user", "One day, Tom went to")]);
    let (status, answer) = setting.post("/v1/chat/completions", greedy(&value)).await;
    assert_eq!(status, 200, "{answer}");
    let text = answer["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    assert_eq!(text, setting.told(&first, 3));
    assert_eq!((&answer["object"], &answer["model"]), (&json!("chat.completion"), &json!(MODEL)));
    assert_eq!(answer["choices"][0]["finish_reason"], "length");
    assert_eq!(answer["usage"]["completion_tokens"], 3);
    assert_eq!(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
    let served = setting.served();
    assert!(served.number == 1 && served.begun && served.passes >= 1 && served.tokens == 3, "{served:?}");
    assert!(served.bytes.iter().all(|bytes| *bytes > 1000) && served.public.is_empty(), "{served:?}");

    // The next message: what has run does not run again.
    let (second, value) =
        messages(&[("user", "One day, Tom went to"), ("assistant", &text), ("user", " with his mom")]);
    let (_, answer) = setting.post("/v1/chat/completions", greedy(&value)).await;
    assert_eq!(answer["choices"][0]["message"]["content"], setting.told(&second, 3));
    let cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap();
    assert!(cached >= 8, "{answer}");
    assert!(!setting.served().begun);

    // The same again, as a stream, with what it took.
    let mut body = greedy(&value);
    body["stream"] = json!(true);
    body["stream_options"] = json!({"include_usage": true});
    body["logprobs"] = json!(true);
    body["top_logprobs"] = json!(2);
    let events = setting.stream("/v1/chat/completions", body).await;
    assert_eq!(events[0]["choices"][0]["delta"]["role"], "assistant");
    let pieces = events.iter().filter_map(|event| event["choices"][0]["delta"]["content"].as_str());
    assert_eq!(pieces.collect::<String>(), setting.told(&second, 3));
    let places: Vec<&Value> =
        events.iter().filter_map(|event| event["choices"][0]["logprobs"]["content"].as_array()).flatten().collect();
    assert!(places.len() == 3 && places.iter().all(|place| place["top_logprobs"].as_array().unwrap().len() == 2));
    let (usage, last) = (events.last().unwrap(), &events[events.len() - 2]);
    assert_eq!((&usage["choices"], &usage["usage"]["completion_tokens"]), (&json!([]), &json!(3)));
    assert_eq!(last["choices"][0]["finish_reason"], "length");

    // Another conversation has a session of its own; the first one stays.
    let (other, value) = messages(&[("user", "Mia and the cat saw")]);
    let (_, answer) = setting.post("/v1/chat/completions", greedy(&value)).await;
    assert_eq!(answer["choices"][0]["message"]["content"], setting.told(&other, 3));
    let (third, value) = messages(&[("user", "One day, Tom went to"), ("assistant", &text), ("user", " and the dog")]);
    let (_, answer) = setting.post("/v1/chat/completions", greedy(&value)).await;
    assert_eq!(answer["choices"][0]["message"]["content"], setting.told(&third, 3));
    assert!(answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap() >= 8, "{answer}");

    // Public messages.
    let (_, value) = messages(&[("system", "Once upon a time"), ("user", ", a dog")]);
    let mut body = greedy(&value);
    body["public_messages"] = json!(1);
    let (status, answer) = setting.post("/v1/chat/completions", body).await;
    assert_eq!(status, 200, "{answer}");
    assert!(setting.served().public.contains("Once upon a time") && !setting.served().public.contains("dog"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_choices_models_and_embeddings() {
    let setting = Setting::new(None).await;
    let body = json!({"model": MODEL, "prompt": " saw a", "public": "One day, Tom", "seed": 5, "n": 2, "max_tokens": 4,
                      "temperature": 1.0, "logprobs": 1});
    let (status, answer) = setting.post("/v1/completions", body.clone()).await;
    assert_eq!(status, 200, "{answer}");
    let texts: Vec<&str> = (0..2).map(|choice| answer["choices"][choice]["text"].as_str().unwrap()).collect();
    assert_eq!(answer["choices"][1]["index"], 1);
    assert_eq!(answer["choices"][0]["logprobs"]["tokens"].as_array().unwrap().len(), 4);
    assert!(answer["usage"]["completion_tokens"] == 8 && setting.served().public == "One day, Tom");
    // The same seed, as a stream.
    let mut again = body;
    again["stream"] = json!(true);
    let events = setting.stream("/v1/completions", again).await;
    for (choice, text) in texts.iter().enumerate() {
        let own = events.iter().filter(|event| event["choices"][0]["index"] == choice);
        assert_eq!(own.filter_map(|event| event["choices"][0]["text"].as_str()).collect::<String>(), *text);
    }
    let (status, models) = setting.request("GET", "/v1/models", &Value::Null, KEY).await;
    assert!(status == 200 && models.contains(MODEL) && models.contains("letters"), "{models}");
    let (status, model) = setting.request("GET", &format!("/v1/models/{MODEL}"), &Value::Null, KEY).await;
    assert!(status == 200 && model.contains("\"owned_by\":\"unspoken\""), "{model}");
    let (_, vectors) = setting.post("/v1/embeddings", json!({"model": "letters", "input": ["abc", "ab"]})).await;
    assert_eq!(vectors["data"][1]["embedding"], json!([2.0, 0.5]));
    let body = json!({"model": "letters", "input": "abc", "encoding_format": "base64"});
    let (_, vectors) = setting.post("/v1/embeddings", body).await;
    assert_eq!(vectors["data"][0]["embedding"], "AABAQAAAAD8=");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_is_told_in_the_form_of_the_protocol() {
    let setting = Setting::new(Some(2)).await;
    let (_, value) = messages(&[("user", "One day, Tom went to")]);
    let chat = json!({"model": MODEL, "messages": value});
    for key in ["", "sk-other"] {
        let (status, body) = setting.request("POST", "/v1/chat/completions", &chat, key).await;
        assert!(status == 401 && body.contains("invalid_api_key"), "{body}");
    }
    let with = |more: Value| {
        let mut body = chat.clone();
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    for (path, body, needed, part) in [
        ("/v1/chat/completions", with(json!({"model": "gpt"})), 404, "model_not_found"),
        ("/v1/chat/completions", with(json!({"colour": 1})), 400, "colour"),
        ("/v1/chat/completions", with(json!({"temperature": -1})), 400, "temperature"),
        ("/v1/chat/completions", with(json!({"public_messages": 1})), 400, "needed a private one"),
        ("/v1/completions", json!({"model": MODEL, "prompt": ""}), 400, "no private text"),
        ("/v1/completions", json!({"model": MODEL, "prompt": "a dog ".repeat(99)}), 400, "shorten the text"),
        ("/v1/responses", json!({}), 404, "this proxy has no POST /v1/responses"),
        ("/v1/embeddings", json!({"model": "letters", "input": ""}), 400, "an empty text"),
        ("/v1/embeddings", json!({"model": MODEL, "input": "a"}), 404, "letters"),
    ] {
        let (status, body) = setting.request("POST", path, &body, KEY).await;
        assert!(status == needed && body.contains(part), "{part}: {status} {body}");
        let error = serde_json::from_str::<Value>(&body).unwrap()["error"].clone();
        assert!(error["message"].is_string() && error["type"].is_string(), "{body}");
    }
    // The service goes away between two passes, and comes back no more.
    let body = json!({"model": MODEL, "prompt": "One day, Tom and Mia went to", "max_tokens": 9, "temperature": 0});
    for _ in 0..2 {
        let (status, answer) = setting.post("/v1/completions", body.clone()).await;
        assert_eq!((status, answer["error"]["type"].as_str()), (503, Some("server_error")), "{answer}");
    }
    assert!(unspoken_proxy::Key::new("sk-short").is_err());
    let error = unspoken_proxy::listen("0.0.0.0:0".parse().unwrap()).await.unwrap_err().to_string();
    assert!(error.contains("needed one of this machine alone"), "{error}");
}
