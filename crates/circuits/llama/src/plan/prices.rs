//! Work and keys of bootstraps, polynomials and maps of slots, from the engine's formulas.

use std::collections::HashMap;

use unspoken_ckks::{
    Bootstrap, CkksError, CkksParameters, Complex64, Cost, CostModel, Encoder, Polynomial, Simulator, SlotValues,
    evaluate,
};
use unspoken_ring::Basis;
use unspoken_rlwe::KeyPlan;
use unspoken_rlwe::security::{SecretDistribution, max_log2_modulus};

use super::degrees::depth;
use super::packing::Packing;
use super::work::{Work, difference};

/// A bootstrap of vectors with a period and a kind of values.
#[derive(Clone, Debug)]
pub(super) struct Refresh {
    /// Slots after which its vectors repeat.
    pub(super) period: usize,
    /// Map from slots to coefficients.
    first: Cost,
    /// Raise, map from coefficients to slots, reduction.
    second: Cost,
    pub(super) keys: KeyPlan,
    /// Bytes of its matrices.
    pub(super) prepared_bytes: u64,
    /// Peak bytes beyond input, keys and matrices.
    pub(super) working_bytes: u64,
}

/// A block matrix applied to slots by its diagonals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Blocks {
    /// Ciphertexts that are read.
    pub(super) inputs: usize,
    /// Ciphertexts that are made.
    pub(super) outputs: usize,
    /// Products with a plaintext.
    pub(super) products: usize,
    /// Diagonals of a block: neighbouring ones are a stride apart.
    pub(super) diagonals: usize,
}

/// How a block matrix is applied.
#[derive(Clone, Debug)]
pub(super) struct Split {
    /// Number of baby steps.
    pub(super) babies: usize,
    pub(super) cost: Cost,
}

/// Prices of operations under parameters.
pub(super) struct Prices {
    pub(super) parameters: CkksParameters,
    pub(super) model: CostModel,
    encoder: Encoder,
    /// Degree of the ring of products on coefficients.
    pub(super) small_degree: usize,
    refreshes: HashMap<(usize, bool), Refresh>,
    polynomials: HashMap<(usize, usize), Cost>,
}

/// Bits of the special prime of the keys of the small ring.
const SMALL_SPECIAL_BITS: f64 = 30.0;

impl Prices {
    pub(super) fn new(parameters: &CkksParameters, model: CostModel) -> Self {
        let (refreshes, polynomials) = (HashMap::new(), HashMap::new());
        let small_degree = small_degree(parameters);
        let encoder = Encoder::new(parameters);
        Prices { parameters: parameters.clone(), model, encoder, small_degree, refreshes, polynomials }
    }

    /// Seconds of a cost.
    pub(super) fn seconds(&self, cost: &Cost) -> f64 {
        self.model.seconds(cost)
    }

    /// The primes of a level.
    pub(super) fn basis(&self, level: usize) -> Basis {
        self.parameters.basis(level)
    }

    /// Number of primes of a level.
    pub(super) fn limbs(&self, level: usize) -> usize {
        self.parameters.limbs(level)
    }

    /// The cheaper bootstrap of vectors whose slots repeat with `period`: of the period, or of all slots. A small
    /// period has smaller maps, but its repeated slots are summed at the highest level.
    pub(super) fn refresh(&mut self, period: usize, complex: bool) -> Result<&Refresh, CkksError> {
        let period = period.max(self.least_period());
        let (slots, key) = (self.parameters.slots(), (period, complex));
        if !self.refreshes.contains_key(&key) {
            let mut best = self.make_refresh(period, complex)?;
            if period < slots {
                let full = self.refresh(slots, complex)?.clone();
                let seconds = |refresh: &Refresh| self.seconds(&refresh.first) + self.seconds(&refresh.second);
                if seconds(&full) <= seconds(&best) {
                    best = full;
                }
            }
            self.refreshes.insert(key, best);
        }
        Ok(&self.refreshes[&key])
    }

