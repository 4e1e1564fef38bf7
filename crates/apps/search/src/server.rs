//! The service's half: the scores of all clusters of the blocks that it is asked for, without learning which. A service
//! of a shard computes those of some groups of columns.

use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, PoisonError, RwLock};

use unspoken_pir_scheme::dense::RowsQuery;
use unspoken_pir_scheme::dense::scores::{ScoreResponse, answer, answer_memory_bytes};
use unspoken_protocol::{Call, Group, Limits, Request, ServerHalf, impl_registering_server, together};
use unspoken_search_index::{IndexVersions, StoredIndex};

use crate::description::{Description, MAX_QUERIES};
use crate::error::SearchError;
use crate::message;
use crate::shard::ShardDescription;

/// Requests that wait for a pass, at most: those of one pass, and as many that arrive meanwhile.
const MAX_WAITING: usize = 2 * MAX_QUERIES;

/// A collection that is searched without showing the queries, or a shard of it for a
/// [`SearchRouter`](crate::SearchRouter), if a part of the table is prepared. It follows the index, also into another
/// build.
pub struct SearchServer<V> {
    versions: V,
    documents: String,
    /// The last version that could be served.
    last: RwLock<Arc<Served>>,
}

/// A version of the index, and what clients know of it.
struct Served {
    index: Arc<StoredIndex>,
    description: Description,
}

impl<V: IndexVersions> SearchServer<V> {
    /// Serves an index. Clients fetch its documents from the application `documents` of the same service.
    ///
    /// # Errors
    /// If a question would be too long, or a number of the index is out of its range.
    pub fn new(versions: V, documents: String) -> Result<Self, SearchError> {
        let index = versions.current();
        let description = Description::new(&index, documents.clone())?;
        Ok(SearchServer { versions, documents, last: RwLock::new(Arc::new(Served { index, description })) })
    }

    /// The newest version, or an error if it cannot be served.
    fn newest(&self) -> Result<Arc<Served>, SearchError> {
        let (index, last) = (self.versions.current(), self.last());
        if Arc::ptr_eq(&index, &last.index) {
            return Ok(last);
        }
        let description = Description::new(&index, self.documents.clone())?;
        let served = Arc::new(Served { index, description });
        *self.last.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&served);
        Ok(served)
    }

    fn last(&self) -> Arc<Served> {
        Arc::clone(&self.last.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The newest version that can be served.
    fn served(&self) -> Arc<Served> {
        self.newest().unwrap_or_else(|_| self.last())
    }
}

impl Served {
    /// The groups of a shard; none of a whole index.
    fn part(&self) -> Option<Range<usize>> {
        self.index.is_shard().then(|| self.index.range())
    }

    /// The responses to the queries of some requests, in one pass.
    fn respond(
        &self,
        requests: &[&Vec<RowsQuery>],
        cancel: &AtomicBool,
    ) -> Result<Vec<Vec<Vec<ScoreResponse>>>, SearchError> {
        let (parameters, shape) = (self.description.parameters(), self.description.shape());
        let queries: Vec<&RowsQuery> = requests.iter().flat_map(|queries| queries.iter()).collect();
        let groups = self.index.groups();
        let mut responses = answer(parameters, shape, self.index.range(), &groups, &queries, cancel)?.into_iter();
        Ok(requests.iter().map(|queries| responses.by_ref().take(queries.len()).collect()).collect())
    }
}

impl_registering_server!(SearchServer<V> where V: IndexVersions);

impl<V: IndexVersions> ServerHalf for SearchServer<V> {
    type Error = SearchError;

    fn describe(&self) -> Vec<u8> {
        let served = self.served();
        match served.part() {
            None => served.description.to_bytes(),
            Some(range) => ShardDescription::new(served.description.clone(), range).to_bytes(),
        }
    }

    fn check_ready(&self) -> Result<(), SearchError> {
        self.newest()?;
        match self.versions.is_stale() {
            false => Ok(()),
            true => {
                let needed = "the newest; the service's log says why it cannot be read";
                Err(SearchError::mismatch("version of the index", "an earlier one", needed))
            }
        }
    }

    fn limits(&self) -> Limits {
        let served = self.served();
        let (description, most) = (&served.description, served.description.most_questions());
        let queries = most * description.directory().asked();
        let answer_bytes = match served.part() {
            None => description.answer_bytes(most),
            Some(range) => description.part_answer_bytes(range.len(), most),
        };
        Limits {
            query_bytes: description.query_bytes(most),
            answer_bytes,
            // Responses need twice their length before they are packed.
            working_bytes: queries as u64 * answer_memory_bytes(description.parameters(), description.shape())
                + 2 * answer_bytes as u64,
            most_together: MAX_WAITING,
            waits_for_others: false,
        }
    }

    fn prepared_bytes(&self) -> u64 {
        self.last().index.memory_bytes() as u64
    }

    fn answer(&self, request: &Request<'_, ()>, call: &Call<'_>) -> Result<Vec<u8>, SearchError> {
        together::only(self.answer_together(std::slice::from_ref(request), call))
    }

    /// Requests are answered together, up to the queries of one pass.
    fn group(&self, request: &Request<'_, ()>) -> Group {
        let served = self.served();
        let description = &served.description;
        let queries = request.query.len() * description.directory().asked() / description.query_bytes(1);
        Group { id: 0, weight: queries.max(1), most: MAX_QUERIES }
    }

    /// All requests are answered from one version. Those for another build are refused.
    fn answer_together(&self, requests: &[Request<'_, ()>], call: &Call<'_>) -> Vec<Result<Vec<u8>, SearchError>> {
        let served = self.served();
        let (description, index) = (&served.description, &served.index);
        let answer = |some: &[(&Request<'_, ()>, &Vec<RowsQuery>)]| {
            let queries: Vec<_> = some.iter().map(|&(_, queries)| queries).collect();
            let responses = served.respond(&queries, call.cancel)?;
            let write = |responses: &Vec<Vec<ScoreResponse>>| {
                let (versions, counts) = (index.document_versions(), index.counts());
                message::write_answer(description, served.part(), versions, counts, responses)
            };
            Ok(responses.iter().map(write).collect())
        };
        let read = |request: &Request<'_, ()>| message::read_request(description, request.query);
        together::answer_readable(requests, read, |some| together::answer_all_or_each(some, &answer))
    }
}
