//! Short queries: few questions in vectors that repeat, of which few coefficients are sent; and their answers.
//!
//! All subtables share one ciphertext. Its length grows with the number of slots that the questions take, in steps of a
//! factor of two, so the server sees that number up to a factor of two. The server separates the subtables
//! ([`PeriodicPacking`]) and runs the same lookup as for a full query; all slots of its result repeat as well.

use unspoken_ckks::{
    Ciphertext, CkksParameters, Complex64, Encrypted, ErrorStatistics, Evaluator, PeriodicPacking, Simulated,
    Simulator, Slots,
};
use unspoken_encrypt::Encryptor;
use unspoken_lookup::{IndexEncoder, IndexEncoding, StridedPlan, query_scale, varied_index};
use unspoken_protocol::{
    Keyring, ProtocolError, read_every, rounded_output_bytes, rounded_output_deviation, write_rounded_output,
};
use unspoken_rlwe::{self as rlwe, KeyKind, KeyPlan};

use crate::codec::check_indices;
use crate::error::QueryError;
use crate::shape::QueryShape;

/// A query whose vectors repeat after a period, with everything on which its two sides must agree.
#[derive(Clone, Debug)]
pub struct ShortQuery {
    shape: QueryShape,
    /// Number of slots of a subtable.
    period: usize,
    /// Number of subtables that share a vector.
    shared: usize,
    packing: PeriodicPacking,
}

impl ShortQuery {
    /// Queries of this shape with `period` slots in each vector.
    ///
    /// # Errors
    /// If the period is not a power of two, or the vectors of all subtables do not fit in the slots.
    pub fn new(shape: QueryShape, period: usize) -> Result<Self, QueryError> {
        Self::of_layout(shape, period, 1)
    }

    /// Queries for a [`StridedLookup`](unspoken_lookup::StridedLookup) of `tokens` tokens: as there, several subtables
    /// share a vector, one after the other.
    ///
    /// # Errors
    /// As for [`ShortQuery::new`].
    pub fn strided(shape: QueryShape, tokens: usize) -> Result<Self, QueryError> {
        let width = shape.parameters.slots().checked_div(tokens).unwrap_or(0);
        let shared = StridedPlan::Powers.shared(shape.subtables, shape.columns, width);
        Self::of_layout(shape, tokens, shared)
    }

    fn of_layout(shape: QueryShape, period: usize, shared: usize) -> Result<Self, QueryError> {
        let whole = period.saturating_mul(shared);
        let packing = PeriodicPacking::new(&shape.parameters, whole, shape.subtables.div_ceil(shared))?;
        Ok(ShortQuery { shape, period, shared, packing })
    }

