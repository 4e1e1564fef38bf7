//! The server's side of a form of query.

use unspoken_ckks::{Bootstrapper, Ciphertext, Encoder, Evaluator, vector_bytes};
use unspoken_lookup::Lookup;
use unspoken_protocol::Ledger;
use unspoken_rlwe::KeyPlan;

use crate::codec::QueryCodec;
use crate::error::QueryError;

/// The server's side of a form of query: with what it takes to bootstrap, if it is compact.
pub struct QueryReader {
    query: QueryCodec,
    bootstrapper: Option<Bootstrapper>,
    ledger: Ledger,
}

impl QueryReader {
    /// Makes ready for queries of this form. For compact ones this encodes the bootstrap's matrices, which take
    /// [`QueryReader::prepared_bytes`] of memory.
    ///
    /// # Errors
    /// If the matrices do not encode.
    pub fn new(encoder: &Encoder, query: QueryCodec) -> Result<Self, QueryError> {
        let bootstrapper = match &query {
            QueryCodec::Compact(compact) => Some(Bootstrapper::from_coefficients(encoder, compact.bootstrap()?)?),
            QueryCodec::Direct(_) | QueryCodec::OneHot(_) => None,
        };
        Ok(QueryReader { query, bootstrapper, ledger: Ledger::default() })
    }

    /// The form of query.
    pub fn query(&self) -> &QueryCodec {
        &self.query
    }

    /// The keys it needs to make a lookup's vectors of a query; none unless that is compact.
    pub fn key_plan(&self) -> KeyPlan {
        self.bootstrapper.as_ref().map(|bootstrapper| bootstrapper.plan().query_key_plan()).unwrap_or_default()
    }

    /// Bytes a bootstrap's encoded matrices take in memory. 0 without one.
    pub fn prepared_bytes(&self) -> u64 {
        self.bootstrapper.as_ref().map_or(0, Bootstrapper::prepared_bytes)
    }

    /// Bytes of memory that reading a query and running `lookup` on it takes at its peak, beyond keys and prepared data:
    /// the query's vectors, and a bootstrap or the lookup, which follow each other.
    pub fn working_bytes(&self, lookup: &Lookup) -> u64 {
        let shape = self.query.shape();
        let vectors = self.query.vectors() as u64 * vector_bytes(&shape.parameters, shape.level);
        vectors + self.bootstrapper.as_ref().map_or(0, Bootstrapper::working_bytes).max(lookup.working_bytes())
    }

    /// Reads a query of untrusted bytes into the vectors of a [`Lookup`](unspoken_lookup::Lookup), whose own check sees to their level and scale.
    ///
    /// # Errors
    /// If their number is wrong, one is malformed, or a seed comes twice, in this query or with another vector in an earlier
    /// one: the difference of such a pair is that of its messages, in the clear but for small errors. Or if the bootstrap of
    /// a compact query fails: keys are missing, or the evaluator was cancelled.
    pub fn read(&self, evaluator: &Evaluator<'_>, vectors: &[Vec<u8>]) -> Result<Vec<Ciphertext>, QueryError> {
        self.query.check_count(vectors)?;
        let (QueryCodec::Compact(compact), Some(bootstrapper)) = (&self.query, &self.bootstrapper) else {
            return Ok(self.ledger.read(&self.query.shape().parameters, vectors)?);
        };
        let queries = vectors.iter().map(|bytes| compact.read_vector(bytes)).collect::<Result<Vec<_>, _>>()?;
        self.ledger.admit(queries.iter().map(|query| query.seed().as_slice()), vectors)?;
        queries.iter().map(|query| compact.open(evaluator, bootstrapper, query)).collect()
    }
}
