//! The kernels, and the types of their arguments, as in `kernels/`.

use std::marker::PhantomData;

use bytemuck::NoUninit;

/// An address in the memory of a device; 0 for none.
pub type Address = u64;

/// A kernel, which takes arguments of type `A`.
pub struct Kernel<A> {
    number: usize,
    arguments: PhantomData<fn(&A)>,
}

impl<A> Clone for Kernel<A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for Kernel<A> {}

impl<A> Kernel<A> {
    const fn new(number: usize) -> Self {
        Kernel { number, arguments: PhantomData }
    }

    /// Its place in [`NAMES`].
    pub const fn number(self) -> usize {
        self.number
    }
}

macro_rules! kernels {
    ($($constant:ident $name:literal $arguments:ty: $about:literal,)+) => {
        /// The names of all kernels.
        pub const NAMES: &[&str] = &[$($name),+];

        /// The bytes of their arguments.
        pub const ARGUMENT_BYTES: &[usize] = &[$(size_of::<$arguments>()),+];

        $(#[doc = $about] pub const $constant: Kernel<$arguments> = Kernel::new(number_of($name));)+
    };
}

/// The place of a name in [`NAMES`].
const fn number_of(name: &str) -> usize {
    let (name, mut number) = (name.as_bytes(), 0);
    while !is_same(NAMES[number].as_bytes(), name) {
        number += 1;
    }
    number
}

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

kernels! {
    COPY "copy" ElementArgs: "`a`.",
    SUM "sum" ElementArgs: "`a + b`.",
    DIFFERENCE "difference" ElementArgs: "`a - b`.",
    NEGATIVE "negative" ElementArgs: "`-a`.",
    PRODUCT "product" ElementArgs: "`a b / R`.",
    ADD_PRODUCTS "add_products" ElementArgs: "`out + a b / R`.",
    SCALE "scale" FactorArgs: "`a` times the factor of the limb.",
    ADD_SCALED "add_scaled" FactorArgs: "`out` plus `a` times the factor of the limb.",
    ADD_WORDS "add_words" FactorArgs: "`a` plus the word of the limb.",
    TIMES_IMAGINARY "times_imaginary" ElementArgs: "`a X^(n/2)` in the evaluation domain.",
    TENSOR "tensor" TensorArgs: "`(a0 b0, a0 b1 + a1 b0, a1 b1) / R`.",
    PRODUCT_SUMS "product_sums" SumsArgs: "Both components of `sum factor values / R`.",
    AUTOMORPHISMS "automorphisms" AutomorphismArgs: "The sum of images in the evaluation domain.",
    CONVERT "convert" ConvertArgs: "Digits modulo other primes.",
    QUOTIENT "quotient" QuotientArgs: "The overflow of an exact conversion.",
    DIVIDE "divide" DivideArgs: "A dividend less its remainder, divided.",
    KEY_PRODUCTS "key_products" KeyArgs: "The sum of images of products of digits with keys.",
    FORWARD_COLUMNS "forward_columns" TransformArgs: "The first stages of forward transforms, above 2^12.",
    FORWARD_RUNS "forward_runs" TransformArgs: "The other stages of forward transforms.",
    INVERSE_RUNS "inverse_runs" TransformArgs: "The first stages of inverse transforms.",
    INVERSE_COLUMNS "inverse_columns" TransformArgs: "The other stages of inverse transforms, above 2^12.",
    FOLD "fold" FoldArgs: "Before forward transforms of the conjugate-invariant ring.",
    UNFOLD "unfold" FoldArgs: "After inverse transforms of the conjugate-invariant ring.",
    MATRIX_PRODUCT "matrix_product" MatrixArgs: "A matrix times a vector of limbs.",
    STEPS "steps" StepArgs: "Words in steps.",
    MODULE_ROWS "module_rows" ModuleArgs: "The parts of a ciphertext as rows.",
    SELECT_ROWS "select_rows" SelectArgs: "Rows by their numbers.",
    PACK_ROWS "pack_rows" PackArgs: "The polynomials whose parts are components of rows.",
    SIGNED_DIGITS "signed_digits" DigitArgs: "The signed digits of coefficients.",
    ROTATED_DIFFERENCES "rotated_differences" RotationArgs: "`out` plus products of digits, rotated, less themselves.",
    COEFFICIENT_MAP "coefficient_map" MapArgs: "The image under an automorphism times a power of `X`, of coefficients.",
    TABLE_SUMS "table_sums" TableArgs: "Sums over the rows of a table.",
    BYTE_SUMS "byte_sums" ByteArgs: "Sums over the rows of a table of bytes, added.",
    BYTE_CHANGES "byte_changes" ChangeArgs: "The shares of changed bytes, added.",
    RAISE_SUMS "raise_sums" RaiseArgs: "Fractions of 2^32 as those of a modulus.",
    ORBIT_KEY "orbit_key" OrbitArgs: "Values in orbit order, twice.",
    WINDOW_SUMS "window_sums" WindowArgs: "Sums of factors times windows of keys.",
    GATHER "gather" GatherArgs: "Images of differences of many polynomials, one after the other.",
    SCATTER "scatter" ScatterArgs: "Limbs to the polynomials that they are of.",
    BATCH "batch" BatchArgs: "An operation on many polynomials.",
    CHOICES "choices" ChoiceArgs: "Products of digits with many keys, plus polynomials.",
    KEY_ROWS "key_rows" RowArgs: "Rows in the order of keys.",
    CEILING "ceiling" CeilingArgs: "Reduced products, for measurements alone.",
}

/// Threads of a block.
pub const THREADS: usize = 256;

/// Residues of a block of kernels with [`ElementArgs`] and [`TensorArgs`].
pub const RUN: usize = 4 * THREADS;

/// The most primes of a ring on a device.
pub const MOST_PRIMES: usize = 128;

/// log2 of the degree up to which a transform has one pass, and of the residues of a block of a pass.
pub const LOG_TILE: u32 = 12;

/// The stages of the pass over runs of consecutive residues, where a transform has two passes.
pub const LOG_RUN: u32 = 8;

/// The most primes that a conversion reads.
pub const MOST_SOURCES: usize = 32;

/// Targets of a block of [`CONVERT`].
pub const TARGETS: usize = 8;

/// The most terms of a launch of [`PRODUCT_SUMS`] and [`AUTOMORPHISMS`].
pub const MOST_TERMS: usize = 32;

/// The most keys of a launch of [`KEY_PRODUCTS`] and [`ROTATED_DIFFERENCES`].
pub const MOST_KEYS: usize = 32;

/// Residues of a block of [`MATRIX_PRODUCT`].
pub const MATRIX_RUN: usize = 128;

/// Rows of a block of [`MATRIX_PRODUCT`].
pub const MATRIX_ROWS: usize = 32;

/// Columns of a block of [`TABLE_SUMS`].
pub const TABLE_COLUMNS: usize = THREADS / 4;

/// Rows, columns and queries of a block of [`BYTE_SUMS`].
pub const BYTE_TILE: [usize; 3] = [256, 256, 8];

/// Queries of a block of [`WINDOW_SUMS`].
pub const WINDOW_QUERIES: usize = 4;

/// No row: see [`PackArgs`].
pub const NO_ROW: u32 = u32::MAX;

/// No limb: see [`Kept`].
pub const NO_LIMB: u32 = u32::MAX;

/// A constant factor with its quotient.
#[derive(Clone, Copy, Debug, Default, NoUninit)]
#[repr(C)]
pub struct Shoup {
    /// The factor.
    pub value: u32,
    /// `floor(value 2^32 / q)`.
    pub quotient: u32,
}

/// A prime with its constants.
#[derive(Clone, Copy, Debug, Default, NoUninit)]
#[repr(C)]
pub struct Prime {
    /// The prime.
    pub q: u32,
    /// `-1/q` modulo 2^32.
    pub neg_inv: u32,
    /// 2^32 modulo the prime.
    pub r: u32,
    /// 2^64 modulo the prime.
    pub r2: u32,
    /// To Montgomery form.
    pub to_montgomery: Shoup,
    /// `1/n` out of Montgomery form.
    pub degree_scale: Shoup,
    /// The square root of -1 at positions below `n/2`, or that of the fold.
    pub imaginary: Shoup,
    /// Its negative.
    pub neg_imaginary: Shoup,
    /// 1/2.
    pub half: Shoup,
    /// Half of the root.
    pub half_imaginary: Shoup,
}

/// A ring in the memory of a device.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Ring {
    /// Of [`Prime`].
    pub primes: Address,
    /// Of [`Shoup`]: for each prime the roots of the forward transform.
    pub forward: Address,
    /// The same for the inverse transform.
    pub inverse: Address,
    /// log2 of the degree.
    pub log_degree: u32,
    /// Words from one limb to the next.
    pub stride: u32,
    /// Primes of the chain.
    pub chain: u32,
    /// Primes of the chain, and terminal ones.
    pub own: u32,
    /// Primes of a digit.
    pub digit_len: u32,
    /// 1 for the conjugate-invariant ring.
    pub invariant: u32,
}

