//! Rache: sums of cached encryptions of powers of a radix.

use std::fmt;

use unspoken_ring::SecretRng;
use unspoken_rlwe::Ciphertext;

use crate::error::AuditError;
use crate::insecure_reproduction::vanilla::Vanilla;
use crate::space::{MessageSpace, Scheme};

/// Radix and number of pivots of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RacheShape {
    /// The radix, 2 or more.
    pub radix: u64,
    /// The number of pivots, 1 or more.
    pub pivots: usize,
}

impl RacheShape {
    /// The shapes of the papers, as far as a scheme can hold their largest power.
    pub fn published(scheme: Scheme) -> &'static [RacheShape] {
        match scheme {
            Scheme::Ckks => &PUBLISHED,
            Scheme::Bfv | Scheme::Bgv => &EXACT,
        }
    }

    /// The first number that it cannot encrypt, or 2^64.
    pub fn limit(self) -> u128 {
        (0..self.pivots).fold(1, |power: u128, _| power.saturating_mul(u128::from(self.radix)).min(1 << 64))
    }
}

impl fmt::Display for RacheShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "radix {}, {} pivots", self.radix, self.pivots)
    }
}

const fn shape(radix: u64, pivots: usize) -> RacheShape {
    RacheShape { radix, pivots }
}

/// In CKKS: 2^55 6^24 is the largest number that can be encoded.
const PUBLISHED: [RacheShape; 9] = [
    shape(2, 4),
    shape(2, 8),
    shape(2, 16),
    shape(2, 32),
    shape(2, 64),
    shape(6, 4),
    shape(6, 8),
    shape(6, 16),
    shape(6, 24),
];

/// In BFV and BGV, whose numbers have 17 bits.
const EXACT: [RacheShape; 5] = [shape(2, 4), shape(2, 8), shape(2, 16), shape(6, 4), shape(6, 6)];

/// The batch form, with every pivot encrypted in advance. It encrypts integers below `radix^pivots`, each in its own
/// ciphertext and in all slots. Broken: [`Span`](crate::attack::Span) recovers every message from a few known ones.
pub struct Rache {
    space: MessageSpace,
    radix: u64,
    /// `Enc(radix^i)`.
    pivots: Vec<Ciphertext>,
}

impl Rache {
    /// Precomputation: `Enc(1), Enc(radix), ..., Enc(radix^(pivots - 1))`.
    ///
    /// # Errors
    /// If the radix is below 2, there are no pivots, or a power does not fit the message space.
    pub fn new(vanilla: &Vanilla, shape: RacheShape, rng: &mut SecretRng) -> Result<Self, AuditError> {
        const OPERATION: &str = "cache pivots";
        let RacheShape { radix, pivots } = shape;
        let space = vanilla.space().clone();
        if radix < 2 || pivots == 0 {
            let (found, needed) =
                (format!("{pivots} pivots of radix {radix}"), "at least one, of radix 2 or more".into());
            return Err(AuditError::Range { operation: OPERATION, found, needed });
        }
        let pivot = |i: usize| vanilla.encrypt(&space.encode(&[(radix as f64).powi(i as i32)])?, rng);
        let pivots = (0..pivots).map(pivot).collect::<Result<_, _>>()?;
        Ok(Rache { space, radix, pivots })
    }

    /// Construction: adds each pivot as often as the value's digit says. Randomisation: for every pivot but the
    /// lowest, tosses a coin; on heads it adds that pivot once and subtracts the next lower one `radix` times.
    ///
    /// # Errors
    /// If the value has more digits than there are pivots.
    pub fn encrypt(&self, value: u64, rng: &mut SecretRng) -> Result<Ciphertext, AuditError> {
        let mut sum = Ciphertext::zero(self.space.ring(), self.space.basis());
        let mut rest = value;
        for pivot in &self.pivots {
            for _ in 0..rest % self.radix {
                self.add(&mut sum, pivot)?;
            }
            rest /= self.radix;
        }
        if rest > 0 {
            let needed = format!("values below {}^{}", self.radix, self.pivots.len());
            return Err(AuditError::Range { operation: "encrypt with Rache", found: value.to_string(), needed });
        }
        let mut coins = vec![0u8; self.pivots.len() - 1];
        rng.fill(&mut coins);
        for (pair, coin) in self.pivots.windows(2).zip(coins) {
            if coin & 1 == 1 {
                self.add(&mut sum, &pair[1])?;
                for _ in 0..self.radix {
                    self.subtract(&mut sum, &pair[0])?;
                }
            }
        }
        Ok(sum)
    }

    fn add(&self, sum: &mut Ciphertext, pivot: &Ciphertext) -> Result<(), AuditError> {
        for (sum, pivot) in sum.components_mut().iter_mut().zip(pivot.components()) {
            self.space.ring().add_assign(sum, pivot)?;
        }
        Ok(())
    }

    fn subtract(&self, sum: &mut Ciphertext, pivot: &Ciphertext) -> Result<(), AuditError> {
        for (sum, pivot) in sum.components_mut().iter_mut().zip(pivot.components()) {
            self.space.ring().sub_assign(sum, pivot)?;
        }
        Ok(())
    }
}
