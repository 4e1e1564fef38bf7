//! Strided lookups: few tokens at a time, with the vector of a token spread over the slots of one ciphertext (paper,
//! Appendix E).
//!
//! With `B` tokens and `W = slots / B` positions, slot `B j + b` contains coordinate `j` of token `b`. A query has one
//! number per token, repeated in every position, which is the form of a vector of `B` slots in a larger ring. The
//! powers `a^1 .. a^n`, each in its position, are a product over the bits of the position: `a prod_i (1 + mask_i
//! (a^(2^i) - 1))`. This needs `log2 n` squarings, `log2 n` products, and one level for the masks. The linear step is a
//! product of a matrix with a vector, with diagonals at multiples of `B` slots, baby steps, giant steps and hoisting.
//!
//! There are two differences from the paper. The complex combination comes before the conjugation, so `n = p/2`
//! diagonals are sufficient instead of `p`, and one ciphertext instead of two. And subtables share a ciphertext if `n`
//! times their number is at most `W`.

mod layout;
mod plan;

use unspoken_ckks::{Arithmetic, CkksError, CkksParameters, Complex64, Encoder, LinearPlan, LinearTransform};
use unspoken_ring::RingKind;
use unspoken_rlwe::{KeyKind, KeyPlan, galois};

use crate::compiler::{MATRIX_BITS, output_bits};
use crate::encoder::{IndexEncoder, index_or};
use crate::error::LookupError;
use crate::indicator::near_zero;
use crate::powers::{LevelScale, query_scale};
use crate::strided::layout::{Layout, coefficients, diagonals};

pub use crate::strided::plan::StridedPlan;
use crate::table::{Table, check_shapes};

/// A lookup of `B` tokens in `l` subtables, prepared for one preset and plan.
pub struct StridedLookup {
    parameters: CkksParameters,
    plan: StridedPlan,
    layout: Layout,
    level: usize,
    /// One transformation per selection ciphertext.
    transforms: Vec<LinearTransform>,
    /// For each row, the sum of its means over the subtables; empty if the plan needs no constants.
    constants: Vec<f64>,
}

impl StridedLookup {
    /// Prepares a lookup of `batch` tokens at a time. `bound` is the largest magnitude of an output.
    ///
    /// # Errors
    /// If the tables differ in shape, the slots are real, the batch is not a power of two or leaves too few slots for
    /// each token, there are too few levels, or the modulus is too small.
    pub fn new(
        parameters: &CkksParameters,
        tables: &[Table],
        plan: StridedPlan,
        batch: usize,
        bound: f64,
    ) -> Result<Self, LookupError> {
        let (rows, columns) = check_shapes(tables)?;
        let refuse = |reason: String| LookupError::LookupPlan {
            plan: format!("strided {plan:?}"),
            preset: parameters.name().into(),
            reason,
        };
        if parameters.ring().kind() == RingKind::ConjugateInvariant {
            return Err(refuse("its slots are real; use a standard preset".into()));
        }
        let len = plan.coordinates(columns);
        let width = parameters.slots().checked_div(batch).unwrap_or(0);
        let fits = plan == StridedPlan::Indicator || len <= width;
        if !batch.is_power_of_two() || width < rows || !fits {
            let (slots, needed) = (parameters.slots(), if fits { rows } else { rows.max(len) });
            return Err(refuse(format!(
                "{batch} tokens in {slots} slots leave {width} for each, needed {needed}; take a power of two of at \
                 most {}",
                slots / needed.next_power_of_two()
            )));
        }
        let shared = plan.shared(tables.len(), columns, width);
        let chunks = len.div_ceil(width);
        let layout = Layout { batch, width, subtables: tables.len(), columns, len, shared, chunks };
        let level = plan.depth(columns);
        if level > parameters.max_level() {
            let available = parameters.max_level();
            return Err(refuse(format!("it needs {level} levels, the preset has {available}; use a deeper preset")));
        }
        let bits = output_bits(parameters, 0, bound).min(0.0);
        if !bound.is_finite() || bits < -MATRIX_BITS {
            return Err(refuse(format!("outputs up to {bound:.3e} do not fit; scale the table down")));
        }
        let input = LevelScale { level, scale: query_scale(parameters, level) };
        let shape = plan.shape(input, columns, parameters).ok_or_else(|| refuse("too few levels".into()))?;
        let output_scale = parameters.scale() * bits.exp2();
        let matrices = coefficients(plan, tables);
        let transform = |i: usize| {
            let diagonals = diagonals(&layout, i, rows, &matrices);
            LinearPlan::new(parameters, diagonals, shape.level, shape.scale, output_scale)
                .map(LinearTransform::deferred)
        };
        let transforms = (0..layout.groups() * chunks).map(transform).collect::<Result<_, _>>()?;
        let mean = |r| tables.iter().map(|table| table.expansion(r).constant).sum();
        let constants = if plan == StridedPlan::Powers { (0..rows).map(mean).collect() } else { Vec::new() };
        Ok(StridedLookup { parameters: parameters.clone(), plan, layout, level, transforms, constants })
    }

