//! Plans as data.

use std::fmt;

use serde::Serialize;

/// A part of the work, for the shares of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Products with weights, without the bootstraps around them.
    Linear,
    /// RoPE, scores, weighted sums.
    Attention,
    /// Exponential, rounds of softmax.
    Softmax,
    /// Norms.
    Norm,
    /// SiLU and the product with its factor.
    Silu,
    /// Sums of the residual stream.
    Residual,
    /// The logits, without the bootstrap before them.
    Head,
    /// Bootstraps, those around products on coefficients included.
    Bootstrap,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Phase::Linear => "linear maps",
            Phase::Attention => "attention",
            Phase::Softmax => "softmax",
            Phase::Norm => "norms",
            Phase::Silu => "SiLU",
            Phase::Residual => "residuals",
            Phase::Head => "head",
            Phase::Bootstrap => "bootstraps",
        })
    }
}

/// Sums of work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Totals {
    /// Predicted seconds.
    pub seconds: f64,
    /// The part of `seconds` that bootstraps take.
    pub bootstrap_seconds: f64,
    /// Key switches in the ring of the ciphertexts, the key switches of bootstraps included.
    pub key_switches: u64,
    /// Key switches in the small ring of products on coefficients.
    pub small_key_switches: u64,
    /// Maps from slots to coefficients: first halves of bootstraps. A bootstrap of a ciphertext with two real vectors
    /// counts once.
    pub first_halves: u64,
    /// Raises with the map from coefficients to slots and the modular reduction: second halves of bootstraps.
    pub second_halves: u64,
    /// Products of a ciphertext with an encoded vector.
    pub plaintext_products: u64,
    /// Integer multiply-adds of products with weights on coefficients, over all primes.
    pub multiply_adds: u64,
}

impl Totals {
    /// Adds `count` times `other`.
    pub(super) fn add(&mut self, other: &Totals, count: usize) {
        let (times, count) = (count as f64, count as u64);
        self.seconds += times * other.seconds;
        self.bootstrap_seconds += times * other.bootstrap_seconds;
        self.key_switches += count * other.key_switches;
        self.small_key_switches += count * other.small_key_switches;
        self.first_halves += count * other.first_halves;
        self.second_halves += count * other.second_halves;
        self.plaintext_products += count * other.plaintext_products;
        self.multiply_adds += count * other.multiply_adds;
    }
}

/// An operation of a plan, or a bootstrap before it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Quantity that it computes or refreshes; several with `+` between.
    pub place: String,
    /// What it does.
    pub operation: &'static str,
    /// How.
    pub algorithm: String,
    /// Its phase. The seconds of bootstraps around a product on coefficients belong to [`Phase::Bootstrap`] all the
    /// same.
    pub phase: Phase,
    /// Level at which the operation works, to which the inputs are lowered.
    pub level_in: usize,
    /// Level of the result.
    pub level_out: usize,
    /// Bits of the result's scale.
    pub scale_bits: f64,
    /// Ciphertexts of the result.
    pub ciphertexts: usize,
    /// Bytes of the result.
    pub bytes: u64,
    /// Its work.
    #[serde(flatten)]
    pub work: Totals,
}

/// A layer, or the head, with the layers that are computed in the same way.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartPlan {
    /// The first of the layers; the number of layers for the head.
    pub first: usize,
    /// Number of layers.
    pub count: usize,
    /// Level of the residual stream at the begin.
    pub level_in: usize,
    /// Level of the result.
    pub level_out: usize,
    /// Its operations, in their order.
    pub rows: Vec<Row>,
    /// Sum of the rows.
    pub totals: Totals,
}

/// Seconds of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Share {
    /// The phase.
    pub phase: Phase,
    /// Its seconds.
    pub seconds: f64,
}

/// What the pass needs at least on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Floor {
    /// Bytes that are read from memory at least once: weights, keys, matrices of bootstraps, cache.
    pub bytes: u64,
    /// These bytes over the bandwidth of the memory.
    pub byte_seconds: f64,
    /// Integer multiply-adds of the plan's products on coefficients over the rate of the engine's product of matrices.
    pub mac_seconds: f64,
}

impl Floor {
    /// The larger of the two.
    pub fn seconds(&self) -> f64 {
        self.byte_seconds.max(self.mac_seconds)
    }
}

/// What further levels after a bootstrap would give.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Deeper {
    /// Further levels.
    pub levels: usize,
    /// Seconds of the best plan with them, with bootstraps that cost the same.
    pub seconds: f64,
}

/// The plan of one pass: a chunk of the private text, or a step of generation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PassPlan {
    /// Tokens of the pass.
    pub tokens: usize,
    /// Public tokens before it.
    pub public: usize,
    /// Private tokens before it.
    pub earlier: usize,
    /// Layers in their order, equal neighbours together, and then the head if logits are computed.
    pub parts: Vec<PartPlan>,
    /// Sum of the parts.
    pub totals: Totals,
    /// Seconds of each phase.
    pub shares: Vec<Share>,
    /// Seconds of the greedy placement, which bootstraps only when it is out of levels; `None` if it is stuck.
    pub greedy_seconds: Option<f64>,
    /// What more levels would give, each number of levels if it is faster than the one before.
    pub deeper: Vec<Deeper>,
    /// What the machine needs at least.
    pub floor: Floor,
    /// Peak bytes of tensors and of temporary values.
    pub working_bytes: u64,
}

/// Keys of one use.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KeyUse {
    /// What they are for. A key that serves several uses counts for the first.
    pub purpose: &'static str,
    /// Number of keys.
    pub keys: usize,
    /// Bytes in memory.
    pub bytes: u64,
}

/// Memory of the service for one session.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MemoryPlan {
    /// Keys by use.
    pub keys: Vec<KeyUse>,
    /// Bytes of all keys.
    pub key_bytes: u64,
    /// Bytes of the engine's keys on the wire, where uniform halves are seeds; without the keys of the small ring.
    pub key_wire_bytes: u64,
    /// Weights of all layers and of the head, 2 bytes each.
    pub weight_bytes: u64,
    /// Matrices of bootstraps, encoded.
    pub bootstrap_bytes: u64,
    /// Keys and values of public tokens, 2 bytes each, encoded when they are used.
    pub public_cache_bytes: u64,
    /// Keys and values of private tokens, encrypted at the levels at which they are used.
    pub private_cache_bytes: u64,
    /// Peak of tensors and temporary values of a pass.
    pub working_bytes: u64,
    /// All of them.
    pub total_bytes: u64,
    /// The limit that was asked for.
    pub limit_bytes: Option<u64>,
    /// Whether the total keeps the limit.
    pub fits: bool,
}

/// The plan of a prompt: its passes, and the memory of the service.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// Parameter set.
    pub preset: String,
    /// Bits of security of its weakest object, at most 128.
    pub security_bits: f64,
    /// Slots of a ciphertext.
    pub slots: usize,
    /// Lowest level from which a bootstrap can start, and the level of its results.
    pub bootstrap_levels: [usize; 2],
    /// Degree of the ring of products on coefficients.
    pub small_degree: usize,
    /// Passes over the chunks of the private text, in their order.
    pub chunks: Vec<PassPlan>,
    /// The first step of generation after them: one token, with logits.
    pub generation: Option<PassPlan>,
    /// Sum of the chunks.
    pub totals: Totals,
    /// Memory of the service.
    pub memory: MemoryPlan,
    /// What the plan assumes and the engine does not offer yet.
    pub assumptions: Vec<String>,
}
