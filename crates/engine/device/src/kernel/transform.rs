//! Transforms.

use super::{Address, Many, Ring};

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
    /// Of [`Shoup`](super::Shoup): the factor of the inverse transform of each limb.
    pub scales: Address,
    /// Words that are added to each limb at last.
    pub words: Address,
}

/// Arguments of [`FOLD`](super::FOLD) and [`UNFOLD`](super::UNFOLD).
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
