//! The server's half: runs encrypted chunks after public tokens.

mod keeping;
mod public;

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use unspoken_ckks::{
    Arithmetic, Bootstrap, Bootstrapper, Ciphertext, CkksParameters, CostModel, Encoder, Evaluator, vector_bytes,
};
use unspoken_encrypted_llama::{
    EmbeddingLookup, EncryptedMachine, PassArithmetic, PassPlace, Program, Requirements, Session, Task, TokenEncoding,
    WEIGHT_BITS,
};
use unspoken_llama::{Circuit, Design, Place, Preparation, Quantity};
use unspoken_llama_model::{KvCache, Model, TamedModel};
use unspoken_protocol::{
    Call, CkksDescription, CkksHeader, ClientId, KeyLimits, KeyLoader, KeySetId, ProtocolError, Request, SeedGuard,
    ServerHalf, check_device, write_output,
};
use unspoken_rlwe::{CompactQuery, KeyStorage};
use unspoken_store::ModelId;

use self::keeping::{Held, Keeper};
use self::public::PublicCaches;
use crate::client::SessionId;
use crate::description::{Description, PLAN, PROTOCOL, RESULT_BOUND};
use crate::error::ChatError;
use crate::keys::{self, ChatKeys};
use crate::message::{self, Reply};
use crate::part::{self, PartOf, RemoteHelpers};
use crate::proto;
use crate::sessions::{Limits, Sessions};

/// Bits of the modulus of an answer above the scale of its values.
const RESULT_ROOM_BITS: f64 = 8.0;

/// Public tokens that are run in the clear between two looks at whether the query was cancelled.
const PUBLIC_AT_ONCE: usize = 64;

/// Time after its last use during which a session is active: longer than any pause of a client between two queries.
const ACTIVE: Duration = Duration::from_secs(60);

/// A tamed model, and the polynomials of its circuit.
pub struct ServedModel {
    /// The model's id.
    pub id: ModelId,
    /// The tamed model.
    pub model: Arc<Model>,
    /// Tokens in front of every text.
    pub prefix: Vec<u32>,
    /// The circuit.
    pub circuit: Circuit,
    /// The polynomials.
    pub design: Design,
    /// Maximum number of tokens of a session, for which the polynomials are made.
    pub context: usize,
    /// Fewest public tokens of a session, without the prefix, for which they are made.
    pub least_public: usize,
}

impl ServedModel {
    /// The model of a preparation.
    ///
    /// # Errors
    /// If the two are not of the same model, or the preparation allows no polynomials.
    pub fn new(preparation: &Preparation, tamed: TamedModel) -> Result<Self, ChatError> {
        if preparation.config != tamed.model().config || preparation.prefix != tamed.prefix() {
            let needed = "the files that one run of `unspoken llama prepare` wrote";
            return Err(ChatError::mismatch("tamed model", "that of another preparation", needed));
        }
        let context = preparation.options.tokens.unwrap_or(preparation.config.context).min(preparation.config.context);
        Ok(ServedModel {
            id: tamed.id(),
            prefix: tamed.prefix().to_vec(),
            circuit: preparation.circuit(),
            design: preparation.design()?,
            context,
            // Preparations of earlier versions do not say it.
            least_public: preparation.least_public.unwrap_or(0),
            model: Arc::new(tamed.into_model()),
        })
    }

    /// The passes of a service with chunks of `chunk` tokens, with their bootstraps placed.
    ///
    /// # Errors
    /// If the preset has no bootstraps or too few levels for the polynomials, or chunks do not fit it.
    pub fn program(&self, parameters: &CkksParameters, chunk: usize) -> Result<Program, ChatError> {
        let plan = Bootstrap::for_products(parameters, WEIGHT_BITS).map_err(ProtocolError::from)?;
        let (model, sizes) = (Arc::clone(&self.model), (chunk, small_degree(parameters)));
        let mut program = Program::new(&self.circuit, model, &self.design, plan, sizes)?;
        program.place(&Encoder::new(parameters), self.prefix.len(), &CostModel::nominal(parameters))?;
        Ok(program)
    }
}

