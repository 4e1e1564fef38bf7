//! Operations on many polynomials.

use bytemuck::NoUninit;

use super::{Address, Basis, Ring};

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

/// Arguments of [`GATHER`](super::GATHER).
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

/// Arguments of [`SCATTER`](super::SCATTER).
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

/// Polynomials of an operation of [`BATCH`](super::BATCH).
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

/// An operation of [`BATCH`](super::BATCH).
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

/// Arguments of [`BATCH`](super::BATCH).
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

/// Arguments of [`CHOICES`](super::CHOICES).
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

/// Arguments of [`KEY_ROWS`](super::KEY_ROWS).
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
