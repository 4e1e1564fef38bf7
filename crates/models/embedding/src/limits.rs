//! Bounds of the values of a table.

/// Maximum magnitude of a value. Trained embeddings stay below a hundred; with this bound no sum of squares overflows.
pub const LARGEST_VALUE: f32 = 1e6;
