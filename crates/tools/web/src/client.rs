//! The classes that JavaScript uses: a client, and its requests.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::sync::atomic::AtomicBool;

use js_sys::{Function, Uint8Array};
use serde::Deserialize;
use serde_bytes::ByteBuf;
use unspoken_embedding::MeanEmbedder;
use unspoken_llama_model::Prompt;
use unspoken_protocol::{AnyRequest, ClientHalf};
use unspoken_wire::decode;
use unspoken_wire::v1::PublishedModel;
use wasm_bindgen::prelude::*;
use zeroize::Zeroizing;

use crate::collection::{Collection, words};
use crate::conversation::{Conversation, MessagesToAnswer};
use crate::failure::Failure;
use crate::half::{Options, WebHalf, open};
use crate::question::{Answer, Question, Wish};
use crate::sampling::SamplingOptions;
use crate::seal::{Purpose, seal, unseal};
use crate::values::{parsed, written};

/// Bytes of a chunk of keys.
const CHUNK_BYTES: usize = 4 << 20;

/// Largest published model that is read.
const MAX_MODEL_BYTES: usize = 512 << 20;

#[wasm_bindgen(typescript_custom_section)]
const TYPES: &str = r#"
/** A question: one of these forms, as the application needs. */
export type Question =
  | { text: string }
  | { pixels: Uint8Array }
  | { key: string }
  | { index: number }
  | SearchQuestion
  | ModelQuestion;

/** A question of a search: the vector, or a text, of which `most` documents at most are answered (10). */
export type SearchQuestion = { vector: Float32Array | number[]; most?: number } | { text: string; most?: number };

/** The answer of a classifier. */
export interface Classified { label: string; scores: number[]; labels: string[] }
/** The answer of a recogniser of digits. */
export interface Recognised { digit: number; scores: number[] }
/** The answer of a database. */
export interface Retrieved {
  record: Uint8Array | undefined;
  /** The version of the database, and of documents of a collection the number of its build; 0 of other databases. */
  version: number; build: number;
}
/** The answer of a search: positions of documents, and cosines of their vectors and the query's, the nearest first. */
export interface Hits { hits: { position: number; cosine: number }[] }
export type Answer = Classified | Recognised | Retrieved | Hits | Predicted;
/** Why a row of a model has no answer. The service must not learn that there is such a row: do not ask again for it. */
export interface Unanswered { error: string }

/** What a continued text or an answer has so far, and why it has ended, if it has. */
export interface Told {
  text: string; tokens: number; passes: number;
  /** Tokens that the client had guessed, so that the same pass gave the one after them too. */
  guessed: number;
  /** Private tokens in front of the text, in chunks that the service had run before and did not run again. */
  reused: number;
  /** Tokens of both texts that the preparation of the model never ran: the service's answer may be refused or wrong. */
  uncovered: string[];
  end: "end token" | "maximum" | "context" | "stop" | undefined;
}

/**
 * How the next token of a text is chosen, in this page. Without options, the most likely one. `topK`, `topP`, `minP`
 * and `seed` need `temperature`.
 */
export interface SamplingOptions {
  /** Logits are divided by it; 0 gives the most likely token. */
  temperature?: number;
  /** Only so many of the most likely tokens; 0 for all. */
  topK?: number;
  /** Only the fewest most likely tokens that have this probability together. */
  topP?: number;
  /** Only tokens of at least this part of the largest probability. */
  minP?: number;
  /** Divides logits of tokens that prompt and text have; negative ones are multiplied. */
  repetitionPenalty?: number;
  /** Subtracted from logits of generated tokens, once, and as often as they were generated. */
  presencePenalty?: number; frequencyPenalty?: number;
  /** Added to the logits of tokens, by id. */
  logitBias?: [token: number, bias: number][];
  /** The same seed gives the same text, but for choices that the encryption's noise decides. By default a new one. */
  seed?: number;
  /** The text ends before the first of these strings. */
  stop?: string[];
}

/** A message of a conversation. Its role is `system`, `user`, `assistant`, or another one that the template knows. */
export interface Message { role: string; content: string }

/** Messages to answer. */
export interface MessagesToAnswer {
  messages: Message[];
  /** The number of messages in front that the service may read; 0 by default. */
  publicMessages?: number;
  mostTokens: number;
  /** The time in seconds since 1970, for templates that tell the model the date. */
  unixSeconds: number;
  sampling?: SamplingOptions | undefined;
  /** Whether private text goes as it is, so that the service can count its tokens; false by default. */
  tellLength?: boolean;
}