    /// The smallest period of a bootstrap: each factor of its maps needs a stage. Smaller periods divide this one.
    fn least_period(&self) -> usize {
        let factors = self.parameters.bootstrap().map_or(1, |b| b.slots_to_coeffs.max(b.coeffs_to_slots));
        1 << factors
    }

    fn make_refresh(&self, period: usize, complex: bool) -> Result<Refresh, CkksError> {
        let values = if complex { SlotValues::Complex } else { SlotValues::Real };
        let plan = Bootstrap::new(&self.parameters, period, values)?;
        let whole = Simulator::counting(&self.encoder);
        let input = whole.encrypt(&[], plan.input_level(), self.parameters.scale())?;
        let working_bytes = whole.working_bytes(|simulator| plan.simulate_refresh(simulator, &input))?;
        let half = Simulator::counting(&self.encoder);
        let input = half.encrypt(&[], 0, plan.message_scale())?;
        plan.simulate_refresh_coefficients(&half, &input)?;
        let (first, second) = (difference(&whole.cost(), &half.cost()), half.cost());
        let (keys, prepared_bytes) = (plan.key_plan(), plan.prepared_bytes());
        Ok(Refresh { period, first, second, keys, prepared_bytes, working_bytes })
    }

    /// First halves of bootstraps of `ciphertexts` real vectors: two share a ciphertext.
    pub(super) fn first_halves(&mut self, packing: Packing) -> Result<Work, CkksError> {
        let mut work = Work::default();
        for (complex, count) in paired(packing.ciphertexts) {
            work.bootstraps += self.refresh(packing.period, complex)?.first.clone().times(count);
            work.first_halves += count;
        }
        Ok(work)
    }

    /// Second halves of bootstraps to real vectors. A ciphertext with two of them is split by its conjugate.
    pub(super) fn second_halves(&mut self, packing: Packing) -> Result<Work, CkksError> {
        let mut work = Work::default();
        for (complex, count) in paired(packing.ciphertexts) {
            work.bootstraps += self.refresh(packing.period, complex)?.second.clone().times(count);
            work.second_halves += count;
            if complex {
                let (ring, basis) = (self.parameters.ring(), self.basis(self.parameters.circuit_level()));
                let mut split = Cost::key_switch(ring, basis, basis);
                split += Cost::addition(ring, basis, 2).times(2);
                work.bootstraps += split.times(count);
            }
        }
        Ok(work)
    }

    /// A polynomial of a degree on one ciphertext. Above the circuit's levels, whose scale differs, it counts as at the
    /// highest of them.
    pub(super) fn polynomial(&mut self, degree: usize, level: usize) -> Result<Cost, CkksError> {
        let level = level.min(self.parameters.circuit_level());
        if let Some(cost) = self.polynomials.get(&(degree, level)) {
            return Ok(cost.clone());
        }
        // Coefficients without zeros: neither even nor odd.
        let coefficients: Vec<Complex64> = (0..=degree).map(|k| Complex64::from(1.0 / (k + 1) as f64)).collect();
        let polynomial = Polynomial::chebyshev(&coefficients, -1.0, 1.0)?;
        let simulator = Simulator::counting(&self.encoder);
        let input = simulator.encrypt(&[], level, self.parameters.scale())?;
        evaluate(&simulator, &input, &polynomial)?;
        self.polynomials.insert((degree, level), simulator.cost());
        Ok(simulator.cost())
    }

