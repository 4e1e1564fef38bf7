//! Division by a set of primes with rounding: rescaling, division by the special primes, and both at once; and the same
//! after a multiplication by other primes, so that a modulus may shrink by any ratio (rational rescaling).
//!
//! Let `D = prod d_k` be the product of the dropped primes, and `x` an integer over the dropped and the kept primes.
//! Then `round(x / D)` is `(x - [x]_D) / D` with the centred remainder `[x]_D`. The remainder is reconstructed modulo
//! each kept prime from `z_k = x (D/d_k)^-1 mod d_k` as `sum_k z_k (D/d_k) - v D`, where `v = round(sum_k z_k / d_k)`
//! counts the overflow (Halevi, Polyakov and Shoup, "An improved RNS variant of the BFV scheme", 2019, section 2.2).
//! `v` is computed in fixed point. It can be off by one only if `[x]_D / D` is within `sum_k z_k / 2^shift`, at most
//! 2^-13 if the dropped primes are above 2^18, of one half, where both roundings are equally good.
//!
//! With a factor `U` of new primes, `round(U x / D)` is `(U x - [U x]_D) / D`. Modulo a kept prime this is
//! `(x - U^-1 [U x]_D) U / D`, and modulo a new prime, where `U x` is zero, `-[U x]_D / D`: no more work than without.

use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;
use unspoken_device::Device;

use crate::basis::{Basis, Domain};
use crate::device::tables::Exact;
use crate::division_table::{DivisionTable, ExactConversion, KeptPrime, SourcePrime};
use crate::error::RingError;
use crate::kernels::ConversionTarget;
use crate::memory::Words;
use crate::modular::{Modulus, Shoup};
use crate::poly::{Poly, in_blocks};
use crate::ring::{MAX_DROPPED, Ring, cached};

/// Number of kept primes that are converted, transformed and combined together, so that their limbs stay in the cache.
const TILE: usize = 4;

impl ExactConversion {
    /// The conversion from the primes `sources` of the basis `from` to the primes `targets`, after a multiplication by
    /// the primes `factor`. Modulo a target of `from` the result is divided by the factor again.
    fn new(ring: &Ring, from: Basis, sources: &[usize], targets: &[usize], factor: &[usize]) -> Self {
        let smallest = sources.iter().map(|&i| ring.modulus(i).q).min().unwrap_or(2);
        // Reciprocals are below 2^32. Terms are below 2^59, so that a sum of eighteen fits 64 bits.
        let shift = (31 + smallest.ilog2()).min(59);
        let source = |&prime: &usize| {
            let limb = ring.prime_indices(from).position(|i| i == prime).unwrap_or(0);
            let (modulus, scale) = (ring.modulus(prime), digit_scale(ring, prime, sources));
            let product = product_mod(ring, modulus, factor.iter().copied());
            SourcePrime { prime, limb, scale: modulus.shoup(modulus.mul(scale.value, product)) }
        };
        let target = |&prime: &usize| {
            let modulus = *ring.modulus(prime);
            let mut target = conversion_target(ring, prime, sources);
            let whole = modulus.mul(product_mod(ring, &modulus, sources.iter().copied()), modulus.r2);
            target.factors.push(modulus.neg(whole));
            if !factor.contains(&prime) {
                let inverse = modulus.inv(product_mod(ring, &modulus, factor.iter().copied()));
                target.factors.iter_mut().for_each(|value| *value = modulus.mul(*value, inverse));
            }
            target
        };
        ExactConversion {
            sources: sources.iter().map(source).collect(),
            shift,
            reciprocals: sources.iter().map(|&i| ((1u64 << shift) / u64::from(ring.modulus(i).q)) as u32).collect(),
            targets: targets.iter().map(target).collect(),
        }
    }

    /// One limb of plain digits per source prime, and one limb of the overflow count, a stride apart.
    fn digits(&self, ring: &Ring, poly: &Poly) -> Words {
        let (n, stride, sources) = (ring.degree(), ring.stride(), self.sources.len());
        let mut digits = ring.scratch((sources + 1) * stride, poly.is_secret());
        digits[..sources * stride].par_chunks_mut(stride).zip(&self.sources).for_each(|(digit, source)| {
            let (limb, digit) = (poly.limb(source.limb), &mut digit[..n]);
            ring.kernels().ntt_inverse_from(ring.table(source.prime), limb, digit, source.scale);
            ring.unfold(source.prime, digit);
        });
        let (values, overflow) = digits.split_at_mut(sources * stride);
        let limbs: Vec<&[u32]> = values.chunks_exact(stride).map(|d| &d[..n]).collect();
        ring.kernels().quotient(&limbs, &self.reciprocals, self.shift, &mut overflow[..n]);
        digits
    }
}

