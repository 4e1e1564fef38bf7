//! Embeddings from compact queries: each token is an element of the torus, whose exponential a bootstrap brings into a
//! slot, and its embedding is a sum of powers of that exponential (Jang, Kang, Rhee and Cheon, arXiv 2606.03191).
//!
//! Clients encrypt embeddings, or, for vocabularies of at most 1,024 tokens, one compact query with 4 bytes for each
//! token. A bootstrap turns each token into a point `z` of the circle. Two products for each bit put `z^1, z^2, ..`
//! into the dimensions of one vector, and a matrix product between the halves of a second bootstrap turns these powers
//! into the embedding. For stories260K at `n16_boot_depth15_scale40` the simulator predicts an error of 2^-14.7 of the
//! largest residual value (root mean square); in the small ring the encrypted error is as predicted.

use unspoken_ckks::{
    Arithmetic, Bootstrap, Ciphertext, CkksError, CoefficientMatrix, Complex64, DimensionPlaces, Encoder, InnerSum,
    Simulated, Simulator,
};
use unspoken_lookup::{Table, padded_columns, torus};
use unspoken_rlwe::{CompactQuery, CompactQueryParameters, KeyPlan};
use zeroize::Zeroizing;

use crate::error::PassError;
use crate::evaluator::{EncryptedEvaluator, PassEvaluator, SimulatedEvaluator};
use crate::layout::Layout;
use crate::program::PassProgram;

/// The first layer of a model with a small vocabulary: from one compact query of all tokens of a chunk to the input of
/// a pass.
///
/// The exponential `z` of a token is repeated over all dimensions. Dimension `d` then gets `z^(d + 1)` by a product for
/// each bit of `d`, and the table is one matrix product between the halves of a bootstrap, from real and imaginary
/// parts of powers to embeddings.
pub struct EmbeddingLookup {
    layout: Layout,
    /// Size of the vocabulary, padded to a power of two: twice the number of powers.
    columns: usize,
    matrix: CoefficientMatrix,
    /// The mean of each coordinate in each dimension of each vector of the result.
    constants: Vec<Vec<Complex64>>,
}

/// How tokens of a chunk become elements of a compact query.
#[derive(Clone, Debug)]
pub struct TokenEncoding {
    parameters: CompactQueryParameters,
    chunk: usize,
    columns: usize,
}

/// Largest padded vocabulary. The error of the largest power is the error of an exponential times half of it.
const MAX_COLUMNS: usize = 1024;

impl TokenEncoding {
    /// The encoding of chunks of a layout, for a vocabulary of this size; `None` if it is too large for a lookup, or a
    /// chunk for a query.
    pub fn new(parameters: CompactQueryParameters, layout: &Layout, vocabulary: usize) -> Option<Self> {
        let (columns, chunk) = (padded_columns(vocabulary), layout.chunk());
        let fits = columns <= MAX_COLUMNS && 2 * chunk <= parameters.len();
        fits.then_some(TokenEncoding { parameters, chunk, columns })
    }

    /// The ring of the queries.
    pub fn parameters(&self) -> &CompactQueryParameters {
        &self.parameters
    }

    /// Bytes of a query.
    pub fn query_bytes(&self) -> usize {
        CompactQueryParameters::few_byte_len(self.chunk)
    }

    /// All elements of the query of a chunk, in constant time.
    ///
    /// # Errors
    /// If the number of tokens is not the number in a chunk.
    pub fn elements(&self, tokens: &[u32]) -> Result<Zeroizing<Vec<f64>>, PassError> {
        if tokens.len() != self.chunk {
            return Err(PassError::Chunk { found: tokens.len(), needed: format!("{} tokens", self.chunk) });
        }
        let slots = self.parameters.len();
        let element = |i: usize| {
            let slot = Bootstrap::slot_of_coefficient(slots, self.parameters.coefficient(i));
            tokens.get(slot).map_or(0.0, |token| torus(*token as usize, self.columns))
        };
        Ok(Zeroizing::new((0..slots).map(element).collect()))
    }

    /// Writes a query.
    ///
    /// # Errors
    /// If it is one of other parameters.
    pub fn to_bytes(&self, query: &CompactQuery) -> Result<Vec<u8>, PassError> {
        Ok(query.few_to_bytes(&self.parameters, self.chunk).map_err(CkksError::from)?)
    }

    /// Reads a query from untrusted bytes.
    ///
    /// # Errors
    /// If they are malformed.
    pub fn from_bytes(&self, bytes: &[u8]) -> Result<CompactQuery, PassError> {
        let query = CompactQuery::few_from_bytes(&self.parameters, self.chunk, bytes);
        Ok(query.map_err(CkksError::from)?)
    }
}

