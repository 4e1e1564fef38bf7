//! The service's half: answers encrypted queries with encrypted cells.

use std::io::Read;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, PoisonError, RwLock};

use rayon::prelude::*;
use unspoken_pir_scheme::{
    DatabaseVersion, PirParameters, PlaneShape, Planes, PreparedKeys, Query, Response, SchemeError, Staleness,
    VersionedDatabase, answer, answer_memory_bytes, dense, encrypted,
};
use unspoken_protocol::{
    ApplicationDescription, Call, Group, KeyLimits, KeyLoader, KeySetId, Limits, Request, ServerHalf, together,
};
use unspoken_ring::{Device, RingError};

use crate::description::Description;
use crate::error::PirError;
use crate::keys;
use crate::message::{self, DENSE_PASS, DENSE_WAITING, PlaneResponse, Queries};
use crate::session_guard::SessionGuard;

/// A database that answers queries without learning the indices. It follows the database, also into another layout.
pub struct PirServer<V> {
    versions: V,
    /// The description of the last layout that was served.
    described: RwLock<Arc<Description>>,
    sessions: SessionGuard,
}

impl<V: VersionedDatabase> PirServer<V> {
    /// Serves a database.
    ///
    /// # Errors
    /// If the database's parameters allow no tables for its layout.
    pub fn new(versions: V) -> Result<Self, PirError> {
        let description = describe(&*versions.current())?;
        Ok(PirServer { versions, described: RwLock::new(Arc::new(description)), sessions: SessionGuard::new() })
    }

    fn parameters(&self) -> &PirParameters {
        self.versions.parameters()
    }

    /// The description of the current version, or of the last one that could be served.
    fn description(&self) -> Arc<Description> {
        let current = self.description_of(&*self.versions.current());
        current.unwrap_or_else(|_| self.last_description())
    }

    fn last_description(&self) -> Arc<Description> {
        Arc::clone(&self.described.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The description of a version.
    fn description_of(&self, version: &impl DatabaseVersion) -> Result<Arc<Description>, PirError> {
        let last = self.last_description();
        if last.tables() == version.tables() && last.sealing() == version.sealing() {
            return Ok(last);
        }
        let description = Arc::new(describe(version)?);
        *self.described.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&description);
        Ok(description)
    }

    /// The queries of a request, whose numbers have not been used before.
    fn read(&self, description: &Description, request: &Request<'_, PreparedKeys>) -> Result<Queries, PirError> {
        let queries = message::read_request(description, request.query)?;
        if let Queries::Transformed(queries) = &queries {
            self.sessions.admit(request.client, request.keys.session_seed(), queries)?;
        }
        Ok(queries)
    }
}

fn describe(version: &impl DatabaseVersion) -> Result<Description, PirError> {
    Ok(Description::new(version.tables())?.with_sealing(version.sealing()))
}

/// Refuses a device that has failed, if the processor does not compute in its place.
pub(crate) fn check_device(parameters: &PirParameters) -> Result<(), PirError> {
    let checked = parameters.ring().device().map_or(Ok(()), Device::check_ready);
    Ok(checked.map_err(|failure| SchemeError::from(RingError::from(failure)))?)
}

/// Number of queries to transformed tables that are answered at the same time. A device computes one query after the
/// other. If the processor may take its place, there must be memory for the processor's number.
fn at_once(description: &Description) -> usize {
    match description.tables().parameters().ring().device() {
        Some(device) if !device.falls_back() => 1,
        _ => rayon::current_num_threads().clamp(1, description.most_queries()),
    }
}

/// The responses to the queries of some requests: for each request, the responses to its queries one after the other.
fn respond<V: DatabaseVersion>(
    version: &V,
    description: &Description,
    requests: &[(&PreparedKeys, &Queries)],
    cancel: &AtomicBool,
) -> Result<Vec<Vec<PlaneResponse>>, PirError> {
    let (tables, planes) = (description.tables(), version.planes());
    match (tables.shape(), &planes) {
        (PlaneShape::Transformed(shape), Planes::Transformed(planes)) => {
            respond_to_each(description, requests, |keys, query| answer(keys, shape, planes, query, cancel))
        }
        (PlaneShape::Encrypted(_), Planes::Encrypted(view)) => {
            respond_to_each(description, requests, |keys, query| encrypted::answer(keys, tables, *view, query, cancel))
        }
        (PlaneShape::Dense(shape), Planes::Dense(planes)) => {
            let all = each_query(requests, |queries| match queries {
                Queries::Transformed(_) => &[],
                Queries::Dense(queries) => queries.as_slice(),
            });
            let mut responses = Vec::with_capacity(all.len());
            for some in all.chunks(DENSE_PASS) {
                let answered = dense::answer(tables.parameters(), shape, planes, some, cancel)?;
                let planes = answered.into_iter().map(|planes| planes.into_iter().map(PlaneResponse::Dense).collect());
                responses.extend(planes);
            }
            Ok(by_request(requests, responses))
        }
        _ => Err(PirError::mismatch("tables of the database", "another kind than described", "one kind")),
    }
}

/// The responses to queries that are answered one by one with the keys of their clients.
fn respond_to_each(
    description: &Description,
    requests: &[(&PreparedKeys, &Queries)],
    answer: impl Fn(&PreparedKeys, &Query) -> Result<Vec<Response>, SchemeError> + Sync,
) -> Result<Vec<Vec<PlaneResponse>>, PirError> {
    let respond = |(keys, query): &(&PreparedKeys, &Query)| {
        Ok(answer(keys, query)?.into_iter().map(PlaneResponse::Transformed).collect())
    };
    let all = each_query(requests, |queries| match queries {
        Queries::Transformed(queries) => queries.as_slice(),
        Queries::Dense(_) => &[],
    });
    let mut responses: Vec<Vec<PlaneResponse>> = Vec::with_capacity(all.len());
    // Not all queries at the same time: a thread that waits for others begins the next query.
    for some in all.chunks(at_once(description)) {
        responses.extend(some.par_iter().map(respond).collect::<Result<Vec<_>, PirError>>()?);
    }
    Ok(by_request(requests, responses))
}

/// All queries of some requests with the keys of their clients.
fn each_query<'a, Q>(
    requests: &[(&'a PreparedKeys, &'a Queries)],
    queries: impl Fn(&'a Queries) -> &'a [Q],
) -> Vec<(&'a PreparedKeys, &'a Q)> {
    requests.iter().flat_map(|&(keys, of)| queries(of).iter().map(move |query| (keys, query))).collect()
}

/// Divides the responses to all queries among the requests.
fn by_request(requests: &[(&PreparedKeys, &Queries)], responses: Vec<Vec<PlaneResponse>>) -> Vec<Vec<PlaneResponse>> {
    let mut rest = responses.into_iter();
    requests.iter().map(|(_, queries)| rest.by_ref().take(queries.len()).flatten().collect()).collect()
}

/// The error if the database was replaced by a database that cannot be served in its place.
fn replaced() -> PirError {
    let found = "one that was replaced, and cannot be taken up by a running service";
    PirError::mismatch("database", found, "a restart of the service by its owner, whose log says why")
}

/// The error of a database whose tables cannot be described.
fn not_described(error: &PirError) -> PirError {
    PirError::mismatch("database", error, "one that can be served; the service's owner must rebuild it")
}

impl<V: VersionedDatabase> KeyLoader for PirServer<V> {
    type Keys = PreparedKeys;
    type KeyError = PirError;

