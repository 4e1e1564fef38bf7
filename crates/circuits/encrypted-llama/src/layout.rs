//! Places of values in the slots of vectors.
//!
//! A chunk has a fixed number of tokens, always the same in a session. With `T` tokens to a vector, activations have
//! dimension `d` of token `t` in slot `t + T d` and repeat with a power of two as period. Heads are activations whose
//! dimensions are `h + H c`, channel by channel, so a rotation by `r T H` turns the channels of all heads at once,
//! without a mask. Scores have key column `y` in place of the channels, for all keys that fit. Tokens of a chunk that
//! does not fit one vector lie in two *parts*, which are the real and the imaginary slots of bootstraps.

use unspoken_llama_model::Config;

use crate::error::PassError;

/// How the values of a chunk of tokens lie in vectors of real slots. All chunks of a session have one layout.
///
/// With `T` tokens to a vector, `S` slots, `H` heads to a vector (a power of two), and heads of width `w` (a power of
/// two):
///
/// - **activations** have dimension `d` of token `t` in slot `t + T d`. Dimensions repeat with a power of two as
///   period, or continue in the next vector;
/// - **heads** (queries, keys, values, attention) are activations whose dimension `h + H c` is channel `c` of head `h`.
///   A vector has `L` copies of them, called lanes, so rotations by multiples of `T H` turn the channels;
/// - **scores** have key column `y` of a vector in slot `t + T (h + H y)`: `w L` columns to a vector, `w` to a lane.
///
/// RoPE turns channel `c` against channel `c + w / 2`: these are the pairs of adjacent coordinates of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// Slots of a vector.
    pub slots: usize,
    /// Tokens of a vector, a power of two.
    pub tokens: usize,
    /// Vectors with different tokens and the same dimensions: one, or two that are bootstrapped as one.
    pub parts: usize,
    /// Query heads of the model.
    pub heads: usize,
    /// Width of a head in the model.
    pub head_width: usize,
    /// Heads of one vector, a power of two.
    pub block_heads: usize,
    /// Vectors with all heads of the same tokens.
    pub blocks: usize,
    /// Width of a head, rounded up to a power of two.
    pub width: usize,
    /// Copies of the heads of a vector.
    pub lanes: usize,
}

impl Layout {
    /// The layout of chunks of `tokens` tokens. They are split into two parts where one vector has no room for all
    /// dimensions of the residual stream.
    ///
    /// # Errors
    /// If the number of tokens is not a power of two from 8 upwards, or a head does not fit a vector.
    pub fn new(config: &Config, slots: usize, tokens: usize) -> Result<Self, PassError> {
        let (found, needed) = (tokens, "a power of two from 8 upwards".to_owned());
        if !tokens.is_power_of_two() || tokens < Self::MIN_TOKENS {
            return Err(PassError::Chunk { found, needed });
        }
        let parts = if tokens > Self::MIN_TOKENS && tokens * config.width > slots { 2 } else { 1 };
        let tokens = tokens / parts;
        let width = config.head_width.next_power_of_two();
        let heads = config.heads.next_power_of_two();
        let room = slots / (tokens * width);
        if room == 0 || tokens > width * (room / heads).max(1) {
            let needed = format!("fewer tokens: heads of width {width} in {slots} slots");
            return Err(PassError::Chunk { found, needed });
        }
        let block_heads = heads.min(room);
        Ok(Layout {
            slots,
            tokens,
            parts,
            heads: config.heads,
            head_width: config.head_width,
            block_heads,
            blocks: config.heads.div_ceil(block_heads),
            width,
            lanes: room / block_heads,
        })
    }

    /// Fewest tokens of a chunk: rows of products on coefficients have 16 coefficients or more.
    pub const MIN_TOKENS: usize = 8;

    /// Tokens of a chunk.
    pub fn chunk(&self) -> usize {
        self.tokens * self.parts
    }

    /// Dimensions of a vector.
    pub fn dimensions(&self) -> usize {
        self.slots / self.tokens
    }

    /// Dimensions after which activations of this width repeat; all dimensions of a vector, if they do not.
    pub fn period(&self, width: usize) -> usize {
        width.next_power_of_two().min(self.dimensions())
    }

    /// Vectors of activations of this width, for each part.
    pub fn activation_vectors(&self, width: usize) -> usize {
        width.div_ceil(self.dimensions())
    }

