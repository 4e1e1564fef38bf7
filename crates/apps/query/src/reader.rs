//! The server's side of queries.

use unspoken_ckks::{Bootstrapper, Ciphertext, Encoder, Evaluator, InnerSum, Simulator, vector_bytes};
use unspoken_lookup::{Lookup, torus, varied_index};
use unspoken_protocol::{ClientId, SeedGuard, simulated_error_bound};
use unspoken_rlwe::KeyPlan;

use crate::codec::QueryCodec;
use crate::error::QueryError;
use crate::forms::ShortOffer;
use crate::short::{ShortAnswer, ShortQuery};
use crate::short_compact::ShortOpener;

/// The server's side of a form of query, with the bootstrapper if the form is compact.
pub struct QueryReader {
    query: QueryCodec,
    opener: Opener,
    seeds: SeedGuard,
}

/// What converts queries to vectors of a lookup.
enum Opener {
    /// Nothing: they are such vectors.
    Direct,
    Compact(Box<Bootstrapper>),
    Short(Box<ShortOpener>),
}

impl QueryReader {
    /// Prepares for queries of this form. For compact ones this encodes the bootstrap's matrices, which need
    /// [`QueryReader::prepared_bytes`] of memory.
    ///
    /// # Errors
    /// If the matrices cannot be encoded.
    pub fn new(encoder: &Encoder, query: QueryCodec) -> Result<Self, QueryError> {
        let opener = match &query {
            QueryCodec::Compact(compact) => {
                Opener::Compact(Box::new(Bootstrapper::from_coefficients(encoder, compact.bootstrap()?)?))
            }
            QueryCodec::ShortCompact(short) => Opener::Short(Box::new(ShortOpener::new(encoder, short.clone())?)),
            QueryCodec::Direct(_) | QueryCodec::OneHot(_) => Opener::Direct,
        };
        Ok(QueryReader { query, opener, seeds: SeedGuard::default() })
    }

    /// The form of query.
    pub fn query(&self) -> &QueryCodec {
        &self.query
    }

    /// The keys needed to convert a query to a lookup's vectors; none unless the form is compact.
    pub fn key_plan(&self) -> KeyPlan {
        match &self.opener {
            Opener::Direct => KeyPlan::new(),
            Opener::Compact(bootstrapper) => bootstrapper.plan().query_key_plan(),
            Opener::Short(opener) => opener.key_plan(),
        }
    }

    /// Bytes of memory for the seeds received, and for the encoded matrices of a bootstrap.
    pub fn prepared_bytes(&self) -> u64 {
        let matrices = match &self.opener {
            Opener::Direct => 0,
            Opener::Compact(bootstrapper) => bootstrapper.prepared_bytes(),
            Opener::Short(opener) => opener.prepared_bytes(),
        };
        matrices + self.seeds.capacity_bytes()
    }

    /// Peak of the memory, in bytes, for reading a query and running `lookup` on it, beyond keys and prepared data: the
    /// query's vectors, and the larger of the bootstraps and the lookup, which run one after the other.
    pub fn working_bytes(&self, lookup: &Lookup) -> u64 {
        let shape = self.query.shape();
        let bootstraps = match &self.opener {
            Opener::Direct => 0,
            Opener::Compact(bootstrapper) => bootstrapper.working_bytes_of_queries(self.query.vectors()),
            Opener::Short(opener) => opener.working_bytes(),
        };
        let count = self.query.vectors().max(shape.subtables);
        count as u64 * vector_bytes(&shape.parameters, shape.level) + bootstraps.max(lookup.working_bytes())
    }

    /// Converts a client's query of untrusted bytes to the vectors of a [`Lookup`](unspoken_lookup::Lookup), which
    /// itself checks their level and scale.
    ///
    /// # Errors
    /// If the number of vectors is wrong, a vector is malformed, or a seed occurs twice, in this query or with another
    /// vector in an earlier query of this client. The difference of two vectors with one seed is the difference of
    /// their messages, unencrypted except for small errors. Or if the bootstrap of a compact query fails: keys are
    /// missing, or the evaluator was cancelled.
    pub fn read(
        &self,
        evaluator: &Evaluator<'_>,
        client: ClientId,
        vectors: &[Vec<u8>],
    ) -> Result<Vec<Ciphertext>, QueryError> {
        self.query.check_count(vectors)?;
        match (&self.query, &self.opener) {
            (QueryCodec::Compact(compact), Opener::Compact(bootstrapper)) => {
                let queries = vectors.iter().map(|bytes| compact.read_vector(bytes)).collect::<Result<Vec<_>, _>>()?;
                self.seeds.admit(client, queries.iter().map(|query| query.seed().as_slice()), vectors)?;
                compact.open(evaluator, bootstrapper, &queries)
            }
            (_, Opener::Short(opener)) => {
                let query = opener.read_vector(&vectors[0])?;
                self.seeds.admit(client, std::iter::once(query.seed().as_slice()), vectors)?;
                opener.open(evaluator, &query)
            }
            _ => Ok(self.seeds.read(client, &self.query.shape().parameters, vectors)?),
        }
    }

    /// The keys and the error of the answers to short compact queries. `None` for other forms. The error is the error
    /// of `lookup`, which may have fewer outputs than the reader's lookup; `sum` adds up the slots of each question.
    ///
    /// # Errors
    /// If the lookup cannot be simulated, or the key of the answers would have less than 128 bits of security.
    pub fn short_offer(
        &self,
        encoder: &Encoder,
        lookup: &Lookup,
        (answer, sum): (&ShortAnswer, &InnerSum),
    ) -> Result<Option<ShortOffer>, QueryError> {
        let Opener::Short(opener) = &self.opener else { return Ok(None) };
        let (parameters, output) = (lookup.parameters(), (lookup.output_level(), lookup.output_scale()));
        let mut keys = ShortAnswer::key_plan(parameters, output.0)?;
        keys.extend(&sum.key_plan(parameters, output.0));
        let simulator = Simulator::new(encoder, 0);
        let columns = self.query.shape().columns;
        let query = opener.simulate(&simulator, |t, slot| torus(varied_index(t, slot, columns), columns))?;
        let outputs = lookup.run(&simulator, &query)?;
        let errors = outputs.iter().map(|vector| {
            let total = sum.apply(&simulator, vector)?.error();
            Ok(answer.errors(output, lookup.bound(), total))
        });
        let errors = errors.collect::<Result<Vec<_>, QueryError>>()?;
        Ok(Some(ShortOffer { keys, error: simulated_error_bound(&errors) }))
    }

    /// Converts a client's short query, one vector of untrusted bytes, to the vectors of a lookup.
    ///
    /// # Errors
    /// As for [`QueryReader::read`].
    pub fn read_short(
        &self,
        evaluator: &Evaluator<'_>,
        client: ClientId,
        short: &ShortQuery,
        vectors: &[Vec<u8>],
    ) -> Result<Vec<Ciphertext>, QueryError> {
        let (sparse, seed) = short.read(vectors)?;
        self.seeds.admit(client, std::iter::once(seed.as_slice()), vectors)?;
        short.unpack(evaluator, &sparse)
    }
}
