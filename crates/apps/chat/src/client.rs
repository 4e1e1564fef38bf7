//! The client's half: encrypts embeddings of tokens, and decrypts logits.
//!
//! A polynomial is right on its interval only. A value outside the interval makes the slots of its ciphertext wrong,
//! often by many orders of magnitude. The description has a bound of the results: twice the largest results that the
//! preparation saw, times their margin. Decrypted values beyond it, also in unused slots, are an error, not a text. The
//! imaginary parts have the service's check of the pass: they exceed the bound if a value has left its interval, also
//! where the results do not look wrong. Such an error is final: the client asks nothing more, because each refusal
//! tells a dishonest service something about the text. That holds also when the description changes.
//!
//! The description says how few public tokens a session may have: client and server refuse fewer before a pass. The
//! client's half of a model says which tokens its preparation ran, and callers warn of others.

use std::borrow::Borrow;
use std::fmt;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use unspoken_ckks::{Complex64, Slots};
use unspoken_encrypted_llama::RESULT_BOUND;
use unspoken_llama_model::ClientModel;
use unspoken_protocol::{CkksDescription, ClientHalf, KeyGenerator, Keyring, ProtocolError, read_every};
use unspoken_ring::{SecretRng, declassify};
use unspoken_rlwe::{CompactQuerySecret, RlweError, SeededSmallRingKeys};
use zeroize::{Zeroize, Zeroizing};

use crate::constant_time;
use crate::description::Description;
use crate::error::ChatError;
use crate::message::{ChatRequest, Reply};
use crate::session_id::SessionId;

/// A question of a session.
#[derive(Clone)]
pub enum Question {
    /// Begins a session after public tokens, which the service sees.
    Begin {
        /// The session.
        session: SessionId,
        /// The public tokens.
        public: Vec<u32>,
    },
    /// Runs a chunk of private tokens: one that has run, once more, or the next one. Chunks after it are forgotten.
    Pass {
        /// The session.
        session: SessionId,
        /// The number of the chunk.
        chunk: u32,
        /// All tokens of the chunk.
        tokens: Zeroizing<Vec<u32>>,
    },
    /// Ends a session.
    End {
        /// The session.
        session: SessionId,
    },
}

/// Does not print private tokens.
impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Question::Begin { session, public } => write!(f, "Begin({session:?}, {} tokens)", public.len()),
            Question::Pass { session, chunk, .. } => write!(f, "Pass({session:?}, {chunk}, ..)"),
            Question::End { session } => write!(f, "End({session:?})"),
        }
    }
}

/// A question, encoded for encryption. Wiped when dropped.
pub struct EncodedQuestion {
    request: ChatRequest,
    input: Input,
}

/// The private tokens of a question.
enum Input {
    None,
    /// Slots with their embeddings.
    Embeddings(Vec<Slots>),
    /// Elements of a compact query.
    Elements(Zeroizing<Vec<f64>>),
}

/// Logits of all tokens of a chunk. Wiped when dropped.
///
/// They contain the noise of the encryption, which depends on the secret key: they are for the holder of the key.
#[derive(Clone)]
pub struct Logits {
    vocabulary: usize,
    values: Zeroizing<Vec<f32>>,
}

impl Logits {
    /// Logits from their values, a row for each token.
    pub fn new(vocabulary: usize, values: Vec<f32>) -> Self {
        Logits { vocabulary, values: Zeroizing::new(values) }
    }

    /// Number of tokens of the chunk.
    pub fn len(&self) -> usize {
        self.values.len() / self.vocabulary.max(1)
    }

    /// Whether all of them are finite. The time does not depend on them.
    fn are_finite(&self) -> bool {
        self.values.iter().fold(true, |finite, value| finite & value.is_finite())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The logits that follow a token of the chunk.
    pub fn row(&self, token: usize) -> Option<&[f32]> {
        self.values.chunks_exact(self.vocabulary.max(1)).nth(token)
    }
}

/// Does not print the content.
impl fmt::Debug for Logits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Logits({} tokens)", self.len())
    }
}

/// The answer to a question.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The session has begun.
    Begun {
        /// Tokens in front of the private ones: prefix and public tokens.
        public_tokens: usize,
        /// Chunks of private tokens that the session has room for.
        chunks: usize,
    },
    /// The logits of a chunk.
    Passed(Logits),
    /// The session has ended.
    Ended,
    /// The service has no such session: it has expired, made room for others, or ended with the service. Begin again.
    Unknown,
}

