//! Algorithms of the steps: their work, levels and keys.

use unspoken_ckks::{CkksError, Cost};
use unspoken_rlwe::{KeyKind, KeyPlan, galois};

use super::degrees::depth;
use super::packing::Packing;
use super::prices::{Blocks, Prices};
use super::work::Work;
use crate::placement::Landing;

/// How a step is computed.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Algorithm {
    /// Squares of `terms` ciphertexts, added into `results`, relinearised once, and summed within each by `doublings`
    /// rotations by multiples of `stride`.
    SumSquares { terms: usize, results: usize, doublings: usize, stride: usize },
    /// Paterson and Stockmeyer.
    Polynomial { degree: usize, ciphertexts: usize },
    /// Sums of two squares side by side, for values that occur `copies` times at multiples of `stride`.
    Slim { degree: usize, ciphertexts: usize, copies: usize, stride: usize },
    /// Values that repeat in `from` ciphertexts, masked and added side by side.
    Pack { from: usize, to: usize },
    /// The inverse: masks, and `doublings` rotations of each result by multiples of `stride`.
    Unpack { to: usize, doublings: usize, stride: usize },
    /// Products of ciphertexts.
    Product { ciphertexts: usize },
    /// Sums of ciphertexts.
    Sum { ciphertexts: usize },
    /// Product of a plaintext matrix with module ciphertexts between the halves of a bootstrap.
    Module(OnCoefficients),
    /// Products of a plaintext matrix as polynomials with ciphertexts, between the halves of a bootstrap.
    Polynomials(OnCoefficients),
    /// Diagonals of a plaintext matrix; `encodings` of them are encoded.
    Slots { blocks: Blocks, stride: usize, encodings: usize },
    /// Products with the public and the private part of the cache.
    Attention(Attention),
}

/// A product on coefficients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct OnCoefficients {
    /// Ciphertexts of the argument.
    pub(super) input: Packing,
    /// Ciphertexts of all results together.
    pub(super) output: Packing,
    /// Rows and columns of the matrix.
    pub(super) matrix: (usize, usize),
    /// Tokens, a power of two.
    pub(super) tokens: usize,
    /// Whether the second half of the bootstrap follows. Without it, results are coefficients at level 0.
    pub(super) refreshed: bool,
}

/// A product with the cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Attention {
    /// Diagonals of the public part, made on the fly from `encodings` plaintexts.
    pub(super) public: Blocks,
    pub(super) encodings: usize,
    /// Ciphertexts of the argument whose rows are rotated for the private part.
    pub(super) rotated: usize,
    /// Ciphertexts of the private part of the cache.
    pub(super) cached: usize,
    /// Ciphertexts of the result for the private part.
    pub(super) results: usize,
    /// Rows of a tile.
    pub(super) rows: usize,
    /// Whether the tiles have several columns: then the tiles of the cache rotate, for a level and a mask.
    pub(super) columns: bool,
    /// Rotations that add tiles that share a ciphertext.
    pub(super) doublings: usize,
    /// Slots between neighbouring rows.
    pub(super) stride: usize,
}

impl Algorithm {
    /// Its name in reports.
    pub(super) fn name(&self) -> String {
        match self {
            Algorithm::SumSquares { .. } => "squares, rotations".into(),
            Algorithm::Polynomial { degree, .. } => format!("degree {degree}"),
            Algorithm::Slim { degree, .. } => format!("degree {degree}, slim"),
            Algorithm::Pack { .. } => "masks".into(),
            Algorithm::Unpack { .. } => "masks, rotations".into(),
            Algorithm::Product { .. } => "products".into(),
            Algorithm::Sum { .. } => "sums".into(),
            Algorithm::Module(_) => "PCMM on coefficients".into(),
            Algorithm::Polynomials(_) => "polynomials on coefficients".into(),
            Algorithm::Slots { .. } => "diagonals on slots".into(),
            Algorithm::Attention(part) if part.columns => "PCMM and CCMM on slots".into(),
            Algorithm::Attention(_) => "PCMv and CCMv on slots".into(),
        }
    }

    /// Lowest working level, and the level of the result. `entry` and `top` are the levels of a bootstrap.
    pub(super) fn levels(&self, entry: usize, top: usize) -> (usize, Landing) {
        let spent = match self {
            Algorithm::Sum { .. } => 0,
            Algorithm::Polynomial { degree, .. } | Algorithm::Slim { degree, .. } => depth(*degree),
            Algorithm::Module(product) | Algorithm::Polynomials(product) => {
                return (entry, Landing::At(if product.refreshed { top } else { 0 }));
            }
            _ => 1,
        };
        (spent, Landing::Below(spent))
    }

    /// Levels that the second input must be above the working level.
    pub(super) fn second_above(&self) -> usize {
        usize::from(matches!(self, Algorithm::Attention(part) if part.columns))
    }