/// The primes of a polynomial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Basis {
    /// Primes of the chain.
    pub chain: u32,
    /// Primes of the chain, and terminal ones.
    pub own: u32,
}

/// Limbs that are computed with one after the other.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Many {
    /// The primes.
    pub basis: Basis,
    /// Limbs for each prime.
    pub per_prime: u32,
    /// 1 to leave the digit that a prime belongs to alone.
    pub skip: u32,
    /// How many limbs are listed; 0 for all.
    pub listed: u32,
    /// The list.
    pub list: [u32; MOST_SOURCES],
}

/// A polynomial over a basis.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Limbs {
    /// Its first word.
    pub words: Address,
    /// Its primes.
    pub basis: Basis,
}

/// Arguments of kernels that compute each residue from those at the same position.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ElementArgs {
    /// The ring.
    pub ring: Ring,
    /// The primes for which it is computed.
    pub basis: Basis,
    /// The result.
    pub out: Limbs,
    /// An operand.
    pub a: Limbs,
    /// An operand.
    pub b: Limbs,
}

/// Arguments of [`SCALE`], [`ADD_SCALED`] and [`ADD_WORDS`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct FactorArgs {
    /// The other arguments.
    pub of: ElementArgs,
    /// The factor of each limb, or the word as its value.
    pub factor: [Shoup; MOST_PRIMES],
}

