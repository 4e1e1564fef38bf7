//! Queries of few tokens, answered by a strided lookup: all numbers of all tokens are in one vector.

use unspoken_ckks::{Arithmetic, Ciphertext, CostModel, Encoder, Evaluator, Simulator, vector_bytes};
use unspoken_lookup::{LookupError, StridedLookup, StridedPlan, Table};
use unspoken_protocol::simulated_error_bound;
use unspoken_query::{QueryError, QueryShape, ShortQuery};
use unspoken_rlwe::KeyPlan;

use crate::description::STRIDED_TOKENS;

/// Most bytes of encoded diagonals: a table of more columns has no strided lookup.
const MAX_PREPARED_BYTES: u64 = 1 << 30;

/// A strided lookup, the queries for it, and what they take.
pub(crate) struct Strided {
    lookup: StridedLookup,
    query: ShortQuery,
    error: f64,
    working_bytes: u64,
}

impl Strided {
    /// Plans the lookup of 32 tokens, or of 16 if 32 do not fit, in scaled tables whose outputs are at most `bound`.
    /// `None` if 16 do not fit, slots are real, the parameters have too few levels, the diagonals need too much memory,
    /// or the cost model predicts `most_seconds` or more.
    ///
    /// # Errors
    /// If the lookup cannot be simulated.
    pub(crate) fn new(
        encoder: &Encoder,
        tables: &[Table],
        bound: f64,
        most_seconds: f64,
    ) -> Result<Option<Self>, QueryError> {
        let parameters = encoder.parameters();
        let Some(table) = tables.first() else { return Ok(None) };
        let (subtables, columns) = (tables.len(), table.columns());
        // A lower bound of the memory, before any diagonal is made.
        let ring = parameters.ring();
        let limbs = ring.limb_count(ring.switching_basis(parameters.basis(0)));
        let diagonals = subtables * StridedPlan::Powers.coordinates(columns);
        if (diagonals * limbs * ring.degree() * size_of::<u32>()) as u64 > MAX_PREPARED_BYTES {
            return Ok(None);
        }
        let planned = |tokens| StridedLookup::new(parameters, tables, StridedPlan::Powers, tokens, bound).ok();
        let lookup = STRIDED_TOKENS.rev().filter(|tokens| tokens.is_power_of_two()).find_map(planned);
        let Some(lookup) = lookup.filter(|lookup| lookup.prepared_bytes() <= MAX_PREPARED_BYTES) else {
            return Ok(None);
        };
        let level = lookup.input_level();
        let shape = QueryShape { parameters: parameters.clone(), subtables, columns, level };
        let query = ShortQuery::strided(shape, lookup.batch())?;
        let counting = Simulator::counting(encoder);
        let vectors = query.simulate(&counting)?;
        let working_bytes = counting.working_bytes(|counting| run(&lookup, counting, &vectors))?
            + vectors.len() as u64 * vector_bytes(parameters, level);
        if CostModel::nominal(parameters).seconds(&counting.cost()) >= most_seconds {
            return Ok(None);
        }
        let simulator = Simulator::new(encoder, 0);
        let output = run(&lookup, &simulator, &query.simulate(&simulator)?)?;
        let error = simulated_error_bound(&[output.error()]);
        Ok(Some(Strided { lookup, query, error, working_bytes }))
    }

    /// Encodes the diagonals.
    ///
    /// # Errors
    /// If an entry does not fit its scale.
    pub(crate) fn encode(&self, encoder: &Encoder) -> Result<(), LookupError> {
        self.lookup.encode(encoder)
    }

    /// Number of tokens of a query.
    pub(crate) fn tokens(&self) -> usize {
        self.query.period()
    }

    /// The level at which queries are encrypted.
    pub(crate) fn level(&self) -> usize {
        self.query.level()
    }

    /// A bound of the error of a scaled number.
    pub(crate) fn error(&self) -> f64 {
        self.error
    }

    /// The keys of an answer.
    pub(crate) fn key_plan(&self) -> KeyPlan {
        let mut plan = self.lookup.key_plan();
        plan.extend(&self.query.key_plan());
        plan
    }

    /// Bytes of memory of the encoded diagonals.
    pub(crate) fn prepared_bytes(&self) -> u64 {
        self.lookup.prepared_bytes()
    }

    /// Peak bytes of memory of an answer, beyond keys and prepared data.
    pub(crate) fn working_bytes(&self) -> u64 {
        self.working_bytes
    }

    /// The vector of all numbers of all tokens: number `r` of token `t` is in slot `tokens r + t`.
    ///
    /// # Errors
    /// If keys are missing, or when cancelled.
    pub(crate) fn run(&self, evaluator: &Evaluator<'_>, query: &[Ciphertext]) -> Result<Ciphertext, LookupError> {
        run(&self.lookup, evaluator, query)
    }
}

fn run<A: Arithmetic>(lookup: &StridedLookup, arithmetic: &A, query: &[A::Vector]) -> Result<A::Vector, LookupError> {
    lookup.combine(arithmetic, &lookup.generate(arithmetic, query)?)
}