    /// Its work at a working level.
    pub(super) fn work(&self, prices: &mut Prices, level: usize) -> Result<Work, CkksError> {
        let own = match self {
            &Algorithm::SumSquares { terms, results, doublings, .. } => {
                let (ring, basis) = (prices.parameters.ring(), prices.basis(level));
                let mut cost = Cost::tensor(ring, basis).times(terms as u64);
                cost += Cost::addition(ring, basis, 3).times((terms - results) as u64);
                cost += prices.relinearisation(level).times(results as u64);
                cost += prices.doublings(doublings * results, level - 1);
                cost
            }
            &Algorithm::Polynomial { degree, ciphertexts } => {
                prices.polynomial(degree, level)?.times(ciphertexts as u64)
            }
            &Algorithm::Slim { degree, ciphertexts, copies, .. } => {
                prices.slim(degree, copies, level)?.unwrap_or_default().times(ciphertexts as u64)
            }
            &Algorithm::Pack { from, to } => {
                let (ring, basis) = (prices.parameters.ring(), prices.basis(level));
                let mut cost = Cost::sum_of_products(ring, basis, from as u64);
                cost += prices.encodings(from, level, false);
                cost += prices.rescale(level).times(to as u64);
                cost
            }
            &Algorithm::Unpack { to, doublings, .. } => {
                let (ring, basis) = (prices.parameters.ring(), prices.basis(level));
                let mut cost = Cost::sum_of_products(ring, basis, to as u64);
                cost += prices.encodings(to, level, false);
                cost += prices.rescale(level).times(to as u64);
                cost += prices.doublings(doublings * to, level - 1);
                cost
            }
            &Algorithm::Product { ciphertexts } => prices.product(level).times(ciphertexts as u64),
            &Algorithm::Sum { ciphertexts } => {
                Cost::addition(prices.parameters.ring(), prices.basis(level), 2).times(ciphertexts as u64)
            }
            Algorithm::Module(product) => return product.work(prices, false),
            Algorithm::Polynomials(product) => return product.work(prices, true),
            &Algorithm::Slots { blocks, encodings, .. } => {
                let mut cost = prices.blocks(blocks, level, true).cost;
                cost += prices.encodings(encodings, level, true);
                cost
            }
            Algorithm::Attention(part) => part.cost(prices, level),
        };
        Ok(Work::of(own))
    }

    /// The keys of the algorithm at a working level, without the keys of bootstraps and of the small ring.
    pub(super) fn keys(&self, prices: &Prices, level: usize) -> KeyPlan {
        let (ring, mut keys) = (prices.parameters.ring(), KeyPlan::new());
        let mut rotate = |steps: usize, level: usize| {
            let basis = prices.parameters.basis(level);
            keys.require_over(KeyKind::Galois { element: galois::rotation(ring, steps as i64) }, basis);
        };
        let doubled = |doublings: usize, stride: usize| (0..doublings).map(move |k| stride << k);
        let below = || level - 1;
        match self {
            &Algorithm::SumSquares { doublings, stride, .. } => {
                doubled(doublings, stride).for_each(|steps| rotate(steps, below()));
                keys.require(KeyKind::Relinearisation, prices.parameters.chain(level));
            }
            Algorithm::Polynomial { .. } | Algorithm::Product { .. } => {
                keys.require(KeyKind::Relinearisation, prices.parameters.chain(level));
            }
            &Algorithm::Slim { degree, copies, stride, .. } => {
                let squares = (copies.max(1).ilog2() as usize).min(depth(degree));
                doubled(squares, stride).for_each(|steps| rotate(steps, below()));
                keys.require(KeyKind::Relinearisation, prices.parameters.chain(level));
            }
            &Algorithm::Unpack { doublings, stride, .. } => {
                doubled(doublings, stride).for_each(|steps| rotate(steps, below()));
            }
            &Algorithm::Slots { blocks, stride, .. } => {
                let babies = prices.blocks(blocks, level, true).babies;
                diagonal_steps(blocks, babies, stride).for_each(|steps| rotate(steps, level));
            }
            Algorithm::Attention(part) => {
                let babies = prices.blocks(part.public, level, false).babies;
                diagonal_steps(part.public, babies, part.stride).for_each(|steps| rotate(steps, level));
                (1..part.rows).for_each(|row| rotate(row * part.stride, level));
                doubled(part.doublings, part.rows * part.stride).for_each(|steps| rotate(steps, below()));
                if part.columns {
                    let both = (1..part.rows).flat_map(|step| [step, prices.parameters.slots() - step]);
                    both.for_each(|steps| rotate(steps, level + 1));
                }
                keys.require(KeyKind::Relinearisation, prices.parameters.chain(level));
            }
            Algorithm::Pack { .. } | Algorithm::Sum { .. } | Algorithm::Module(_) | Algorithm::Polynomials(_) => {}
        }
        keys
    }

