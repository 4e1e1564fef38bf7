//! The server's half: runs encrypted chunks after public tokens.

mod half;
mod options;
mod public;
mod state;
mod storing;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use unspoken_ckks::{Arithmetic, Bootstrapper, Ciphertext, CkksParameters, Encoder, Evaluator};
use unspoken_encrypted_llama::{
    EmbeddingLookup, EncryptedEvaluator, PassArithmetic, PassEvaluator, PassProgram, RESULT_BOUND, Requirements,
    TokenEncoding,
};
use unspoken_llama::{Place, Quantity};
use unspoken_llama_model::{KvCache, Model};
use unspoken_protocol::{Call, CkksHeader, ClientId, KeyLoader, ProtocolError, SeedGuard, write_output};
use unspoken_rlwe::{CompactQuery, KeyStorage};

pub use self::options::{PassInput, ServedModel, ServerOptions, small_degree};
use self::public::PublicCaches;
use self::state::{SessionEntry, State, StoredSessions};
use crate::description::{Description, PLAN, PROTOCOL};
use crate::error::ChatError;
use crate::keys::{self, ChatKeys};
use crate::message::Reply;
use crate::part::{PartOf, RemoteHelpers};
use crate::proto;
use crate::session_id::SessionId;
use crate::sessions::{SessionLimits, Sessions};

/// Bits of the modulus of an answer above the scale of its values.
const RESULT_ROOM_BITS: f64 = 8.0;

/// Public tokens that are run in the clear between two looks at whether the query was cancelled.
const PUBLIC_AT_ONCE: usize = 64;

/// Time after its last use during which a session is active: longer than any pause of a client between two queries.
const ACTIVE: Duration = Duration::from_secs(60);

/// A model that never sees private tokens.
pub struct ChatServer {
    description: Description,
    encoder: Encoder,
    model: Arc<Model>,
    program: PassProgram,
    /// The first layer, if clients encrypt tokens.
    first: Option<FirstLayer>,
    bootstrapper: Bootstrapper,
    prefix: KvCache,
    requirements: Requirements,
    /// Bytes of one session, with its public cache.
    session_bytes: u64,
    limits: SessionLimits,
    sessions: Sessions<SessionEntry>,
    /// Keys and values of public tokens, for sessions of other processes: this process computes parts of their passes.
    public: PublicCaches,
    stored: Option<StoredSessions>,
    seeds: SeedGuard,
    storage: KeyStorage,
}

/// The first layer as a lookup.
struct FirstLayer {
    lookup: EmbeddingLookup,
    encoding: TokenEncoding,
}

impl FirstLayer {
    /// The first layer of a program, if its input can be encoded as tokens. Adds what the lookup needs to the
    /// requirements.
    fn new(
        program: &PassProgram,
        encoder: &Encoder,
        requirements: &mut Requirements,
    ) -> Result<Option<Self>, ChatError> {
        let lookup = program.embedding_lookup()?;
        let (keys, bytes) = lookup.requirements(encoder, program.bootstrap())?;
        requirements.keys.extend(&keys);
        requirements.working_bytes = requirements.working_bytes.max(bytes);
        Ok(program.token_encoding()?.map(|encoding| FirstLayer { lookup, encoding }))
    }
}

/// The input of a pass, as it was received.
enum Received<'a> {
    Embeddings(Vec<Ciphertext>),
    Tokens(&'a FirstLayer, CompactQuery),
}