/// What clients encrypt for a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassInput {
    /// The embeddings of their tokens: some megabytes.
    Embeddings,
    /// The tokens, as a compact query of 16 bytes and 4 for each token. The service looks their embeddings up, which
    /// takes two bootstraps more. For vocabularies of at most 1,024 tokens.
    Tokens,
}

/// Limits and sizes of a service.
#[derive(Clone, Copy, Debug)]
pub struct ServerOptions {
    /// Tokens of a chunk: a power of two, at least 8.
    pub chunk: usize,
    /// Chunks of a session. Attention to places that are empty costs time too.
    pub chunks: usize,
    /// Sessions of all clients.
    pub sessions: usize,
    /// Sessions of one client.
    pub sessions_per_client: usize,
    /// Bytes of memory for all sessions; there are fewer of them if they need more.
    pub session_bytes: u64,
    /// Time after its last use at which a session expires.
    pub age: Duration,
    /// What clients encrypt.
    pub input: PassInput,
    /// Storage of the clients' keys.
    pub storage: KeyStorage,
}

impl Default for ServerOptions {
    fn default() -> Self {
        ServerOptions {
            chunk: 16,
            chunks: 8,
            sessions: 4,
            sessions_per_client: 2,
            session_bytes: 4 << 30,
            age: Duration::from_secs(3600),
            input: PassInput::Embeddings,
            storage: KeyStorage::Expanded,
        }
    }
}

/// A model that never sees private tokens.
pub struct ChatServer {
    description: Description,
    encoder: Encoder,
    model: Arc<Model>,
    program: Program,
    /// The first layer, if clients encrypt tokens.
    first: Option<FirstLayer>,
    bootstrapper: Bootstrapper,
    prefix: KvCache,
    requirements: Requirements,
    /// Bytes of one session, with its public cache.
    session_bytes: u64,
    limits: Limits,
    sessions: Sessions<Held>,
    /// Keys and values of public tokens, for sessions of other processes: this process computes parts of their passes.
    public: PublicCaches,
    keeper: Option<Keeper>,
    seeds: SeedGuard,
    storage: KeyStorage,
}

/// The first layer as a lookup.
struct FirstLayer {
    lookup: EmbeddingLookup,
    encoding: TokenEncoding,
}

/// The input of a pass, as it was received.
enum Received<'a> {
    Embeddings(Vec<Ciphertext>),
    Tokens(&'a FirstLayer, CompactQuery),
}

/// The state of a session.
struct State {
    /// Keys and values of prefix and public tokens.
    public: Arc<KvCache>,
    /// The public tokens.
    tokens: Vec<u32>,
    /// Keys and values of private tokens.
    private: Session<Ciphertext>,
    /// Whether a chunk has run.
    begun: bool,
    /// Chunks that the session has room for.
    chunks: usize,
}