    /// The product on coefficients, if it is one.
    pub(super) fn product(&self) -> Option<&OnCoefficients> {
        match self {
            Algorithm::Module(product) | Algorithm::Polynomials(product) => Some(product),
            _ => None,
        }
    }

    /// Number of its keys in the small ring, of degree `small`: for each component secret of module ciphertexts, or for
    /// the automorphisms that pack results.
    pub(super) fn small_keys(&self, small: usize) -> usize {
        match self {
            Algorithm::Module(product) => small / product.tokens,
            Algorithm::Polynomials(product) => (small / product.tokens).ilog2() as usize,
            _ => 0,
        }
    }
}

/// Rotations of a block matrix.
fn diagonal_steps(blocks: Blocks, babies: usize, stride: usize) -> impl Iterator<Item = usize> {
    let giant = (blocks.diagonals > babies).then_some(babies);
    (1..babies).chain(giant).map(move |steps| steps * stride)
}

impl OnCoefficients {
    /// `polynomials` says whether the weights are polynomials.
    fn work(&self, prices: &mut Prices, polynomials: bool) -> Result<Work, CkksError> {
        let mut work = prices.first_halves(self.input)?;
        let results = (self.output.ciphertexts as u64).div_ceil(2);
        // To the small ring and back.
        work.own += prices.ring_switch().times(work.first_halves + results);
        let small = if polynomials { self.polynomials(prices) } else { self.module(prices) };
        work.own += small.own;
        work.small_key_switches += small.small_key_switches;
        work.multiply_adds += small.multiply_adds;
        if self.refreshed {
            work += prices.second_halves(self.output)?;
        }
        Ok(work)
    }

    /// The matrix times module ciphertexts of degree `tokens` (Bae, Cheon, Hanrot, Park and Stehlé, CRYPTO 2024): two
    /// integer products modulo each prime, and one small key switch for each row.
    fn module(&self, prices: &Prices) -> Work {
        let (rows, columns) = self.matrix;
        let macs = rows * columns * (prices.small_degree + self.tokens) * prices.limbs(0);
        let mut own = prices.small_switches(rows);
        own.matrix_macs = macs as u64;
        Work { own, small_key_switches: rows as u64, multiply_adds: macs as u64, ..Work::default() }
    }

    /// The matrix as polynomials of the small ring, each with the weights of `degree / tokens` columns in one row: a
    /// product has the sums of all tokens, `degree / tokens` coefficients apart. Weights are transformed on the fly.
    /// Key switches pack the results: one for each row, or about `2 sqrt(polynomials)` for one token (He et al.,
    /// "Rhombus", CCS 2024).
    fn polynomials(&self, prices: &Prices) -> Work {
        let (rows, columns) = self.matrix;
        let (degree, primes) = (prices.small_degree, prices.limbs(0));
        let count = rows * (columns * self.tokens).div_ceil(degree);
        let packed = 2 * (count as f64).sqrt().ceil() as usize;
        let switches = if self.tokens == 1 { packed.min(rows) } else { rows };
        let mut own = prices.small_switches(switches);
        own.limb_transforms += prices.small_transforms(count * primes);
        let macs = (2 * count * degree * primes) as u64;
        own.residue_macs += macs;
        Work { own, small_key_switches: switches as u64, multiply_adds: macs, ..Work::default() }
    }
}

/// Bytes of a weight in memory: an integer of 12 bits, sign included, in 16.
pub(super) const WEIGHT_BYTES: usize = 2;

impl Attention {
    fn cost(&self, prices: &Prices, level: usize) -> Cost {
        let (ring, basis) = (prices.parameters.ring(), prices.basis(level));
        let mut cost = Cost::default();
        if self.public.products > 0 {
            cost += prices.blocks(self.public, level, false).cost;
            cost += prices.encodings(self.encodings, level, true);
        }
        let turns = self.rows as u64 - 1;
        if self.columns {
            // Jiang, Kim, Lauter and Song (CCS 2018): each column rotation is two rotations and two masks.
            let above = prices.basis(level + 1);
            let mut turned = Cost::hoisted_rotations(ring, above, 2 * turns);
            turned += Cost::sum_of_products(ring, above, 2 * turns + 1);
            turned += prices.rescale(level + 1).times(turns + 1);
            cost += turned.times(self.cached as u64);
            cost += prices.encodings(2 * self.rows, level + 1, false);
        }
        cost += Cost::hoisted_rotations(ring, basis, turns).times(self.rotated as u64);
        let mut products = Cost::tensor(ring, basis);
        products += Cost::addition(ring, basis, 3);
        cost += products.times((self.cached * self.rows) as u64);
        cost += prices.relinearisation(level).times(self.results as u64);
        cost += prices.doublings(self.doublings * self.results, level - 1);
        cost
    }
}
