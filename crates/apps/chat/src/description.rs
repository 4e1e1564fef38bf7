//! The description of a served model, which client and server must both know.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use unspoken_ckks::{CkksParameters, SeededCiphertext};
use unspoken_encrypted_llama::{Layout, TokenEncoding};
use unspoken_llama_model::{Attention, Config};
use unspoken_protocol::limits::Bootstraps;
use unspoken_protocol::{
    ApplicationDescription, CkksDescription, CkksHeader, KeySetId, Protocol, ProtocolError, output_bytes,
};
use unspoken_rlwe::{CompactQueryParameters, SeededSmallRingKeys, SmallRing};

use crate::error::ChatError;
use crate::message::CONTROL_BYTES;
use crate::proto;

/// Version of the protocol.
pub const PROTOCOL_VERSION: u32 = 1;

/// Kind and version of the messages. The kind is the word of earlier releases, which their clients read; people know
/// the application as `chat`.
pub(crate) const PROTOCOL: Protocol = Protocol { kind: "llama", version: PROTOCOL_VERSION };

/// Name of the plan.
pub(crate) const PLAN: &str = "chunks";

/// Largest keys of the small ring, in bytes. The keys of the largest presets take some ten megabytes.
const MAX_SMALL_KEY_BYTES: usize = 512 << 20;

/// What is needed where a kind is unknown.
const NEWER: &str = "kind 0 or 1; update the older side";

/// Most chunks of a session that a client accepts: the largest contexts have fewer.
const MAX_CHUNKS: u32 = 1 << 20;

/// Data that a client needs to ask questions: made by the server, checked by the client.
#[derive(Clone, Debug)]
pub struct Description {
    header: CkksHeader,
    own: proto::Description,
    layout: Layout,
    small: SmallRing,
    result: proto::Result,
    /// `None` if clients encrypt embeddings.
    tokens: Option<TokenEncoding>,
    /// Whether the content of an answer was refused. Later descriptions of the same client share it, so that a service
    /// cannot make a client forget by changing its description.
    refused: Arc<AtomicBool>,
}

impl Description {
    /// The description with these fields.
    pub(crate) fn new(header: CkksHeader, own: proto::Description) -> Result<Self, ChatError> {
        let parameters = header.parameters();
        let refuse = |found: String, needed: String| ChatError::mismatch("description", found, needed);
        let dimensions = dimensions(&own);
        dimensions.check().map_err(|(found, needed)| refuse(found, needed))?;
        let layout = Layout::new(&dimensions, parameters.slots(), own.chunk as usize)?;
        // Rows of products have the coefficients of two real vectors.
        let small = SmallRing::new(parameters.rlwe(), own.small_degree as usize, 2 * layout.tokens);
        let small = small.map_err(|error| refuse(error.to_string(), "a ring that the preset allows".into()))?;
        let top = parameters.max_level();
        if own.input_level.max(own.result_level) as usize > top {
            let found = format!("levels {} and {}", own.input_level, own.result_level);
            return Err(refuse(found, format!("at most {top} with preset {}", parameters.name())));
        }
        if ![own.input_unit, own.result_unit].iter().all(|unit| unit.is_finite() && *unit > 0.0) {
            return Err(refuse(format!("units {} and {}", own.input_unit, own.result_unit), "positive numbers".into()));
        }
        let room = own.prefix.saturating_add(own.chunk);
        if own.context < room || !(1..=MAX_CHUNKS).contains(&own.chunks) {
            let found = format!("{} chunks in a context of {} tokens", own.chunks, own.context);
            return Err(refuse(found, format!("1 or more, and {room} tokens or more")));
        }
        if u64::from(own.least_public) + u64::from(room) > u64::from(own.context) {
            let found = format!("{} public tokens at least in a context of {}", own.least_public, own.context);
            return Err(refuse(found, format!("room for {room} more")));
        }
        let bytes = SeededSmallRingKeys::byte_len(&small);
        if bytes > MAX_SMALL_KEY_BYTES {
            let needed = format!("at most {MAX_SMALL_KEY_BYTES}; do not trust this service");
            return Err(refuse(format!("keys of the small ring of {bytes} bytes"), needed));
        }
        let result = proto::Result::try_from(own.result)
            .map_err(|_| refuse(format!("results of kind {}", own.result), NEWER.into()))?;
        let tokens = match proto::Input::try_from(own.input) {
            Ok(proto::Input::Embeddings) => None,
            Ok(proto::Input::Tokens) => {
                let queries = CompactQueryParameters::new(parameters.rlwe()).map_err(ProtocolError::from)?;
                let encoding = TokenEncoding::new(queries, &layout, own.vocabulary as usize);
                let found = || format!("lookups in a vocabulary of {}", own.vocabulary);
                Some(encoding.ok_or_else(|| refuse(found(), "encrypted embeddings for so many tokens".into()))?)
            }
            Err(_) => return Err(refuse(format!("inputs of kind {}", own.input), NEWER.into())),
        };
        Ok(Description { header, own, layout, small, result, tokens, refused: Arc::default() })
    }