/** What a client is opened with, besides the description. */
export interface OpenOptions {
  /**
   * The client's part of the model, as `GET /v1/models/{name}` returns it: for classifiers and models of language, and
   * for searches by text.
   */
  model?: Uint8Array;
  /** The kind of queries to a database: `packed` (the default), `bits` or `compact`. */
  mode?: string;
  /** A stored secret. Without this and `sealed` the client makes a new one. */
  secret?: Uint8Array;
  /**
   * The description that was accepted before, with which the secret was stored. A stored secret is not used for other
   * parameters than its own, and a description that must not follow it is refused.
   */
  earlier?: Uint8Array;
  /** A secret that `Client.seal` has encrypted. */
  sealed?: Uint8Array;
  /** The passphrase of `sealed`, and the service and the application that it was sealed for. */
  passphrase?: string;
  service?: string;
  application?: string;
  /** Whether parameter sets for tests are accepted, which are not secure. */
  acceptInsecure?: boolean;
}

/** One kind of ciphertext or key that the service sees, and its security. */
export interface SecuredObject {
  what: string; dimension: number; log2Modulus: number; secret: string; sigma: number; securityBits: number;
}
"#;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct OpenOptions {
    model: Option<ByteBuf>,
    mode: Option<String>,
    secret: Option<ByteBuf>,
    earlier: Option<ByteBuf>,
    sealed: Option<ByteBuf>,
    passphrase: Option<String>,
    service: Option<String>,
    application: Option<String>,
    accept_insecure: bool,
}

/// A client of one application: its secret, and what it needs to ask and to read answers. It sends nothing: the caller
/// moves the bytes.
#[wasm_bindgen]
pub struct Client {
    half: Box<dyn WebHalf>,
    /// The table of words that makes vectors of texts, if the service publishes one.
    words: Option<MeanEmbedder>,
}

/// A request: questions, and the bytes to send.
#[wasm_bindgen]
pub struct Request {
    asked: AnyRequest,
    /// How many documents the answer to each question has at most, if it is a search.
    most: Vec<usize>,
}

#[wasm_bindgen]
impl Client {
    /// Opens a client of the application with this description, the field `description` of `GET /v1/apps/{name}`.
    ///
    /// # Errors
    /// If the description is malformed or asks for too much, the model does not fit, or the secret is not one of these
    /// parameters.
    pub fn open(
        description: &[u8],
        #[wasm_bindgen(unchecked_param_type = "OpenOptions | undefined")] options: JsValue,
    ) -> Result<Client, JsValue> {
        let given: OpenOptions =
            if options.is_undefined() { OpenOptions::default() } else { parsed("options", options)? };
        let OpenOptions { model, mode, secret, earlier, sealed, passphrase, service, application, accept_insecure } =
            given;
        let opens = passphrase.map(Zeroizing::new).zip(service.as_deref().zip(application.as_deref()));
        let secret = match (secret, sealed, opens) {
            (secret, None, _) => secret.map(|secret| Zeroizing::new(secret.into_vec())),
            (None, Some(sealed), Some((passphrase, (service, application)))) => {
                Some(unseal(&passphrase, Purpose { service, application }, &sealed)?)
            }
            _ => {
                let found = "a sealed secret without passphrase, service or application, or beside another one".into();
                let needed = "either a secret, or a sealed one with its passphrase, service and application".into();
                return Err(Failure::Argument { what: "options", found, needed }.into());
            }
        };
        let model = model.map(|model| published(&model)).transpose()?.unwrap_or_default();
        let (secret, earlier) = (secret.as_ref().map(|secret| &secret[..]), earlier.as_ref().map(|e| &e[..]));
        let options = Options { model, mode, secret, earlier, accept_insecure };
        let half = open(description, &options)?;
        let words = if half.collection().is_some() { words(&options.model)? } else { None };
        let client = Client { half, words };
        client.described_collection()?;
        Ok(client)
    }

    /// The kind of the application: `classify`, `digits`, `llama`, `model`, `retrieve` or `search`.
    #[wasm_bindgen(getter)]
    pub fn kind(&self) -> String {
        self.half.half().kind().into()
    }

    /// The collection that the application searches, if it does.
    ///
    /// # Errors
    /// If its documents are nowhere.
    #[wasm_bindgen(unchecked_return_type = "Collection | undefined")]
    pub fn collection(&self) -> Result<JsValue, JsValue> {
        written(&self.described_collection()?)
    }

    /// The inputs and outputs of the model, if an owner has brought it.
    ///
    /// # Errors
    /// None that a caller can cause.
    #[wasm_bindgen(unchecked_return_type = "ModelInterface | undefined")]
    pub fn model(&self) -> Result<JsValue, JsValue> {
        written(&self.half.interface())
    }