/// Arguments of [`TENSOR`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TensorArgs {
    /// The ring.
    pub ring: Ring,
    /// The basis of the results.
    pub basis: Basis,
    /// An operand.
    pub a: [Limbs; 2],
    /// An operand.
    pub b: [Limbs; 2],
    /// The results.
    pub out: [Address; 3],
}

/// A factor, and the two components that it multiplies.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Term {
    /// The factor.
    pub factor: Address,
    /// The components.
    pub values: [Address; 2],
}

/// Arguments of [`PRODUCT_SUMS`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SumsArgs {
    /// The ring.
    pub ring: Ring,
    /// The basis of everything.
    pub basis: Basis,
    /// The sums.
    pub out: [Address; 2],
    /// Words from one limb of a factor to the next.
    pub factor_stride: u32,
    /// log2 of the residues that share a word of a factor.
    pub log_run: u32,
    /// 1 to add to what is there.
    pub accumulate: u32,
    /// Number of terms.
    pub terms: u32,
    /// The terms.
    pub term: [Term; MOST_TERMS],
}

/// Arguments of [`AUTOMORPHISMS`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct AutomorphismArgs {
    /// The ring.
    pub ring: Ring,
    /// The basis.
    pub basis: Basis,
    /// The polynomial.
    pub source: Address,
    /// The sum.
    pub out: Address,
    /// Number of automorphisms.
    pub terms: u32,
    /// Their Galois elements.
    pub galois: [u32; MOST_TERMS],
}

/// The primes of a digit, in a list of limbs.
#[derive(Clone, Copy, Debug, Default, NoUninit)]
#[repr(C)]
pub struct Digit {
    /// The first in the list.
    pub first: u32,
    /// How many.
    pub count: u32,
}

/// Arguments of [`CONVERT`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ConvertArgs {
    /// The ring.
    pub ring: Ring,
    /// The primes of the results.
    pub basis: Basis,
    /// How many of them.
    pub targets: u32,
    /// Number of digits.
    pub digits: u32,
    /// Plain residues.
    pub source: Address,
    /// Of [`Digit`].
    pub digit: Address,
    /// Words: the list of limbs.
    pub limbs: Address,
    /// Words: `[target][digit]`.
    pub offsets: Address,
    /// Words: `[target]`, as the list.
    pub factors: Address,
    /// Length of the list.
    pub listed: u32,
    /// The polynomial of the digits; no words if no target is in a digit.
    pub own: Limbs,
    /// `[target][digit]`.
    pub out: Address,
}

/// Arguments of [`QUOTIENT`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct QuotientArgs {
    /// The ring.
    pub ring: Ring,
    /// `count` limbs, and that of the result.
    pub words: Address,
    /// Number of sources.
    pub count: u32,
    /// Fixed-point position.
    pub shift: u32,
    /// Words.
    pub reciprocals: Address,
}