    /// Reads a description from untrusted bytes and builds its parameters.
    ///
    /// # Errors
    /// The errors of [`CkksHeader::read`], also for an insecure preset, or if dimensions, levels or units make no
    /// sense.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ChatError> {
        Self::read(bytes, false)
    }

    /// Like [`Description::from_bytes`], but accepts insecure presets: for tests.
    ///
    /// # Errors
    /// The errors of [`Description::from_bytes`], except for an insecure preset.
    pub fn insecure_from_bytes(bytes: &[u8]) -> Result<Self, ChatError> {
        Self::read(bytes, true)
    }

    /// Serialises the description.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.header.to_bytes(&self.own)
    }

    /// The parameters.
    pub fn parameters(&self) -> &CkksParameters {
        self.header.parameters()
    }

    /// The places of values in the slots of vectors.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The ring of products on coefficients.
    pub fn small_ring(&self) -> &SmallRing {
        &self.small
    }

    /// Tokens of a chunk.
    pub fn chunk(&self) -> usize {
        self.layout.chunk()
    }

    /// Chunks of private tokens of a session, at most.
    pub fn chunks(&self) -> usize {
        self.own.chunks as usize
    }

    /// Tokens of a session, at most: prefix, public and private ones.
    pub fn context(&self) -> usize {
        self.own.context as usize
    }

    /// Tokens that the service puts in front of the public ones.
    pub fn prefix(&self) -> usize {
        self.own.prefix as usize
    }

    /// Public tokens of a session, at most: a chunk of private tokens must have room after them.
    pub fn most_public_tokens(&self) -> usize {
        self.context().saturating_sub(self.prefix() + self.chunk())
    }

    /// Public tokens of a session, at least: with fewer, values may leave the intervals of the polynomials.
    pub fn least_public_tokens(&self) -> usize {
        self.own.least_public as usize
    }

    /// Refuses numbers of public tokens for which the polynomials are not made.
    pub(crate) fn check_public_tokens(&self, count: usize) -> Result<(), ChatError> {
        let (least, most) = (self.least_public_tokens(), self.most_public_tokens());
        if (least..=most).contains(&count) {
            return Ok(());
        }
        let remedy = if count < least { "lengthen" } else { "shorten" };
        let needed = format!("{least} to {most}, for which the model is prepared; {remedy} the public text");
        Err(ChatError::mismatch("public text", format!("{count} tokens"), needed))
    }

    /// Chunks of private tokens that fit after `tokens` tokens. The prefix counts among the tokens.
    pub(crate) fn chunks_after(&self, tokens: usize) -> usize {
        (self.context().saturating_sub(tokens) / self.chunk()).min(self.chunks())
    }

    /// Number of tokens of the vocabulary.
    pub fn vocabulary(&self) -> usize {
        self.own.vocabulary as usize
    }

    /// Level of the vectors of a query.
    pub(crate) fn input_level(&self) -> usize {
        self.own.input_level as usize
    }

    /// The number by which embeddings are divided.
    pub(crate) fn input_unit(&self) -> f64 {
        self.own.input_unit
    }

    /// The number by which decrypted results are multiplied.
    pub(crate) fn result_unit(&self) -> f64 {
        self.own.result_unit
    }

    /// Whether the client multiplies the results of a pass by the head: they are outputs of the last norm then, and
    /// logits otherwise.
    pub(crate) fn client_has_head(&self) -> bool {
        self.result == proto::Result::LastNorm
    }

    /// Values of the result of a pass for each token.
    pub(crate) fn result_width(&self) -> usize {
        if self.client_has_head() { self.own.width as usize } else { self.vocabulary() }
    }

    /// How tokens become elements of a compact query; `None` if clients encrypt embeddings.
    pub fn token_encoding(&self) -> Option<&TokenEncoding> {
        self.tokens.as_ref()
    }

    /// Vectors of the query of a pass.
    pub fn input_vectors(&self) -> usize {
        match self.tokens {
            Some(_) => 1,
            None => self.layout.activation_vectors(self.own.width as usize) * self.layout.parts,
        }
    }

    /// Bytes of a vector of the query of a pass.
    fn input_bytes(&self) -> usize {
        match &self.tokens {
            Some(encoding) => encoding.query_bytes(),
            None => SeededCiphertext::byte_len(self.parameters(), self.input_level()),
        }
    }

    /// Vectors of the result of a pass.
    pub fn result_vectors(&self) -> usize {
        self.layout.activation_vectors(self.result_width()) * self.layout.parts
    }

    /// Remembers that the content of an answer was refused.
    pub(crate) fn refuse(&self) {
        self.refused.store(true, Ordering::Relaxed);
    }

    /// Refuses to ask after the content of an answer was refused.
    pub(crate) fn check_not_refused(&self) -> Result<(), ChatError> {
        if self.refused.load(Ordering::Relaxed) { Err(ChatError::Refused) } else { Ok(()) }
    }

    /// Refuses a client's half of another model.
    pub(crate) fn check_model(&self, id: &[u8], config: &Config, prefix: usize) -> Result<(), ChatError> {
        let own = &self.own;
        let described = [own.width, own.heads, own.head_width, own.vocabulary, own.prefix].map(|n| n as usize);
        if id != self.header.model_id()
            || [config.width, config.heads, config.head_width, config.vocabulary, prefix] != described
        {
            let needed = "the client's half that was made with the service's half; get it from the service's owner";
            return Err(ChatError::mismatch("model", "the client's half of another model", needed));
        }
        Ok(())
    }

    /// Maximum length of a query in bytes.
    pub fn query_bytes(&self) -> usize {
        self.begin_bytes().max(self.pass_bytes())
    }

    /// What the service bootstraps.
    fn bootstraps(&self) -> Bootstraps {
        if self.tokens.is_some() { Bootstraps::QueriesAndCiphertexts } else { Bootstraps::Ciphertexts }
    }

    fn begin_bytes(&self) -> usize {
        self.header.packed_bytes(1, CONTROL_BYTES + 4 * self.most_public_tokens())
    }

    /// Maximum length of the query of a pass.
    fn pass_bytes(&self) -> usize {
        let vectors = self.input_vectors();
        let each = self.input_bytes();
        self.header.packed_bytes(1 + vectors, CONTROL_BYTES + vectors * each)
    }

    /// Maximum length of an answer in bytes.
    pub fn answer_bytes(&self) -> usize {
        let vectors = self.result_vectors();
        let each = output_bytes(self.parameters(), self.own.result_level as usize);
        self.header.packed_bytes(1 + vectors, CONTROL_BYTES + vectors * each)
    }
}