    /// The name of the parameter set.
    #[wasm_bindgen(getter)]
    pub fn preset(&self) -> String {
        self.half.security().preset
    }

    /// Identifies parameters and kind of the secret: clients with the same one can share secret and keys.
    #[wasm_bindgen(getter, js_name = keySet)]
    pub fn key_set(&self) -> String {
        self.half.key_set()
    }

    /// Whether the secret is the stored one, and not a new one.
    #[wasm_bindgen(getter, js_name = isRestored)]
    pub fn is_restored(&self) -> bool {
        self.half.is_restored()
    }

    /// Length of the evaluation keys in bytes.
    #[wasm_bindgen(getter, js_name = keyBytes)]
    pub fn key_bytes(&self) -> f64 {
        self.half.half().key_bytes() as f64
    }

    /// Maximum number of questions of a request.
    #[wasm_bindgen(getter)]
    pub fn batch(&self) -> usize {
        self.half.half().batch()
    }

    /// Maximum length in bytes of a request of `questions` questions.
    #[wasm_bindgen(js_name = queryBytes)]
    pub fn query_bytes(&self, questions: usize) -> usize {
        self.half.half().query_bytes(questions)
    }

    /// Expected length in bytes of the answer to a request of `questions` questions.
    #[wasm_bindgen(js_name = expectedAnswerBytes)]
    pub fn expected_answer_bytes(&self, questions: usize) -> usize {
        self.half.half().expected_answer_bytes(questions)
    }

    /// What the client sends to the service, with its security.
    ///
    /// # Errors
    /// None that a caller can cause.
    #[wasm_bindgen(unchecked_return_type = "SecuredObject[]")]
    pub fn objects(&self) -> Result<JsValue, JsValue> {
        written(&self.half.security().objects)
    }

    /// Describes which keys a bundle of this client has. Not secret.
    #[wasm_bindgen(js_name = bundleContents)]
    pub fn bundle_contents(&self) -> Vec<u8> {
        self.half.half().bundle_contents()
    }

    /// Whether a bundle with these contents has all keys that this application needs.
    #[wasm_bindgen(js_name = isCoveredBy)]
    pub fn is_covered_by(&self, contents: &[u8]) -> bool {
        self.half.half().is_covered_by(contents)
    }

