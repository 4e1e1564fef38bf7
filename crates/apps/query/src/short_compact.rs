//! Short compact queries: few questions, each index as one torus element, all subtables in one bootstrap.
//!
//! The elements of all subtables are one subring query (`unspoken_rlwe::SubringQuery`): block after block of `period`
//! slots, one for each subtable. Its bootstrap gives one vector that repeats after all blocks. Masks and rotations by a
//! period, all with one key, separate it into a vector for each subtable that repeats after `period` slots, as in a
//! [`ShortQuery`](crate::ShortQuery). So the same lookup and the same [`ShortAnswer`](crate::ShortAnswer) follow.

use unspoken_ckks::{
    Arithmetic, Bootstrap, Ciphertext, CkksError, CkksParameters, Complex64, Encoder, Evaluator, PreparedVector,
    Simulated, Simulator, SubringBootstrap, SubringBootstrapper, vector_bytes,
};
use unspoken_encrypt::ClientKey;
use unspoken_lookup::query_scale;
use unspoken_ring::SecretRng;
use unspoken_rlwe::{self as rlwe, KeyKind, KeyPlan, SubringQueryParameters, SubringQuerySecret, galois};
use zeroize::Zeroizing;

use crate::compact::element;
use crate::error::QueryError;
use crate::shape::QueryShape;

/// Compact queries of few slots. A query is one byte string for all subtables: 16 bytes, and for each slot and subtable
/// the bits of the lowest prime, which are 30. Its length does not show how many slots are in use.
///
/// As for [`Compact`](crate::Compact) queries, a slot without an index selects the last column.
#[derive(Clone, Debug)]
pub struct ShortCompact {
    shape: QueryShape,
    queries: SubringQueryParameters,
    period: usize,
}

impl ShortCompact {
    /// Queries of this shape with `period` slots for each subtable, a power of two. The shape's level is the level of
    /// the lookup; the separation of subtables takes one level above it.
    ///
    /// # Errors
    /// If the parameters are not made for bootstrapping, their bootstrap ends too low, or the slots of all subtables
    /// are more than a query has.
    pub fn new(shape: QueryShape, period: usize) -> Result<Self, QueryError> {
        let blocks = shape.subtables.next_power_of_two();
        let most = Self::most_period(&shape.parameters, shape.subtables)?;
        if !period.is_power_of_two() || !(1..=most).contains(&period) || blocks * period < MIN_SLOTS {
            let found = format!("{} subtables of {period} slots", shape.subtables);
            let needed = format!("a power of two up to {most}; take full queries (short_queries=off)");
            return Err(QueryError::mismatch("a short compact query", found, needed));
        }
        let queries = SubringQueryParameters::new(shape.parameters.rlwe(), blocks * period)?;
        let (available, needed) = (shape.parameters.circuit_level(), shape.level + usize::from(blocks > 1));
        if available < needed {
            let needed = format!("level {needed} or more");
            return Err(QueryError::mismatch("the level after the bootstrap", available, needed));
        }
        Ok(ShortCompact { shape, queries, period })
    }

    /// The largest period for `subtables` subtables; 0 if there are too many.
    ///
    /// # Errors
    /// If the parameters are not made for bootstrapping.
    pub fn most_period(parameters: &CkksParameters, subtables: usize) -> Result<usize, QueryError> {
        let most = SubringQueryParameters::most(parameters.rlwe())?;
        Ok(subtables.checked_next_power_of_two().map_or(0, |blocks| most / blocks))
    }

    pub(crate) fn shape(&self) -> &QueryShape {
        &self.shape
    }

    /// Number of slots for each subtable.
    pub fn period(&self) -> usize {
        self.period
    }

    /// Number of blocks: a power of two.
    fn blocks(&self) -> usize {
        self.queries.len() / self.period
    }

    pub(crate) fn vector_bytes(&self) -> usize {
        self.queries.byte_len()
    }

    /// Encrypts the indices of all subtables as one byte string.
    pub(crate) fn encrypt_vector(
        &self,
        key: &ClientKey,
        indices: &[Vec<Option<usize>>],
        rng: &mut SecretRng,
    ) -> Result<Vec<u8>, QueryError> {
        let ClientKey::Secret(secret) = key else {
            return Err(QueryError::mismatch("the key", "a public one", "the secret, for a compact query"));
        };
        let secret = SubringQuerySecret::of(secret, &self.queries)?;
        let count = self.queries.len();
        let at = |k: usize| {
            let slot = Bootstrap::slot_of_coefficient(count, k);
            // A block without a subtable is never read.
            let index = indices.get(slot / self.period).and_then(|own| own.get(slot % self.period).copied());
            element(index.unwrap_or(None), self.shape.columns)
        };
        let elements = Zeroizing::new((0..count).map(at).collect::<Vec<f64>>());
        Ok(secret.encrypt(&elements, rng)?.to_bytes(&self.queries)?)
    }
}

/// Fewest slots of all blocks, as a bootstrap needs.
const MIN_SLOTS: usize = 4;