/// The dimensions that matter for the layout; the others are the smallest ones.
fn dimensions(own: &proto::Description) -> Config {
    Config {
        width: own.width as usize,
        layers: 1,
        heads: own.heads as usize,
        kv_heads: 1,
        head_width: own.head_width as usize,
        ffn_width: 1,
        vocabulary: own.vocabulary as usize,
        context: own.context as usize,
        norm_epsilon: 0.0,
        // Checked against the width of a head, which is checked first.
        rope_frequencies: vec![0.0; (own.head_width as usize).min(1 << 16) / 2],
        attention: Attention::default(),
    }
}

impl ApplicationDescription for Description {
    type Error = ChatError;

    const PROTOCOL: Protocol = PROTOCOL;

    fn read(bytes: &[u8], accept_insecure: bool) -> Result<Self, ChatError> {
        let (header, own) = CkksHeader::read::<proto::Description>(bytes, PROTOCOL, accept_insecure)?;
        if header.plan() != PLAN {
            let found = format!("plan {:?}", header.plan().chars().take(20).collect::<String>());
            return Err(ChatError::mismatch("description", found, format!("{PLAN:?}; update the older side")));
        }
        let description = Self::new(header, own)?;
        description.header.check_use(description.bootstraps())?;
        CkksHeader::check_query_bytes(description.query_bytes())?;
        CkksHeader::check_answer_bytes(description.answer_bytes())?;
        Ok(description)
    }

    /// Bundles end with the keys of the small ring, so they serve only applications with the same one.
    fn key_set(&self) -> KeySetId {
        let (degree, rows) = (self.own.small_degree, self.small.row_len());
        let queries = if self.tokens.is_some() { "queries and " } else { "" };
        let kind =
            format!("switching keys, bootstraps of {queries}ciphertexts, ring of degree {degree} with rows of {rows}");
        KeySetId::new(&kind, &self.parameters().rlwe().fingerprint().0)
    }

    fn keep_from(&mut self, earlier: &Self) {
        self.header.keep_error_bound(&earlier.header);
        self.refused = Arc::clone(&earlier.refused);
    }
}

impl CkksDescription for Description {
    fn header(&self) -> &CkksHeader {
        &self.header
    }
}
