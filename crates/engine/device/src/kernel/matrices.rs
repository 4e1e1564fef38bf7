//! Products with matrices, and module ciphertexts.

use super::{Address, Basis, Ring};

/// Arguments of [`MATRIX_PRODUCT`](super::MATRIX_PRODUCT).
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

/// Arguments of [`STEPS`](super::STEPS).
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

/// Arguments of [`MODULE_ROWS`](super::MODULE_ROWS).
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

/// Arguments of [`SELECT_ROWS`](super::SELECT_ROWS).
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

/// Arguments of [`PACK_ROWS`](super::PACK_ROWS).
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
    /// Words: the row of each part, or [`NO_ROW`](super::NO_ROW).
    pub chosen: Address,
    /// Addresses of the results.
    pub out: Address,
}
