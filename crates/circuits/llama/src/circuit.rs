//! The shape of the private pass.

use unspoken_llama_model::Config;

/// The private pass of a model: a chunk of tokens after a public prefix and earlier chunks.
#[derive(Clone, Debug, PartialEq)]
pub struct Circuit {
    pub(crate) config: Config,
    pub(crate) rounds: u8,
}

impl Circuit {
    /// Rounds of softmax that the paper uses (Section 4.4).
    pub const ROUNDS: u8 = 2;

    /// Maximum number of rounds of softmax.
    pub const MAX_ROUNDS: u8 = 8;

    /// The circuit of a model whose norms have no gains ([`fold_norms`](unspoken_llama_model::fold_norms)).
    pub fn new(config: &Config) -> Self {
        Circuit { config: config.clone(), rounds: Self::ROUNDS }
    }

    /// The same circuit with another number of rounds of softmax. Each round more uses two levels more, and takes the
    /// square root of the ratio by which the sums of the first round differ between tokens.
    ///
    /// # Panics
    /// If the number is 0 or more than [`MAX_ROUNDS`](Self::MAX_ROUNDS).
    pub fn with_rounds(self, rounds: u8) -> Self {
        assert!((1..=Self::MAX_ROUNDS).contains(&rounds), "found {rounds} rounds, needed 1 to {}", Self::MAX_ROUNDS);
        Circuit { rounds, ..self }
    }

    /// Dimensions of the model.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Number `k` of times that softmax squares its weights: the exponentials are of scores divided by `2^k`.
    pub fn rounds(&self) -> u8 {
        self.rounds
    }

    /// Number of operations of [`Circuit::heads`].
    pub fn head_operations(&self) -> usize {
        // Scores, exponentials and sums of values; squares, factors, scaled weights and weights of each round.
        3 + 4 * usize::from(self.rounds)
    }
}
