//! The ceiling of arithmetic.

use super::Address;

/// Products of a thread of [`CEILING`](super::CEILING) that do not wait for each other.
pub const CHAINS: usize = 8;

/// Arguments of [`CEILING`](super::CEILING).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CeilingArgs {
    /// A [`Prime`](super::Prime).
    pub prime: Address,
    /// A word for each thread.
    pub out: Address,
    /// Products of each chain.
    pub rounds: u32,
}