impl PassProgram {
    /// The encoding of tokens for a lookup as the first layer; `None` if the vocabulary is too large.
    ///
    /// # Errors
    /// If the ring of queries has less than 128 bits.
    pub fn token_encoding(&self) -> Result<Option<TokenEncoding>, PassError> {
        let parameters = CompactQueryParameters::new(self.bootstrap.parameters().rlwe()).map_err(CkksError::from)?;
        Ok(TokenEncoding::new(parameters, &self.layout, self.config().vocabulary))
    }

    /// The lookup of embeddings as the first layer.
    ///
    /// # Errors
    /// If the vocabulary is too large.
    pub fn embedding_lookup(&self) -> Result<EmbeddingLookup, PassError> {
        let encoding = self.token_encoding()?.ok_or_else(|| {
            let found = format!("{} tokens", self.config().vocabulary);
            PassError::Vocabulary { found, needed: format!("at most {MAX_COLUMNS}") }
        })?;
        let missing = || PassError::Session { found: "dimensions alone".into(), needed: "a model with weights".into() };
        let (layout, embedding) = (&self.layout, &self.model.as_ref().ok_or_else(missing)?.weights.embedding);
        let (width, half) = (embedding.ncols(), encoding.columns / 2);
        let unit = self.input_unit();
        let entries: Vec<f64> = embedding.t().iter().map(|value| f64::from(*value) / unit).collect();
        let table = Table::new(width, &entries)?;
        let expansions: Vec<_> = (0..width).map(|row| table.expansion(row)).collect();
        // Real parts of all powers, then imaginary parts, in vectors of their own; both are twice as large.
        let second = half.next_multiple_of(layout.dimensions());
        let inputs: Vec<usize> = (0..half).chain(second..second + half).collect();
        let period = layout.period(width);
        let row = |vector: usize, dimension: usize| {
            let row = vector * layout.dimensions() + dimension % period;
            (row < width).then_some(row)
        };
        let vectors = 0..layout.activation_vectors(width);
        let outputs: Vec<Vec<Option<usize>>> =
            vectors.map(|vector| (0..layout.dimensions()).map(|dimension| row(vector, dimension)).collect()).collect();
        let constant = |row: &Option<usize>| Complex64::from(row.map_or(0.0, |row| expansions[row].constant));
        let constants = outputs
            .iter()
            .map(|rows| rows.iter().flat_map(|row| std::iter::repeat_n(constant(row), layout.tokens)).collect());
        let entry = |row: usize, column: usize| {
            let coefficient = expansions[row].coefficients[column % half];
            if column < half { coefficient.re } else { -coefficient.im }
        };
        let places = DimensionPlaces { inputs: &inputs, outputs: &outputs.concat() };
        let matrix = CoefficientMatrix::new(&self.bootstrap, &self.small, &places, width, entry)?;
        Ok(EmbeddingLookup {
            layout: layout.clone(),
            columns: encoding.columns,
            matrix,
            constants: constants.collect(),
        })
    }
}

impl EmbeddingLookup {
    /// The input of a pass from the compact query of a chunk's tokens, under a client's keys.
    ///
    /// # Errors
    /// If keys are missing, or the evaluator was cancelled.
    pub fn of_query(
        &self,
        evaluator: &EncryptedEvaluator<'_>,
        encoding: &TokenEncoding,
        query: &CompactQuery,
    ) -> Result<Vec<Ciphertext>, PassError> {
        let (arithmetic, scale) = (evaluator.arithmetic(), evaluator.bootstrap().parameters().scale());
        let points = evaluator.bootstrapper.exponential_of_query(arithmetic, &encoding.parameters, query, scale)?;
        self.of_points(evaluator, &points)
    }

    /// [`EmbeddingLookup::of_query`] in the clear with its noise, of elements that a simulator holds as coefficients
    /// at level 0.
    ///
    /// # Errors
    /// The errors of the operations.
    pub fn of_elements(
        &self,
        evaluator: &SimulatedEvaluator<'_>,
        elements: &Simulated,
    ) -> Result<Vec<Simulated>, PassError> {
        let points = evaluator.bootstrap.simulate_exponential(evaluator.simulator, elements)?;
        self.of_points(evaluator, &points)
    }

    /// Bytes of the matrix.
    pub fn prepared_bytes(&self) -> u64 {
        self.matrix.bytes()
    }

    /// Counts what a lookup needs: its switching keys, and its peak memory beside keys and prepared data.
    ///
    /// # Errors
    /// If the parameters have too few levels.
    pub fn requirements(&self, encoder: &Encoder, bootstrap: &Bootstrap) -> Result<(KeyPlan, u64), PassError> {
        let simulator = Simulator::counting(encoder);
        let elements = simulator.encrypt(&[], 0, bootstrap.modulus())?;
        let working_bytes = simulator.working_bytes(|simulator| -> Result<(), PassError> {
            self.of_elements(&SimulatedEvaluator::new(simulator, bootstrap), &elements)?;
            Ok(())
        })?;
        let mut keys = simulator.key_plan();
        keys.extend(&bootstrap.key_plan());
        keys.extend(&bootstrap.query_key_plan());
        Ok((keys, working_bytes + self.matrix.working_bytes()))
    }