/// A prime that a division keeps.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub struct Kept {
    /// The limb of the dividend, or [`NO_LIMB`].
    pub limb: u32,
    /// The factor.
    pub inverse: Shoup,
}

/// Arguments of [`DIVIDE`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DivideArgs {
    /// The ring.
    pub ring: Ring,
    /// The basis of the result.
    pub basis: Basis,
    /// The dividend.
    pub dividend: Address,
    /// The remainder, over the basis of the result.
    pub remainder: Address,
    /// The result.
    pub out: Address,
    /// Of [`Kept`], one for each limb.
    pub kept: Address,
}

/// A key, and the automorphism after the product with it.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct KeyTerm {
    /// The key.
    pub key: Address,
    /// Its basis.
    pub basis: Basis,
    /// Its digits.
    pub digits: u32,
    /// A Galois element, 1 for none.
    pub galois: u32,
}

/// Arguments of [`KEY_PRODUCTS`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct KeyArgs {
    /// The ring.
    pub ring: Ring,
    /// The basis of the results.
    pub basis: Basis,
    /// `[prime][digit]`.
    pub raised: Address,
    /// Number of digits.
    pub digits: u32,
    /// The results.
    pub out: [Address; 2],
    /// 1 to add to what is there.
    pub accumulate: u32,
    /// Number of keys.
    pub terms: u32,
    /// The keys.
    pub term: [KeyTerm; MOST_KEYS],
}

/// Arguments of the passes of transforms.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TransformArgs {
    /// The ring.
    pub ring: Ring,
    /// What is transformed.
    pub many: Many,
    /// Where it is.
    pub source: Address,
    /// Where it goes.
    pub target: Address,
    /// 1 to bring residues to Montgomery form first.
    pub to_montgomery: u32,
    /// Of [`Shoup`]: the factor of the inverse transform of each limb.
    pub scales: Address,
    /// Words that are added to each limb at last.
    pub words: Address,
}

/// Arguments of [`FOLD`] and [`UNFOLD`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct FoldArgs {
    /// The ring.
    pub ring: Ring,
    /// What is folded.
    pub many: Many,
    /// Where it is.
    pub words: Address,
}

/// Arguments of [`MATRIX_PRODUCT`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct MatrixArgs {
    /// The ring.
    pub ring: Ring,
    /// The primes of the vectors.
    pub basis: Basis,
    /// The primes of the matrix.
    pub matrix_basis: Basis,
    /// Words: for each prime one or two matrices, `[row / 4][column][row % 4]`.
    pub matrix: Address,
    /// Words of one matrix, divided by 4.
    pub matrix_len: u32,
    /// Matrices of a prime.
    pub matrices: u32,
    /// The first residue that the second matrix is for.
    pub split: u32,
    /// Rows of a matrix.
    pub rows: u32,
    /// Columns of a matrix.
    pub columns: u32,
    /// Addresses of the inputs, and then of the outputs.
    pub vectors: Address,
    /// Residues of a limb: a multiple of 4.
    pub length: u32,
    /// Words from one limb of an input to the next.
    pub input_limb: u64,
    /// Words from one limb of an output to the next.
    pub output_limb: u64,
}

/// Arguments of [`STEPS`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct StepArgs {
    /// Where it is read.
    pub source: Address,
    /// Where it is written.
    pub target: Address,
    /// Words from one limb that is read to the next.
    pub source_limb: u64,
    /// Words from one limb that is written to the next.
    pub target_limb: u64,
    /// Words from one word that is read to the next.
    pub source_step: u32,
    /// Words from one word that is written to the next.
    pub target_step: u32,
    /// Words of each limb.
    pub count: u64,
}

/// Arguments of [`MODULE_ROWS`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ModuleArgs {
    /// The ring.
    pub ring: Ring,
    /// The body of the ciphertext.
    pub body: Address,
    /// Its mask.
    pub mask: Address,
    /// The row of its first part.
    pub rows: Address,
    /// Words from one part to the next.
    pub part: u64,
    /// Words from one limb of the rows to the next.
    pub limb: u64,
    /// log2 of the degree of the parts.
    pub log_part: u32,
}

/// Arguments of [`SELECT_ROWS`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SelectArgs {
    /// The rows.
    pub source: Address,
    /// The chosen ones.
    pub target: Address,
    /// Words from one limb of the rows to the next.
    pub source_limb: u64,
    /// Words from one limb of the chosen ones to the next.
    pub target_limb: u64,
    /// Words of a row.
    pub row_len: u32,
    /// Words: the numbers of the chosen ones.
    pub chosen: Address,
}