    /// Number of tokens `B` of a query.
    pub fn batch(&self) -> usize {
        self.layout.batch
    }

    /// Number of query vectors. It is less than the number of subtables if these share a ciphertext.
    pub fn queries(&self) -> usize {
        self.layout.groups()
    }

    /// The level at which queries are encrypted. Outputs have level 0 and the preset's scale, or the largest one that
    /// leaves room for them.
    pub fn input_level(&self) -> usize {
        self.level
    }

    /// The scale at which queries are encrypted.
    pub fn input_scale(&self) -> f64 {
        query_scale(&self.parameters, self.level)
    }

    /// Bytes of memory of the encoded diagonals.
    pub fn prepared_bytes(&self) -> u64 {
        self.transforms.iter().map(LinearTransform::prepared_bytes).sum()
    }

    /// The keys it needs.
    pub fn key_plan(&self) -> KeyPlan {
        let mut plan = KeyPlan::new();
        self.parameters.require_key(&mut plan, KeyKind::Relinearisation, 1..=self.level);
        self.transforms.iter().for_each(|transform| plan.extend(&transform.plan().key_plan()));
        if self.plan == StridedPlan::Powers {
            let element = galois::conjugation(self.parameters.ring());
            plan.require_over(KeyKind::Galois { element }, self.parameters.basis(0));
        }
        plan
    }

    /// The vectors that the client encodes. They are short, and the encoder repeats them over all slots. `indices` has
    /// one list per subtable with one entry per token. Missing entries are padding, which gives the mean of a row for
    /// powers and zero for indicators.
    ///
    /// # Errors
    /// If the number of lists is wrong, a list has too many indices, or an index is not below the number of columns.
    pub fn query_values(&self, indices: &[Vec<Option<usize>>]) -> Result<Vec<Vec<Complex64>>, LookupError> {
        let Layout { batch, subtables, columns, shared, .. } = self.layout;
        // Compares all entries in constant time. The error does not report the index, which is secret.
        let largest = indices.iter().flatten().fold(0, |largest, &index| largest.max(index_or(index, 0)));
        if indices.len() != subtables || indices.iter().any(|list| list.len() > batch) || largest >= columns {
            let longest = indices.iter().map(Vec::len).max().unwrap_or(0);
            let which = if largest < columns { "all" } else { "not all" };
            let found = format!("{} lists of up to {longest} indices, {which} below {columns}", indices.len());
            let needed = format!("{subtables} lists of at most {batch} indices below {columns}");
            return Err(LookupError::Query { what: "the indices", found, needed });
        }
        let encoder = IndexEncoder::new(self.plan.index_encoding(), columns);
        let value = |group: usize, slot: usize| {
            let index = indices.get(group * shared + slot / batch).and_then(|list| list.get(slot % batch));
            encoder.value(index.copied().unwrap_or(None), 0)
        };
        Ok((0..self.queries()).map(|g| (0..shared * batch).map(|slot| value(g, slot)).collect()).collect())
    }