/// A client of a served model: its secret key, its half of the model, and the server's description.
///
/// A client that refuses the content of an answer asks nothing more, see [`ChatError::Refused`].
pub struct ChatClient {
    description: Description,
    keyring: Keyring,
    model: Arc<ClientModel>,
}

impl ChatClient {
    /// The client's half of the model.
    pub fn model(&self) -> &ClientModel {
        &self.model
    }

    /// The tokens of a chunk, as the service wants them. The time does not depend on them.
    fn arrange(&self, tokens: &[u32]) -> Result<Input, ChatError> {
        let chunk = self.description.chunk();
        if tokens.len() != chunk {
            let found = format!("{} tokens", tokens.len());
            return Err(ChatError::mismatch("chunk", found, format!("{chunk}, its unused end filled with drafts")));
        }
        check_tokens(tokens, self.description.vocabulary())?;
        if let Some(encoding) = self.description.token_encoding() {
            return Ok(Input::Elements(encoding.elements(tokens)?));
        }
        let mut rows = constant_time::rows(self.model.embedding().view(), tokens);
        let vectors = self.description.layout().pack(rows.view(), self.description.input_unit());
        rows.iter_mut().for_each(Zeroize::zeroize);
        Ok(Input::Embeddings(vectors.into_iter().map(Slots::from).collect()))
    }

    /// Encrypts the input of a pass.
    fn encrypt(&self, input: &Input) -> Result<Vec<Vec<u8>>, ChatError> {
        match (input, self.description.token_encoding()) {
            (Input::Elements(elements), Some(encoding)) => {
                let secret = CompactQuerySecret::of(self.keyring.secret(), encoding.parameters());
                let mut rng = SecretRng::from_os().map_err(RlweError::from).map_err(ProtocolError::from)?;
                let query =
                    secret.and_then(|secret| secret.encrypt(elements, &mut rng)).map_err(ProtocolError::from)?;
                Ok(vec![encoding.to_bytes(&query)?])
            }
            (Input::Embeddings(vectors), _) => {
                let (level, scale) = (self.description.input_level(), self.description.parameters().scale());
                let encrypt = |slots: &Slots| self.keyring.encrypt(slots, level, scale);
                Ok(vectors.iter().map(encrypt).collect::<Result<Vec<_>, _>>()?)
            }
            _ => Ok(Vec::new()),
        }
    }

    /// The logits of a chunk, from the result of its pass. A refusal is final.
    fn open_logits(&self, vectors: &[Vec<u8>]) -> Result<Logits, ChatError> {
        let needed = self.description.result_vectors();
        if vectors.len() != needed {
            let found = format!("{} vectors", vectors.len());
            return Err(ChatError::mismatch("answer", found, format!("{needed} for the result of a chunk")));
        }
        self.decrypt_logits(vectors).inspect_err(|_| self.description.refuse())
    }

    fn decrypt_logits(&self, vectors: &[Vec<u8>]) -> Result<Logits, ChatError> {
        let slots = read_every(vectors.iter().map(|vector| self.keyring.open(vector)))?;
        let unit = self.description.result_unit();
        // Imaginary parts too, which have the check of the pass.
        let parts = slots.iter().flat_map(|slots| slots.iter().flat_map(|slot| [slot.re, slot.im]));
        self.keyring.check_bound(parts.map(|part| part * unit)).map_err(|_| {
            let most = self.description.header().bound();
            ChatError::unreadable(
                "numbers that no sound pass gives, or that other keys encrypt; most often, this text is unlike the \
                 texts for which the model was prepared, and the next token may be wrong",
                format!("at most {most:e}; prepare the model on more text of this kind"),
            )
        })?;
        let views: Vec<&[Complex64]> = slots.iter().map(|slots| &**slots).collect();
        let mut rows = self.description.layout().unpack(&views, self.description.result_width(), unit);
        if self.description.client_has_head() {
            let logits = self.model.logits(rows.view());
            rows.iter_mut().for_each(Zeroize::zeroize);
            rows = logits;
        }
        let (values, _) = rows.into_raw_vec_and_offset();
        let logits = Logits::new(self.description.vocabulary(), values);
        if declassify(logits.are_finite()) {
            return Ok(logits);
        }
        Err(ChatError::unreadable("logits that are not finite", "numbers; do not trust this service"))
    }
}