impl ChatServer {
    /// Prepares a model for a preset: places its bootstraps, and encodes the transformations of its passes. These and
    /// the bootstraps' matrices take some gigabytes for large presets.
    ///
    /// # Errors
    /// If the preset has no bootstraps, too few levels for the polynomials, or chunks do not fit it.
    pub fn new(served: ServedModel, parameters: &CkksParameters, options: &ServerOptions) -> Result<Self, ChatError> {
        let encoder = Encoder::new(parameters);
        let program = served.program(parameters, options.chunk)?;
        let chunks = session_chunks(&served, program.layout().chunk(), options)?;
        let mut requirements = requirements(&program, &encoder, (served.prefix.len(), served.context), chunks)?;
        let first = match options.input {
            PassInput::Embeddings => None,
            PassInput::Tokens => FirstLayer::new(&program, &encoder, &mut requirements)?,
        };
        program.encode(&encoder)?;
        let bootstrapper = Bootstrapper::new(&encoder, program.bootstrap().clone()).map_err(ProtocolError::from)?;
        let config = &served.model.config;
        let cache_bytes = 2 * config.layers * config.kv_width() * served.context * size_of::<f32>();
        let session_bytes = requirements.session_bytes + cache_bytes as u64;
        let limits = session_limits(options, session_bytes)?;
        let input = if first.is_some() { proto::Input::Tokens } else { proto::Input::Embeddings };
        Ok(ChatServer {
            description: describe(&served, parameters, &program, &requirements, (chunks, input))?,
            encoder,
            prefix: served.model.prefix_cache(&served.prefix)?,
            model: served.model,
            program,
            first,
            bootstrapper,
            requirements,
            session_bytes,
            limits,
            sessions: Sessions::new(limits),
            public: PublicCaches::new(limits.sessions),
            stored: None,
            seeds: SeedGuard::default(),
            storage: options.storage,
        })
    }

    /// The description for clients.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// The model as passes use it.
    pub fn program(&self) -> &PassProgram {
        &self.program
    }

    /// What passes need.
    pub fn requirements(&self) -> &Requirements {
        &self.requirements
    }

    /// Sessions of all clients, at most, and bytes of memory of each.
    pub fn sessions(&self) -> (usize, u64) {
        (self.limits.sessions, self.session_bytes)
    }

    /// Bytes of the keys of a client in memory.
    pub fn key_bytes(&self) -> u64 {
        self.key_limits().memory_bytes
    }

    fn begin(
        &self,
        client: ClientId,
        (session, tokens): (SessionId, &[u32]),
        cancel: &AtomicBool,
    ) -> Result<Reply, ChatError> {
        self.description.check_public_tokens(tokens.len())?;
        let public = self.public_cache(tokens, cancel)?;
        let count = public.len();
        let chunks = self.description.chunks_after(count);
        let (public, private) = (Arc::new(public), self.program.session());
        let state = State { public, tokens: tokens.to_vec(), private, begun: false, chunks };
        self.sessions.begin(client, session, SessionEntry::Memory(state))?;
        Ok(Reply::Begun { public_tokens: count as u32, chunks: chunks as u32 })
    }

    /// Keys and values of the prefix and public tokens.
    fn public_cache(&self, tokens: &[u32], cancel: &AtomicBool) -> Result<KvCache, ChatError> {
        let mut public = self.prefix.clone();
        if !tokens.is_empty() {
            self.model.check(tokens, &public)?;
        }
        for tokens in tokens.chunks(PUBLIC_AT_ONCE) {
            if cancel.load(Ordering::Relaxed) {
                return Err(ChatError::Cancelled);
            }
            self.model.forward(tokens, &mut public, &mut ())?;
        }
        Ok(public)
    }

