//! The router: it has no data, passes requests on to all shards, and puts their answers together.

use std::ops::Range;
use std::sync::Arc;

use unspoken_pir_scheme::SchemeError;
use unspoken_protocol::{
    Call, ForwardedKeys, KeyGenerator, Limits, Registration, Request, ServerHalf, ShardAccess, ShardProblem,
    impl_registering_server,
};

use crate::description::Description;
use crate::error::SearchError;
use crate::message::{self, AnswerContent};
use crate::shard::agreed::{Agreed, Shards};

/// Requests that wait for shards, at most.
const MAX_WAITING: usize = 64;

/// An index whose groups of columns are served elsewhere, as one application: clients cannot tell it from an index that
/// is served as a whole. If a shard is missing, nothing is answered.
pub struct SearchRouter<A> {
    shards: Arc<Shards<A>>,
    documents: String,
    /// Of the router, at all shards: they do not know its clients.
    keys: ForwardedKeys,
}

impl<A: ShardAccess> SearchRouter<A> {
    /// Serves the index of these shards. Clients fetch its documents from the application `documents` of the same
    /// service.
    ///
    /// # Errors
    /// If the system has no randomness.
    pub fn new(shards: Arc<Shards<A>>, documents: String) -> Result<Self, SearchError> {
        let registration = Registration::generate()?.secret_bytes()?.to_vec();
        let keys = ForwardedKeys::new(Registration::KEY_LIMITS.format, registration);
        Ok(SearchRouter { shards, documents, keys })
    }

    fn description(&self, agreed: &Agreed) -> Description {
        agreed.index().clone().with_documents(self.documents.clone())
    }
}

/// Most bytes of the answer of a shard.
fn largest_answer(agreed: &Agreed, questions: usize) -> usize {
    let bytes = |(_, range): (usize, Range<usize>)| agreed.index().part_answer_bytes(range.len(), questions);
    agreed.in_order().into_iter().map(bytes).max().unwrap_or(0)
}

/// Puts the answers of all shards to a request together.
fn joined(agreed: &Agreed, questions: usize, answers: &[Vec<u8>]) -> Result<Vec<u8>, SearchError> {
    let read = |(position, range): (usize, Range<usize>)| -> Result<_, SearchError> {
        let answer = AnswerContent::read_part(agreed.index(), range.clone(), &answers[position], questions);
        let named = (position as u32 + 1, answers.len() as u32);
        // Whatever is wrong with its bytes, it is not the fault of the client.
        let content = answer
            .map_err(|error| ShardProblem::differs(named, error.to_string(), "an answer of this build of the index"))?;
        Ok((range.len(), content))
    };
    let contents = agreed.in_order().into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
    Ok(message::join_answers(agreed.index(), &contents, questions))
}

impl_registering_server!(SearchRouter<A> where A: ShardAccess);

impl<A: ShardAccess> ServerHalf for SearchRouter<A> {
    type Error = SearchError;

    fn describe(&self) -> Vec<u8> {
        self.description(&self.shards.agreed()).to_bytes()
    }

    fn check_ready(&self) -> Result<(), SearchError> {
        match self.shards.problem() {
            None => Ok(()),
            Some(problem) => Err(problem.into()),
        }
    }

    /// Each request waits for its own answers alone. The shards answer those together that arrive together.
    fn limits(&self) -> Limits {
        let agreed = self.shards.agreed();
        let (index, shards) = (agreed.index(), self.shards.count() as u64);
        let most = index.most_questions();
        let (query_bytes, answer_bytes) = (index.query_bytes(most), index.answer_bytes(most));
        Limits {
            query_bytes,
            answer_bytes,
            // A copy of the query for each shard, its answer as bytes, and all answers together.
            working_bytes: shards * (query_bytes + largest_answer(&agreed, most)) as u64 + 2 * answer_bytes as u64,
            most_together: MAX_WAITING,
            waits_for_others: true,
        }
    }

    fn prepared_bytes(&self) -> u64 {
        0
    }

    /// All questions are answered from one build. A malformed request is not passed on, and none is while the shards
    /// are of different builds.
    fn answer(&self, request: &Request<'_, ()>, call: &Call<'_>) -> Result<Vec<u8>, SearchError> {
        let agreed = self.shards.agreed();
        let index = agreed.index();
        let questions = message::read_request(index, request.query)?.len() / index.directory().asked();
        if let Some(problem @ ShardProblem::Differs { .. }) = self.shards.problem() {
            return Err(problem.into());
        }
        match self.shards.ask_all(&agreed, &self.keys, request.query, largest_answer(&agreed, questions), call.cancel) {
            Ok(answers) => joined(&agreed, questions, &answers),
            Err(Some(problem)) => Err(problem.into()),
            Err(None) => Err(SearchError::Scheme(SchemeError::Interrupted)),
        }
    }
}
