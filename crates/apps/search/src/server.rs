//! The service's half: the scores of all clusters of the blocks that it is asked for, without learning which.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use unspoken_pir_scheme::dense::scores::{ScoreResponse, answer, answer_memory_bytes};
use unspoken_pir_scheme::dense::{GroupView, RowsQuery};
use unspoken_protocol::{Call, Group, Limits, Request, ServerHalf, impl_registering_server, together};

use crate::description::{Description, MAX_QUERIES};
use crate::error::SearchError;
use crate::message;

/// Requests that wait for a pass, at most: those of one pass, and as many that arrive meanwhile.
const MAX_WAITING: usize = 2 * MAX_QUERIES;

/// An index: its table, and what clients know of it.
pub trait SearchIndex: Send + Sync {
    /// What clients know.
    fn description(&self) -> &Description;

    /// All groups of the table.
    fn groups(&self) -> Vec<GroupView<'_>>;

    /// Bytes in memory.
    fn resident_bytes(&self) -> u64;
}

/// An index that may be replaced while it is served.
pub trait CurrentIndex: Send + Sync + 'static {
    /// The index that answers requests from now on.
    fn current(&self) -> Arc<dyn SearchIndex>;
}

/// A collection that is searched without showing the queries.
pub struct SearchServer {
    index: Box<dyn CurrentIndex>,
}

impl SearchServer {
    /// Serves an index.
    pub fn new(index: impl CurrentIndex) -> Self {
        SearchServer { index: Box::new(index) }
    }
}

/// The responses to the queries of some requests, in one pass.
fn respond(
    index: &dyn SearchIndex,
    requests: &[&Vec<RowsQuery>],
    cancel: &AtomicBool,
) -> Result<Vec<Vec<Vec<ScoreResponse>>>, SearchError> {
    let (description, groups) = (index.description(), index.groups());
    let queries: Vec<&RowsQuery> = requests.iter().flat_map(|queries| queries.iter()).collect();
    let (parameters, shape) = (description.parameters(), description.shape());
    let mut responses = Vec::with_capacity(queries.len());
    for some in queries.chunks(MAX_QUERIES) {
        responses.extend(answer(parameters, shape, 0..shape.groups(), &groups, some, cancel)?);
    }
    let mut rest = responses.into_iter();
    Ok(requests.iter().map(|queries| rest.by_ref().take(queries.len()).collect()).collect())
}

impl_registering_server!(SearchServer);

impl ServerHalf for SearchServer {
    type Error = SearchError;

    fn describe(&self) -> Vec<u8> {
        self.index.current().description().to_bytes()
    }

    fn limits(&self) -> Limits {
        let index = self.index.current();
        let (description, most) = (index.description(), index.description().most_questions());
        let queries = most * description.directory().asked();
        let answer_bytes = description.answer_bytes(most);
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
        self.index.current().resident_bytes()
    }

    fn answer(&self, request: &Request<'_, ()>, call: &Call<'_>) -> Result<Vec<u8>, SearchError> {
        together::only(self.answer_together(std::slice::from_ref(request), call))
    }

    /// Requests are answered together, up to the queries of one pass.
    fn group(&self, request: &Request<'_, ()>) -> Group {
        let index = self.index.current();
        let description = index.description();
        let queries = request.query.len() * description.directory().asked() / description.query_bytes(1);
        Group { id: 0, weight: queries.max(1), most: MAX_QUERIES }
    }

    /// All requests are answered from one index. Those for another one are refused.
    fn answer_together(&self, requests: &[Request<'_, ()>], call: &Call<'_>) -> Vec<Result<Vec<u8>, SearchError>> {
        let index = self.index.current();
        let answer = |some: &[(&Request<'_, ()>, &Vec<RowsQuery>)]| {
            let queries: Vec<_> = some.iter().map(|&(_, queries)| queries).collect();
            let responses = respond(&*index, &queries, call.cancel)?;
            Ok(responses.iter().map(|responses| message::write_answer(index.description(), responses)).collect())
        };
        let read = |request: &Request<'_, ()>| message::read_request(index.description(), request.query);
        together::answer_readable(requests, read, |some| together::answer_all_or_each(some, &answer))
    }
}