/// Arguments of [`PACK_ROWS`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PackArgs {
    /// The ring.
    pub ring: Ring,
    /// The rows.
    pub rows: Address,
    /// Words from one limb of the rows to the next.
    pub limb: u64,
    /// Words of a row.
    pub row_len: u32,
    /// log2 of the degree of the parts.
    pub log_part: u32,
    /// Words: the row of each part, or [`NO_ROW`].
    pub chosen: Address,
    /// Addresses of the results.
    pub out: Address,
}

/// Arguments of [`SIGNED_DIGITS`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DigitArgs {
    /// The ring.
    pub ring: Ring,
    /// Coefficients over one or two primes.
    pub source: Address,
    /// Words from those modulo one to those modulo the other.
    pub source_prime: u64,
    /// `[prime][component][level]`.
    pub out: Address,
    /// One or two.
    pub primes: u32,
    /// Levels of all components.
    pub rows: u32,
    /// The first row of this component.
    pub first: u32,
    /// Levels of a component.
    pub levels: u32,
    /// Bits of a digit.
    pub log2_base: u32,
    /// Bits that are rounded away.
    pub drop: u32,
    /// Half the modulus.
    pub half: u64,
    /// The modulus.
    pub product: u64,
    /// Added to magnitudes.
    pub offset: i64,
    /// The first of two primes.
    pub first_prime: u32,
    /// A multiple of the second that is no less.
    pub lift: u32,
    /// 1 / the first, modulo the second.
    pub inverse: Shoup,
}

/// A key, and the exponent that its product is rotated by.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct RotationTerm {
    /// The key.
    pub key: Address,
    /// The exponent.
    pub exponent: u32,
}

/// Arguments of [`ROTATED_DIFFERENCES`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RotationArgs {
    /// The ring.
    pub ring: Ring,
    /// The basis of everything.
    pub basis: Basis,
    /// `[prime][digit]`.
    pub raised: Address,
    /// Number of digits.
    pub digits: u32,
    /// Words: for each prime the powers of its root of unity.
    pub powers: Address,
    /// What is added to.
    pub out: [Address; 2],
    /// Number of terms.
    pub terms: u32,
    /// The terms.
    pub term: [RotationTerm; MOST_KEYS],
}

/// Arguments of [`COEFFICIENT_MAP`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct MapArgs {
    /// The ring.
    pub ring: Ring,
    /// The basis.
    pub basis: Basis,
    /// The polynomial.
    pub source: Address,
    /// Its image.
    pub out: Address,
    /// A Galois element.
    pub galois: u32,
    /// The exponent of the power of `X`.
    pub shift: u32,
}

/// Arguments of [`TABLE_SUMS`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TableArgs {
    /// The ring.
    pub ring: Ring,
    /// Words: `[prime][block of residues][column][row]`.
    pub table: Address,
    /// Limbs: `[prime][row][component]`.
    pub factors: Address,
    /// Addresses of both components of each sum.
    pub out: Address,
    /// Rows of the table.
    pub rows: u32,
    /// Columns of the table.
    pub columns: u32,
    /// The first column that is summed.
    pub first: u32,
    /// How many are.
    pub count: u32,
}

/// Arguments of [`BYTE_SUMS`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ByteArgs {
    /// Bytes: `[block of columns][row][column of the block]`.
    pub bytes: Address,
    /// Words: `[query][row]`.
    pub factors: Address,
    /// Words: `[query][column]`, added to.
    pub sums: Address,
    /// Rows of the table.
    pub rows: u32,
    /// Columns of the table.
    pub columns: u32,
    /// Number of queries.
    pub queries: u32,
    /// Words from the factors of a query to those of the next.
    pub stride: u32,
}

/// Arguments of [`BYTE_CHANGES`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ChangeArgs {
    /// Words: for each change its row, and the column of its first difference.
    pub places: Address,
    /// Signed numbers of 16 bits.
    pub differences: Address,
    /// Number of changes.
    pub changes: u32,
    /// Differences of a change.
    pub length: u32,
    /// Columns from one difference to the next.
    pub step: u32,
    /// As for [`ByteArgs`].
    pub factors: Address,
    /// As for [`ByteArgs`].
    pub sums: Address,
    /// Columns of the table.
    pub columns: u32,
    /// As for [`ByteArgs`].
    pub stride: u32,
}