    /// A polynomial of a degree on one ciphertext whose values occur `copies` times, as sums of two squares (Algorithm
    /// 1 of the paper). The number of squares is the cheapest one, from one to the number that the copies allow. Degree
    /// `2^j - 1` is evaluated as `2^j` and takes `j` levels, because the leading coefficients of the leaves are part of
    /// the map of the interval (`apply_mapped` of `unspoken-slim`). `None` without copies.
    pub(super) fn slim(&mut self, degree: usize, copies: usize, level: usize) -> Result<Option<Cost>, CkksError> {
        let most = (copies.max(1).ilog2() as usize).min(depth(degree));
        let mut best: Option<(f64, Cost)> = None;
        for squares in 1..=most {
            let leaf = 1 << (depth(degree) - squares);
            // A leaf of degree 2^m takes the same number of products as a polynomial of degree 2^m - 1.
            let mut cost = if leaf > 1 { self.polynomial(leaf - 1, level)? } else { Cost::default() };
            // The coefficients differ between slots.
            cost += Cost::sum_of_products(self.parameters.ring(), self.basis(level), leaf as u64);
            for square in 0..squares {
                let level = level - depth(leaf - 1) - square;
                cost += self.product(level);
                let below = self.basis(level - 1);
                cost += Cost::key_switch(self.parameters.ring(), below, below);
            }
            let seconds = self.seconds(&cost);
            if best.as_ref().is_none_or(|(least, _)| seconds < *least) {
                best = Some((seconds, cost));
            }
        }
        Ok(best.map(|(_, cost)| cost))
    }

    /// Product of two ciphertexts with relinearisation and rescale.
    pub(super) fn product(&self, level: usize) -> Cost {
        let mut cost = Cost::tensor(self.parameters.ring(), self.basis(level));
        cost += self.relinearisation(level);
        cost
    }

    /// Relinearisation and rescale.
    pub(super) fn relinearisation(&self, level: usize) -> Cost {
        Cost::key_switch(self.parameters.ring(), self.basis(level), self.basis(level.saturating_sub(1)))
    }

    /// Rescale of one ciphertext.
    pub(super) fn rescale(&self, level: usize) -> Cost {
        Cost::rescale(self.parameters.ring(), self.basis(level), self.basis(level - 1), 2)
    }

    /// `doublings` rotations, each added to its input.
    pub(super) fn doublings(&self, doublings: usize, level: usize) -> Cost {
        let (ring, basis) = (self.parameters.ring(), self.basis(level));
        let mut one = Cost::key_switch(ring, basis, basis);
        one += Cost::addition(ring, basis, 2);
        one.times(doublings as u64)
    }

    /// Encoding of `count` vectors at a level, over the extended basis or without the special primes.
    pub(super) fn encodings(&self, count: usize, level: usize, extended: bool) -> Cost {
        let ring = self.parameters.ring();
        let basis = if extended { ring.switching_basis(self.basis(level)) } else { self.basis(level) };
        let limbs = ring.limb_count(basis);
        Cost { encoded: (count * limbs * ring.degree()) as u64, ..Cost::default() }
    }

    /// The cheapest split of a block matrix into baby steps and giant steps, with rotations divided by the special
    /// primes before the products or after them. `ready` says whether the plaintexts are encoded; otherwise each is
    /// made from a stored one by two rotations and two masks (Section 4.3, on the fly).
    pub(super) fn blocks(&self, blocks: Blocks, level: usize, ready: bool) -> Split {
        let most = blocks.diagonals.max(1).ilog2();
        let splits = (0..=most).flat_map(|log2| [true, false].map(|hoisted| (1usize << log2, hoisted)));
        let priced = splits.map(|(babies, hoisted)| {
            let cost = self.split(blocks, level, (babies, hoisted), ready);
            (self.seconds(&cost), Split { babies, cost })
        });
        let best = priced.min_by(|(a, _), (b, _)| a.total_cmp(b));
        best.map_or_else(|| Split { babies: 1, cost: Cost::default() }, |(_, split)| split)
    }

