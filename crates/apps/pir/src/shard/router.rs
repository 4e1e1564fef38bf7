//! The router: it has no data, passes keys and queries on to all shards, and adds their partial answers.

use std::io::Read;
use std::sync::Arc;

use unspoken_pir_scheme::dense::{DenseResponse, PartialResponse};
use unspoken_pir_scheme::{
    KEY_FORMAT, KeyHeader, Mode, PirParameters, PlaneShape, PreparedKeys, SchemeError, SeededKeys,
};
use unspoken_protocol::{
    Call, ForwardedKeys, KeyLimits, KeyLoader, KeySetId, Limits, Request, ServerHalf, ShardAccess, ShardProblem,
};

use crate::error::PirError;
use crate::keys;
use crate::message::{self, DENSE_WAITING, PlaneResponse};
use crate::shard::agreed::{Agreed, Shards};
use crate::shard::message::{partial_answer_bytes, read_partial_answer};

/// A database whose shards are served elsewhere, as one application: clients cannot tell it from a database that is
/// served as a whole. Needs no data and no keys for adding. If a shard is missing, nothing is answered.
pub struct PirRouter<A> {
    shards: Arc<Shards<A>>,
}

impl<A: ShardAccess> PirRouter<A> {
    /// Serves the database of these shards.
    pub fn new(shards: Arc<Shards<A>>) -> Self {
        PirRouter { shards }
    }
}

/// Adds the partial answers of all shards to a request of `queries` queries, and rounds them.
fn merged(agreed: &Agreed, queries: usize, answers: Vec<Vec<u8>>) -> Result<Vec<u8>, PirError> {
    let mut partials: Vec<Vec<PartialResponse>> = Vec::with_capacity(answers.len());
    for (shard, answer) in agreed.shards.iter().zip(answers) {
        let id = shard.id();
        let read = read_partial_answer(shard, queries, &answer);
        partials.push(read.map_err(|error| match error {
            PirError::Shard(problem) => problem,
            // Whatever is wrong with its bytes, it is not the fault of the client.
            error => ShardProblem::differs((id.number, id.shards), error.to_string(), "a partial answer"),
        })?);
    }
    let (database, parameters) = (agreed.database(), agreed.database().parameters());
    let PlaneShape::Dense(shape) = database.tables().shape() else {
        return Err(PirError::mismatch("tables of shards", "transformed ones", "dense ones"));
    };
    let response = |at: usize| {
        let all: Vec<PartialResponse> = partials.iter().filter_map(|shard| shard.get(at).cloned()).collect();
        Ok(PlaneResponse::Dense(DenseResponse::merged(parameters, shape, &all)?))
    };
    let responses = 0..queries * database.tables().planes();
    let responses: Vec<PlaneResponse> = responses.map(response).collect::<Result<_, PirError>>()?;
    Ok(message::write_answer(database, agreed.version(), responses.iter()))
}

impl<A: ShardAccess> KeyLoader for PirRouter<A> {
    type Keys = ForwardedKeys;
    type KeyError = PirError;

    /// Not the key set of databases: a service that offers databases would load the keys for computing.
    fn key_set(&self) -> KeySetId {
        KeySetId::new("private retrieval, passed on", &self.shards.agreed().database().parameters().fingerprint())
    }

    fn key_limits(&self) -> KeyLimits {
        let bytes = bundle_bytes(self.shards.agreed().database().parameters());
        KeyLimits { format: KEY_FORMAT, front_bytes: KeyHeader::BYTES, max_bytes: bytes, memory_bytes: bytes }
    }

    fn loaded_key_bytes(&self, front: &[u8]) -> Result<u64, PirError> {
        let agreed = self.shards.agreed();
        let mode = KeyHeader::read(agreed.database().parameters(), front)?.mode();
        match mode {
            Mode::Packed => Ok(bundle_bytes(agreed.database().parameters())),
            _ => Err(message::other_tables(agreed.database(), mode)),
        }
    }

    fn load_keys(&self, bundle: &mut dyn Read) -> Result<ForwardedKeys, PirError> {
        let agreed = self.shards.agreed();
        let (parameters, mut bytes) = (agreed.database().parameters(), Vec::new());
        let read = bundle.take(bundle_bytes(parameters) + 1).read_to_end(&mut bytes);
        read.map_err(|source| PirError::Io { what: "read keys", source })?;
        self.loaded_key_bytes(&bytes)?;
        // Nothing malformed is passed on.
        keys::load(parameters, &mut bytes.as_slice())?;
        Ok(ForwardedKeys::new(KEY_FORMAT, bytes))
    }

    /// All are for these parameters, which do not change.
    fn check_keys(&self, _keys: &ForwardedKeys) -> Result<(), PirError> {
        Ok(())
    }
}

/// Bytes of a bundle of keys for packed queries.
fn bundle_bytes(parameters: &PirParameters) -> u64 {
    SeededKeys::byte_len(parameters, Mode::Packed)
}

impl<A: ShardAccess> ServerHalf for PirRouter<A> {
    type Error = PirError;

    fn describe(&self) -> Vec<u8> {
        self.shards.agreed().database().to_bytes()
    }

    fn check_ready(&self) -> Result<(), PirError> {
        match self.shards.problem() {
            None => Ok(()),
            Some(problem) => Err(problem.into()),
        }
    }

    /// Each request waits for its own answers alone. The shards answer those together that arrive together.
    fn limits(&self) -> Limits {
        let agreed = self.shards.agreed();
        let (database, shards) = (agreed.database(), self.shards.count() as u64);
        let (most, query_bytes) = (database.most_queries(), message::most_request_bytes(database));
        // A copy of the query for each shard, its partial answer as bytes and read, and the sums. Loading keys prepares
        // them once.
        let passed_on = shards * (query_bytes as u64 + 4 * partial_answer_bytes(database, most) as u64);
        let answer_bytes = database.answer_bytes(most);
        let keys = PreparedKeys::memory_bytes(database.parameters(), Mode::Packed);
        Limits {
            query_bytes,
            answer_bytes,
            working_bytes: passed_on + 2 * answer_bytes as u64 + keys,
            most_together: DENSE_WAITING,
            waits_for_others: true,
        }
    }

    fn prepared_bytes(&self) -> u64 {
        0
    }

    fn release_idle_memory(&self) {
        self.shards.agreed().database().parameters().release_idle();
    }

    /// All queries are answered from one version. A malformed request is not passed on, and none is while the shards
    /// are of different versions.
    fn answer(&self, request: &Request<'_, ForwardedKeys>, call: &Call<'_>) -> Result<Vec<u8>, PirError> {
        let agreed = self.shards.agreed();
        let queries = message::read_request(agreed.database(), request.query)?.len();
        if let Some(problem @ ShardProblem::Differs { .. }) = self.shards.problem() {
            return Err(problem.into());
        }
        let most = partial_answer_bytes(agreed.database(), queries);
        let answers = self.shards.ask_all(&agreed, request.keys, request.query, most, call.cancel);
        let interrupted = || PirError::Pir(SchemeError::Interrupted);
        merged(&agreed, queries, answers.map_err(|problem| problem.map_or_else(interrupted, PirError::from))?)
    }
}