impl State {
    /// Whether a pass of this chunk begins a new chunk; otherwise it replaces the last chunk.
    fn begins(&self, chunk: u32) -> Result<bool, ChatError> {
        let (chunk, last) = (chunk as usize, self.private.chunk());
        let found = format!("chunk {chunk}");
        if chunk >= self.chunks {
            let needed = format!("one below {}, the chunks of this session; begin another", self.chunks);
            return Err(ChatError::session(found, needed));
        }
        match self.begun {
            false if chunk == 0 => Ok(true),
            false => Err(ChatError::session(found, "chunk 0, the first one")),
            true if chunk == last => Ok(false),
            true if chunk == last + 1 => Ok(true),
            true => Err(ChatError::session(found, format!("chunk {last} again, or {}, the next one", last + 1))),
        }
    }
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
        let ServedModel { id, model, prefix, context, least_public, .. } = served;
        let chunk = program.layout().chunk();
        let room = context.saturating_sub(prefix.len()) / chunk;
        if room == 0 || options.chunks == 0 || options.sessions == 0 || options.sessions_per_client == 0 {
            let found = format!(
                "{} chunks of {chunk} tokens behind a prefix of {} in a context of {context}, {} sessions, {} for each \
                 client",
                options.chunks,
                prefix.len(),
                options.sessions,
                options.sessions_per_client
            );
            return Err(ChatError::mismatch("options", found, "room for one chunk and one session"));
        }
        let chunks = options.chunks.min(room);
        let mut requirements = requirements(&program, &encoder, (prefix.len(), context), chunks)?;
        let first = match options.input {
            PassInput::Embeddings => None,
            PassInput::Tokens => {
                let lookup = program.embedding_lookup()?;
                let (keys, bytes) = lookup.requirements(&encoder, program.bootstrap())?;
                requirements.keys.extend(&keys);
                requirements.working_bytes = requirements.working_bytes.max(bytes);
                program.token_encoding()?.map(|encoding| FirstLayer { lookup, encoding })
            }
        };
        program.encode(&encoder)?;
        let bootstrapper = Bootstrapper::new(&encoder, program.bootstrap().clone()).map_err(ProtocolError::from)?;
        let config = &model.config;
        let cache_bytes = 2 * config.layers * config.kv_width() * context * size_of::<f32>();
        let session_bytes = requirements.session_bytes + cache_bytes as u64;
        let room = options.session_bytes / session_bytes.max(1);
        if room == 0 {
            let found = format!("{} bytes", options.session_bytes);
            let needed = format!("{session_bytes} for one; give more memory, or lower the chunks of a session");
            return Err(ChatError::mismatch("memory for sessions", found, needed));
        }
        let limits = Limits {
            sessions: options.sessions.min(usize::try_from(room).unwrap_or(usize::MAX)),
            per_client: options.sessions_per_client,
            age: options.age,
            active: ACTIVE,
        };
        let (top, scale) = requirements.result;
        let level = sent_level(parameters, scale, top);
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
            context: context as u32,
            prefix: prefix.len() as u32,
            chunk: chunk as u32,
            chunks: chunks as u32,
            small_degree: small_degree(parameters) as u32,
            input_level: program.input_level() as u32,
            result_level: level as u32,
            input_unit: program.input_unit(),
            result_unit: result.unit,
            result: i32::from(kind),
            input: i32::from(if first.is_some() { proto::Input::Tokens } else { proto::Input::Embeddings }),
            least_public: least_public as u32,
        };
        let bound = RESULT_BOUND * result.unit;
        let vectors = program.layout().activation_vectors(result.width) * program.layout().parts;
        let keys = requirements.keys.clone();
        let header = CkksHeader::new(PROTOCOL, parameters, &id.to_bytes(), keys, PLAN.into(), bound)
            .with_answer(vectors, level, scale);
        Ok(ChatServer {
            description: Description::new(header, own)?,
            encoder,
            prefix: model.prefix_cache(&prefix)?,
            model: Arc::clone(&model),
            program,
            first,
            bootstrapper,
            requirements,
            session_bytes,
            limits,
            sessions: Sessions::new(limits),
            public: PublicCaches::new(limits.sessions),
            keeper: None,
            seeds: SeedGuard::default(),
            storage: options.storage,
        })
    }

    /// The description for clients.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// The model as passes use it.
    pub fn program(&self) -> &Program {
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
        let chunks = self.description.chunks_behind(count);
        let (public, private) = (Arc::new(public), self.program.session());
        let state = State { public, tokens: tokens.to_vec(), private, begun: false, chunks };
        self.sessions.begin(client, session, Held::Memory(state))?;
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
        // First: a malformed query must not cost the reading of a kept session.
        let input = self.read_input(client, vectors)?;
        let Some(taken) = self.sessions.take((client, session))? else { return Ok(None) };
        let held = match taken.state() {
            Held::Memory(state) if self.has_vectors(state) => Some(state),
            _ => None,
        };
        let read = match held {
            Some(_) => None,
            None => self.read_kept((client, session), call.cancel)?,
        };
        let Some(state) = held.or(read.as_ref()) else {
            taken.remove();
            return Ok(None);
        };
        let (state, written) = self.run_pass(keys, (state, chunk), input, call)?;
        // Before the answer: what a client has an answer to is kept.
        self.keep((client, session), &state);
        taken.commit(Held::Memory(state));
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
        let mut machine = EncryptedMachine::new(evaluator, &self.bootstrapper, &keys.small);
        if let Some(helpers) = &helpers {
            machine = machine.with_helpers(helpers);
        }
        let steps = self.steps();
        let mut watch = |place: Place, _| call.report(place.layer as u32, steps);
        call.report(0, steps);
        let inputs = match input {
            Received::Embeddings(vectors) => vectors,
            Received::Tokens(first, query) => first.lookup.of_query(&machine, &first.encoding, &query)?,
        };
        let mut private = state.private.clone();
        let pass = PassArithmetic::new(
            &machine,
            &self.program,
            state.public.as_ref(),
            &mut private,
            (begins, self.description.chunks_behind(state.public.len())),
        )?;
        let mut pass = pass.with_watch(&mut watch);
        let outputs = pass.run(inputs)?;
        drop(pass);
        let level = sent_level(parameters, self.requirements.result.1, self.requirements.result.0);
        let write = |output: &Ciphertext| -> Result<Vec<u8>, ProtocolError> {
            write_output(parameters, &*machine.evaluator.lowered(output, level)?)
        };
        let written = outputs.iter().map(write).collect::<Result<Vec<_>, _>>()?;
        let (public, tokens) = (Arc::clone(&state.public), state.tokens.clone());
        Ok((State { public, tokens, private, begun: true, chunks: state.chunks }, written))
    }
}