/// Arguments of [`RAISE_SUMS`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RaiseArgs {
    /// The ring.
    pub ring: Ring,
    /// Words: `[query][residue]`.
    pub sums: Address,
    /// Limbs: `[prime][query]`.
    pub out: Address,
    /// Number of primes.
    pub primes: u32,
    /// Number of queries.
    pub queries: u32,
    /// The product of the primes.
    pub modulus: u64,
}

/// Arguments of [`ORBIT_KEY`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct OrbitArgs {
    /// The ring.
    pub ring: Ring,
    /// The polynomial.
    pub source: Address,
    /// For each prime and each half in orbit order, its values twice.
    pub out: Address,
}

/// Arguments of [`WINDOW_SUMS`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct WindowArgs {
    /// The ring.
    pub ring: Ring,
    /// Words: `[list][prime][block of values][factor][value of the block]`.
    pub factors: Address,
    /// Addresses: for each list the keys of all queries, and then the sums of all queries.
    pub vectors: Address,
    /// Number of lists.
    pub lists: u32,
    /// Factors of a list.
    pub count: u32,
    /// Number of primes.
    pub primes: u32,
    /// Number of queries.
    pub queries: u32,
}

/// An image of a difference.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub struct GatherItem {
    /// What is subtracted from, if anything.
    pub plus: Address,
    /// What is subtracted, if anything.
    pub minus: Address,
    /// A Galois element, 1 for none.
    pub galois: u32,
    /// Zero.
    pub unused: u32,
}

/// Arguments of [`GATHER`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct GatherArgs {
    /// The ring.
    pub ring: Ring,
    /// The basis of everything.
    pub basis: Basis,
    /// Of [`GatherItem`].
    pub items: Address,
    /// How many.
    pub count: u32,
    /// Limbs: `[prime][item]`.
    pub out: Address,
}

/// Arguments of [`SCATTER`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ScatterArgs {
    /// The ring.
    pub ring: Ring,
    /// Limbs: `[prime][polynomial]`.
    pub words: Address,
    /// Addresses of the polynomials.
    pub out: Address,
    /// How many.
    pub count: u32,
}

/// Polynomials of an operation of [`BATCH`].
#[derive(Clone, Copy, Debug, Default, NoUninit)]
#[repr(C)]
pub struct BatchItem {
    /// The result.
    pub out: Address,
    /// The second result, if there is one.
    pub other: Address,
    /// An operand.
    pub a: Address,
    /// The second operand, if there is one.
    pub b: Address,
}

/// An operation of [`BATCH`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum BatchOperation {
    /// `a + b`.
    Sum,
    /// `a factor / R`.
    Product,
    /// `b + a factor / R`.
    AddProduct,
    /// `a + b`, and `(a - b) factor / R`.
    Split,
}

/// Arguments of [`BATCH`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct BatchArgs {
    /// The ring.
    pub ring: Ring,
    /// The basis of everything.
    pub basis: Basis,
    /// Of [`BatchItem`].
    pub items: Address,
    /// The factor, if there is one.
    pub factor: Address,
    /// The operation.
    pub operation: BatchOperation,
}

/// A product with a key, and what is added to it.
#[derive(Clone, Copy, Debug, NoUninit)]
#[repr(C)]
pub struct ChoiceItem {
    /// The key.
    pub key: Address,
    /// What is added to each component, if anything.
    pub plus: [Address; 2],
    /// The results.
    pub out: [Address; 2],
    /// The Galois element of what is added, 1 for none.
    pub galois: u32,
    /// Zero.
    pub unused: u32,
}

/// Arguments of [`CHOICES`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ChoiceArgs {
    /// The ring.
    pub ring: Ring,
    /// The basis of everything.
    pub basis: Basis,
    /// Limbs: `[prime][item][digit]`.
    pub digits: Address,
    /// Digits of an item.
    pub rows: u32,
    /// Number of items.
    pub count: u32,
    /// Of [`ChoiceItem`].
    pub items: Address,
}

/// Arguments of [`KEY_ROWS`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RowArgs {
    /// The ring.
    pub ring: Ring,
    /// Addresses of both components of each row.
    pub rows: Address,
    /// Number of rows.
    pub count: u32,
    /// Words: `[prime][row]`, in the order of keys.
    pub out: Address,
}

/// Products of a thread of [`CEILING`] that do not wait for each other.
pub const CHAINS: usize = 8;

/// Arguments of [`CEILING`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CeilingArgs {
    /// A [`Prime`].
    pub prime: Address,
    /// A word for each thread.
    pub out: Address,
    /// Products of each chain.
    pub rounds: u32,
}