    /// The first stage (VecGen): the selection vectors.
    ///
    /// # Errors
    /// If the query does not match the lookup, or keys are missing.
    pub fn generate<A: Arithmetic>(&self, arithmetic: &A, query: &[A::Vector]) -> Result<Vec<A::Vector>, LookupError> {
        if query.len() != self.queries() {
            let (found, needed) = (query.len().to_string(), self.queries().to_string());
            return Err(LookupError::Query { what: "the number of vectors", found, needed });
        }
        let mut selections = Vec::new();
        for (group, vector) in query.iter().enumerate() {
            for chunk in 0..self.layout.chunks {
                let i = group * self.layout.chunks + chunk;
                selections.push(match self.plan {
                    StridedPlan::Powers => self.powers(arithmetic, vector)?,
                    StridedPlan::Indicator => self.indicators(arithmetic, vector, i)?,
                });
            }
        }
        Ok(selections)
    }

    /// The second stage (MatVec). Returns one vector with the rows of every token.
    ///
    /// # Errors
    /// If the number of `selections` does not fit this lookup, or keys are missing.
    pub fn combine<A: Arithmetic>(&self, arithmetic: &A, selections: &[A::Vector]) -> Result<A::Vector, LookupError> {
        let images = self.transforms.iter().zip(selections).map(|(map, vector)| arithmetic.linear(map, vector));
        self.finish(arithmetic, &images.collect::<Result<Vec<_>, _>>()?)
    }

    /// Encodes the diagonals, which take [`StridedLookup::prepared_bytes`] of memory. Otherwise the first run does.
    ///
    /// # Errors
    /// If an entry does not fit its scale.
    pub fn encode(&self, encoder: &Encoder) -> Result<(), LookupError> {
        Ok(self.transforms.iter().try_for_each(|transform| transform.encode(encoder))?)
    }

    /// `a^1 .. a^n`, each in its position.
    fn powers<A: Arithmetic>(&self, arithmetic: &A, alpha: &A::Vector) -> Result<A::Vector, CkksError> {
        let mut square = alpha.clone();
        let mut power = alpha.clone();
        for bit in 0..self.layout.len.trailing_zeros() {
            if bit > 0 {
                square = arithmetic.multiply(&square, &square)?;
            }
            let has_bit = |j: usize| (self.layout.place(0, j).1 >> bit) & 1 == 1;
            let mask = |wanted: bool| self.layout.tables(|j| Complex64::from(f64::from(has_bit(j) == wanted)));
            let scale = self.parameters.level_modulus(arithmetic.level(&square));
            let masked = arithmetic.rescale(&arithmetic.mul_values(&square, &mask(true), scale)?)?;
            power = arithmetic.multiply(&power, &arithmetic.add_values(&masked, &mask(false))?)?;
        }
        Ok(power)
    }

    /// In each position, the indicator of the column of that position.
    fn indicators<A: Arithmetic>(&self, arithmetic: &A, x: &A::Vector, i: usize) -> Result<A::Vector, CkksError> {
        let columns = self.layout.columns as f64;
        let targets = self.layout.tables(|j| Complex64::from(-(self.layout.place(i, j).1 as f64) / columns));
        near_zero(arithmetic, &arithmetic.add_values(x, &targets)?, self.layout.columns)
    }

    /// The sum over the ciphertexts. For powers, also takes twice the real part and adds the constants.
    fn finish<A: Arithmetic>(&self, arithmetic: &A, images: &[A::Vector]) -> Result<A::Vector, LookupError> {
        let Some((first, rest)) = images.split_first().filter(|_| images.len() == self.transforms.len()) else {
            let (found, needed) = (images.len().to_string(), self.transforms.len().to_string());
            return Err(LookupError::Query { what: "the number of selection vectors", found, needed });
        };
        let mut sum = first.clone();
        for image in rest {
            sum = arithmetic.add(&sum, image)?;
        }
        if self.plan == StridedPlan::Indicator {
            return Ok(sum);
        }
        let sum = arithmetic.add(&sum, &arithmetic.conjugate(&sum)?)?;
        if self.constants.iter().all(|&constant| constant == 0.0) {
            return Ok(sum);
        }
        let Layout { batch, width, .. } = self.layout;
        let constant = |slot: usize| Complex64::from(self.constants.get(slot / batch).copied().unwrap_or(0.0));
        Ok(arithmetic.add_values(&sum, &(0..batch * width).map(constant).collect::<Vec<_>>())?)
    }
}