/// Largest unit of the input, as a multiple of the largest value of the embedding.
const LARGEST_UNIT: f64 = (1u32 << 24) as f64;

/// Refuses units that no honest service has: embeddings are below the unit of the input, so that whether they can be
/// encrypted does not depend on the tokens; the bound of results is a small multiple of their unit.
fn check_units(description: &Description, model: &ClientModel) -> Result<(), ChatError> {
    let largest = model.embedding().iter().fold(0.0f64, |most, value| most.max(f64::from(value.abs())));
    let (unit, most) = (description.input_unit(), largest * LARGEST_UNIT);
    if !(largest..=most).contains(&unit) {
        let found = format!("a unit of the input of {unit:e}");
        let needed = format!("one between {largest:e} and {most:e}; do not trust this service");
        return Err(ChatError::mismatch("description", found, needed));
    }
    let (bound, most) = (description.header().bound(), 2.0 * RESULT_BOUND * description.result_unit());
    if bound > most {
        let needed = format!("at most {most:e} with its unit of results; do not trust this service");
        return Err(ChatError::mismatch("description", format!("a bound of {bound:e}"), needed));
    }
    Ok(())
}

/// Refuses tokens outside the vocabulary, with one branch for all of them.
fn check_tokens(tokens: &[u32], vocabulary: usize) -> Result<(), ChatError> {
    // Whether a text has tokens of another vocabulary is not secret.
    if declassify(tokens.iter().fold(false, |outside, token| outside | (*token as usize >= vocabulary))) {
        let needed = format!("ids below {vocabulary}");
        return Err(ChatError::mismatch("chunk", "a token outside the vocabulary", needed));
    }
    Ok(())
}

impl KeyGenerator for ChatClient {
    type KeyError = ProtocolError;

    fn secret_bytes(&self) -> Result<Zeroizing<Vec<u8>>, ProtocolError> {
        self.keyring.secret_bytes()
    }

    fn bundle_contents(&self) -> Vec<u8> {
        self.keyring.bundle_contents()
    }

    fn is_covered_by(&self, contents: &[u8]) -> bool {
        self.keyring.is_covered_by(contents)
    }

    fn set_shared_keys(&mut self, contents: &[u8], most_bytes: u64) -> bool {
        let small = SeededSmallRingKeys::byte_len(self.description.small_ring()) as u64;
        self.keyring.set_shared_keys(contents, most_bytes.saturating_sub(small))
    }

    fn key_bytes(&self) -> u64 {
        self.keyring.key_bytes() + SeededSmallRingKeys::byte_len(self.description.small_ring()) as u64
    }

    fn write_keys(
        &self,
        out: &mut impl Write,
        progress: impl FnMut(usize, usize),
        cancel: &AtomicBool,
    ) -> Result<(), ProtocolError> {
        self.keyring.write_keys(out, progress, cancel)?;
        if cancel.load(Ordering::Relaxed) {
            return Err(RlweError::Interrupted.into());
        }
        let mut rng = SecretRng::from_os().map_err(RlweError::from)?;
        let ring = self.description.small_ring();
        let keys = SeededSmallRingKeys::generate(ring, self.keyring.secret(), &mut rng)?;
        out.write_all(&keys.to_bytes(ring)).map_err(RlweError::Io)?;
        Ok(())
    }
}

impl ClientHalf for ChatClient {
    type Error = ChatError;
    type Description = Description;
    type Model = Arc<ClientModel>;
    type Question = Question;
    type Encoded = EncodedQuestion;
    type Answer = Answer;

    const VERB: &'static str = "running a chunk";

    fn open(description: Description, model: Arc<ClientModel>, stored: Option<&[u8]>) -> Result<Self, ChatError> {
        description.check_model(&model.id().to_bytes(), model.config(), model.prefix().len())?;
        check_units(&description, &model)?;
        let keyring = Keyring::new(description.header().clone(), stored)?;
        Ok(ChatClient { description, keyring, model })
    }

    fn description(&self) -> &Description {
        &self.description
    }

