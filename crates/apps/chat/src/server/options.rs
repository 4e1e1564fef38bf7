//! What a server serves, and how.

use std::sync::Arc;
use std::time::Duration;

use unspoken_ckks::{Bootstrap, CkksParameters, CostModel, Encoder};
use unspoken_encrypted_llama::{PassProgram, WEIGHT_BITS};
use unspoken_llama::{Circuit, Design, Preparation};
use unspoken_llama_model::{Model, RotatedModel};
use unspoken_protocol::ProtocolError;
use unspoken_rlwe::KeyStorage;
use unspoken_store::ModelId;

use crate::error::ChatError;

/// A rotated model, and the polynomials of its circuit.
pub struct ServedModel {
    /// The model's id.
    pub id: ModelId,
    /// The rotated model.
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
    pub fn new(preparation: &Preparation, rotated: RotatedModel) -> Result<Self, ChatError> {
        if preparation.config != rotated.model().config || preparation.prefix != rotated.prefix() {
            let needed = "the files that one run of `unspoken llama prepare` wrote";
            return Err(ChatError::mismatch("rotated model", "that of another preparation", needed));
        }
        let context = preparation.options.tokens.unwrap_or(preparation.config.context).min(preparation.config.context);
        Ok(ServedModel {
            id: rotated.id(),
            prefix: rotated.prefix().to_vec(),
            circuit: preparation.circuit(),
            design: preparation.design()?,
            context,
            // Preparations of earlier versions do not say it.
            least_public: preparation.least_public.unwrap_or(0),
            model: Arc::new(rotated.into_model()),
        })
    }

    /// The passes of a service with chunks of `chunk` tokens, with their bootstraps placed.
    ///
    /// # Errors
    /// If the preset has no bootstraps or too few levels for the polynomials, or chunks do not fit it.
    pub fn program(&self, parameters: &CkksParameters, chunk: usize) -> Result<PassProgram, ChatError> {
        let plan = Bootstrap::for_products(parameters, WEIGHT_BITS).map_err(ProtocolError::from)?;
        let (model, sizes) = (Arc::clone(&self.model), (chunk, small_degree(parameters)));
        let mut program = PassProgram::new(&self.circuit, model, &self.design, plan, sizes)?;
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

/// Degree of the ring for products on coefficients: a sixteenth of the large one is secure for its few primes.
pub fn small_degree(parameters: &CkksParameters) -> usize {
    (parameters.ring().degree() / 16).max(512)
}