    /// Reads the input of a pass from untrusted bytes.
    fn read_input(&self, client: ClientId, vectors: &[Vec<u8>]) -> Result<Received<'_>, ChatError> {
        let parameters = self.description.parameters();
        if let (Some(first), [vector]) = (&self.first, vectors) {
            let query = first.encoding.from_bytes(vector)?;
            self.seeds.admit(client, std::iter::once(query.seed().as_slice()), vectors)?;
            return Ok(Received::Tokens(first, query));
        }
        let inputs = self.seeds.read(client, parameters, vectors)?;
        let (level, scale) = (self.description.input_level(), parameters.scale());
        if let Some(wrong) = inputs.iter().find(|input| input.level() != level || input.scale() != scale) {
            let found = format!("a vector of level {} and scale {:e}", wrong.level(), wrong.scale());
            return Err(ChatError::mismatch("query", found, format!("level {level} and scale {scale:e}")));
        }
        Ok(Received::Embeddings(inputs))
    }

    /// Runs a chunk on a copy of the session, which takes its place when the answer is complete. Returns `None` if
    /// there is no such session.
    fn pass(
        &self,
        (client, keys): (ClientId, &ChatKeys),
        (session, chunk): (SessionId, u32),
        vectors: &[Vec<u8>],
        call: &Call<'_>,
    ) -> Result<Option<Vec<Vec<u8>>>, ChatError> {
        let needed = self.description.input_vectors();
        if vectors.len() != needed {
            let found = format!("{} vectors", vectors.len());
            return Err(ChatError::mismatch("query", found, format!("{needed} for a pass")));
        }
        keys::check(&self.description, &keys.evaluation)?;
        // First: a malformed query must not cost the reading of a stored session.
        let input = self.read_input(client, vectors)?;
        let Some(taken) = self.sessions.take((client, session))? else { return Ok(None) };
        let held = match taken.state() {
            SessionEntry::Memory(state) if self.has_vectors(state) => Some(state),
            _ => None,
        };
        let read = match held {
            Some(_) => None,
            None => self.read_stored((client, session), call.cancel)?,
        };
        let Some(state) = held.or(read.as_ref()) else {
            taken.remove();
            return Ok(None);
        };
        let (state, written) = self.run_pass(keys, (state, chunk), input, call)?;
        // Before the answer: what a client has an answer to is stored.
        self.store((client, session), &state);
        taken.commit(SessionEntry::Memory(state));
        let steps = self.steps();
        call.report(steps, steps);
        Ok(Some(written))
    }

    /// Whether the vectors of a session still exist: a device that failed has lost the vectors that it alone had.
    fn has_vectors(&self, state: &State) -> bool {
        let ring = self.description.parameters().ring();
        let mut polys = state.private.vectors().flat_map(|vector| vector.inner().components());
        polys.all(|poly| ring.check_own("continue a session", poly).is_ok())
    }

    /// Steps of a pass that are reported.
    fn steps(&self) -> u32 {
        self.model.config.layers as u32 + 1
    }

    /// Runs a chunk. Returns the state of the session afterwards, and the answer.
    fn run_pass(
        &self,
        keys: &ChatKeys,
        (state, chunk): (&State, u32),
        input: Received<'_>,
        call: &Call<'_>,
    ) -> Result<(State, Vec<Vec<u8>>), ChatError> {
        let parameters = self.description.parameters();
        let begins = state.begins(chunk)?;
        let evaluator = Evaluator::new(&self.encoder, &keys.evaluation).with_cancel(call.cancel);
        let of = PartOf { tokens: &state.tokens, chunk: chunk as usize, chunks: state.chunks };
        let helpers = call.helpers.map(|helpers| RemoteHelpers { helpers, parameters, of });
        let mut evaluator = EncryptedEvaluator::new(evaluator, &self.bootstrapper, &keys.small);
        if let Some(helpers) = &helpers {
            evaluator = evaluator.with_helpers(helpers);
        }
        let steps = self.steps();
        let mut watch = |place: Place, _| call.report(place.layer as u32, steps);
        call.report(0, steps);
        let inputs = match input {
            Received::Embeddings(vectors) => vectors,
            Received::Tokens(first, query) => first.lookup.of_query(&evaluator, &first.encoding, &query)?,
        };
        let (public, chunks) = (state.public.as_ref(), self.description.chunks_after(state.public.len()));
        let mut private = state.private.clone();
        if !begins {
            self.program.go_back(&evaluator, public, &mut private, (chunk as usize, chunks))?;
        }
        let pass = PassArithmetic::new(&evaluator, &self.program, public, &mut private, (begins, chunks))?;
        let mut pass = pass.with_watch(&mut watch);
        let outputs = pass.run(inputs)?;
        drop(pass);
        let level = sent_level(parameters, self.requirements.result.1, self.requirements.result.0)?;
        let write = |output: &Ciphertext| -> Result<Vec<u8>, ProtocolError> {
            write_output(parameters, &*evaluator.arithmetic().lowered(output, level)?)
        };
        let written = outputs.iter().map(write).collect::<Result<Vec<_>, _>>()?;
        let (public, tokens) = (Arc::clone(&state.public), state.tokens.clone());
        Ok((State { public, tokens, private, begun: true, chunks: state.chunks }, written))
    }
}

/// Chunks of a session: the number of the options, or as many as the context has room for.
fn session_chunks(served: &ServedModel, chunk: usize, options: &ServerOptions) -> Result<usize, ChatError> {
    let (prefix, context) = (served.prefix.len(), served.context);
    let room = context.saturating_sub(prefix) / chunk;
    if room == 0 || options.chunks == 0 || options.sessions == 0 || options.sessions_per_client == 0 {
        let found = format!(
            "{} chunks of {chunk} tokens after a prefix of {prefix} in a context of {context}, {} sessions, {} for \
             each client",
            options.chunks, options.sessions, options.sessions_per_client
        );
        return Err(ChatError::mismatch("options", found, "room for one chunk and one session"));
    }
    Ok(options.chunks.min(room))
}