    /// The input of a pass from the exponentials of all tokens: token `t` of part `i` has its exponential in slot `t +
    /// T i`.
    fn of_points<M: PassEvaluator>(&self, evaluator: &M, points: &M::Vector) -> Result<Vec<M::Vector>, PassError> {
        let (a, parts) = (evaluator.arithmetic(), self.layout.parts);
        let vectors = (self.columns / 2).div_ceil(self.layout.dimensions());
        let of_parts = (0..parts).map(|part| -> Result<Vec<M::Vector>, CkksError> {
            let squares = self.squares(a, self.repeated(a, points, part)?)?;
            (0..vectors).map(|vector| self.powers(a, &squares, vector)).collect()
        });
        let of_parts = of_parts.collect::<Result<Vec<_>, CkksError>>()?;
        // The powers of all parts lie next to each other.
        let powers: Vec<&M::Vector> =
            (0..vectors).flat_map(|vector| of_parts.iter().map(move |powers| &powers[vector])).collect();
        let conjugates = powers.iter().map(|power| a.conjugate(power)).collect::<Result<Vec<_>, CkksError>>()?;
        let pairs = || powers.iter().zip(&conjugates);
        let real = pairs().map(|(power, conjugate)| a.add(power, conjugate));
        let imaginary = pairs().map(|(power, conjugate)| a.mul_imaginary(&a.sub(conjugate, power)?));
        let inputs = real.chain(imaginary).collect::<Result<Vec<_>, CkksError>>()?;
        let outputs = evaluator.refresh_product(&self.matrix, parts, &inputs.iter().collect::<Vec<_>>())?;
        let outputs = outputs.iter().enumerate();
        let with_means = outputs.map(|(index, output)| a.add_values(output, &self.constants[index / parts]));
        Ok(with_means.collect::<Result<Vec<_>, CkksError>>()?)
    }

    /// The exponentials of the tokens of a part, in all dimensions. One level.
    fn repeated<A: Arithmetic>(&self, a: &A, points: &A::Vector, part: usize) -> Result<A::Vector, CkksError> {
        let layout = &self.layout;
        let mut mask = vec![Complex64::default(); layout.slots];
        mask[part * layout.tokens..][..layout.tokens].fill(Complex64::from(1.0));
        let sum = InnerSum::new(layout.tokens as i64, layout.dimensions())?;
        sum.apply(a, &masked(a, points, &mask)?)
    }

    /// The powers `z^(2^b)` for all bits `b`. A level for each square.
    fn squares<A: Arithmetic>(&self, a: &A, z: A::Vector) -> Result<Vec<A::Vector>, CkksError> {
        let mut squares = vec![z];
        for bit in 1..(self.columns / 2).ilog2() as usize {
            squares.push(a.multiply(&squares[bit - 1], &squares[bit - 1])?);
        }
        Ok(squares)
    }

    /// The power `d + 1 + m v` in dimension `d` of vector `v`, if vectors have `m` dimensions. Two levels below the
    /// last square, so one level more than there are bits.
    fn powers<A: Arithmetic>(&self, a: &A, squares: &[A::Vector], vector: usize) -> Result<A::Vector, CkksError> {
        let (tokens, dimensions) = (self.layout.tokens, self.layout.dimensions());
        let mut product = squares[0].clone();
        for (bit, square) in squares.iter().enumerate() {
            let has = |slot: usize| (slot / tokens + vector * dimensions) >> bit & 1 == 1;
            let mask = |with: f64, without: f64| -> Vec<Complex64> {
                let slots = (tokens << (bit + 1)).min(self.layout.slots);
                (0..slots).map(|slot| Complex64::from(if has(slot) { with } else { without })).collect()
            };
            let factor = a.add_values(&masked(a, square, &mask(1.0, 0.0))?, &mask(0.0, 1.0))?;
            product = a.multiply(&product, &factor)?;
        }
        Ok(product)
    }
}

/// The product with a mask, one level down, at the scale of the parameters.
fn masked<A: Arithmetic>(a: &A, vector: &A::Vector, mask: &[Complex64]) -> Result<A::Vector, CkksError> {
    let parameters = a.parameters();
    let scale = parameters.scale() * parameters.level_modulus(a.level(vector)) / a.scale(vector);
    a.rescale(&a.mul_values(vector, mask, scale)?)
}
