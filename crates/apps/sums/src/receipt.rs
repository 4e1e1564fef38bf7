//! What became of a contribution.

/// What became of a contribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// It was added to the sum.
    Added,
    /// It had been added before, by a request whose answer may have been lost. It counts once.
    AddedBefore,
}
