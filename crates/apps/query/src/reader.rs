//! The server's side of queries.

use unspoken_ckks::{Bootstrapper, Ciphertext, Encoder, Evaluator, vector_bytes};
use unspoken_lookup::Lookup;
use unspoken_protocol::{ClientId, SeedGuard};
use unspoken_rlwe::KeyPlan;

use crate::codec::QueryCodec;
use crate::error::QueryError;
use crate::small::SmallQuery;

/// The server's side of a form of query, with the bootstrapper if the form is compact.
pub struct QueryReader {
    query: QueryCodec,
    bootstrapper: Option<Bootstrapper>,
    seeds: SeedGuard,
}

impl QueryReader {
    /// Prepares for queries of this form. For compact ones this encodes the bootstrap's matrices, which need
    /// [`QueryReader::prepared_bytes`] of memory.
    ///
    /// # Errors
    /// If the matrices cannot be encoded.
    pub fn new(encoder: &Encoder, query: QueryCodec) -> Result<Self, QueryError> {
        let bootstrapper = match &query {
            QueryCodec::Compact(compact) => Some(Bootstrapper::from_coefficients(encoder, compact.bootstrap()?)?),
            QueryCodec::Direct(_) | QueryCodec::OneHot(_) => None,
        };
        Ok(QueryReader { query, bootstrapper, seeds: SeedGuard::default() })
    }

    /// The form of query.
    pub fn query(&self) -> &QueryCodec {
        &self.query
    }

    /// The keys needed to convert a query to a lookup's vectors; none unless the form is compact.
    pub fn key_plan(&self) -> KeyPlan {
        self.bootstrapper.as_ref().map(|bootstrapper| bootstrapper.plan().query_key_plan()).unwrap_or_default()
    }

    /// Bytes of memory for the seeds received, and for the encoded matrices of a bootstrap.
    pub fn prepared_bytes(&self) -> u64 {
        let matrices = self.bootstrapper.as_ref().map_or(0, Bootstrapper::prepared_bytes);
        matrices + self.seeds.capacity_bytes()
    }

    /// Peak of the memory, in bytes, for reading a query and running `lookup` on it, beyond keys and prepared data: the
    /// query's vectors, and the larger of the bootstraps and the lookup, which run one after the other.
    pub fn working_bytes(&self, lookup: &Lookup) -> u64 {
        let shape = self.query.shape();
        let count = self.query.vectors();
        let bootstraps =
            self.bootstrapper.as_ref().map_or(0, |bootstrapper| bootstrapper.working_bytes_of_queries(count));
        count as u64 * vector_bytes(&shape.parameters, shape.level) + bootstraps.max(lookup.working_bytes())
    }

    /// Converts a client's query of untrusted bytes to the vectors of a [`Lookup`](unspoken_lookup::Lookup), which
    /// itself checks their level and scale.
    ///
    /// # Errors
    /// If their number is wrong, one is malformed, or a seed occurs twice, in this query or with another vector in an
    /// earlier query of this client: the difference of such a pair is the difference of its messages, unencrypted
    /// except for small errors. Or if the bootstrap of a compact query fails: keys are missing, or the evaluator was
    /// cancelled.
    pub fn read(
        &self,
        evaluator: &Evaluator<'_>,
        client: ClientId,
        vectors: &[Vec<u8>],
    ) -> Result<Vec<Ciphertext>, QueryError> {
        self.query.check_count(vectors)?;
        let (QueryCodec::Compact(compact), Some(bootstrapper)) = (&self.query, &self.bootstrapper) else {
            return Ok(self.seeds.read(client, &self.query.shape().parameters, vectors)?);
        };
        let queries = vectors.iter().map(|bytes| compact.read_vector(bytes)).collect::<Result<Vec<_>, _>>()?;
        self.seeds.admit(client, queries.iter().map(|query| query.seed().as_slice()), vectors)?;
        compact.open(evaluator, bootstrapper, &queries)
    }

    /// Converts a client's small query, one vector of untrusted bytes, to the vectors of a lookup.
    ///
    /// # Errors
    /// As for [`QueryReader::read`].
    pub fn read_small(
        &self,
        evaluator: &Evaluator<'_>,
        client: ClientId,
        small: &SmallQuery,
        vectors: &[Vec<u8>],
    ) -> Result<Vec<Ciphertext>, QueryError> {
        let (sparse, seed) = small.read(vectors)?;
        self.seeds.admit(client, std::iter::once(seed.as_slice()), vectors)?;
        small.unpack(evaluator, &sparse)
    }
}
