//! The server's side of a form of query.

use unspoken_ckks::{Bootstrapper, Ciphertext, Encoder, Evaluator};
use unspoken_protocol::{ClientId, SeedGuard};
use unspoken_ring::Basis;
use unspoken_rlwe::KeyPlan;

use crate::codec::QueryCodec;
use crate::error::QueryError;

/// Polynomials of the whole extended basis that a bootstrap has in memory at once.
const BOOTSTRAP_POLYNOMIALS: usize = 64;

/// The server's side of a form of query: with what it takes to bootstrap, if it is compact.
pub struct QueryReader {
    query: QueryCodec,
    bootstrapper: Option<Bootstrapper>,
    seeds: SeedGuard,
}

impl QueryReader {
    /// Makes ready for queries of this form. For compact ones this encodes the bootstrap's matrices, which take
    /// [`Bootstrap::bytes`](unspoken_ckks::Bootstrap::bytes) of memory at most.
    ///
    /// # Errors
    /// If the matrices do not encode.
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

    /// The keys it needs to make a lookup's vectors of a query; none unless that is compact.
    pub fn key_plan(&self) -> KeyPlan {
        self.bootstrapper.as_ref().map(|bootstrapper| bootstrapper.plan().query_key_plan()).unwrap_or_default()
    }

    /// Bytes of memory for the seeds that came, and for the encoded matrices of a bootstrap.
    pub fn prepared_bytes(&self) -> u64 {
        let matrices = self.bootstrapper.as_ref().map_or(0, |bootstrapper| bootstrapper.plan().bytes() as u64);
        matrices + self.seeds.capacity_bytes()
    }

    /// Bytes of memory a bootstrap takes while it runs: the inputs and the sums of one linear map, twice over. 0
    /// without one.
    pub fn working_bytes(&self) -> u64 {
        let ring = self.query.shape().parameters.ring();
        let whole = ring.poly_bytes(Basis::extended(ring.chain().len()));
        if self.bootstrapper.is_some() { (BOOTSTRAP_POLYNOMIALS * whole) as u64 } else { 0 }
    }

    /// Reads a client's query of untrusted bytes into the vectors of a [`Lookup`](unspoken_lookup::Lookup), whose own
    /// check sees to their level and scale.
    ///
    /// # Errors
    /// If their number is wrong, one is malformed, or a seed comes twice, in this query or with another vector in an
    /// earlier one of this client: the difference of such a pair is that of its messages, in the clear but for small
    /// errors. Or if the bootstrap of a compact query fails: keys are missing, or the evaluator was cancelled.
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
        queries.iter().map(|query| compact.open(evaluator, bootstrapper, query)).collect()
    }
}