    /// The secret, for callers that store it themselves: anyone who has it can read the questions.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn secret(&self) -> Result<Uint8Array, JsValue> {
        Ok(Uint8Array::from(&self.secret_bytes()?[..]))
    }

    /// The secret, encrypted under a key that Argon2id derives from a passphrase. It opens for this application of this
    /// service alone. Takes some tenths of a second.
    ///
    /// # Errors
    /// If the passphrase is empty, or there is no randomness or memory.
    pub fn seal(&self, passphrase: String, service: &str, application: &str) -> Result<Vec<u8>, JsValue> {
        Ok(seal(&Zeroizing::new(passphrase), Purpose { service, application }, &self.secret_bytes()?)?)
    }

    /// Makes evaluation keys and passes their bytes to `chunk`, in pieces of at most 4 MiB. `progress` gets the number
    /// of keys done and in total. Returns the BLAKE3 hash of all bytes. Each call makes other keys for the same secret.
    ///
    /// # Errors
    /// What `chunk` throws, which ends the work.
    #[wasm_bindgen(js_name = writeKeys)]
    pub fn write_keys(
        &self,
        #[wasm_bindgen(unchecked_param_type = "(bytes: Uint8Array) => void")] chunk: &Function,
        #[wasm_bindgen(unchecked_param_type = "(done: number, total: number) => void")] progress: &Function,
    ) -> Result<Vec<u8>, JsValue> {
        let sink = Sink { chunk, hasher: blake3::Hasher::new(), thrown: None };
        let mut out = BufWriter::with_capacity(CHUNK_BYTES, sink);
        let mut report = |done: usize, total: usize| {
            // What it throws is not a reason to end: to cancel, end the worker.
            let _ = progress.call2(&JsValue::NULL, &done.into(), &total.into());
        };
        let written = self.half.half().write_keys(&mut out, &mut report, &AtomicBool::new(false));
        let flushed = out.flush();
        let (sink, _) = out.into_parts();
        if let Some(thrown) = sink.thrown {
            return Err(Failure::Callback(thrown).into());
        }
        written.map_err(Failure::Application)?;
        flushed.map_err(|error| Failure::Model(error.to_string()))?;
        Ok(sink.hasher.finalize().as_bytes().to_vec())
    }

    /// Checks that questions can be asked, before keys are sent for them.
    ///
    /// # Errors
    /// If a question cannot be asked.
    pub fn check(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Question[]")] questions: JsValue,
    ) -> Result<(), JsValue> {
        let (questions, _) = self.wished(questions)?;
        Ok(self.half.check(&questions)?)
    }

    /// Encodes and encrypts questions. The length of a request depends on their number alone. The time to encode them
    /// may depend on what they are: make all requests of a call before the first is sent.
    ///
    /// # Errors
    /// If a question cannot be asked, or there are too many.
    pub fn ask(
        &mut self,
        #[wasm_bindgen(unchecked_param_type = "Question[]")] questions: JsValue,
    ) -> Result<Request, JsValue> {
        let (questions, most) = self.wished(questions)?;
        Ok(Request { asked: self.half.ask(&questions)?, most })
    }

    /// Checks everything in an answer that can be checked without the secret. Only after an error of this method may a
    /// call be tried again: what decryption finds must not decide what the service sees next.
    ///
    /// # Errors
    /// If the answer is malformed, or computed for another description.
    #[wasm_bindgen(js_name = checkAnswer)]
    pub fn check_answer(&self, request: &Request, answer: &[u8]) -> Result<(), JsValue> {
        Ok(self.half.check_answer(&request.asked, answer)?)
    }

    /// Decrypts the answer to a request of this client, in the order of the questions. Of a model, rows with a number
    /// outside its range have none.
    ///
    /// # Errors
    /// If the answer is malformed, or computed for another description or with other keys.
    #[wasm_bindgen(unchecked_return_type = "(Answer | Unanswered)[]")]
    pub fn read(&self, request: &Request, answer: &[u8]) -> Result<JsValue, JsValue> {
        let answers = self.half.read(&request.asked, answer)?;
        let answers = answers.into_iter().zip(&request.most).map(|(answer, &most)| answer.with_most(most));
        written(&answers.collect::<Vec<_>>())
    }

    /// Begins a text that the service continues by at most `most_tokens` tokens. The service reads the public part. It
    /// does not see the private part, which comes after the public one, nor the tokens that follow. The private part is
    /// filled up to whole chunks with dots in front, unless its length may be told.
    ///
    /// # Errors
    /// If the application continues no texts, there is no private text, the texts do not fit, or an option is out of
    /// range.
    #[wasm_bindgen(js_name = continueText)]
    pub fn continue_text(
        &self,
        public: String,
        private: String,
        most_tokens: usize,
        #[wasm_bindgen(unchecked_param_type = "SamplingOptions | undefined")] sampling: JsValue,
        tell_length: bool,
    ) -> Result<Conversation, JsValue> {
        let prompt = Prompt { public, private: Zeroizing::new(private) };
        let wanted = SamplingOptions::read(sampling)?.wanted(most_tokens);
        let (client, model) = self.half.language()?;
        let mut conversation = Conversation::new(model, false)?;
        conversation.begin(client, &prompt, wanted, tell_length)?;
        Ok(conversation)
    }

    /// Private tokens of a chunk, to which texts are filled up; 0 if the application continues no texts.
    #[wasm_bindgen(getter, js_name = chunkTokens)]
    pub fn chunk_tokens(&self) -> usize {
        self.half.language().map_or(0, |(client, _)| client.description().chunk())
    }

    /// Whether the application answers messages: it continues texts, and its model has a template of conversations.
    #[wasm_bindgen(getter, js_name = takesMessages)]
    pub fn takes_messages(&self) -> bool {
        self.half.language().is_ok_and(|(_, model)| model.tokenizer().chat_template().is_some())
    }

    /// A conversation that has not begun. [`Client::answer`] begins it.
    ///
    /// # Errors
    /// If the application continues no texts, or the system has no randomness.
    pub fn converse(&self) -> Result<Conversation, JsValue> {
        Ok(Conversation::new(self.half.language()?.1, true)?)
    }

    /// Begins to answer messages. What the service has run of the conversation does not run again, as long as the
    /// public messages are the same. After an error the conversation is as before.
    ///
    /// # Errors
    /// If the application continues no texts, the model has no template, the template refuses the messages, they do not
    /// fit, or an option is out of range.
    pub fn answer(
        &self,
        conversation: &mut Conversation,
        #[wasm_bindgen(unchecked_param_type = "MessagesToAnswer")] messages: JsValue,
    ) -> Result<(), JsValue> {
        let asked: MessagesToAnswer = parsed("messages", messages)?;
        let (client, model) = self.half.language()?;
        Ok(conversation.begin(client, &asked.prompt(model)?, asked.wanted(), asked.tells_length())?)
    }

    /// The next request of a text that is continued; none when the text has ended, and with it its session unless it
    /// is kept.
    ///
    /// # Errors
    /// If the answer to the last one is outstanding: take it, or retry.
    #[wasm_bindgen(js_name = askNext)]
    pub fn ask_next(&mut self, conversation: &mut Conversation) -> Result<Option<Request>, JsValue> {
        let Some(question) = conversation.state.question() else {
            return match conversation.state.end() {
                Some(_) => Ok(None),
                None => Err(Failure::Argument {
                    what: "text",
                    found: "one that has not begun, or whose last request has no answer yet".into(),
                    needed: "its answer, or another try of it".into(),
                }
                .into()),
            };
        };
        let asked = self.half.ask(&[Question::Next(Box::new(question))])?;
        Ok(Some(Request { asked, most: Vec::new() }))
    }

    /// Decrypts the answer to the last request of a text, and adds the tokens that follow from it.
    ///
    /// # Errors
    /// As for [`Client::read`].
    pub fn take(&self, conversation: &mut Conversation, request: &Request, answer: &[u8]) -> Result<(), JsValue> {
        for answer in self.half.read(&request.asked, answer)? {
            let Answer::Next(answer) = answer else { return Err(not_of_a_text().into()) };
            conversation.take(&answer)?;
        }
        Ok(())
    }

    /// Takes up a newer description of the same service. Requests of the earlier one can no longer be read.
    ///
    /// # Errors
    /// As for [`Client::open`], or if the change would reveal something to the service.
    pub fn update(&mut self, description: &[u8]) -> Result<(), JsValue> {
        Ok(self.half.update(description)?)
    }
}