    fn split(&self, blocks: Blocks, level: usize, (babies, hoisted): (usize, bool), ready: bool) -> Cost {
        let (ring, basis) = (self.parameters.ring(), self.basis(level));
        let (limbs, extended) = (ring.limb_count(basis), ring.limb_count(ring.switching_basis(basis)));
        let Blocks { inputs, outputs, products, diagonals } = blocks;
        let (inputs, outputs, count) = (inputs as u64, outputs as u64, products as u64);
        let (turned, giants) = (babies as u64 - 1, diagonals.div_ceil(babies) as u64 - 1);
        let mut cost;
        if hoisted {
            // As LinearPlan: rotations stay over the extended basis, one division at the end.
            cost = Cost::decomposition(ring, basis);
            cost += Cost::hoisted_rotation(ring, basis).times(turned);
            cost = cost.times(inputs);
            let product = Cost { plaintext_products: 1, ..Cost::elementwise(ring, 4 * extended) };
            cost += product.times(count);
            let mut giant = Cost::division(ring, ring.switching_basis(basis), basis);
            giant += Cost::decomposition(ring, basis);
            giant += Cost::hoisted_product(ring, basis);
            giant += Cost::elementwise(ring, 8 * extended);
            giant.key_switches.insert(limbs, 1);
            cost += giant.times(giants * outputs);
            cost += Cost::rescale(ring, ring.switching_basis(basis), self.basis(level - 1), 2).times(outputs);
        } else {
            cost = Cost::hoisted_rotations(ring, basis, turned).times(inputs);
            cost += Cost::sum_of_products(ring, basis, count);
            let mut giant = Cost::key_switch(ring, basis, basis);
            giant += Cost::addition(ring, basis, 2);
            cost += giant.times(giants * outputs);
            cost += self.rescale(level).times(outputs);
        }
        if !ready {
            let limbs = if hoisted { extended } else { limbs };
            cost += Cost::elementwise(ring, MADE_PASSES * limbs).times(count);
        }
        cost
    }

    /// Residues of one polynomial over the lowest level's primes, and of one with the special prime of the small ring.
    fn lowest(&self) -> (usize, usize) {
        (self.limbs(0), self.limbs(0) + 1)
    }

    /// One switch between the main secret and the secret of the small ring, in the ring of the ciphertexts: keys over
    /// the primes of level 0 and one special prime, one digit for each prime.
    pub(super) fn ring_switch(&self) -> Cost {
        let ring = self.parameters.ring();
        let (chain, extended) = self.lowest();
        let mut cost = Cost {
            limb_transforms: (chain * extended) as u64,
            residue_macs: ((chain * chain + 2 * chain * extended) * ring.degree()) as u64,
            ..Cost::elementwise(ring, 2 * chain)
        };
        cost += Cost::division(ring, Basis::chain(extended), Basis::chain(chain)).times(2);
        cost.key_switches.insert(chain, 1);
        cost
    }

    /// `count` key switches in the small ring, as a part of the cost of key switches in the large ring.
    pub(super) fn small_switches(&self, count: usize) -> Cost {
        let one = self.ring_switch();
        let transforms = self.small_transforms(count * one.limb_transforms as usize);
        let ratio = self.parameters.ring().degree() / self.small_degree;
        let part = |residues: u64| (residues * count as u64).div_ceil(ratio as u64);
        Cost {
            limb_transforms: transforms,
            residue_macs: part(one.residue_macs),
            elementwise: part(one.elementwise),
            ..Cost::default()
        }
    }

    /// `count` transforms of limbs of the small ring, as a number of transforms of the large one.
    pub(super) fn small_transforms(&self, count: usize) -> u64 {
        let work = |degree: usize| degree * degree.ilog2() as usize;
        (count * work(self.small_degree)).div_ceil(work(self.parameters.ring().degree())) as u64
    }

    /// Bytes of a key between the main secret and the secret of the small ring, and of a key in the small ring.
    pub(super) fn small_key_bytes(&self) -> [u64; 2] {
        let ring = self.parameters.ring();
        let (chain, extended) = self.lowest();
        let switch = 2 * chain * extended * ring.poly_bytes(Basis::chain(1));
        [switch as u64, (switch / (ring.degree() / self.small_degree)) as u64]
    }

    /// Bytes of one ciphertext.
    pub(super) fn ciphertext_bytes(&self, level: usize) -> u64 {
        unspoken_ckks::vector_bytes(&self.parameters, level)
    }
}

/// Passes over the limbs of a plaintext that is made from a stored one: two rotations, two masks, one sum.
const MADE_PASSES: usize = 5;

/// The numbers of ciphertexts with two real vectors and with one.
pub(super) fn paired(vectors: usize) -> impl Iterator<Item = (bool, u64)> {
    [(true, vectors as u64 / 2), (false, vectors as u64 % 2)].into_iter().filter(|(_, count)| *count > 0)
}