    /// The period of a query of untrusted vectors, if it is a short one.
    pub(crate) fn period_of(vectors: &[Vec<u8>]) -> Option<usize> {
        match vectors {
            [vector] => match vector.split_first() {
                Some((log2_period, rest)) if rlwe::SeededCiphertext::begins_sparse(rest) => {
                    1usize.checked_shl(u32::from(*log2_period))
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// Number of slots of each subtable.
    pub fn period(&self) -> usize {
        self.period
    }

    /// The level of the vectors.
    pub fn level(&self) -> usize {
        self.shape.level
    }

    /// Bytes of the query's only vector.
    pub fn byte_len(&self) -> usize {
        let QueryShape { parameters, level, .. } = &self.shape;
        let places = 2 * self.packing.period() * self.packing.count();
        1 + rlwe::SeededCiphertext::sparse_byte_len(parameters.rlwe(), parameters.basis(*level), places)
    }

    /// The keys to separate the subtables.
    pub fn key_plan(&self) -> KeyPlan {
        self.packing.key_plan(self.shape.level)
    }

    /// The scale of the vectors.
    fn scale(&self) -> f64 {
        query_scale(&self.shape.parameters, self.shape.level)
    }

    /// Encrypts indices, one list per subtable with one entry for each slot of a period, as
    /// [`QueryCodec::encrypt`](crate::QueryCodec::encrypt) does. The result is the query's only vector.
    ///
    /// # Errors
    /// If there are too many slots, an index is not below the number of columns, or the encryptor is of other
    /// parameters or has no secret key.
    pub fn encrypt(&self, encryptor: &Encryptor, indices: &[Vec<Option<usize>>]) -> Result<Vec<u8>, QueryError> {
        let QueryShape { parameters, columns, level, .. } = &self.shape;
        check_indices(&self.shape, self.period(), indices)?;
        let encoder = IndexEncoder::new(IndexEncoding::Alpha, *columns);
        let value = |subtable: usize, slot: usize| {
            let index = indices.get(subtable).and_then(|own| own.get(slot)).copied().flatten();
            encoder.value(index, 0)
        };
        let vectors: Vec<Slots> = self.vectors(value).into_iter().map(Slots::from).collect();
        let vectors: Vec<&[Complex64]> = vectors.iter().map(|slots| &**slots).collect();
        let plaintext = self.packing.encode(encryptor.encoder(), &vectors, *level, self.scale())?;
        let Encrypted::Seeded(seeded) = encryptor.encrypt_plaintext(&plaintext)? else {
            let (found, needed) = ("a public one", "the secret, for a short query");
            return Err(QueryError::mismatch("the key", found, needed));
        };
        let mut bytes = vec![self.period().trailing_zeros() as u8];
        bytes.extend(seeded.inner().sparse_to_bytes(parameters.rlwe(), &self.packing.places())?);
        Ok(bytes)
    }

    /// The ciphertext of all subtables, from the query's only vector of untrusted bytes, and its seed.
    pub(crate) fn read(&self, vectors: &[Vec<u8>]) -> Result<(rlwe::SeededCiphertext, [u8; 32]), QueryError> {
        let QueryShape { parameters, level, .. } = &self.shape;
        let [vector] = vectors else {
            let (found, needed) = (format!("{} vectors", vectors.len()), "one vector");
            return Err(QueryError::mismatch("a short query", found, needed));
        };
        if vector.len() != self.byte_len() {
            let (found, needed) = (format!("{} bytes", vector.len()), format!("{} bytes", self.byte_len()));
            return Err(QueryError::mismatch("a short query", found, needed));
        }
        let sparse =
            rlwe::SeededCiphertext::sparse_from_bytes(parameters.rlwe(), &self.packing.places(), &vector[1..])?;
        if sparse.basis() != parameters.basis(*level) {
            let needed = format!("the primes of level {level}");
            return Err(QueryError::mismatch("a short query", sparse.basis(), needed));
        }
        let seed = sparse.seed().0;
        Ok((sparse, seed))
    }

    /// The vectors of a lookup.
    pub(crate) fn unpack(
        &self,
        evaluator: &Evaluator<'_>,
        sparse: &rlwe::SeededCiphertext,
    ) -> Result<Vec<Ciphertext>, QueryError> {
        Ok(self.packing.unpack(evaluator, &self.packing.expand(sparse, self.scale())?)?)
    }

    /// One period of each vector, from the value of each slot of each subtable. Unused slots of shared vectors belong
    /// to subtables beyond the last.
    fn vectors(&self, value: impl Fn(usize, usize) -> Complex64) -> Vec<Vec<Complex64>> {
        let vector = |v: usize| {
            (0..self.packing.period()).map(|i| value(v * self.shared + i / self.period, i % self.period)).collect()
        };
        (0..self.packing.count()).map(vector).collect()
    }

    /// The vectors of a simulated query, with the noise of separating them. Indices differ from slot to slot.
    ///
    /// # Errors
    /// If the simulator is one of other parameters.
    pub fn simulate(&self, simulator: &Simulator) -> Result<Vec<Simulated>, QueryError> {
        let (columns, factor) = (self.shape.columns, f64::from(self.packing.factor()));
        let value = |subtable: usize, slot: usize| {
            let index = Some(varied_index(subtable, slot, columns)).filter(|_| subtable < self.shape.subtables);
            IndexEncoding::Alpha.value(index, columns, 0) / factor
        };
        let encrypt = |values: Vec<Complex64>| simulator.encrypt(&values, self.shape.level, self.scale());
        let divided = self.vectors(value).into_iter().map(encrypt).collect::<Result<Vec<_>, _>>()?;
        Ok(self.packing.unpack(simulator, &self.packing.join(simulator, &divided)?)?)
    }
}

/// The answer to a short query: outputs that repeat after a period, joined in as few ciphertexts as hold them.
#[derive(Clone, Debug)]
pub struct ShortAnswer {
    parameters: CkksParameters,
    packings: Vec<PeriodicPacking>,
}

impl ShortAnswer {
    /// Answers of `outputs` outputs, each of which repeats after `period` slots.
    ///
    /// # Errors
    /// If the period is not a power of two up to half the number of slots, or there are no outputs.
    pub fn new(parameters: &CkksParameters, period: usize, outputs: usize) -> Result<Self, QueryError> {
        // In half of the slots, so that the message is a polynomial in `X^2`.
        let most = parameters.slots() / 2 / period.max(1);
        if most == 0 {
            let needed = format!("at most half of the {} slots", parameters.slots());
            return Err(QueryError::mismatch("the period of an answer", period, needed));
        }
        let counts = (0..outputs.div_ceil(most).max(1)).map(|i| (outputs - i * most).min(most));
        let packings = counts.map(|count| PeriodicPacking::new(parameters, period, count));
        Ok(ShortAnswer { parameters: parameters.clone(), packings: packings.collect::<Result<_, _>>()? })
    }

    /// The keys to write answers of this level.
    ///
    /// # Errors
    /// If the key to the ring of half the degree would have less than 128 bits of security.
    pub fn key_plan(parameters: &CkksParameters, level: usize) -> Result<KeyPlan, QueryError> {
        let basis = parameters.basis(level);
        parameters.rlwe().check_kind(KeyKind::HalfRing, basis.chain)?;
        let mut plan = KeyPlan::new();
        plan.require_over(KeyKind::HalfRing, basis);
        Ok(plan)
    }

    /// Number of vectors.
    pub fn vectors(&self) -> usize {
        self.packings.len()
    }

    /// Bytes of all vectors.
    pub fn byte_len(&self) -> usize {
        self.packings.iter().map(|packing| rounded_output_bytes(&self.parameters, packing)).sum()
    }

    /// Joins, rounds and serialises outputs, whose values are at most `bound`.
    ///
    /// # Errors
    /// If there are more or fewer outputs, or they differ in level or scale.
    pub fn write(
        &self,
        evaluator: &Evaluator<'_>,
        outputs: &[Ciphertext],
        bound: f64,
    ) -> Result<Vec<Vec<u8>>, QueryError> {
        let mut rest = outputs;
        let write = |packing: &PeriodicPacking| {
            let (own, others) = rest.split_at(packing.count().min(rest.len()));
            rest = others;
            let joined = packing.join(evaluator, own)?;
            Ok(write_rounded_output(evaluator, &joined, bound, packing)?)
        };
        self.packings.iter().map(write).collect()
    }

    /// Decrypts the vectors of an answer: one period of each output, times the header's unit.
    ///
    /// # Errors
    /// If there are more or fewer vectors, or one is malformed.
    pub fn open(&self, keyring: &Keyring, vectors: &[Vec<u8>]) -> Result<Vec<Slots>, ProtocolError> {
        if vectors.len() != self.vectors() {
            let (found, needed) = (format!("{} vectors", vectors.len()), self.vectors());
            return Err(ProtocolError::mismatch("answer", found, needed));
        }
        let open = |(vector, packing): (&Vec<u8>, _)| keyring.open_rounded(vector, packing);
        let opened = read_every(vectors.iter().zip(&self.packings).map(open))?;
        Ok(opened.into_iter().flatten().collect())
    }

    /// The errors of joined and rounded outputs of this level and scale, from the errors of a single output: joined
    /// outputs share their noise, and rounding adds its own.
    pub fn errors(&self, output: (usize, f64), bound: f64, single: ErrorStatistics) -> ErrorStatistics {
        let with = |packing: &PeriodicPacking| {
            // Of the noise of the others, only the coefficients that belong to an output are decoded with it.
            let others = packing.count() as f64 * packing.period() as f64 / self.parameters.slots() as f64;
            let joined = (1.0 + others).sqrt();
            let rounding = rounded_output_deviation(&self.parameters, output, bound, packing);
            let rms = (joined * single.rms).hypot(rounding);
            ErrorStatistics { rms, worst: (joined * single.worst).hypot(4.0 * rounding), ..single }
        };
        let worst = self.packings.iter().map(with).max_by(|a, b| a.rms.total_cmp(&b.rms));
        worst.unwrap_or(single)
    }
}