impl DivisionTable {
    /// The constants of the division from one basis to another.
    fn new(ring: &Ring, from: Basis, to: Basis) -> Self {
        let from_primes: Vec<usize> = ring.prime_indices(from).collect();
        let to_primes: Vec<usize> = ring.prime_indices(to).collect();
        let dropped: Vec<usize> = from_primes.iter().copied().filter(|i| !to_primes.contains(i)).collect();
        let new: Vec<usize> = to_primes.iter().copied().filter(|i| !from_primes.contains(i)).collect();
        let keep = |&prime: &usize| {
            let modulus = ring.modulus(prime);
            let inverse = modulus.inv(product_mod(ring, modulus, dropped.iter().copied()));
            let limb = from_primes.iter().position(|&i| i == prime);
            let factor = limb.map_or(1, |_| product_mod(ring, modulus, new.iter().copied()));
            KeptPrime { prime, limb, inverse: modulus.shoup(modulus.mul(inverse, factor)) }
        };
        DivisionTable {
            kept: to_primes.iter().map(keep).collect(),
            remainder: ExactConversion::new(ring, from, &dropped, &to_primes, &new),
        }
    }
}

/// `(D/d)^-1 / (n R) mod d`: the factor of the inverse transform that gives the digit as plain residues.
pub(crate) fn digit_scale(ring: &Ring, prime: usize, digit: &[usize]) -> Shoup {
    let table = ring.table(prime);
    let modulus = &table.modulus;
    let others = product_mod(ring, modulus, digit.iter().copied().filter(|&i| i != prime));
    let scale = modulus.mul(modulus.inv(others), table.degree_inverse);
    modulus.shoup(modulus.from_montgomery(scale))
}

/// Factors `(D/d) R^2 mod q` that convert plain digits to Montgomery form modulo the prime with index `prime`.
pub(crate) fn conversion_target(ring: &Ring, prime: usize, digit: &[usize]) -> ConversionTarget {
    let modulus = *ring.modulus(prime);
    let factor = |d: &usize| {
        let others = product_mod(ring, &modulus, digit.iter().copied().filter(|i| i != d));
        modulus.mul(others, modulus.r2)
    };
    ConversionTarget { modulus, offset: 0, factors: digit.iter().map(factor).collect() }
}

pub(crate) fn product_mod(ring: &Ring, modulus: &Modulus, primes: impl Iterator<Item = usize>) -> u32 {
    primes.fold(1, |product, i| modulus.mul(product, ring.modulus(i).q % modulus.q))
}

impl Ring {
    /// `round(poly / D)` over the smaller basis `to`, where `D` is the product of the primes of `poly` that are not in
    /// `to`. Evaluation domain in and out.
    ///
    /// If `to` lacks the special primes, the polynomial is divided by them. If `to` lacks the last chain primes, the
    /// polynomial is rescaled. Both together cost one division.
    ///
    /// # Errors
    /// If `to` is not a sub-basis, or more than 18 primes would be dropped.
    pub fn divide_round(&self, poly: &Poly, to: Basis) -> Result<Poly, RingError> {
        if !poly.basis().contains(to) {
            return Err(RingError::Basis { operation: "divide and round", found: poly.basis(), needed: to });
        }
        self.rescale_round(poly, to)
    }

