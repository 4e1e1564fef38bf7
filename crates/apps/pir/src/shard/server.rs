//! The service's half of a shard.

use std::io::Read;
use std::sync::atomic::AtomicBool;

use unspoken_pir_scheme::dense::{self, DenseQuery, PartialResponse};
use unspoken_pir_scheme::{DatabaseShard, PirParameters, PreparedKeys};
use unspoken_protocol::{
    ApplicationDescription, Call, Group, KeyLimits, KeyLoader, KeySetId, Limits, Request, ServerHalf, together,
};

use crate::description::Description;
use crate::error::PirError;
use crate::keys;
use crate::message::{self, DENSE_PASS, DENSE_WAITING, Queries};
use crate::server::check_device;
use crate::shard::description::ShardDescription;
use crate::shard::message::{partial_answer_bytes, write_partial_answer};

/// A shard of a database that answers queries to the whole database with partial answers.
pub struct ShardServer<S> {
    shard: S,
    description: ShardDescription,
}

impl<S: DatabaseShard> ShardServer<S> {
    /// Serves a shard.
    ///
    /// # Errors
    /// If the database's parameters allow no answers for its layout.
    pub fn new(shard: S) -> Result<Self, PirError> {
        let database = Description::new(shard.tables())?.with_sealing(shard.sealing());
        let description = ShardDescription::new(database, shard.id(), shard.version());
        Ok(ShardServer { shard, description })
    }

    fn parameters(&self) -> &PirParameters {
        self.description.database().parameters()
    }

    /// The queries of a request.
    fn read(&self, query: &[u8]) -> Result<Vec<DenseQuery>, PirError> {
        match message::read_request(self.description.database(), query)? {
            Queries::Dense(queries) => Ok(queries),
            Queries::Transformed(_) => Err(PirError::mismatch("tables of a shard", "transformed ones", "dense ones")),
        }
    }

    /// The partial answers to some requests, in their order.
    fn respond(
        &self,
        requests: &[(&Request<'_, PreparedKeys>, &Vec<DenseQuery>)],
        cancel: &AtomicBool,
    ) -> Result<Vec<Vec<u8>>, PirError> {
        let mut all: Vec<(&PreparedKeys, &DenseQuery)> = Vec::new();
        for (request, queries) in requests {
            all.extend(queries.iter().map(|query| (request.keys, query)));
        }
        let (planes, mut responses) = (self.shard.planes(), Vec::<Vec<PartialResponse>>::with_capacity(all.len()));
        for some in all.chunks(DENSE_PASS) {
            let answered = dense::partial_answer(self.parameters(), self.shard.part(), &planes, some, cancel)?;
            responses.extend(answered);
        }
        let mut rest = responses.iter();
        let write = |(_, queries): &(_, &Vec<DenseQuery>)| {
            write_partial_answer(&self.description, rest.by_ref().take(queries.len()).flatten())
        };
        Ok(requests.iter().map(write).collect())
    }
}

impl<S: DatabaseShard> KeyLoader for ShardServer<S> {
    type Keys = PreparedKeys;
    type KeyError = PirError;

    fn key_set(&self) -> KeySetId {
        self.description.key_set()
    }

    fn key_limits(&self) -> KeyLimits {
        keys::limits(self.parameters())
    }

    fn loaded_key_bytes(&self, front: &[u8]) -> Result<u64, PirError> {
        keys::memory_bytes(self.parameters(), front)
    }

    fn load_keys(&self, mut bundle: &mut dyn Read) -> Result<PreparedKeys, PirError> {
        keys::load(self.parameters(), &mut bundle)
    }

    fn check_keys(&self, keys: &PreparedKeys) -> Result<(), PirError> {
        keys::check(self.parameters(), keys)
    }
}

impl<S: DatabaseShard> ServerHalf for ShardServer<S> {
    type Error = PirError;

    fn describe(&self) -> Vec<u8> {
        self.description.to_bytes()
    }

    /// Not if the device has failed.
    fn check_ready(&self) -> Result<(), PirError> {
        check_device(self.parameters())
    }

    fn limits(&self) -> Limits {
        let database = self.description.database();
        let answer_bytes = partial_answer_bytes(database, database.most_queries());
        let each = dense::answer_memory_bytes(self.parameters(), self.shard.part().shape());
        Limits {
            query_bytes: message::most_request_bytes(database),
            answer_bytes,
            // Partial responses are in memory before they are written.
            working_bytes: database.most_queries() as u64 * each + 2 * answer_bytes as u64,
            most_together: DENSE_WAITING,
            waits_for_others: false,
        }
    }

    fn prepared_bytes(&self) -> u64 {
        self.shard.resident_bytes()
    }

    fn release_idle_memory(&self) {
        self.parameters().release_idle();
    }

    fn answer(&self, request: &Request<'_, PreparedKeys>, call: &Call<'_>) -> Result<Vec<u8>, PirError> {
        together::only(self.answer_together(std::slice::from_ref(request), call))
    }

    /// Requests are answered together, up to the queries of one pass.
    fn group(&self, request: &Request<'_, PreparedKeys>) -> Group {
        message::dense_group(self.description.database(), request.query)
    }

    fn answer_together(
        &self,
        requests: &[Request<'_, PreparedKeys>],
        call: &Call<'_>,
    ) -> Vec<Result<Vec<u8>, PirError>> {
        let read = |request: &Request<'_, _>| self.read(request.query);
        together::answer_readable(requests, read, |some| {
            together::answer_all_or_each(some, &|some| self.respond(some, call.cancel))
        })
    }
}
