//! Errors of the planner.

use unspoken_ckks::CkksError;

/// A pass cannot be planned.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The prompt is longer than the model's context.
    #[error(
        "found a prompt of {public} public and {private} private tokens, needed at most {context}, the context of the \
         model: shorten the prompt"
    )]
    Context {
        /// Public tokens.
        public: usize,
        /// Private tokens. If a step of generation is planned, the generated token counts, too.
        private: usize,
        /// The model's context.
        context: usize,
    },
    /// Private tokens cannot be divided into these chunks.
    #[error("found {private} private tokens in {chunks} chunks, needed at least one token in each of 1 to {private}")]
    Chunks {
        /// Private tokens.
        private: usize,
        /// Chunks.
        chunks: usize,
    },
    /// A chunk has more tokens than a ciphertext has slots, or than the ring of products on coefficients has
    /// coefficients.
    #[error("found a chunk of {tokens} tokens, needed at most {most}: divide the private text into more chunks")]
    Chunk {
        /// Tokens of the chunk.
        tokens: usize,
        /// What is possible.
        most: usize,
    },
    /// A parameter set has less than 128 bits of security and no `insecure_` in its name.
    #[error(
        "found preset {preset} with {bits:.0} bits of security, needed 128: take another preset, or one with \
         `insecure_` in its name for tests"
    )]
    Security {
        /// Its name.
        preset: String,
        /// Bits of its weakest object.
        bits: f64,
    },
    /// An operation needs more levels than a bootstrap leaves.
    #[error(
        "{place}: found {levels} levels after a bootstrap of preset {preset}, needed {needed}: lower the degree, or \
         take a preset with more levels"
    )]
    Levels {
        /// The operation.
        place: String,
        /// The preset.
        preset: String,
        /// Levels after a bootstrap.
        levels: usize,
        /// Levels that the operation needs.
        needed: usize,
    },
    /// The engine refused.
    #[error(transparent)]
    Ckks(#[from] CkksError),
}