/// The smallest degree where a dense secret is secure with the primes of level 0 and one special prime, at most the
/// degree of the ciphertexts; a sixteenth of their degree for parameters that are not secure.
fn small_degree(parameters: &CkksParameters) -> usize {
    let degree = parameters.ring().degree();
    if parameters.rlwe().is_insecure() {
        return degree / 16;
    }
    let needed = parameters.log2_modulus(0) + SMALL_SPECIAL_BITS;
    let secure = |degree: &usize| {
        max_log2_modulus(*degree, SecretDistribution::UniformTernary).is_some_and(|bound| bound >= needed)
    };
    (10..=degree.ilog2()).map(|log2| 1 << log2).find(secure).unwrap_or(degree)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use unspoken_ckks::{LinearPlan, Preset, Steps};

    use super::*;

    fn prices() -> Prices {
        let parameters = Preset::find("insecure_n11_boot_depth9_scale50").unwrap().build().unwrap();
        let model = CostModel::nominal(&parameters);
        Prices::new(&parameters, model)
    }

    #[test]
    fn a_block_of_diagonals_costs_what_the_engine_says() {
        let prices = prices();
        let parameters = &prices.parameters;
        let blocks = Blocks { inputs: 1, outputs: 1, products: 32, diagonals: 32 };
        let diagonals: BTreeMap<usize, Vec<Complex64>> = (0..32).map(|k| (k, vec![Complex64::from(1.0)])).collect();
        let plan = LinearPlan::new(parameters, diagonals, 6, parameters.scale(), parameters.scale()).unwrap();
        for babies in [4, 8, 16] {
            let plan = plan.clone().with_steps(Steps::of_babies(babies)).unwrap();
            assert_eq!(prices.split(blocks, 6, (babies, true), true), plan.cost());
        }
        assert!(prices.seconds(&prices.blocks(blocks, 6, true).cost) <= prices.seconds(&plan.cost()));
    }

    #[test]
    fn halves_of_a_bootstrap_add_up_and_a_second_real_vector_is_cheaper_than_a_second_bootstrap() {
        let mut prices = prices();
        let slots = prices.parameters.slots();
        let packing = |ciphertexts| Packing { ciphertexts, period: slots, copies: 1 };
        let mut seconds = |ciphertexts| {
            let mut work = prices.first_halves(packing(ciphertexts)).unwrap();
            work += prices.second_halves(packing(ciphertexts)).unwrap();
            (work.seconds(&prices.model)[1], work.first_halves, work.second_halves)
        };
        let ((one, ..), (two, first, second), (five, more, _)) = (seconds(1), seconds(2), seconds(5));
        assert!(one < two && two < 1.9 * one, "{one} {two}");
        assert_eq!((first, second, more), (1, 1, 3));
        assert!((five - 2.0 * two - one).abs() < 1e-9 * five, "{five}");
    }

    #[test]
    fn sparse_bootstraps_cost_no_more_and_slim_polynomials_less() {
        let mut prices = prices();
        let mut seconds = |period| {
            let packing = Packing { ciphertexts: 1, period, copies: 1 };
            let mut work = prices.first_halves(packing).unwrap();
            work += prices.second_halves(packing).unwrap();
            work.seconds(&prices.model)[1]
        };
        let (least, middle, full) = (seconds(1), seconds(512), seconds(1024));
        assert!(least <= full && middle <= full, "{least} {middle} {full}");
        let direct = prices.polynomial(127, 10).unwrap();
        let slim = prices.slim(127, 64, 10).unwrap().unwrap();
        assert!(prices.seconds(&slim) < prices.seconds(&direct));
        assert!(prices.slim(127, 1, 10).unwrap().is_none());
    }

    #[test]
    fn the_small_ring_is_secure() {
        let parameters = Preset::find("n15_boot_depth4_scale30").unwrap().build().unwrap();
        let model = CostModel::nominal(&parameters);
        // 50 and 30 bits of at most 106.
        assert_eq!(Prices::new(&parameters, model).small_degree, 4096);
    }
}