/// The lowest level for results of this scale, which are at `top`. Results are at most [`RESULT_BOUND`]. There is room
/// for larger results, so that they do not wrap around to small values and the client can refuse them.
fn sent_level(parameters: &CkksParameters, scale: f64, top: usize) -> usize {
    let fits = |level: &usize| {
        let (basis, ring) = (parameters.basis(*level), parameters.ring());
        let primes = ring.chain()[..basis.chain].iter().chain(&ring.terminal()[..basis.terminal]);
        primes.map(|prime| f64::from(*prime).log2()).sum::<f64>() >= scale.log2() + RESULT_ROOM_BITS
    };
    (0..top).find(fits).unwrap_or(top)
}

/// Degree of the ring for products on coefficients: a sixteenth of the large one is secure for its few primes.
pub fn small_degree(parameters: &CkksParameters) -> usize {
    (parameters.ring().degree() / 16).max(512)
}

/// What passes need after few and after many public tokens: the number of vectors of scores depends on the number of
/// public tokens.
fn requirements(
    program: &Program,
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
        all.working_bytes = all.working_bytes.max(few.working_bytes);
        all.session_bytes = all.session_bytes.max(few.session_bytes);
    }
    Ok(all)
}

impl KeyLoader for ChatServer {
    type Keys = ChatKeys;
    type KeyError = ProtocolError;

    fn key_set(&self) -> KeySetId {
        use unspoken_protocol::ApplicationDescription;
        self.description.key_set()
    }

    fn key_limits(&self) -> KeyLimits {
        KeyLimits {
            format: keys::KEY_FORMAT,
            front_bytes: keys::FRONT_BYTES,
            max_bytes: keys::bundle_bytes(&self.description, self.description.header().key_plan()),
            memory_bytes: keys::memory_bytes(&self.description, &self.requirements.keys, self.storage),
        }
    }

    fn loaded_key_bytes(&self, front: &[u8]) -> Result<u64, ProtocolError> {
        keys::loaded_bytes(&self.description, front, self.storage)
    }

    fn load_keys(&self, mut bundle: &mut dyn Read) -> Result<ChatKeys, ProtocolError> {
        keys::read(&self.description, self.storage, &mut bundle)
    }

    fn check_keys(&self, keys: &ChatKeys) -> Result<(), ProtocolError> {
        keys::check(&self.description, &keys.evaluation)
    }
}

impl ServerHalf for ChatServer {
    type Error = ChatError;

    fn describe(&self) -> Vec<u8> {
        self.description.to_bytes()
    }

    /// Not if the device has failed.
    fn check_ready(&self) -> Result<(), ChatError> {
        Ok(check_device(self.description.parameters())?)
    }

