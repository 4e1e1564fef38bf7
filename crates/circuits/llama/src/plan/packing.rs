//! Ciphertexts that tensors take.
//!
//! With `T` the tokens of the chunk, rounded up to a power of two, value `dimension` of a token is in slot `token + T *
//! dimension`. Heads have a power of two of dimensions (padded with zeros) and are side by side. Scores are tiles of
//! `d` keys times `T` queries for each head, `d` the padded width of a head, with column `j` shifted by `j` rows (the
//! packing `tau` of the paper's Section 4.3; queries are in `tau^2`, weighted sums in `tau^0`). A tile has the slots of
//! a head, so blocks of keys have the slots of the queries. Values whose slots end at half the ring or before repeat
//! with a power of two as period: then bootstraps are sparse, and blocks of keys share a ciphertext.

use unspoken_llama_model::Config;

/// Ciphertexts of a tensor of real values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packing {
    /// Number of ciphertexts.
    pub(super) ciphertexts: usize,
    /// Slots after which values repeat; all slots if they do not.
    pub(super) period: usize,
    /// How often each value occurs in the slots, beyond the repetition of one head's values: room for the parts of slim
    /// polynomials.
    pub(super) copies: usize,
}

/// Dimensions that decide the packing of a pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Grid {
    /// Slots of a ciphertext.
    pub(super) slots: usize,
    /// Tokens of the chunk, a power of two.
    pub(super) tokens: usize,
    /// Width of a head, a power of two.
    pub(super) head: usize,
    /// Query heads.
    pub(super) heads: usize,
    /// Key and value heads.
    pub(super) kv_heads: usize,
    /// Tiles of public keys.
    pub(super) public_tiles: usize,
    /// Tiles of private keys, the tiles of this chunk included.
    pub(super) private_tiles: usize,
}

impl Grid {
    /// The grid of a chunk of `tokens` tokens, after `public` public and `earlier` private tokens.
    pub(super) fn new(config: &Config, slots: usize, tokens: usize, public: usize, earlier: usize) -> Self {
        let head = config.head_width.next_power_of_two();
        Grid {
            slots,
            tokens: tokens.next_power_of_two(),
            head,
            heads: config.heads,
            kv_heads: config.kv_heads,
            public_tiles: public.div_ceil(head),
            private_tiles: (earlier + tokens).div_ceil(head),
        }
    }

    /// A tensor of `tokens x 1 x width`.
    pub(super) fn activation(&self, width: usize) -> Packing {
        self.blocks(self.tokens, width)
    }

    /// Queries, keys, values, or one tile of scores of all heads.
    pub(super) fn queries(&self) -> Packing {
        self.blocks(self.tokens * self.head, self.heads)
    }

    /// Keys or values before they are copied to the query heads that share them.
    pub(super) fn keys(&self) -> Packing {
        self.blocks(self.tokens * self.head, self.kv_heads)
    }

    /// Tiles of keys that share a ciphertext.
    pub(super) fn tiles_together(&self) -> usize {
        self.slots / self.queries().period
    }

    /// Ciphertexts of the scores of this many tiles.
    fn tiles(&self, tiles: usize) -> usize {
        match self.tiles_together() {
            1 => tiles * self.queries().ciphertexts,
            together => tiles.div_ceil(together),
        }
    }

    /// Ciphertexts of scores with public keys, and with private keys.
    pub(super) fn scores(&self) -> [usize; 2] {
        [self.tiles(self.public_tiles), self.tiles(self.private_tiles)]
    }

    /// A value for each token.
    pub(super) fn token_factors(&self) -> Packing {
        Packing { ciphertexts: 1, period: self.tokens, copies: self.slots / self.tokens }
    }

    /// A value for each token and head, as the sum over a tile leaves them: in all rows of the tile.
    pub(super) fn head_factors(&self) -> Packing {
        Packing { copies: self.head, ..self.queries() }
    }

    /// The same values, with the values of several ciphertexts side by side in one.
    pub(super) fn packed_factors(&self) -> Packing {
        let spread = self.head_factors().ciphertexts;
        let together = spread.min(self.head).next_power_of_two();
        let ciphertexts = spread.div_ceil(self.head);
        Packing { ciphertexts, copies: (self.head / together).max(1), ..self.head_factors() }
    }

    /// `count` blocks of `block` slots.
    fn blocks(&self, block: usize, count: usize) -> Packing {
        let slots = self.slots;
        if block > slots {
            return Packing { ciphertexts: count * block.div_ceil(slots), period: slots, copies: 1 };
        }
        let period = (block * count.next_power_of_two()).min(slots);
        Packing { ciphertexts: count.div_ceil(slots / block), period, copies: slots / period }
    }

    /// Diagonals of a map that shifts the rows of each column of a tile, with RoPE: three shifts for each column, twice
    /// because shifts wrap at the end of a head.
    pub(super) fn arrangements(&self) -> usize {
        (6 * self.tokens - 3).min(2 * self.head - 1)
    }

    /// Ciphertexts of the private keys, or of the private values: square tiles for each head.
    pub(super) fn cached_ciphertexts(&self) -> usize {
        let square = self.blocks(self.head * self.head, self.heads);
        match self.slots / square.period {
            1 => self.private_tiles * square.ciphertexts,
            together => self.private_tiles.div_ceil(together),
        }
    }
}