/// The limits of sessions that take `session_bytes` bytes each.
fn session_limits(options: &ServerOptions, session_bytes: u64) -> Result<SessionLimits, ChatError> {
    let room = options.session_bytes / session_bytes.max(1);
    if room == 0 {
        let found = format!("{} bytes", options.session_bytes);
        let needed = format!("{session_bytes} for one; give more memory, or lower the chunks of a session");
        return Err(ChatError::mismatch("memory for sessions", found, needed));
    }
    Ok(SessionLimits {
        sessions: options.sessions.min(usize::try_from(room).unwrap_or(usize::MAX)),
        per_client: options.sessions_per_client,
        age: options.age,
        active: ACTIVE,
    })
}

/// What clients are told: the shapes of queries and answers, and the keys that passes need.
fn describe(
    served: &ServedModel,
    parameters: &CkksParameters,
    program: &PassProgram,
    requirements: &Requirements,
    (chunks, input): (usize, proto::Input),
) -> Result<Description, ChatError> {
    let (config, layout) = (&served.model.config, program.layout());
    let (top, scale) = requirements.result;
    let level = sent_level(parameters, scale, top)?;
    let result = program.result();
    let kind = match result.quantity {
        Quantity::Logits => proto::Result::Logits,
        _ => proto::Result::LastNorm,
    };
    let own = proto::Description {
        width: config.width as u32,
        heads: config.heads as u32,
        head_width: config.head_width as u32,
        vocabulary: config.vocabulary as u32,
        context: served.context as u32,
        prefix: served.prefix.len() as u32,
        chunk: layout.chunk() as u32,
        chunks: chunks as u32,
        small_degree: small_degree(parameters) as u32,
        input_level: program.input_level() as u32,
        result_level: level as u32,
        input_unit: program.input_unit(),
        result_unit: result.unit,
        result: i32::from(kind),
        input: i32::from(input),
        least_public: served.least_public as u32,
    };
    let bound = RESULT_BOUND * result.unit;
    let vectors = layout.activation_vectors(result.width) * layout.parts;
    let (id, keys) = (served.id.to_bytes(), requirements.keys.clone());
    let header = CkksHeader::new(PROTOCOL, parameters, &id, keys, PLAN.into(), bound);
    Description::new(header.with_answer(vectors, level, scale), own)
}

/// The lowest level for results of this scale, which are at `top`. Results are at most [`RESULT_BOUND`]. There is room
/// for larger results, so that they do not wrap around to small values and the client can refuse them.
fn sent_level(parameters: &CkksParameters, scale: f64, top: usize) -> Result<usize, ChatError> {
    let fits = |level: &usize| {
        let (basis, ring) = (parameters.basis(*level), parameters.ring());
        let primes = ring.chain()[..basis.chain].iter().chain(&ring.terminal()[..basis.terminal]);
        primes.map(|prime| f64::from(*prime).log2()).sum::<f64>() >= scale.log2() + RESULT_ROOM_BITS
    };
    (0..=top).find(fits).ok_or_else(|| {
        let needed = format!("a modulus of {:.0} bits or more at level {top}", scale.log2() + RESULT_ROOM_BITS);
        ChatError::mismatch("parameters", format!("preset {}", parameters.name()), needed)
    })
}

/// What passes need after few and after many public tokens: the number of vectors of scores depends on the number of
/// public tokens.
fn requirements(
    program: &PassProgram,
    encoder: &Encoder,
    (prefix, context): (usize, usize),
    chunks: usize,
) -> Result<Requirements, ChatError> {
    let most = context - chunks * program.layout().chunk();
    let mut all = program.requirements(encoder, most, chunks)?;
    if prefix < most {
        let few = program.requirements(encoder, prefix, chunks)?;
        all.keys.extend(&few.keys);
        all.bootstraps = all.bootstraps.max(few.bootstraps);
        all.check_limit = all.check_limit.max(few.check_limit);
        all.working_bytes = all.working_bytes.max(few.working_bytes);
        all.session_bytes = all.session_bytes.max(few.session_bytes);
    }
    Ok(all)
}