    /// The same for every kind of queries: a bundle says which kind it is for.
    fn key_set(&self) -> KeySetId {
        self.description().key_set()
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

    /// Keys of these parameters serve every database.
    fn check_keys(&self, keys: &PreparedKeys) -> Result<(), PirError> {
        keys::check(self.parameters(), keys)
    }
}

impl<V: VersionedDatabase> ServerHalf for PirServer<V> {
    type Error = PirError;

    fn describe(&self) -> Vec<u8> {
        self.description().to_bytes()
    }

    fn check_ready(&self) -> Result<(), PirError> {
        self.description_of(&*self.versions.current())?;
        check_device(self.parameters())?;
        match self.versions.staleness() {
            None => Ok(()),
            Some(Staleness::Replaced) => Err(replaced()),
            Some(Staleness::Unreadable) => {
                let needed = "the newest; the service's log says why it cannot be read";
                Err(PirError::mismatch("version of the database", "an earlier one", needed))
            }
        }
    }

    fn limits(&self) -> Limits {
        let description = self.description();
        let (parameters, most) = (self.parameters(), description.most_queries());
        let computed = match description.tables().shape() {
            PlaneShape::Transformed(shape) => at_once(&description) as u64 * answer_memory_bytes(parameters, shape),
            PlaneShape::Encrypted(shape) => {
                at_once(&description) as u64 * encrypted::answer_memory_bytes(parameters, shape)
            }
            PlaneShape::Dense(shape) => most as u64 * dense::answer_memory_bytes(parameters, shape),
        };
        let answer_bytes = description.answer_bytes(most);
        Limits {
            query_bytes: message::most_request_bytes(&description),
            answer_bytes,
            // Responses need twice their length before they are packed.
            working_bytes: computed + 2 * answer_bytes as u64,
            most_together: if description.tables().kind().is_dense() { DENSE_WAITING } else { 1 },
            waits_for_others: false,
        }
    }

    fn prepared_bytes(&self) -> u64 {
        self.versions.resident_bytes() + self.sessions.capacity_bytes()
    }

    fn release_idle_memory(&self) {
        self.parameters().release_idle();
    }

    fn answer(&self, request: &Request<'_, PreparedKeys>, call: &Call<'_>) -> Result<Vec<u8>, PirError> {
        together::only(self.answer_together(std::slice::from_ref(request), call))
    }

    /// Requests to dense tables are answered together, up to the queries of one pass.
    fn group(&self, request: &Request<'_, PreparedKeys>) -> Group {
        let description = self.description();
        match description.tables().kind().is_dense() {
            true => message::dense_group(&description, request.query),
            false => Group::ALONE,
        }
    }

    /// All queries of all requests are answered from one version. Queries for an earlier layout are refused, or
    /// answered with the id of the current one, which their client does not accept.
    fn answer_together(
        &self,
        requests: &[Request<'_, PreparedKeys>],
        call: &Call<'_>,
    ) -> Vec<Result<Vec<u8>, PirError>> {
        if self.versions.staleness() == Some(Staleness::Replaced) {
            return requests.iter().map(|_| Err(replaced())).collect();
        }
        let version = self.versions.current();
        let description = match self.description_of(&*version) {
            Ok(description) => description,
            Err(error) => return requests.iter().map(|_| Err(not_described(&error))).collect(),
        };
        let answer = |some: &[(&Request<'_, PreparedKeys>, &Queries)]| {
            let requests: Vec<_> = some.iter().map(|&(request, queries)| (request.keys, queries)).collect();
            let responses = respond(&*version, &description, &requests, call.cancel)?;
            let write = |responses: &Vec<_>| message::write_answer(&description, version.version(), responses.iter());
            Ok(responses.iter().map(write).collect())
        };
        let read = |request: &_| self.read(&description, request);
        together::answer_readable(requests, read, |some| together::answer_all_or_each(some, &answer))
    }
}
