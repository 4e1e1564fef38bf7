//! Sums over tables.

use super::{Address, Ring};

/// Arguments of [`TABLE_SUMS`](super::TABLE_SUMS).
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

/// Arguments of [`BYTE_SUMS`](super::BYTE_SUMS).
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
    /// Words from the first factor of a query to the first of the next query.
    pub stride: u32,
}

/// Arguments of [`BYTE_CHANGES`](super::BYTE_CHANGES).
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

/// Arguments of [`RAISE_SUMS`](super::RAISE_SUMS).
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

/// Arguments of [`ORBIT_KEY`](super::ORBIT_KEY).
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

/// Arguments of [`WINDOW_SUMS`](super::WINDOW_SUMS).
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