impl Client {
    fn described_collection(&self) -> Result<Option<Collection>, Failure> {
        self.half.collection().map(|collection| collection.checked(self.words.as_ref())).transpose()
    }

    /// Questions of JavaScript, with vectors in place of texts if the application searches, and how many documents the
    /// answer to each has at most.
    fn wished(&self, questions: JsValue) -> Result<(Vec<Question>, Vec<usize>), JsValue> {
        let wishes: Vec<Wish> = parsed("questions", questions)?;
        let (questions, most) = wishes.into_iter().map(|Wish { question, most }| (question, most)).unzip();
        Ok((self.embedded(questions)?, most))
    }

    /// The vectors of texts in place of texts, if the application searches.
    fn embedded(&self, questions: Vec<Question>) -> Result<Vec<Question>, Failure> {
        let Some(collection) = self.half.collection() else { return Ok(questions) };
        let embedded = |question| match question {
            Question::Text(_) => collection.embedded(&question, self.words.as_ref()),
            other => Ok(other),
        };
        questions.into_iter().map(embedded).collect()
    }

    fn secret_bytes(&self) -> Result<Zeroizing<Vec<u8>>, Failure> {
        self.half.half().secret_bytes().map_err(Failure::Application)
    }
}

/// The error for a request that asked something else than what follows a text.
fn not_of_a_text() -> Failure {
    let (found, needed) = ("one of single questions".into(), "one of askNext".into());
    Failure::Argument { what: "request", found, needed }
}

#[wasm_bindgen]
impl Request {
    /// Hands out the bytes to send; none, when called again.
    #[wasm_bindgen(js_name = takeBytes)]
    pub fn take_bytes(&mut self) -> Uint8Array {
        Uint8Array::from(&std::mem::take(&mut self.asked.bytes)[..])
    }

    /// Maximum length of the answer in bytes: accept no more from a service.
    #[wasm_bindgen(getter, js_name = answerBytes)]
    pub fn answer_bytes(&self) -> usize {
        self.asked.answer_bytes
    }
}

/// The files of a published model, by name.
pub(crate) fn published(bytes: &[u8]) -> Result<BTreeMap<String, Vec<u8>>, Failure> {
    let model: PublishedModel =
        decode(bytes, MAX_MODEL_BYTES).map_err(|error| Failure::Model(format!("read a published model: {error}")))?;
    Ok(model.files.into_iter().map(|file| (file.name, file.content)).collect())
}

/// Passes bytes to a function of JavaScript and hashes them.
struct Sink<'a> {
    chunk: &'a Function,
    hasher: blake3::Hasher,
    thrown: Option<JsValue>,
}

impl Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let bytes = bytes.get(..CHUNK_BYTES).unwrap_or(bytes);
        self.hasher.update(bytes);
        match self.chunk.call1(&JsValue::NULL, &Uint8Array::from(bytes)) {
            Ok(_) => Ok(bytes.len()),
            Err(thrown) => {
                self.thrown = Some(thrown);
                Err(io::Error::other("the callback failed"))
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