    /// `round(poly U / D)` over `to`, where `U` is the product of the primes of `to` that are not in the basis of
    /// `poly`, and `D` is the product of the primes of `poly` that are not in `to`: the modulus changes by the rational
    /// number `U / D`. Evaluation domain in and out.
    ///
    /// # Errors
    /// If `to` has special primes that `poly` lacks, or no prime of the chain, or more than the ring; if nothing is
    /// dropped but primes are new, or more than 18 primes would be dropped.
    pub fn rescale_round(&self, poly: &Poly, to: Basis) -> Result<Poly, RingError> {
        const OPERATION: &str = "divide and round";
        self.check_domain(OPERATION, poly, Domain::Evaluation)?;
        let from = poly.basis();
        if from == to {
            return Ok(poly.clone());
        }
        let surplus = |a: Basis, b: Basis| a.chain.saturating_sub(b.chain) + a.terminal.saturating_sub(b.terminal);
        let special = self.special_primes(from).len().saturating_sub(self.special_primes(to).len());
        let dropped = surplus(from, to) + special;
        let exists = to.chain >= 1 && to.chain <= self.chain().len() && to.terminal <= self.terminal().len();
        if !exists || to.special > from.special || !(1..=MAX_DROPPED).contains(&dropped) {
            return Err(RingError::Basis { operation: OPERATION, found: from, needed: to });
        }
        if let Some(on) = self.on() {
            return on.rescale(self, poly, to);
        }
        let table = self.division(from, to);
        let (n, stride) = (self.degree(), self.stride());
        let digits = table.remainder.digits(self, poly);
        let limbs: Vec<&[u32]> = digits.chunks_exact(stride).map(|d| &d[..n]).collect();

        let mut result = self.blank_from(&[poly], to, Domain::Evaluation);
        let tiles = result.words.par_chunks_mut(TILE * stride).zip(table.kept.par_chunks(TILE));
        tiles.zip(table.remainder.targets.par_chunks(TILE)).for_each(|((out, kept), targets)| {
            let mut remainders = self.scratch(kept.len() * stride, poly.is_secret());
            let mut outputs: Vec<&mut [u32]> = remainders.chunks_exact_mut(stride).map(|r| &mut r[..n]).collect();
            self.kernels().convert(&limbs, targets, &mut outputs);
            for ((kept, remainder), out) in kept.iter().zip(outputs).zip(out.chunks_exact_mut(stride)) {
                self.forward(kept.prime, &mut [remainder]);
                let (out, modulus) = (&mut out[..n], self.modulus(kept.prime));
                let divide = |out: &mut [u32], block: Range<usize>| {
                    self.kernels().sub_scale_assign(modulus, out, &remainder[block], kept.inverse);
                };
                match kept.limb {
                    Some(limb) => in_blocks(out, poly.limb(limb), divide),
                    None => {
                        out.fill(0);
                        divide(out, 0..n);
                    }
                }
            }
        });
        Ok(result)
    }

    /// The constants of a division.
    pub(crate) fn division(&self, from: Basis, to: Basis) -> Arc<DivisionTable> {
        let make = || Ok::<_, Infallible>(DivisionTable::new(self, from, to));
        let Ok(table) = cached(&self.caches().divisions, (from, to), make);
        table
    }

    /// The same integer coefficients, centred, over a larger basis (exact basis extension). Evaluation domain in and
    /// out.
    ///
    /// # Errors
    /// If `to` does not contain the polynomial's basis, or the polynomial's basis has more than 18 primes.
    pub fn extend_basis(&self, poly: &Poly, to: Basis) -> Result<Poly, RingError> {
        const OPERATION: &str = "extend the basis";
        self.check_domain(OPERATION, poly, Domain::Evaluation)?;
        let from = poly.basis();
        let exists = to.chain <= self.chain().len() && to.terminal <= self.terminal().len();
        let contained = exists && to.contains(from);
        if !contained || self.limb_count(from) > MAX_DROPPED {
            return Err(RingError::Basis { operation: OPERATION, found: from, needed: to });
        }
        if let Some(on) = self.on() {
            return on.extend(self, poly, to);
        }
        let own: Vec<usize> = self.prime_indices(from).collect();
        let new: Vec<usize> = self.prime_indices(to).filter(|i| !own.contains(i)).collect();
        let conversion = ExactConversion::new(self, from, &own, &new, &[]);
        let (n, stride) = (self.degree(), self.stride());
        let digits = conversion.digits(self, poly);
        let limbs: Vec<&[u32]> = digits.chunks_exact(stride).map(|d| &d[..n]).collect();
        let mut result = self.blank_from(&[poly], to, Domain::Evaluation);
        self.for_each_limb(&mut result, |_, prime, limb| match own.iter().position(|&i| i == prime) {
            Some(source) => limb.copy_from_slice(poly.limb(source)),
            None => {
                let target = new.iter().position(|&i| i == prime).unwrap_or(0);
                self.kernels().convert(&limbs, &conversion.targets[target..=target], &mut [&mut *limb]);
                self.forward(prime, &mut [limb]);
            }
        });
        Ok(result)
    }

    /// The extension of a basis, for a device. It converts to the primes of the polynomial, too, where it changes
    /// nothing.
    pub(crate) fn extension_on(&self, from: Basis, to: Basis, device: &Device) -> Result<Exact, RingError> {
        let [own, all] = [from, to].map(|basis| self.prime_indices(basis).collect::<Vec<usize>>());
        ExactConversion::new(self, from, &own, &all, &[]).on_device(device)
    }
}
