//! The service's half: the scores of all clusters of the blocks that it is asked for, without learning which.

use std::sync::atomic::AtomicBool;

use unspoken_pir_scheme::dense::RowsQuery;
use unspoken_pir_scheme::dense::scores::{ScoreResponse, answer, answer_memory_bytes};
use unspoken_protocol::{Call, Group, Limits, Request, ServerHalf, impl_registering_server, together};
use unspoken_search_index::StoredIndex;

use crate::description::{Description, MAX_QUERIES};
use crate::error::SearchError;
use crate::message;

/// Requests that wait for a pass, at most: those of one pass, and as many that arrive meanwhile.
const MAX_WAITING: usize = 2 * MAX_QUERIES;

/// A collection that is searched without showing the queries.
pub struct SearchServer {
    index: StoredIndex,
    description: Description,
}

impl SearchServer {
    /// Serves an index. Clients fetch its documents from the application `documents` of the same service.
    ///
    /// # Errors
    /// If a question would be too long, or a number of the index is out of its range.
    pub fn new(index: StoredIndex, documents: String) -> Result<Self, SearchError> {
        Ok(SearchServer { description: Description::new(&index, documents)?, index })
    }

    /// What clients know.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// The responses to the queries of some requests, in one pass.
    fn respond(
        &self,
        requests: &[&Vec<RowsQuery>],
        cancel: &AtomicBool,
    ) -> Result<Vec<Vec<Vec<ScoreResponse>>>, SearchError> {
        let (parameters, shape) = (self.description.parameters(), self.description.shape());
        let queries: Vec<&RowsQuery> = requests.iter().flat_map(|queries| queries.iter()).collect();
        let groups = self.index.table().groups();
        let mut responses = answer(parameters, shape, 0..shape.groups(), &groups, &queries, cancel)?.into_iter();
        Ok(requests.iter().map(|queries| responses.by_ref().take(queries.len()).collect()).collect())
    }
}

impl_registering_server!(SearchServer);

impl ServerHalf for SearchServer {
    type Error = SearchError;

    fn describe(&self) -> Vec<u8> {
        self.description.to_bytes()
    }

    fn limits(&self) -> Limits {
        let (description, most) = (&self.description, self.description.most_questions());
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
        self.index.table().memory_bytes() as u64
    }

    fn answer(&self, request: &Request<'_, ()>, call: &Call<'_>) -> Result<Vec<u8>, SearchError> {
        together::only(self.answer_together(std::slice::from_ref(request), call))
    }

    /// Requests are answered together, up to the queries of one pass.
    fn group(&self, request: &Request<'_, ()>) -> Group {
        let description = &self.description;
        let queries = request.query.len() * description.directory().asked() / description.query_bytes(1);
        Group { id: 0, weight: queries.max(1), most: MAX_QUERIES }
    }

    /// Requests for another index are refused.
    fn answer_together(&self, requests: &[Request<'_, ()>], call: &Call<'_>) -> Vec<Result<Vec<u8>, SearchError>> {
        let answer = |some: &[(&Request<'_, ()>, &Vec<RowsQuery>)]| {
            let queries: Vec<_> = some.iter().map(|&(_, queries)| queries).collect();
            let responses = self.respond(&queries, call.cancel)?;
            Ok(responses.iter().map(|responses| message::write_answer(&self.description, responses)).collect())
        };
        let read = |request: &Request<'_, ()>| message::read_request(&self.description, request.query);
        together::answer_readable(requests, read, |some| together::answer_all_or_each(some, &answer))
    }
}