    /// Refuses another chunk, or a shorter context, of the same model. The number of chunks of a private text is
    /// visible, and a text that does not fit is not sent: a service that describes any chunk or context it likes could
    /// find the exact length.
    fn check_change(earlier: &Description, now: &Description) -> Result<(), ChatError> {
        let same_model = earlier.header().model_id() == now.header().model_id();
        let room = now.context() >= earlier.context() && now.chunks() >= earlier.chunks();
        if !same_model || earlier.chunk() == now.chunk() && room {
            return Ok(());
        }
        let shape = |of: &Description| {
            format!("{} chunks of {} tokens in a context of {}", of.chunks(), of.chunk(), of.context())
        };
        Err(ProtocolError::lowered(shape(now), format!("no fewer of the same length: {}", shape(earlier))).into())
    }

    fn batch(&self) -> usize {
        1
    }

    fn query_bytes(&self, _questions: usize) -> usize {
        self.description.query_bytes()
    }

    fn answer_bytes(&self, _questions: usize) -> usize {
        self.description.answer_bytes()
    }

    fn expected_answer_bytes(&self, questions: usize) -> usize {
        self.description.header().expected_answer_bytes(self.answer_bytes(questions))
    }

    /// After an answer whose content was refused, nothing more is asked: this returns [`ChatError::Refused`].
    fn encode<Q: Borrow<Question>>(&self, questions: &[Q]) -> Result<Vec<EncodedQuestion>, ChatError> {
        self.description.check_not_refused()?;
        let encode = |question: &Q| match question.borrow() {
            Question::Begin { session, public } => {
                self.description.check_public_tokens(public.len())?;
                let request = ChatRequest::Begin { session: *session, tokens: public.clone() };
                Ok(EncodedQuestion { request, input: Input::None })
            }
            Question::Pass { session, chunk, tokens } => {
                let request = ChatRequest::Pass { session: *session, chunk: *chunk };
                Ok(EncodedQuestion { request, input: self.arrange(tokens)? })
            }
            Question::End { session } => {
                Ok(EncodedQuestion { request: ChatRequest::End { session: *session }, input: Input::None })
            }
        };
        questions.iter().map(encode).collect()
    }

    /// The length of the query of a pass is always the same.
    fn query(&mut self, questions: &[EncodedQuestion]) -> Result<Vec<u8>, ChatError> {
        let [EncodedQuestion { request, input }] = questions else {
            return Err(ChatError::mismatch("query", format!("{} questions", questions.len()), "one"));
        };
        let mut parts = vec![request.to_bytes()];
        parts.extend(self.encrypt(input)?);
        Ok(self.description.header().pack(parts))
    }

    fn read(&self, answer: &[u8], questions: &[EncodedQuestion]) -> Result<Vec<Answer>, ChatError> {
        let [EncodedQuestion { request, .. }] = questions else {
            return Err(ChatError::mismatch("answer", format!("{} questions", questions.len()), "one"));
        };
        let most = 1 + self.description.result_vectors();
        let vectors = self.description.header().unpack("answer", answer, self.description.answer_bytes(), most)?;
        let Some((control, vectors)) = vectors.split_first() else {
            return Err(ChatError::mismatch("answer", "no vectors", "one that says what was done"));
        };
        let wrong = |found: &str| Err(ChatError::mismatch("answer", found, "the answer to this question"));
        let answer = match (request, Reply::from_bytes(control)?) {
            (ChatRequest::Begin { tokens, .. }, Reply::Begun { public_tokens, chunks }) => {
                let needed = self.description.prefix() + tokens.len();
                let room = self.description.chunks_after(needed);
                if (public_tokens as usize, chunks as usize) != (needed, room) {
                    return wrong("another number of public tokens or chunks");
                }
                Answer::Begun { public_tokens: needed, chunks: room }
            }
            (ChatRequest::Pass { chunk, .. }, Reply::Passed { chunk: found }) if found == *chunk => {
                Answer::Passed(self.open_logits(vectors)?)
            }
            (ChatRequest::Pass { .. }, Reply::Unknown) => Answer::Unknown,
            (ChatRequest::End { .. }, Reply::Ended) => Answer::Ended,
            _ => return wrong("one of another kind"),
        };
        Ok(vec![answer])
    }
}