    fn limits(&self) -> unspoken_protocol::Limits {
        let (parameters, level) = (self.description.parameters(), self.description.input_level());
        let vectors = self.program.layout().activation_vectors(self.model.config.width) * self.program.layout().parts;
        let inputs = vectors as u64 * vector_bytes(parameters, level);
        unspoken_protocol::Limits {
            query_bytes: self.description.query_bytes(),
            answer_bytes: self.description.answer_bytes(),
            // With a copy of the session, on which a pass works.
            working_bytes: self.requirements.working_bytes + self.session_bytes + inputs,
            most_together: 1,
            waits_for_others: false,
        }
    }

    /// With the memory for all sessions, whether they have begun or not.
    fn prepared_bytes(&self) -> u64 {
        let weights = self.model.config.parameters(self.model.weights.head.is_none()) * size_of::<f32>();
        let sessions = self.limits.sessions as u64 * self.session_bytes;
        weights as u64
            + self.program.prepared_bytes()
            + self.first.as_ref().map_or(0, |first| first.lookup.prepared_bytes())
            + self.bootstrapper.prepared_bytes()
            + self.seeds.capacity_bytes()
            + sessions
    }

    fn release_idle_memory(&self) {
        self.description.parameters().ring().release_idle();
    }

    fn answer(&self, request: &Request<'_, ChatKeys>, call: &Call<'_>) -> Result<Vec<u8>, ChatError> {
        let header = self.description.header();
        let most = 1 + self.description.input_vectors();
        let vectors = header.unpack("query", request.query, self.description.query_bytes(), most)?;
        let Some((control, vectors)) = vectors.split_first() else {
            return Err(ChatError::mismatch("query", "no vectors", "one that says what to do"));
        };
        let asked = message::Request::from_bytes(control, self.description.most_public_tokens())?;
        if !matches!(asked, message::Request::Pass { .. }) && !vectors.is_empty() {
            let found = format!("{} ciphertexts", vectors.len());
            return Err(ChatError::mismatch("query", found, "none but for a pass"));
        }
        let (reply, logits) = match asked {
            message::Request::Begin { session, tokens } => {
                (self.begin(request.client, (session, &tokens), call.cancel)?, Vec::new())
            }
            message::Request::Pass { session, chunk } => {
                match self.pass((request.client, request.keys), (session, chunk), vectors, call)? {
                    Some(logits) => (Reply::Passed { chunk }, logits),
                    None => (Reply::Unknown, Vec::new()),
                }
            }
            message::Request::End { session } => {
                self.sessions.end(request.client, session)?;
                (Reply::Ended, Vec::new())
            }
        };
        Ok(header.pack([vec![reply.to_bytes()], logits].concat()))
    }

    fn compute_part(&self, keys: &ChatKeys, part: &[u8], call: &Call<'_>) -> Option<Result<Vec<u8>, ChatError>> {
        Some(self.part(keys, part, call.cancel))
    }
}

impl ChatServer {
    /// Computes a part of a pass that another process of this service runs.
    fn part(&self, keys: &ChatKeys, bytes: &[u8], cancel: &AtomicBool) -> Result<Vec<u8>, ChatError> {
        let parameters = self.description.parameters();
        keys::check(&self.description, &keys.evaluation)?;
        let received = part::from_bytes(parameters, self.program.circuit().rounds(), bytes)?;
        let made = match received.part.task {
            Task::Function { .. } | Task::Heads { .. } => {
                Some(self.public.get(&received.tokens, || self.public_cache(&received.tokens, cancel))?)
            }
            // Bootstraps and products do not depend on the place of the pass.
            Task::Refresh | Task::Coefficients | Task::Product { .. } => None,
        };
        let public = made.as_deref().unwrap_or(&self.prefix);
        let evaluator = Evaluator::new(&self.encoder, &keys.evaluation).with_cancel(cancel);
        let machine = EncryptedMachine::new(evaluator, &self.bootstrapper, &keys.small);
        let (chunk, chunks) = (received.chunk, received.chunks);
        let place = PassPlace { program: &self.program, public: public.into(), chunk, chunks };
        part::result_to_bytes(parameters, &place.compute(&machine, &received.part)?)
    }
}
