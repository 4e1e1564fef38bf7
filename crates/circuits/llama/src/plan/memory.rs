//! Keys and memory of a plan.

use std::collections::{BTreeMap, BTreeSet};

use unspoken_rlwe::{KeyKind, KeyPlan};

use super::PlanRequest;
use super::algorithm::{Algorithm, WEIGHT_BYTES};
use super::packing::{Grid, Packing};
use super::prices::{Prices, paired};
use super::report::{KeyUse, MemoryPlan, Phase};

/// What passes use, collected while they are planned.
#[derive(Default)]
pub(super) struct Usage {
    bootstraps: KeyPlan,
    /// Bytes of the matrices of bootstraps by their period. Real and complex ones have the same matrices.
    matrices: BTreeMap<usize, u64>,
    linear: KeyPlan,
    attention: KeyPlan,
    sums: KeyPlan,
    /// Different numbers of keys in the small ring: products with different columns share none.
    small_keys: BTreeSet<usize>,
    /// Levels of cached keys and values, over the layers of the current pass.
    cached: Vec<usize>,
    private_cache_bytes: u64,
    working_bytes: u64,
}

impl Usage {
    /// Notes a bootstrap.
    pub(super) fn refreshed(&mut self, packing: Packing, prices: &mut Prices) {
        // The prices of this bootstrap are known: the plan has them.
        for (complex, _) in paired(packing.ciphertexts) {
            if let Ok(refresh) = prices.refresh(packing.period, complex) {
                self.bootstraps.extend(&refresh.keys);
                self.matrices.insert(refresh.period, refresh.prepared_bytes);
            }
        }
    }

    /// Notes a product on coefficients and the bootstrap around it, if the algorithm is one.
    pub(super) fn product(&mut self, algorithm: &Algorithm, prices: &mut Prices) {
        let Some(product) = algorithm.product() else { return };
        self.refreshed(product.input, prices);
        if product.refreshed {
            self.refreshed(product.output, prices);
        }
        self.small_keys.insert(algorithm.small_keys(prices.small_degree));
    }

    /// Notes keys of other operations.
    pub(super) fn keys(&mut self, phase: Phase, keys: &KeyPlan) {
        match phase {
            Phase::Linear | Phase::Head => self.linear.extend(keys),
            Phase::Attention => self.attention.extend(keys),
            _ => self.sums.extend(keys),
        }
    }

    /// Notes the level of cached keys or values of a layer.
    pub(super) fn cache(&mut self, level: usize) {
        self.cached.push(level);
    }

    /// Notes the end of a pass, with its peak of temporary bytes.
    pub(super) fn pass(&mut self, grid: &Grid, prices: &Prices, working_bytes: u64) {
        let ciphertexts = grid.cached_ciphertexts() as u64;
        let bytes = self.cached.drain(..).map(|level| ciphertexts * prices.ciphertext_bytes(level));
        self.private_cache_bytes = bytes.sum();
        self.working_bytes = self.working_bytes.max(working_bytes);
    }

    /// The memory of all passes.
    pub(super) fn memory(&self, request: &PlanRequest, prices: &Prices) -> MemoryPlan {
        let ring = prices.parameters.ring();
        let mut all = KeyPlan::new();
        let groups = [&self.bootstraps, &self.linear, &self.attention, &self.sums];
        groups.iter().for_each(|keys| all.extend(keys));
        // Each key counts for the first group that needs it, at its size in the whole.
        let mut seen: BTreeSet<KeyKind> = BTreeSet::new();
        let mut part = |purpose, keys: &KeyPlan, wanted: fn(KeyKind) -> bool| {
            let part = all.only(|kind| wanted(kind) && keys.covers_key(kind, 0) && !seen.contains(&kind));
            seen.extend(part.iter().map(|(kind, _)| kind));
            KeyUse { purpose, keys: part.len(), bytes: part.memory_bytes(ring) }
        };
        let product = |kind| kind == KeyKind::Relinearisation;
        let sparse = |kind| matches!(kind, KeyKind::Encapsulation | KeyKind::Decapsulation);
        let mut keys = vec![
            part("products", &all, product),
            part("sparse secret of bootstraps", &all, sparse),
            part("rotations of bootstraps", &self.bootstraps, |_| true),
            part("rotations of linear maps on slots", &self.linear, |_| true),
            part("rotations of attention", &self.attention, |_| true),
            part("rotations of sums", &self.sums, |_| true),
        ];
        let ([switch, small], count) = (prices.small_key_bytes(), self.small_keys.iter().sum::<usize>());
        let switches = 2 * usize::from(count > 0);
        let bytes = switches as u64 * switch + count as u64 * small;
        keys.push(KeyUse { purpose: "small ring", keys: switches + count, bytes });
        let key_bytes = keys.iter().map(|part| part.bytes).sum();
        let config = &request.config;
        let public = 2 * config.layers * request.public * config.kv_width() * CACHE_BYTES;
        let mut memory = MemoryPlan {
            keys,
            key_bytes,
            key_wire_bytes: all.wire_bytes(ring),
            weight_bytes: (config.linear_weights() * WEIGHT_BYTES) as u64,
            bootstrap_bytes: self.matrices.values().sum(),
            public_cache_bytes: public as u64,
            private_cache_bytes: self.private_cache_bytes,
            working_bytes: self.working_bytes,
            total_bytes: 0,
            limit_bytes: request.memory,
            fits: true,
        };
        memory.total_bytes = memory.key_bytes
            + memory.weight_bytes
            + memory.bootstrap_bytes
            + memory.public_cache_bytes
            + memory.private_cache_bytes
            + memory.working_bytes;
        memory.fits = request.memory.is_none_or(|limit| memory.total_bytes <= limit);
        memory
    }
}

/// Bytes of a key's or value's number in the public cache.
const CACHE_BYTES: usize = 2;
