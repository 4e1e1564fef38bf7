//! The kernels, and the types of their arguments, as in `kernels/`.

mod batches;
mod ceiling;
mod digits;
mod elements;
mod matrices;
mod ring;
mod switching;
mod tables;
mod transform;

use std::marker::PhantomData;

pub use batches::{
    BatchArgs, BatchItem, BatchOperation, ChoiceArgs, ChoiceItem, GatherArgs, GatherItem, RowArgs, ScatterArgs,
};
pub use ceiling::{CHAINS, CeilingArgs};
pub use digits::{DigitArgs, MapArgs, RotationArgs, RotationTerm};
pub use elements::{AutomorphismArgs, ElementArgs, FactorArgs, SumsArgs, TensorArgs, Term};
pub use matrices::{MatrixArgs, ModuleArgs, PackArgs, SelectArgs, StepArgs};
pub use ring::{Basis, Limbs, Many, Prime, Ring, Shoup};
pub use switching::{ConvertArgs, Digit, DivideArgs, Kept, KeyArgs, KeyTerm, QuotientArgs};
pub use tables::{ByteArgs, ChangeArgs, OrbitArgs, RaiseArgs, TableArgs, WindowArgs};
pub use transform::{FoldArgs, TransformArgs};

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
pub const MAX_PRIMES: usize = 128;

/// log2 of the degree up to which a transform has one pass, and of the residues of a block of a pass.
pub const LOG_TILE: u32 = 12;

/// The stages of the pass over runs of consecutive residues, where a transform has two passes.
pub const LOG_RUN: u32 = 8;

/// The most primes that a conversion reads.
pub const MAX_SOURCES: usize = 32;

/// Targets of a block of [`CONVERT`].
pub const TARGETS: usize = 8;

/// The most terms of a launch of [`PRODUCT_SUMS`] and [`AUTOMORPHISMS`].
pub const MAX_TERMS: usize = 32;

/// The most keys of a launch of [`KEY_PRODUCTS`] and [`ROTATED_DIFFERENCES`].
pub const MAX_KEYS: usize = 32;

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