    /// Columns of a vector of scores.
    pub fn columns(&self) -> usize {
        self.width * self.lanes
    }

    /// Slots between neighbouring channels of a head, and between neighbouring columns of scores.
    pub fn stride(&self) -> usize {
        self.tokens * self.block_heads
    }

    /// Token, head within its vector, and column of a slot. The channel is the column modulo the width of a head.
    pub fn place(&self, slot: usize) -> (usize, usize, usize) {
        let (token, rest) = (slot % self.tokens, slot / self.tokens);
        (token, rest % self.block_heads, rest / self.block_heads)
    }

    /// The slot of a token, a head within its vector, and a column.
    pub fn slot(&self, token: usize, head: usize, column: usize) -> usize {
        token + self.tokens * (head + self.block_heads * column)
    }

    /// The coordinate of a head in the model that a channel holds; `None` for padding.
    pub fn coordinate(&self, channel: usize) -> Option<usize> {
        let half = self.width / 2;
        let (pair, second) = (channel % half, channel / half);
        (2 * pair < self.head_width).then_some(2 * pair + second)
    }
}

/// Blocks of heads: all blocks, or some of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blocks {
    /// Number of the first one.
    pub first: usize,
    /// How many there are.
    pub count: usize,
}

impl Blocks {
    /// The blocks of all heads.
    pub fn all(layout: &Layout) -> Self {
        Blocks { first: 0, count: layout.blocks }
    }
}

/// The key columns of a session: the columns of the public tokens, then blocks of `T` columns, one for each part of
/// each private chunk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Columns {
    /// Public tokens.
    pub public: usize,
    /// The first column of private blocks.
    pub private: usize,
    /// Private chunks that have room.
    pub chunks: usize,
    /// Vectors of scores, for each part and block of heads.
    pub vectors: usize,
}

impl Columns {
    /// Columns for `chunks` private chunks after `public` tokens.
    pub fn new(layout: &Layout, public: usize, chunks: usize) -> Self {
        let private = public.div_ceil(layout.tokens) * layout.tokens;
        let all = private + chunks * layout.chunk();
        Columns { public, private, chunks, vectors: all.div_ceil(layout.columns()) }
    }

    /// The vector of scores with the columns of a part of a private chunk.
    pub(crate) fn vector_of(&self, layout: &Layout, chunk: usize, part: usize) -> usize {
        (self.private + (chunk * layout.parts + part) * layout.tokens) / layout.columns()
    }

    /// For each vector of scores, whether the first `chunks` private chunks have columns in it.
    pub(crate) fn filled(&self, layout: &Layout, chunks: usize) -> Vec<bool> {
        let places = (0..chunks).flat_map(|chunk| (0..layout.parts).map(move |part| (chunk, part)));
        let mut filled = vec![false; self.vectors];
        places.for_each(|(chunk, part)| filled[self.vector_of(layout, chunk, part)] = true);
        filled
    }

    /// The most vectors of scores in which `chunks` private chunks lie, after at most `public` tokens.
    pub(crate) fn most_vectors(layout: &Layout, public: usize, chunks: usize) -> usize {
        match chunks {
            0 => 0,
            // The first block of columns may be the last one of its vector.
            _ => {
                let any = 1 + (chunks * layout.chunk() - layout.tokens).div_ceil(layout.columns());
                any.min(Columns::new(layout, public, chunks).vectors)
            }
        }
    }

    /// What a column of a vector of scores holds.
    pub fn key(&self, layout: &Layout, vector: usize, column: usize) -> Key {
        let column = vector * layout.columns() + column;
        if column < self.private {
            return if column < self.public { Key::Public(column) } else { Key::Empty };
        }
        let (block, offset) = ((column - self.private) / layout.tokens, (column - self.private) % layout.tokens);
        let (chunk, part) = (block / layout.parts, block % layout.parts);
        if chunk < self.chunks { Key::Private { chunk, part, offset } } else { Key::Empty }
    }
}

/// What a key column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// No key.
    Empty,
    /// A public token.
    Public(usize),
    /// For query token `t`, the private token `t - offset` of a part of a chunk, modulo the tokens of a vector.
    Private {
        /// The chunk.
        chunk: usize,
        /// Its part.
        part: usize,
        /// How far the key lies before the query, modulo the tokens of a vector.
        offset: usize,
    },
}