/// The server's side of short compact queries.
pub(crate) struct ShortOpener {
    query: ShortCompact,
    bootstrapper: SubringBootstrapper,
    /// One for each block: ones in its slots.
    masks: Vec<PreparedVector>,
    /// Peak bytes of memory of [`ShortOpener::open`], its results included.
    working_bytes: u64,
}

impl ShortOpener {
    /// Encodes the bootstrap's matrices.
    pub(crate) fn new(encoder: &Encoder, query: ShortCompact) -> Result<Self, QueryError> {
        let (parameters, blocks) = (query.shape.parameters.clone(), query.blocks());
        let plan = SubringBootstrap::new(&parameters, query.queries.len())?;
        let bootstrapper = SubringBootstrapper::new(encoder, plan)?;
        let (level, period) = (query.shape.level + 1, query.period);
        let mask = |block: usize| {
            let inside = |slot: usize| Complex64::from(f64::from(u8::from(slot / period == block)));
            PreparedVector::new((0..blocks * period).map(inside).collect(), level, parameters.level_modulus(level))
        };
        let masks = if blocks == 1 { Vec::new() } else { (0..blocks).map(mask).collect::<Result<_, _>>()? };
        let mut opener = ShortOpener { query, bootstrapper, masks, working_bytes: 0 };
        let counting = Simulator::counting(encoder);
        let points = counting.encrypt(&[], parameters.circuit_level(), opener.scale())?;
        let separating = counting.working_bytes(|counting| opener.separate(counting, &points))?;
        let before = vector_bytes(&parameters, parameters.circuit_level());
        opener.working_bytes = opener.bootstrapper.working_bytes().max(separating + before);
        Ok(opener)
    }

    /// The scale of the vectors.
    fn scale(&self) -> f64 {
        query_scale(&self.query.shape.parameters, self.query.shape.level)
    }

    pub(crate) fn key_plan(&self) -> KeyPlan {
        let parameters = &self.query.shape.parameters;
        let mut plan = self.bootstrapper.plan().key_plan();
        if !self.masks.is_empty() {
            let element = galois::rotation(parameters.ring(), self.query.period as i64);
            plan.require_over(KeyKind::Galois { element }, parameters.basis(self.query.shape.level + 1));
        }
        plan
    }

    pub(crate) fn prepared_bytes(&self) -> u64 {
        let parameters = &self.query.shape.parameters;
        let masks: u64 = self.masks.iter().map(|mask| mask.prepared_bytes(parameters)).sum();
        self.bootstrapper.prepared_bytes() + masks
    }

    pub(crate) fn working_bytes(&self) -> u64 {
        self.working_bytes
    }

    /// A query's only vector, of untrusted bytes.
    pub(crate) fn read_vector(&self, bytes: &[u8]) -> Result<rlwe::SubringQuery, QueryError> {
        Ok(rlwe::SubringQuery::from_bytes(self.bootstrapper.plan().queries(), bytes)?)
    }

    /// The vectors of a lookup.
    pub(crate) fn open(
        &self,
        evaluator: &Evaluator<'_>,
        query: &rlwe::SubringQuery,
    ) -> Result<Vec<Ciphertext>, QueryError> {
        Ok(self.separate(evaluator, &self.bootstrapper.exponential(evaluator, query, self.scale())?)?)
    }

    /// [`ShortOpener::open`] in the clear, with its noise: `torus(t, slot)` is the element of a slot of subtable `t`.
    pub(crate) fn simulate(
        &self,
        simulator: &Simulator,
        torus: impl Fn(usize, usize) -> f64,
    ) -> Result<Vec<Simulated>, CkksError> {
        let (plan, period) = (self.bootstrapper.plan(), self.query.period);
        let element = |k: usize| torus(plan.slot_of(k) / period, plan.slot_of(k) % period);
        let elements: Vec<f64> = (0..self.query.queries.len()).map(element).collect();
        self.separate(simulator, &plan.simulate(simulator, &elements, self.scale())?)
    }

    /// One vector for each subtable, from one that repeats after all blocks. Block `b` of the vector of subtable `t` is
    /// block `t`, which a rotation by `t - b` blocks brings there.
    fn separate<A: Arithmetic>(&self, a: &A, points: &A::Vector) -> Result<Vec<A::Vector>, CkksError> {
        let QueryShape { subtables, level, .. } = self.query.shape;
        let blocks = self.masks.len();
        if blocks == 0 {
            return Ok(vec![a.drop_to(points, level)?]);
        }
        let mut rotated = vec![a.drop_to(points, level + 1)?];
        for block in 1..blocks {
            rotated.push(a.rotate(&rotated[block - 1], self.query.period as i64)?);
        }
        let vector = |t: usize| {
            let products: Vec<(&A::Vector, &PreparedVector)> =
                self.masks.iter().enumerate().map(|(b, mask)| (&rotated[(t + blocks - b) % blocks], mask)).collect();
            a.rescale(&a.sum_products(&products)?)
        };
        (0..subtables).map(vector).collect()
    }
}
