//! Errors of this crate.

/// Tokens or text do not fit the model.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// A token is outside the vocabulary.
    #[error(
        "token {position} of the input: found id {id}, needed an id below {vocabulary}; use the tokenizer of this model"
    )]
    Token {
        /// The place in the input.
        position: usize,
        /// The id.
        id: u32,
        /// Number of tokens in the vocabulary.
        vocabulary: usize,
    },
    /// The tokens do not fit the context.
    #[error(
        "found {found} tokens ({cached} of them in the cache), needed at most {context}, the context of this model; \
         shorten the text"
    )]
    Context {
        /// Number of tokens, the tokens in the cache included.
        found: usize,
        /// Number of tokens in the cache.
        cached: usize,
        /// Maximum number of tokens.
        context: usize,
    },
    /// No tokens.
    #[error("found no tokens, needed at least one")]
    Empty,
    /// The cache is of a model of other dimensions.
    #[error("the cache has {found} layers, the model {needed}; make the cache with `KvCache::new` of this model")]
    Cache {
        /// Number of layers of the cache.
        found: usize,
        /// Number of layers of the model.
        needed: usize,
    },
    /// An option of sampling is out of range.
    #[error("{option}: found {found}, needed {needed}")]
    Sampling {
        /// Name of the option.
        option: &'static str,
        /// Its value.
        found: String,
        /// Values that are allowed.
        needed: &'static str,
    },
    /// The template of conversations refused the messages, or there is none.
    #[error("chat template: {0}")]
    Template(String),
    /// The tokenizer refused the text or the ids.
    #[error("tokenizer: {0}")]
    Tokenizer(String),
}
